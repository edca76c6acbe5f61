"""The shadow balancer decides as the leader does: once an interval, with a memory, and in words."""

from __future__ import annotations

import json
from datetime import timedelta

import pyarrow as pa
import pytest
from fleet_builder import NOON, make_snapshot
from fleet_edit import with_manifest, with_settings
from pegasus_snapshots import NODES, part_row, snapshot_of, table_row, whole

from core.history.analysis.accuracy.pegasus import PegasusShadow
from core.history.analysis.accuracy.pulsar import CarriedAverages, PulsarShadow
from core.history.analysis.accuracy.shadow import SHADOW, is_due
from core.history.store.layout import SHADOW_COLUMNS
from core.pulsar.settings import effective_settings
from core.pulsar.shedding import UnloadChecks, find_shedding_strategy, shed_round
from core.pulsar.view import LoadView
from core.snapshot import PulsarSnapshot

SWITCH = "loadBalancerSheddingEnabled"
STRATEGY = "loadBalancerLoadSheddingStrategy"
GRACE = "loadBalancerSheddingGracePeriodMinutes"
THRESHOLD = "org.apache.pulsar.broker.loadbalance.impl.ThresholdShedder"
_EARLIER = 100.0
START = NOON - timedelta(minutes=_EARLIER)


def fleet(seconds: float = 0.0, *, on: bool = True, grace: int = 10, **more) -> PulsarSnapshot:
    """The generated fleet so long after its start; its load differs from minute to minute."""
    made = make_snapshot(minutes_ago=_EARLIER - seconds / 60, **more)
    return with_settings(
        made,
        (None, SWITCH, "true" if on else "false", "dynamic"),
        (None, STRATEGY, THRESHOLD, "file"),
        (None, GRACE, str(grace), "dynamic"),
    )


def predicted(table: pa.Table, strategy: str = "ThresholdShedder") -> list[str]:
    rows = [row for row in table.to_pylist() if row["strategy"] == strategy]
    return [row["bundle"] for row in rows if row["bundle"]]


def test_the_rows_are_those_that_the_history_stores() -> None:
    assert [one.name for one in SHADOW_COLUMNS] == SHADOW.names[1:]
    assert [one.type for one in SHADOW_COLUMNS] == SHADOW.types[1:]


def test_configured_strategy_is_asked_with_where_its_bundles_would_go() -> None:
    rows = PulsarShadow().decide(fleet()).to_pylist()
    assert rows
    assert {row["strategy"] for row in rows} == {"ThresholdShedder"}
    assert all(row["is_configured"] and row["is_switched_on"] for row in rows)
    assert [row["position"] for row in rows] == list(range(len(rows)))
    for row in rows:
        likely = json.loads(row["distribution"])
        assert likely[row["destination"]] == row["probability"] == max(likely.values())
        assert row["broker"] != row["destination"]


def test_shadow_of_a_cluster_that_sheds_nothing_says_what_it_would_do() -> None:
    rows = PulsarShadow().decide(fleet(on=False)).to_pylist()
    assert predicted(PulsarShadow().decide(fleet(on=False)))
    assert not any(row["is_switched_on"] for row in rows)


def test_strategies_beside_the_configured_one_are_asked_as_well() -> None:
    found = PulsarShadow(["OverloadShedder", "ThresholdShedder"]).decide(fleet())
    named = {row["strategy"]: row["is_configured"] for row in found.to_pylist()}
    assert named == {"ThresholdShedder": True, "OverloadShedder": False}


def test_there_is_one_round_in_each_shedding_interval() -> None:
    shadow = PulsarShadow()
    decided = [at for at in range(0, 200, 10) if shadow.decide(fleet(at)).num_rows]
    assert decided == [0, 60, 120, 180]


@pytest.mark.parametrize(
    ("elapsed_ms", "verdict"), [(60_000, "due"), (59_300, "due"), (50_000, ""), (10_000, "")]
)
def test_capture_that_comes_a_little_early_counts(elapsed_ms: int, verdict: str) -> None:
    assert is_due(elapsed_ms, 0, 60_000.0) is bool(verdict)


def test_compressed_minutes_of_a_sandbox_are_followed() -> None:
    shadow = PulsarShadow(minute_s=6.0)
    decided = [at for at in range(0, 20, 2) if shadow.decide(fleet(at)).num_rows]
    assert decided == [0, 6, 12, 18]


def test_memory_is_carried_from_snapshot_to_snapshot() -> None:
    shadow = PulsarShadow()
    strategy = find_shedding_strategy("ThresholdShedder")
    state = strategy.initial_state()
    averages = CarriedAverages()
    for minute in range(4):
        snapshot = averages.on(fleet(minute * 60))
        settings = effective_settings(snapshot)
        checks = UnloadChecks(LoadView.of(snapshot, settings), settings)
        done, state = shed_round(strategy, checks, state, frozenset())
        assert predicted(shadow.decide(snapshot)) == [move.bundle for move in done.moves]


def test_round_is_due_at_once_when_shedding_is_switched_on() -> None:
    shadow = PulsarShadow()
    rounds = {at: shadow.decide(fleet(at, on=at >= 20)) for at in range(0, 100, 10)}
    assert [at for at, table in rounds.items() if table.num_rows] == [0, 20, 80]
    assert [table["is_switched_on"][0].as_py() for table in rounds.values() if table.num_rows] == [
        False,
        True,
        True,
    ]


def test_shadow_falls_in_with_the_rounds_that_the_leader_is_seen_to_hold() -> None:
    """Its first one, after the switch, is on the load of the snapshot before its moves show."""
    shadow = PulsarShadow()
    decided = {
        at: shadow.decide(fleet(at, on=at >= 20), moved=["x"] if at in (60, 70) else [])
        for at in range(0, 120, 10)
    }
    assert [at for at, table in decided.items() if table.num_rows] == [0, 20, 110]
    strategy = find_shedding_strategy("ThresholdShedder")
    state = strategy.initial_state()
    for at in (50, 110):
        snapshot = fleet(at)
        settings = effective_settings(snapshot)
        checks = UnloadChecks(LoadView.of(snapshot, settings), settings)
        done, state = shed_round(strategy, checks, state, frozenset())
    assert predicted(decided[110]) == [move.bundle for move in done.moves]


def test_what_the_cluster_moved_rests_for_the_grace_period() -> None:
    """The leader's round came after the shadow's, and so does the end of the period."""
    shadow = PulsarShadow()
    first = predicted(shadow.decide(fleet(0, grace=3)))[0]
    assert first not in predicted(shadow.decide(fleet(60, grace=3), moved=[first]))
    assert first not in predicted(shadow.decide(fleet(120, grace=3)))
    assert first in predicted(shadow.decide(fleet(180, grace=3)))


def test_moves_before_the_start_are_remembered() -> None:
    first = predicted(PulsarShadow().decide(fleet()))[0]
    shadow = PulsarShadow()
    shadow.remember({first: round((START - timedelta(minutes=1)).timestamp() * 1000)})
    assert first not in predicted(shadow.decide(fleet()))


def test_new_leader_knows_of_no_grace_period() -> None:
    shadow = PulsarShadow()
    first = predicted(shadow.decide(fleet(0)))[0]
    assert first not in predicted(shadow.decide(fleet(60), moved=[first]))
    assert first in predicted(shadow.decide(with_manifest(fleet(120), leader="10.1.0.2:8080")))


def test_strategy_that_cannot_be_run_is_recorded_once() -> None:
    shadow = PulsarShadow(["TransferShedder"])
    rows = [
        row
        for at in (0, 60, 120)
        for row in shadow.decide(fleet(at)).to_pylist()
        if row["strategy"] == "TransferShedder"
    ]
    assert [row["label"] for row in rows] == ["failure"]
    assert rows[0]["sentence"]
    assert rows[0]["broker"] is None


def test_round_without_moves_is_one_row_that_says_why() -> None:
    quiet = with_settings(
        fleet(),
        (None, SWITCH, "true", "dynamic"),
        (None, STRATEGY, THRESHOLD, "file"),
        (None, "loadBalancerBrokerThresholdShedderPercentage", "99", "dynamic"),
    )
    (row,) = PulsarShadow().decide(quiet).to_pylist()
    assert (row["label"], row["broker"], row["bundle"]) == ("skip", None, None)
    assert row["sentence"]


def test_unknown_configured_strategy_is_a_failure_in_words() -> None:
    strange = with_settings(fleet(), (None, STRATEGY, "com.example.Mine", "file"))
    shadow = PulsarShadow()
    (row,) = shadow.decide(strange).to_pylist()
    assert row["label"] == "failure"
    assert "com.example.Mine" in row["sentence"]
    assert not shadow.decide(strange).num_rows


def uneven(taken_at=NOON, **settings: str):
    parts = [part_row(2, at, NODES[0], [NODES[1], NODES[2]]) for at in range(6)]
    content = whole(parts, tables=[table_row(2, "temp", 6)], settings=settings)
    return snapshot_of(content, taken_at=taken_at)


def test_round_of_the_policy_in_force_is_predicted_for_a_pegasus_cluster() -> None:
    rows = PegasusShadow().decide(uneven(**{"level.effective": "steady"})).to_pylist()
    assert rows
    assert {row["strategy"] for row in rows} == {"app"}
    assert not any(row["is_switched_on"] for row in rows)
    assert {row["broker"] for row in rows if row["reason"] == "move_primary"} == {NODES[0]}
    assert all(0 < row["probability"] <= 1 and row["destination"] in NODES for row in rows)
    assert any(row["probability"] < 1 for row in rows)  # no round was seen: ties are open


def test_lively_pegasus_cluster_counts_as_switched_on() -> None:
    rows = PegasusShadow().decide(uneven(**{"level.effective": "lively"})).to_pylist()
    assert all(row["is_switched_on"] for row in rows)


def test_other_policy_is_asked_where_it_is_named() -> None:
    found = PegasusShadow(["cluster"]).decide(uneven())
    named = {row["strategy"]: row["is_configured"] for row in found.to_pylist()}
    assert named == {"app": True, "cluster": False}


def test_pegasus_cluster_that_has_to_be_repaired_first_is_not_balanced() -> None:
    parts = [part_row(2, at, NODES[0], [NODES[1]]) for at in range(4)]
    (row,) = PegasusShadow().decide(snapshot_of(whole(parts))).to_pylist()
    assert (row["label"], row["reason"]) == ("skip", "not_ready")


def test_pegasus_cluster_that_becomes_lively_is_asked_at_once() -> None:
    shadow = PegasusShadow()
    levels = {at: "lively" if at >= 20 else "steady" for at in range(0, 100, 10)}
    decided = [
        at
        for at, level in levels.items()
        if shadow.decide(
            uneven(NOON + timedelta(seconds=at), **{"level.effective": level})
        ).num_rows
    ]
    assert decided == [0, 20, 80]


def test_pegasus_cluster_is_asked_once_a_minute() -> None:
    shadow = PegasusShadow()
    decided = [
        at
        for at in range(0, 130, 10)
        if shadow.decide(uneven(NOON + timedelta(seconds=at))).num_rows
    ]
    assert decided == [0, 60, 120]
