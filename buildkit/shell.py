"""The story of ``shell``: the prepared source and environment of a recipe, for a person.

The same preparation as a ``make``, then an interactive shell (or one command line) in the source
directory, with the variables that the build backend would see. What is changed there by hand is
built by ``make --from-step build``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from buildkit.backend import read_backend
from buildkit.cache import require_cache
from buildkit.fs import locked
from buildkit.make import draft, governing_of
from buildkit.prepare import prepare, slot_of
from buildkit.workshop import build_variables, write_launcher

if TYPE_CHECKING:
    from buildkit.kit import Kit
    from buildkit.request import Request

__all__ = ["open_shell"]


def open_shell(request: Request, kit: Kit, *, command: str | None, keeps_source: bool) -> int:
    """Open a shell and return its exit status.

    :param command: A line for the shell to run instead of asking a person.
    :param keeps_source: Open the source as an earlier make or person left it.
    :raises BuildkitError: as the stages of a make do.
    """
    drafted = draft(request, kit)
    require_cache(kit.paths)
    plan = drafted.plan
    slot = slot_of(kit.paths, plan)

    def tell() -> None:
        kit.events.step("wait", f"another make is building in {slot.root}")

    kit.holds.hold(slot.root)
    with locked(slot.lock, waiting=tell):
        ready = prepare(
            drafted.recipe,
            drafted.recipe_file,
            plan,
            slot,
            request,
            kit,
            admission=governing_of(drafted, slot, kit).admission,
            keeps_source=keeps_source,
            checks_drift=False,  # a shell is where a person looks at what has drifted
        )
        write_launcher(plan, ready.workshop)
    variables = build_variables(plan, ready.workshop, read_backend(ready.tree.path))
    # A shell is of use only with a person's terminal and prompt.
    for name in ("TERM", "SHELL", "PS1"):
        if name in kit.environment:
            variables[name] = kit.environment[name]
    program = variables.get("SHELL", "/bin/sh")
    kit.events.step("shell", f"{ready.tree.path}; leave with exit")
    argv = [program, "-c", command] if command is not None else [program, "-i"]
    return kit.runner.attach(argv, env=variables, cwd=ready.tree.path)
