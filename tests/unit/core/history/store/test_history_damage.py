"""A damaged history says which table, day and file, and the other days stay readable."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fleet_builder import NOON, make_history

from core.errors import SnapshotError
from core.history.queries.sql import HistoryReader, Period
from core.history.store.layout import HistoryError
from core.history.store.store import HistoryLocation, HistoryStore
from core.history.store.writer import Recorder

YESTERDAY = NOON - timedelta(days=1)


def recorded(folder: Path) -> HistoryStore:
    """Two minutes of yesterday and two of today."""
    store = HistoryStore(HistoryLocation(str(folder / "history")))
    recorder = Recorder(store, "fleet")
    for day in (YESTERDAY, NOON):
        for snapshot in make_history(2, brokers=3, bundles=12, now=day):
            recorder.record(snapshot)
    return store


def halved(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def scrambled(file: Path) -> None:
    file.write_bytes(b"PAR1" + b"\xff" * (file.stat().st_size - 12) + file.read_bytes()[-8:])


@pytest.mark.parametrize(
    ("damage", "words"),
    [(halved, "cannot be read"), (scrambled, "cannot be read"), (Path.unlink, "is missing")],
)
def test_damaged_file_is_named_whole_and_other_days_are_read(tmp_path, damage, words) -> None:
    store = recorded(tmp_path)
    folder = tmp_path / "history" / "brokers" / "cluster=fleet" / "day=2026-11-20"
    file = min(folder.iterdir())
    damage(file)
    store = HistoryStore(store.location)
    whole = Period(YESTERDAY - timedelta(hours=1), NOON)
    with pytest.raises(HistoryError) as read:
        store.rows("brokers", "fleet")
    with pytest.raises(SnapshotError) as asked:
        HistoryReader(store, "fleet").ask("SELECT sum(cpu) FROM rows", "brokers", whole)
    for caught in (read, asked):
        said = str(caught.value)
        assert all(part in said for part in (words, "2026-11-20", "brokers", file.name))
        assert "Exclude that day" in (caught.value.hint or "")
    assert store.rows("brokers", "fleet", start=NOON - timedelta(hours=1)).num_rows == 6


def test_log_that_lost_its_beginning_is_said_to_be_damaged(tmp_path) -> None:
    store = recorded(tmp_path)
    (tmp_path / "history" / "brokers" / "_delta_log" / f"{0:020}.json").unlink()
    with pytest.raises(HistoryError, match="log of the table") as caught:
        HistoryStore(store.location).rows("brokers", "fleet")
    assert "_delta_log" in (caught.value.hint or "")
    assert "room" not in json.dumps(caught.value.as_json())


def test_address_of_an_unknown_kind_is_refused() -> None:
    with pytest.raises(HistoryError, match="unknown scheme foo://"):
        HistoryStore(HistoryLocation("foo://x/y")).clusters()


# -- columns, logs and files of every other kind of damage -----------------------------------------

WHOLE = Period(YESTERDAY - timedelta(hours=1), NOON)


def fault_of(attempt: Callable[[], object]) -> SnapshotError | None:
    """Return the error of an attempt; anything else than an error of ours fails the test."""
    try:
        attempt()
    except SnapshotError as exc:
        return exc
    return None


def day_folder(folder: Path, kind: str = "brokers") -> Path:
    return folder / "history" / kind / "cluster=fleet" / "day=2026-11-20"


def written_again(file: Path, change: Callable[[pa.Table], pa.Table]) -> None:
    with pq.ParquetFile(file) as parquet:
        table = parquet.read()
    pq.write_table(change(table), file)


def without_column(file: Path) -> None:
    written_again(file, lambda table: table.drop_columns(["cpu_usage"]))


def as_text(file: Path) -> None:
    def change(table: pa.Table) -> pa.Table:
        column = pa.array(["much"] * table.num_rows)
        return table.set_column(table.schema.get_field_index("cpu_usage"), "cpu_usage", column)

    written_again(file, change)


def of_another_table(file: Path) -> None:
    shutil.copyfile(min(day_folder(file.parents[4], "bundle_facts").iterdir()), file)


def as_folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


def as_loop(file: Path) -> None:
    file.unlink()
    file.symlink_to(file.name)


def emptied(file: Path) -> None:
    file.write_bytes(b"")


def garbage(file: Path) -> None:
    file.write_bytes(os.urandom(file.stat().st_size))


@pytest.mark.parametrize(
    "damage", [without_column, as_text, of_another_table, as_folder, as_loop, emptied, garbage]
)
def test_each_damage_of_a_file_is_named_by_whoever_reads_it_or_by_the_check(
    tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    store = recorded(tmp_path)
    file = min(day_folder(tmp_path).iterdir())
    damage(file)
    store = HistoryStore(store.location)
    question = "SELECT count(*) AS rows, count(cpu_usage) AS known FROM rows"
    for attempt in (
        lambda: store.rows("brokers", "fleet")["cpu_usage"].null_count,
        lambda: HistoryReader(store, "fleet").ask(question, "brokers", WHOLE),
        lambda: store.snapshot_at("fleet", YESTERDAY).brokers,
    ):
        if (exc := fault_of(attempt)) is not None:  # what needs nothing of that file is answered
            assert file.name in str(exc)
            assert exc.hint
    assert [one for one in store.problems("fleet") if file.name in one.file]
    if damage is without_column:  # it is unknown, no number that nobody measured
        found = HistoryReader(store, "fleet").ask(question, "brokers", WHOLE)
        assert found is not None
        assert found.to_pylist() == [{"rows": 12, "known": 9}]
    assert store.rows("brokers", "fleet", start=NOON - timedelta(hours=1)).num_rows == 6
    # what comes next is recorded all the same
    snapshot = make_history(3, brokers=3, bundles=12, now=NOON + timedelta(minutes=5))[-1]
    assert Recorder(HistoryStore(store.location), "fleet").record(snapshot).is_new


def log_of(folder: Path) -> list[Path]:
    return sorted((folder / "history" / "brokers" / "_delta_log").glob("*.json"))


def missing_in_the_middle(log: list[Path]) -> None:
    log[len(log) // 2].unlink()


def last_is_cut(log: list[Path]) -> None:
    halved(log[-1])


def last_is_empty(log: list[Path]) -> None:
    emptied(log[-1])


def last_is_garbage(log: list[Path]) -> None:
    garbage(log[-1])


def last_is_a_folder(log: list[Path]) -> None:
    as_folder(log[-1])


def leads_elsewhere(log: list[Path]) -> None:
    lines = [json.loads(line) for line in log[-1].read_text().splitlines()]
    for line in lines:
        if "add" in line:
            line["add"]["path"] = "../../../../../../etc/passwd"
    log[-1].write_text("\n".join(map(json.dumps, lines)) + "\n")


def checkpoint_is_garbage(log: list[Path]) -> None:
    log[0].with_name("_last_checkpoint").write_bytes(os.urandom(100))


def all_are_gone(log: list[Path]) -> None:
    for file in log:
        file.unlink()


@pytest.mark.parametrize(
    "damage",
    [
        *(missing_in_the_middle, last_is_cut, last_is_empty, last_is_garbage, last_is_a_folder),
        *(leads_elsewhere, checkpoint_is_garbage, all_are_gone),
    ],
)
def test_each_damage_of_a_log_is_named_by_whoever_reads_it_or_by_the_check(
    tmp_path: Path, damage: Callable[[list[Path]], None]
) -> None:
    store = recorded(tmp_path)
    before = store.rows("brokers", "fleet").num_rows
    damage(log_of(tmp_path))
    store = HistoryStore(store.location)
    if (exc := fault_of(lambda: store.rows("brokers", "fleet"))) is not None:
        assert "brokers" in str(exc)
        assert exc.hint
    else:
        is_less = store.rows("brokers", "fleet").num_rows < before
        named = [one for one in store.problems("fleet") if "brokers" in one.file]
        assert named or not is_less
    assert store.rows("bundle_facts", "fleet").num_rows  # the other tables are as they were
    snapshot = make_history(3, brokers=3, bundles=12, now=NOON + timedelta(minutes=5))[-1]
    recorder = Recorder(HistoryStore(store.location), "fleet")
    if (exc := fault_of(lambda: recorder.record(snapshot))) is not None:
        assert "brokers" in str(exc)


def test_files_that_nobody_wrote_are_passed_over(tmp_path: Path) -> None:
    store = recorded(tmp_path)
    before = store.rows("brokers", "fleet")
    folder = day_folder(tmp_path)
    (folder / "part-00000-garbage.zstd.parquet").write_bytes(os.urandom(1_000))
    (folder / ".nfs000000001").write_bytes(b"")
    (folder / "lost+found").mkdir()
    (log_of(tmp_path)[0].with_name("notes.txt")).write_text("a person's")
    (log_of(tmp_path)[0].with_name(f"{99:020}.json.tmp")).write_text("{")
    store = HistoryStore(store.location)
    assert store.rows("brokers", "fleet").sort_by("taken_at").equals(before.sort_by("taken_at"))
    assert (
        HistoryReader(store, "fleet").ask("SELECT cpu_usage FROM rows", "brokers", WHOLE)
        is not None
    )
