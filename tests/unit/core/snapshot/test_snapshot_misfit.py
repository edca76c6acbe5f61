"""What is named as a snapshot and is none: each error names the thing, and what to do with it."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from fleet_builder import make_snapshot
from places import FIXTURES

from core.errors import InputError, SnapshotError
from core.pulsar.snapshot.zkdump import import_zk_dump
from core.snapshot.store import load_manifest, load_snapshot, save_snapshot
from dashboard.cli.main import run

DUMP = FIXTURES / "contracts" / "three-brokers.jsonl"
NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)

CONTENTS = [
    (b"", "is an empty file"),
    (b"hello there\n", "line 1 is not JSON"),
    (b"\xd3\xff\x00", "line 1 is not JSON"),
    (b'{"path": "/loadbal', "line 1 is not JSON"),
    (b'{"a": 1}\n', "line 1 has no znode path"),
]


@pytest.mark.parametrize(("content", "finding"), CONTENTS)
def test_a_file_that_is_no_snapshot_is_named_as_what_it_is(
    tmp_path: Path, content: bytes, finding: str
) -> None:
    file = tmp_path / "file"
    file.write_bytes(content)
    with pytest.raises(SnapshotError, match=f"{file} is .*{finding.removeprefix('is ')}"):
        load_manifest(file)


def test_a_dump_of_lines_without_a_znode_is_not_read_to_its_end(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(DUMP.read_bytes() + b"a\n" * 20_000)
    with pytest.raises(InputError, match=r"More than 10,000 lines up to file line [0-9]+ have no"):
        import_zk_dump(file, "x", NOW)


@pytest.mark.parametrize(
    ("content", "finding"),
    [
        (b"", "is an empty file"),
        (b"hello there\n", "line 1: It is not JSON"),
        (b'{"path": "\xd3"}', "line 1: It is not UTF-8 text"),
        (b'{"path": "/loadbal', "line 1: It is not JSON: Input data was truncated"),
        (b'{"a": 1}\n', "line 1: It is not a JSON object"),
        (b'{"path": "/other"}\n', "has no znode of Pulsar's load balancing"),
    ],
)
def test_a_dump_without_a_znode_names_its_first_fault(
    tmp_path: Path, content: bytes, finding: str
) -> None:
    file = tmp_path / "file"
    file.write_bytes(content)
    with pytest.raises(InputError, match=finding):
        import_zk_dump(file, "c", NOW)


def test_the_line_that_converts_a_dump_can_be_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    dump = tmp_path / "a dump.jsonl"
    dump.write_bytes(DUMP.read_bytes())
    with pytest.raises(SnapshotError, match="is a ZooKeeper dump") as caught:
        load_manifest(dump)
    assert f"`trimtab import-zk '{dump}' --out 'a dump'`" in caught.value.hint
    assert run(["import-zk", str(dump), "--out", "a dump"]) == 0
    assert load_snapshot(tmp_path / "a dump").tables["brokers"].num_rows == 3


@pytest.mark.parametrize(
    ("name", "finding"),
    [
        ("gone", "gone does not exist"),
        ("empty", "empty is an empty directory"),
        ("store", "a directory of 1 snapshot. Specify one of them, for example .*store/one"),
        ("folder", "it has no manifest.json"),
        ("store/one/manifest.json", "is part of a snapshot. Use .*store/one"),
    ],
)
def test_a_directory_that_is_no_snapshot_is_named_as_what_it_is(
    tmp_path: Path, name: str, finding: str
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "folder" / "other").mkdir(parents=True)
    save_snapshot(make_snapshot(), tmp_path / "store" / "one")
    with pytest.raises(SnapshotError) as caught:
        load_manifest(tmp_path / name)
    assert caught.match(finding)


def test_the_reason_of_a_damaged_table_ends_with_one_full_stop(tmp_path: Path) -> None:
    save_snapshot(make_snapshot(), tmp_path / "one")
    (tmp_path / "one" / "bundles.parquet").write_bytes(b"x" * 100)
    with pytest.raises(SnapshotError, match=r"bundles\.parquet is damaged: .*[^.]\. Capture"):
        load_snapshot(tmp_path / "one")


@pytest.mark.parametrize("command", ["health", "diagnose", "explain", "owners", "pegasus nodes"])
def test_every_command_names_a_source_that_is_nothing(
    command: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "dump.jsonl").write_bytes(DUMP.read_bytes())
    assert run([*command.split(), "gone.jsonl"]) == 1
    assert "gone.jsonl is not a snapshot directory and not a " in capsys.readouterr().err
    assert run([*command.split(), "dump.jsonl"]) == 1
    assert "dump.jsonl is a ZooKeeper dump, not a snapshot." in capsys.readouterr().err
