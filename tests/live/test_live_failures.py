"""A stopped broker, a killed leader and a hung port show as what they are."""

from __future__ import annotations

import pytest
from cluster_truth import ClusterTruth
from java_process import wait_until
from our_reading import capture, config_of, rows_by
from pulsar_files import SESSION_TIMEOUT_S
from real_pulsar import RealPulsar

from connectors.pulsar.check import check_cluster
from connectors.pulsar.collect import PulsarCollector
from core.pulsar.rules.registry import assess
from core.snapshot import PulsarSnapshot

_GONE_WITHIN_S = SESSION_TIMEOUT_S * 3 + 20


def problems_at(snapshot: PulsarSnapshot, place: str) -> set[str]:
    """Return the codes of the problems whose place mentions ``place``."""
    return {problem.code for problem in snapshot.manifest.problems if place in problem.place}


def findings_of(snapshot: PulsarSnapshot) -> set[tuple[str, str]]:
    """Return ``(code, subject)`` of every finding."""
    return {(finding.code, finding.subject) for finding in assess(snapshot)}


def test_hung_port_is_a_named_timeout_and_the_rest_still_loads(
    modular: RealPulsar, truth: ClusterTruth
) -> None:
    hung = next(i for i in range(3) if modular.brokers[i] != truth.leader())
    modular.hang_broker(hung)
    try:
        snapshot = capture(modular)
    finally:
        modular.resume_broker(hung)
    assert problems_at(snapshot, modular.brokers[hung]) == {"timeout"}
    assert problems_at(snapshot, modular.brokers[(hung + 1) % 3]) == set()
    assert ("broker_suspected_dead", modular.brokers[hung]) in findings_of(snapshot)
    # its last report is still in ZooKeeper: known, and as old as it says
    brokers = rows_by(snapshot.brokers, "broker")
    assert set(brokers) == set(modular.brokers)
    assert brokers[modular.brokers[hung]]["cpu_limit"] is not None
    # one time limit passes, not one after the other (5 s where nothing else runs)
    assert snapshot.manifest.duration_s < 2 * config_of(modular).timeouts.answer_s


@pytest.mark.slow
def test_hung_port_is_named_by_the_check_with_a_remedy(
    modular: RealPulsar, truth: ClusterTruth
) -> None:
    hung = next(i for i in range(3) if modular.brokers[i] != truth.leader())
    modular.hang_broker(hung)
    try:
        results = check_cluster(config_of(modular))
    finally:
        modular.resume_broker(hung)
    bad = [result for result in results if not result.ok]
    assert bad
    assert all(result.remedy for result in bad)
    assert any(modular.brokers[hung] in f"{each.what} {each.detail}" for each in bad)


@pytest.mark.slow
def test_broker_stopped_in_order_is_gone_and_its_bundles_have_new_owners(
    modular: RealPulsar, truth: ClusterTruth
) -> None:
    stopped = next(i for i in range(3) if modular.brokers[i] != truth.leader())
    gone = modular.brokers[stopped]
    modular.stop_broker(stopped)
    wait_until("it left the registry", lambda: gone not in truth.registered(), within_s=30)
    snapshot = capture(modular)
    assert gone not in rows_by(snapshot.brokers, "broker")
    assert gone not in {row["owner"] for row in snapshot.bundles.to_pylist()}
    # it is still an admin address of the configuration: that one does not answer
    assert problems_at(snapshot, gone) == {"unreachable"}
    assert ("address_silent", "") in findings_of(snapshot)
    assert snapshot.manifest.leader == truth.leader()
    owners = {name: row["owner"] for name, row in rows_by(snapshot.bundles, "bundle").items()}
    assert {b: o for b, o in owners.items() if o} == truth.owners()


@pytest.mark.slow
def test_killed_leader_is_unreachable_until_another_one_leads(
    modular: RealPulsar, truth: ClusterTruth
) -> None:
    dead = truth.leader()
    assert dead is not None
    modular.kill_broker(modular.index_of(dead))
    first = capture(modular)
    # its ephemerals outlive it for the session timeout: registered, leading, and not answering
    assert dead in rows_by(first.brokers, "broker")
    assert first.manifest.leader == dead
    assert problems_at(first, dead) == {"unreachable"}
    silent = [finding for finding in assess(first) if finding.code == "broker_suspected_dead"]
    assert [finding.subject for finding in silent] == [dead]
    assert "is the leader" in silent[0].text
    wait_until(
        "another broker becomes the leader",
        lambda: truth.leader() not in (None, dead),
        within_s=_GONE_WITHIN_S,
    )
    wait_until(
        "it left the registry", lambda: dead not in truth.registered(), within_s=_GONE_WITHIN_S
    )
    second = capture(modular)
    assert second.manifest.leader == truth.leader() != dead
    assert set(rows_by(second.brokers, "broker")) == set(modular.brokers) - {dead}
    leading = [r["broker"] for r in second.brokers.to_pylist() if r["is_leader"]]
    assert leading == [truth.leader()]


@pytest.mark.slow
def test_frozen_broker_loses_its_place_and_comes_back_when_it_goes_on(
    modular: RealPulsar, truth: ClusterTruth
) -> None:
    frozen = next(i for i in range(3) if modular.brokers[i] != truth.leader())
    name = modular.brokers[frozen]
    modular.hang_broker(frozen)
    try:
        wait_until(
            "it lost its place", lambda: name not in truth.registered(), within_s=_GONE_WITHIN_S
        )
        during = capture(modular)
    finally:
        modular.resume_broker(frozen)
    assert name not in rows_by(during.brokers, "broker")
    assert ("address_silent", "") in findings_of(during)
    wait_until("it is back", lambda: name in truth.registered(), within_s=_GONE_WITHIN_S)
    assert name in rows_by(capture(modular).brokers, "broker")


@pytest.mark.slow
def test_one_collector_follows_a_broker_that_goes_and_comes_back(
    modular: RealPulsar, truth: ClusterTruth
) -> None:
    stopped = next(i for i in range(3) if modular.brokers[i] != truth.leader())
    gone = modular.brokers[stopped]
    collector = PulsarCollector(config_of(modular))
    try:
        assert gone in rows_by(collector.collect().brokers, "broker")
        modular.stop_broker(stopped)
        assert collector.changed.wait(30), "the watch tells that a broker left"
        wait_until("it left the registry", lambda: gone not in truth.registered(), within_s=30)
        assert gone not in rows_by(collector.collect().brokers, "broker")
        modular.start_broker(stopped)
        assert collector.changed.wait(30), "the watch tells that a broker came"
        wait_until("it is registered", lambda: gone in truth.registered(), within_s=30)
        back = collector.collect()
        assert gone in rows_by(back.brokers, "broker")
        assert problems_at(back, gone) == set()
    finally:
        collector.close()
