"""Which form of a page a client gets. Pure. Source: RFC 9110 section 12.5.1, PEP 691."""

from __future__ import annotations

from buildkit.wheelhouse.pages import HTML, JSON

__all__ = ["negotiate"]

#: The forms by each name that a client may give them.
_FORMS = {
    JSON: JSON,
    "application/vnd.pypi.simple.latest+json": JSON,
    HTML: HTML,
    "application/vnd.pypi.simple.latest+html": HTML,
    "text/html": "text/html",
}

#: Of forms that a client wants equally much, the first; who takes anything is a person's browser.
_EXACT = (JSON, "text/html", HTML)
_ANY = ("text/html", JSON, HTML)


def negotiate(accept: str) -> str | None:
    """Return the media type to answer with, or None if there is none that the client takes.

    >>> negotiate("application/vnd.pypi.simple.v1+json, text/html;q=0.1")
    'application/vnd.pypi.simple.v1+json'
    >>> negotiate("*/*"), negotiate("image/png")
    ('text/html', None)
    """
    wishes = [wish for wish in map(_parse, accept.split(",")) if wish is not None]
    if not wishes:
        return "text/html"
    best: tuple[float, int, int] | None = None
    chosen = None
    for name, form in _FORMS.items():
        quality, exactness = _quality(name, wishes)
        order = _EXACT if exactness == 2 else _ANY
        rank = (quality, exactness, -order.index(form))
        if quality > 0 and (best is None or rank > best):
            best, chosen = rank, form
    return chosen


def _parse(text: str) -> tuple[str, float] | None:
    """Return a media range and its quality; None for what is no media range."""
    kind, *parameters = (part.strip().lower() for part in text.split(";"))
    if "/" not in kind:
        return None
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip() == "q":
            try:
                return kind, min(max(float(value), 0.0), 1.0)
            except ValueError:
                return kind, 0.0
    return kind, 1.0


def _quality(name: str, wishes: list[tuple[str, float]]) -> tuple[float, int]:
    """Return the quality of the closest range that holds a name, and how close that is."""
    exactness = {name: 2, f"{name.partition('/')[0]}/*": 1, "*/*": 0}
    found = [(exactness[kind], quality) for kind, quality in wishes if kind in exactness]
    if not found:
        return 0.0, 0
    closest, quality = max(found)
    return quality, closest
