"""A history that lost something is never silent, and is repaired without losing more."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from fleet_builder import NOON, make_history

from core.history.store.store import HistoryLocation, HistoryStore
from core.history.store.tables import Tables
from core.history.store.writer import Recorder
from dashboard import services
from dashboard.cli.main import run

LATER = NOON + timedelta(hours=1)
Damage = Callable[[Path], None]


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    """A history of six minutes of one cluster."""
    folder = tmp_path_factory.mktemp("whole")
    recorder = Recorder(store_at(folder / "history"), "fleet")
    for snapshot in make_history(6, brokers=3, bundles=12, now=NOON, cluster="fleet"):
        recorder.record(snapshot)
    return folder / "history"


def store_at(folder: Path) -> HistoryStore:
    return HistoryStore(HistoryLocation(str(folder)))


def files(root: Path, kind: str) -> list[Path]:
    return sorted((root / kind).rglob("*.parquet"))


def log(root: Path, kind: str) -> list[Path]:
    return sorted((root / kind / "_delta_log").glob("*.json"))


def flipped(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 3] ^= 0xFF
    file.write_bytes(content)


def altered(file: Path) -> None:
    """Change one byte that every reader accepts: the name of the writer."""
    content = bytearray(file.read_bytes())
    content[content.index(b"parquet-rs")] ^= 1
    file.write_bytes(content)


def halved(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


SILENT: dict[str, Damage] = {
    "minutes altered": lambda root: altered(files(root, "minutes")[0]),
    "minutes last entry gone": lambda root: log(root, "minutes")[-1].unlink(),
    "events altered": lambda root: altered(files(root, "events")[0]),
    "events last entry gone": lambda root: log(root, "events")[-1].unlink(),
    "events log gone": lambda root: shutil.rmtree(root / "events" / "_delta_log"),
    "events gone": lambda root: shutil.rmtree(root / "events"),
}
"""What storage answers less for, without an error."""

LOUD: dict[str, Damage] = {
    "minutes halved": lambda root: halved(files(root, "minutes")[0]),
    "minutes file gone": lambda root: files(root, "minutes")[0].unlink(),
    "minutes log gone": lambda root: shutil.rmtree(root / "minutes" / "_delta_log"),
    "minutes entry flipped": lambda root: flipped(log(root, "minutes")[2]),
    "events halved": lambda root: halved(files(root, "events")[0]),
    "events file gone": lambda root: files(root, "events")[0].unlink(),
    "events last entry halved": lambda root: halved(log(root, "events")[-1]),
    "events entry gone": lambda root: log(root, "events")[2].unlink(),
}
"""What cannot be read at all."""


@pytest.fixture
def site(whole: Path, tmp_path: Path, monkeypatch) -> Path:
    config = tmp_path / "trimtab.toml"
    config.write_text(f'state_dir = "{tmp_path}"\n')
    monkeypatch.setenv(services.CONFIG_ENV, str(config))
    shutil.copytree(whole, tmp_path / "history")
    return tmp_path / "history"


def ask(capsys, *line: str) -> tuple[int, dict]:
    code = run(["history", *line, "--json"])
    return code, json.loads(capsys.readouterr().out)


def test_whole_history_is_read_without_a_word(site: Path, capsys, tmp_path: Path) -> None:
    at = ("--at", NOON.isoformat(), "--out", str(tmp_path / "out"))
    for line in (["minutes"], ["events"], ["agreement"], ["snapshot"]):
        code, body = ask(capsys, *line, "fleet", *(at if line == ["snapshot"] else ()))
        assert (code, body["problems"]) == (0, [])
    assert ask(capsys, "repair") == (
        0,
        {
            "history": str(site),
            "applied": False,
            "repairs": [],
            "lost_rows": 0,
            "quarantine": str(site / "quarantine"),
        },
    )


def test_repair_of_a_cluster_that_was_never_recorded_is_refused(site: Path, capsys) -> None:
    assert run(["history", "repair", "fleer"]) == 1
    err = capsys.readouterr().err
    assert "'fleer'" in err
    assert "fleet?" in err


@pytest.mark.parametrize("name", SILENT)
def test_reader_of_less_says_so_with_its_own_exit_code(
    site: Path, capsys, tmp_path: Path, name: str
) -> None:
    SILENT[name](site)
    at = ("--at", NOON.isoformat(), "--out", str(tmp_path / "out"))
    for command in ("minutes", "events", "agreement", "snapshot"):
        code = run(["history", command, "fleet", *(at if command == "snapshot" else ())])
        err = capsys.readouterr().err
        assert code == 3, command
        assert f"{name.split(maxsplit=1)[0]}" in err
        assert "trimtab history repair" in err
    code, body = ask(capsys, "minutes", "fleet")
    assert code == 3
    assert len(body["problems"]) == 1


@pytest.mark.parametrize("name", LOUD)
def test_reader_of_nothing_names_what_is_damaged(site: Path, capsys, name: str) -> None:
    LOUD[name](site)
    code, body = ask(capsys, "events", "fleet")
    assert code == 1
    assert name.split(maxsplit=1)[0] in body["error"]["message"]


@pytest.mark.parametrize("name", [*SILENT, *LOUD])
def test_repair_puts_back_what_it_can_and_answers_what_is_lost(
    site: Path, capsys, whole: Path, name: str
) -> None:
    before = {kind: store_at(whole).rows(kind, "fleet").num_rows for kind in ("minutes", "events")}
    (SILENT | LOUD)[name](site)
    code, plan = ask(capsys, "repair")
    assert code == 3
    assert not plan["applied"]
    assert len(plan["repairs"]) == 1
    assert not (site / "quarantine").exists()
    code, done = ask(capsys, "repair", "--apply")
    assert code == 0
    store = store_at(site)
    assert store.problems(None) == []
    after = {kind: store.rows(kind, "fleet").num_rows for kind in before}
    action = done["repairs"][0]["action"]
    if action == "restore":
        assert after == before
        assert done["lost_rows"] == 0
    elif action == "isolate":
        kind = name.split(maxsplit=1)[0]
        assert before[kind] - after[kind] == done["lost_rows"] > 0
    elif name == "events gone":
        assert after["events"] == 0
    else:
        assert after == before
    assert store.isolated()[0]["what"] == done["repairs"][0]["what"]
    # recording goes on
    more = make_history(1, brokers=3, bundles=12, now=LATER, cluster="fleet")
    Recorder(store, "fleet").record(more[0])
    assert store.snapshot_at("fleet", LATER).snapshot_id == more[0].snapshot_id
    assert store.problems(None) == []


@pytest.mark.parametrize("done", [0, 1])
def test_a_repair_that_was_interrupted_is_named_and_done_again(
    site: Path, whole: Path, monkeypatch, done: int
) -> None:
    store = store_at(site)
    SILENT["events log gone"](site)
    append, calls = Tables.append, []

    def interrupted(self: Tables, *arguments: object) -> None:
        calls.append(1)
        if done:
            append(self, *arguments)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Tables, "append", interrupted)
        with pytest.raises(KeyboardInterrupt):
            store.repair(store.problems(None), NOON)
    assert calls
    (problem,) = store_at(site).problems(None)
    assert "earlier repair" in str(problem)
    again = store_at(site)
    again.repair(again.problems(None), LATER)
    assert again.problems(None) == []
    expected = store_at(whole).rows("events", "fleet").num_rows
    assert store_at(site).rows("events", "fleet").num_rows == expected > 0


def test_leavings_of_a_killed_writer_are_no_damage(site: Path) -> None:
    source = files(site, "brokers")[0]
    shutil.copy(source, source.with_name("part-left.parquet"))
    source.with_name("part-half.parquet").write_bytes(source.read_bytes()[:100])
    assert store_at(site).problems(None) == []
