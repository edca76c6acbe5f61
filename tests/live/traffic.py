"""Uneven traffic on the real cluster: few hot topics, many quiet ones, some without a reader."""

from __future__ import annotations

import contextlib
import random
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, Self
from urllib.parse import quote

import pulsar
from java_process import wait_until

if TYPE_CHECKING:
    from real_pulsar import RealPulsar

_TICK_S: Final = 0.05
_BURST: Final = 200
_FACTORS: Final = (0.05, 0.3, 1.0, 3.0)

BUNDLES_BY_NAMESPACE: Final[dict[str, int]] = {
    "acme/orders": 16,
    "acme/payments": 12,
    "acme/telemetry": 4,
    "globex/logs": 8,
    "globex/audit": 1,
}


@dataclass(frozen=True, slots=True)
class Flow:
    """One partitioned topic; partition ``i`` gets ``msgs_per_s / (1 + i)``."""

    topic: str
    partitions: int
    msgs_per_s: float
    size_bytes: int
    subscriptions: tuple[str, ...]


FLOWS: Final = (
    Flow("acme/orders/created", 8, 60.0, 600, ("billing", "search")),
    Flow("acme/orders/shipped", 4, 20.0, 300, ("mail",)),
    Flow("acme/payments/card", 8, 50.0, 1200, ("ledger",)),
    Flow("acme/telemetry/cpu", 4, 90.0, 150, ("tsdb",)),
    Flow("globex/logs/web", 6, 40.0, 900, ("index", "archive")),
    Flow("globex/audit/trail", 2, 2.0, 4000, ()),
)


def topic_names() -> list[str]:
    """Return the full name of every partition that traffic flows on."""
    return [
        f"persistent://{flow.topic}-partition-{number}"
        for flow in FLOWS
        for number in range(flow.partitions)
    ]


def make_namespaces(cluster: RealPulsar) -> None:
    """Make the tenants, namespaces and partitioned topics; what is there already is left."""

    def put(path: str, body: Any) -> None:
        answer = cluster.request("PUT", f"/admin/v2{path}", json=body)
        if answer.status_code not in (204, 409):
            raise RuntimeError(f"PUT {path} answered {answer.status_code}: {answer.text[:200]}")

    for tenant in sorted({name.split("/")[0] for name in BUNDLES_BY_NAMESPACE}):
        put(f"/tenants/{tenant}", {"adminRoles": [], "allowedClusters": [cluster.cluster]})
    for namespace, bundles in BUNDLES_BY_NAMESPACE.items():
        body = {"bundles": {"numBundles": bundles}, "replication_clusters": [cluster.cluster]}
        put(f"/namespaces/{namespace}", body)
    for flow in FLOWS:
        put(f"/persistent/{quote(flow.topic)}/partitions", flow.partitions)


class Traffic:
    """Producers and consumers in threads of this process, from ``start`` to ``stop``.

    Args:
        cluster: Where to.
        scale: Factor of every rate.
        shift_every_s: Seconds after which each topic gets another factor by chance, so that a
            balancer has something to do; ``None``: the rates stay.
    """

    def __init__(
        self, cluster: RealPulsar, *, scale: float = 1.0, shift_every_s: float | None = None
    ) -> None:
        self._cluster = cluster
        self._scale = scale
        self._shift_every_s = shift_every_s
        self._chance = random.Random(15)
        self._ended = threading.Event()
        self._pump = threading.Thread(target=self._run, name="traffic", daemon=True)
        self._producers: list[tuple[str, Any, float, bytes]] = []
        self._client: Any = None
        self.sent: Counter[str] = Counter()
        self.failed: Counter[str] = Counter()
        self.received: Counter[str] = Counter()

    def start(self) -> None:
        """Connect every producer and consumer, then send."""
        log = self._cluster.folder / "client.log"
        self._client = pulsar.Client(
            self._cluster.service_url,
            operation_timeout_seconds=60,
            io_threads=1,
            message_listener_threads=1,
            logger=pulsar.FileLogger(pulsar.LoggerLevel.Warn, str(log)),
        )
        for flow in FLOWS:
            for number in range(flow.partitions):
                self._connect(flow, number)
        self._pump.start()

    def _connect(self, flow: Flow, number: int) -> None:
        topic = f"persistent://{flow.topic}-partition-{number}"
        for subscription in flow.subscriptions:
            self._client.subscribe(
                topic,
                subscription,
                consumer_type=pulsar.ConsumerType.Shared,
                message_listener=self._receive,
                receiver_queue_size=200,
            )
        producer = self._client.create_producer(
            topic, batching_enabled=True, max_pending_messages=2000, send_timeout_millis=60_000
        )
        rate = flow.msgs_per_s * self._scale / (1 + number)
        self._producers.append((topic, producer, rate, b"x" * flow.size_bytes))

    def stop(self) -> None:
        """Stop sending and disconnect; twice is harmless."""
        self._ended.set()
        if self._pump.is_alive():
            self._pump.join(30.0)
        if self._client is not None:
            # a broker that a test killed must not make the end of the test fail
            with contextlib.suppress(Exception):
                self._client.close()
            self._client = None

    def wait_flowing(self, *, within_s: float = 60.0) -> float:
        """Wait until every topic has had a message acknowledged; return the seconds."""
        topics = topic_names()
        return wait_until(
            "messages on every topic", lambda: all(self.sent[t] for t in topics), within_s=within_s
        )

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _receive(self, consumer: Any, message: Any) -> None:
        self.received[consumer.topic()] += 1
        # the consumer may be closing or its broker gone: the message comes again then
        with contextlib.suppress(pulsar.exceptions.PulsarException):
            consumer.acknowledge(message)

    def _count(self, topic: str) -> Callable[[Any, Any], None]:
        def count(result: Any, _message_id: Any) -> None:
            (self.sent if result == pulsar.Result.Ok else self.failed)[topic] += 1

        return count

    def _run(self) -> None:
        owed = dict.fromkeys((topic for topic, *_ in self._producers), 0.0)
        count = {topic: self._count(topic) for topic, *_ in self._producers}
        factor = dict.fromkeys(owed, 1.0)
        last = shifted_at = monotonic()
        while not self._ended.wait(_TICK_S):
            now = monotonic()
            if self._shift_every_s is not None and now - shifted_at >= self._shift_every_s:
                shifted_at = now
                factor = {topic: self._chance.choice(_FACTORS) for topic in factor}
            for topic, producer, rate, body in self._producers:
                owed[topic] += rate * factor[topic] * (now - last)
                whole = min(int(owed[topic]), _BURST)
                owed[topic] -= whole
                for _ in range(whole):
                    producer.send_async(body, count[topic])
            last = now
