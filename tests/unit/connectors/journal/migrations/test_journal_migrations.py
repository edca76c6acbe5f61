"""Revisions of the journal's tables: old journals come along, newer ones are refused."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from journal_entries import ONE_OF_EACH, record_of

from connectors.journal import migrations
from connectors.journal.journal import SqlJournal
from connectors.journal.schema import METADATA
from core.errors import ConfigError

HERE = Path(migrations.__file__).parent


@pytest.fixture
def file(tmp_path) -> Path:
    return tmp_path / "state" / "journal.db"


def opened(file: Path) -> SqlJournal:
    return SqlJournal(f"sqlite:///{file}")


def as_first(file: Path, entries: int = 3) -> None:
    """Leave a journal as a Trimtab wrote it that counted no revisions."""
    journal = opened(file)
    for event in ONE_OF_EACH[:entries]:
        journal.append(record_of(event))
    journal.close()
    with sqlite3.connect(file) as raw:
        raw.execute("DROP INDEX trimtab_entries_of_actor")
        raw.execute("DROP TABLE trimtab_revision")


def revision(file: Path) -> str | None:
    with sqlite3.connect(file) as raw:
        found = raw.execute("SELECT version_num FROM trimtab_revision").fetchall()
    return found[0][0] if found else None


def test_the_revisions_make_the_tables_that_are_used(file):
    journal = opened(file)
    with journal.database.engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        # the jobs' and others' tables are made where they are used
        found = [one for one in compare_metadata(context, METADATA) if one[0] != "remove_table"]
    journal.close()
    assert found == []


def test_head_is_the_newest_revision_and_all_are_known():
    scripts = ScriptDirectory(str(HERE))
    assert scripts.get_current_head() == migrations.HEAD
    assert {one.revision for one in scripts.walk_revisions()} == set(migrations.KNOWN)


def test_a_journal_of_before_is_upgraded_with_every_entry(file):
    as_first(file)
    journal = opened(file)
    assert len(journal.entries()) == 3
    assert journal.verify().is_sound
    assert journal.append(record_of(ONE_OF_EACH[0])).seq == 4
    journal.close()
    assert revision(file) == migrations.HEAD


def test_a_journal_that_cannot_be_written_is_read_as_it_is(file):
    as_first(file)
    journal = SqlJournal(f"sqlite:///file:{file}?immutable=1&uri=true")
    assert len(journal.entries()) == 3
    journal.close()
    with pytest.raises(sqlite3.OperationalError, match="no such table"):
        revision(file)


def test_threads_that_open_a_journal_of_before_at_once_upgrade_it_once(file):
    as_first(file)
    journals: list[SqlJournal] = []
    threads = [threading.Thread(target=lambda: journals.append(opened(file))) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(journals) == 6
    for journal in journals:
        journal.close()
    assert revision(file) == migrations.HEAD


def test_a_failed_upgrade_leaves_the_journal_as_it_was(file, monkeypatch):
    as_first(file)
    with sqlite3.connect(file) as raw:  # the revision's own step cannot be done
        raw.execute("CREATE TABLE trimtab_entries_of_actor (x INTEGER)")
    with pytest.raises(Exception, match="trimtab_entries_of_actor"):
        opened(file)
    with pytest.raises(sqlite3.OperationalError, match="no such table"):
        revision(file)
    with sqlite3.connect(file) as raw:
        raw.execute("DROP TABLE trimtab_entries_of_actor")
    journal = opened(file)
    assert journal.verify().entries == 3
    journal.close()


@pytest.mark.parametrize("change", ["newer", "former"])
def test_tables_of_a_newer_trimtab_are_refused(file, change):
    as_first(file)
    opened(file).close()
    with sqlite3.connect(file) as raw:
        if change == "newer":
            raw.execute("UPDATE trimtab_revision SET version_num = '0099'")
        else:
            raw.execute("DROP TABLE trimtab_revision")
            raw.execute("UPDATE trimtab_schema SET version = 9")
    with pytest.raises(ConfigError, match="revision") as caught:
        opened(file)
    assert "0099" in caught.value.message or "9" in caught.value.message


def test_alembic_is_not_loaded_where_nothing_is_to_be_done(file):
    opened(file).close()
    code = (
        "import sys; from connectors.journal.journal import SqlJournal; "
        f"SqlJournal('sqlite:///{file}').close(); print('alembic' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ
    )
    assert done.stdout.strip() == "False"
