"""The settings doctor: each rule fires on its case and is silent on a sound fleet."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import lru_cache

import numpy as np
import pytest
from fleet_builder import broker_names, make_snapshot
from fleet_edit import edited, every, with_policies, with_settings

from core.pulsar.presets import upstream_words
from core.pulsar.rules.doctor import DOCTOR_RULES, examine
from core.pulsar.rules.doctor.answer import answer
from core.pulsar.rules.doctor.host_load import fit_line
from core.pulsar.rules.verdict import verdict_of
from core.pulsar.setting_values import typed_value
from core.pulsar.settings import SETTING_BY_KEY, effective_settings
from core.snapshot import PulsarSnapshot

NAMES = broker_names(8)
IMPL = "org.apache.pulsar.broker.loadbalance.impl."
SHEDDER = "loadBalancerLoadSheddingStrategy"
PLACEMENT = "loadBalancerLoadPlacementStrategy"
NIC = "loadBalancerOverrideBrokerNicSpeedGbps"
TRANSPORT = "resourceUsageTransportClassName"
EXCLUDED = "loadBalancerSheddingExcludedNamespaces"
PAIR = (None, PLACEMENT, IMPL + "LeastResourceUsageWithWeight", "file")


@lru_cache(maxsize=1)
def sound():
    """Eight brokers alike, shed and placed by one measure; their network carries the messages."""
    base = with_policies(with_settings(make_snapshot(brokers=8, bundles=160), PAIR))
    traffic = {
        name: {
            f"msg_throughput_{way}": (20e6 + 1e6 * place) * (1 if way == "in" else 2)
            for way in ("in", "out")
        }
        for place, name in enumerate(NAMES)
    }
    cells = {
        name: own
        | {
            "cpu_usage": 60.0 + (own["msg_throughput_in"] + own["msg_throughput_out"]) / 1e6,
            "bandwidth_in_usage": own["msg_throughput_in"] / 125 * 1.1,
            "bandwidth_out_usage": 2.2 * own["msg_throughput_out"] / 125,
        }
        for name, own in traffic.items()
    }
    return edited(every(base, "namespaces", {"anti_affinity_group": None}), "brokers", cells)


def codes(snapshot, severity=("warning", "info", "unknown", "error")):
    return {one.code for one in examine(snapshot).diagnoses if one.severity in severity}


def only(snapshot, code):
    (one,) = [item for item in examine(snapshot).diagnoses if item.code == code]
    return one


def set_on(broker, key, value, origin="file"):
    """A setting on one broker, beside the default on all others; or on all."""
    rows = [] if broker is None else [(None, key, upstream_words(default_of(key)), "default")]
    return with_settings(sound(), PAIR, *rows, (broker, key, value, origin))


def default_of(key):
    return SETTING_BY_KEY[key].default


def cell(broker, **cells):
    return edited(sound(), "brokers", {broker: cells})


def grouped(count):
    spaces = sound().namespaces["namespace"].to_pylist()
    return edited(
        sound(), "namespaces", {name: {"anti_affinity_group": "pair"} for name in spaces[:count]}
    )


def with_domains(snapshot, names, *, is_on):
    domain = json.dumps({"brokers": list(names)})
    made = with_policies(snapshot, ("failure_domain", "rack-a", domain))
    flag = "true" if is_on else "false"
    return with_settings(made, PAIR, (None, "failureDomainsEnabled", flag, "file"))


def test_a_sound_fleet_needs_no_look():
    assert codes(sound(), ("warning", "unknown", "error")) == set()


def replaced_release(snapshot, release):
    return PulsarSnapshot.build(replace(snapshot.manifest, release=release), snapshot.tables)


@lru_cache(maxsize=1)
def firing():
    group = ("resource_group", "gold", '{"publishRateInMsgs": 100}')
    attached = edited(
        with_policies(sound(), group),
        "namespaces",
        {sound().namespaces["namespace"][0].as_py(): {"resource_group": "gold"}},
    )
    threshold = (None, "loadBalancerBrokerThresholdShedderPercentage", "80", "file")
    return {
        "measures_differ": with_settings(
            sound(), (None, PLACEMENT, "x.RoundRobinBrokerSelector", "")
        ),
        "settings_differ": set_on(NAMES[2], "maxUnloadPercentage", "0.5"),
        "effective_after_restart": set_on(
            None, "loadBalancerHostUsageCheckIntervalMinutes", "1", "dynamic"
        ),
        "unknown_key": set_on(None, "stored:loadBalancerShedingEnabled", "true", "stored"),
        "mixed_releases": cell(NAMES[1], version="5.0.1"),
        "release_unknown": replaced_release(sound(), "custom-build"),
        "setting_without_effect": replaced_release(
            set_on(None, EXCLUDED, "[acme/orders]", "file"), "4.0.8"
        ),
        "mixed_load_managers": cell(
            NAMES[1],
            load_manager="org.apache.pulsar.broker.loadbalance.extensions.ExtensibleLoadManagerImpl",
        ),
        "no_limit": cell(NAMES[1], bandwidth_in_limit=-1.0),
        "network_limit_odd": cell(NAMES[1], bandwidth_out_limit=100_000_000.0),
        "network_speed_not_effective": set_on(None, NIC, "Optional[25.0]"),
        "traffic_beyond_cards": cell(NAMES[1], bandwidth_in_usage=100.0),
        "limits_differ": cell(NAMES[1], cpu_limit=400.0),
        "foreign_load": cell(NAMES[3], cpu_usage=600.0),
        "domains_unused": with_domains(grouped(2), NAMES, is_on=False),
        "domains_missing": with_domains(grouped(1), NAMES[:6], is_on=True),
        "group_too_large": grouped(9),
        "groups_without_transport": with_settings(attached, PAIR, (None, TRANSPORT, "", "default")),
        "excluded_unknown": set_on(None, EXCLUDED, "[acme/nowhere]"),
        "band_above_overload": with_settings(sound(), PAIR, threshold),
    }


@pytest.mark.parametrize("code", firing())
def test_rule_fires_on_its_case(code):
    assert code not in codes(sound())
    one = next(item for item in examine(firing()[code]).diagnoses if item.code == code)
    assert one.sentence.endswith(".")
    assert one.consequence.endswith(".")
    json.dumps(dict(one.evidence))
    for key, value in one.fix.wanted.items():
        assert SETTING_BY_KEY[key].is_dynamic
        assert value is None or typed_value(SETTING_BY_KEY[key], value) == value


@pytest.mark.parametrize("code", firing())
def test_finding_about_one_broker_and_no_setting_is_about_that_broker(code):
    for one in examine(firing()[code]).diagnoses:
        if len(one.servers) == 1 and not one.keys:
            assert (one.subject_kind, one.subject) == ("broker", one.servers[0]), one.code


def near():
    group = ("resource_group", "gold", "{}")
    carried = (None, TRANSPORT, "org.apache.X", "file")
    spaces = sound().namespaces["namespace"].to_pylist()
    one = next(name for name in spaces if not name.startswith("pulsar"))
    threshold = (None, "loadBalancerBrokerThresholdShedderPercentage", "30", "file")
    off = (None, "loadBalancerSheddingEnabled", "false", "file")
    wide = (None, "loadBalancerBrokerThresholdShedderPercentage", "80", "file")
    return [
        ("settings_differ", set_on(None, "maxUnloadPercentage", "0.5")),
        ("effective_after_restart", set_on(None, "loadBalancerHostUsageCheckIntervalMinutes", "1")),
        ("no_limit", cell(NAMES[1], direct_memory_limit=0.0)),
        ("network_limit_odd", cell(NAMES[1], bandwidth_out_limit=4_000_000.0)),
        ("network_speed_not_effective", set_on(None, NIC, "Optional[1.0]")),
        ("traffic_beyond_cards", cell(NAMES[1], bandwidth_in_usage=120_000.0)),
        ("limits_differ", cell(NAMES[1], memory_limit=16_300.0)),
        ("foreign_load", cell(NAMES[3], cpu_usage=170.0)),
        ("domains_unused", with_domains(grouped(2), NAMES, is_on=True)),
        ("domains_missing", with_domains(grouped(1), NAMES, is_on=True)),
        ("group_too_large", grouped(8)),
        (
            "groups_without_transport",
            with_settings(with_policies(sound(), group), PAIR, carried),
        ),
        ("excluded_unknown", set_on(None, EXCLUDED, f"[{one}]")),
        ("band_above_overload", with_settings(sound(), PAIR, threshold)),
        ("band_above_overload", with_settings(sound(), PAIR, wide, off)),
    ]


@pytest.mark.parametrize(("code", "snapshot"), near())
def test_rule_is_silent_on_a_case_near_it(code, snapshot):
    assert code not in codes(snapshot)


def test_every_rule_of_the_doctor_is_in_use():
    told = set()
    for snapshot in firing().values():
        told |= {one.code for one in examine(snapshot).diagnoses}
    assert firing().keys() <= told
    assert len(DOCTOR_RULES) == len(set(DOCTOR_RULES))


def test_limit_of_zero_counts_only_where_the_resource_has_a_weight():
    weight = (None, "loadBalancerBandwidthInResourceWeight", "0.0", "file")
    bare = with_settings(every(sound(), "brokers", {"bandwidth_in_limit": 0.0}), PAIR, weight)
    assert "no_limit" not in codes(bare)


def test_usage_beyond_the_limit_is_told_with_the_share():
    one = only(cell(NAMES[0], bandwidth_in_usage=3_000_000.0), "network_limit_odd")
    assert "uses 150" in one.sentence
    assert "overestimated" in one.consequence
    assert one.fix.restart


def test_speed_of_the_line_is_the_medians_only_where_that_can_be_one():
    apart = only(cell(NAMES[0], bandwidth_in_limit=200_000.0), "network_limit_odd")
    assert apart.fix.lines == (f"{NIC}=2",)
    absurd = every(sound(), "brokers", {"bandwidth_in_limit": 10.0})
    lines = {
        line
        for one in examine(absurd).diagnoses
        if one.code == "network_limit_odd"
        for line in one.fix.lines
    }
    assert lines == {f"{NIC}=<Gbit/s>"}


def test_smaller_brokers_are_a_warning_where_messages_are_counted():
    small = cell(NAMES[1], cpu_limit=400.0)
    assert only(small, "limits_differ").severity == "info"
    uniform = with_settings(
        small,
        (None, SHEDDER, IMPL + "UniformLoadShedder", "file"),
        (None, PLACEMENT, IMPL + "LeastLongTermMessageRate", "file"),
    )
    assert only(uniform, "limits_differ").severity == "warning"


def test_fix_of_a_difference_is_the_common_value():
    one = only(set_on(NAMES[2], "maxUnloadPercentage", "0.5"), "settings_differ")
    assert one.servers == (NAMES[2],)
    assert dict(one.fix.wanted) == {"maxUnloadPercentage": 0.2}
    fixed = only(set_on(NAMES[2], "lowerBoundarySheddingEnabled", "true"), "settings_differ")
    assert fixed.fix.lines == ("lowerBoundarySheddingEnabled=false",)
    assert fixed.fix.restart


def test_defaults_that_nobody_set_are_named_when_releases_are_mixed():
    mixed = only(cell(NAMES[1], version="5.0.1"), "mixed_releases")
    assert SHEDDER in mixed.keys
    assert PLACEMENT not in mixed.keys  # set in broker.conf


def test_brokers_alike_are_one_group():
    snapshot = edited(
        set_on(NAMES[2], "maxUnloadPercentage", "0.5"),
        "brokers",
        {NAMES[2]: {"cpu_limit": 400.0}, NAMES[5]: {"cpu_limit": 400.0}},
    )
    compared = examine(snapshot).comparison
    assert compared.rows == ("CPU", "maxUnloadPercentage")
    assert [len(group.brokers) for group in compared.groups] == [6, 1, 1]
    assert compared.groups[0].values == compared.common
    assert sum(len(group.brokers) for group in compared.groups) == compared.brokers == 8
    assert examine(sound()).comparison.rows == ()
    assert len(examine(sound()).comparison.groups) == 1


def test_what_cannot_be_judged_is_said():
    few = with_settings(make_snapshot(brokers=3, bundles=12))
    told = " ".join(examine(few).unjudged)
    assert "No setting" in told
    assert "6 brokers and has 3" in told
    assert examine(sound()).unjudged == ()


def test_empty_fleet_is_examined_without_a_fault():
    empty = PulsarSnapshot.build(replace(sound().manifest, leader=None), {})
    found = examine(empty)
    assert found.comparison.brokers == 0
    assert found.unjudged


def test_unread_transport_class_is_unknown_and_not_wrong():
    group = ("resource_group", "gold", "{}")
    unread = with_settings(with_policies(sound(), group), PAIR)
    assert only(unread, "groups_without_transport").severity == "unknown"


def test_line_is_not_moved_by_odd_brokers():
    traffic = np.linspace(1e6, 20e6, 20)
    usage = 50.0 + traffic / 1e5
    usage[[3, 11, 17]] += 400.0
    line = fit_line(traffic, usage)
    assert line is not None
    assert line.slope == pytest.approx(1e-5, rel=1e-6)
    assert line.base == pytest.approx(50.0, rel=1e-6)
    assert np.flatnonzero(line.beyond > 100).tolist() == [3, 11, 17]


def test_line_of_equal_traffic_is_flat_and_of_few_brokers_there_is_none():
    line = fit_line(np.full(8, 5e6), np.arange(8.0))
    assert line is not None
    assert line.slope == 0.0
    assert fit_line(np.array([1.0, 2.0, np.nan, 4.0, 5.0, 6.0]), np.ones(6)) is None


def test_thousands_of_brokers_are_fitted_with_few_pairs():
    rng = np.random.default_rng(5)
    traffic = rng.uniform(1e6, 90e6, 5_000)
    line = fit_line(traffic, 30.0 + traffic / 1e6 + rng.normal(0, 1, 5_000))
    assert line is not None
    assert line.slope == pytest.approx(1e-6, rel=0.01)


def test_settings_of_a_what_if_are_examined_as_they_are_given():
    wished = effective_settings(sound(), overrides={"loadBalancerSheddingGracePeriodMinutes": 0})
    assert "short_grace" in {one.code for one in examine(sound(), wished).diagnoses}


def test_what_rests_on_settings_that_were_not_read_is_no_warning() -> None:
    found = examine(with_settings(sound()))
    pair = only(with_settings(sound()), "measures_differ")
    assert (pair.severity, pair.assumed) == ("unknown", (SHEDDER, PLACEMENT))
    assert pair.sentence.endswith("Assumed, not read: its settings.")
    assert not [one for one in found.warnings if one.area == "settings"]
    assert pair in found.doubted
    assert "need attention" in answer(found)


def test_what_was_read_in_part_names_the_rest() -> None:
    half = with_settings(sound(), (None, SHEDDER, IMPL + "ThresholdShedder", "file"))
    pair = only(half, "measures_differ")
    assert pair.assumed == (PLACEMENT,)
    assert pair.sentence.endswith(f"Assumed, not read: {PLACEMENT}.")
    whole = with_settings(
        sound(),
        (None, SHEDDER, IMPL + "ThresholdShedder", "file"),
        (None, PLACEMENT, IMPL + "LeastLongTermMessageRate", "default"),
    )
    assert (only(whole, "measures_differ").severity, only(whole, "measures_differ").assumed) == (
        "warning",
        (),
    )
    shipped = with_settings(
        sound(),
        (None, SHEDDER, IMPL + "ThresholdShedder", "default"),
        (None, PLACEMENT, IMPL + "LeastLongTermMessageRate", "default"),
    )
    assert only(shipped, "measures_differ").severity == "info"  # what the release ships with


def loaded(cpu_usage):
    return cell(NAMES[3], cpu_usage=cpu_usage)


@pytest.mark.parametrize(
    ("earlier", "now", "is_found"),
    [
        ((), 600.0, True),
        ((170.0, 170.0), 600.0, False),
        ((600.0, 170.0), 600.0, True),
        ((600.0, 600.0), 170.0, True),
        ((600.0, 170.0), 170.0, False),
    ],
)
def test_foreign_load_neither_comes_nor_goes_with_one_snapshot(earlier, now, is_found):
    brokers = [loaded(one).brokers for one in earlier]
    examined = examine(loaded(now), earlier=brokers)
    assert ("foreign_load" in {one.code for one in examined.diagnoses}) is is_found
    verdict = verdict_of(loaded(now), earlier=brokers)
    assert ("foreign_load" in {one.code for one in verdict.findings}) is is_found


def test_load_of_a_host_is_no_conflict_of_settings():
    examined = examine(loaded(600.0))
    assert "foreign_load" in {one.code for one in examined.diagnoses}
    assert "foreign_load" not in {one.code for one in examined.of_settings}
