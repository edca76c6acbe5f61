"""No circle of files: imports in functions and for type checking count as well."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("core", "connectors", "dashboard", "trimtab")


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(path: Path, modules: set[str]) -> Iterator[str]:
    """Yield the modules that a file imports anywhere in it; of packages their ``__init__``."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.Import(names=names):
                yield from (one.name for one in names if one.name in modules)
            case ast.ImportFrom(module=str(module), names=names):
                for one in names:
                    inner = f"{module}.{one.name}"
                    yield inner if inner in modules else module


def graph() -> dict[str, set[str]]:
    paths = [path for package in PACKAGES for path in (ROOT / package).rglob("*.py")]
    by_name = {module_name(path): path for path in paths}
    names = set(by_name)
    return {
        name: {one for one in imports(path, names) if one in names and one != name}
        for name, path in by_name.items()
    }


def circles(imported: dict[str, set[str]]) -> list[list[str]]:
    """Return one circle after another, each as the list of its modules; cuts each to go on."""
    imported = {name: set(others) for name, others in imported.items()}
    found = []
    while True:
        try:
            TopologicalSorter(imported).prepare()
        except CycleError as exc:
            circle = exc.args[1]
            found.append(circle)
            imported[circle[1]].discard(circle[0])
        else:
            return found


def test_a_circle_is_found() -> None:
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) != []
    assert circles({"a": {"b"}, "b": {"c"}, "c": set(), "d": {"a"}}) == []


def test_no_files_import_each_other_in_a_circle() -> None:
    assert circles(graph()) == []
