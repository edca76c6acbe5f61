"""The journal as events: each settled step and each turn of a run once, with who and why."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from journal_entries import NOON, RUN, begun, claimed, ended, record_of, requested

from connectors.journal.journal import SqlJournal
from connectors.recording.attribution import RunChange, attributed
from connectors.recording.steps import RunSteps, last_place
from core.actions.events import (
    ControlRequested,
    Event,
    RunEnded,
    RunRefused,
    SettingChanged,
    SettingRestored,
    SettingSaved,
)
from core.actions.model import RunId
from core.pegasus.record import PEGASUS_RECORD
from core.pegasus.steps.setting import SetServerSetting
from core.units import datetime_to_ms

FIRST = "acme/orders/0x00000000_0x00000001"
SECOND = "acme/orders/0x00000001_0x00000002"
START = datetime_to_ms(NOON)


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[SqlJournal]:
    opened = SqlJournal(f"sqlite:///{tmp_path / 'journal.db'}")
    yield opened
    opened.close()


def write(journal: SqlJournal, *events: Event, start: int = 0, **more: Any) -> None:
    for second, event in enumerate(events, start):
        journal.append(record_of(event, second=second, **more))


def steps_of(journal: SqlJournal, position: int = 0, since: int = START) -> RunSteps:
    return RunSteps(journal, "prod", position, since, PEGASUS_RECORD.setting_subjects)


def read(steps: RunSteps) -> list[dict[str, Any]]:
    """Read what is new, and take it as committed."""
    steps.read()
    found = steps.pending()
    steps.committed(len(found))
    return found


WHOLE = (
    requested(),
    claimed(),
    begun(0),
    ended(0),
    begun(1),
    ended(1, "FAILED", "not_done", "b1:8080"),
    RunEnded(state="DONE", sentence="All done."),
)


def test_run_is_told_with_its_steps_who_asked_for_it_and_why(journal: SqlJournal) -> None:
    write(journal, *WHOLE)
    found = read(steps_of(journal))
    assert [(row["kind"], row["subject"], row["after"]) for row in found] == [
        ("run", RUN, "QUEUED"),
        ("run", RUN, "RUNNING"),
        ("step", FIRST, "b2:8080"),
        ("step", SECOND, "b1:8080"),
        ("run", RUN, "DONE"),
    ]
    assert {row["by"] for row in found} == {"trimtab"}
    assert {row["run_id"] for row in found} == {RUN}
    assert {row["reason"] for row in found} == {"too hot"}
    assert [row["actor"] for row in found] == ["ann", "host/4711/1", "ann", "ann", "host/4711/1"]
    step = json.loads(found[2]["details"])
    assert (step["state"], step["code"], step["took_ms"]) == ("DONE", "landed", 812.5)
    assert step["at"] == START + 3000
    assert found[2]["before"] == "b1:8080"


def test_entries_are_read_once(journal: SqlJournal) -> None:
    steps = steps_of(journal)
    told = []
    for second, event in enumerate(WHOLE):
        write(journal, event, start=second)
        told += read(steps)
    assert len(told) == 5
    assert read(steps) == []


def test_what_was_not_committed_is_told_again(journal: SqlJournal) -> None:
    write(journal, *WHOLE[:4])
    steps = steps_of(journal)
    steps.read()
    assert len(steps.pending()) == 3
    steps.committed(0)
    write(journal, *WHOLE[4:], start=4)
    assert len(read(steps)) == 5


@pytest.mark.parametrize("cut", range(len(WHOLE) + 1))
def test_recorder_that_starts_anew_goes_on_behind_the_last_event(
    journal: SqlJournal, cut: int
) -> None:
    write(journal, *WHOLE[:cut])
    before = read(steps_of(journal))
    write(journal, *WHOLE[cut:], start=cut)
    place = last_place([row["details"] for row in before])
    after = read(steps_of(journal, place))
    assert len(before) + len(after) == 5
    assert [row["subject"] for row in before + after] == [RUN, RUN, FIRST, SECOND, RUN]


def test_step_that_is_unknown_is_told_when_it_is_settled(journal: SqlJournal) -> None:
    steps = steps_of(journal)
    write(journal, requested(1), claimed(), begun(0), ended(0, "UNKNOWN", "timed_out", None))
    assert [row["kind"] for row in read(steps)] == ["run", "run"]
    write(journal, ended(0, is_reconciled=True), start=4)
    assert [(row["kind"], row["after"]) for row in read(steps)] == [("step", "b2:8080")]


def test_what_a_worker_writes_that_had_lost_the_run_does_not_count(journal: SqlJournal) -> None:
    write(journal, requested(1), claimed(), begun(0), claimed("other/1/2", is_takeover=True))
    write(journal, ended(0, "FAILED", "not_done", None), start=4, actor="host/4711/1")
    write(journal, ended(0), start=5, actor="other/1/2")
    told = [row for row in read(steps_of(journal)) if row["kind"] == "step"]
    assert [json.loads(row["details"])["state"] for row in told] == ["DONE"]


def test_wishes_and_refusals_of_people_are_told(journal: SqlJournal) -> None:
    write(
        journal,
        requested(),
        ControlRequested(control="stop", reason="lunch"),
        RunRefused(code="plan_expired", sentence="Too late."),
    )
    assert [row["after"] for row in read(steps_of(journal))] == [
        "QUEUED",
        "stop requested",
        "REFUSED",
    ]


def test_settings_changed_for_the_time_of_a_run_are_steps(journal: SqlJournal) -> None:
    key = "loadBalancerSheddingEnabled"
    write(
        journal,
        requested(0),
        claimed(),
        SettingSaved(key=key, before=None, during="false"),
        SettingChanged(key=key),
        SettingRestored(key=key, result="restored", sentence="As before."),
    )
    steps = steps_of(journal)
    rows = [row for row in read(steps) if row["kind"] == "step"]
    assert [(row["subject"], row["before"], row["after"]) for row in rows] == [
        (key, None, "false"),
        (key, "false", None),
    ]
    assert {run_change.subject for run_change in steps.run_changes(START)} == {key}


@pytest.mark.parametrize(
    ("key", "event"),
    [
        ("meta level", {"kind": "level", "subject": "level.effective"}),
        ("meta.lb.only_move_primary", {"kind": "setting", "subject": "only_move_primary"}),
    ],
)
def test_a_pegasus_setting_of_a_run_explains_what_the_snapshots_show(
    journal: SqlJournal, key: str, event: dict[str, Any]
) -> None:
    write(
        journal,
        requested(0),
        claimed(),
        SettingSaved(key=key, before="steady", during="lively"),
        SettingChanged(key=key),
    )
    steps = steps_of(journal)
    read(steps)
    (found,) = attributed(
        [seen(before="steady", after="lively", **event)],
        steps.run_changes(START),
        START,
        START + 60_000,
    )
    assert found["by"] == "trimtab"


def test_a_step_that_sets_a_pegasus_server_explains_its_name_in_a_snapshot() -> None:
    step = SetServerSetting(key="meta.lb.assign_delay_ms", value="1000")
    assert "assign_delay_ms" in step.recorded_as


def test_other_clusters_and_older_runs_are_left_out(journal: SqlJournal) -> None:
    write(journal, *WHOLE, cluster="other")
    write(journal, *WHOLE, run_id=RunId("20261121-110000-000000"))
    assert read(steps_of(journal, since=START + 3_600_000)) == []


def test_damaged_run_does_not_hide_the_others(journal: SqlJournal) -> None:
    write(journal, begun(0), run_id=RunId("20261121-110000-000000"))
    write(journal, *WHOLE, start=10)
    assert len(read(steps_of(journal))) == 5


def test_places_are_found_among_other_details() -> None:
    assert last_place([None, "{}", '{"seq": 7}', "nonsense", '{"seq": 3}', "[]"]) == 7
    assert last_place([]) == 0


# -- who did what was seen -------------------------------------------------------------------------


def run_change(**changes: Any) -> RunChange:
    fields: dict[str, Any] = {
        "subject": FIRST,
        "begun_at": 100,
        "ended_at": 200,
        "landed": "b2",
        "run_id": "r",
        "actor": "ann",
        "reason": "too hot",
    }
    return RunChange(**(fields | changes))


def seen(**changes: Any) -> dict[str, Any]:
    row = {"kind": "move", "subject": FIRST, "before": "b1", "after": "b2", "by": ""}
    return row | changes


@pytest.mark.parametrize(
    ("event", "known", "by"),
    [
        (seen(), [run_change()], "trimtab"),
        (seen(), [], "cluster"),
        (seen(subject=SECOND), [run_change()], "cluster"),
        (seen(after="b3"), [run_change()], "cluster"),
        (seen(after="b3"), [run_change(landed=None)], "trimtab"),
        (seen(), [run_change(ended_at=None, landed=None)], "trimtab"),
        (seen(), [run_change(begun_at=2000, ended_at=None)], "cluster"),
        (seen(), [run_change(begun_at=10, ended_at=20)], "cluster"),
        (seen(kind="setting", subject="key", after="x"), [run_change(subject="key")], "trimtab"),
        (seen(kind="level", subject="level.stored"), [run_change(subject="level")], "trimtab"),
        (seen(kind="primary", subject="1.0"), [run_change(subject="1.0")], "trimtab"),
        (seen(kind="replica", subject="1.0", after="n9"), [run_change(subject="1.0")], "trimtab"),
        (seen(kind="broker_up", subject="b1"), [run_change()], ""),
        (seen(kind="split", subject=FIRST), [run_change(is_split=True)], "trimtab"),
    ],
)
def test_event_belongs_to_the_step_that_explains_it(
    event: dict[str, Any], known: list[RunChange], by: str
) -> None:
    (found,) = attributed([event], known, 50, 1000)
    assert found["by"] == by
    assert (found.get("run_id") == "r") is (by == "trimtab")


def test_parts_of_a_split_bundle_that_move_belong_to_the_split() -> None:
    whole = run_change(subject="acme/orders/0x00000000_0x80000000", is_split=True, landed="b1")
    part = seen(subject="acme/orders/0x00000000_0x40000000", after="b7")
    other = seen(subject="acme/orders/0x80000000_0xc0000000", after="b7")
    assert [row["by"] for row in attributed([part, other], [whole], 50, 1000)] == [
        "trimtab",
        "cluster",
    ]
