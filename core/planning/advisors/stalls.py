"""How one slow or dead broker holds up a producer, by number of partitions and routing mode."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from core.errors import UnknownNameError
from core.planning.advisors.client_queue import ProducerLoad, Stall, stall_of

Routing = Literal["RoundRobinPartition", "SinglePartition"]
ROUTINGS: Final[tuple[Routing, ...]] = ("RoundRobinPartition", "SinglePartition")
"""``messageRoutingMode`` of a producer; messages with a key go by the key's hash in both."""


@dataclass(frozen=True, kw_only=True)
class RoutedStall:
    """A stall, and whom it hits.

    Attributes:
        partitions: Of the topic.
        silent: Of these, on the bad broker.
        queue: Messages that may wait for a partition; 0: only memory limits them.
        hit_ratio: Share of producers that it holds up: with one partition each, those whose
            partition is on that broker; else all.
        stall: How soon, for one that is hit.
    """

    partitions: int
    silent: int
    queue: int
    hit_ratio: float
    stall: Stall


def routed_stall(
    load: ProducerLoad, silent: int, *, routing: str, slow_ratio: float = 0.0
) -> RoutedStall:
    """Return the time until a bad broker causes a stall, and the affected clients.

    A producer in turn round all partitions has one of its own on every broker; one that picked a
    single partition sends all to that, so that it is either not hit or fills the queue faster.

    Args:
        silent: Partitions on the broker.
        routing: One of :data:`ROUTINGS`.
        slow_ratio: Share of the traffic that the broker still takes, 0..1.
    Raises:
        UnknownNameError: No such routing mode.
        InputError: As :func:`core.planning.advisors.client_queue.stall_of`.
    Source:
        Pulsar ``MessageRoutingMode``, ``SinglePartitionMessageRouterImpl``.
    """
    if routing not in ROUTINGS:
        raise UnknownNameError.of("routing mode", routing, ROUTINGS)
    if routing == "RoundRobinPartition":
        stall = stall_of(load, silent, slow_ratio=slow_ratio)
        hit = 1.0 if silent else 0.0
    else:
        stall_of(load, silent, slow_ratio=slow_ratio)  # refuses what cannot be
        # all of its messages go to one partition, whose queue is still that of the whole topic
        alone = replace(load, partitions=1, max_pending=load.queue, max_pending_across=0)
        stall = stall_of(alone, min(silent, 1), slow_ratio=slow_ratio)
        hit = silent / load.partitions
    return RoutedStall(
        partitions=load.partitions, silent=silent, queue=load.queue, hit_ratio=hit, stall=stall
    )


def stall_curve(
    load: ProducerLoad,
    counts: Sequence[int],
    *,
    brokers: int,
    routing: str,
    slow_ratio: float = 0.0,
) -> list[RoutedStall]:
    """Return the same for other numbers of partitions, spread evenly over the brokers.

    Args:
        load: The producer; its own number of partitions is not looked at.
        counts: Numbers of partitions.
        brokers: Of the cluster; one of them is bad.
        routing: One of :data:`ROUTINGS`.
        slow_ratio: Share of the traffic that the broker still takes.
    Raises:
        UnknownNameError: No such routing mode.
        InputError: As :func:`routed_stall`.
    """
    return [
        routed_stall(
            replace(load, partitions=count),
            silent_partitions(count, brokers),
            routing=routing,
            slow_ratio=slow_ratio,
        )
        for count in counts
    ]


def silent_partitions(partitions: int, brokers: int) -> int:
    """Return the max partitions of one broker when they are spread evenly.

    Example:
        >>> silent_partitions(30, 12), silent_partitions(2, 12)
        (3, 1)
    """
    return math.ceil(partitions / max(brokers, 1))
