"""Metrics of one server at one moment, and what two moments give together.

Counters count from the start of the process; a rate needs two samples and the time between them,
which the server's own clock gives. What cannot be known is ``None``: an entity that was not there
before, a counter that went back because the process was restarted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final

Entity = tuple[str, str]
"""Type and id, for example ``("replica", "replica@1.0")``."""

READ_REQUESTS: Final = ("get_requests", "multi_get_requests", "batch_get_requests", "scan_requests")
WRITE_REQUESTS: Final = (
    "put_requests",
    "multi_put_requests",
    "remove_requests",
    "multi_remove_requests",
    "incr_requests",
    "check_and_set_requests",
    "check_and_mutate_requests",
)
CAPACITY_UNITS: Final = ("read_capacity_units", "write_capacity_units")


@dataclass(frozen=True)
class MetricsSample:
    """The metrics of one server at one moment.

    Attributes:
        role: ``meta``, ``replica`` or ``collector``.
        cluster: Name of the cluster.
        timestamp_ns: The server's clock.
        values: Per entity the metrics by name; of a percentile metric as ``name.p99``.
        attributes: Per entity, for example ``table_id`` and ``partition_id``.
    """

    role: str
    cluster: str
    timestamp_ns: int
    values: Mapping[Entity, Mapping[str, float]]
    attributes: Mapping[Entity, Mapping[str, str]]

    def value(self, entity: Entity, name: str) -> float | None:
        """Return one metric, ``None`` if it was not reported."""
        return self.values.get(entity, {}).get(name)

    @cached_property
    def gpids(self) -> dict[tuple[int, int], Entity]:
        """The replicas (or partitions) by ``(table id, index)``."""
        found = {}
        for entity, attributes in self.attributes.items():
            table, index = attributes.get("table_id"), attributes.get("partition_id")
            if table is not None and index is not None:
                found[int(table), int(index)] = entity
        return found


def seconds_between(before: MetricsSample, after: MetricsSample) -> float:
    """Return the time between two samples of one server, 0 when they are in the wrong order."""
    return max((after.timestamp_ns - before.timestamp_ns) / 1e9, 0.0)


def increase(
    before: MetricsSample, after: MetricsSample, entity: Entity, name: str
) -> float | None:
    """Return the increase of a counter, or ``None`` if unknown."""
    was, now = before.value(entity, name), after.value(entity, name)
    if was is None or now is None or now < was:
        return None
    return now - was


def rate_per_s(
    before: MetricsSample, after: MetricsSample, entity: Entity, names: Iterable[str]
) -> float | None:
    """Return the joint rate of one entity's counters, or ``None`` if unknown.

    Counters that the server does not have at all count nothing.
    """
    was, now = before.values.get(entity, {}), after.values.get(entity, {})
    return joint_rate(was, now, seconds_between(before, after), names)


def joint_rate(
    was: Mapping[str, float], now: Mapping[str, float], span_s: float, names: Iterable[str]
) -> float | None:
    """Return the same from the entity's values in both samples: a capture has ten thousand."""
    if span_s <= 0:
        return None
    total: float | None = None
    for name in names:
        if (later := now.get(name)) is None:
            continue
        earlier = was.get(name)
        if earlier is None or later < earlier:
            return None
        total = (later - earlier) if total is None else total + (later - earlier)
    return None if total is None else total / span_s


def table_rates_per_s(
    samples: Mapping[str, tuple[MetricsSample, MetricsSample]],
    primaries: Mapping[tuple[int, int], str],
    names: Iterable[str],
) -> dict[int, float | None]:
    """Return the rate of every table: over its partitions, each as its primary counts it.

    Args:
        samples: Earlier and later sample, by node.
        primaries: The node of the primary, by ``(table id, index)``.
        names: Counters to add up.

    Returns:
        By table id; ``None`` when any of its partitions is unknown: part of a sum is no sum.
    """
    wanted = tuple(names)
    entities = {node: after.gpids for node, (_, after) in samples.items()}
    totals: dict[int, float | None] = {}
    for gpid, node in primaries.items():
        entity = entities.get(node, {}).get(gpid)
        rate = None if entity is None else rate_per_s(*samples[node], entity, wanted)
        so_far = totals.setdefault(gpid[0], 0.0)
        totals[gpid[0]] = None if rate is None or so_far is None else so_far + rate
    return totals
