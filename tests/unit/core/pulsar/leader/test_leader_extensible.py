"""The leader of an extensible cluster, replayed from its system topics."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
from places import FIXTURES

from core.pulsar.leader.events import MESSAGE, ZnodeEvent, read_recording
from core.pulsar.leader.extensible import ExtensibleReplay
from core.pulsar.leader.prediction import RoundPrediction
from core.pulsar.leader.recorded import replay_recording
from core.pulsar.shedding.transfer_shedder import UPSTREAM_REASONS
from core.pulsar.snapshot.load_topics import BROKER_LOAD_TOPIC, UNIT_STATE_TOPIC
from dashboard.cli.main import run

RECORDING: Final = FIXTURES / "pulsar/leader_extensible/transfer.jsonl.gz"
TRUTH: Final = json.loads(RECORDING.with_name("transfer.rounds.json").read_text("utf-8"))
CONFIGURED: Final[dict[str, object]] = {
    "loadBalancerSheddingGracePeriodMinutes": 3,
    "loadBalanceSheddingDelayInSeconds": 45,
    "loadBalancerSheddingConditionHitCountThreshold": 1,
    "loadBalancerBrokerLoadTargetStd": 0.02,
    "loadBalancerDebugModeEnabled": True,
    "loadBalancerSheddingEnabled": True,
}
NAMES: Final = {**UPSTREAM_REASONS, "overloaded": "Overloaded", "underloaded": "Underloaded"}


def rounds_of(events: list[ZnodeEvent]) -> list[RoundPrediction]:
    start_s = TRUTH[0]["t"] - 5.0
    model = ExtensibleReplay(configured=CONFIGURED)
    return list(replay_recording(events, model, start_s=start_s, end_s=TRUTH[-1]["t"] + 5.0))


def moves_of(one: RoundPrediction) -> list[dict[str, Any]]:
    return [
        {"bundle": move.bundle, "broker": move.broker, "destination": next(iter(move.destinations))}
        for move in one.bundles
    ]


def test_every_round_of_a_real_leader_follows_from_its_topics() -> None:
    rounds = rounds_of(list(read_recording(RECORDING)))
    assert [one.at_s for one in rounds] == pytest.approx([one["t"] for one in TRUTH], abs=0.02)
    assert [NAMES[one.reason] for one in rounds] == [one["reason"] for one in TRUTH]
    for one, real in zip(rounds, TRUTH, strict=True):
        wanted = sorted(real["moves"], key=str)  # the real class answers with a set
        assert sorted(moves_of(one), key=str) == wanted, real["t"]
    assert sum(bool(one["moves"]) for one in TRUTH) >= 3


def test_states_that_arrive_just_before_the_expected_time_belong_to_the_round() -> None:
    """The phase is an estimate: the leader may begin some milliseconds earlier."""
    early_s = TRUTH[5]["t"]
    events = []
    for recorded in read_recording(RECORDING):
        event, at_s = recorded, recorded.at_s
        if event.path == UNIT_STATE_TOPIC and early_s <= at_s < early_s + 1.0:
            value = json.loads(event.value or "{}")
            value["timestamp"] -= 30
            changes = {"mtime_ms": (event.mtime_ms or 0) - 30, "value": json.dumps(value)}
            event = msgspec.structs.replace(event, **changes)
        events.append(event)
    rounds = rounds_of(events)
    assert [NAMES[one.reason] for one in rounds] == [one["reason"] for one in TRUTH]
    assert rounds[6].at_s == pytest.approx(TRUTH[6]["t"] - 0.03, abs=0.02)


def test_without_the_brokers_loads_no_round_moves_anything() -> None:
    events = [one for one in read_recording(RECORDING) if one.path != BROKER_LOAD_TOPIC]
    assert {one.reason for one in rounds_of(events)} == {"no_brokers"}


def test_a_round_before_the_first_transfer_has_an_estimated_time() -> None:
    kept = [one for one in read_recording(RECORDING) if one.path != UNIT_STATE_TOPIC]
    first = rounds_of(kept)[0]
    assert any("estimated from its" in text for text in first.warnings)


def released(model: ExtensibleReplay, at_s: float) -> None:
    """Apply that a bundle leaves its broker."""
    bundle, raw = next(iter(model._topics.unit_states.items()))
    unit = json.loads(raw)
    unit |= {"state": "Releasing", "sourceBroker": "127.0.0.1:49267"}
    unit |= {"timestamp": round(at_s * 1000), "versionId": unit["versionId"] + 1}
    model.apply(
        ZnodeEvent(
            kind=MESSAGE,
            path=UNIT_STATE_TOPIC,
            key=bundle,
            value=json.dumps(unit),
            mtime_ms=round(at_s * 1000),
            received_at_s=at_s,
        )
    )


def test_rounds_that_move_bundles_correct_a_time_that_an_unload_by_hand_had_shown() -> None:
    model = ExtensibleReplay(configured=CONFIGURED)
    for event in read_recording(RECORDING):
        if '"Releasing"' not in (event.value or "") and event.at_s < TRUTH[2]["t"]:
            model.apply(event)
    assert not model.is_anchored
    by_hand_s = model.now_s + 21.0
    released(model, by_hand_s)
    assert model.is_anchored
    for number in (1, 3):
        released(model, by_hand_s + 20.0 + 60.0 * number)
        phase_s = ((model.next_round_at_s or 0.0) - by_hand_s) % 60.0
        expected_s = 20.0 if number == 3 else 0.0
        assert min(abs(phase_s - expected_s), 60.0 - phase_s) < 0.1


def test_states_from_before_watching_tell_owners_and_nothing_else() -> None:
    events = list(read_recording(RECORDING))
    model = ExtensibleReplay(configured=CONFIGURED)
    later = 100_000.0
    for event in events:
        moved = event.received_at_s + later
        model.apply(msgspec.structs.replace(event, received_at_s=moved))
    assert not model.is_anchored
    assert model._owners()
    assert model.next_round_at_s is not None
    assert model.next_round_at_s > events[0].received_at_s + later


def test_a_new_leader_begins_with_an_empty_memory() -> None:
    model = ExtensibleReplay(configured=CONFIGURED)
    for event in read_recording(RECORDING):
        model.apply(event)
    assert model.is_anchored
    leader = next(
        one for one in read_recording(RECORDING) if one.path == "/loadbalance/extension/leader"
    )
    value = (leader.value or "").replace("127.0.0.2", "127.0.0.3")
    later = model.now_s + 20.0
    model.apply(
        ZnodeEvent(
            kind="mod",
            path=leader.path,
            value=value,
            received_at_s=later,
            mtime_ms=round(later * 1000),
        )
    )
    assert not model.is_anchored
    assert model.next_round_at_s == pytest.approx(later + 60.0, abs=0.01)


def test_the_command_replays_the_recording(capsys: pytest.CaptureFixture[str]) -> None:
    options = [f"--set={key}={json.dumps(value)}" for key, value in CONFIGURED.items()]
    command = ["leader", "replay", str(RECORDING), "--strategy", "TransferShedder", *options]
    assert run([*command, "--from", str(TRUTH[0]["t"] - 5), "--json"]) == 0
    body = json.loads(capsys.readouterr().out)
    ours = [set(one["unloaded"]) for one in body["rounds"][: len(TRUTH)]]
    assert ours == [{move["bundle"] for move in one["moves"]} for one in TRUTH]


def test_a_recording_without_messages_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [
        json.dumps({"k": one.kind, "te": one.received_at_s, "path": one.path, "value": one.value})
        for one in read_recording(RECORDING)
        if one.kind != MESSAGE
    ]
    bare = tmp_path / "bare.jsonl"
    bare.write_text("\n".join(lines), "utf-8")
    assert run(["leader", "replay", str(bare), "--strategy", "TransferShedder"]) != 0
    assert "has no load topic messages" in capsys.readouterr().err
