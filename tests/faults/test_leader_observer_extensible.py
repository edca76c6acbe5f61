"""The leader observer on an extensible cluster: its topics are those of a recording."""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from time import monotonic, time
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pulsar
import pytest
from kazoo.client import KazooClient

from connectors.config.model import ClusterConfig
from connectors.pulsar.leader.observer import LeaderObserver, forecast_path, read_forecast
from connectors.pulsar.topics.reader import MissingExtraError
from connectors.sandbox.zookeeper import ZooKeeperProcess
from core.pulsar.leader.events import MESSAGE, ZnodeEvent, read_recording
from core.pulsar.leader.extensible import ExtensibleReplay
from core.pulsar.leader.prediction import Forecast
from core.pulsar.snapshot.load_topics import UNIT_STATE_TOPIC
from core.snapshot import PulsarSnapshot

pytestmark = pytest.mark.zookeeper

RECORDING = (
    Path(__file__).parents[1] / "fixtures" / "pulsar" / "leader_extensible" / "transfer.jsonl.gz"
)
MINUTE_S = 1.5
WITHIN_S = 30.0


class Topics:
    """Stands in for pulsar-client: what is published here arrives."""

    PulsarException = pulsar.PulsarException
    Timeout = pulsar.Timeout
    MessageId = SimpleNamespace(earliest="earliest", latest="latest")
    LoggerLevel = SimpleNamespace(Error=3)

    def __init__(self) -> None:
        self.queues: dict[str, deque[tuple[str, bytes, int]]] = {}
        self.opened = 0
        self.error: Exception | None = None

    def publish(self, event: ZnodeEvent, at_s: float) -> None:
        value = (event.value or "").encode()
        message = (event.key or "", value, round(at_s * 1000))
        self.queues.setdefault(event.path, deque()).append(message)

    def FileLogger(self, *_: object) -> None:  # noqa: N802  # the package's own name
        return None

    def Client(self, *_: object, **__: Any) -> Topics:  # noqa: N802  # the package's own name
        return self

    def create_reader(self, topic: str, *_: object, **__: object) -> Any:
        self.opened += 1
        queue = self.queues.setdefault(topic, deque())

        def read_next(**_: object) -> Any:
            if self.error is not None:
                raise self.error
            if not queue:
                raise pulsar.Timeout("nothing")
            key, data, at_ms = queue.popleft()
            return SimpleNamespace(
                partition_key=lambda: key, data=lambda: data, publish_timestamp=lambda: at_ms
            )

        return SimpleNamespace(read_next=read_next)

    def close(self) -> None:
        return None


class Cluster:
    """The znodes of the recording in a ZooKeeper, its topics in memory."""

    def __init__(self, server: ZooKeeperProcess, name: str, topics: Topics) -> None:
        self.name, self.topics = name, topics
        self.events = list(read_recording(RECORDING))
        self.client = KazooClient(server.address)
        self.client.start(WITHIN_S)
        self.client.ensure_path(f"/{name}")
        self.client.chroot = f"/{name}"
        for event in self.events:
            if event.is_znode:
                self.client.create(event.path, (event.value or "").encode(), makepath=True)
        self.config = ClusterConfig(name=name, zookeeper=f"{server.address}/{name}")

    def publish(self, *, age_s: float = 0.0) -> None:
        """Publish what the recording has up to its first round with transfers, as if just now."""
        first_s = self.events[0].received_at_s
        for event in self.events:
            is_release = '"Releasing"' in (event.value or "")
            if event.kind == MESSAGE and event.at_s < first_s + 450 and not is_release:
                self.topics.publish(event, time() - age_s)

    def transfer(self) -> str:
        """Publish that a bundle leaves its broker, as the leader does in a round; return it."""
        bundle, unit = next(
            (event.key, json.loads(event.value or "{}"))
            for event in self.events
            if event.path == UNIT_STATE_TOPIC and '"Owned"' in (event.value or "")
        )
        unit |= {"state": "Releasing", "sourceBroker": unit["dstBroker"], "versionId": 900}
        unit["timestamp"] = round(time() * 1000)
        event = ZnodeEvent(kind=MESSAGE, path=UNIT_STATE_TOPIC, key=bundle, value=json.dumps(unit))
        self.topics.publish(event, time())
        return str(bundle)

    def snapshot(self) -> PulsarSnapshot:
        model = ExtensibleReplay()
        for event in self.events:
            model.apply(event)
        return model._snapshot(time())


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperProcess]:
    with ZooKeeperProcess(tmp_path_factory.mktemp("zk") / "data") as running:
        yield running


@pytest.fixture
def topics(monkeypatch: pytest.MonkeyPatch) -> Topics:
    made = Topics()
    monkeypatch.setattr("connectors.pulsar.topics.reader._package", lambda: made)
    return made


@pytest.fixture
def cluster(server: ZooKeeperProcess, topics: Topics) -> Iterator[Cluster]:
    made = Cluster(server, f"e{uuid4().hex}", topics)
    yield made
    made.client.stop()
    made.client.close()


class Observed:
    """An observer of the cluster, and what it publishes."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self.cluster, self.folder = cluster, folder
        self.observer = LeaderObserver(cluster.config, folder, minute_s=MINUTE_S)
        self.observer.put(cluster.snapshot())

    @property
    def forecast(self) -> Forecast:
        return read_forecast(forecast_path(self.folder, self.cluster.name)) or _NONE

    @property
    def warnings(self) -> str:
        prediction = self.forecast.next_round
        return "" if prediction is None else " ".join(prediction.warnings)

    def wait(self, is_so: Callable[[], bool]) -> None:
        ends_at, pause = monotonic() + WITHIN_S, threading.Event()
        while not is_so():
            assert monotonic() < ends_at, f"{self.observer.status} {self.forecast}"
            pause.wait(0.05)


@pytest.fixture
def observed(cluster: Cluster, tmp_path: Path) -> Iterator[Observed]:
    made = Observed(cluster, tmp_path)
    yield made
    made.observer.close()


def test_the_next_round_follows_from_the_topics_and_says_what_cannot_be_known(
    observed: Observed,
) -> None:
    observed.wait(lambda: observed.forecast.is_current)
    assert "3 brokers of 3 published no load" in observed.warnings
    assert "is estimated" in observed.warnings
    observed.cluster.publish()
    observed.wait(lambda: "published no load" not in observed.warnings)
    prediction = observed.forecast.next_round
    assert prediction is not None
    assert prediction.strategy == "TransferShedder"
    assert prediction.reason != "no_brokers"
    assert prediction.leader == "127.0.0.2:41993"
    assert not prediction.has_shares
    assert any("Messages on non-persistent" in text for text in observed.forecast.unknown)


def test_the_first_transfer_shows_the_time_of_the_rounds(observed: Observed) -> None:
    observed.cluster.publish()
    observed.wait(lambda: observed.forecast.is_current and "no load" not in observed.warnings)
    moved_s = time()
    observed.cluster.transfer()
    observed.wait(lambda: observed.forecast.is_current and "transfer" not in observed.warnings)
    prediction = observed.forecast.next_round
    assert prediction is not None
    rounds, rest = divmod(prediction.at_s - moved_s, MINUTE_S)
    assert rounds >= 0
    assert min(rest, MINUTE_S - rest) < 0.1
    observed.wait(lambda: bool(observed.forecast.accuracy))
    assert not observed.forecast.calibration


def test_states_from_before_watching_show_no_round(observed: Observed) -> None:
    observed.cluster.publish(age_s=3600.0)
    observed.wait(lambda: observed.forecast.is_current and "no load" not in observed.warnings)
    assert "is estimated" in observed.warnings


def test_topics_that_fail_are_named_and_read_again(observed: Observed) -> None:
    observed.wait(lambda: observed.forecast.is_current)
    topics, status = observed.cluster.topics, observed.observer.status
    opened = topics.opened
    topics.error = pulsar.exceptions.ConnectError("refused")
    observed.wait(lambda: status.state == "failed")
    assert not observed.forecast.is_current
    topics.error = None
    observed.wait(lambda: status.state == "watching" and observed.forecast.is_current)
    assert topics.opened > opened


@pytest.mark.slow
def test_without_the_package_the_snapshot_is_used_and_the_package_is_named(
    observed: Observed, monkeypatch: pytest.MonkeyPatch
) -> None:
    def absent() -> None:
        raise MissingExtraError("The package pulsar-client is missing.", hint="Install it.")

    monkeypatch.setattr("connectors.pulsar.leader.observer.require_client", absent)
    monkeypatch.setattr("connectors.pulsar.topics.reader._package", absent)
    observed.wait(lambda: observed.observer.status.state in ("watching", "unsupported"))
    observed.cluster.topics.error = pulsar.exceptions.ConnectError("refused")
    observed.wait(lambda: observed.observer.status.state == "unsupported")
    assert "pulsar-client" in observed.forecast.detail


_NONE = Forecast(cluster="", written_at_s=0, observed_since_s=0, status="lost")
