"""What the advisor of producers says: queue, batches, and what one bad broker does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
import pandas as pd

from core.planning.advisors.client_queue import Batch, ProducerLoad
from core.planning.advisors.stalls import RoutedStall
from core.units import counted, format_ratio
from dashboard.presenters.advisors_inputs import Number

VIVO: Final[Mapping[str, Number]] = {
    "maxPendingMessages": 2000,
    "maxPendingMessagesAcrossPartitions": 40_000,
    "memoryLimitBytes": 200.0,
    "batchingMaxPublishDelay": 0.05,
    "batchingMaxMessages": 2000,
    "batchingMaxBytes": 5120.0,
}
"""What the vivo report set, in the units of the inputs."""

CURVE: Final = tuple(sorted({*range(1, 33), *np.geomspace(33, 1000, 40).astype(int).tolist()}))
_CLOSES: Final = {
    "delay": "its delay is over",
    "messages": "it has as many messages as it may",
    "bytes": "it is as large as it may be",
}


def load_of(given: Mapping[str, Number]) -> ProducerLoad:
    """Return the producer that the inputs describe.

    Raises:
        InputError: It cannot be.
    """
    return ProducerLoad(
        msgs_per_s=float(given["rate"]),
        message_bytes=float(given["message"]),
        partitions=int(given["partitions"]),
        max_pending=int(given["maxPendingMessages"]),
        max_pending_across=int(given["maxPendingMessagesAcrossPartitions"]),
        memory_limit_bytes=int(given["memoryLimitBytes"] * 1024**2),
        batch_messages=int(given["batchingMaxMessages"]),
        batch_bytes=int(given["batchingMaxBytes"] * 1024),
        batch_delay_s=given["batchingMaxPublishDelay"] / 1000,
        send_timeout_s=float(given["sendTimeout"]),
    )


def answer(load: ProducerLoad, found: RoutedStall) -> str:
    """Return what may wait and what a bad broker does, in one sentence."""
    queue = (
        f"{load.queue:,} messages may wait for each of {counted(load.partitions, 'partition')}, "
        f"{seconds(buffered_s(load))} of its traffic"
        if load.queue
        else f"only the client's memory limits what waits for {load.partitions:,} partitions"
    )
    return f"{queue[0].upper()}{queue[1:]}; {_stall_words(found)}."


def buffered_s(load: ProducerLoad) -> float:
    """Return how long a partition's queue lasts when nothing is acknowledged, seconds."""
    return load.queue / load.msgs_per_partition_s


def seconds(value: float) -> str:
    """Return a span from microseconds to hours.

    Example:
        >>> seconds(0.00005), seconds(0.25), seconds(4.0), seconds(5400)
        ('50 µs', '250 ms', '4.0 s', '90 min')
    """
    for below, factor, text in ((1e-3, 1e6, "{:.0f} µs"), (1.0, 1e3, "{:.0f} ms")):
        if value < below:
            return text.format(value * factor)
    return f"{value:,.1f} s" if value < 120 else f"{value / 60:,.0f} min"


def _stall_words(found: RoutedStall) -> str:
    stall = found.stall
    broker = f"a bad broker with {counted(found.silent, 'partition')}"
    if stall.blocked_after_s is None:
        return f"{broker} never fills a queue, but messages to it fail or wait"
    full = "a queue is" if stall.by == "queue" else "the client's memory is"
    who = (
        "the producer" if found.hit_ratio == 1 else f"{format_ratio(found.hit_ratio)} of producers"
    )
    verb = "holds up"
    return f"{broker} {verb} {who} after {seconds(stall.blocked_after_s)}, when {full} full"


def comes_to(load: ProducerLoad, batch: Batch, found: RoutedStall) -> pd.DataFrame:
    """Return what the numbers come to, each with its formula."""
    stall = found.stall
    across, own = load.max_pending_across, load.max_pending
    queue_formula = (
        f"min({own or 'no limit'}, {across:,} / {load.partitions})"
        if across
        else f"{own or 'no limit'}"
    )
    rows = [
        (
            "Queue of a partition",
            f"{load.queue:,} messages" if load.queue else "no limit",
            queue_formula,
        ),
        (
            "It lasts, unacknowledged",
            seconds(buffered_s(load)) if load.queue else "until memory is full",
            f"{load.queue:,} / ({load.msgs_per_s:,.0f} / {load.partitions} msg/s)",
        ),
        (
            "A batch has",
            f"{batch.messages:,.1f} messages",
            f"sent when {_CLOSES[batch.closes_by]}, after {seconds(batch.wait_s)}",
        ),
        (
            "Batches sent",
            f"{batch.per_s:,.0f} a second",
            f"{load.msgs_per_s:,.0f} / {batch.messages:,.1f}",
        ),
        *_stall_rows(load, found),
    ]
    if stall.timeouts_before:
        rows.append(("Messages fail before", seconds(load.send_timeout_s), "sendTimeout"))
    return pd.DataFrame(rows, columns=["what", "value", "formula"])


def _stall_rows(load: ProducerLoad, found: RoutedStall) -> list[tuple[str, str, str]]:
    stall = found.stall
    if stall.blocked_after_s is None:
        return [("Held up after", "never", "no queue and no memory limit")]
    megabytes = stall.waiting_bytes / 1024**2
    return [
        (
            "Held up after",
            seconds(stall.blocked_after_s),
            f"{stall.waiting_messages:,.0f} messages for a bad partition, {megabytes:,.1f} MiB",
        ),
        (
            "Goes on at",
            format_ratio(stall.left_ratio),
            f"messages go in turn: one full queue of {load.partitions} holds up the rest"
            if found.hit_ratio == 1
            else "of those whose one partition is there",
        ),
    ]


def remarks(load: ProducerLoad, batch: Batch) -> list[str]:
    """Return what of the settings does not go together."""
    told = []
    if load.queue and batch.messages >= load.queue:
        told.append(
            f"A batch may hold {load.batch_messages:,} messages, but only {load.queue:,} may wait "
            "for a partition: batches never get that full. Raise the pending messages, or lower "
            "batchingMaxMessages."
        )
    if load.max_pending_across and load.max_pending and load.queue < load.max_pending:
        told.append(
            f"maxPendingMessages is {load.max_pending:,}, but the common limit leaves "
            f"{load.queue:,} for each partition: more partitions make every queue shorter. Clients "
            "must be restarted to change it."
        )
    if load.queue and load.memory_limit_bytes:
        whole = load.queue * load.partitions * load.message_bytes
        if whole > load.memory_limit_bytes:
            told.append(
                f"All queues together would hold {whole / 1024**2:,.0f} MiB, the client's memory "
                f"limit is {load.memory_limit_bytes / 1024**2:,.0f} MiB: memory may be full first."
            )
    if batch.messages < 2:
        told.append(
            "Batches hold one message: the delay is too short for the rate of one partition. Every "
            "message is an entry of its own."
        )
    return told
