"""What the real leader unloads by itself, round by round, beside what Trimtab predicted for it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing

import pytest
from cluster_truth import ClusterTruth
from live_rounds import RoundWatcher, Watched, make_uneven, shedding_on
from moves import wait_averaged
from real_pulsar import RealPulsar, RealPulsarOptions
from traffic import Traffic, make_namespaces

ROUNDS = 6
QUIET_ROUNDS = 3
_RATE_PERCENT = 20
# each cluster here is its own: the shared one ends first, two would be too much for one machine
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1500),
    pytest.mark.usefixtures("fresh_start"),
]

SERIES = {
    "uniform": shedding_on(
        "UniformLoadShedder",
        loadBalancerMsgRateDifferenceShedderThreshold=_RATE_PERCENT,
        minUnloadMessage=20,
        minUnloadMessageThroughput=20_000,
    ),
    # usage of processors and network cards is the machine's here: no broker stands out
    "threshold": shedding_on("ThresholdShedder"),
}


@pytest.fixture
def shedding(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RealPulsar]:
    """A cluster that sheds by itself once a minute, with traffic."""
    options = RealPulsarOptions(broker_settings=SERIES[request.param])
    with ExitStack() as stack:
        folder = tmp_path_factory.mktemp(f"pulsar-{request.param}")
        cluster = stack.enter_context(RealPulsar(folder, options))
        make_namespaces(cluster)
        stack.enter_context(Traffic(cluster)).wait_flowing()
        yield cluster


def _told(rounds: list[Watched]) -> str:
    lines = [line for at, each in enumerate(rounds, 1) for line in each.lines(at)]
    return "\n".join(lines)


def _moves_nothing_clearly(each: Watched) -> bool:
    """Whether nothing was predicted although a doubled gap would still not have been enough."""
    if each.predicted.moves or each.predicted.skipped:
        return False
    return all(
        gate.measured < gate.threshold / 2
        for trace in each.predicted.decision.trace
        for gate in trace.gates
        if not gate.is_open
    )


@pytest.mark.parametrize("shedding", ["uniform"], indirect=True)
def test_what_the_leader_unloads_is_what_was_predicted(shedding: RealPulsar) -> None:
    watched: list[Watched] = []
    with ClusterTruth(shedding) as truth, closing(RoundWatcher(shedding, truth)) as watcher:
        wait_averaged(truth)
        for number in range(ROUNDS):
            hot = shedding.brokers[number % len(shedding.brokers)]
            sent = make_uneven(shedding, truth, hot)
            watched.append(watcher.next_round())
            told = "\n".join(watched[-1].lines(number + 1))
            sys.stderr.write(f"\n{sent} bundles sent to {hot}\n{told}\n")
    acting = [each for each in watched if each.moved or each.expected]
    assert len(acting) >= ROUNDS - 1, _told(watched)
    assert not [each for each in watched if each.moved and _moves_nothing_clearly(each)]
    assert sum(each.same_broker for each in acting) * 2 > len(acting), _told(watched)
    for each in watched:  # the leader's log and the ephemerals tell the same story
        assert {one.bundle for one in each.logged if one.is_sent} == set(each.moved), _told(watched)


@pytest.mark.parametrize("shedding", ["threshold"], indirect=True)
def test_where_nothing_is_predicted_the_leader_unloads_nothing(shedding: RealPulsar) -> None:
    watched: list[Watched] = []
    with ClusterTruth(shedding) as truth, closing(RoundWatcher(shedding, truth)) as watcher:
        wait_averaged(truth)
        make_uneven(shedding, truth, shedding.brokers[0])
        watched = [watcher.next_round() for _ in range(QUIET_ROUNDS)]
        sys.stderr.write(f"\n{_told(watched)}\n")
        assert not watcher.unloads()
    assert [each.verdict for each in watched] == ["equal: nothing"] * QUIET_ROUNDS
