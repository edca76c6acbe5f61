"""The commands that reach a cluster, on a small sandbox; and the demo as a person starts it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import psutil
import pytest

from core.snapshot.store import SnapshotStore, load_snapshot
from dashboard.cli.main import run
from dashboard.services import load_config

pytestmark = pytest.mark.zookeeper

TRIMTAB = [sys.executable, "-m", "dashboard.cli"]
DEADLINE_S = 120.0
SMALL = ["--brokers", "3", "--bundles", "60"]


def wait_until(is_true: Callable[[], bool], what: str) -> None:
    event = threading.Event()
    for _ in range(int(DEADLINE_S / 0.1)):
        if is_true():
            return
        event.wait(0.1)
    pytest.fail(f"{what}: not within {DEADLINE_S:.0f} s")


def ended(process: subprocess.Popen[str]) -> bool:
    return process.poll() is not None


@pytest.fixture(scope="module")
def config(tmp_path_factory) -> Iterator[Path]:
    """A running small sandbox, and the configuration that points at it."""
    path = tmp_path_factory.mktemp("sandbox") / "trimtab.toml"
    with (path.parent / "sandbox.log").open("w") as log:
        process = subprocess.Popen(
            [*TRIMTAB, "sandbox", *SMALL, "--write-config", str(path), "--json"],
            stdout=log,
            stderr=subprocess.STDOUT,
            text=True,
        )
    wait_until(lambda: path.is_file() or ended(process), "the sandbox")
    assert not ended(process), (path.parent / "sandbox.log").read_text()
    yield path
    process.send_signal(signal.SIGTERM)
    assert process.wait(DEADLINE_S) == 0


def answer(capsys, *words: object) -> tuple[int, dict]:
    capsys.readouterr()
    code = run([str(word) for word in words])
    return code, json.loads(capsys.readouterr().out)


def test_the_sandbox_says_where_it_is_as_one_object(config) -> None:
    wait_until(
        lambda: (config.parent / "sandbox.log").read_text().endswith("\n"), "its first words"
    )
    told = json.loads((config.parent / "sandbox.log").read_text())
    assert len(told["admin_urls"]) == 3
    assert told["zookeeper"] in config.read_text()


def test_check_finds_every_endpoint_in_order(config, capsys) -> None:
    code, body = answer(capsys, "check", "--config", config, "--json")
    assert code == 0, body
    assert body["ok"]
    assert all(item["ok"] for item in body["clusters"]["sandbox"])
    assert body["history"]["ok"]


def test_check_says_what_does_not_answer(config, capsys, tmp_path) -> None:
    text = config.read_text().splitlines()
    broken = tmp_path / "broken.toml"
    broken.write_text(
        "\n".join(line for line in text if not line.startswith(("zookeeper", "admin_urls")))
        + '\nzookeeper = "127.0.0.1:1"\nadmin_urls = ["http://127.0.0.1:1"]\n'
        "[clusters.timeouts]\nzookeeper_s = 1.0\n"
    )
    code, body = answer(capsys, "check", "--config", broken, "--json")
    assert code == 1
    assert not body["ok"]
    assert all(item["remedy"] for item in body["clusters"]["sandbox"] if not item["ok"])


def test_a_captured_snapshot_is_whole_and_can_be_judged(config, capsys, tmp_path) -> None:
    out = tmp_path / "snapshot"
    code, body = answer(capsys, "capture", "sandbox", "--config", config, "--out", out, "--json")
    assert code == 0
    assert body["tables"]["brokers"]["rows"] == 3
    code, body = answer(capsys, "health", out, "--json")
    assert code == 0
    assert body["measures"]["usage"]["known_brokers"] == 3
    code, body = answer(capsys, "health", "sandbox", "--config", config, "--json")
    assert code == 0
    assert body["measures"]["usage"]["known_brokers"] == 3


@pytest.mark.parametrize(
    ("command", "key"), [("shed", "rounds"), ("simulate", "rounds"), ("optimize", "moves")]
)
def test_a_cluster_is_named_in_place_of_a_snapshot(config, capsys, command, key) -> None:
    code, body = answer(capsys, command, "sandbox", "--config", config, "--json")
    assert code == 0, body
    assert key in body
    code, body = answer(capsys, command, "sandbx", "--config", config, "--json")
    assert code == 1
    assert "sandbox" in body["error"]["hint"]


def test_a_split_is_judged_by_the_topics_that_were_captured(config, capsys, tmp_path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    words = ("capture", "sandbox", "--config", config, "--json")
    assert answer(capsys, *words, "--out", first)[0] == 0
    snapshot = load_snapshot(first)
    busiest = max(snapshot.bundles.to_pylist(), key=lambda row: row["topic_count"] or 0)["bundle"]
    code, body = answer(capsys, *words, "--out", second, "--topics-of", busiest)
    assert code == 0, body
    assert body["tables"]["topics"]["rows"] > 1
    code, body = answer(
        capsys,
        *("split", second, "--bundle", busiest),
        *("--algorithm", "topic_count_equally_divide", "--json"),
    )
    assert code == 0, body
    assert len(body["parts"]) == 2
    assert not any(part["is_assumed"] for part in body["parts"])
    assert abs(sum(part["share"] for part in body["parts"]) - 1.0) < 1e-9
    code, body = answer(capsys, *words, "--out", tmp_path / "no", "--topics-of", "a/b/0x0_0x1")
    assert (code, body["error"]["code"]) == (1, "unknown_name")


def test_capture_refuses_a_directory_that_is_there(config, capsys, tmp_path) -> None:
    (tmp_path / "file").write_text("mine")
    words = ("capture", "sandbox", "--config", config, "--out", tmp_path, "--json")
    code, body = answer(capsys, *words)
    assert code == 2
    assert body["error"]["code"] == "usage"


def test_capture_of_an_unknown_cluster_offers_near_names(config, capsys, tmp_path) -> None:
    words = ("capture", "sandbx", "--config", config, "--out", tmp_path / "s", "--json")
    code, body = answer(capsys, *words)
    assert code == 1
    assert "sandbox" in body["error"]["hint"]


def test_collect_once_keeps_a_snapshot_for_the_pages(config, capsys) -> None:
    assert run(["collect", "--config", str(config), "--every", "0"]) == 0
    assert list((config.parent / "snapshots" / "sandbox").iterdir())
    assert "sandbox" in capsys.readouterr().err


@pytest.fixture
def demo(tmp_path) -> Iterator[tuple[Path, subprocess.Popen[str]]]:
    """A demo that is ready, and its log; it is ended afterwards whatever the test did."""
    log = tmp_path / "demo.log"
    words = [*SMALL, "--no-browser", "--port", "8650", "--state-dir", str(tmp_path / "state")]
    with log.open("w") as sink:
        process = subprocess.Popen(
            [*TRIMTAB, "demo", *words], stdout=sink, stderr=subprocess.STDOUT, text=True
        )
    try:
        wait_until(lambda: "Ready" in log.read_text() or ended(process), "the demo")
        assert not ended(process), log.read_text()
        yield log, process
    finally:
        process.terminate()
        process.wait(DEADLINE_S)


def test_the_demo_starts_and_ends_everything(demo) -> None:
    log, process = demo
    children = psutil.Process(process.pid).children(recursive=True)
    assert len(children) >= 6  # sandbox, its ZooKeeper, that of Pegasus, collector, worker, pages
    assert "dashboard  http://127.0.0.1:" in log.read_text()
    state = log.parent / "state"
    assert f"export TRIMTAB_CONFIG={state / 'trimtab.toml'}\n" in log.read_text()
    clusters = load_config(state / "trimtab.toml", ()).clusters
    kinds = {one.name: (one.kind, one.environment, one.read_only) for one in clusters}
    assert kinds == {
        "sandbox": ("pulsar", "demo", False),
        "sandbox-pegasus": ("pegasus", "demo", False),
    }
    snapshot_store = SnapshotStore(state / "snapshots")
    wait_until(
        lambda: snapshot_store.latest("sandbox-pegasus", datetime.now(UTC)) is not None,
        "a snapshot of Pegasus",
    )
    wait_until(
        lambda: all((state / "workers" / f"{name}.json").is_file() for name in kinds),
        "a worker for each cluster",
    )
    process.send_signal(signal.SIGINT)
    assert process.wait(DEADLINE_S) == 0
    _, alive = psutil.wait_procs(children, timeout=DEADLINE_S)
    assert not alive
    assert "Ended." in log.read_text()


@pytest.mark.slow
def test_a_demo_that_was_killed_leaves_nothing_behind(demo) -> None:
    _, process = demo
    children = psutil.Process(process.pid).children(recursive=True)
    process.kill()
    process.wait(DEADLINE_S)
    _, alive = psutil.wait_procs(children, timeout=DEADLINE_S)
    assert not alive


@pytest.mark.slow
def test_a_cluster_that_dies_ends_the_demo_with_one_sentence(demo) -> None:
    """Its state was in it; every other part is started again."""
    log, process = demo
    children = psutil.Process(process.pid).children()
    next(child for child in children if "sandbox" in child.cmdline()).kill()
    assert process.wait(DEADLINE_S) == 1
    said = log.read_text().strip().splitlines()[-1]
    assert said.startswith("trimtab: The sandbox")
    assert "exited unexpectedly" in said
    assert ".log" in said
