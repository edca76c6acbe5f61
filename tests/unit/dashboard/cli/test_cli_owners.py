"""``trimtab owners``: for people and for scripts, one namespace, orphans alone, refusals."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from claims import FIRST_SESSION, claimed, unheard
from fleet_builder import make_snapshot
from fleet_edit import owned_by
from places import FIXTURES

from core.snapshot import PulsarSnapshot
from core.snapshot.store import save_snapshot
from dashboard.cli.main import run

Asked = Callable[..., tuple[int, Any, str]]


def fleet() -> PulsarSnapshot:
    return claimed(make_snapshot(brokers=4, bundles=30))


@pytest.fixture
def ask(capsys: pytest.CaptureFixture[str]) -> Asked:
    def call(*words: object, as_json: bool = True) -> tuple[int, Any, str]:
        code = run([*map(str, ("owners", *words)), *(("--json",) if as_json else ())])
        told = capsys.readouterr()
        return code, json.loads(told.out) if as_json else told.out, told.err

    return call


@pytest.fixture
def sound(tmp_path: Path) -> Path:
    save_snapshot(fleet(), tmp_path / "sound")
    return tmp_path / "sound"


@pytest.fixture
def orphaned(tmp_path: Path) -> tuple[Path, list[str]]:
    snapshot = fleet()
    gone = snapshot.brokers["broker"][0].as_py()
    save_snapshot(unheard(snapshot, gone), tmp_path / "orphaned")
    return tmp_path / "orphaned", owned_by(snapshot, gone)


def test_every_bundle_is_told_with_its_owner_and_session(ask: Asked, sound: Path) -> None:
    code, body, err = ask(sound)
    assert (code, err) == (0, "")
    assert len(body["bundles"]) == sum(body["counts"].values()) == fleet().bundles.num_rows
    sessions = {row["broker"]: row["session"] for row in body["sessions"]}
    assert min(sessions.values()) == f"0x{FIRST_SESSION:x}"
    assert all(row["session"] == sessions[row["owner"]] for row in body["bundles"])
    assert sum(row["bundles"] for row in body["sessions"]) == len(body["bundles"])
    assert [row["leads"] for row in body["sessions"]].count(True) == 1


def test_one_namespace_has_its_bundles_and_its_spread_only(ask: Asked, sound: Path) -> None:
    space = fleet().bundles["namespace"][0].as_py()
    code, body, _ = ask(sound, "--namespace", space)
    assert code == 0
    assert {row["namespace"] for row in body["bundles"]} == {space}
    assert [row["namespace"] for row in body["namespaces"]] in ([space], [])


def test_orphans_alone_are_listed_and_are_a_verdict_like_any_other(
    ask: Asked, sound: Path, orphaned: tuple[Path, list[str]]
) -> None:
    code, body, _ = ask(sound, "--orphans")
    assert (code, body["bundles"]) == (0, [])
    directory, bundles = orphaned
    code, body, _ = ask(directory, "--orphans")
    assert code == 0
    assert {row["bundle"] for row in body["bundles"]} >= set(bundles)  # and its own heartbeat's
    assert {row["state"] for row in body["bundles"]} == {"orphaned"}


def test_people_read_the_verdict_first_and_then_sessions_or_orphans(
    ask: Asked, sound: Path, orphaned: tuple[Path, list[str]]
) -> None:
    _, told, _ = ask(sound, as_json=False)
    assert told.splitlines()[0].endswith(".")
    assert f"0x{FIRST_SESSION:x}" in told
    directory, bundles = orphaned
    code, told, _ = ask(directory, "--orphans", "--wide", as_json=False)
    assert code == 0
    assert "not registered" in told
    assert all(bundle in told for bundle in bundles[:20])


def test_sessions_that_were_not_read_are_unknown(ask: Asked, tmp_path: Path) -> None:
    save_snapshot(make_snapshot(brokers=3, bundles=12), tmp_path / "bare")
    code, body, _ = ask(tmp_path / "bare")
    assert code == 0
    assert not any(row["session"] for row in body["bundles"])
    assert "unknown" in ask(tmp_path / "bare", as_json=False)[1]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--namespace", "acme/nowhere"), 1, "acme/nowhere"),
        (("--namespace", ""), 1, "namespace"),
    ],
)
def test_a_namespace_that_is_not_there_is_named(
    ask: Asked, sound: Path, words: tuple[str, ...], code: int, said: str
) -> None:
    found, body, _ = ask(sound, *words)
    assert found == code
    assert said in body["error"]["message"]


def test_neither_cluster_nor_directory_is_named(
    ask: Asked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, body, err = ask("nowhere")
    assert code in (1, 2)
    assert "Traceback" not in err
    assert body["error"]["message"].endswith(".")


def test_owners_give_no_all_clear_beside_a_dead_broker(ask: Asked, tmp_path: Path) -> None:
    dump = FIXTURES / "reports" / "serving" / "i23984.jsonl"
    assert run(["import-zk", str(dump), "--out", str(tmp_path / "s")]) == 0
    _, out, _ = ask(tmp_path / "s", as_json=False)
    assert "Elsewhere in this cluster: 1 error (liveness)." in out
