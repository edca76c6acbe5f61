"""The collector survives a cluster that fails, says how it is doing, and is alone on a cluster."""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import pytest
from recorded_cluster import RecordedCluster, StrictZooKeeper
from small_broker import SmallBroker, said, serve_cluster
from structlog.contextvars import get_contextvars

from connectors.config.model import ClusterConfig, TrimtabConfig
from connectors.recording import collector
from connectors.recording.collector import CollectorEvent, run_collector
from core.errors import SnapshotError
from core.snapshot.store import SnapshotStore

WITHIN_S = 30.0


class Running:
    """A collector in a thread, its events in a queue."""

    def __init__(
        self,
        state_dir: Path,
        clusters: list[ClusterConfig],
        every_s: float,
        fault: Exception | None = None,
        **more,
    ) -> None:
        self._fault = fault
        more["history"] = {"every_s": 0} | more.get("history", {})
        self.config = TrimtabConfig(state_dir=state_dir, clusters=clusters, **more)
        self.stop = threading.Event()
        self.events: queue.Queue[CollectorEvent] = queue.Queue()
        self.about: list[tuple[str, dict]] = []  # what a line of the log would name
        arguments = (self.config, clusters, every_s, self.stop, self._hear)
        self.thread = threading.Thread(target=run_collector, args=arguments)
        self.thread.start()

    def _hear(self, event: CollectorEvent) -> None:
        self.about.append((event.kind, get_contextvars()))
        self.events.put(event)
        fault, self._fault = self._fault, None
        if fault is not None:
            raise fault

    def next(self, kind: str) -> CollectorEvent:
        while True:
            event = self.events.get(timeout=WITHIN_S)
            if event.kind == kind:
                return event

    def status(self, cluster: str = "c") -> dict:
        return json.loads((self.config.state_dir / "collectors" / f"{cluster}.json").read_bytes())

    def end(self) -> None:
        self.stop.set()
        self.thread.join(WITHIN_S)
        assert not self.thread.is_alive()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Running]]:
    started: list[Running] = []

    def make(*clusters: ClusterConfig, every_s: float = 0.2, **more) -> Running:
        started.append(Running(tmp_path / "state", list(clusters), every_s, **more))
        return started[-1]

    yield make
    for each in started:
        each.end()


@pytest.fixture
def broker() -> Iterator[SmallBroker]:
    with SmallBroker() as running:
        serve_cluster(running)
        yield running


def config_for(broker: SmallBroker, name: str = "c") -> ClusterConfig:
    return ClusterConfig(name=name, admin_urls=[broker.url], timeouts={"read_s": 2.0})


def test_snapshots_are_kept_and_the_status_says_so(broker: SmallBroker, start) -> None:
    running = start(config_for(broker))
    running.next("collected")
    running.next("collected")
    running.end()
    status = running.status()
    snapshot_store = SnapshotStore(running.config.state_dir / "snapshots")
    latest = snapshot_store.latest("c", datetime.now(UTC))
    assert latest is not None
    assert status["last_snapshot_id"] == latest.snapshot_id
    assert status["collected"] == len(snapshot_store.entries("c")) >= 2
    assert status["last_error"] is None
    assert status["next_due_at"] is not None
    assert status["stopped_at"] is not None


def test_cluster_that_fails_is_told_and_tried_again(broker: SmallBroker, start) -> None:
    good = broker.answers["/admin/v2/brokers"]
    broker.answers["/admin/v2/brokers"] = said({"reason": "not now"}, 500)
    running = start(config_for(broker))
    assert "not now" in running.next("failed").sentence
    running.next("failed")
    assert running.status()["last_error"]["code"] == "server"
    assert running.status()["last_success_at"] is None
    broker.answers["/admin/v2/brokers"] = good
    running.next("collected")
    running.end()
    assert running.status()["last_success_at"] > running.status()["last_error_at"]


def test_one_broken_cluster_does_not_hold_up_another(broker: SmallBroker, start) -> None:
    gone = ClusterConfig(name="gone", admin_urls=["http://127.0.0.1:1"])
    running = start(config_for(broker), gone)
    assert {running.next("failed").cluster, running.next("collected").cluster} == {"gone", "c"}


def test_fault_of_our_own_is_told_and_logged_and_the_watch_goes_on(
    broker: SmallBroker, start, caplog: pytest.LogCaptureFixture
) -> None:
    running = start(config_for(broker), fault=ZeroDivisionError("a bug"))
    assert "ZeroDivisionError" in running.next("failed").sentence
    assert "a bug" in caplog.text
    running.next("collected")
    running.end()
    assert running.status()["last_error"]["code"] == "invariant"


def test_every_line_of_a_cycle_names_it_also_when_it_fails(broker: SmallBroker, start) -> None:
    good = broker.answers["/admin/v2/brokers"]
    broker.answers["/admin/v2/brokers"] = said({"reason": "not now"}, 500)
    running = start(config_for(broker))
    running.next("failed")
    running.next("failed")
    broker.answers["/admin/v2/brokers"] = good
    running.next("collected")
    running.end()
    about = [about for kind, about in running.about if kind in {"failed", "collected"}]
    assert {one["cluster"] for one in about} == {"c"}
    assert len({one["cycle"] for one in about}) == len(about) >= 3


def test_lock_that_cannot_be_taken_is_named(broker: SmallBroker, start, tmp_path: Path) -> None:
    (tmp_path / "state" / "collectors" / "c.lock").mkdir(parents=True)
    running = start(config_for(broker))
    assert "c.lock cannot" in running.next("failed").sentence
    running.end()


def test_second_collector_stands_by_and_takes_over(broker: SmallBroker, start) -> None:
    first = start(config_for(broker))
    first.next("collected")
    second = start(config_for(broker))
    second.next("waiting")
    assert second.events.empty()
    first.end()
    second.next("collected")


@pytest.mark.slow
@pytest.mark.zookeeper
def test_broker_that_leaves_brings_the_next_capture_forward(tmp_path: Path, start) -> None:
    with StrictZooKeeper(tmp_path / "zk") as server:
        cluster = RecordedCluster(server, "waking")
        running = start(cluster.config(), every_s=300.0)
        running.next("collected")
        cluster.client.delete("/loadbalance/brokers/127.0.0.1:18082")
        assert "2 brokers" in running.next("collected").sentence
        running.end()
        cluster.close()


@pytest.mark.parametrize("error", [KeyError("nodes"), ValueError("rounds"), SnapshotError("cut")])
def test_a_learned_node_order_that_cannot_be_read_does_not_end_the_captures(
    tmp_path, monkeypatch, error
) -> None:
    def fail(_: object) -> None:
        raise error

    cluster = ClusterConfig(name="k", kind="pegasus", meta_servers=["127.0.0.1:1"])
    config = TrimtabConfig(state_dir=tmp_path, clusters=[cluster])
    monkeypatch.setattr(
        collector.SnapshotStore, "latest", lambda *_: SimpleNamespace(path=tmp_path)
    )
    monkeypatch.setattr("connectors.pegasus.connector.load_pegasus_snapshot", fail)
    loop = collector._Loop(config, cluster, 60.0, threading.Event(), lambda _: None)
    loop._collector().close()
