from __future__ import annotations

import zlib

import numpy as np
import pytest

from connectors.sandbox.pulsar.bootstrap import persistent_nodes, remember_past, share_out
from connectors.sandbox.pulsar.documents import load_report
from connectors.sandbox.pulsar.engine import rows_to_average
from connectors.sandbox.pulsar.layout import crc32_of, plan_layout
from connectors.sandbox.pulsar.leader import SandboxLeader
from connectors.sandbox.pulsar.options import SandboxOptions
from connectors.sandbox.pulsar.policies import plan_policies
from connectors.sandbox.pulsar.state import NO_BROKER, Broker, FleetState
from connectors.sandbox.pulsar.web import brokers_at, distinct_host, listen
from connectors.sandbox.pulsar.workload import Workload, host_usage
from core.pulsar.load import resource_weights
from core.pulsar.ring import validate_boundaries
from core.pulsar.settings import SETTING_BY_KEY


def _brokers(count: int) -> list[Broker]:
    return [Broker(row, distinct_host(row), 8080, 6650, is_up=True) for row in range(count)]


def _fleet(options: SandboxOptions) -> tuple[FleetState, Workload]:
    """A fleet after its first measurement."""
    layout = plan_layout(options)
    state = FleetState(layout, _brokers(options.brokers))
    policies = plan_policies(options, state, "127.0.0.1:1")
    workload = Workload(layout, seed=options.seed, day_s=3600.0, is_steady=options.is_steady)
    mean = workload.rates_at(None)
    weight = np.bincount(state.topic_bundle, 2 * mean[:, 1] + mean[:, 3])
    share_out(state, weight, policies)
    workload.calibrate(state.owner[state.topic_bundle], options.brokers)
    _measure(state, workload, 0.0)
    return state, workload


def _measure(state: FleetState, workload: Workload, seconds: float) -> None:
    rates = workload.rates_at(seconds)
    state.refresh(rates, rates[:, 1].astype(np.int64))
    idle = np.zeros(len(state.brokers))
    state.usage = host_usage(state.broker_rates(), idle, idle)


@pytest.mark.parametrize(("width", "count"), [(1, 10), (3, 200), (6, 1000)])
def test_vectorised_crc_equals_zlib(width: int, count: int) -> None:
    prefix = "persistent://acme/orders/item-"
    expected = [zlib.crc32(f"{prefix}{number:0{width}d}".encode()) for number in range(count)]
    assert crc32_of(prefix, width, count).tolist() == expected


@pytest.mark.parametrize(("bundles", "brokers"), [(600, 12), (40, 3), (5000, 40), (7, 1)])
def test_layout_tiles_the_ring_and_every_topic_is_in_its_bundle(bundles: int, brokers: int) -> None:
    layout = plan_layout(SandboxOptions(bundles=bundles, brokers=brokers))
    state = FleetState(layout, _brokers(brokers))
    for bounds in layout.boundaries:
        assert validate_boundaries(bounds.tolist()) is None
    hashes = layout.topics.hashes
    assert hashes.tolist() == [zlib.crc32(name.encode()) for name in layout.topics.names]
    home = state.topic_bundle
    assert (state.lower[home] <= hashes).all()
    assert (hashes <= state.upper[home]).all()
    assert (state.namespace[home] == layout.topics.namespace).all()
    assert set(home.tolist()) == set(range(len(state.names))), "every bundle holds a topic"


def test_bundle_count_is_what_was_asked_for() -> None:
    layout = plan_layout(SandboxOptions())
    counts = [len(bounds) - 1 for bounds in layout.boundaries]
    assert (sum(counts), len(counts)) == (600, 10)
    assert len({name.partition("/")[0] for name in layout.namespaces}) == 3


def test_same_seed_gives_the_same_fleet_and_another_seed_another() -> None:
    first, again, other = (_fleet(SandboxOptions(seed=seed))[0] for seed in (7, 7, 8))
    assert np.array_equal(first.owner, again.owner)
    assert np.array_equal(first.rates, again.rates)
    assert not np.array_equal(first.rates, other.rates)


def test_fleet_is_uneven_with_hot_brokers_and_an_idle_one() -> None:
    state, _ = _fleet(SandboxOptions())
    usage = state.usage.max_ratio()
    assert 0.40 < usage.mean() < 0.50
    assert usage.max() > 0.75
    assert usage[-1] < 0.05
    assert len(state.owned_rows(11)) == 0


def test_traffic_follows_the_time_of_day() -> None:
    _, workload = _fleet(SandboxOptions())
    totals = [workload.rates_at(moment)[:, 0].sum() for moment in (0.0, 900.0, 1800.0, 2700.0)]
    assert max(totals) > 1.15 * min(totals)
    assert workload.rates_at(900.0)[:, 0].sum() == totals[1]


def test_steady_workload_does_not_move() -> None:
    _, workload = _fleet(SandboxOptions(is_steady=True))
    assert np.array_equal(workload.rates_at(0.0), workload.rates_at(1234.0))


def test_only_the_isolation_primaries_own_the_isolated_namespace() -> None:
    state, _ = _fleet(SandboxOptions())
    isolated = state.layout.isolated
    assert isolated is not None
    owners = {int(state.owner[row]) for row in state.bundles_of[isolated]}
    assert owners <= {8, 9}
    others = np.concatenate([state.bundles_of[n] for n in range(10) if n != isolated])
    paired = np.isin(state.namespace[others], state.layout.paired)
    assert not np.isin(state.owner[others[~paired]], [8, 9]).any()


def test_split_keeps_the_ring_whole_and_sends_each_topic_to_its_half() -> None:
    state, workload = _fleet(SandboxOptions(brokers=3, bundles=40))
    row = int(state.bundles_of[0][3])
    lower, upper = int(state.lower[row]), int(state.upper[row])
    owner, topics = int(state.owner[row]), int(state.counts[row, 0])
    middle = lower + (upper - lower) // 2
    parts = state.split(row, [middle])
    _measure(state, workload, 0.0)
    assert validate_boundaries(state.boundaries[0].tolist()) is None
    assert state.live_row(state.names[row]) is None
    assert [int(state.owner[part]) for part in parts] == [owner, owner]
    assert state.counts[parts, 0].sum() == topics
    assert [state.lower[parts[0]], state.upper[parts[1]]] == [lower, upper]
    assert state.find(state.namespaces[0], middle) == parts[1]
    assert [state.names[int(r)] for r in state.bundles_of[0]] == sorted(
        state.names[int(r)] for r in state.bundles_of[0]
    )


def test_moved_bundle_is_in_the_new_owners_statistics_after_the_next_measurement() -> None:
    state, workload = _fleet(SandboxOptions(brokers=3, bundles=40))
    for broker in state.brokers:
        broker.gains.clear()
    row = int(state.owned_rows(0)[0])
    state.owner[row] = 2
    assert row in state.served_rows(0)
    _measure(state, workload, 1.0)
    assert row in state.served_rows(2)
    assert state.names[row] in state.brokers[2].gains
    assert state.names[row] in state.brokers[0].losses


def test_each_report_adds_one_sample_to_every_reported_bundle() -> None:
    state, _ = _fleet(SandboxOptions(brokers=3, bundles=40, is_steady=True))
    for broker in range(3):
        state.report(broker)
    for number in range(12):
        assert state.sample().size == 0
        assert set(state.short_samples[state.served_by != NO_BROKER].tolist()) == {
            min(number + 1, 10)
        }
    known = state.reported_by != NO_BROKER
    assert np.allclose(state.long[known], state.rates[known])


def test_bundle_that_no_report_names_loses_its_averages() -> None:
    state, _ = _fleet(SandboxOptions(brokers=3, bundles=40))
    for broker in range(3):
        state.report(broker)
    state.sample()
    lost = state.served_rows(0)
    state.forget_reports(0)
    assert state.sample().tolist() == lost.tolist()
    assert (state.short_samples[lost] == 0).all()


def test_leader_writes_the_busiest_bundles_only() -> None:
    state, workload = _fleet(SandboxOptions())
    for broker in range(12):
        state.report(broker)
    remember_past(state, workload, 3600)
    rows = rows_to_average(state, 10)
    assert len(rows) == 120
    traffic = np.round(state.short[:, 1] / 1e5)
    rest = np.setdiff1d(np.flatnonzero(state.short_samples > 0), rows)
    assert traffic[rows].min() >= traffic[rest].max()
    assert len(rows_to_average(state, 0)) == 600


@pytest.mark.parametrize(
    ("name", "text", "runs_as"),
    [
        ("loadBalancerBrokerOverloadedThresholdPercentage", "abc", "85"),
        ("loadBalancerBrokerOverloadedThresholdPercentage", "70", "70"),
        ("loadBalancerSheddingEnabled", "maybe", "false"),
        ("maxUnloadPercentage", "0.5", "0.5"),
        ("loadBalancerLoadSheddingStrategy", "com.example.Nope", "com.example.Nope"),
    ],
)
def test_dynamic_value_of_the_wrong_type_never_runs(name: str, text: str, runs_as: str) -> None:
    options = SandboxOptions(dynamic={name: text})
    state = FleetState(plan_layout(options), _brokers(12))
    assert plan_policies(options, state, "x:1").running_values()[name] == runs_as


def test_every_setting_that_trimtab_knows_of_this_release_is_told() -> None:
    options = SandboxOptions()
    state = FleetState(plan_layout(options), _brokers(12))
    values = plan_policies(options, state, "127.0.0.1:1").running_values()
    known = {key for key, setting in SETTING_BY_KEY.items() if setting.exists_in("4.2")}
    assert known <= set(values)


def test_standing_nodes_hold_policies_for_every_namespace() -> None:
    options = SandboxOptions()
    state = FleetState(plan_layout(options), _brokers(12))
    nodes = persistent_nodes(options, state, plan_policies(options, state, "127.0.0.1:1"))
    for name in state.namespaces:
        assert f"/admin/policies/{name}" in nodes
        assert f"/admin/local-policies/{name}" in nodes


def test_brokers_listen_on_hosts_of_their_own_with_one_port() -> None:
    sockets = listen(3, 0)
    try:
        brokers = brokers_at(sockets)
        assert len({broker.host for broker in brokers}) == 3
        assert len({broker.web_port for broker in brokers}) == 1
    finally:
        for sock in sockets:
            sock.close()


@pytest.mark.parametrize(
    ("release", "strategy", "heap_weight"),
    [("2.9.5", "OverloadShedder", "1.0"), ("3.0.12", "ThresholdShedder", "1.0")],
)
def test_brokers_of_an_older_release_have_its_settings(
    release: str, strategy: str, heap_weight: str
) -> None:
    options = SandboxOptions(release=release)
    state = FleetState(plan_layout(options), _brokers(12))
    policies = plan_policies(options, state, "127.0.0.1:1")
    values = policies.running_values()
    known = {key for key, setting in SETTING_BY_KEY.items() if setting.exists_in(release)}
    missing = SETTING_BY_KEY.keys() - known
    assert known <= set(values)
    assert "loadBalancerSheddingExcludedNamespaces" in missing
    assert not missing & set(values)
    assert values["loadBalancerLoadSheddingStrategy"].endswith(f".{strategy}")
    assert values["loadBalancerMemoryResourceWeight"] == heap_weight
    assert not missing & set(policies.dynamic_names)


def test_a_2_9_sandbox_places_and_sheds_by_its_own_rules() -> None:
    options = SandboxOptions(release="2.9.5")
    state = FleetState(plan_layout(options), _brokers(12))
    for broker in state.brokers:
        broker.version = options.release
    policies = plan_policies(options, state, "127.0.0.1:1")
    settings = SandboxLeader(state, policies, options.seed).settings()
    assert settings.target.name == "2.9.5"
    assert settings.text("loadBalancerLoadSheddingStrategy").endswith(".OverloadShedder")
    assert resource_weights(settings)["memory"] == 1.0
    # the grace period became dynamic with 2.10
    assert policies.dynamic == {}
    assert "loadBalancerSheddingGracePeriodMinutes" not in policies.dynamic_names
    report = load_report(state, state.brokers[0], 1_000)
    assert report["brokerVersionString"] == "2.9.5"
