"""A shedding strategy is named by its module and the registry; others ask capabilities."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from core.pulsar.shedding import SHEDDING_STRATEGY_NAMES

ROOT = Path(__file__).parents[2]
PACKAGES = ("core", "connectors", "dashboard")
OWN = ROOT / "core" / "pulsar" / "shedding"
ALLOWED = {
    "core/pulsar/catalogue/placement.py": "defaults by release name classes",
    "core/pulsar/catalogue/shedding.py": "defaults by release name classes",
    "core/pulsar/releases.py": "which release has which class",
    "core/pulsar/presets.py": "a preset names the class that it sets",
    "core/pulsar/placement/selectors.py": "the placement half of AvgShedder has its name",
    "core/pulsar/placement/explain.py": "the placement half, in its own package",
    "core/pulsar/placement/distribution.py": "the placement half, in its own package",
    "core/pulsar/leader/extensible.py": "replays the one class of the extensible manager",
    "core/simulation/managers.py": "plays the extensible manager, which runs one class",
}


def named(source: str) -> Iterator[str]:
    """Yield the strategies that code names, by a text or by an import."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Constant(value=str(text)) if text.rpartition(".")[2] in NAMES:
                yield text
            case ast.ImportFrom(names=names):
                yield from (one.name for one in names if one.name in NAMES)


NAMES = frozenset(SHEDDING_STRATEGY_NAMES)


def test_a_name_is_found() -> None:
    assert list(named('if name == "AvgShedder": pass')) == ["AvgShedder"]
    assert list(named("from core.x import TransferShedder")) == ["TransferShedder"]
    assert list(named('"""Of AvgShedder, say."""')) == []


def test_only_listed_files_name_a_shedding_strategy() -> None:
    paths = [path for package in PACKAGES for path in (ROOT / package).rglob("*.py")]
    found = {
        str(path.relative_to(ROOT))
        for path in paths
        if OWN not in path.parents and any(named(path.read_text(encoding="utf-8")))
    }
    assert found == set(ALLOWED)
