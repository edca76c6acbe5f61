"""What is the same for every system names none of them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from core.systems import STEPS, SYSTEMS

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
)


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


def neutral_files() -> Iterator[Path]:
    for place in NEUTRAL:
        path = ROOT / place
        yield from [path] if path.suffix else sorted(path.rglob("*.py"))


def test_neutral_code_names_no_system() -> None:
    systems = [system.name for system in SYSTEMS]
    offenders = []
    for path in neutral_files():
        tree = ast.parse(path.read_text())
        for line, name in [*imported(tree), *identifiers(tree)]:
            if any(system in name.lower() for system in systems):
                offenders.append(f"{path.relative_to(ROOT)}:{line} {name}")
    assert not offenders, "take it from core.system.System, or move it to the system's folder"


def test_the_order_of_a_kind_is_its_place_in_the_registry() -> None:
    offenders = [
        system.name
        for system in SYSTEMS
        if [kind.phrase.order for kind in system.steps]
        != sorted(kind.phrase.order for kind in system.steps)
    ]
    assert not offenders, "Phrase.order and the registry of the system disagree"
    assert len(STEPS.kinds) == sum(len(system.steps) for system in SYSTEMS)
