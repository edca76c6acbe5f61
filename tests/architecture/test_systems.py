"""What is the same for every system names none of them."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path
from pkgutil import resolve_name
from typing import get_args

from connectors.config.kinds import KINDS
from core.systems import STEPS, SYSTEMS
from dashboard.systems import SYSTEMS as ENTRIES
from dashboard.systems import Kind

ROOT = Path(__file__).parents[2]
NEUTRAL = (
    *("core/plan", "core/actions", "core/step.py", "core/system.py"),
    *("core/findings", "core/history/store", "core/history/transfer"),
    *("core/snapshot/record.py", "core/history/analysis/accuracy/shadow.py"),
    *("core/history/analysis/flaps", "core/history/analysis/accuracy/accuracy.py"),
    *("core/history/backtest/system.py", "core/history/backtest/job.py"),
    *("core/spark/fleet.py", "core/spark/pool.py", "core/spark/session.py", "core/spark/lift.py"),
    *("connectors/worker", "connectors/journal", "connectors/recording", "connectors/connector.py"),
    *("connectors/jobs/kinds/fleet.py", "connectors/jobs/kinds/history.py"),
    *("connectors/jobs/kinds/backtest.py", "connectors/jobs/queue.py", "connectors/jobs/server.py"),
    *("connectors/jobs/model.py", "connectors/jobs/record.py", "connectors/jobs/results.py"),
    *("connectors/transport", "connectors/zookeeper"),
    *("core/snapshot/__init__.py",),
    *("dashboard/app.py", "dashboard/sitemap.py", "dashboard/state.py", "dashboard/cli/main.py"),
)
SILENT = (
    *(f"dashboard/app_pages/{page}" for page in ("activity", "backtest", "diagnose", "fleet")),
    "dashboard/app_pages/history",
    *("dashboard/app_pages/jobs", "dashboard/app_pages/run"),
    *(
        f"dashboard/components/{name}.py"
        for name in (
            *("activity", "applying", "choice", "figures", "frame", "header", "jobs"),
            *(
                "unknown_params",
                "page",
                "run_controls",
                "system",
                "tables",
                "undo",
                "waiting",
                "words",
            ),
        )
    ),
    *(
        f"dashboard/presenters/{name}.py"
        for name in (
            *("applying", "candidates", "fleet", "freshness", "jobs", "journal", "moments"),
            *("moves", "naming", "run_steps", "runs", "search"),
            *("step_history", "step_text", "workers"),
        )
    ),
    *(
        f"dashboard/queries/{name}.py"
        for name in ("background", "cache", "history", "runs", "snapshots")
    ),
    *(
        f"dashboard/cli/{name}.py"
        for name in (
            *("answers", "apply", "backtest", "clusters", "config", "demo", "diagnose"),
            *("engine", "jobs", "operations", "options", "output"),
            *("plan_answers", "preview"),
            *("registry", "requests", "runs", "sandbox_config", "source", "supervisor", "systems"),
        )
    ),
    *(f"dashboard/cli/history/{name}.py" for name in ("analysis", "moments", "transfer")),
    *("dashboard/services/__init__.py", "dashboard/services/history.py"),
    *("dashboard/services/jobs.py", "dashboard/services/spark.py"),
    *("dashboard/services/run_queue.py", "dashboard/services/runbook.py"),
)
"""No text of these names a system, either: what a page shows of one is declared by it."""


def imported(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield line and module of every import, local and type-checking ones included."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            yield node.lineno, node.module
        elif isinstance(node, ast.Import):
            for name in node.names:
                yield node.lineno, name.name


def identifiers(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield line and text of every name that code declares or reads."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            yield node.lineno, node.id
        elif isinstance(node, ast.Attribute):
            yield node.lineno, node.attr
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.lineno, node.name


def texts(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield line and text of every string that is no docstring."""
    described = (ast.Module, ast.ClassDef, ast.FunctionDef)
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, described) and node.body and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        is_text = isinstance(node, ast.Constant) and isinstance(node.value, str)
        if is_text and id(node) not in docstrings:
            yield node.lineno, node.value


def files_of(places: Iterable[str]) -> Iterator[Path]:
    for place in places:
        path = ROOT / place
        yield from [path] if path.suffix else sorted(path.rglob("*.py"))


def test_neutral_code_names_no_system() -> None:
    systems = [system.name for system in SYSTEMS]
    offenders = []
    # systems.py of a page is its one list of systems
    silent = {
        path
        for path in files_of(SILENT)
        if path.parts[-3:-2] != ("app_pages",) or path.name != "systems.py"
    }
    for path in [*files_of(NEUTRAL), *silent]:
        tree = ast.parse(path.read_text())
        shown = texts(tree) if path in silent else ()
        for line, name in [*imported(tree), *identifiers(tree), *shown]:
            if any(system in name.lower() for system in systems):
                offenders.append(f"{path.relative_to(ROOT)}:{line} {name}")
    assert not offenders, "take it from core.system.System, or move it to the system's folder"


def test_every_part_of_a_system_is_where_its_entry_names_it() -> None:
    for system in SYSTEMS:
        assert all(resolve_name(place) for place in system.parts if place)
    for entry in ENTRIES.values():
        places = (entry.frame, entry.reading, entry.step_text, *entry.pages.values())
        assert all(resolve_name(place) for place in places if place)
    assert tuple(ENTRIES) == get_args(Kind)
    for kind, rules in KINDS.items():
        assert resolve_name(rules.connector).system.name == kind
        assert resolve_name(rules.jobs)


def test_a_layer_has_one_list_of_systems() -> None:
    """A literal with an element for each system; an operation declares those that it answers."""
    systems = {system.name for system in SYSTEMS}
    found: dict[str, list[str]] = {}
    for layer in ("core", "connectors", "dashboard"):
        for path in sorted((ROOT / layer).rglob("*.py")):
            place = str(path.relative_to(ROOT))
            if place.startswith("core/operations/"):
                continue
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if systems <= set(_elements(node)):
                    found.setdefault(layer, []).append(place)
    assert found == {
        "core": ["core/systems.py"],
        "connectors": ["connectors/config/kinds.py"],
        "dashboard": ["dashboard/systems.py"] * 2,  # the choices of an option are a literal type
    }


def _elements(node: ast.AST) -> Iterator[str]:
    """Yield the names of a literal's elements, of a mapping those of its keys, in lower case."""
    elements: Iterable[ast.expr | None] = ()
    if isinstance(node, ast.Dict):
        elements = node.keys
    elif isinstance(node, ast.Tuple | ast.List | ast.Set):
        elements = node.elts
    for one in elements:
        if isinstance(one, ast.Constant) and isinstance(one.value, str):
            yield one.value.lower()
        elif isinstance(one, ast.Name):
            yield one.id.lower()


def test_the_order_of_a_kind_is_its_place_in_the_registry() -> None:
    offenders = [
        system.name
        for system in SYSTEMS
        if [kind.phrase.order for kind in system.steps]
        != sorted(kind.phrase.order for kind in system.steps)
    ]
    assert not offenders, "Phrase.order and the registry of the system disagree"
    assert len(STEPS.kinds) == sum(len(system.steps) for system in SYSTEMS)
