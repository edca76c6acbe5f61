"""Facts for the advisors on one namespace, from a snapshot and fetched topics."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from core.pulsar.plan.policy.state import storage_policies
from core.pulsar.ring import validate_boundaries
from core.pulsar.settings import SETTING_BY_KEY, EffectiveSettings
from core.snapshot import PulsarSnapshot
from core.units import pluralize
from dashboard.presenters.naming import ORIGINS
from dashboard.presenters.pulsar.advisors_inputs import AdvisorParameter, ClusterValue, Number

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

_PARTITION: Final = re.compile(r"-partition-(\d+)\Z")
_QUOTA: Final = "backlogQuotaDefaultLimitBytes"
_MIB_BYTES: Final = 1024**2


@dataclass(frozen=True, eq=False, kw_only=True)
class NamespaceFacts:
    """One namespace as a snapshot shows it; ``None`` is unknown.

    Attributes:
        namespace: Its name.
        brokers: Active ones of the cluster.
        bundles: Names, in ring order.
        boundaries: n + 1 values; ``None``: its bundles do not tile the ring in this snapshot.
        owners: Of each bundle; ``None``: none, or unknown.
        clients_of: Producers and consumers of each bundle, NaN unknown.
        topics: Sum over its bundles.
        producers: The same.
        consumers: The same.
        msgs_in: msg/s.
        msgs_out: msg/s.
        bytes_in: bytes/s.
        bytes_out: bytes/s.
    """

    namespace: str
    brokers: int
    bundles: Sequence[str]
    boundaries: Ints | None
    owners: Sequence[str | None]
    clients_of: Floats
    topics: int | None
    producers: int | None
    consumers: int | None
    msgs_in: float | None
    msgs_out: float | None
    bytes_in: float | None
    bytes_out: float | None

    @property
    def clients(self) -> int | None:
        """Producers and consumers; ``None``: unknown."""
        return None if None in (self.producers, self.consumers) else _sum_of(self.clients_of)


def namespace_facts(bundles: pa.Table, namespace: str, brokers: int) -> NamespaceFacts:
    """Return the facts of a namespace in a snapshot.

    Args:
        bundles: Of the snapshot, those that can move.
        namespace: ``tenant/namespace``.
        brokers: Active ones.
    """
    own = bundles.filter(pc.equal(bundles["namespace"], namespace)).sort_by("lower")
    lower = np.asarray(own["lower"], np.int64)
    upper = np.asarray(own["upper"], np.int64)
    bounds = np.append(lower, upper[-1:]) if own.num_rows else np.zeros(0, np.int64)
    is_tiled = bool(np.array_equal(lower[1:], upper[:-1]))
    is_whole = is_tiled and validate_boundaries(bounds.tolist()) is None
    clients = pc.add(own["producer_count"], own["consumer_count"]).cast(pa.float64())
    return NamespaceFacts(
        namespace=namespace,
        brokers=brokers,
        bundles=own["bundle"].to_pylist(),
        boundaries=bounds if is_whole else None,
        owners=own["owner"].to_pylist(),
        clients_of=np.array(clients.to_numpy(zero_copy_only=False), np.float64),
        topics=_whole(own["topic_count"]),
        producers=_whole(own["producer_count"]),
        consumers=_whole(own["consumer_count"]),
        msgs_in=_total(own["msg_rate_in"]),
        msgs_out=_total(own["msg_rate_out"]),
        bytes_in=_total(own["msg_throughput_in"]),
        bytes_out=_total(own["msg_throughput_out"]),
    )


def _sum_of(values: Floats) -> int:
    return int(np.nan_to_num(values).sum())


def _total(column: pa.ChunkedArray) -> float | None:
    """Return the sum of the known values; ``None`` if there are none."""
    if column.null_count == len(column):
        return None
    return float(pc.sum(column).as_py())


def _whole(column: pa.ChunkedArray) -> int | None:
    total = _total(column)
    return None if total is None else int(total)


# -- topics that were read -------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, kw_only=True)
class PartitionedTopic:
    """A partitioned topic among topics that were read.

    Attributes:
        topic: Complete name without ``-partition-N``.
        partitions: Highest number plus one: partitions without clients may not be loaded.
        bytes_per_s: In and out, of all that were read.
        msgs_in: msg/s.
        bytes_in: bytes/s.
        producers: Of all partitions.
    """

    topic: str
    partitions: int
    bytes_per_s: float
    msgs_in: float
    bytes_in: float
    producers: int


def partitioned_topics(topics: pa.Table) -> list[PartitionedTopic]:
    """Return the partitioned topics among ``topics``, the one with most traffic first."""
    names = topics["topic"].to_pylist()
    found = [_PARTITION.search(name) for name in names]
    rows = [row for row, match in enumerate(found) if match]
    if not rows:
        return []
    part = topics.take(pa.array(rows, pa.int64()))
    columns = {
        name: np.nan_to_num(np.array(part[name].cast(pa.float64()), np.float64))
        for name in (*("msg_rate_in", "msg_throughput_in", "msg_throughput_out", "producer_count"),)
    }
    bases = [_PARTITION.sub("", names[row]) for row in rows]
    numbers = np.array([int(match[1]) for match in found if match], np.int64)
    distinct, code = np.unique(bases, return_inverse=True)
    sums = {name: np.bincount(code, weights=values) for name, values in columns.items()}
    highest = np.zeros(distinct.size, np.int64)
    np.maximum.at(highest, code, numbers)
    traffic = sums["msg_throughput_in"] + sums["msg_throughput_out"]
    return [
        PartitionedTopic(
            topic=str(distinct[at]),
            partitions=int(highest[at]) + 1,
            bytes_per_s=float(traffic[at]),
            msgs_in=float(sums["msg_rate_in"][at]),
            bytes_in=float(sums["msg_throughput_in"][at]),
            producers=int(sums["producer_count"][at]),
        )
        for at in np.argsort(-traffic, kind="stable").tolist()
    ]


def topic_loads(topics: pa.Table) -> tuple[Ints, Floats]:
    """Return the hashes of topics and their throughput, bytes/s."""
    loads = sum(
        np.nan_to_num(np.array(topics[f"msg_throughput_{way}"].cast(pa.float64()), np.float64))
        for way in ("in", "out")
    )
    return np.asarray(topics["hash"], np.int64), np.asarray(loads, np.float64)


# -- what the inputs begin with --------------------------------------------------------------------


def live_settings(
    settings: EffectiveSettings, parameters: Sequence[AdvisorParameter]
) -> dict[str, ClusterValue]:
    """Return the settings in force among inputs; those that the snapshot does not tell lack."""
    differing = settings.differing()
    found: dict[str, ClusterValue] = {}
    for key in (parameter.key for parameter in parameters if parameter.key in SETTING_BY_KEY):
        origin = settings.origin(key)
        if origin == "assumed":
            continue
        apart = ", differs by broker" if key in differing else ""
        words = "default" if origin == "default" else f"by {ORIGINS[origin]}"
        found[key] = ClusterValue(
            _in_unit(key, settings.number(key)), f"{words}{apart}", is_exact=True
        )
    return found


def _in_unit(key: str, value: float) -> Number:
    """Return a value in the input's unit: MiB for upstream bytes; a negative one is no limit."""
    return value / _MIB_BYTES if key == _QUOTA and value >= 0 else value


def live_storage(snapshot: PulsarSnapshot, namespace: str) -> dict[str, ClusterValue]:
    """Return the storage policies of the namespace, which override the brokers' defaults."""
    return {
        key: ClusterValue(_in_unit(key, value), "set on the namespace", is_exact=True)
        for key, value in storage_policies(snapshot, namespace).items()
    }


def live_bundles(facts: NamespaceFacts) -> dict[str, ClusterValue]:
    """Return the cluster's inputs for the number of bundles."""
    both = _both(facts.msgs_in, facts.msgs_out), _both(facts.bytes_in, facts.bytes_out)
    return _known(
        {
            "brokers": (facts.brokers or None, "active brokers"),
            "topics": (facts.topics, "from its bundles"),
            "clients": (facts.clients, "from its bundles"),
            "msgs": (both[0], "from its bundles"),
            "traffic": (None if both[1] is None else both[1] / 1e6, "from its bundles"),
        }
    )


def live_topic(topic: PartitionedTopic | None) -> dict[str, ClusterValue]:
    """Return the inputs of a fetched topic for the number of partitions."""
    if topic is None:
        return {}
    return _known(
        {
            "partitions": (topic.partitions, "snapshot"),
            "topic_traffic": (topic.bytes_per_s / 1e6, "snapshot"),
        }
    )


def live_producer(facts: NamespaceFacts, topic: PartitionedTopic | None) -> dict[str, ClusterValue]:
    """Return the inputs of the producer advisor from the cluster: averages, or those of a topic."""
    msgs, traffic = facts.msgs_in, facts.bytes_in
    producers, words = facts.producers, "average producer"
    partitions = None
    if topic is not None:
        msgs, traffic, producers = topic.msgs_in, topic.bytes_in, topic.producers
        partitions, words = topic.partitions, "average producer"
    return _known(
        {
            "partitions": (partitions, "snapshot"),
            "rate": (msgs / producers if msgs and producers else None, words),
            "message": (traffic / msgs if traffic and msgs else None, "average message"),
            "brokers": (facts.brokers or None, "active brokers"),
        }
    )


def live_ledger(facts: NamespaceFacts, topic: PartitionedTopic | None) -> dict[str, ClusterValue]:
    """Return the cluster's inputs for the ledgers of one topic (one partition)."""
    msgs, traffic, topics = facts.msgs_in, facts.bytes_in, facts.topics
    words = f"average of {pluralize(topics or 0, 'topic')}"
    if topic is not None:
        msgs, traffic, topics = topic.msgs_in, topic.bytes_in, topic.partitions
        words = "average partition"
    if not topics:
        return {}
    return _known(
        {
            "entries": (None if msgs is None else msgs / topics, f"messages, {words}"),
            "written": (None if traffic is None else traffic / topics / 1e6, words),
        }
    )


def _both(first: float | None, second: float | None) -> float | None:
    return None if first is None or second is None else first + second


def _known(found: dict[str, tuple[float | None, str]]) -> dict[str, ClusterValue]:
    return {
        key: ClusterValue(value, words)
        for key, (value, words) in found.items()
        if value is not None
    }
