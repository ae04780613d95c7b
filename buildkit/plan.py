"""The plan: what a ``make`` will do, decided from values alone.

What enters: a recipe, a request, and the facts that the survey found. What leaves: a
:class:`~buildkit.values.Plan` whose key is the digest of its key fields, so that the explanation
of a miss cannot disagree with the key. Pure: no disk, no clock, no environment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, assert_never

from buildkit import __version__
from buildkit.arch import GpuArch, parse_arch
from buildkit.digest import canonical, digest_bytes, digest_value
from buildkit.errors import ArchError, Location, nearest
from buildkit.values import (
    Facts,
    FlagRule,
    KeyField,
    LocalTree,
    PinnedArchive,
    PinnedCommit,
    Plan,
    ResolvedSource,
    Unpinned,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from buildkit.recipe.model import ArchSettings, Recipe, Version
    from buildkit.request import Request

__all__ = ["code_for", "difference", "plan_make", "render_source"]

#: Part of every key; raised when a change of the kit changes what a build produces.
KEY_FORMAT = "2"

Spelling = Literal["torch", "number", "flashinfer", "cmake"]


def plan_make(recipe: Recipe, version: Version, request: Request, facts: Facts) -> Plan:
    """Return the plan for one wheel.

    :raises ArchError: if the recipe does not support the target.
    """
    code = code_for(recipe, request.arch)
    settings = _settings(recipe, request.arch)
    defines = _defines(recipe, settings, code)
    environment = _environment(recipe, settings, code)
    rules = tuple(
        FlagRule(old=rule.old, new=rule.new, language=rule.language)
        for rule in recipe.flags.replace
    )
    config_settings = tuple(sorted(recipe.build.config_settings.items()))
    fields = (
        KeyField(name="key format", value=KEY_FORMAT),
        KeyField(name="kit", value=__version__),
        KeyField(name="recipe", value=recipe.name),
        KeyField(name="project", value=recipe.project or recipe.name),
        KeyField(name="version", value=version.version),
        KeyField(name="local version", value="yes" if request.has_local_version else "no"),
        KeyField(name="target", value=request.arch.name),
        KeyField(name="code", value=code.name),
        KeyField(name="backend", value=recipe.build.backend),
        KeyField(name="without-code", value=recipe.flags.without_code),
        KeyField(name="requires its torch", value="yes" if recipe.torch else "no"),
        KeyField(name="verify", value=_canonical_struct(recipe.verify)),
        KeyField(name="source", value=render_source(facts.source)),
        *_source_fields(facts),
        *(
            KeyField(name=f"patch {patch.name}", value=f"sha256:{patch.digest}")
            for patch in facts.patches
        ),
        *_include_fields(facts),
        *(KeyField(name=f"define {name}", value=value) for name, value in defines),
        *(KeyField(name=f"environment {name}", value=value) for name, value in environment),
        *(KeyField(name=f"config setting {name}", value=value) for name, value in config_settings),
        *_rule_fields(rules),
        *_machine_fields(facts),
    )
    key = digest_value([[field.name, field.value] for field in fields])
    label = _local_version(recipe, request, facts, key) if request.has_local_version else ""
    return Plan(
        recipe=recipe.name,
        project=recipe.project or recipe.name,
        version=version.version,
        local_version=label,
        arch=request.arch,
        code=code,
        source=facts.source,
        extra_sources=facts.extra_sources,
        patches=facts.patches,
        python=facts.python,
        toolchain=facts.toolchain,
        lock=facts.lock,
        backend=recipe.build.backend,
        defines=defines,
        environment=environment,
        config_settings=config_settings,
        rules=rules,
        without_code=recipe.flags.without_code,
        key_fields=fields,
        key=key,
        project_include=facts.project_include,
        unpatched=recipe.build.unpatched,
        system=facts.system,
    )


def code_for(recipe: Recipe, arch: GpuArch) -> GpuArch:
    """Return the target that is named to the build: the recipe chooses an open variant.

    :raises ArchError: if the recipe does not support the target.
    """
    supported = {parse_arch(name).device.name for name in recipe.architectures}
    if arch.device.name not in supported:
        raise ArchError(
            f"Recipe {recipe.name} does not support {arch.name}; it supports"
            f" {', '.join(sorted(supported))}.{nearest(arch.device.name, supported)}",
            where=Location(file=f"recipe {recipe.name}", key="architectures"),
            remedy="Choose one of these, or add the target to the recipe after a build that works.",
        )
    chosen = _settings(recipe, arch)
    if arch.variant or chosen is None or not chosen.code:
        return arch
    return parse_arch(chosen.code)


def difference(old: tuple[KeyField, ...], new: tuple[KeyField, ...]) -> tuple[str, ...]:
    """Return one line per key field that differs, in the order of the new fields."""
    before = {field.name: field.value for field in old}
    after = {field.name: field.value for field in new}
    lines = []
    for name, value in after.items():
        if name not in before:
            lines.append(f"{name}: added {value}")
        elif before[name] != value:
            lines.append(f"{name}: was {before[name]}, is {value}")
    lines += [
        f"{name}: was {value}, is gone" for name, value in before.items() if name not in after
    ]
    return tuple(lines)


def render_source(source: ResolvedSource) -> str:
    """Return what identifies a source's contents, as it enters the key."""
    place = ""
    if not isinstance(source, Unpinned) and source.subdirectory:
        place = f" subdirectory {source.subdirectory}"
    match source:
        case PinnedArchive():
            return f"sha256:{source.sha256}{place}"
        case PinnedCommit():
            submodules = " with submodules" if source.has_submodules else ""
            return f"git:{source.commit}{submodules}{place}"
        case LocalTree():
            return f"{source.method}:{source.fingerprint}{place}"
        case Unpinned():
            return f"unpinned: {source.description}"
        case _:
            assert_never(source)


def _settings(recipe: Recipe, arch: GpuArch) -> ArchSettings | None:
    return recipe.arch.get(arch.device.name)


def _defines(
    recipe: Recipe, settings: ArchSettings | None, code: GpuArch
) -> tuple[tuple[str, str], ...]:
    merged: dict[str, str | bool | int] = {}
    if recipe.build.backend == "cmake" and recipe.toolchain.cuda:
        merged["CMAKE_CUDA_ARCHITECTURES"] = code.cmake
    merged |= recipe.build.defines
    merged |= settings.defines if settings is not None else {}
    if any(name.startswith("FETCHCONTENT_SOURCE_DIR_") for name in merged):
        # What the recipe hands over is all there is: CMake asks no network for the rest.
        merged.setdefault("FETCHCONTENT_FULLY_DISCONNECTED", True)
    return tuple((name, _cmake_value(value)) for name, value in sorted(merged.items()))


def _cmake_value(value: str | bool | int) -> str:
    if isinstance(value, bool):
        return "ON" if value else "OFF"
    return str(value)


def _environment(
    recipe: Recipe, settings: ArchSettings | None, code: GpuArch
) -> tuple[tuple[str, str], ...]:
    spellings: dict[Spelling, str] = {
        "torch": code.torch,
        "number": code.number,
        "flashinfer": code.dotted,
        "cmake": code.cmake,
    }
    merged: dict[str, str] = {}
    if recipe.toolchain.cuda:
        # Torch's CMake and cpp_extension look for a GPU when nobody names a target.
        merged["TORCH_CUDA_ARCH_LIST"] = code.torch
    merged |= {name: spellings[how] for name, how in recipe.build.arch_environment.items()}
    merged |= recipe.build.environment
    merged |= settings.environment if settings is not None else {}
    return tuple(sorted(merged.items()))


def _source_fields(facts: Facts) -> Iterator[KeyField]:
    for name, source in facts.extra_sources:
        yield KeyField(name=f"source {name}", value=render_source(source))


def _include_fields(facts: Facts) -> Iterator[KeyField]:
    if facts.project_include is not None:
        yield KeyField(name="project include", value=f"sha256:{facts.project_include.digest}")


def _rule_fields(rules: tuple[FlagRule, ...]) -> Iterator[KeyField]:
    for number, rule in enumerate(rules, start=1):
        new = rule.new or "(removed)"
        yield KeyField(name=f"flag rule {number}", value=f"{rule.language}: {rule.old} -> {new}")


def _machine_fields(facts: Facts) -> Iterator[KeyField]:
    yield KeyField(name="launcher", value=f"sha256:{facts.launcher}")
    yield KeyField(name="python", value=facts.python.tag)
    yield KeyField(name="python version", value=facts.python.version)
    yield KeyField(name="python flags", value=f"sha256:{facts.python.flags}")
    yield KeyField(name="platform", value=facts.python.platform)
    yield KeyField(name="libc", value=facts.python.libc)
    for tool in facts.toolchain.tools:
        yield KeyField(name=f"tool {tool.name}", value=f"{tool.version} sha256:{tool.digest}")
    if facts.toolchain.cuda_lock is not None:
        yield KeyField(name="CUDA wheels", value=f"sha256:{facts.toolchain.cuda_lock.digest}")
    for package in facts.system.packages:
        value = f"{package.version} {package.architecture} sha256:{package.sha256}"
        yield KeyField(name=f"system package {package.name}", value=value)
    for name, number in sorted(facts.lock.versions.items()):
        yield KeyField(name=f"locked {name}", value=number)
    yield KeyField(name="environment lock", value=f"sha256:{facts.lock.digest}")


def _local_version(recipe: Recipe, request: Request, facts: Facts, key: str) -> str:
    """Return the local version label: what the wheel is for, and the start of its key."""
    versions: Mapping[str, str] = facts.lock.versions
    parts = []
    cuda = next((tool.version for tool in facts.toolchain.tools if tool.name == "nvcc"), "")
    if cuda:
        parts.append("cu" + "".join(cuda.split(".")[:2]))
        parts.append(request.arch.name)
    if recipe.torch and "torch" in versions:
        parts.append("torch" + ".".join(versions["torch"].split("+")[0].split(".")[:2]))
    parts.append(f"k{key[:8]}")
    return ".".join(parts)


def _canonical_struct(struct: object) -> str:
    import msgspec

    return f"sha256:{digest_bytes(canonical(msgspec.to_builtins(struct)))}"
