"""A shedding strategy is named by its module and the registry; others ask capabilities."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from core.pulsar.shedding import SHEDDING_STRATEGY_NAMES, registry
from core.pulsar.shedding.registry import SHEDDING_STRATEGIES

ROOT = Path(__file__).parents[2]
PACKAGES = ("core", "connectors", "dashboard", "trimtab")
OWN = {
    f"{module.replace('.', '/')}.py"
    for module in (registry.__name__, *(type(one).__module__ for one in SHEDDING_STRATEGIES))
}
ALLOWED = {
    "core/pulsar/catalogue/placement.py": "defaults by release name classes",
    "core/pulsar/catalogue/shedding.py": "defaults by release name classes",
    "core/pulsar/releases.py": "which release has which class",
    "core/pulsar/presets.py": "a preset names the class that it sets",
    "core/pulsar/placement/selectors.py": "the placement half of AvgShedder has its name",
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
        if any(named(path.read_text(encoding="utf-8")))
    }
    assert found - OWN == set(ALLOWED)
