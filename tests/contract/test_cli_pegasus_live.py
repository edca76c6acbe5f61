"""The commands on a Pegasus sandbox that runs as a process of its own, as people start it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from core.snapshot.pegasus import load_pegasus_snapshot
from core.snapshot.store import SnapshotStore
from dashboard.cli.main import run

TRIMTAB = [sys.executable, "-m", "dashboard.cli"]
DEADLINE_S = 120.0


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    path = tmp_path_factory.mktemp("pegasus") / "trimtab.toml"
    words = ["sandbox", "--kind", "pegasus", "--write-config", str(path), "--json"]
    process = subprocess.Popen([*TRIMTAB, *words], stdout=subprocess.PIPE, text=True)
    try:
        pause = threading.Event()
        for _ in range(int(DEADLINE_S / 0.1)):
            if path.is_file() or process.poll() is not None:
                break
            pause.wait(0.1)
        assert path.is_file()
        yield path
    finally:
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert len(json.loads(out)["nodes"]) == 5


def test_capture_writes_a_snapshot(config, tmp_path, capsys):
    words = ["capture", "sandbox-pegasus", "--out", str(tmp_path / "s")]
    assert run([*words, "--config", str(config), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["tables"]["partitions"] == {
        "rows": 256,
        "expected": 256,
        "coverage": 1.0,
        "source": "rpc",
    }
    assert load_pegasus_snapshot(tmp_path / "s").snapshot_id == told["snapshot_id"]
    assert run(["pegasus", "balance", str(tmp_path / "s"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rounds"][0]


def test_balance_takes_a_cluster_of_the_configuration(config, capsys):
    assert run(["pegasus", "balance", "sandbox-pegasus", "--config", str(config), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rounds"][0]
    assert run(["pegasus", "balance", "nosuch", "--config", str(config)]) == 2
    assert "Available: sandbox-pegasus" in capsys.readouterr().err


def test_topics_of_a_pegasus_cluster_are_refused(config, tmp_path):
    words = ["capture", "sandbox-pegasus", "--out", str(tmp_path / "s"), "--topics-of", "a/b/c"]
    assert run([*words, "--config", str(config)]) == 2


def test_a_cluster_is_read_without_a_snapshot(config, capsys):
    words = ["pegasus", "nodes", "sandbox-pegasus", "--config", str(config), "--json"]
    pause = threading.Event()
    for _ in range(int(DEADLINE_S / 0.5)):
        assert run(words) == 0
        told = json.loads(capsys.readouterr().out)
        # the meta server knows how many changes it would make only after a tick in good health
        if not told["problems"]:
            break
        pause.wait(0.5)
    assert len(told["nodes"]) == 5
    assert told["problems"] == []


def test_check_names_every_meta_server(config, capsys):
    assert run(["check", "--config", str(config), "--json"]) == 0
    items = json.loads(capsys.readouterr().out)["clusters"]["sandbox-pegasus"]
    assert len(items) == 2
    assert all("is the leader" in item["detail"] for item in items)


def nodes_told(config, capsys, *words: str) -> dict[str, dict[str, bool]]:
    capsys.readouterr()
    assert run(["sandbox-node", *words, "--config", str(config), "--json"]) == 0
    return json.loads(capsys.readouterr().out)["nodes"]


def test_a_node_is_broken_and_mended(config, capsys):
    name = list(nodes_told(config, capsys))[1]
    assert not nodes_told(config, capsys, name, "stop")[name]["running"]
    assert nodes_told(config, capsys, name, "start")[name]["running"]
    pause = threading.Event()
    for _ in range(int(DEADLINE_S / 0.5)):
        if nodes_told(config, capsys)[name]["alive"]:
            break
        pause.wait(0.5)
    assert nodes_told(config, capsys)[name]["alive"]


def test_a_change_that_there_is_none_of_is_refused_with_those_there_are(config, capsys):
    name = next(iter(nodes_told(config, capsys)))
    assert run(["sandbox-node", name, "burn", "--config", str(config)]) != 0
    assert "restart" in capsys.readouterr().err


def test_without_a_pegasus_sandbox_it_says_where_one_comes_from(tmp_path, capsys):
    file = tmp_path / "trimtab.toml"
    file.write_text(
        '[[clusters]]\nname = "real"\nkind = "pegasus"\nmeta_servers = ["meta1:34601"]\n'
    )
    assert run(["sandbox-node", "--config", str(file)]) != 0
    assert "trimtab demo" in capsys.readouterr().err


def test_collect_keeps_snapshots_of_it(config, capsys):
    assert run(["collect", "--every", "0", "--config", str(config)]) == 0
    assert "sandbox-pegasus" in capsys.readouterr().err
    (kept,) = SnapshotStore(config.parent / "snapshots").entries("sandbox-pegasus")
    assert load_pegasus_snapshot(kept.path).manifest.kind == "pegasus"
