"""Processes that run while nothing can be written, or nothing opened, and after that.

A limit of the process stands for the disk: every write to a file fails from one moment on, that to
its own log as well, and works again later. No process ends for it, none loses what it had.
"""

from __future__ import annotations

import json
import socket
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from child_process import cpu_s, full_disk, open_files, running, until, wait_s
from pages_server import free_port
from small_broker import SmallBroker, serve_cluster

from connectors.config.model import TrimtabConfig
from connectors.jobs.queue import queue_of
from connectors.journal.journal import SqlJournal
from core.history.store.store import HistoryLocation, HistoryStore
from core.snapshot.store import SnapshotStore

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

FULL_S = 3.0
WITHIN_S = 240.0


@pytest.fixture
def broker() -> Iterator[SmallBroker]:
    with SmallBroker() as running:
        serve_cluster(running)
        yield running


@pytest.fixture
def config(tmp_path: Path, broker: SmallBroker) -> Path:
    file = tmp_path / "trimtab.toml"
    file.write_text(
        f'state_dir = "{tmp_path / "state"}"\n[history]\nevery_s = 0\n'
        f'[access]\nkey_file = "{tmp_path / "key"}"\n'
        f'[[clusters]]\nname = "c"\nadmin_urls = ["{broker.url}"]\nread_only = false\n'
    )
    return file


def status_of(folder: Path) -> dict[str, Any]:
    try:
        return json.loads((folder / "collectors" / "c.json").read_bytes())
    except (OSError, ValueError):
        return {}


def minutes(folder: Path) -> int:
    return int((status_of(folder).get("history") or {}).get("minutes", 0))


def test_collector_on_a_full_disk_goes_on_when_there_is_room(tmp_path: Path, config: Path) -> None:
    state, log = tmp_path / "state", tmp_path / "log"
    with running(log, "collect", "--every", "300ms", "--config", str(config)) as process:
        until(lambda: minutes(state) >= 2, "two minutes recorded", WITHIN_S)
        with full_disk(process):
            wait_s(FULL_S)
            assert process.poll() is None, log.read_text()
            seen = len(SnapshotStore(state / "snapshots").entries("c"))
        kept, logged = minutes(state), log.stat().st_size
        files = open_files(process)
        until(lambda: minutes(state) >= kept + 3, "minutes recorded again", WITHIN_S)
        until(
            lambda: len(SnapshotStore(state / "snapshots").entries("c")) > seen,
            "snapshots",
            WITHIN_S,
        )
        assert open_files(process) <= files + 8
        until(lambda: log.stat().st_size > logged, "lines in the log again", WITHIN_S)
        assert process.poll() is None
    words = log.read_text()
    assert "Traceback" not in words
    assert "internal error" not in words
    store = HistoryStore(HistoryLocation(str(state / "history")))
    assert store.minutes("c").num_rows >= kept + 3
    assert not [one for one in (state / "snapshots" / "c").iterdir() if one.name[0] == "."]


def test_worker_and_job_server_on_a_full_disk_go_on_when_there_is_room(
    tmp_path: Path, config: Path
) -> None:
    state = tmp_path / "state"
    words = ("--config", str(config))
    with (
        running(tmp_path / "worker", "worker", *words) as worker,
        running(tmp_path / "jobs", "jobs", "serve", *words) as jobs,
    ):
        for name in ("workers/c.json", "jobs/server.json"):
            until((state / name).is_file, name, WITHIN_S)
        with full_disk(worker), full_disk(jobs):
            wait_s(FULL_S)
            with closing(queue_of(TrimtabConfig.load(config, ()))) as queue:
                job = queue.add("no such kind", {}, "ann", datetime.now(UTC))
            wait_s(FULL_S)
            assert (worker.poll(), jobs.poll()) == (None, None)
        with closing(queue_of(TrimtabConfig.load(config, ()))) as queue:
            until(lambda: queue.find(job).is_ended, "the job's end", WITHIN_S)
    for name in ("worker", "jobs"):
        text = (tmp_path / name).read_text()
        assert "Traceback" not in text
        assert "internal error" not in text
    with closing(SqlJournal(f"sqlite:///{state / 'journal.db'}")) as journal:
        assert journal.verify().is_sound


# -- few descriptors -------------------------------------------------------------------------------


def healthz(port: int) -> int:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=5) as answer:
            return int(answer.status)
    except OSError:
        return 0


@pytest.mark.parametrize("descriptors", [64, 40, 24])
def test_collector_with_few_descriptors_names_it_or_works(
    tmp_path: Path, config: Path, descriptors: int
) -> None:
    state, log = tmp_path / "state", tmp_path / "log"
    words = ("collect", "--every", "300ms", "--config", str(config))
    with running(log, *words, descriptors=descriptors) as process:
        until(
            lambda: minutes(state) >= 5 or process.poll() is not None, "minutes or an end", WITHIN_S
        )
        assert process.poll() is None, log.read_text()
        assert open_files(process) < descriptors
    assert "Traceback" not in log.read_text()


def test_pages_with_few_descriptors_answer_again_when_visitors_have_left(
    tmp_path: Path, config: Path
) -> None:
    port, log = free_port(), tmp_path / "log"
    words = ("127.0.0.1", str(port))
    with running(log, *words, module="dashboard.serve", descriptors=64, config=config) as process:
        until(lambda: healthz(port) == 200, "the pages", WITHIN_S)
        visitors = [socket.create_connection(("127.0.0.1", port)) for _ in range(100)]
        for one in visitors:
            one.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        wait_s(2.0)
        assert process.poll() is None
        used = cpu_s(process)
        wait_s(2.0)
        assert cpu_s(process) - used < 1.0  # it does not spin meanwhile
        for one in visitors:
            one.close()
        until(lambda: healthz(port) == 200, "an answer", WITHIN_S)
    assert log.read_text().count("Traceback") < 5
