"""The rules of the house that a linter does not know."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "buildkit"
MODULES = sorted(PACKAGE.rglob("*.py"))
#: Of the tests and benchmarks, without the small projects that tests build.
PROGRAMS = sorted(
    file
    for folder in ("tests", "benchmarks")
    for file in (ROOT / folder).rglob("*.py")
    if "projects" not in file.parts and file.name != "__init__.py"
)


def name_of(file: Path) -> str:
    return file.relative_to(PACKAGE).as_posix()


def imports(file: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module.split(".")[0])
    return found


def attributes(file: Path) -> set[str]:
    return {
        f"{node.value.id}.{node.attr}"
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
    }


def called_names(file: Path) -> set[str]:
    return {
        node.func.id
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }


@pytest.mark.parametrize(
    ("library", "homes"),
    [
        ("subprocess", {"run.py"}),
        ("hashlib", {"digest.py"}),
        ("git", {"sources/git.py"}),
        ("pyproject_hooks", {"backend.py"}),
        ("obstore", {"objects.py"}),
    ],
)
def test_one_module_is_the_only_user_of(library: str, homes: set[str]) -> None:
    users = {name_of(file) for file in MODULES if library in imports(file)}
    assert users <= homes


def test_the_process_environment_is_read_in_one_place() -> None:
    users = {name_of(file) for file in MODULES if "os.environ" in attributes(file)}
    assert users == {"environ.py"}


def test_only_the_command_line_prints_and_exits() -> None:
    printers = {name_of(file) for file in MODULES if "print" in called_names(file)}
    assert {name for name in printers if not name.startswith("cli/")} <= {"console.py"}
    leavers = {name_of(file) for file in MODULES if "sys.exit" in attributes(file)}
    assert leavers <= {"cli/app.py"}


@pytest.mark.parametrize(
    "file", [*MODULES, *PROGRAMS], ids=lambda file: file.relative_to(ROOT).as_posix()
)
def test_a_module_says_what_it_is_for_and_stays_readable(file: Path) -> None:
    text = file.read_text()
    assert ast.get_docstring(ast.parse(text))
    assert text.count("\n") <= 400, "look for the seam"
