"""Settings: the table itself, parsing, defaults per release, origin and differences."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from fleet_builder import NOON
from places import FIXTURES

from core.errors import InputError, UnknownNameError
from core.pulsar.releases import Release
from core.pulsar.setting_values import parse_upstream_value, typed_value
from core.pulsar.settings import (
    RELEASES,
    SETTING_BY_KEY,
    SETTINGS,
    EffectiveSettings,
    effective_settings,
    parse_set_options,
)
from core.snapshot import Manifest, PulsarSnapshot

RECORDED = FIXTURES / "pulsar" / "modular" / "lb_settings.json"
CHANGED_WHILE_RECORDING = {
    "exposeBundlesMetricsInPrometheus",
    "loadBalancerAutoBundleSplitEnabled",
    "loadBalancerDebugModeEnabled",
    "loadBalancerOverrideBrokerNicSpeedGbps",
    "loadBalancerReportUpdateMaxIntervalMinutes",
    "loadBalancerResourceQuotaUpdateIntervalMinutes",
    "loadBalancerSheddingEnabled",
}


def _snapshot(
    rows: list[dict[str, object]], *, leader: str | None = None, release: str | None = "4.2.4"
) -> PulsarSnapshot:
    brokers = [{"broker": name, "is_leader": name == leader} for name in ("a:1", "b:1", "c:1")]
    manifest = Manifest(cluster="c", taken_at=NOON, tables={}, leader=leader, release=release)
    tables = {"brokers": pa.Table.from_pylist(brokers)}
    if rows:
        tables["settings"] = pa.Table.from_pylist(rows)
    return PulsarSnapshot.build(manifest, tables)


def test_every_key_is_there_once_and_has_a_meaning() -> None:
    keys = [setting.key for setting in SETTINGS]
    assert len(keys) == len(set(keys)) == len(SETTING_BY_KEY)
    for setting in SETTINGS:
        assert setting.meaning.endswith("."), setting.key
        assert set(setting.defaults_by_release) <= set(RELEASES)
        assert typed_value(setting, setting.default) == setting.default
        for value in setting.defaults_by_release.values():
            assert typed_value(setting, value) == value


def test_the_table_says_what_a_real_broker_runs_with() -> None:
    recorded = json.loads(RECORDED.read_text())
    ours = {setting.key: setting for setting in SETTINGS}
    missing = [key for key in recorded if key not in ours]
    assert missing == []
    for key, facts in recorded.items():
        assert ours[key].is_dynamic is facts["dynamic"], key
        running = parse_upstream_value(ours[key], facts["runtime"])
        if key not in CHANGED_WHILE_RECORDING:
            assert running == ours[key].default_for("4.2"), key
        else:
            assert running != ours[key].default_for("4.2"), key


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("2.8.4", ("2.8", True)),
        ("2.9.5", ("2.9", True)),
        ("2.10.6", ("2.10", True)),
        ("2.11.4", ("2.11", True)),
        ("3.0.12", ("3.0", True)),
        ("3.3.7", ("3.3", True)),
        ("4.0.8", ("4.0", True)),
        ("4.1.2", ("4.1", True)),
        ("4.2.4", ("4.2", True)),
        ("4.2.5-SNAPSHOT", ("4.2", True)),
        ("v4.2", ("4.2", True)),
        ("5.0.1", ("5.0", True)),
        ("6.0.0-SNAPSHOT", ("5.0", False)),
        ("3.4.0", ("3.3", False)),
        ("2.7.5", ("2.8", False)),
        ("", ("4.2", False)),
        ("custom-build", ("4.2", False)),
        (None, ("4.2", False)),
    ],
)
def test_a_version_belongs_to_its_own_line_or_is_unknown(
    version: str | None, expected: tuple[str, bool]
) -> None:
    release = Release.of(version)
    assert (release.line, release.is_known) == expected
    assert bool(release.warning) is not release.is_known


def test_an_unknown_release_is_named_with_the_line_that_is_assumed() -> None:
    settings = effective_settings(_snapshot([], release="6.0.1"))
    assert settings.release == "5.0"
    assert settings.release_warnings == ("Release 6.0.1 is unknown: the rules of 5.0 are assumed.",)
    assert Release.of("6.0.1").label == "6.0.1 (unknown, as 5.0)"


def test_old_releases_have_their_own_shedder_and_weights() -> None:
    old = EffectiveSettings.defaults("2.8")
    assert old.text("loadBalancerLoadSheddingStrategy").endswith(".OverloadShedder")
    assert old.number("loadBalancerMemoryResourceWeight") == 1.0
    assert old.number("loadBalancerDirectMemoryResourceWeight") == 1.0
    assert (
        EffectiveSettings.defaults("2.10")
        .text("loadBalancerLoadSheddingStrategy")
        .endswith(".ThresholdShedder")
    )
    by_patch = {
        version: EffectiveSettings.defaults(version).number(
            "loadBalancerDirectMemoryResourceWeight"
        )
        for version in ("3.0.17", "3.1.0", "3.1.1", "3.1", "4.2")
    }
    assert by_patch == {"3.0.17": 1.0, "3.1.0": 1.0, "3.1.1": 0.0, "3.1": 0.0, "4.2": 0.0}


@pytest.mark.parametrize(
    ("key", "available"),
    [
        ("loadBalancerSheddingExcludedNamespaces", "4.0.11 and later"),
        (
            "loadBalancerAvgShedderLowThreshold",
            "3.0 from 3.0.6, 3.2 from 3.2.4, 3.3.1 and later",
        ),
        ("minUnloadMessage", "2.11 and later"),
        ("loadBalancerSheddingEnabled", "2.8 and later"),
    ],
)
def test_a_setting_names_the_releases_that_have_it(key: str, available: str) -> None:
    assert SETTING_BY_KEY[key].available_in == available


@pytest.mark.parametrize("release", ["4.0", "4.0.8"])
def test_a_setting_that_the_release_lacks_has_no_effect_and_a_warning(release: str) -> None:
    key = "loadBalancerSheddingExcludedNamespaces"
    settings = EffectiveSettings.defaults(release, {key: ["acme/orders"]})
    assert not settings.has(key)
    assert settings.excluded_namespaces == frozenset()
    assert settings.without_effect == (key,)
    (warning,) = settings.release_warnings
    assert warning == (
        "Release 4.0.8 has no setting loadBalancerSheddingExcludedNamespaces, so its value has no "
        "effect. Available in 4.0.11 and later."
    )


@pytest.mark.parametrize("release", ["4.0.11", "4.1", "4.1.0", "4.2"])
def test_a_setting_that_the_release_has_takes_effect(release: str) -> None:
    key = "loadBalancerSheddingExcludedNamespaces"
    settings = EffectiveSettings.defaults(release, {key: ["acme/orders"]})
    assert settings.excluded_namespaces == {"acme/orders"}
    assert settings.release_warnings == ()


def test_a_broker_s_own_value_of_a_missing_setting_has_no_effect() -> None:
    key = "loadBalancerSheddingExcludedNamespaces"
    row = {"broker": None, "name": key, "value": "[acme/orders]", "origin": "file"}
    settings = effective_settings(_snapshot([row], release="4.0.8"))
    assert settings.without_effect == (key,)
    assert settings.value(key) == ()
    assert effective_settings(_snapshot([row], release="4.0.13")).value(key) == ("acme/orders",)


def test_a_line_that_the_brokers_run_stands_for_their_own_version() -> None:
    snapshot = _snapshot([], release="4.0.13")
    assert effective_settings(snapshot, release="4.0").target.name == "4.0.13"
    assert effective_settings(snapshot, release="4.0.4").target.name == "4.0.4"
    assert effective_settings(snapshot, release="3.0").target.name == "3.0.17"


def test_a_strategy_that_the_release_lacks_is_named() -> None:
    key = "loadBalancerLoadSheddingStrategy"
    value = "org.apache.pulsar.broker.loadbalance.impl.AvgShedder"
    (warning,) = EffectiveSettings.defaults("2.9", {key: value}).release_warnings
    assert warning == (
        "Release 2.9.5 has no AvgShedder. "
        "Available in 3.0 from 3.0.6, 3.2 from 3.2.4, 3.3.1 and later."
    )


@pytest.mark.parametrize("text", ["6.0", "2.7", "custom-build", ""])
def test_a_wrong_release_is_refused_with_the_lines(text: str) -> None:
    with pytest.raises(UnknownNameError, match="Release line") as caught:
        EffectiveSettings.defaults(text)
    assert "2.8, 2.9, 2.10" in str(caught.value.hint)


def test_release_5_has_other_strategies_and_a_larger_share() -> None:
    new, old = EffectiveSettings.defaults("5.0"), EffectiveSettings.defaults("4.2")
    assert old.text("loadBalancerLoadSheddingStrategy").endswith(".ThresholdShedder")
    assert new.text("loadBalancerLoadSheddingStrategy").endswith(".AvgShedder")
    assert new.text("loadBalancerLoadPlacementStrategy").endswith(".AvgShedder")
    assert (old.value("maxUnloadPercentage"), new.value("maxUnloadPercentage")) == (0.2, 0.5)


def test_set_options_are_typed_by_the_setting() -> None:
    assert parse_set_options(
        [
            "loadBalancerBrokerThresholdShedderPercentage=40",
            "loadBalancerHistoryResourcePercentage=1",
            "lowerBoundarySheddingEnabled=true",
            'loadBalancerSheddingExcludedNamespaces=["a/b", "c/d"]',
            'defaultNamespaceBundleSplitAlgorithm="range_equally_divide"',
            "loadBalancerOverrideBrokerNicSpeedGbps=null",
        ]
    ) == {
        "loadBalancerBrokerThresholdShedderPercentage": 40,
        "loadBalancerHistoryResourcePercentage": 1.0,
        "lowerBoundarySheddingEnabled": True,
        "loadBalancerSheddingExcludedNamespaces": ("a/b", "c/d"),
        "defaultNamespaceBundleSplitAlgorithm": "range_equally_divide",
        "loadBalancerOverrideBrokerNicSpeedGbps": None,
    }


@pytest.mark.parametrize(
    "option",
    [
        "loadBalancerBrokerThresholdShedderPercentage",
        "loadBalancerBrokerThresholdShedderPercentage=",
        "loadBalancerBrokerThresholdShedderPercentage=forty",
        "loadBalancerBrokerThresholdShedderPercentage=1.5",
        "loadBalancerBrokerThresholdShedderPercentage=true",
        "loadBalancerHistoryResourcePercentage=NaN",
        f"loadBalancerHistoryResourcePercentage={10**400}",
        "lowerBoundarySheddingEnabled=1",
        "defaultNamespaceBundleSplitAlgorithm=3",
        "loadBalancerSheddingExcludedNamespaces=[1]",
    ],
)
def test_a_set_option_of_the_wrong_type_is_refused(option: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_set_options([option])
    assert caught.value.hint


def test_an_unknown_key_offers_the_near_one() -> None:
    with pytest.raises(UnknownNameError, match="maxUnloadPercentage"):
        parse_set_options(["maxUnloadPercent=1"])


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("loadBalancerEnabled", "True", True),
        ("loadBalancerEnabled", "maybe", False),
        ("loadBalancerBrokerMaxTopics", " 10 ", 10),
        ("maxUnloadPercentage", "0.3", 0.3),
        ("supportedNamespaceBundleSplitAlgorithms", "[a, b]", ("a", "b")),
        ("loadBalancerSheddingExcludedNamespaces", "t/a,t/b", ("t/a", "t/b")),
        ("loadBalancerSheddingExcludedNamespaces", "[]", ()),
        ("loadBalancerOverrideBrokerNicSpeedGbps", "Optional[1.5]", 1.5),
        ("loadBalancerOverrideBrokerNicSpeedGbps", "Optional.empty", None),
        ("loadBalancerOverrideBrokerNicSpeedGbps", "", None),
    ],
)
def test_running_values_are_read_as_brokers_write_them(key: str, text: str, value: object) -> None:
    assert parse_upstream_value(SETTING_BY_KEY[key], text) == value


def test_what_nothing_tells_is_assumed_and_says_so() -> None:
    settings = effective_settings(_snapshot([]))
    assert settings.value("loadBalancerBrokerMaxTopics") == 50_000
    assert settings.origin("loadBalancerBrokerMaxTopics") == "assumed"


def test_overrides_win_over_dynamic_values() -> None:
    rows = [{"name": "loadBalancerBrokerMaxTopics", "value": "7", "origin": "dynamic"}]
    told = effective_settings(_snapshot(rows))
    assert (
        told.value("loadBalancerBrokerMaxTopics"),
        told.origin("loadBalancerBrokerMaxTopics"),
    ) == (7, "dynamic")
    what_if = effective_settings(_snapshot(rows), overrides={"loadBalancerBrokerMaxTopics": 9})
    assert what_if.value("loadBalancerBrokerMaxTopics") == 9
    assert what_if.origin("loadBalancerBrokerMaxTopics") == "override"


def test_a_stored_value_that_brokers_ignore_is_a_problem_and_not_a_value() -> None:
    rows = [{"name": "loadBalancerBrokerMaxTopics", "value": "abc", "origin": "dynamic"}]
    settings = effective_settings(_snapshot(rows))
    assert settings.value("loadBalancerBrokerMaxTopics") == 50_000
    assert settings.origin("loadBalancerBrokerMaxTopics") == "assumed"
    assert "abc" in settings.problems[0]


def test_the_leaders_value_decides_where_brokers_differ() -> None:
    key = "loadBalancerBrokerOverloadedThresholdPercentage"
    rows = [
        {"broker": None, "name": key, "value": "85", "origin": "default"},
        {"broker": "b:1", "name": key, "value": "60", "origin": "file"},
    ]
    assert effective_settings(_snapshot(rows, leader="b:1")).value(key) == 60
    assert effective_settings(_snapshot(rows, leader="a:1")).value(key) == 85
    nobody = effective_settings(_snapshot(rows))
    assert nobody.value(key) == 85
    assert nobody.differing() == {key: {"a:1": 85, "b:1": 60, "c:1": 85}}


def test_the_release_follows_the_brokers_unless_named() -> None:
    assert effective_settings(_snapshot([], release="5.0.1")).release == "5.0"
    assert effective_settings(_snapshot([], release="5.0.1"), release="4.0").release == "4.0"
    with pytest.raises(UnknownNameError, match="Release line"):
        effective_settings(_snapshot([]), release="9.9")
