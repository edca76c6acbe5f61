"""What pages read of the journal's database again is read anew after a change."""

from __future__ import annotations

from pathlib import Path

from journal_entries import record_of, requested

from connectors.journal import engine
from connectors.journal.journal import SqlJournal


def test_read_once_until_the_file_changes(tmp_path: Path, monkeypatch) -> None:
    journal = SqlJournal(f"sqlite:///{tmp_path / 'journal.db'}")
    read: list[int] = []

    def newest() -> int:
        read.append(1)
        return journal.newest()[0]

    assert [journal.database.recent("newest", newest) for _ in range(3)] == [0, 0, 0]
    assert len(read) == 1
    journal.append(record_of(requested()))
    assert journal.database.recent("newest", newest) == 1
    monkeypatch.setattr(engine, "RECENT_S", 0.0)
    journal.database.recent("newest", newest)
    assert len(read) == 3


def test_a_database_in_memory_is_always_read() -> None:
    journal = SqlJournal("sqlite://")
    read: list[int] = []
    for _ in range(2):
        journal.database.recent("newest", lambda: read.append(1))
    assert len(read) == 2
