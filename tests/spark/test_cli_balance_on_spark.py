"""``trimtab pegasus balance --engine spark`` prints what it prints without."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dashboard.cli.main import run

RECORDED = Path(__file__).parent.parent / "fixtures" / "pegasus" / "balance-traces.json"


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recorded state with something to do, as a file."""
    cases = json.loads(RECORDED.read_text())["single_round"]
    case = next(
        one
        for one in cases
        if one["input"]["policy"] == "app" and not one["input"]["checker"] and one["expected"]
    )
    needed = {key: case[key] for key in ("input", "node_numbering")}
    path = tmp_path_factory.mktemp("state") / "state.json"
    path.write_text(json.dumps(needed))
    return path


def rounds_of(capsys: pytest.CaptureFixture[str], *words: str) -> object:
    assert run(["pegasus", "balance", *words, "--rounds", "0", "--json"]) == 0
    return json.loads(capsys.readouterr().out)["rounds"]


@pytest.mark.slow
@pytest.mark.usefixtures("spark")
def test_spark_prints_the_same_rounds(state, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TRIMTAB_SPARK__MASTER", "local[2]")  # of the session that runs already
    here = rounds_of(capsys, str(state))
    assert rounds_of(capsys, str(state), "--engine", "spark") == here
    assert here


def test_what_spark_cannot_do_is_bad_usage(state, capsys):
    words = ["pegasus", "balance", str(state), "--engine", "spark", "--policy", "cluster"]
    assert run(words) == 2
    assert "app policy" in capsys.readouterr().err
    assert run(["pegasus", "balance", str(state), "--engine", "sparc"]) == 2
    assert "spark" in capsys.readouterr().err
