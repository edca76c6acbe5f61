"""Settings that do not go together: every rule fires on its case and is silent on the other."""

from __future__ import annotations

from dataclasses import replace

import pytest

from core.pulsar.releases import RELEASES
from core.pulsar.rules.combinations import RULES, combinations
from core.pulsar.setting_values import typed_value
from core.pulsar.settings import SETTING_BY_KEY, EffectiveSettings

IMPL = "org.apache.pulsar.broker.loadbalance.impl."
SHEDDER = "loadBalancerLoadSheddingStrategy"
PLACEMENT = "loadBalancerLoadPlacementStrategy"
UNIFORM = {SHEDDER: IMPL + "UniformLoadShedder"}
AVG = {SHEDDER: IMPL + "AvgShedder", PLACEMENT: IMPL + "AvgShedder"}
TRANSFER = {SHEDDER: "org.apache.pulsar.broker.loadbalance.extensions.scheduler.TransferShedder"}

# code, manager, settings that make it, settings near them that do not
CASES = [
    ("unpaired_avg_shedder", "modular", {SHEDDER: IMPL + "AvgShedder"}, AVG),
    ("measures_differ", "modular", {}, UNIFORM),
    ("averages_differ", "modular", UNIFORM, {}),
    ("class_of_other_manager", "modular", TRANSFER, {}),
    ("class_of_other_manager", "extensible", UNIFORM, TRANSFER),
    ("no_shedding", "modular", {"loadBalancerEnabled": False}, {}),
    (
        "zero_weights",
        "modular",
        {
            "loadBalancerCPUResourceWeight": 0,
            "loadBalancerBandwidthInResourceWeight": 0,
            "loadBalancerBandwidthOutResourceWeight": 0,
        },
        {"loadBalancerCPUResourceWeight": 0},
    ),
    ("frozen_usage", "modular", {"loadBalancerHistoryResourcePercentage": 1}, {}),
    ("lagging_usage", "modular", {}, {"loadBalancerHistoryResourcePercentage": 0.5}),
    (
        "short_grace",
        "modular",
        {"loadBalancerSheddingGracePeriodMinutes": 1},
        {"loadBalancerSheddingGracePeriodMinutes": 2},
    ),
    (
        "no_threshold",
        "modular",
        UNIFORM
        | {
            "loadBalancerMsgRateDifferenceShedderThreshold": 0,
            "loadBalancerMsgThroughputMultiplierDifferenceShedderThreshold": 0,
        },
        UNIFORM | {"loadBalancerMsgRateDifferenceShedderThreshold": 0},
    ),
    (
        "no_minimum",
        "modular",
        UNIFORM | {"minUnloadMessage": 0, "minUnloadMessageThroughput": 0},
        UNIFORM | {"minUnloadMessage": 0},
    ),
    (
        "overshoot",
        "modular",
        UNIFORM | {"maxUnloadPercentage": 0.6},
        UNIFORM | {"maxUnloadPercentage": 0.5},
    ),
    (
        "nothing_to_move",
        "modular",
        AVG | {"maxUnloadPercentage": 0},
        {"maxUnloadPercentage": 0},
    ),
    (
        "thresholds_crossed",
        "modular",
        AVG | {"loadBalancerAvgShedderLowThreshold": 40},
        AVG | {"loadBalancerAvgShedderLowThreshold": 39},
    ),
    (
        "thresholds_crossed",
        "modular",
        AVG | {"loadBalancerAvgShedderHitCountLowThreshold": 1},
        AVG | {"loadBalancerAvgShedderHitCountLowThreshold": 2},
    ),
    (
        "overload_out_of_reach",
        "modular",
        {"loadBalancerBrokerOverloadedThresholdPercentage": 100},
        {"loadBalancerBrokerOverloadedThresholdPercentage": 99},
    ),
    ("band_never_balances", "extensible", {"loadBalancerBrokerLoadTargetStd": 0}, {}),
    ("debug_changes_result", "extensible", {"loadBalancerDebugModeEnabled": True}, {}),
    (
        "similar_keys",
        "modular",
        {"loadBalancerBandwithInResourceWeight": 0.5},
        {"loadBalancerBandwidthInResourceWeight": 0.5},
    ),
    (
        "similar_timeouts",
        "modular",
        {"zooKeeperSessionTimeoutMillis": 6000},
        {"metadataStoreSessionTimeoutMillis": 6000},
    ),
    (
        "similar_placement",
        "modular",
        {"loadBalancerPlacementStrategy": "weightedRandomSelection"},
        {},
    ),
    (
        "similar_stats",
        "modular",
        {"statsUpdateInitialDelayInSecs": 10},
        {"statsUpdateInitialDelayInSecs": 10, "statsUpdateFrequencyInSecs": 10},
    ),
    (
        "of_other_strategy",
        "modular",
        {"maxUnloadPercentage": 0.4},
        UNIFORM | {"maxUnloadPercentage": 0.4},
    ),
    (
        "not_read",
        "extensible",
        {"minUnloadMessage": 5},
        {"resourceUsageTransportClassName": "org.example.Manager"},
    ),
    (
        "rounds_before_reports",
        "modular",
        {"statsUpdateFrequencyInSecs": 120},
        {"statsUpdateFrequencyInSecs": 120, "loadBalancerSheddingIntervalMinutes": 2},
    ),
    (
        "report_bounds_crossed",
        "modular",
        {"loadBalancerReportUpdateMinIntervalMillis": 1_200_000},
        {"loadBalancerReportUpdateMinIntervalMillis": 60_000},
    ),
    (
        "reports_delayed",
        "modular",
        {"loadBalancerReportUpdateThresholdPercentage": 80},
        {"loadBalancerReportUpdateThresholdPercentage": 20},
    ),
    (
        "data_expires",
        "extensible",
        {"loadBalancerBrokerLoadDataTTLInSeconds": 600},
        {"loadBalancerBrokerLoadDataTTLInSeconds": 900},
    ),
    ("count_before_load", "modular", {}, {"loadBalancerDistributeBundlesEvenlyEnabled": False}),
    ("split_unloads", "modular", {}, {"loadBalancerAutoBundleSplitEnabled": False}),
    ("split_stays", "modular", {"loadBalancerAutoUnloadSplitBundlesEnabled": False}, {}),
    (
        "bundles_start_full",
        "modular",
        {"defaultNumberOfNamespaceBundles": 128},
        {"defaultNumberOfNamespaceBundles": 127},
    ),
    (
        "split_refused",
        "modular",
        {"supportedNamespaceBundleSplitAlgorithms": ["topic_count_equally_divide"]},
        {"supportedNamespaceBundleSplitAlgorithms": ["range_equally_divide"]},
    ),
    (
        "retention_incomplete",
        "modular",
        {"defaultRetentionTimeInMinutes": 300},
        {"defaultRetentionTimeInMinutes": 300, "defaultRetentionSizeInMB": -1},
    ),
    (
        "retention_below_rollover",
        "modular",
        {"defaultRetentionTimeInMinutes": 60, "defaultRetentionSizeInMB": -1},
        {"defaultRetentionTimeInMinutes": 240, "defaultRetentionSizeInMB": -1},
    ),
    (
        "expiry_after_ttl",
        "modular",
        {"ttlDurationDefaultInSeconds": 120},
        {"ttlDurationDefaultInSeconds": 300},
    ),
    (
        "ttl_beyond_retention",
        "modular",
        {
            "ttlDurationDefaultInSeconds": 36_000,
            "defaultRetentionTimeInMinutes": 300,
            "defaultRetentionSizeInMB": -1,
        },
        {
            "ttlDurationDefaultInSeconds": 18_000,
            "defaultRetentionTimeInMinutes": 300,
            "defaultRetentionSizeInMB": -1,
        },
    ),
    (
        "rollover_crossed",
        "modular",
        {"managedLedgerMinLedgerRolloverTimeMinutes": 300},
        {"managedLedgerMinLedgerRolloverTimeMinutes": 240},
    ),
]
FROM_THE_SNAPSHOT = {
    "effective_after_restart",
    "unknown_key",
    "stored_not_dynamic",
    "stored_not_applied",
}


def found_in(manager, settings, release="4.2"):
    made = EffectiveSettings.defaults(release, settings)
    return {item.code: item for item in combinations(made, manager)}


@pytest.mark.parametrize(
    ("code", "manager", "made", "near"), CASES, ids=[f"{case[0]}-{case[1]}" for case in CASES]
)
def test_rule_fires_on_its_case_and_not_on_one_near_it(code, manager, made, near):
    item = found_in(manager, made)[code]
    assert item.sentence.endswith(".")
    assert item.consequence.endswith(".")
    assert set(item.keys) <= SETTING_BY_KEY.keys()
    assert code not in found_in(manager, near)


@pytest.mark.parametrize(
    ("code", "manager", "made", "near"), CASES, ids=[f"{case[0]}-{case[1]}" for case in CASES]
)
def test_values_of_a_fix_fit_their_settings_and_fix_it(code, manager, made, near):
    item = found_in(manager, made)[code]
    values = {
        key: typed_value(SETTING_BY_KEY[key], value)
        for key, value in item.fix.wanted.items()
        if value is not None
    }
    if values:
        assert code not in found_in(manager, made | values)


def test_every_rule_has_a_case():
    told = {case[0] for case in CASES} | FROM_THE_SNAPSHOT
    source_codes = set()
    for manager in ("modular", "extensible"):
        for _, _, made, near in CASES:
            source_codes |= found_in(manager, made).keys() | found_in(manager, near).keys()
    assert source_codes <= told
    assert len(RULES) == len(set(RULES))


@pytest.mark.parametrize(
    ("stored", "code", "said"),
    [
        ({"loadBalancerShedingEnabled": "true"}, "unknown_key", "loadBalancerSheddingEnabled"),
        ({"loadBalancerEnabled": "false"}, "stored_not_dynamic", "broker.conf"),
        ({"minUnloadMessage": "many"}, "stored_not_applied", "delete it"),
    ],
)
def test_stored_value_that_no_broker_goes_by_is_named(stored, code, said):
    base = EffectiveSettings.defaults()
    codes = {item.code: item for item in combinations(replace(base, stored=stored), "modular")}
    assert said in codes[code].hint
    assert not {item.code for item in combinations(base, "modular")} & FROM_THE_SNAPSHOT


def test_split_without_shedding_and_without_unloads_is_a_warning():
    made = {
        "loadBalancerAutoUnloadSplitBundlesEnabled": False,
        "loadBalancerSheddingEnabled": False,
    }
    found = found_in("modular", made)["split_stays"]
    assert (found.severity, found.fix.wanted) == (
        "warning",
        {"loadBalancerAutoUnloadSplitBundlesEnabled": True},
    )


def test_defaults_of_an_extensible_cluster_contradict_nothing():
    assert found_in("extensible", {}) == {}


@pytest.mark.parametrize("release", ["2.8.4", "2.9.5", *RELEASES])
@pytest.mark.parametrize("shedder", [None, "ThresholdShedder", "OverloadShedder"])
def test_a_hint_names_only_settings_and_classes_that_the_release_has(release, shedder):
    overrides = {} if shedder is None else {SHEDDER: IMPL + shedder}
    settings = EffectiveSettings.defaults(release, overrides)
    for item in combinations(settings, "modular"):
        for key, value in item.fix.wanted.items():
            assert settings.has(key), item
            assert settings.target.has_class(str(value).rpartition(".")[2]), item


def test_measures_that_a_release_cannot_change_are_worth_knowing_only():
    (item,) = (
        one
        for one in combinations(EffectiveSettings.defaults("2.9.5"), "modular")
        if one.code == "measures_differ"
    )
    assert (item.severity, item.fix.wanted) == ("info", {})
    assert item.hint.startswith("Release 2.9.5 has no setting loadBalancerLoadPlacementStrategy.")
