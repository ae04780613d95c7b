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
from pathlib import Path
from typing import TYPE_CHECKING

from buildkit import launcher
from buildkit.backend import BackendError, read_backend, run_hooks
from buildkit.errors import CompileError, Location, RequestError
from buildkit.events import Progress
from buildkit.fs import remove_tree, write_atomic
from buildkit.records import HIT
from buildkit.sizes import render_number, render_size
from buildkit.values import BuiltWheel
from buildkit.workshop import backend_settings, build_variables, write_launcher

if TYPE_CHECKING:
    from collections.abc import Callable

    from buildkit.backend import Backend
    from buildkit.events import Events
    from buildkit.paths import Slot
    from buildkit.records import UnitRecord
    from buildkit.run import Runner
    from buildkit.values import PatchedTree, Plan
    from buildkit.workshop import Workshop

__all__ = ["build_wheel", "built_before", "prepare_slot"]

#: Less free than this at the end of a failed build, and the disk is likely why it failed.
FULL_BYTES = 16 << 20

#: What a compiler says that found no room: by the time it is read its temporary files are gone.
#: Source: the message of ENOSPC, errno(3).
NO_SPACE = "No space left on device"

#: Lines of the log that an error shows, and how many of them lie before a failure is told.
TOLD_LINES = 25
TOLD_BEFORE = 8

_NINJA = re.compile(r"\[(\d+)/(\d+)\]\s*(.*)")

#: A source file in a line of ninja, which prints its command or what CMake says of it.
_SOURCE = re.compile(r"([^\s/]+\.(?:cu|cpp|cxx|cc|c))(?:\.o)?\b")

_MAKE_FAILED = re.compile(r"make(\[\d+\])?: \*\*\* Waiting for unfinished jobs")


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
    plan: Plan,
    tree: PatchedTree,
    workshop: Workshop,
    *,
    runner: Runner,
    events: Events,
    entrance: Path | None = None,
    give_up: Callable[[], None] = lambda: None,
) -> BuiltWheel:
    """Build the wheel of a plan.

    :param entrance: The ``cgroup.procs`` file of a control group to build in.
    :param give_up: Called when the build tool has told of a failure. It starts nothing more then,
        but waits for all calls that it has offered.
    :raises CompileError: if the build failed; with the failing unit's own messages if there is one.
    :raises RecipeError: if the project needs a build requirement that the recipe does not lock.
    """
    slot = workshop.slot
    backend = read_backend(tree.path)
    _prepare_backend(plan, workshop, backend)
    write_launcher(plan, workshop)
    earlier = len(launcher.read_records(slot.records))
    variables = build_variables(plan, workshop, backend)
    try:
        with slot.log.open("ab") as log:
            name = run_hooks(
                tree.path,
                backend,
                plan.lock.versions,
                python=workshop.python,
                settings=backend_settings(plan, workshop, backend),
                wheel_directory=slot.dist,
                run=lambda command, cwd, extra: runner.stream(
                    launcher.isolated(command, workshop.isolation, entrance=entrance),
                    env={**variables, **extra},
                    log=log,
                    cwd=cwd,
                    on_line=_follow(events, give_up),
                ),
            )
    except BackendError as failure:
        raise _explain(
            failure, plan, workshop, launcher.read_records(slot.records)[earlier:]
        ) from None
    records = launcher.read_records(slot.records)
    _tell_code(plan, _latest(records[earlier:]), events)
    _tell_objects(_latest(records[earlier:]), events)
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


def _tell_objects(records: tuple[UnitRecord, ...], events: Events) -> None:
    """Tell what the cache of objects has answered, and why it was not asked."""
    asked = [record for record in records if record.source and record.objects]
    if not asked:
        return
    hits = sum(record.objects == HIT for record in asked)
    events.fact("objects from the cache", str(hits))
    events.step("objects", f"{hits} of {len(asked)} from the cache")
    skipped = Counter(
        record.objects.removeprefix("skipped: ")
        for record in asked
        if record.objects.startswith("skipped")
    )
    events.fact("objects not cached", str(skipped.total()))
    for reason, count in skipped.most_common(3):
        events.step("", f"{count} not cached: {reason}")


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
    events.step("compiled", f"{render_number(units, 'unit')}; GPU targets of nvcc calls: {told}")
    if not count["pinned"] + count["replaced"]:
        events.warning(f"No compiler call was pinned to {plan.arch.name}; see {plan.recipe}'s log.")
    kept = sorted({Path(record.source).name for record in records if record.decision == "kept"})
    if kept:
        listed = ", ".join(kept[:8]) + (f" and {len(kept) - 8} more" if len(kept) > 8 else "")
        events.warning(f"Left as they are, without code for {plan.arch.name}: {listed}.")


def _follow(events: Events, give_up: Callable[[], None]) -> Callable[[str], None]:
    """Return a reader of build output that turns ninja's counter into progress."""
    failures = _Failures()

    def on_line(line: str) -> None:
        events.output(line)
        if failures.is_told(line):
            give_up()
        found = _NINJA.match(line)
        if found is not None:
            named = _SOURCE.search(found[3])
            current = named[1] if named else found[3].rsplit(" ", 1)[-1]
            events.progress(
                Progress(done=int(found[1]), total=int(found[2]), unit="steps", current=current)
            )

    return on_line


class _Failures:
    """Finds in build output, line by line, where a build tool says that the build has failed.

    Source: ninja ``src/status_printer.cc``, which prints ``FAILED: `` after the step's own line;
    GNU make ``src/remake.c``. With ``-k`` make does not say so; ninja does, and fails at the end.
    """

    def __init__(self) -> None:
        self._last = ""

    def is_told(self, line: str) -> bool:
        """Tell whether it is said in the next line."""
        last, self._last = self._last, line
        if line.startswith("FAILED: "):
            return _NINJA.match(last) is not None
        return _MAKE_FAILED.match(line) is not None


def _failure_in(lines: list[str]) -> list[str]:
    """Return the lines in which the first failure is told, or the end if none is."""
    failures = _Failures()
    first = next((n for n, line in enumerate(lines) if failures.is_told(line)), None)
    if first is None:
        return lines[-TOLD_LINES:]
    return lines[max(0, first - TOLD_BEFORE) :][:TOLD_LINES]


def _prepare_backend(plan: Plan, workshop: Workshop, backend: Backend) -> None:
    """Tell setuptools where to build, and remove what it would pack again by mistake."""
    slot = workshop.slot
    if not backend.is_scikit_build:
        for pattern in ("lib", "lib.*", "bdist.*"):
            for folder in slot.build.glob(pattern):
                remove_tree(folder)
    remove_tree(slot.dist)
    slot.dist.mkdir()
    slot.log.unlink(missing_ok=True)
    text = f"[build]\nbuild_base = {slot.build}\n"
    if plan.backend == "python":
        # Extensions side by side. Not for torch's: it changes the one compiler object they share.
        text += f"[build_ext]\nparallel = {workshop.admission.jobs}\n"
    write_atomic(slot.setuptools_config, text.encode())


def _explain(
    failure: BackendError, plan: Plan, workshop: Workshop, units: tuple[UnitRecord, ...]
) -> CompileError:
    """Return the error that names the first unit that failed, or the end of the log."""
    slot = workshop.slot
    ended = [unit for unit in _latest(units) if unit.source and unit.ended != "governor"]
    failed = next((unit for unit in ended if unit.status != 0), None)
    kept = f"The build stays in {slot.root}; `buildkit shell {plan.recipe}` opens it."
    free = shutil.disk_usage(slot.root).free
    if failed is not None and NO_SPACE in failed.stderr:
        kept = f"The disk was full ({render_size(free)} free now): make room. {kept}"
    elif free < FULL_BYTES:
        kept = f"The disk is full ({render_size(free)} free): make room. {kept}"
    if failed is None:
        log = slot.log.read_text(errors="replace").splitlines()
        return CompileError(
            f"The build of {plan.recipe} {plan.version} {_ending(failure.exit_status, workshop)} in"
            f" {failure.hook}.",
            output="\n".join(_failure_in(log)),
            remedy=kept,
            log=slot.log,
        )
    source = failed.source.removeprefix(f"{slot.source}/")
    return CompileError(
        f"{failed.tool} could not compile {source}{_reason(failed, workshop)}.",
        unit=source,
        output=failed.stderr,
        remedy=kept,
        log=slot.log,
    )


def _ending(status: int, workshop: Workshop) -> str:
    """Say how a build ended that names no unit.

    :param status: Of the isolation, which tells of a signal as a shell does; negative if a signal
        ended itself.
    """
    number = -status if status < 0 else status - 128
    if number == 9:
        cap = render_size(workshop.admission.cap_bytes)
        return (
            f"was killed by signal 9, as the kernel does when memory is gone (it may use {cap};"
            " --memory gives more)"
        )
    return f"was ended by signal {number}" if number > 0 else f"ended with status {status}"


def _reason(unit: UnitRecord, workshop: Workshop) -> str:
    """Say why a unit that is not to blame has failed: memory is gone, or a signal came."""
    peak = render_size(unit.peak_bytes)
    if unit.ended == "cap":
        cap = render_size(workshop.admission.cap_bytes)
        return (
            f": it alone holds {peak}, and the build may use {cap}; give --memory more than that,"
            " or build on a larger machine"
        )
    if unit.ended == "kernel" or unit.status == 128 + 9:
        return (
            f": the kernel killed it for memory at {peak}, also when it ran alone; give a larger"
            " --memory, or build on a larger machine"
        )
    return f": it ended with signal {unit.status - 128}" if unit.status > 128 else ""
