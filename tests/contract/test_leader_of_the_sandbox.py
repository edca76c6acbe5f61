"""The sandbox's leader, recorded and replayed from its znodes alone."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path

import pytest

from connectors.pulsar.collect import PulsarCollector
from connectors.pulsar.leader.recording import LeaderRecording
from connectors.sandbox.pulsar.fleet import Sandbox, SandboxOptions
from connectors.sandbox.pulsar.shedding import HeldRound
from core.history.analysis.accuracy.pulsar import PulsarShadow
from core.pulsar.catalogue import SETTINGS
from core.pulsar.leader.events import ZnodeEvent, read_recording
from core.pulsar.leader.prediction import RoundPrediction
from core.pulsar.leader.recorded import replay_recording
from core.pulsar.leader.replay import LeaderReplay
from core.pulsar.settings import effective_settings

pytestmark = pytest.mark.zookeeper

MINUTE_S = 2.0
ROUNDS = 8
_SAME_S = 0.4
_RACE_S = 0.1
"""A report written so near a round's start may be in the round or not, as upstream."""

OPTIONS = SandboxOptions(
    brokers=4,
    bundles=80,
    minute_s=MINUTE_S,
    stats_every_s=0.5,
    report_check_ms=250,
    day_s=60.0,
    averaged_bundles=0,
    dynamic={
        "loadBalancerSheddingEnabled": "true",
        "loadBalancerSheddingGracePeriodMinutes": "2",
        "loadBalancerLoadSheddingStrategy": (
            "org.apache.pulsar.broker.loadbalance.impl.UniformLoadShedder"
        ),
        "loadBalancerMsgRateDifferenceShedderThreshold": "5",
        "loadBalancerMsgThroughputMultiplierDifferenceShedderThreshold": "1.2",
        "minUnloadMessage": "10",
        "minUnloadMessageThroughput": "10000",
        "maxUnloadPercentage": "0.5",
    },
)


@dataclass(frozen=True)
class Watched:
    """What the leader did, and what was known of it.

    Attributes:
        held: The rounds of the leader itself.
        events: The recording.
        configured: The settings of the brokers' files.
        shadow: ``(moment, bundles)`` that the snapshot-based shadow expected, by snapshot.
    """

    held: list[HeldRound]
    events: list[ZnodeEvent]
    configured: dict[str, object]
    shadow: list[tuple[float, set[str]]]


@pytest.fixture  # a test that is run again needs another recording
def watched(tmp_path: Path) -> Watched:
    path = tmp_path / "sandbox.jsonl.gz"
    begun, stop = threading.Event(), threading.Event()
    shadow, expected = PulsarShadow(minute_s=MINUTE_S), []
    with Sandbox(OPTIONS) as sandbox:
        recording = LeaderRecording(sandbox.cluster_config(), path, lambda _: begun.set())
        thread = threading.Thread(target=recording.run, args=(stop,))
        thread.start()
        assert begun.wait(30)
        first = len(sandbox.held_rounds())
        collector = PulsarCollector(sandbox.cluster_config())
        while len(sandbox.held_rounds()) < first + ROUNDS:
            snapshot = collector.collect()
            rows = shadow.decide(snapshot).to_pylist()
            moved = {row["bundle"] for row in rows if row["bundle"] is not None}
            if rows:
                expected.append((snapshot.manifest.taken_at.timestamp(), moved))
            stop.wait(MINUTE_S / 4)
        collector.close()
        stop.wait(MINUTE_S / 2)
        held = sandbox.held_rounds()[first:]
        stop.set()
        thread.join(30)
    settings = effective_settings(snapshot)
    configured = {
        setting.key: settings.value(setting.key)
        for setting in SETTINGS
        if settings.origin(setting.key) not in ("assumed", "dynamic")
    }
    return Watched(held, list(read_recording(path)), configured, expected)


def _replayed(watched: Watched) -> list[RoundPrediction]:
    model = LeaderReplay(configured=watched.configured, minute_s=MINUTE_S)
    return list(replay_recording(watched.events, model))


def _is_a_race(watched: Watched, held: HeldRound, replayed: RoundPrediction) -> bool:
    """Whether a report came so near the round, or between it and its replay, that it may differ."""
    first, last = sorted((held.at_s, replayed.at_s))
    return any(
        event.path.startswith("/loadbalance/brokers/")
        and event.kind == "mod"
        and first - _RACE_S < event.at_s < last + _RACE_S
        for event in watched.events
    )


@pytest.mark.slow
def test_every_round_is_replayed_from_the_znodes_alone_and_not_from_snapshots(
    watched: Watched,
) -> None:
    replayed = _replayed(watched)
    lines, wrong, exact = [], 0, 0
    for held in watched.held:
        near = min(replayed, key=lambda one: abs(one.at_s - held.at_s))
        off_s = near.at_s - held.at_s
        is_same = abs(off_s) < _SAME_S and near.selected == held.selected
        is_race = _is_a_race(watched, held, near)
        exact += is_same
        wrong += not is_same and not is_race
        lines.append(f"{off_s:+.3f} s {is_same=} {is_race=} {held.selected} / {near.selected}")
    assert not wrong, "\n".join(lines)
    assert exact >= ROUNDS // 2, "\n".join(lines)
    assert any(held.selected for held in watched.held)
    # what the replay is for: the shadow on snapshots misses rounds of the same leader
    before = [
        [moved for at_s, moved in watched.shadow if at_s <= held.at_s] for held in watched.held
    ]
    exact = sum(
        bool(seen) and seen[-1] == set(held.selected)
        for seen, held in zip(before, watched.held, strict=True)
    )
    assert exact < len(watched.held)
