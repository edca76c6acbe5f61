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
@pytest.mark.parametrize("policy", ["app", "cluster"])
def test_spark_prints_the_same_rounds(state, policy, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TRIMTAB_SPARK__MASTER", "local[2]")  # of the session that runs already
    words = [str(state), "--policy", policy]
    here = rounds_of(capsys, *words)
    assert rounds_of(capsys, *words, "--engine", "spark") == here
    assert here


def test_an_engine_that_does_not_exist_is_bad_usage(state, capsys):
    assert run(["pegasus", "balance", str(state), "--engine", "sparc"]) == 2
    assert "spark" in capsys.readouterr().err
