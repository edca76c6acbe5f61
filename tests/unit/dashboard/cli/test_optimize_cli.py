"""``trimtab optimize`` and ``trimtab simulate``: their JSON, exit codes, and what people see."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from fleet_builder import make_snapshot
from fleet_edit import with_policies
from places import FIXTURES

from core.plan.codec import load_plan
from core.snapshot.store import save_snapshot
from core.systems import STEPS
from dashboard.cli.main import run

DUMP = FIXTURES / "contracts" / "three-brokers.jsonl"
MOVE_KEYS = {
    *("bundle", "from", "to", "bytes_per_s", "clients", "topics"),
    *("msgs_per_s", "disruption", "co_moves"),
}


@pytest.fixture
def trimtab(capsys):
    def call(*words: object) -> tuple[int, str, str]:
        code = run([str(word) for word in words])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


@pytest.fixture(scope="module")
def fleet(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("fleet") / "snapshot"
    save_snapshot(with_policies(make_snapshot(brokers=4, bundles=120)), out)
    return out


@pytest.fixture(scope="module")
def three(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("three") / "snapshot"
    assert run(["import-zk", str(DUMP), "--out", str(out)]) == 0
    return out


def test_optimize_prints_one_object_as_documented(trimtab, fleet) -> None:
    code, out, err = trimtab("optimize", fleet, "--within", 0.05, "--json")
    body = json.loads(out)
    assert (code, err) == (0, "")
    assert body["verdict"] == "reached"
    assert body["deviation_after"] <= 0.05 < body["deviation_before"]
    assert 1 <= body["ratio"] <= 1.15
    assert body["moved_bytes_per_s"] == pytest.approx(
        sum(move["bytes_per_s"] for move in body["moves"])
    )
    assert all(set(move) == MOVE_KEYS for move in body["moves"])
    assert set(body["curve"][0]) == {"moves", "deviation", "moved_bytes_per_s", "clients"}
    assert body["binding"] == []
    assert body["elapsed_ms"] > 0


def test_optimize_writes_a_plan_that_preview_takes(trimtab, fleet, tmp_path) -> None:
    file = tmp_path / "plan.json"
    code, out, _ = trimtab("optimize", fleet, "--max-moves", 5, "--plan", file, "--json")
    body = json.loads(out)
    assert code == 0
    assert body["path"] == str(file)
    plan = load_plan(file, STEPS)
    assert [(step.bundle, step.owner, step.destination) for step in plan.steps] == [
        (move["bundle"], move["from"], move["to"]) for move in body["moves"]
    ]
    assert trimtab("preview", file, "--snapshot", fleet, "--json")[0] == 0


def test_optimize_with_nothing_to_do_is_done_and_writes_nothing(trimtab, fleet, tmp_path) -> None:
    file = tmp_path / "plan.json"
    code, out, _ = trimtab("optimize", fleet, "--relief", 0.99, "--plan", file, "--json")
    body = json.loads(out)
    assert code == 0
    assert body["verdict"] == "nothing_to_do"
    assert body["path"] is None
    assert not file.exists()


def test_optimize_tells_people_the_goal_the_bound_and_the_curve(trimtab, fleet) -> None:
    code, out, _ = trimtab("optimize", fleet)
    assert code == 0
    assert out.startswith("Goal reached: ")
    assert "Lower bound of the moved traffic" in out
    assert "after moves" in out


def test_optimize_names_what_binds(trimtab, three) -> None:
    code, out, _ = trimtab("optimize", three, "--max-moves", 0)
    assert code == 0
    assert "Binding: The budget" in out


@pytest.mark.parametrize(
    "words",
    [
        ("--within", "0"),
        ("--within", "nan"),
        ("--measure", "colour"),
        ("--relief", "0.85", "--measure", "throughput"),
        ("--max-moves", "-1"),
        ("--recently-unloaded", "no-such-file.json"),
        ("--set", "noSuchSetting=1"),
    ],
)
def test_optimize_refuses_what_cannot_be(trimtab, fleet, words) -> None:
    code, out, _ = trimtab("optimize", fleet, *words, "--json")
    assert code == 2
    assert set(json.loads(out)["error"]) == {"code", "message", "hint"}


def test_optimize_keeps_excluded_namespaces_and_resting_bundles(trimtab, fleet, tmp_path) -> None:
    _, out, _ = trimtab("optimize", fleet, "--json")
    first = json.loads(out)["moves"][0]["bundle"]
    file = tmp_path / "recent.json"
    file.write_text(json.dumps([first]))
    words = ("--exclude", "globex/*", "--recently-unloaded", file, "--json")
    _, out, _ = trimtab("optimize", fleet, *words)
    moved = [move["bundle"] for move in json.loads(out)["moves"]]
    assert moved
    assert first not in moved
    assert not [name for name in moved if name.startswith("globex/")]


def test_simulate_prints_one_object_as_documented(trimtab, fleet) -> None:
    words = ("--shed", "ThresholdShedder", "--place", "LeastLongTermMessageRate", "--rounds", 30)
    code, out, err = trimtab("simulate", fleet, *words, "--seed", 3, "--json")
    body = json.loads(out)
    assert (code, err) == (0, "")
    assert body["shedding"] == "ThresholdShedder"
    assert body["placement"] == "LeastLongTermMessageRate"
    assert body["converged"] is True
    assert body["moves"] == sum(len(one["moves"]) for one in body["rounds"])
    assert body["seed"] == 3
    assert set(body["rounds"][0]["moves"][0]) == {"bundle", "from", "to"}


def test_simulate_tells_people_round_by_round(trimtab, fleet) -> None:
    code, out, _ = trimtab("simulate", fleet, "--shed", "ThresholdShedder", "--rounds", 20)
    assert code == 0
    assert "deviation after" in out
    assert "grace period 30 min" in out


def test_simulate_takes_what_ifs(trimtab, fleet) -> None:
    words = ("--fail-broker", "10.1.0.1:8080", "--add-broker", "10.9.0.1:8080", "--rounds", 3)
    code, out, _ = trimtab("simulate", fleet, *words, "--json")
    first = json.loads(out)["rounds"][0]
    assert code == 0
    assert first["round"] == 0
    assert {move["from"] for move in first["moves"]} == {"10.1.0.1:8080"}


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("--shed", "NoSuchShedder"), 2),
        (("--place", "NoSuchSelector"), 2),
        (("--rounds", "0"), 2),
        (("--fail-broker", "nobody:8080"), 1),
        (("--fail-domain", "nowhere"), 1),
    ],
)
def test_simulate_refuses_what_cannot_be(trimtab, fleet, words, expected) -> None:
    code, out, _ = trimtab("simulate", fleet, *words, "--json")
    assert code == expected
    assert "error" in json.loads(out)


def test_simulate_names_the_strategy_it_cannot_play(trimtab, three) -> None:
    code, out, _ = trimtab("simulate", three, "--shed", "TransferShedder", "--json")
    assert code in (1, 2)
    assert "TransferShedder" in json.loads(out)["error"]["message"]
