"""One table of settings: nothing else declares a label, a range, a unit or a default of a key."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from core.pulsar.settings import SETTING_BY_KEY
from core.pulsar.shedding import SHEDDING_STRATEGIES

ROOT = Path(__file__).parents[2]
TABLE = ROOT / "core" / "pulsar" / "catalogue"
PACKAGES = ("core", "connectors", "dashboard", "trimtab")


def declarations(source: str) -> Iterator[int]:
    """Yield the lines of calls that give the key of a setting with a number or a label."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            given = [*node.args, *(one.value for one in node.keywords if one.arg != "step")]
            values = [one.value for one in given if isinstance(one, ast.Constant)]
            keys = [one for one in values if isinstance(one, str) and one in SETTING_BY_KEY]
            numbers = [one for one in values if type(one) in (int, float)]
            named = {one.arg for one in node.keywords} & {"label", "default", "unit"}
            if len(keys) == 1 and (numbers or named):
                yield node.lineno


def test_a_second_declaration_is_found() -> None:
    assert list(declarations('Range("maxUnloadPercentage", 0.0, 1.0)')) == [1]
    assert list(declarations('Label(key="maxUnloadPercentage", label="Share")')) == [1]
    assert list(declarations('settings.number("maxUnloadPercentage")')) == []


def test_a_setting_is_declared_in_the_table_only() -> None:
    paths = [path for package in PACKAGES for path in (ROOT / package).rglob("*.py")]
    found = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in paths
        if TABLE not in path.parents
        for line in declarations(path.read_text(encoding="utf-8"))
    ]
    assert found == []


@pytest.mark.parametrize("strategy", SHEDDING_STRATEGIES, ids=lambda one: str(one.name))
def test_the_table_has_what_a_strategy_needs(strategy) -> None:
    for key in strategy.adjustable:
        setting = SETTING_BY_KEY[key]
        assert setting.label
        assert (setting.range is None) is (setting.kind == "bool")
    for key in strategy.deciding:
        setting = SETTING_BY_KEY[key]
        assert (setting.extremes is None) is (setting.kind == "bool")
