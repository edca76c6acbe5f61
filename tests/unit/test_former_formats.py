"""Journals and plans that earlier versions wrote are read, verified and applied as before.

``tests/fixtures/journal`` holds what the version before wrote: 22 entries of journal format 1 and a
plan of format 4.
"""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest
import sqlalchemy as sa
from journal_entries import NOON, ONE_OF_EACH, RUN, plan_of, record_of, requested

from connectors.journal.journal import SqlJournal
from connectors.journal.schema import ENTRIES
from core.actions.authority import signed
from core.actions.codec import RecordDecoder
from core.actions.events import RunMeasured, StepStarted, canonical
from core.actions.model import Observation, RunOptions
from core.actions.request import RunLimits, check_request
from core.actions.runs import fold
from core.errors import ProtocolError, UnusablePlanError
from core.plan.codec import dump_plan, load_plan
from core.plan.model import FORMAT_VERSION, content_hash, sealed
from core.systems import STEPS

FIXTURES = Path(__file__).parents[1] / "fixtures" / "journal"
ROWS = [json.loads(line) for line in (FIXTURES / "format-1.jsonl").read_text().splitlines()]
OLD_PLAN = FIXTURES / "plan-format-4.json"
LIMITS = RunLimits(pace_per_min=60, max_failures=1, max_steps=100, is_read_only=False)


@pytest.fixture
def journal(tmp_path: Path) -> SqlJournal:
    """A journal that the version before wrote."""
    found = SqlJournal(f"sqlite:///{tmp_path}/journal.db")
    with found.database.writing() as connection:
        connection.execute(sa.insert(ENTRIES), ROWS)
    return found


def test_a_journal_of_format_1_is_read_and_its_seals_hold(journal: SqlJournal) -> None:
    found = journal.verify()
    assert found.is_sound
    assert found.entries == len(ROWS)
    view = fold(journal.entries(run_id=RUN))
    assert view.state == "STOPPED"
    assert [step.state for step in view.steps] == ["DONE", "DONE", "FAILED"]
    assert [step.result.code for step in view.steps if step.result] == [
        "landed",
        "unassigned",
        "not_done",
    ]
    assert view.steps[1].is_reconciled
    assert [step.before.token for step in view.steps if step.before] == ["0x1", "0x3", "0x5"]
    assert view.steps[0].step.predicted == {"b2:8080": 0.75, "b3:8080": 0.25}
    assert [item.result for item in view.settings] == ["not_restored"]
    assert [item.subject for item in view.external_changes] == ["acme/orders/0x00000009_0x0000000a"]


def test_starts_of_both_formats_are_counted(journal: SqlJournal) -> None:
    assert journal.moves_since("prod", NOON) == 2  # the third is not paced
    assert journal.last_begun("prod", NOON) == NOON + timedelta(seconds=16)
    assert journal.runs_acting("prod", NOON, NOON + timedelta(minutes=1)) == [RUN]


def test_codes_that_a_run_gave_to_undone_steps_have_their_names_of_today() -> None:
    row = next(one for one in ROWS if '"code":"not_done"' in one["body"])
    old = row["body"].replace('"code":"not_done"', '"code":"unsettled"')
    assert '"code":"result_unknown"' in canonical(RecordDecoder(STEPS).decode(old))


@pytest.mark.parametrize("line", (FIXTURES / "format-2.jsonl").read_text().splitlines())
def test_fields_that_came_later_change_no_text_and_no_signature(line: str) -> None:
    record = RecordDecoder(STEPS).decode(line)
    assert canonical(record) == line
    again = signed(record, b"k" * 32)
    assert again.event.signature == record.event.signature


def test_fields_that_came_later_are_stored_where_they_say_something() -> None:
    options = RunOptions(max_unassigned=3)
    assert '"max_unassigned":3' in canonical(record_of(requested(options=options)))
    seen = Observation(exists=True, holder="b1:8080", topics=0, clients=2)
    text = canonical(record_of(StepStarted(step=0, observed=seen)))
    assert '"topics":0' in text
    decoded = RecordDecoder(STEPS).decode(text)
    assert canonical(decoded) == text
    measured = next(one for one in ONE_OF_EACH if isinstance(one, RunMeasured))
    found = msgspec.structs.replace(measured, unassigned=())
    assert '"unassigned":[]' in canonical(record_of(found))


def test_a_chain_goes_on_in_the_format_of_today(journal: SqlJournal) -> None:
    journal.append(record_of(requested(), run_id="20261122-120000-bbbbbb", second=60))
    assert journal.verify().entries == len(ROWS) + 1
    body = journal.entries(after=len(ROWS))[0].record
    assert '"format_version":2' in canonical(body)


def test_an_entry_of_a_later_format_is_refused_by_name(journal: SqlJournal) -> None:
    later = canonical(record_of(requested())).replace('"format_version":2', '"format_version":3')
    with pytest.raises(msgspec.ValidationError, match="format 3"):
        RecordDecoder(STEPS).decode(later)
    with journal.database.writing() as connection:
        row = ROWS[-1] | {"seq": 99, "body": later, "previous": "1" * 64, "digest": "2" * 64}
        connection.execute(sa.insert(ENTRIES), [row])
    with pytest.raises(ProtocolError, match="format 3"):
        journal.entries(after=98)


def test_a_plan_of_format_4_keeps_its_id_and_can_be_applied() -> None:
    plan = load_plan(OLD_PLAN, STEPS)
    assert plan.format_version == 4
    assert plan.plan_id == content_hash(plan)
    assert plan.steps[0].predicted == {"b2:8080": 0.75, "b3:8080": 0.25}
    assert dump_plan(plan) == OLD_PLAN.read_bytes()
    check_request(plan, "prod", LIMITS, NOON)


def test_a_plan_of_format_4_that_was_changed_is_refused() -> None:
    changed = OLD_PLAN.read_bytes().replace(b"0.75", b"0.74")
    with pytest.raises(UnusablePlanError, match="was changed"):
        load_plan(changed, STEPS)


def test_a_plan_of_today_with_a_name_of_format_4_is_refused() -> None:
    mixed = dump_plan(sealed(plan_of())).replace(b'"predicted"', b'"foreseen"')
    with pytest.raises(UnusablePlanError):
        load_plan(mixed, STEPS)


def test_plans_are_made_in_the_format_of_today() -> None:
    assert plan_of().format_version == FORMAT_VERSION
