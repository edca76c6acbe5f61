"""Logs as JSON: one object a line, with what it is about, in every process that serves."""

from __future__ import annotations

import json
import logging
import threading
from dataclasses import dataclass

import pytest
from journal_entries import ONE_OF_EACH, RUN, record_of
from structlog.contextvars import bound_contextvars

from connectors import logs
from connectors.journal.journal import SqlJournal


@dataclass(frozen=True)
class Said:
    cluster: str
    kind: str
    sentence: str

    def __str__(self) -> str:
        return f"{self.cluster}: {self.sentence}"


@pytest.fixture
def stream(capsys):
    root, own = logging.getLogger(), logging.getLogger("trimtab")
    handlers, level = root.handlers[:], own.level
    yield capsys
    root.handlers[:] = handlers
    own.setLevel(level)


def lines(stream: pytest.CaptureFixture[str]) -> list[dict]:
    return [json.loads(line) for line in stream.readouterr().err.splitlines()]


def test_a_line_has_time_level_logger_message_and_what_it_is_about(stream):
    logs.set_up_logging("json")
    with bound_contextvars(cluster="prod", run="r1"):
        logging.getLogger("trimtab.worker").warning("no %s", "answer", extra={"step": 3})
    logging.getLogger("trimtab.worker").info("outside")
    first, second = lines(stream)
    assert first["message"] == "no answer"
    assert (first["cluster"], first["run"], first["step"]) == ("prod", "r1", 3)
    assert (first["level"], first["logger"]) == ("warning", "trimtab.worker")
    assert first["at"].endswith("Z")
    assert "run" not in second


def test_a_traceback_is_one_line(stream):
    logs.set_up_logging("json")
    try:
        int("broken\nin two")
    except ValueError:
        logging.getLogger("trimtab.pages").exception("page %s failed", "brokers")
    (only,) = lines(stream)
    assert "ValueError: invalid literal" in only["exception"]


def test_what_one_thread_is_about_is_not_in_lines_of_another(stream):
    logs.set_up_logging("json")
    with bound_contextvars(run="mine"):
        thread = threading.Thread(target=lambda: logging.getLogger("trimtab.x").info("other"))
        thread.start()
        thread.join()
    (only,) = lines(stream)
    assert "run" not in only


def test_an_entry_of_the_journal_is_a_line_that_names_its_run(stream, tmp_path):
    logs.set_up_logging("json")
    journal = SqlJournal(f"sqlite:///{tmp_path / 'journal.db'}")
    entry = journal.append(record_of(ONE_OF_EACH[0], run_id=RUN))
    journal.close()
    (only,) = lines(stream)
    assert (only["run"], only["seq"]) == (RUN, entry.seq)
    assert only["kind"] == type(ONE_OF_EACH[0]).__name__
    assert only["actor"] == entry.record.actor


def test_an_entry_about_a_step_names_it(stream, tmp_path):
    logs.set_up_logging("json")
    journal = SqlJournal(f"sqlite:///{tmp_path / 'journal.db'}")
    for event in ONE_OF_EACH:
        journal.append(record_of(event, run_id=RUN))
    journal.close()
    named = {line["kind"]: line.get("step") for line in lines(stream)}
    assert named["StepStarted"] == next(
        event.step for event in ONE_OF_EACH if type(event).__name__ == "StepStarted"
    )
    assert named["RunRequested"] is None


def test_events_of_a_process_are_lines_for_people_or_entries(stream):
    said: list[str] = []
    event = Said("prod", "failed", "No answer.")
    logs.reporter("collector", "text", said.append)(event)
    assert said == ["prod: No answer."]
    logs.set_up_logging("json")
    logs.reporter("collector", "json", said.append)(event)
    assert len(said) == 1
    (only,) = lines(stream)
    assert (only["level"], only["what"], only["cluster"]) == ("warning", "failed", "prod")


def test_text_has_warnings_only(stream):
    logs.set_up_logging("text")
    logging.getLogger("trimtab.worker").info("quiet")
    logging.getLogger("trimtab.worker").warning("loud")
    written = stream.readouterr().err
    assert "quiet" not in written
    assert "WARNING trimtab.worker: loud" in written
