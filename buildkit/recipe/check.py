"""What a recipe's values must satisfy beyond their types. Pure but for looks at files beside it.

:func:`check_recipe` serves reading (errors alone) and ``buildkit lint`` (warnings too). Each rule
yields issues with the path of the key that is wrong.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from buildkit.arch import parse_arch
from buildkit.errors import ArchError, nearest
from buildkit.recipe.catalogue import lock_file, settle
from buildkit.recipe.decode import Issue, decode_recipe, read_text
from buildkit.recipe.include import check_include
from buildkit.recipe.model import (
    ArchiveSource,
    BundledSource,
    GitSource,
    LocalSource,
    PypiSource,
    Source,
)
from buildkit.recipe.placeholders import check_placeholders
from buildkit.sizes import parse_size

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator
    from pathlib import Path

    from buildkit.recipe.locate import Part
    from buildkit.recipe.model import Recipe, Version

__all__ = ["RESERVED", "check_recipe", "is_version", "lint_recipe"]

_NAME = re.compile(r"[a-z0-9]([a-z0-9._-]*[a-z0-9])?")
_PATCH_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_DEFINE = re.compile(r"[A-Za-z_][A-Za-z0-9_.+-]*")
_CODE = re.compile(r"(sm|compute)_\d{2,3}[af]?")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_COMMIT = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")
_GIT_URL = re.compile(r"(https|http|ssh|git|file)://[^\s]+|[\w.-]+@[\w.-]+:[^\s]+|\.{0,2}/[^\s].*")

#: The common forms; anything else is left to the ``packaging`` library, whose import is dear.
_PLAIN_VERSION = re.compile(r"\d+(\.\d+)*((a|b|rc)\d+)?(\.post\d+)?(\.dev\d+)?(\+[a-z0-9.]+)?")
_CLAUSE = r"(==|!=|>=|<=|<|>|~=)\s*\d+(\.\d+)*(\.\*|((a|b|rc|\.post|\.dev)\d+)+)?"
_PLAIN_RANGE = re.compile(rf"({_CLAUSE})(\s*,\s*{_CLAUSE})*")
_PLAIN_REQUIREMENT = re.compile(
    rf"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?\s*({_CLAUSE}(\s*,\s*{_CLAUSE})*)?"
)

#: Variables that the kit sets itself; a recipe that set them would take the build apart.
RESERVED = (
    "BK_LAUNCH_CONFIG",
    "CC",
    "CUDACXX",
    "CUDA_HOME",
    "CUDA_PATH",
    "CXX",
    "HOME",
    "LD_LIBRARY_PATH",
    "LD_PRELOAD",
    "PATH",
    "PYTHONHOME",
    "PYTHONPATH",
    "PYTORCH_NVCC",
    "SOURCE_DATE_EPOCH",
    "TMPDIR",
    "VIRTUAL_ENV",
)


def check_recipe(recipe: Recipe, file: Path) -> Iterator[Issue]:
    """Yield everything that is wrong or doubtful in a recipe that has the right shape."""
    yield from _check_identity(recipe, file)
    yield from _check_targets(recipe)
    yield from _check_versions(recipe)
    yield from _check_build(recipe)
    yield from _check_ranges(recipe)
    yield from _check_verify(recipe)
    yield from _check_files(recipe, file)


def _check_identity(recipe: Recipe, file: Path) -> Iterator[Issue]:
    if not _NAME.fullmatch(recipe.name):
        yield Issue(
            path=("name",),
            text=f"Found {recipe.name!r}, allowed lower-case letters, digits, '.', '_' and '-'.",
        )
    if recipe.name != file.stem:
        yield Issue(
            path=("name",),
            text=f"Found {recipe.name!r} in a file named {file.name!r}.",
            remedy="Make the two agree.",
        )
    is_ours = all(isinstance(one.source, BundledSource) for one in recipe.versions)
    if not recipe.homepage and not is_ours:
        yield Issue(path=("homepage",), text="There is no homepage.", is_error=False)


def _check_targets(recipe: Recipe) -> Iterator[Issue]:
    known = set()
    for number, name in enumerate(recipe.architectures):
        arch = yield from _arch(name, ("architectures", number))
        known |= {arch}
    if not recipe.architectures:
        yield Issue(path=("architectures",), text="Found no GPU target, allowed one or more.")
    for name, settings in recipe.arch.items():
        if name not in known:
            yield Issue(
                path=("arch", name),
                text=f"Found settings for {name!r}, allowed {', '.join(recipe.architectures)}."
                f"{nearest(name, recipe.architectures)}",
            )
        if settings.code:
            yield from _arch(settings.code, ("arch", name, "code"))
        yield from _check_names(settings.defines, ("arch", name, "defines"), _DEFINE)
        yield from _check_environment(settings.environment, ("arch", name, "environment"))
    for number, name in enumerate(recipe.verify.allow_code):
        if not _CODE.fullmatch(name):
            yield Issue(
                path=("verify", "allow-code", number),
                text=f"Found {name!r}, allowed the name of GPU code such as sm_80 or compute_90.",
            )


def _arch(name: str, path: tuple[Part, ...]) -> Generator[Issue, None, str]:
    """Check one target's name; the generator's value is its canonical name."""
    try:
        return parse_arch(name).name
    except ArchError as error:
        yield Issue(path=path, text=error.what, remedy=error.remedy)
    return name


def _check_versions(recipe: Recipe) -> Iterator[Issue]:
    seen: set[str] = set()
    for number, version in enumerate(recipe.versions):
        path: tuple[Part, ...] = ("versions", number)
        if not _PLAIN_VERSION.fullmatch(version.version) and not is_version(version.version):
            yield Issue(
                path=(*path, "version"),
                text=f"Found {version.version!r}, allowed a PEP 440 version such as 1.7.0.",
            )
        if version.version in seen:
            yield Issue(
                path=(*path, "version"), text=f"Version {version.version} stands here twice."
            )
        seen.add(version.version)
        yield from _check_version(version, path)
        yield from check_placeholders(recipe, version, number)
    if recipe.default_version not in seen:
        yield Issue(
            path=("default-version",),
            text=f"Found {recipe.default_version!r}, allowed one of the versions:"
            f" {', '.join(seen)}.{nearest(recipe.default_version, seen)}",
        )


def _check_version(version: Version, path: tuple[Part, ...]) -> Iterator[Issue]:
    yield from _check_names(version.defines, (*path, "defines"), _DEFINE)
    for place, requirement in enumerate(version.requires):
        yield from _check_requirement(requirement, (*path, "requires", place))
    if not version.published:
        yield from _check_source(version.source, (*path, "source"))
    for name, source in version.sources.items():
        yield from _check_source(source, (*path, "sources", name))
        if not _PATCH_NAME.fullmatch(name):
            yield Issue(
                path=(*path, "sources", name),
                text=f"Found {name!r}, allowed letters, digits, '.', '_' and '-'.",
            )
    for place, patch in enumerate(version.patches):
        if not _PATCH_NAME.fullmatch(patch):
            yield Issue(
                path=(*path, "patches", place),
                text=f"Found {patch!r}, allowed the name of a patch, without directories.",
            )
    for partner, text in version.goes_with.items():
        if not is_version(text):
            yield Issue(
                path=(*path, "goes-with", partner),
                text=f"Found {text!r}, allowed a version of the recipe {partner}.",
            )


def _check_source(source: Source, path: tuple[Part, ...]) -> Iterator[Issue]:
    if source.subdirectory.startswith("/") or ".." in source.subdirectory.split("/"):
        yield Issue(
            path=(*path, "subdirectory"),
            text=f"Found {source.subdirectory!r}, allowed a directory inside the source.",
        )
    match source:
        case PypiSource() | ArchiveSource():
            yield from _check_sha256(source, path)
        case GitSource():
            yield from _check_git(source, path)
        case LocalSource():
            if source.path.startswith("~"):
                yield Issue(
                    path=(*path, "path"),
                    text=f"Found {source.path!r}, allowed a path relative to the recipe file.",
                )
        case BundledSource():
            if source.path.startswith(("/", "~")) or ".." in source.path.split("/"):
                yield Issue(
                    path=(*path, "path"),
                    text=f"Found {source.path!r}, allowed a directory beside the recipe file.",
                )


def _check_sha256(source: PypiSource | ArchiveSource, path: tuple[Part, ...]) -> Iterator[Issue]:
    if source.sha256 and not _SHA256.fullmatch(source.sha256):
        yield Issue(
            path=(*path, "sha256"),
            text=f"Found {source.sha256!r}, allowed 64 lower-case hexadecimal digits.",
            remedy="`buildkit pin` writes it.",
        )
    if not source.sha256:
        yield Issue(path=(*path, "sha256"), text="Not pinned yet.", is_error=False)
    if isinstance(source, ArchiveSource) and not source.url.startswith(("https://", "file://")):
        yield Issue(
            path=(*path, "url"), text=f"Found {source.url!r}, allowed an https or file address."
        )
    if isinstance(source, PypiSource) and "/" in source.filename:
        yield Issue(
            path=(*path, "filename"),
            text=f"Found {source.filename!r}, allowed a file name without directories.",
        )


def _check_git(source: GitSource, path: tuple[Part, ...]) -> Iterator[Issue]:
    if source.commit and not _COMMIT.fullmatch(source.commit):
        yield Issue(
            path=(*path, "commit"),
            text=f"Found {source.commit!r}, allowed a full commit of 40 hexadecimal digits.",
            remedy="Write a tag or branch into ref and run `buildkit pin`.",
        )
    if not source.commit:
        yield Issue(path=(*path, "commit"), text="Not pinned yet.", is_error=False)
    if source.ref.startswith("-"):
        yield Issue(
            path=(*path, "ref"), text=f"Found {source.ref!r}, allowed the name of a tag or branch."
        )
    # git would run a program for an address such as ext::command.
    if "::" in source.url or not _GIT_URL.fullmatch(source.url):
        yield Issue(
            path=(*path, "url"),
            text=f"Found {source.url!r}, allowed an https, ssh or file address, or a path.",
        )


def _check_build(recipe: Recipe) -> Iterator[Issue]:
    build = recipe.build
    yield from _check_names(build.defines, ("build", "defines"), _DEFINE)
    yield from _check_environment(build.environment, ("build", "environment"))
    yield from _check_environment(build.arch_environment, ("build", "arch-environment"))
    for number, text in enumerate(build.requires):
        yield from _check_requirement(text, ("build", "requires", number))
    for number, rule in enumerate(recipe.flags.replace):
        if not rule.old.startswith("-"):
            yield Issue(
                path=("flags", "replace", number, "old"),
                text=f"Found {rule.old!r}, allowed a flag, which begins with '-'.",
            )
        if rule.old == rule.new:
            yield Issue(
                path=("flags", "replace", number, "new"), text="The rule replaces a flag by itself."
            )


def _check_names(
    table: object, path: tuple[Part, ...], pattern: re.Pattern[str]
) -> Iterator[Issue]:
    for name in table if isinstance(table, dict) else ():
        if not pattern.fullmatch(name):
            yield Issue(path=(*path, name), text=f"Found {name!r}, allowed the name of a variable.")


def _check_environment(table: object, path: tuple[Part, ...]) -> Iterator[Issue]:
    yield from _check_names(table, path, _VARIABLE)
    for name in table if isinstance(table, dict) else ():
        if name in RESERVED:
            yield Issue(
                path=(*path, name),
                text=f"{name} is set by the kit itself.",
                remedy="Say what it is for in another way: toolchain, build.requires, flags.",
            )


def _check_ranges(recipe: Recipe) -> Iterator[Issue]:
    for name, text in (
        ("cuda", recipe.toolchain.cuda),
        ("host-compiler", recipe.toolchain.host_compiler),
    ):
        if text and not _PLAIN_RANGE.fullmatch(text) and not _is_range(text):
            yield Issue(
                path=("toolchain", name),
                text=f"Found {text!r}, allowed a PEP 440 range such as '>=12.8,<14'.",
            )
    for name, text in (("cuda", recipe.memory.cuda), ("cxx", recipe.memory.cxx)):
        try:
            parse_size(text)
        except ValueError as error:
            yield Issue(path=("memory", name), text=f"{str(error).capitalize()}.")


def _check_verify(recipe: Recipe) -> Iterator[Issue]:
    imports: list[tuple[tuple[Part, ...], str]] = [
        *(
            (("verify", "imports", number), name)
            for number, name in enumerate(recipe.verify.imports)
        ),
        *(
            (("installed-imports", number), name)
            for number, name in enumerate(recipe.installed_imports)
        ),
    ]
    for path, module in imports:
        if not all(part.isidentifier() for part in module.split(".")):
            yield Issue(
                path=path,
                text=f"Found {module!r}, allowed the name of a module.",
            )
    if not recipe.verify.imports and not recipe.installed_imports:
        yield Issue(path=("verify", "imports"), text="There is no import check.", is_error=False)
    if recipe.toolchain.cuda and not recipe.verify.libraries:
        yield Issue(
            path=("verify", "libraries"),
            text="No library is named that must hold GPU code.",
            is_error=False,
        )


def _check_files(recipe: Recipe, file: Path) -> Iterator[Issue]:
    yield from check_include(recipe, file)
    for version in recipe.versions:
        lock = lock_file(file, version)
        if settle(recipe, version).build.requires and not lock.exists():
            yield Issue(
                path=("build", "requires"),
                text=f"There is no lock file {lock.name} yet.",
                remedy=f"Run `buildkit pin {recipe.name} --version {version.version}`.",
                is_error=False,
            )


def _check_requirement(text: str, path: tuple[Part, ...]) -> Iterator[Issue]:
    if _PLAIN_REQUIREMENT.fullmatch(text):
        return
    from packaging.requirements import InvalidRequirement, Requirement

    try:
        requirement = Requirement(text)
    except InvalidRequirement as error:
        reason = str(error).splitlines()[0]
        yield Issue(path=path, text=f"Found {text!r}, allowed a PEP 508 requirement: {reason}.")
        return
    if requirement.url is not None:
        yield Issue(
            path=path,
            text=f"Found an address in {text!r}, allowed names and ranges.",
            remedy="A lock can only pin what the index holds.",
        )


def is_version(text: str) -> bool:
    """Tell whether a text is a PEP 440 version."""
    from packaging.version import InvalidVersion, Version

    try:
        Version(text)
    except InvalidVersion:
        return False
    return True


def _is_range(text: str) -> bool:
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    try:
        SpecifierSet(text)
    except InvalidSpecifier:
        return False
    return True


def lint_recipe(file: Path) -> tuple[str, list[Issue]]:
    """Return the text of a recipe file and everything that is wrong or doubtful in it.

    :raises RecipeError: if the file cannot be read or is no TOML.
    """
    text = read_text(file)
    recipe, issues = decode_recipe(text, file)
    if recipe is not None:
        issues = list(check_recipe(recipe, file))
    return text, issues
