"""Each client gets the form that it asks for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from buildkit.wheelhouse.negotiate import negotiate
from buildkit.wheelhouse.pages import HTML, JSON


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        ("", "text/html"),
        ("*/*", "text/html"),
        ("text/*", "text/html"),
        (JSON, JSON),
        (f"{JSON}, {HTML}; q=0.1, text/html; q=0.01", JSON),  # pip
        (f"{JSON}, {HTML};q=0.2, text/html;q=0.01", JSON),  # uv
        ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", "text/html"),  # Firefox
        (f"{JSON};q=0.1, text/html", "text/html"),
        ("application/vnd.pypi.simple.latest+json", JSON),
        (HTML, HTML),
        (f"{JSON};q=0, */*", "text/html"),
        ("application/*", JSON),
        ("image/png", None),
        ("text/html;q=0", None),
        ("text/html;q=nonsense", None),
        ("nonsense", "text/html"),
        (f" {JSON.upper()} ; Q=1 ", JSON),
    ],
)
def test_the_form_that_is_wanted_most(accept, kind):
    assert negotiate(accept) == kind


@given(st.text())
def test_any_header_has_an_answer(accept):
    assert negotiate(accept) in (JSON, HTML, "text/html", None)
