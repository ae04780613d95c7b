"""``buildkit serve``: parse, call one story, print."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import NoReturn

import click

from buildkit.cli.options import kit_from

__all__ = ["serve"]

_LOCAL = ("127.", "::1", "localhost")


@click.command()
@click.argument("folder", type=click.Path(path_type=Path), required=False)
@click.option(
    "--bind", default="127.0.0.1", show_default=True, metavar="ADDRESS", help="Where to listen."
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8000,
    show_default=True,
    help="0: any free one.",
)
@click.option("-v", "--verbose", is_flag=True, help="Print a line for each request.")
def serve(folder: Path | None, bind: str, port: int, verbose: bool) -> None:
    """Serve the wheels of the cache, or those in FOLDER, as a package index.

    New wheels show at once. Its address is the only line on standard output. It ends with Ctrl-C or
    SIGTERM, with status 0. There is no password and no encryption: bind it to other addresses than
    this machine's own only in a network that you trust.

    Example: buildkit serve --bind 0.0.0.0 --port 8000
    """
    from buildkit.wheelhouse import CacheStock, FolderStock, open_server
    from buildkit.wheelhouse.stock import require_folder

    if folder is not None:
        require_folder(folder)

    def told(line: str) -> None:
        if verbose:
            click.echo(line, err=True)

    with kit_from((), as_json=False) as kit:
        warn = kit.events.warning
        stock = CacheStock(kit.paths, warn) if folder is None else FolderStock(folder, warn)
        with open_server(stock, host=bind, port=port, told=told) as server:
            if not bind.startswith(_LOCAL):
                warn("Everybody who reaches this machine can fetch these wheels.")
            signal.signal(signal.SIGTERM, _stop)
            click.echo(server.url)
            try:
                server.serve_forever()
            except KeyboardInterrupt:
                click.echo("stopped", err=True)


def _stop(_signal: int, _frame: object) -> NoReturn:
    """End as Ctrl-C does: a container sends SIGTERM, which its first process would ignore."""
    raise KeyboardInterrupt
