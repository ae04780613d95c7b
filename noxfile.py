"""The tasks of the project, by name."""

from __future__ import annotations

from pathlib import Path

import nox

nox.options.default_venv_backend = "venv"
nox.options.sessions = ["lint", "tests"]


@nox.session
def lint(session: nox.Session) -> None:
    """Style, types, floors."""
    session.install("-e", ".[dev]")
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("mypy")
    session.run("lint-imports")


@nox.session
def tests(session: nox.Session) -> None:
    """The default set of tests."""
    session.install("-e", ".[test]")
    session.run("python", "-m", "pytest", *session.posargs)


@nox.session
def real(session: nox.Session) -> None:
    """Build real packages for real."""
    session.install("-e", ".[test]")
    session.run("python", "-m", "pytest", "-m", "real", "--timeout", "0", *session.posargs)


@nox.session
def gen(session: nox.Session) -> None:
    """Write the pages that are made from the code."""
    session.install("-e", ".")
    code = "from buildkit.recipe.reference import render_reference as r; print(r(), end='')"
    with Path("docs/recipe-reference.md").open("w") as page:
        session.run("python", "-c", code, stdout=page)
