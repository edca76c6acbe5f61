"""How long copies take: one estimate, the same on a page, in a plan and on the command line."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import pytest
from pegasus_snapshots import NODES, snapshot_of, whole

from core.actions.copies import CopyProgress
from core.pegasus.balance.model import BalancePlan, PlanKind
from core.pegasus.copy_time import CopyTime, copy_time, slower
from core.pegasus.even.cost import copy_cost
from core.pegasus.plan.build import RequestedMove, moves_plan
from core.pegasus.snapshot import PegasusFacts
from core.plan.options import CopyRate, PlanOptions


@pytest.mark.parametrize(
    ("total", "nodes", "largest", "disks", "expected", "words"),
    [
        (4_200.0, [4_200.0], 4_200.0, 3, (42.0, 42.0), "about 42 s"),  # one replica, one disk
        (4_200.0, [4_200.0], 100.0, 3, (14.0, 42.0), "14 s to 42 s"),  # many, over all disks
        (4_200.0, [2_100.0, 2_100.0], 100.0, 1, (21.0, 42.0), "21 s to 42 s"),
        (4_200.0, [4_200.0], 100.0, 0, (42.0, 42.0), "about 42 s"),  # disks are unknown
        (10.0, [10.0], 10.0, 1, (0.1, 0.1), "about 1 s"),
    ],
)
def test_copies_take_between_all_at_once_and_one_after_the_other(
    total, nodes, largest, disks, expected, words
):
    found = copy_time(total, node_mb=nodes, largest_mb=largest, rate_mb_per_s=100.0, disks=disks)
    assert found == pytest.approx(expected)
    assert found.describe() == words


@pytest.mark.parametrize(
    ("measured", "limit", "expected", "took"),
    [
        (
            CopyRate(98.4, "the last 8 copies here"),
            500.0,
            "98.4 MB/s per copy (the last 8 copies here)",
            "12 s to 42 s",
        ),
        (
            CopyRate(98.4, "the last 8 copies here"),
            20.0,
            "20 MB/s per copy (limit per disk)",
            "12 s to 42 s",
        ),
        (None, 20.0, "20 MB/s per copy (limit per disk; no copy measured yet)", "12 s or longer"),
        (
            CopyRate(98.4, "the last copy here"),
            None,
            "98.4 MB/s per copy (the last copy here)",
            "12 s to 42 s",
        ),
    ],
)
def test_rate_is_that_of_the_latest_copies_unless_the_limit_is_lower(
    measured, limit, expected, took
):
    found = slower(measured, limit)
    assert found is not None
    assert found.describe() == expected
    assert CopyTime(12.0, 42.0).describe(is_limit=found.is_limit) == took


@pytest.mark.parametrize(
    ("predicted", "so_far", "rate", "words"),
    [
        (0.0, None, None, ("0 B", "0 B")),
        (0.0, 5.0, 1.0, ("0 B", "0 B")),
        (2_000.0, None, 40.0, ("not counted", "2 GB", "40 MB/s")),
        (2_000.0, 0.0, None, ("0 B", "2 GB")),
        (2_000.0, 500.0, None, ("500 MB", "2 GB")),
        (2_000.0, 500.0, 40.0, ("500 MB", "2 GB", "40 MB/s")),
        (None, 500.0, 40.0, ("500 MB", "unknown", "40 MB/s")),
    ],
)
def test_a_run_keeps_copied_and_predicted_and_rate_apart(predicted, so_far, rate, words):
    progress = CopyProgress(predicted_mb=predicted, so_far_mb=so_far, rate_mb_per_s=rate)
    assert progress.describe() == dict(zip(("so far", "predicted", "rate"), words, strict=False))


def test_plan_names_one_time_and_what_its_rate_is_based_on():
    content = whole()
    for row in content["disks"]:
        row["available_mb"] = 900
    asked = [
        RequestedMove("2.0", "copy_pri", NODES[0], NODES[2]),
        RequestedMove("2.1", "copy_sec", NODES[3], NODES[1]),
    ]
    terms = PlanOptions(now=datetime.now(UTC), copy_rate=CopyRate(0.5, "the last 8 copies here"))
    plan = moves_plan(snapshot_of(content), asked, terms)
    (note,) = [item.sentence for item in plan.diagnostics if item.code == "copies"]
    assert note.endswith("about 40 s at 0.5 MB/s per copy (the last 8 copies here).")


def test_a_plan_and_a_page_give_one_copy_the_same_time_and_size():
    content = whole()
    for row in content["nodes"]:
        row["copy_rate_mb_per_s"] = 1.0
    for row in content["disks"]:
        row["available_mb"] = 900
    asked = RequestedMove("2.0", "copy_pri", NODES[0], NODES[2])
    snapshot = snapshot_of(content)
    view = PegasusFacts(snapshot).view()
    plan = moves_plan(snapshot, [asked], PlanOptions(now=datetime.now(UTC)))
    (note,) = [item.sentence for item in plan.diagnostics if item.code == "copies"]

    row = next(at for at in range(view.partition_count) if view.gpid_text(at) == "2.0")
    copied = BalancePlan(
        row=row,
        kind=PlanKind.COPY_PRIMARY,
        source=view.nodes.index(NODES[0]),
        target=view.nodes.index(NODES[2]),
        source_count=1,
        target_count=0,
    )
    cost = copy_cost(view, [copied], np.full(view.partition_count, 10.0))
    assert plan.expected.copied_mb == cost.copy_mb == 10.0
    assert cost.time(1.0, 1).in_turn(is_limit=True) in note
    assert "10 MB is copied" in note
