"""What was predicted against what came: verdicts, what is not judged, landings, totals."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from core.history.analysis.accuracy.accuracy import Agreement
from core.history.analysis.accuracy.accuracy import agreement as compared
from core.history.analysis.accuracy.shadow import SHADOW, rows_of
from core.history.store.layout import EVENT_COLUMNS

MINUTE = 60_000
EVENTS = pa.schema([pa.field("taken_at", pa.int64()), *EVENT_COLUMNS])


def shadow(*rounds: list[str], **more: Any) -> pa.Table:
    """One round a minute, each with the bundles that leave ``b1``."""
    rows = []
    for number, bundles in enumerate(rounds):
        common = {
            "taken_at": number * MINUTE,
            "strategy": "ThresholdShedder",
            "is_configured": True,
            "is_switched_on": True,
            "label": "success" if bundles else "skip",
            "reason": "overloaded" if bundles else "balanced",
            "sentence": "Said.",
        } | more
        told = [
            common
            | {
                "position": position,
                "broker": "b1",
                "bundle": bundle,
                "destination": "b2",
                "probability": 0.75,
                "distribution": json.dumps({"b2": 0.75, "b3": 0.25}),
            }
            for position, bundle in enumerate(bundles)
        ]
        rows += told or [common]
    return rows_of(rows) if rows else SHADOW.empty_table()


def events(*rows: dict[str, Any]) -> pa.Table:
    return pa.Table.from_pylist([{"kind": "move", "by": "cluster"} | row for row in rows], EVENTS)


def agreement(told: pa.Table, came: pa.Table, **more: Any) -> Agreement:
    """Compare, all rounds being over."""
    return compared(told, came, **({"until": 10**9} | more))


def move(bundle: str, minute: float, after: str = "b2", **more: Any) -> dict[str, Any]:
    at = round(minute * MINUTE)
    return {"taken_at": at, "subject": bundle, "before": "b1", "after": after} | more


@pytest.mark.parametrize(
    ("predicted", "moved", "verdict"),
    [
        (["x", "y"], ["y", "x"], "equal"),
        (["x", "y"], ["x", "z"], "overlapping"),
        (["x"], ["z"], "other"),
        ([], [], "nothing"),
        ([], ["x"], "only_real"),
        (["x"], [], "only_predicted"),
    ],
)
def test_verdict_of_a_round(predicted: list[str], moved: list[str], verdict: str) -> None:
    found = agreement(shadow(predicted, []), events(*(move(name, 0.5) for name in moved)))
    assert found.rounds["verdict"].to_pylist() == [verdict, "nothing"]
    assert found.counts[verdict] >= 1
    assert found.judged == 2


def test_move_seen_in_the_snapshot_of_the_next_round_belongs_to_the_round_before() -> None:
    found = agreement(shadow(["x"], ["y"]), events(move("x", 1.0), move("y", 1.5)))
    assert found.rounds["verdict"].to_pylist() == ["equal", "equal"]


def test_what_is_moved_a_round_later_counts_as_predicted_early() -> None:
    found = agreement(shadow(["x"], []), events(move("x", 1.5)))
    assert found.rounds["verdict"].to_pylist() == ["only_predicted", "only_real"]
    assert (found.moves, found.moves_predicted, found.moves_early) == (1, 0, 1)


def test_same_brokers_are_told_from_same_bundles() -> None:
    found = agreement(shadow(["x"], ["y"], []), events(move("z", 0.5), move("w", 1.5, before="b9")))
    assert found.rounds["same_brokers"].to_pylist() == [True, False, None]


def test_moves_of_a_run_are_not_the_leaders_and_its_rounds_are_not_judged() -> None:
    run = {"kind": "run", "by": "trimtab", "run_id": "r", "subject": "r"}
    found = agreement(
        shadow(["x"], ["x"], []),
        events(
            move("x", 0.5, by="trimtab", run_id="r"),
            run | {"taken_at": 20_000},
            run | {"taken_at": 30_000},
        ),
    )
    assert found.rounds["verdict"].to_pylist() == ["not_judged", "only_predicted", "nothing"]
    assert "Trimtab run" in found.rounds["why"][0].as_py()
    assert found.moves_by_others == 1


def test_what_a_broker_that_went_left_behind_is_nobodys_decision() -> None:
    down = {"kind": "broker_down", "taken_at": MINUTE // 2, "subject": "b1", "by": ""}
    found = agreement(shadow([], []), events(down, move("x", 0.5), move("y", 1.0)))
    assert found.rounds["verdict"].to_pylist() == ["nothing", "nothing"]
    assert found.moves_by_others == 2
    assert found.excluded == {"the source broker was down": 2}


def test_bundle_that_nobody_owned_is_not_moved_by_the_leader() -> None:
    found = agreement(shadow([]), events(move("x", 0.5, before=None)))
    assert found.counts == {"nothing": 1}


def test_rounds_of_a_cluster_that_does_not_shed_are_not_judged() -> None:
    found = agreement(shadow(["x"], is_switched_on=False), events(move("x", 0.5)))
    assert found.judged == 0
    assert "shedding was off" in found.sentence
    assert found.excluded == {"load shedding was off at the time of the prediction": 1}


def test_sentence_on_quiet_rounds_names_those_that_are_not_judged() -> None:
    off = shadow(["x"], is_switched_on=False).to_pylist()
    on = [row | {"taken_at": row["taken_at"] + MINUTE} for row in shadow([], []).to_pylist()]
    found = agreement(rows_of([*off, *on]), events(move("x", 0.5)))
    assert "in 2 rounds" in (found.sentence)


def test_round_that_could_not_be_decided_is_not_judged() -> None:
    found = agreement(shadow([], label="failure"), events(move("x", 0.5)))
    assert found.counts == {"not_judged": 1}


def test_gap_in_the_record_is_nobodys_round() -> None:
    late = shadow(["x"], ["y"], []).to_pylist()
    late.append(late[-1] | {"taken_at": 60 * MINUTE})
    found = agreement(rows_of(late), events(move("z", 30.0)))
    assert found.moves == 0
    assert found.moves_by_others == 1


def test_round_whose_time_is_not_over_is_left_out() -> None:
    both = shadow(["x"], ["y"])
    assert agreement(both, events(), until=MINUTE).rounds.num_rows == 1
    assert agreement(both, events(), until=2 * MINUTE).rounds.num_rows == 2
    assert agreement(both, events(), until=None).rounds.num_rows == 1
    assert agreement(both, events(move("y", 2.0)), until=None).rounds.num_rows == 2


def test_landings_tell_how_likely_the_place_was_said_to_be() -> None:
    found = agreement(
        shadow(["x", "y"], []), events(move("x", 0.5, after="b2"), move("y", 0.5, after="b9"))
    )
    rows = {row["bundle"]: row for row in found.landings.to_pylist()}
    assert (rows["x"]["probability"], rows["y"]["probability"]) == (0.75, 0.0)
    assert rows["x"]["predicted_destination"] == "b2"
    assert found.landing_ratio == pytest.approx(0.375)
    assert found.landing_expected == pytest.approx(0.75**2 + 0.25**2)


def test_one_strategy_of_several_can_be_asked_about() -> None:
    both = pa.concat_tables(
        [shadow(["x"], []), shadow([], [], strategy="OverloadShedder", is_configured=False)]
    )
    real = events(move("x", 0.5))
    assert agreement(both, real).counts == {"equal": 1, "nothing": 1}
    assert agreement(both, real, strategy="OverloadShedder").counts == {
        "only_real": 1,
        "nothing": 1,
    }


def test_primaries_count_as_moves() -> None:
    found = agreement(shadow(["1.0"], []), events(move("1.0", 0.5, kind="primary")))
    assert found.counts == {"equal": 1, "nothing": 1}


def test_nothing_recorded_is_said() -> None:
    found = agreement(SHADOW.empty_table(), events())
    assert "No predictions in this period" in found.sentence
    assert (found.agreed_ratio, found.acting_ratio, found.landing_ratio) == (None, None, None)


def test_totals_are_shares_of_rounds() -> None:
    found = agreement(shadow(["x"], ["y"], [], []), events(move("x", 0.5), move("q", 1.5)))
    assert (found.judged, found.acting) == (4, 2)
    assert found.agreed_ratio == 0.75
    assert found.acting_ratio == 0.5
    assert found.sentence.startswith("In 1 of 2 rounds")
