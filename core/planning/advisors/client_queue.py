"""A producer on a partitioned topic: its queue, its batches, and what one slow broker does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from core.errors import InputError

DEFAULT_MEMORY_LIMIT_BYTES: Final = 64 * 1024**2
DEFAULT_BATCH_MESSAGES: Final = 1000
DEFAULT_BATCH_BYTES: Final = 128 * 1024
DEFAULT_BATCH_DELAY_S: Final = 0.001
DEFAULT_SEND_TIMEOUT_S: Final = 30.0

Closing = Literal["delay", "messages", "bytes"]


def queue_per_partition(max_pending: int, max_pending_across: int, partitions: int) -> int:
    """Return the max pending messages per partition; 0 if only memory limits them.

    Args:
        max_pending: ``maxPendingMessages``; 0: no limit of its own.
        max_pending_across: ``maxPendingMessagesAcrossPartitions``; 0: no common limit.
        partitions: Of the topic.
    Raises:
        InputError: No partition, or a negative limit.
    Source:
        Pulsar ``PartitionedProducerImpl``; the vivo report for the example.
    Example:
        >>> queue_per_partition(2000, 40000, 30), queue_per_partition(2000, 40000, 120)
        (1333, 333)
    """
    if partitions < 1:
        raise InputError(f"A topic needs at least 1 partition, not {partitions}.")
    if max_pending < 0 or max_pending_across < 0:
        raise InputError("A number of pending messages is negative.", hint="0 means no limit.")
    if max_pending_across == 0:
        return max_pending
    share = max_pending_across // partitions
    return share if max_pending == 0 else min(max_pending, share)


@dataclass(frozen=True, kw_only=True)
class ProducerLoad:
    """One producer on a partitioned topic.

    Attributes:
        msgs_per_s: What the application sends, over all partitions.
        message_bytes: Size of a message.
        partitions: Of the topic; messages go round robin.
        max_pending: ``maxPendingMessages``.
        max_pending_across: ``maxPendingMessagesAcrossPartitions``.
        memory_limit_bytes: ``memoryLimitBytes`` of the client; 0: none.
        batch_messages: ``batchingMaxMessages``.
        batch_bytes: ``batchingMaxBytes``.
        batch_delay_s: ``batchingMaxPublishDelay``.
        send_timeout_s: ``sendTimeout``; 0: never.
    """

    msgs_per_s: float
    message_bytes: float
    partitions: int
    max_pending: int = 0
    max_pending_across: int = 0
    memory_limit_bytes: int = DEFAULT_MEMORY_LIMIT_BYTES
    batch_messages: int = DEFAULT_BATCH_MESSAGES
    batch_bytes: int = DEFAULT_BATCH_BYTES
    batch_delay_s: float = DEFAULT_BATCH_DELAY_S
    send_timeout_s: float = DEFAULT_SEND_TIMEOUT_S

    def __post_init__(self) -> None:
        positive = {
            "The rate, msg/s,": self.msgs_per_s,
            "The size of a message": self.message_bytes,
            "batchingMaxMessages": self.batch_messages,
            "batchingMaxBytes": self.batch_bytes,
            "batchingMaxPublishDelay": self.batch_delay_s,
        }
        for name, value in positive.items():
            if not 0 < value < float("inf"):
                raise InputError(f"{name} is {value:g}; it must be above 0.")
        queue_per_partition(self.max_pending, self.max_pending_across, self.partitions)
        if not (self.memory_limit_bytes >= 0 and self.send_timeout_s >= 0):
            raise InputError("A limit is negative.", hint="0 means none.")

    @property
    def queue(self) -> int:
        """Messages that may wait for a partition; 0: only memory limits them."""
        return queue_per_partition(self.max_pending, self.max_pending_across, self.partitions)

    @property
    def msgs_per_partition_s(self) -> float:
        """Rate per partition."""
        return self.msgs_per_s / self.partitions


@dataclass(frozen=True)
class Batch:
    """Fill of a batch of one partition.

    Attributes:
        closes_by: What ends it first.
        messages: In it, on average.
        wait_s: From the first message until it is sent.
        per_s: Batches a second, over all partitions: entries written, requests sent.
    """

    closes_by: Closing
    messages: float
    wait_s: float
    per_s: float


def batch_of(load: ProducerLoad) -> Batch:
    """Return the limit that closes a batch, and its fill.

    A queue that is smaller than a batch closes it as well: no more messages may wait.
    """
    rate = load.msgs_per_partition_s
    by_bytes = max(load.batch_bytes / load.message_bytes, 1.0)
    most = float(load.batch_messages)
    if load.queue:
        most = min(most, float(load.queue))
    in_time = max(rate * load.batch_delay_s, 1.0)
    messages = min(in_time, by_bytes, most)
    closes: Closing = "delay"
    if messages < in_time:
        closes = "bytes" if by_bytes <= most else "messages"
    wait_s = load.batch_delay_s if closes == "delay" else messages / rate
    return Batch(closes, messages, wait_s, load.msgs_per_s / messages)


@dataclass(frozen=True)
class Stall:
    """Effect of brokers that stop answering.

    Attributes:
        blocked_after_s: Until the first queue is full, and the application waits or fails with all
            its messages; ``None`` if never, with unlimited queues.
        by: What is full then.
        waiting_messages: Of one silent partition by then.
        waiting_bytes: Of all silent partitions by then.
        left_ratio: Share of its traffic that the application can still send after that, while the
            silent partitions are served at ``slow_ratio`` of what they need.
        timeouts_before: Whether messages fail by ``sendTimeout`` before the queue is full.
    """

    blocked_after_s: float | None
    by: Literal["queue", "memory", ""]
    waiting_messages: float
    waiting_bytes: float
    left_ratio: float
    timeouts_before: bool


def stall_of(load: ProducerLoad, silent_partitions: int, *, slow_ratio: float = 0.0) -> Stall:
    """Return the time until one slow or dead broker blocks the whole producer.

    Messages go to the partitions in turn, so that a full queue of one of them stops them all.

    Args:
        silent_partitions: Partitions that the broker serves.
        slow_ratio: Share of their traffic that it still takes, 0..1.
    Raises:
        InputError: More partitions than there are, or a share outside 0..1.
    """
    if not 0 <= silent_partitions <= load.partitions:
        raise InputError(
            f"silent_partitions is {silent_partitions}, but the topic has "
            f"{load.partitions} partitions."
        )
    if not 0 <= slow_ratio <= 1:
        raise InputError(f"{slow_ratio} is not between 0 and 1.")
    piling = load.msgs_per_partition_s * (1 - slow_ratio)
    if not silent_partitions or piling == 0:
        return Stall(None, "", 0.0, 0.0, 1.0, timeouts_before=False)
    times: dict[Literal["queue", "memory"], float] = {}
    if load.queue:
        times["queue"] = load.queue / piling
    if load.memory_limit_bytes:
        times["memory"] = load.memory_limit_bytes / (
            piling * silent_partitions * load.message_bytes
        )
    if not times:
        return Stall(None, "", 0.0, 0.0, 1.0, timeouts_before=load.send_timeout_s > 0)
    by = min(times, key=lambda name: times[name])
    after_s = times[by]
    waiting = piling * after_s
    return Stall(
        after_s,
        by,
        waiting,
        waiting * silent_partitions * load.message_bytes,
        slow_ratio,
        timeouts_before=0 < load.send_timeout_s < after_s,
    )
