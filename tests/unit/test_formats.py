"""Journal records and plans of another format are refused by name; later fields change no text."""

from __future__ import annotations

import msgspec
import pytest
import sqlalchemy as sa
from journal_entries import ONE_OF_EACH, plan_of, record_of, requested
from places import FIXTURES

from connectors.journal.journal import SqlJournal
from connectors.journal.schema import ENTRIES
from core.actions.authority import signed
from core.actions.codec import RecordDecoder
from core.actions.events import RunMeasured, StepStarted, canonical
from core.actions.model import Observation, RunOptions
from core.errors import ProtocolError, UnusablePlanError
from core.plan.codec import dump_plan, load_plan
from core.plan.model import sealed
from core.systems import STEPS

FIXTURES = FIXTURES / "journal"


@pytest.mark.parametrize("other", [1, 3])
def test_an_entry_of_another_format_is_refused_by_name(tmp_path, other) -> None:
    journal = SqlJournal(f"sqlite:///{tmp_path}/journal.db")
    journal.append(record_of(requested()))
    text = canonical(record_of(requested()))
    text = text.replace('"format_version":2', f'"format_version":{other}')
    with pytest.raises(msgspec.ValidationError, match=f"format {other}"):
        RecordDecoder(STEPS).decode(text)
    with journal.database.writing() as connection:
        row = dict(connection.execute(sa.select(ENTRIES)).mappings().one())
        row |= {"seq": 99, "body": text, "previous": "1" * 64, "digest": "2" * 64}
        connection.execute(sa.insert(ENTRIES), [row])
    with pytest.raises(ProtocolError, match=f"format {other}"):
        journal.entries(after=98)


def test_a_plan_of_another_format_is_refused_by_name() -> None:
    other = dump_plan(sealed(plan_of())).replace(b'"format_version": 5', b'"format_version": 4')
    with pytest.raises(UnusablePlanError, match="plan format 4"):
        load_plan(other, STEPS)


def test_a_plan_with_an_unknown_field_of_a_step_is_refused() -> None:
    mixed = dump_plan(sealed(plan_of())).replace(b'"predicted"', b'"foreseen"')
    with pytest.raises(UnusablePlanError):
        load_plan(mixed, STEPS)


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
