"""``trimtab jobs list``, ``show`` and ``stop``: what was asked for, without a server."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from core.access import Identity
from dashboard import services
from dashboard.cli.main import run
from dashboard.services import jobs


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "trimtab.toml"
    path.write_text(
        f'state_dir = "{tmp_path / "state"}"\n[[clusters]]\nname = "fleet"\n'
        'zookeeper = "127.0.0.1:1"\nadmin_urls = ["http://127.0.0.1:1"]\n'
    )
    return path


def answer(capsys: pytest.CaptureFixture[str], config: Path, *words: str, code: int = 0) -> Any:
    assert run(["jobs", *words, "--config", str(config), "--json"]) == code
    return json.loads(capsys.readouterr().out)


def test_jobs_are_listed_shown_and_stopped(config: Path, capsys: Any) -> None:
    assert answer(capsys, config, "list") == {"jobs": [], "is_served": False}
    job_id = jobs.request_job(services.load_config(config, ()), "flaps", {}, Identity(name="kim"))
    (listed,) = answer(capsys, config, "list")["jobs"]
    assert answer(capsys, config)["jobs"] == [listed]
    assert (listed["id"], listed["kind"], listed["actor"]) == (job_id, "flaps", "kim")
    assert answer(capsys, config, "show", job_id)["state"] == "queued"
    stopped = answer(capsys, config, "stop", job_id)
    assert stopped["is_stopping"] or stopped["state"] == "stopped"
    assert run(["jobs", "list", "--config", str(config)]) == 0
    told = capsys.readouterr().out
    assert job_id in told


@pytest.mark.parametrize("words", [["lists"], ["show"], ["list", "x"]])
def test_bad_usage_of_jobs_is_told(config: Path, capsys: Any, words: list[str]) -> None:
    assert answer(capsys, config, *words, code=2)["error"]["hint"]


def test_job_that_there_is_not_is_named(config: Path, capsys: Any) -> None:
    assert run(["jobs", "show", "nosuch", "--config", str(config)]) != 0
    assert "nosuch" in capsys.readouterr().err
