"""What became of a proposal: told from the partition before and now, and never too early."""

from __future__ import annotations

from dataclasses import replace

import pytest

from connectors.pegasus.acting.partition_reader import Members, PartitionObservation, seen_of
from connectors.pegasus.acting.proposing import copy_timeout_s
from connectors.pegasus.acting.verdict import TargetRoles, judge, wanted_of_change, wanted_of_move
from core.actions.model import Observation
from core.pegasus.balance.model import ConfigType, PlanKind
from core.pegasus.partition import PartitionConfig
from core.pegasus.reconfigure import projected_configs
from core.pegasus.steps.partition import Partition

A, B, C, D = "a:1", "b:1", "c:1", "d:1"
BEFORE = PartitionConfig(2, 3, 7, 3, A, (B, C))
MOVE = wanted_of_move(PlanKind.MOVE_PRIMARY, BEFORE, A, B)
COPY_PRIMARY = wanted_of_move(PlanKind.COPY_PRIMARY, BEFORE, A, D)
COPY_SECONDARY = wanted_of_move(PlanKind.COPY_SECONDARY, BEFORE, B, D)
TAKE_OUT = wanted_of_change(ConfigType.DOWNGRADE_TO_INACTIVE, BEFORE, B)


def now(ballot: int, primary: str | None, *secondaries: str) -> PartitionConfig:
    return replace(BEFORE, ballot=ballot, primary=primary, secondaries=secondaries)


CASES = {
    "a move that has not begun": (MOVE, BEFORE, "waiting"),
    "a primary that has stepped down": (MOVE, now(8, None, B, C, A), "waiting"),
    "a move that is done": (MOVE, now(9, B, C, A), "done"),
    "a move that is done, and another change after it": (MOVE, now(10, B, C, D), "done"),
    "another secondary was chosen": (MOVE, now(9, C, A, B), "elsewhere"),
    "the old primary was chosen again": (MOVE, now(9, A, B, C), "waiting"),
    "a secondary beside it was lost": (MOVE, now(8, A, B), "waiting"),
    "the target is no member any more": (MOVE, now(9, A, C), "half_done"),
    "a copy that has been added": (COPY_PRIMARY, now(8, A, B, C, D), "waiting"),
    "a copy that leads, the old one still there": (
        COPY_PRIMARY,
        now(10, D, B, C, A),
        "waiting",
    ),
    "a copy that is done": (COPY_PRIMARY, now(11, D, B, C), "done"),
    "a copy whose old replica is kept, another one gone": (
        COPY_PRIMARY,
        now(11, D, B, A),
        "waiting",
    ),
    "a copied secondary": (COPY_SECONDARY, now(9, A, C, D), "done"),
    "a copied secondary with a fourth member": (
        COPY_SECONDARY,
        now(8, A, B, C, D),
        "waiting",
    ),
    "a copied secondary, and a primary that moved too": (
        COPY_SECONDARY,
        now(11, C, A, D),
        "done",
    ),
    "one that was taken out": (TAKE_OUT, now(8, A, C), "done"),
    "one that was taken out and added again": (TAKE_OUT, now(9, A, C, B), "returned"),
    "one that is still there after another change": (TAKE_OUT, now(9, A, B, D), "waiting"),
}


@pytest.mark.parametrize("name", CASES)
def test_the_partition_tells_what_became_of_it(name: str) -> None:
    wanted, seen, state = CASES[name]
    verdict = judge(wanted, BEFORE, seen)
    assert verdict.state == state
    assert BEFORE.gpid in verdict.sentence


@pytest.mark.parametrize("wanted", [MOVE, COPY_PRIMARY, COPY_SECONDARY, TAKE_OUT])
def test_on_the_way_nothing_is_said_and_at_its_end_it_is_done(wanted: TargetRoles) -> None:
    *way, end = projected_configs(BEFORE, wanted.actions)
    assert {judge(wanted, BEFORE, config).state for config in way} == {"waiting"}
    assert judge(wanted, BEFORE, end).state == "done"
    assert wanted.is_reached(end)
    assert not wanted.is_reached(BEFORE)


@pytest.mark.parametrize(
    ("change", "before", "node"),
    [
        (ConfigType.ADD_SECONDARY, now(7, A, B), D),
        (ConfigType.REMOVE, BEFORE, C),
        (ConfigType.ASSIGN_PRIMARY, replace(now(7, None), last_drops=(C, D)), D),
    ],
)
def test_single_changes_are_done_where_their_action_leads(
    change: ConfigType, before: PartitionConfig, node: str
) -> None:
    wanted = wanted_of_change(change, before, node)
    *_, end = projected_configs(before, wanted.actions)
    assert judge(wanted, before, before).state == "waiting"
    assert judge(wanted, before, end).state == "done"


def test_what_was_seen_comes_back_out_of_the_journal() -> None:
    planned = Partition.of(BEFORE, "temp")
    seen = PartitionObservation({BEFORE.gpid: Members.of(BEFORE)}, "m1:1 since then")
    kept = Observation(exists=True, value=seen.text())
    assert seen_of(kept, [planned]) == seen
    assert seen_of(kept, [planned]).items[BEFORE.gpid].config(planned) == BEFORE


@pytest.mark.parametrize("value", [None, "what another version wrote", "{}"])
def test_without_a_record_the_plan_says_what_was_there(value: str | None) -> None:
    planned = Partition.of(BEFORE, "temp")
    found = seen_of(Observation(exists=True, value=value), [planned])
    assert found.items[BEFORE.gpid] == Members.of(BEFORE)
    assert not found.reign


def test_a_large_copy_is_waited_for_longer_than_ten_minutes() -> None:
    assert copy_timeout_s(None) == copy_timeout_s(10.0) == 600.0
    assert copy_timeout_s(50_000.0) > 10_000.0
