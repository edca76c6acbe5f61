"""The acting commands of ``trimtab pegasus`` on a written snapshot: plans, previews, refusals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pegasus_snapshots import NODES, snapshot_of, whole

from core.plan.codec import load_plan
from core.snapshot.store import save_snapshot
from core.systems import STEPS
from dashboard.cli.main import run

MOVE = ("temp.1", "move_pri", "--from", NODES[0], "--to", NODES[2])


@pytest.fixture
def directory(tmp_path: Path) -> str:
    place = tmp_path / "snapshot"
    content = whole()
    content["nodes"][0]["started_at"] = "2026-11-20 08:00:00"
    save_snapshot(snapshot_of(content), place)
    return str(place)


def asked(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    assert run(["pegasus", *words, "--json"]) == 0
    answer: dict[str, Any] = json.loads(capsys.readouterr().out)
    return answer


@pytest.mark.parametrize(
    ("words", "kinds"),
    [
        (("level", "{}", "set", "lively"), ["set_meta_level"]),
        (("set", "{}", "only_move_primary", "true"), ["set_server_setting"]),
        (("move", "{}", *MOVE), ["move_replica"]),
        (("move", "{}", *MOVE, "--steady"), ["move_replica"]),
        (("propose", "{}", "2.0", "ct_remove", "--node", NODES[1]), ["change_replica"]),
        (("migrate", "{}", NODES[0]), ["propose_many", "await_state"]),
        (("drain", "{}", NODES[0]), ["set_server_setting", "propose_many", "await_state"]),
        (("offline", "{}", NODES[0], "--rate", "20"), ["close_replicas"]),
        (("rolling-update", "{}", NODES[0]), ["close_replicas"]),
        (("rebalance", "{}", "--only-move-primary"), ["set_meta_level", "await_state"]),
        (("even", "{}", "--by", "primaries", "--moves", "2"), ["move_replica"]),
        (("even", "{}", "--by", "disk"), ["move_replica"]),
    ],
    ids=lambda words: str(words[0]),
)
def test_every_command_answers_one_object_with_plan_and_preview(capsys, directory, words, kinds):
    answer = asked(capsys, *(word.replace("{}", directory) for word in words))
    steps = answer["plan"]["steps"]
    assert set(kinds) <= {step["kind"] for step in steps}
    assert [one["kind"] for one in answer["preview"]["steps"]] == [one["kind"] for one in steps]
    assert answer["plan"]["applyable"]
    assert answer["path"] is None


def test_a_plan_is_written_and_previewed_on_its_snapshot(capsys, directory, tmp_path):
    file = tmp_path / "plan.json"
    assert run(["pegasus", "migrate", directory, NODES[0], "--plan", str(file)]) == 0
    told = capsys.readouterr().out
    assert "Move 4 primaries" in told
    assert f"trimtab apply {file} --reason TEXT" in told
    plan = load_plan(file, STEPS)
    assert run(["preview", str(file), "--snapshot", directory]) == 0
    assert plan.short_id in capsys.readouterr().out
    assert run(["preview", str(file), "--snapshot", directory, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["answer"] == "Moves 4 primaries, waits 1 time."
    assert not answer["expired"]


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (("move", "tmp.1", *MOVE[1:]), 1, "Did you mean temp?"),
        (("move", "temp.9", *MOVE[1:]), 1, "No partition named '2.9'"),
        (("move", "temp", *MOVE[1:]), 1, "is not a partition"),
        (("move", "2.1", "move", *MOVE[2:]), 2, "Did you mean move_pri"),
        (("migrate", "db9:34801"), 1, "No node named 'db9:34801'"),
        (("set", "balance_cluste", "true"), 2, "Did you mean balance_cluster"),
        (("set", "nosuch", "5"), 2, "add_secondary_max_count_for_one_node"),
        (("level", "set", "frozen"), 2, "Did you mean freezed"),
        (("level", "put", "steady"), 2, "level CLUSTER set LEVEL"),
        (("level", "set"), 2, "level CLUSTER set LEVEL"),
        (("propose", "2.0", "UPGRADE_TO_PRIMARY", "--node", NODES[1]), 1, "crashes a server"),
        (("propose", "2.0", "DOWNGRADE", "--node", NODES[1]), 2, "Did you mean DOWNGRADE"),
        (("even", "--by", "size"), 2, "No measure named 'size'"),
        (("drain", NODES[0], "--apply"), 2, "A run needs a reason"),
        (("drain", NODES[0], "--apply", "--reason", "x"), 2, "is a snapshot"),
        (("drain", NODES[0], "--dry-run"), 2, "is a snapshot"),
        (("drain", NODES[0], "--plan", "p", "--apply"), 2, "only writes the plan"),
        (("drain", NODES[0], NODES[1]), 1, "nodes would be left"),
    ],
)
def test_what_cannot_be_is_said_in_one_sentence(capsys, directory, words, code, told):
    command, *rest = words
    assert run(["pegasus", command, directory, *rest]) == code
    assert told in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("even", "--by", "primaries", "--within", "1000"), "no move reduces the deviation"),
        (("migrate", NODES[2]), "has no primaries"),
    ],
)
def test_nothing_to_do_is_done_and_writes_no_plan(capsys, directory, tmp_path, words, reason):
    command, *rest = words
    file = tmp_path / "plan.json"
    assert run(["pegasus", command, directory, *rest, "--plan", str(file)]) == 0
    assert reason in capsys.readouterr().out
    answer = asked(capsys, command, directory, *rest, "--plan", str(file))
    assert answer["verdict"] == "nothing_to_do"
    assert reason in answer["answer"]
    assert (answer["plan"], answer["preview"], answer["path"]) == (None, None, None)
    assert not file.exists()


def test_a_reason_alone_changes_nothing_and_that_is_said(capsys, directory):
    assert run(["pegasus", "migrate", directory, NODES[0], "--reason", "new disks"]) == 0
    assert "Execute it with --apply" in capsys.readouterr().err


def test_replicas_after_a_drain_are_about_and_the_guardians_choice(capsys, directory):
    assert run(["pegasus", "drain", directory, NODES[0]]) == 0
    told = capsys.readouterr().out
    assert "estimate after" in told
    assert "The guardian chooses" in told


def test_every_error_of_a_plan_is_told(capsys, directory):
    assert run(["pegasus", "drain", directory, NODES[0], NODES[1]]) == 1
    told = capsys.readouterr().err
    assert "freezed" in told
    assert "No node can take a replica" in told


def test_a_long_plan_is_cut_for_people(capsys, directory):
    assert run(["pegasus", "drain", directory, NODES[0]]) == 0
    told = capsys.readouterr().out
    assert "1 more line of this kind" in told
    assert "end of the run, it restores" in told
    assert "Nothing was changed." in told
