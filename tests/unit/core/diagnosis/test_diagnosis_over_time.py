"""A diagnosis of recorded time: moves, what came back, why, and the causes where it was worst."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import pytest
from fleet_builder import make_history
from history_rows import recorded, store_in

from core.diagnosis.request import DiagnoseRequest
from core.errors import SnapshotError
from core.history.analysis.diagnosis import over_time
from core.progress import NoProgress
from dashboard.cli.main import run as run_command

HOUR = timedelta(hours=1)
QUICK = DiagnoseRequest(seconds=1.0)


class Recorded(NamedTuple):
    state_dir: Path
    config: Path


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    folder = tmp_path_factory.mktemp("over_time")
    config = folder / "trimtab.toml"
    config.write_text(f'state_dir = "{folder}"\n[[clusters]]\nname = "fleet"\nzookeeper = "z:1"\n')
    moment = datetime.now(UTC) - timedelta(seconds=5)
    recorded(store_in(folder), make_history(20, brokers=4, bundles=40, now=moment))
    return Recorded(folder, config)


def test_moves_and_what_came_back_are_counted(site):
    found = over_time(store_in(site.state_dir), "fleet", HOUR, QUICK, NoProgress())
    assert found.moves > 0
    assert found.samples == 12
    assert sum(count for _, count in found.verdicts) == 12
    assert found.start <= found.worst_at <= found.end
    assert found.worst.problem


@pytest.mark.slow
def test_a_move_comes_with_the_verdict_of_the_minute_before(site):
    store = store_in(site.state_dir)
    moved = store.rows("events", "fleet", columns=("kind", "subject")).to_pylist()
    bundle = next(row["subject"] for row in moved if row["kind"] == "move")
    request = DiagnoseRequest(bundle=bundle, seconds=1.0)
    first = over_time(store, "fleet", HOUR, request, NoProgress()).moved[0]
    assert first.before != first.after
    assert first.why


def test_a_cluster_without_a_record_is_refused(tmp_path):
    with pytest.raises(SnapshotError):
        over_time(store_in(tmp_path), "nope", HOUR, QUICK, NoProgress())


@pytest.mark.slow
def test_the_command_reads_the_record(site, capsys):
    words = ["diagnose", "fleet", "--since", "1h", "--seconds", "9", "--config", str(site.config)]
    assert run_command([*words, "--json"]) == 0
    body = json.loads(capsys.readouterr().out)
    assert body["over_time"]["moves"] > 0
    assert body["causes"]
    assert run_command(words) == 0
    printed = capsys.readouterr().out
    assert all(cause["summary"] in printed for cause in body["causes"])


@pytest.mark.parametrize("words", [["nope", "--since", "1h"], ["fleet", "--since", "lots"]])
def test_a_wrong_word_is_refused(site, words):
    assert run_command(["diagnose", *words, "--config", str(site.config)]) == 2
