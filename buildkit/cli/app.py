"""The ``buildkit`` command: its sub-commands, and the one place where errors meet the terminal.

``main`` catches and exits; the commands below it raise. Sub-commands are imported when they are
called, because the second ``make`` of a wheel must not pay for what it does not use.
"""

from __future__ import annotations

import signal
import sys
import threading
from importlib import import_module

import click

from buildkit import __version__
from buildkit.environ import process_environment
from buildkit.errors import INTERRUPTED, BuildkitError, JobError

COMMANDS: dict[str, tuple[str, str]] = {
    "list": ("buildkit.cli.recipes", "list_recipes"),
    "show": ("buildkit.cli.recipes", "show"),
    "lint": ("buildkit.cli.recipes", "lint"),
    "schema": ("buildkit.cli.recipes", "schema"),
    "plan": ("buildkit.cli.making", "plan"),
    "make": ("buildkit.cli.making", "make"),
    "fetch": ("buildkit.cli.mirroring", "fetch"),
    "shell": ("buildkit.cli.making", "shell"),
    "patch": ("buildkit.cli.patching", "patch"),
    "install": ("buildkit.cli.installing", "install"),
    "lock": ("buildkit.cli.locking", "lock"),
    "sync": ("buildkit.cli.locking", "sync"),
    "pin": ("buildkit.cli.pinning", "pin"),
    "profile": ("buildkit.cli.governing", "profile"),
    "report": ("buildkit.cli.governing", "report"),
    "simulate": ("buildkit.cli.governing", "simulate"),
    "verify": ("buildkit.cli.wheels", "verify"),
    "diff": ("buildkit.cli.differing", "diff"),
    "show-wheel": ("buildkit.cli.wheels", "show_wheel"),
    "cache": ("buildkit.cli.caching", "cache"),
    "serve": ("buildkit.cli.serving", "serve"),
}
"""Module and attribute of each sub-command."""


class LazyGroup(click.Group):
    """A group that imports a sub-command when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order of the table, which is the order of use."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return a sub-command, or None."""
        if cmd_name not in COMMANDS:
            return None
        module, attribute = COMMANDS[cmd_name]
        command: click.Command = getattr(import_module(module), attribute)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Add the nearest name to click's own complaint about an unknown command."""
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            from buildkit.errors import nearest

            hint = nearest(args[0], COMMANDS)
            ctx.fail(f"No such command {args[0]!r}.{hint} Run `buildkit --help` for the list.")
        return super().resolve_command(ctx, args)


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit status: 0 done, 1 the job failed, 2 the input is wrong, 130 interrupted.",
)
@click.version_option(__version__, prog_name="buildkit")
def cli() -> None:
    """Build LLM serving packages for the GPU at hand, the same way every time.

    A first try that needs nothing but a package index:

        buildkit make demo-kernel --arch sm120
    """


def main(argv: list[str] | None = None) -> None:
    """Run the command line and exit with its status."""
    sys.exit(run(sys.argv[1:] if argv is None else argv))


def _hear_ends() -> None:
    """End as with Ctrl-C when we are told to end or the terminal goes, unless those are ignored."""
    if threading.current_thread() is not threading.main_thread():
        return
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, signal.default_int_handler)


def run(argv: list[str]) -> int:
    """Run the command line and return its exit status; draws errors, exits never."""
    from buildkit.console import draw_error, draw_unexpected

    _hear_ends()
    wants_json = "--json" in argv
    try:
        # Outside its standalone mode click returns the status of an Exit instead of raising it.
        status = cli.main(args=argv, prog_name="buildkit", standalone_mode=False)
    except BuildkitError as error:
        draw_error(error, as_json=wants_json)
        return error.status
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (KeyboardInterrupt, click.exceptions.Abort):
        click.echo("buildkit: interrupted", err=True)
        return INTERRUPTED
    except BrokenPipeError:
        # The reader of our output went away (`buildkit list | head`): nothing is wrong with us.
        sys.stdout = None  # keeps the interpreter from flushing it on exit
        return 0
    except OSError as error:
        # A disk that is full or a directory that is not ours, met where no stage expected it.
        place = f" ({error.filename})" if error.filename else ""
        what = f"The system refused: {error.strerror or error}{place}."
        remedy = "Free some space, or see who may write there."
        draw_error(JobError(what, remedy=remedy), as_json=wants_json)
        return 1
    except Exception as error:
        draw_unexpected(error, process_environment())
        return 1
    return status if isinstance(status, int) else 0
