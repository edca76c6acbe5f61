"""The table of settings has what the released ``ServiceConfiguration`` classes have."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
from pulsar_jars import PULSAR_VERSION, SkipReason
from release_golden import VERSIONS, load_golden, read_fields
from release_jars import RELEASED

from core.pulsar.catalogue import SETTINGS, Setting, Value
from core.pulsar.releases import REFERENCE_VERSIONS, RELEASES, Release, value_at
from core.pulsar.setting_values import parse_upstream_value
from core.pulsar.settings import SETTING_BY_KEY

pytestmark = pytest.mark.timeout(900)  # the first test with jars may have to fetch them

DOCUMENTED_FOR_5_0 = {
    "loadBalancerLoadSheddingStrategy",
    "loadBalancerLoadPlacementStrategy",
    "maxUnloadPercentage",
}
"""5.0 has other defaults by its documentation than its first milestone has by its class."""

Entry = tuple[Value, bool] | None
"""Default and whether it is dynamic; ``None``: the version does not have the setting."""


@cache
def _golden() -> dict[str, Any]:
    return load_golden()


def _ours(setting: Setting, version: str) -> Entry:
    if not setting.exists_in(version):
        return None
    return setting.default_for(version), setting.is_dynamic_in(version)


def _theirs(setting: Setting, entry: list[Any] | None) -> Entry:
    if entry is None:
        return None
    text, is_dynamic = entry
    empty = None if setting.kind == "optional_float" else ()
    return (empty if text is None else parse_upstream_value(setting, text)), is_dynamic


def _differences(version: str, entries: dict[str, list[Any] | None]) -> dict[str, object]:
    known = DOCUMENTED_FOR_5_0 if version.startswith("5.") else set()
    return {
        setting.key: (ours, theirs)
        for setting in SETTINGS
        if setting.key not in known
        for ours, theirs in [(_ours(setting, version), _theirs(setting, entries.get(setting.key)))]
        if ours != theirs
    }


@pytest.mark.parametrize("version", VERSIONS)
def test_the_table_has_the_defaults_of_the_released_class(version: str) -> None:
    assert _differences(version, _golden()["jars"][version]) == {}


@pytest.mark.parametrize("version", sorted(_golden()["commits"]))
def test_the_table_has_the_defaults_of_the_release_commit(version: str) -> None:
    number = Release.of(version).number
    entries = {key: value_at(history, number) for key, history in _golden()["sources"].items()}
    assert _differences(version, entries) == {}


def test_the_sources_and_the_released_classes_are_the_same() -> None:
    apart = []
    for version, fields in _golden()["jars"].items():
        number = Release.of(version).number
        for key, history in _golden()["sources"].items():
            setting = SETTING_BY_KEY[key]
            told = _theirs(setting, value_at(history, number))
            if told != _theirs(setting, fields.get(key)):
                apart.append((version, key, told, fields.get(key)))
    assert apart == []


def test_every_line_but_4_1_was_read_from_a_released_class() -> None:
    lines = {Release.of(version).line for version in _golden()["jars"]}
    assert set(RELEASES) - lines == {"4.1"}
    commits = {Release.of(version).line for version in _golden()["commits"]}
    assert commits == set(RELEASES)
    assert set(REFERENCE_VERSIONS.values()) - {"5.0.0"} <= set(_golden()["commits"])


@pytest.mark.slow
@pytest.mark.parametrize("version", [*RELEASED, PULSAR_VERSION])
def test_the_released_class_still_has_what_is_kept(version: str) -> None:
    found = read_fields(version)
    if isinstance(found, SkipReason):
        pytest.skip(found)
    assert {key: list(value) for key, value in found.items()} == _golden()["jars"][version]
