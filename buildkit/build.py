"""The build: runs a plan on a patched tree.

What enters: a plan, a patched tree, a prepared slot, environment and toolkit. What leaves: the
wheel as the project's own build backend made it, and one record per compiler call. Never touches
the network, the cache or the terminal; the backend runs through the PEP 517 hooks in a process
group, isolated where the system allows it.
"""

from __future__ import annotations

import re
import shutil
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from buildkit import launcher
from buildkit.backend import BackendError, read_backend, run_hooks
from buildkit.errors import CompileError, Location, RecipeError, RequestError, ToolchainError
from buildkit.events import Progress
from buildkit.fs import remove_tree, write_atomic
from buildkit.sizes import render_size
from buildkit.values import BuiltWheel

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from buildkit.backend import Backend
    from buildkit.events import Events
    from buildkit.launcher import Isolation
    from buildkit.paths import Slot
    from buildkit.run import Runner
    from buildkit.values import PatchedTree, Plan, UnitRecord

__all__ = [
    "SOURCE_DATE_EPOCH",
    "Workshop",
    "build_variables",
    "build_wheel",
    "built_before",
    "prepare_slot",
    "write_launcher",
]

#: Time of everything in a wheel, so that equal inputs give equal bytes: the first that a zip
#: archive can hold, 1980-01-01. Source: reproducible-builds.org "SOURCE_DATE_EPOCH"; PKWARE APPNOTE
#: 4.4.6 on the DOS date.
SOURCE_DATE_EPOCH = 315532800

#: Less free than this at the end of a failed build, and the disk is likely why it failed.
FULL_BYTES = 16 << 20

_NINJA = re.compile(r"\[(\d+)/(\d+)\]\s*(.*)")

#: A source file in a line of ninja, which prints its command or what CMake says of it.
_SOURCE = re.compile(r"([^\s/]+\.(?:cu|cpp|cxx|cc|c))(?:\.o)?\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class Workshop:
    """Where and with what a build runs."""

    slot: Slot
    environment: Path
    """Root of the isolated environment that holds the build requirements."""
    cuda_root: Path | None
    variables: Mapping[str, str]
    """The base environment of the child: PATH and what little it inherits."""
    sources: Mapping[str, Path]
    """Unpacked further sources, by name."""
    isolation: Isolation

    @property
    def python(self) -> Path:
        """The interpreter that runs the build backend."""
        return self.environment / "bin" / "python"


def prepare_slot(slot: Slot, plan: Plan) -> bool:
    """Make the slot ready; empty it first if another toolchain's objects lie in it.

    :returns: Whether objects of an earlier build were kept.
    """
    stamp = "\n".join(
        f"{field.name}: {field.value}"
        for field in plan.key_fields
        if not field.name.startswith(("source", "patch", "verify", "local version"))
    )
    was_kept = slot.stamp.is_file() and slot.stamp.read_text() == stamp
    if not was_kept:
        remove_tree(slot.root)
    slot.root.mkdir(parents=True, exist_ok=True)
    remove_tree(slot.temporary)
    for folder in (slot.temporary, slot.build):
        folder.mkdir(exist_ok=True)
    write_atomic(slot.stamp, stamp.encode())
    return was_kept


def build_wheel(
    plan: Plan, tree: PatchedTree, workshop: Workshop, *, runner: Runner, events: Events
) -> BuiltWheel:
    """Build the wheel of a plan.

    :raises CompileError: if the build failed; with the failing unit's own messages if there is one.
    :raises RecipeError: if the project needs a build requirement that the recipe does not lock.
    """
    slot = workshop.slot
    backend = read_backend(tree.path)
    _forget_stale_files(slot, backend)
    write_launcher(plan, workshop)
    earlier = len(launcher.read_records(slot.records))
    variables = build_variables(plan, workshop)
    if plan.backend == "cmake" and not backend.is_scikit_build:
        variables["CMAKE_ARGS"] = _cmake_arguments(plan, workshop)
    try:
        with slot.log.open("ab") as log:
            name = run_hooks(
                tree.path,
                backend,
                plan.lock.versions,
                python=workshop.python,
                settings=_settings(plan, workshop, backend),
                wheel_directory=slot.dist,
                run=lambda command, cwd, extra: runner.stream(
                    launcher.isolated(command, workshop.isolation),
                    env={**variables, **extra},
                    log=log,
                    cwd=cwd,
                    on_line=_follow(events),
                ),
            )
    except BackendError as failure:
        raise _explain(failure, plan, slot, launcher.read_records(slot.records)[earlier:]) from None
    records = launcher.read_records(slot.records)
    _tell_code(plan, records[earlier:], events)
    return BuiltWheel(path=slot.dist / name, units=_latest(records), log=slot.log)


def built_before(slot: Slot) -> BuiltWheel:
    """Return the wheel that the last build left in a slot.

    :raises RequestError: if there is none.
    """
    wheels = sorted(slot.dist.glob("*.whl"))
    if len(wheels) != 1:
        raise RequestError(
            f"No wheel of an earlier build lies in {slot.dist}.",
            where=Location(file="command line", key="--from-step"),
            remedy="Leave --from-step away, or say --from-step build.",
        )
    records = launcher.read_records(slot.records)
    return BuiltWheel(path=wheels[0], units=_latest(records), log=slot.log)


def _latest(records: tuple[UnitRecord, ...]) -> tuple[UnitRecord, ...]:
    """Return the last record of each output: a resumed build takes objects of an earlier one."""
    return tuple({record.output or record.source: record for record in records}.values())


def _tell_code(plan: Plan, records: tuple[UnitRecord, ...], events: Events) -> None:
    """Tell what became of the GPU targets that the project's build named."""
    count = Counter(record.decision for record in records if record.source)
    units = count["pinned"] + count["kept"] + count["replaced"] + count["none"]
    events.fact("units", str(units))
    for decision in ("pinned", "kept", "replaced"):
        events.fact(decision, str(count[decision]))
    if plan.toolchain.cuda_root is None or not units:
        return
    told = ", ".join(f"{count[word]} {word}" for word in ("pinned", "kept", "replaced"))
    events.step("compiled", f"{units} units; GPU targets of nvcc calls: {told}")
    if not count["pinned"] + count["replaced"]:
        events.warning(f"No compiler call was pinned to {plan.arch.name}; see {plan.recipe}'s log.")
    kept = sorted({Path(record.source).name for record in records if record.decision == "kept"})
    if kept:
        listed = ", ".join(kept[:8]) + (f" and {len(kept) - 8} more" if len(kept) > 8 else "")
        events.warning(f"Left as they are, without code for {plan.arch.name}: {listed}.")


def _follow(events: Events) -> Callable[[str], None]:
    """Return a reader of build output that turns ninja's counter into progress."""

    def on_line(line: str) -> None:
        events.output(line)
        found = _NINJA.match(line)
        if found is not None:
            named = _SOURCE.search(found[3])
            current = named[1] if named else found[3].rsplit(" ", 1)[-1]
            events.progress(
                Progress(done=int(found[1]), total=int(found[2]), unit="steps", current=current)
            )

    return on_line


# --- environment ---------------------------------------------------------------------------------


def build_variables(plan: Plan, workshop: Workshop) -> dict[str, str]:
    """Return the whole environment of the build, for the backend or for a person's shell."""
    slot = workshop.slot
    variables = dict(workshop.variables)
    search = [str(workshop.environment / "bin")]
    if workshop.cuda_root is not None:
        root = str(workshop.cuda_root)
        search.append(f"{root}/bin")
        variables |= {"CUDA_HOME": root, "CUDA_PATH": root, "CUDACXX": f"{root}/bin/nvcc"}
    variables |= {
        "PATH": ":".join([*search, variables["PATH"]]),
        "BK_LAUNCH_CONFIG": str(slot.launch_config),
        "CMAKE_GENERATOR": "Ninja",
        "CMAKE_BUILD_PARALLEL_LEVEL": str(plan.jobs),
        "MAX_JOBS": str(plan.jobs),
        "PYTHONHASHSEED": "0",
        "PYTHONNOUSERSITE": "1",
        "SOURCE_DATE_EPOCH": str(SOURCE_DATE_EPOCH),
        "TMPDIR": str(slot.temporary),
        "VIRTUAL_ENV": str(workshop.environment),
        # A ccache that happens to be installed would come between torch and the launcher.
        "TORCH_NO_COMPILER_WRAPPER": "1",
        # Where setuptools puts objects: outside the source, so that they outlive its renewal.
        "DIST_EXTRA_CONFIG": str(slot.setuptools_config),
    }
    if plan.backend == "cmake":
        variables |= {"CC": str(_tool(plan, "gcc")), "CXX": str(_tool(plan, "g++"))}
    else:
        # These take one word, so the launcher stands behind the compilers' own names.
        variables |= {
            "CC": str(slot.shims / "gcc"),
            "CXX": str(slot.shims / "g++"),
            "PYTORCH_NVCC": str(slot.shims / "nvcc"),
        }
    return variables | {name: _expand(value, workshop) for name, value in plan.environment}


def _tool(plan: Plan, name: str) -> Path:
    """Return the path of a tool that the plan names.

    :raises ToolchainError: if it names none.
    """
    for tool in plan.toolchain.tools:
        if tool.name == name:
            return tool.path
    raise ToolchainError(f"The plan of {plan.recipe} holds no {name}.")


def _defines(plan: Plan, workshop: Workshop) -> dict[str, str]:
    """Return all CMake cache variables: the plan's, and where this machine's tools lie."""
    launch = str(launcher.binary("bk-launch"))
    found = {"CMAKE_C_COMPILER_LAUNCHER": launch, "CMAKE_CXX_COMPILER_LAUNCHER": launch}
    if workshop.cuda_root is not None:
        found |= {
            "CMAKE_CUDA_COMPILER_LAUNCHER": launch,
            "CMAKE_CUDA_COMPILER": f"{workshop.cuda_root}/bin/nvcc",
            "CMAKE_CUDA_HOST_COMPILER": str(_tool(plan, "g++")),
            "CUDAToolkit_ROOT": str(workshop.cuda_root),
        }
    return found | {name: _expand(value, workshop) for name, value in plan.defines}


def _expand(value: str, workshop: Workshop) -> str:
    """Replace ``${sources.NAME}`` by the directory of that source."""
    for name, path in workshop.sources.items():
        value = value.replace(f"${{sources.{name}}}", str(path))
    return value


def _settings(plan: Plan, workshop: Workshop, backend: Backend) -> dict[str, str]:
    """Return the PEP 517 config settings."""
    settings: dict[str, str] = {}
    if backend.is_scikit_build:
        settings["build-dir"] = str(workshop.slot.build)
        settings |= {
            f"cmake.define.{name}": value for name, value in _defines(plan, workshop).items()
        }
    return settings | dict(plan.config_settings)


def _cmake_arguments(plan: Plan, workshop: Workshop) -> str:
    """Return ``CMAKE_ARGS`` for a ``setup.py`` that runs CMake; those split it on blanks.

    :raises RecipeError: if a value holds a blank.
    """
    defines = _defines(plan, workshop)
    for name, value in defines.items():
        if " " in value:
            raise RecipeError(
                f"CMake variable {name} of recipe {plan.recipe} holds a blank: {value!r}.",
                remedy="Projects that drive CMake from setup.py cannot take it; use another value.",
            )
    return " ".join(f"-D{name}={value}" for name, value in defines.items())


# --- launcher ------------------------------------------------------------------------------------


def write_launcher(plan: Plan, workshop: Workshop) -> None:
    """Tell ``bk-launch`` what to do, and put the compilers' names in front of it."""
    slot = workshop.slot
    tools = {"gcc": _tool(plan, "gcc"), "g++": _tool(plan, "g++")}
    tools |= {"cc": tools["gcc"], "c++": tools["g++"]}
    if workshop.cuda_root is not None:
        tools["nvcc"] = workshop.cuda_root / "bin" / "nvcc"
    text = launcher.render_config(
        target=plan.arch,
        without_code=plan.without_code,
        rules=plan.rules,
        tools=tools,
        records=slot.records,
    )
    write_atomic(slot.launch_config, text.encode())
    remove_tree(slot.shims)
    slot.shims.mkdir()
    for name in tools:
        (slot.shims / name).symlink_to(launcher.binary("bk-launch"))


def _forget_stale_files(slot: Slot, backend: Backend) -> None:
    """Remove what setuptools would pack again although the source no longer holds it."""
    if not backend.is_scikit_build:
        for pattern in ("lib", "lib.*", "bdist.*"):
            for folder in slot.build.glob(pattern):
                remove_tree(folder)
    remove_tree(slot.dist)
    slot.dist.mkdir()
    slot.log.unlink(missing_ok=True)
    write_atomic(slot.setuptools_config, f"[build]\nbuild_base = {slot.build}\n".encode())


def _explain(
    failure: BackendError, plan: Plan, slot: Slot, units: tuple[UnitRecord, ...]
) -> CompileError:
    """Return the error that names the first unit that failed, or the end of the log."""
    failed = next((unit for unit in units if unit.status != 0 and unit.source), None)
    kept = f"The build stays in {slot.root}; `buildkit shell {plan.recipe}` opens it."
    free = shutil.disk_usage(slot.root).free
    if free < FULL_BYTES:
        kept = f"The disk is full ({render_size(free)} free): make room. {kept}"
    if failed is None:
        tail = slot.log.read_text(errors="replace").splitlines()[-25:]
        return CompileError(
            f"The build of {plan.recipe} {plan.version} ended with status {failure.exit_status} in"
            f" {failure.hook}.",
            output="\n".join(tail),
            remedy=kept,
            log=slot.log,
        )
    source = failed.source.removeprefix(f"{slot.source}/")
    return CompileError(
        f"{failed.tool} could not compile {source}{_signal_text(failed)}.",
        unit=source,
        output=failed.stderr,
        remedy=kept,
        log=slot.log,
    )


def _signal_text(unit: UnitRecord) -> str:
    """Say what a status above 128 means: SIGKILL is the kernel's answer to memory gone."""
    if unit.status == 128 + 9:
        return (
            f": it was killed at {unit.peak_bytes / 2**30:.1f} GiB, most likely for memory; give"
            " --jobs 1 or a larger --memory"
        )
    return f": it ended with signal {unit.status - 128}" if unit.status > 128 else ""
