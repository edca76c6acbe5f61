"""A recorded Pegasus cluster replayed: what stays, what is copied, who repairs."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest
from backtest_clusters import START, living

from core.errors import InputError, UnknownNameError
from core.history.backtest.model import AGAIN, RECORD, Candidate, Unit, Window
from core.history.backtest.parsing import grid_of
from core.history.backtest.pegasus.engine import OPERATIONS, simulate_tape
from core.history.backtest.pegasus.fleet import Fleet
from core.history.backtest.pegasus.reading import tape_of_snapshots
from core.history.backtest.pegasus.rules import pegasus_candidates, rules_of
from core.history.backtest.pegasus.score import PegasusScore, recorded_minutes, score_run
from core.history.backtest.pegasus.tape import PegasusTape, RowChange
from core.history.backtest.pegasus.units import run_pegasus_unit
from core.history.backtest.schemas import MOVES, RUNS, TIMELINE
from core.pegasus.balance.rounds import balance_until_done
from core.pegasus.levels import FunctionLevel
from core.pegasus.view import NO_NODE

LIVELY = {"level": "lively"}


def lively(policy: str = "app", **switches: object) -> Candidate:
    return Candidate(policy=policy, settings={**LIVELY, **switches})


def scored(tape: PegasusTape, candidate: Candidate, seed: int = 1) -> PegasusScore:
    return score_run(tape, simulate_tape(tape, candidate, seed=seed))


@pytest.fixture(scope="module")
def tape() -> PegasusTape:
    return tape_of_snapshots(living(40))


@pytest.fixture(scope="module")
def failing() -> PegasusTape:
    """A node is down from minute 10 to minute 19; the record's cluster does nothing about it."""
    return tape_of_snapshots(living(40, dead=(1, range(10, 20))))


def test_at_steady_nothing_happens_and_the_run_is_the_record(tape):
    steady = scored(tape, Candidate(policy="app"))
    really = score_run(tape, recorded_minutes(tape))
    assert [one.deviation for one in steady.minutes] == [one.deviation for one in really.minutes]
    assert steady.steps == really.steps == ()
    assert steady.evenness == really.evenness


@pytest.mark.parametrize("minute", [0, 7, 39])
def test_load_stays_with_its_partitions_whoever_holds_them(tape, minute):
    simulated = list(simulate_tape(tape, lively(), seed=1))[-1]
    there = tape.node_rates(simulated.members, minute).sum()
    replicas = (tape.start.members != NO_NODE).sum(axis=1)
    wanted = tape.reads[minute].sum(dtype=np.float64)
    wanted += (tape.writes[minute].astype(np.float64) * replicas).sum()
    assert there == pytest.approx(wanted)


def test_lively_ends_where_the_balancer_itself_ends(tape):
    seen, _ = Fleet.begun(tape, 1).living()
    expected = balance_until_done(seen, rules_of(tape.settings_at(0), lively()).options)
    assert expected.is_converged
    found = scored(tape, lively())
    assert found.evenness_at_end.primary_gap <= 1
    assert found.operations == sum(len(done.plans) for done in expected.rounds)


def test_only_moving_primaries_copies_none(tape):
    counts = scored(tape, lively(only_move_primary=True)).counts
    assert counts["move_primary"]
    assert not counts["copy_primary"]
    assert scored(tape, lively(only_primary_balancer=True)).counts["copy_secondary"] == 0


def test_copies_take_as_long_as_their_size_at_the_limits(tape):
    slow = replace(tape, receive_mb_per_s=np.full(5, 1.0))
    fast = replace(tape, receive_mb_per_s=np.full(5, 1e6))
    assert scored(slow, lively()).operations < scored(fast, lively()).operations


def test_the_same_seed_gives_the_same_run_and_another_one_breaks_ties_otherwise(tape):
    runs = [scored(tape, lively("cluster"), seed) for seed in (3, 3, 4)]
    assert runs[0].steps == runs[1].steps
    assert runs[0].steps != runs[2].steps


def test_a_node_that_dies_fails_over_at_once_and_takes_up_its_replicas_again(failing):
    found = scored(failing, Candidate(policy="app"))
    counts = found.counts
    assert counts["fail_over"] == int((failing.start.members[:, 0] == 1).sum())
    assert {number for number, step in found.steps if step.kind == "fail_over"} == {10}
    # it is back before the ten minutes are over, so nothing was copied to others
    assert {step.target for _, step in found.steps if step.kind == "refill"} == {1}
    assert found.copied_mb(by_balancer=False) == 0
    assert found.minutes[12].node_count == 4


def test_the_meta_server_keeps_as_many_dropped_replicas_as_a_partition_lacks(tape):
    fleet = Fleet.begun(tape, 0)
    row, *_ = fleet.kill([0], 1_000)
    assert [one.node for one in fleet.dropped[row]] == [tape.start.nodes[0]]
    held = set(fleet.members[row].tolist())
    other = next(one for one in range(1, len(tape.start.nodes)) if one not in held)
    fleet.add(row, other)
    assert row not in fleet.dropped


def test_a_node_that_stays_away_is_replaced_by_copies(failing):
    hasty = Candidate(policy="app", settings={"assign_delay_ms": 60_000})
    found = scored(failing, hasty)
    refills = [step for _, step in found.steps if step.kind == "refill"]
    assert refills
    assert all(step.target != 1 and step.copied_mb > 0 for step in refills)
    assert found.headless_s == 0


def test_too_few_living_nodes_freeze_the_cluster(failing):
    alive = failing.is_alive.copy()
    alive[10:20, :3] = False
    found = scored(replace(failing, is_alive=alive), lively())
    assert not [step for number, step in found.steps if 10 <= number < 20]
    assert found.headless_s > 0
    assert [step for number, step in found.steps if number >= 20]


def test_a_table_that_comes_and_goes_is_taken_as_recorded():
    tape = tape_of_snapshots(living(10))
    exists = tape.exists.copy()
    exists[:4, -16:] = False
    exists[7:, -16:] = False
    start = tape.start
    members = start.members.copy()
    members[-16:] = NO_NODE
    disks = np.where(members == NO_NODE, NO_NODE, start.member_disks)
    rows = np.arange(48, 64, dtype=np.int32)
    come = RowChange(rows, start.members[-16:])
    gone = RowChange(rows, members[-16:])
    changed = replace(
        tape, exists=exists, start=start.with_members(members, disks), changes={4: come, 7: gone}
    )
    held = [
        int((one.members[-16:] != NO_NODE).sum())
        for one in simulate_tape(changed, lively(), seed=1)
    ]
    assert held[3:5] == [0, 48]
    assert held[6:8] == [48, 0]


def test_what_the_record_did_by_itself_is_told_by_comparing_minutes():
    first, *rest = living(4)
    rows = first.tables["partitions"].to_pylist()
    rows[0]["primary"], rows[0]["secondaries"][0] = rows[0]["secondaries"][0], rows[0]["primary"]
    free = next(
        name
        for name in first.tables["nodes"]["node"].to_pylist()
        if name not in (rows[1]["primary"], *rows[1]["secondaries"])
    )
    rows[1]["secondaries"][1] = free
    later = [
        type(one).build(
            one.manifest,
            {**one.tables, "partitions": type(one.tables["nodes"]).from_pylist(rows)},
        )
        for one in rest
    ]
    found = score_run(
        tape_of_snapshots([first, *later]), recorded_minutes(tape_of_snapshots([first, *later]))
    )
    assert [(number, step.kind) for number, step in found.steps] == [
        (1, "move_primary"),
        (1, "copy_secondary"),
    ]
    assert found.operations == 2


def test_several_snapshots_of_a_minute_count_as_its_last_one():
    dense = [
        replace(one, manifest=replace(one.manifest, taken_at=START + timedelta(seconds=20 * at)))
        for at, one in enumerate(living(9))
    ]
    assert tape_of_snapshots(dense).minute_count == 4
    assert tape_of_snapshots(dense, minute_s=20.0).minute_count == 9


def test_compressed_time_plays_as_fast_as_real_time(tape):
    squeezed = replace(tape, at_ms=tape.at_ms[0] + (tape.at_ms - tape.at_ms[0]) // 10)
    slow = score_run(tape, simulate_tape(tape, lively(), seed=1))
    fast = score_run(squeezed, simulate_tape(squeezed, lively(), seed=1, minute_s=6.0))
    assert slow.steps == fast.steps


# -- candidates ------------------------------------------------------------------------------------


def test_candidates_are_each_policy_with_the_switches_that_it_reads():
    grid = grid_of(
        {
            "policies": ["app", "cluster"],
            "switches": {
                "level": ["lively"],
                "meta.lb.only_move_primary": [True, False],
                "balance_op_count_per_round": [5, 10],
            },
        }
    )
    found = pegasus_candidates(grid)
    assert found[:2] == (RECORD, AGAIN)
    assert [one.label for one in found[2:]] == [
        'app policy · level="lively" · only_move_primary=true',
        'app policy · level="lively" · only_move_primary=false',
        'cluster policy · balance_op_count_per_round=5 · level="lively"',
        'cluster policy · balance_op_count_per_round=10 · level="lively"',
    ]


@pytest.mark.parametrize(
    ("switches", "error", "words"),
    [
        ({"only_move_primry": [True]}, UnknownNameError, "only_move_primary"),
        ({"level": ["livly"]}, UnknownNameError, "lively"),
        ({"only_move_primary": [3]}, InputError, "true or false"),
        ({"balance_op_count_per_round": [-1]}, InputError, "whole number"),
        ({"lb_interval_ms": [5]}, UnknownNameError, "lb_interval_ms"),
    ],
    ids=str,
)
def test_what_cannot_be_tried_is_refused_with_the_remedy(switches, error, words):
    with pytest.raises(error, match=words):
        pegasus_candidates(grid_of({"policies": ["app"], "switches": switches}))


def test_the_record_decides_what_the_candidate_leaves_open():
    told = {"level.stored": "500", "only_move_primary": "true", "balance_cluster": "true"}
    rules = rules_of(told, Candidate())
    assert rules.level is FunctionLevel.LIVELY
    assert rules.options.policy == "cluster"
    assert rules.options.only_move_primary
    assert rules_of(told, Candidate(policy="app")).options.policy == "app"
    assert rules_of({}, Candidate()).level is FunctionLevel.STEADY


# -- units -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("candidate", [RECORD, lively()], ids=["recorded", "lively"])
def test_a_unit_gives_its_rows_of_the_result_tables(tape, candidate):
    window = Window(number=2, start=START, end=START + timedelta(minutes=40))
    unit = Unit(cluster="peg", window=window, candidate=candidate, candidate_number=1, seed=1)
    ticks: list[tuple[int, int]] = []
    found = run_pegasus_unit(tape, unit, lambda done, total: ticks.append((done, total)))
    assert (found.runs.schema, found.timeline.schema) == (RUNS, TIMELINE)
    assert found.moves.schema == MOVES
    (run,) = found.runs.to_pylist()
    assert run["minutes"] == found.timeline.num_rows == len(ticks) == 40
    kinds = found.moves["kind"].to_pylist()
    assert run["unloads"] == sum(kind in OPERATIONS for kind in kinds)
    assert run["unloads"] == sum(found.timeline["unloads"].to_pylist())
    assert run["problem"] is None
