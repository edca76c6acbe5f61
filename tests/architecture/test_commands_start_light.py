"""Commands run with pandas hidden (``dashboard/cli/main.py``): no module of theirs may need it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("core", "connectors", "dashboard", "trimtab")
HIDDEN = {"pandas", "streamlit"}
ANOTHER_PROCESS = {"dashboard.app"}
WITH_PANDAS = "core.spark"  # whoever makes a Spark session takes the hiding away
COMMANDS = sorted(
    ".".join(path.relative_to(ROOT).with_suffix("").parts)
    for path in (ROOT / "dashboard" / "cli").rglob("*.py")
)


def place_of(module: str) -> Path | None:
    path = ROOT.joinpath(*module.split("."))
    found = (path.with_suffix(".py"), path / "__init__.py")
    return next((one for one in found if one.is_file()), None)


def imports_of(nodes: list[ast.stmt]) -> Iterator[str]:
    """Names that may be modules; those for type checkers left out."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            yield from imports_of(node.orelse)


def every_statement(tree: ast.AST) -> Iterator[ast.stmt]:
    """The statements of a module and of its functions, those for type checkers left out."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.stmt):
            yield node
        yield from every_statement(node)


@cache
def needed_at_import(module: str) -> frozenset[str]:
    path = place_of(module)
    return frozenset(imports_of(ast.parse(path.read_text()).body) if path else ())


def way_to_hidden(starts: set[str]) -> list[str]:
    """The modules from one of the starts to one that is hidden; empty: there is no such way."""
    ways, known = [[one] for one in sorted(starts)], set(starts)
    for way in ways:
        if way[-1].partition(".")[0] in HIDDEN:
            return way
        if way[-1].partition(".")[0] in PACKAGES and not way[-1].startswith(WITH_PANDAS):
            new = needed_at_import(way[-1]) - known
            ways += [[*way, one] for one in sorted(new)]
            known |= new
    return []


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_needs_nothing_that_is_hidden_from_it(command: str) -> None:
    path = place_of(command)
    assert path is not None
    used = set(imports_of(list(every_statement(ast.parse(path.read_text())))))
    assert way_to_hidden(used - ANOTHER_PROCESS) == []
