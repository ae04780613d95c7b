"""What is to be installed: names of recipes and files become wheels with what they demand.

What enters: the words of the command line, then one request a recipe. What leaves: a
:class:`Wish` each. Recipes that say which versions go together are asked before anything is made.
"""

from __future__ import annotations

import dataclasses
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from buildkit.cache import look_up
from buildkit.errors import InstallError, Location, RequestError
from buildkit.install.claims import Claim, public
from buildkit.make import draft, make
from buildkit.recipe import find_recipe, read_recipe, version_of
from buildkit.wheels import read_wheel

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from buildkit.kit import Kit
    from buildkit.make import Drafted
    from buildkit.recipe.model import Recipe
    from buildkit.request import Request

__all__ = [
    "Asked",
    "Wish",
    "draft_all",
    "fulfil",
    "paired",
    "parse_names",
    "published",
    "wish_of_file",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A word of the command line."""

    recipe: str = ""
    version: str | None = None
    wheel: Path | None = None
    """A file, instead of a recipe."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """A distribution that is to be installed, from a wheel on this machine."""

    project: str
    """Normalised."""
    version: str
    wheel: Path | None
    """None where it would have to be made, and only is told, and for published ones."""
    requires: tuple[str, ...] = ()
    torch: str = ""
    """The version of torch that it was built for, if it works with no other."""
    imports: tuple[str, ...] = ()
    """Modules that must import; none for a file, of which no recipe says so."""
    needs_gpu: bool = False
    """Some of them may import nowhere else."""
    is_cached: bool = True
    """Whether nothing was made for it."""
    is_published: bool = False
    """Whether the wheel of the package index is taken."""

    def __str__(self) -> str:
        return f"{self.project} {self.version}"

    @property
    def torch_claim(self) -> Claim | None:
        """The demand for its torch."""
        if not self.torch:
            return None
        return Claim(owner=str(self), project="torch", specifier=f"=={self.torch}")


def parse_names(names: Iterable[str], version: str | None) -> tuple[Asked, ...]:
    """Return what words ask for: ``NAME``, ``NAME==V``, or the path of a wheel.

    :param version: For the one recipe among them.
    :raises RequestError: if it is not clear what is meant.
    """
    where = Location(file="command line")
    asked = []
    for word in names:
        if word.endswith(".whl"):
            asked.append(Asked(wheel=Path(word)))
            continue
        name, _, chosen = word.partition("==")
        if not name or ("==" in word and not chosen):
            raise RequestError(
                f"Found {word!r}, allowed NAME, NAME==VERSION or the path of a wheel.",
                where=where,
                remedy="Correct it; `buildkit list` names the recipes.",
            )
        asked.append(Asked(recipe=name, version=chosen or None))
    recipes = [item.recipe for item in asked if item.recipe]
    twice = sorted({name for name in recipes if recipes.count(name) > 1})
    if twice:
        raise RequestError(
            f"{twice[0]} was named twice.", where=where, remedy="Leave one of them away."
        )
    if version is None:
        return tuple(asked)
    if len(recipes) != 1 or any(item.version for item in asked):
        raise RequestError(
            f"It is not clear of what {version} is the version.",
            where=Location(file="command line", key="--version"),
            remedy="Write NAME==VERSION.",
        )
    return tuple(
        dataclasses.replace(item, version=version) if item.recipe else item for item in asked
    )


def paired(requests: Sequence[Request], kit: Kit) -> tuple[Request, ...]:
    """Return requests with the versions that go together, where recipes say which do.

    :raises RequestError: if versions were named that do not.
    """
    recipes = {
        item.recipe: read_recipe(find_recipe(item.recipe, kit.recipe_folders)) for item in requests
    }
    chosen = {item.recipe: item.version for item in requests}
    for name, recipe in recipes.items():
        partners = {
            partner
            for version in recipe.versions
            for partner in version.goes_with
            if partner in recipes
        }
        if partners:
            chosen |= _match(name, recipe, partners, chosen)
        for partner, version in version_of(recipe, chosen[name]).goes_with.items():
            if partner not in recipes:
                own = chosen[name] or recipe.default_version
                kit.events.warning(
                    f"{name} {own} goes with {partner} {version}, which was not named:"
                    " what the package index has of it is taken."
                )
    return tuple(dataclasses.replace(item, version=chosen[item.recipe]) for item in requests)


def _match(
    name: str, recipe: Recipe, partners: set[str], chosen: dict[str, str | None]
) -> dict[str, str | None]:
    """Return the versions of a recipe and of its partners that go together."""
    wanted = chosen[name]
    known = sorted(recipe.versions, key=lambda item: item.version != recipe.default_version)
    for item in known:
        if wanted not in (None, item.version):
            continue
        fits = {partner: item.goes_with.get(partner) for partner in partners}
        if all(chosen[partner] in (None, fits[partner]) for partner in partners):
            return {name: item.version, **fits}
    told = "; ".join(
        f"{name} {item.version} with "
        + " and ".join(f"{partner} {version}" for partner, version in item.goes_with.items())
        for item in known
    )
    named = [f"{item} {chosen[item]}" for item in (name, *sorted(partners)) if chosen[item]]
    raise RequestError(
        f"Found {' and '.join(named)}, and these go together: {told}.",
        where=Location(file="command line"),
        remedy="Name a pair, or leave the versions away.",
    )


def published(requests: Iterable[Request], kit: Kit) -> tuple[list[Request], list[Wish]]:
    """Return the requests for what has to be made, and wishes for what the index has."""
    from packaging.utils import canonicalize_name

    made, found = [], []
    for request in requests:
        recipe = read_recipe(find_recipe(request.recipe, kit.recipe_folders))
        version = version_of(recipe, request.version)
        if not version.published:
            made.append(request)
            continue
        found.append(
            Wish(
                project=str(canonicalize_name(version.project or recipe.project or recipe.name)),
                version=version.version,
                wheel=None,
                imports=(*recipe.verify.imports, *recipe.installed_imports),
                needs_gpu=recipe.verify.needs_gpu,
                is_published=True,
            )
        )
    return made, found


def draft_all(requests: Iterable[Request], kit: Kit) -> tuple[tuple[Request, Drafted], ...]:
    """Return the plan for each request, which builds nothing.

    :raises InstallError: if two of them were to be built for different releases of torch.
    """
    found = tuple((request, draft(request, kit)) for request in requests)
    bound = [
        (drafted.plan, torch) for _, drafted in found if (torch := _torch(drafted)) is not None
    ]
    for plan, torch in bound[1:]:
        first, other = bound[0]
        if public(other) != public(torch):
            raise InstallError(
                f"{first.recipe} {first.version} is built for torch {other}, and"
                f" {plan.recipe} {plan.version} for torch {torch}.",
                where=Location(file="command line"),
                remedy="Choose versions that go together, or build both for one with --with"
                " torch==V.",
            )
    return found


def fulfil(
    drafts: Iterable[tuple[Request, Drafted]], kit: Kit, *, makes: bool, is_told: bool
) -> tuple[Wish, ...]:
    """Return the wheels of plans, from the cache or made now.

    :param makes: Make what the cache lacks.
    :param is_told: Make nothing; what the cache lacks has no wheel.
    :raises InstallError: if something is lacking and nothing may be made.
    :raises BuildkitError: of the stage of a make that failed.
    """
    found = []
    lacking = []
    for request, drafted in drafts:
        plan = drafted.plan
        entry = look_up(kit.paths, plan.recipe, plan.key, kit.holds)
        if entry is None:
            lacking.append(f"{plan.recipe} {plan.version} for {plan.arch.name}")
        found.append((request, drafted, entry))
    if lacking and not makes and not is_told:
        raise InstallError(
            f"The cache holds no wheel of {', '.join(lacking)}.",
            remedy="Leave --no-make away, or see with `buildkit plan ... --explain` what differs.",
        )
    wishes = []
    for request, drafted, entry in found:
        recipe = drafted.recipe
        wheel = entry.wheel if entry is not None else None
        if wheel is None and not is_told:
            kit.events.step("make", f"{drafted.plan.recipe} {drafted.plan.version}")
            with tempfile.TemporaryDirectory(prefix="buildkit-install-") as out:
                wheel = make(dataclasses.replace(request, out=Path(out)), kit).entry.wheel
        wish = _wish_of_plan(drafted) if wheel is None else wish_of_file(wheel)
        wishes.append(
            dataclasses.replace(
                wish,
                torch=_torch(drafted) or "",
                imports=(*recipe.verify.imports, *recipe.installed_imports),
                needs_gpu=recipe.verify.needs_gpu,
                is_cached=entry is not None,
            )
        )
    return tuple(wishes)


def wish_of_file(wheel: Path) -> Wish:
    """Return the wish for a wheel as it lies there.

    :raises VerifyError: if it is not sound, or not there.
    """
    from packaging.utils import canonicalize_name

    contents = read_wheel(wheel)
    return Wish(
        project=str(canonicalize_name(contents.name)),
        version=contents.version,
        wheel=wheel.absolute(),
        requires=contents.requires,
    )


def _wish_of_plan(drafted: Drafted) -> Wish:
    from packaging.utils import canonicalize_name

    from buildkit.wheels.rewrite import local_version

    plan = drafted.plan
    return Wish(
        project=str(canonicalize_name(plan.project)),
        version=local_version(plan.version, plan.local_version),
        wheel=None,
    )


def _torch(drafted: Drafted) -> str | None:
    """Return the torch that a wheel is built for, if it works with no other."""
    return drafted.plan.lock.versions.get("torch") if drafted.recipe.torch else None
