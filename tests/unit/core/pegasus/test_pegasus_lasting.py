"""What lasts, what helps, and what tables refuse: kernels on small snapshots."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from pegasus_diagnosis import diagnose
from pegasus_snapshots import NODES, part_row, snapshot_of, whole

from core.history.analysis.flaps.flaps import EVENT_COLUMNS, flaps_of
from core.history.analysis.requests import FlapsRequest
from core.history.analysis.trends.trends import NO_MINUTES
from core.pegasus.partition import PartitionConfig
from core.pegasus.persistence import Copy, ddd_remedy, unserved_since
from core.pegasus.record import pegasus_events
from core.pegasus.rules.registry import assess_pegasus
from core.pegasus.snapshot import PegasusFacts
from core.pegasus.table_envs import denial_of, throttles_of

NOW = datetime(2026, 11, 21, tzinfo=UTC)
LOST = PartitionConfig(14, 3, 9, 3, None, (), NODES[:3], last_committed_decree=100)


def copy(node: str, **changes) -> Copy:
    fields = {"node": node, "status": "inactive", "ballot": 8, "committed": 90, "prepared": 95}
    return Copy(**{**fields, "disk": "ssd1", **changes})


# -- lost partitions ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("alive", "copies", "said", "not_said"),
    [
        (NODES[:2], None, f"Start {NODES[2]} with the existing data", "Already alive"),
        (
            (NODES[0],),
            (),
            f"Start {NODES[1]} and {NODES[2]} with the existing data",
            "Already alive",
        ),
        (NODES, (), "14.3.pegasus.*.err", "Start"),
        (NODES, None, "ddd_diagnose -g 14.3", "Start"),
        (NODES, (copy(NODES[3]),), f"{NODES[3]} has the newest copy", "moved away"),
        (NODES, (copy(NODES[3]), copy(NODES[0], committed=100)), f"{NODES[0]} has", "fewer"),
        (NODES, (copy(NODES[3]),), "10 writes fewer", "Start"),
    ],
)
def test_only_a_node_that_is_down_is_waited_for(alive, copies, said, not_said):
    sentence = ddd_remedy(LOST, alive, copies)
    assert said in sentence
    assert not_said not in sentence


def test_each_lost_partition_has_its_own_remedy():
    parts = [
        part_row(2, 0, None, last_drops=[NODES[0], NODES[1]], copies="[]"),
        part_row(2, 1, None, last_drops=[NODES[0], NODES[2]]),
        part_row(2, 2, NODES[0], [NODES[1], NODES[3]]),
        part_row(2, 3, NODES[0], [NODES[1], NODES[3]]),
    ]
    facts = PegasusFacts(snapshot_of(whole(parts, dead=[NODES[2]])))
    hints = {
        one.evidence["gpid"]: one.hint
        for one in assess_pegasus(facts)
        if one.code == "partition_lost"
    }
    assert hints["2.0"].startswith("Already alive: db1:34801 and db2:34801.")
    assert hints["2.1"].startswith(f"Start {NODES[2]}")


# -- what lasts ---------------------------------------------------------------------------------


def headless(ballot: int = 20, seconds: int = 0, **more):
    parts = [
        part_row(2, 0, None, [NODES[1], NODES[2]], ballot=ballot, **more),
        *(part_row(2, at, NODES[0], [NODES[1], NODES[3]]) for at in (1, 2, 3)),
    ]
    return snapshot_of(whole(parts), taken_at=NOW + timedelta(seconds=seconds))


def test_two_snapshots_tell_since_when_a_partition_has_no_primary():
    earlier = [headless(seconds=0), headless(seconds=30)]
    assert unserved_since(headless(seconds=40), earlier) == {(2, 0): NOW}


def test_a_partition_that_changed_meanwhile_does_not_last():
    assert unserved_since(headless(ballot=22, seconds=40), [headless(seconds=0)]) == {}
    healthy = snapshot_of(whole(), taken_at=NOW)
    assert unserved_since(headless(seconds=40), [healthy]) == {}
    gap = [headless(seconds=0), replace(headless(ballot=19, seconds=20))]
    assert unserved_since(headless(seconds=40), gap) == {}


def test_the_diagnosis_says_how_long_and_without_an_earlier_snapshot_when_to_look_again():
    alone = diagnose(headless()).causes[0]
    assert alone.code == "partitions_without_primary"
    assert "Check again in a minute" in alone.hint
    lasting = diagnose(headless(seconds=40), earlier=[headless()]).causes[0]
    assert "unchanged for at least 40 s" in lasting.summary
    assert lasting.hint.startswith("The servers refuse the proposal")


@pytest.mark.parametrize(("ballot", "is_refused"), [(21, True), (20, False), (19, False)])
def test_servers_ahead_of_the_meta_server_refuse_every_proposal(ballot, is_refused):
    copies = json.dumps(
        [{**vars_of(copy(NODES[1])), "ballot": ballot}, vars_of(copy(NODES[2], ballot=20))]
    )
    facts = PegasusFacts(headless(copies=copies))
    found = [one for one in assess_pegasus(facts) if one.code == "proposals_refused"]
    assert bool(found) is is_refused
    if found:
        assert found[0].servers == (NODES[1],)


def vars_of(one: Copy) -> dict:
    return {name: getattr(one, name) for name in one.__slots__}


# -- environments -------------------------------------------------------------------------------


@pytest.mark.parametrize("value", ["", "all", "reconfig", "reconfig*some", "later*all"])
def test_a_value_that_no_server_takes_denies_nothing(value):
    assert denial_of({"replica.deny_client_request": value}) is None


@pytest.mark.parametrize(
    ("value", "delay", "reject"),
    [
        ("1000*delay*100", 126, None),
        ("1K*delay*100,2K*reject*200", 129, 257),
        ("2000*reject*200", None, 251),
        ("1M*delay*5", 131_073, None),
    ],
)
def test_each_partition_has_its_share_of_a_limit(value, delay, reject):
    (found,) = throttles_of({"replica.write_throttling": value}, 8)
    assert (found.delay_per_s, found.reject_per_s) == (delay, reject)


@pytest.mark.parametrize("value", ["", "0*delay*100", "x*delay*1", "1*slow*1", "1*delay"])
def test_no_limit_is_none(value):
    assert not list(throttles_of({"replica.read_throttling": value}, 8))


# -- restarts -----------------------------------------------------------------------------------


def of_starts(started: dict[str, str], seconds: int):
    content = whole()
    for row in content["nodes"]:
        row["started_at"] = started.get(row["node"], "2026-11-20 00:00:00")
    return snapshot_of(content, taken_at=NOW + timedelta(seconds=seconds))


def test_a_restart_between_two_snapshots_is_an_event():
    before = of_starts({}, 0)
    after = of_starts({NODES[1]: "2026-11-21 00:00:30"}, 60)
    assert pegasus_events(before, after) == [{"kind": "node_restart", "subject": NODES[1]}]
    assert pegasus_events(before, of_starts({}, 60)) == []


@pytest.mark.parametrize(("kind", "flaps"), [("node_restart", 0), ("level", 4)])
def test_primaries_that_return_to_a_restarted_node_do_not_flap(kind, flaps):
    rows = [(120_000, kind, "A", None, None)]
    for at in range(4):
        rows += [
            (60_000, "primary", f"2.{at}", "A", "B"),
            (600_000, "primary", f"2.{at}", "B", "A"),
        ]
    table = pa.Table.from_pylist(
        [dict(zip(EVENT_COLUMNS, (*row, "cluster", None), strict=True)) for row in rows],
        schema=pa.schema(
            [(name, pa.int64() if name == "taken_at" else pa.string()) for name in EVENT_COLUMNS]
        ),
    )
    assert flaps_of(table, NO_MINUTES, FlapsRequest())["flaps"].num_rows == flaps
