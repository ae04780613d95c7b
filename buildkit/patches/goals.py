"""Goals: what must be true of a tree once a patch has taken effect. Pure.

A goal is one line of a patch's header, such as

    vllm/config/speculative.py: SpeculativeConfig lists "kimi_k2"

It is judged on the syntax tree, so that a tree which reaches it by other code counts as reached.
Alternatives are joined by `` or ``: upstream moves files and removes checks.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["GRAMMAR", "Goal", "is_reached", "parse_goal"]

Kind = Literal["base", "defines", "reads", "lists", "matches", "lacks", "exists", "absent"]

GRAMMAR = """\
FILE: class NAME has base NAME      the class names the base
FILE: class NAME defines NAME       a method or class attribute
FILE: SCOPE reads NAME              an attribute is read, also by getattr; SCOPE is a dotted name
                                    of classes and functions, or `module`
FILE: SCOPE lists "TEXT"            a list, tuple, set or dict display in the scope holds the text
FILE: text matches /REGEX/          somewhere in the file
FILE: text lacks /REGEX/            the file exists and nothing in it matches
FILE: exists                        FILE: is absent
"""

_CLAUSES: tuple[tuple[Kind, re.Pattern[str]], ...] = (
    ("base", re.compile(r"class (?P<scope>\w+) has base (?P<value>\w+)")),
    ("defines", re.compile(r"class (?P<scope>\w+) defines (?P<value>\w+)")),
    ("reads", re.compile(r"(?P<scope>[\w.]+) reads (?P<value>\w+)")),
    ("lists", re.compile(r'(?P<scope>[\w.]+) lists "(?P<value>[^"]*)"')),
    ("matches", re.compile(r"(?P<scope>text) matches /(?P<value>.+)/")),
    ("lacks", re.compile(r"(?P<scope>text) lacks /(?P<value>.+)/")),
    ("exists", re.compile(r"(?P<scope>)(?P<value>)exists")),
    ("absent", re.compile(r"(?P<scope>)(?P<value>)is absent")),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Clause:
    """One check on one file."""

    file: str
    kind: Kind
    scope: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """Checks of which one must hold."""

    text: str
    clauses: tuple[Clause, ...]


def parse_goal(text: str) -> Goal:
    """Return the goal that a header line states.

    >>> parse_goal('a.py: class C has base B or b.py: is absent').clauses[1].kind
    'absent'

    :raises ValueError: naming the part that is no check.
    """
    clauses = []
    for part in re.split(r" or (?=\S+: )", text):
        file, _, check = part.strip().partition(": ")
        for kind, pattern in _CLAUSES:
            found = pattern.fullmatch(check.strip())
            if found is not None:
                clauses.append(
                    Clause(file=file, kind=kind, scope=found["scope"], value=found["value"])
                )
                break
        else:
            raise ValueError(f"found {part.strip()!r}, allowed one of:\n{GRAMMAR}")
        if kind in ("matches", "lacks"):
            _check_pattern(clauses[-1].value)
    return Goal(text=text, clauses=tuple(clauses))


def is_reached(goal: Goal, read: Callable[[str], str | None]) -> bool:
    """Tell whether a tree reaches a goal.

    :param read: Returns the text of a file of the tree, or None.
    """
    return any(_holds(clause, read(clause.file)) for clause in goal.clauses)


def _check_pattern(text: str) -> None:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"found the pattern {text!r}, which is none: {error}") from None


def _holds(clause: Clause, text: str | None) -> bool:
    if clause.kind == "absent" or text is None:
        return text is None and clause.kind == "absent"
    if clause.kind == "exists":
        return True
    if clause.kind in ("matches", "lacks"):
        found = re.search(clause.value, text, re.MULTILINE) is not None
        return found == (clause.kind == "matches")
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return False
    return any(_is_in(clause, node) for node in _scope(tree, clause))


def _scope(tree: ast.Module, clause: Clause) -> Iterator[ast.AST]:
    """Yield the nodes that a clause speaks of: classes and functions of that dotted name."""
    if clause.scope == "module":
        yield tree
        return
    nodes: list[ast.AST] = [tree]
    for name in clause.scope.split("."):
        nodes = [
            inner
            for node in nodes
            for inner in ast.walk(node)
            if isinstance(inner, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
            and inner.name == name
        ]
    yield from nodes


def _is_in(clause: Clause, node: ast.AST) -> bool:
    match clause.kind:
        case "base":
            return isinstance(node, ast.ClassDef) and any(
                _last_name(base) == clause.value for base in node.bases
            )
        case "defines":
            return isinstance(node, ast.ClassDef) and clause.value in _defined(node)
        case "reads":
            return any(_reads(inner, clause.value) for inner in ast.walk(node))
        case "lists":
            return any(_lists(inner, clause.value) for inner in ast.walk(node))
        case _:
            return False


def _last_name(node: ast.expr) -> str:
    if isinstance(node, ast.Subscript):
        return _last_name(node.value)
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _defined(node: ast.ClassDef) -> set[str]:
    names = set()
    for line in node.body:
        if isinstance(line, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(line.name)
        elif isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name):
            names.add(line.target.id)
        elif isinstance(line, ast.Assign):
            names |= {target.id for target in line.targets if isinstance(target, ast.Name)}
    return names


def _reads(node: ast.AST, name: str) -> bool:
    if isinstance(node, ast.Attribute):
        return node.attr == name and isinstance(node.ctx, ast.Load)
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "getattr"
        and len(node.args) > 1
        and isinstance(node.args[1], ast.Constant)
        and node.args[1].value == name
    )


def _lists(node: ast.AST, text: str) -> bool:
    if isinstance(node, ast.Dict):
        items: list[ast.expr | None] = list(node.keys)
    elif isinstance(node, ast.List | ast.Tuple | ast.Set):
        items = list(node.elts)
    else:
        return False
    return any(isinstance(item, ast.Constant) and item.value == text for item in items)
