"""The command line: parse, call one story, print."""

from buildkit.cli.app import main

__all__ = ["main"]
