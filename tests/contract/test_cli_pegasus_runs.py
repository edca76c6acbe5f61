"""``trimtab pegasus`` carries plans out: on a sandbox, through journal and executor, and back."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from connectors.sandbox.pegasus.fleet import PegasusOptions, PegasusSandbox
from core.access import Identity
from core.pegasus.snapshot import PegasusFacts
from core.snapshot.pegasus import PegasusSnapshot
from dashboard import services
from dashboard.cli.main import run

FAST = PegasusOptions(tick_s=0.2, learn_mb_per_s=20_000, grace_s=0.5)
NAME = "sandbox-pegasus"
LOOKS = 1200


@pytest.fixture(scope="module")
def sandbox() -> Iterator[PegasusSandbox]:
    with PegasusSandbox(FAST) as running:
        yield running


@pytest.fixture
def config(sandbox: PegasusSandbox, tmp_path: Path) -> Path:
    return written(sandbox, tmp_path)


def written(sandbox: PegasusSandbox, folder: Path, more: str = "read_only = false") -> Path:
    """A configuration with a journal of its own."""
    path = folder / "trimtab.toml"
    path.write_text(
        f"state_dir = {json.dumps(str(folder))}\n"
        "[[clusters]]\n"
        f'name = "{NAME}"\nkind = "pegasus"\nenvironment = "demo"\nrate_sample_s = 0.05\n'
        f"meta_servers = {json.dumps(sandbox.meta_servers)}\n{more}\n",
        encoding="utf-8",
    )
    return path


def captured(config: Path) -> PegasusSnapshot:
    settings = services.load_config(config, ())
    found = services.snapshot_of(settings, settings.cluster(NAME))
    assert isinstance(found, PegasusSnapshot)
    return found


def partition(config: Path, gpid: str) -> dict[str, Any]:
    app_id, _, index = gpid.partition(".")
    rows = captured(config).tables["partitions"].to_pylist()
    return next(row for row in rows if (row["app_id"], row["index"]) == (int(app_id), int(index)))


def applied(capsys: pytest.CaptureFixture[str], config: Path, *words: str) -> dict[str, Any]:
    """Carry a command out and return its run."""
    more = ["--reason", "a test", "--yes", "--config", str(config), "--json"]
    code = run([*words, *more])
    told = capsys.readouterr()
    assert code == 0, told.out + told.err
    answer: dict[str, Any] = json.loads(told.out)["run"]
    assert answer["state"] == "DONE"
    return answer


def test_the_level_is_set_and_set_back(capsys, config):
    assert captured(config).settings["level.stored"] == "400"
    applied(capsys, config, "pegasus", "level", NAME, "set", "blind")
    assert captured(config).settings["level.stored"] == "200"
    applied(capsys, config, "pegasus", "level", NAME, "set", "steady")
    assert captured(config).settings["level.stored"] == "400"


def test_a_primary_moves_and_undo_brings_it_back(capsys, config):
    before = partition(config, "2.3")
    source, destination = before["primary"], before["secondaries"][0]
    words = ("2.3", "move_pri", "--from", source, "--to", destination)
    done = applied(capsys, config, "pegasus", "move", NAME, *words, "--apply")
    assert partition(config, "2.3")["primary"] == destination
    applied(capsys, config, "undo", done["run_id"], "--yes")
    assert partition(config, "2.3")["primary"] == source


@pytest.mark.slow
def test_a_node_is_drained_while_its_black_list_lasts(capsys, config, sandbox):
    node = sandbox.nodes[2]
    store = services.snapshot_store(services.load_config(config, ()))
    store.put(captured(config))  # as a collector does
    applied(capsys, config, "pegasus", "drain", NAME, node, "--apply")
    after = captured(config)
    store.put(after)
    for row in after.tables["partitions"].to_pylist():
        members = {row["primary"], *row["secondaries"]}
        assert node not in members
        assert len(members) == 3
    assert after.settings["assign_secondary_black_list"] == ""
    assert PegasusFacts(after).columns.nodes_with("drained") == [node]
    assert PegasusFacts(captured(config)).columns.nodes_with("drained") == [node]
    assert run(["pegasus", "health", NAME, "--config", str(config)]) == 0
    assert f"{node} has no replicas: it was drained" in " ".join(capsys.readouterr().out.split())
    plan = config.parent / "lively.json"
    words = ("level", NAME, "set", "lively", "--plan", str(plan), "--reason", "a test")
    run(["pegasus", *words, "--config", str(config), "--json"])
    assert (
        f"At level lively the balancer moves replicas to drained nodes again: {node}."
        in capsys.readouterr().out
    )


@pytest.mark.slow
def test_a_rolling_update_says_what_the_operator_has_to_do_and_waits_for_it(
    capsys, config, sandbox
):
    node = sandbox.nodes[0]
    pause = threading.Event()

    def operator() -> None:
        """Restart the node once the run waits for that; give up in the end."""
        loaded = services.load_config(config, ())
        for _ in range(LOOKS):
            views = services.runs(loaded, NAME)
            if any("Restart" in step.waiting for view in views for step in view.steps):
                sandbox.restart_node(node)
                return
            if any(view.is_ended for view in views):
                return
            pause.wait(0.1)
        for view in services.runs(loaded, NAME):
            services.ask_control(
                loaded, view.run_id, "stop", Identity(name="a test"), "it never waited"
            )

    hand = threading.Thread(target=operator)
    hand.start()
    code = run(
        [
            *("pegasus", "rolling-update", NAME, node, "--apply"),
            *("--reason", "a test", "--yes", "--config", str(config)),
        ]
    )
    hand.join(timeout=60)
    told = capsys.readouterr()
    assert code == 0, told.err
    assert f"Restart the replica server of {node} now" in told.err
    after = captured(config)
    held = {name for row in after.tables["replicas"].to_pylist() for name in [row["node"]]}
    assert node in held
    assert after.settings["add_secondary_max_count_for_one_node"] == "10"
    assert after.settings["assign_delay_ms"] == "600000"


def test_a_dry_run_says_what_would_be_sent(capsys, config):
    row = partition(config, "1.1")
    words = ["1.1", "move_pri", "--from", row["primary"], "--to", row["secondaries"][0]]
    code = run(["pegasus", "move", NAME, *words, "--dry-run", "--config", str(config), "--json"])
    assert code == 0
    dry = json.loads(capsys.readouterr().out)["dry_run"]
    assert [step["kind"] for step in dry["steps"]] == ["move_replica"]
    assert partition(config, "1.1")["ballot"] == row["ballot"]


def test_a_read_only_cluster_is_left_alone(capsys, sandbox, tmp_path):
    config = written(sandbox, tmp_path, "read_only = true")
    words = ["level", NAME, "set", "blind", "--reason", "a test", "--yes"]
    words += ["--config", str(config)]
    assert run(["pegasus", *words]) == 1
    assert "read-only" in capsys.readouterr().err
    assert captured(config).settings["level.stored"] == "400"


def test_an_excluded_table_is_left_alone(capsys, sandbox, tmp_path):
    config = written(sandbox, tmp_path, 'read_only = false\nexclusions = ["tem*"]')
    row = partition(config, "2.1")
    words = ["2.1", "move_pri", "--from", row["primary"], "--to", row["secondaries"][0]]
    assert run(["pegasus", "move", NAME, *words, "--config", str(config)]) == 1
    assert "excluded" in capsys.readouterr().err


def test_a_name_that_no_cluster_has_brings_near_ones(capsys, config):
    words = ["level", "sandbox-pegsus", "set", "steady", "--config", str(config)]
    assert run(["pegasus", *words]) == 1
    assert f"Did you mean {NAME}?" in capsys.readouterr().err


@pytest.mark.slow
def test_lively_back_to_steady_says_how_many_replicas_stay_and_moves_them_back(
    capsys, sandbox, tmp_path
):
    """The balancer of the sandbox really moves: what it moved is counted, and brought back."""
    config = written(sandbox, tmp_path, "read_only = false\n[clusters.apply]\nmax_steps = 12")
    before = placement(config)
    done = applied(capsys, config, "pegasus", "level", NAME, "set", "lively")
    pause = threading.Event()
    for _ in range(LOOKS):
        if elsewhere(config, before):
            break
        pause.wait(0.1)
    undo = ["undo", done["run_id"], "--reason", "enough", "--config", str(config), "--json"]
    assert run([*undo, "--plan", str(tmp_path / "plain.json")]) == 0
    told = capsys.readouterr()
    plain = json.loads(told.out)["plan"]
    assert [step["kind"] for step in plain["steps"]] == ["set_meta_level"]
    (counted,) = [one for one in plain["diagnostics"] if one["code"] == "undo_leaves_moved"]
    assert "The undo does not revert them" in counted["sentence"]
    assert "Not reverted: Replicas that the balancer moved at lively" in told.err

    back = applied(capsys, config, "undo", done["run_id"])
    assert any("The undo does not revert them" in one for one in back["not_brought_back"])
    assert captured(config).settings["level.stored"] == "400"
    stayed = elsewhere(config, before)
    assert stayed

    again = applied(capsys, config, "undo", done["run_id"], "--with-moves")
    assert {step["kind"] for step in again["steps"]} == {"move_replica"}
    assert 0 < len(again["steps"]) <= 10
    still = elsewhere(config, before)
    assert still < stayed
    if still:
        assert any("more can be reverted" in one for one in again["not_brought_back"])


Placement = dict[str, tuple[str, frozenset[str]]]


def placement(config: Path) -> Placement:
    """Partition to its primary and its members."""
    return {
        f"{row['app_id']}.{row['index']}": (
            row["primary"],
            frozenset({row["primary"], *row["secondaries"]}),
        )
        for row in captured(config).tables["partitions"].to_pylist()
    }


def elsewhere(config: Path, before: Placement) -> set[str]:
    """Partitions with another primary, or other members."""
    return {gpid for gpid, held in placement(config).items() if before[gpid] != held}
