"""``trimtab advise queue``: a producer's queue and batches, and a slow broker."""

from __future__ import annotations

import dataclasses
from typing import Annotated

import typer

from core.errors import UnknownNameError
from core.planning.advisors.client_queue import ProducerLoad, batch_of
from core.planning.advisors.stalls import ROUTINGS, routed_stall
from core.units import format_ratio, pluralize
from dashboard.cli.options import Json
from dashboard.cli.output import Answer, UsageFaultError, emit, print_line

app = typer.Typer()


@app.command()
def queue(
    partitions: Annotated[int, typer.Option(min=1, max=100_000, help="Partitions of the topic.")],
    max_pending: Annotated[int, typer.Option(help="maxPendingMessages; 0: none.")] = 0,
    max_pending_across: Annotated[
        int, typer.Option(help="maxPendingMessagesAcrossPartitions; 0: none.")
    ] = 0,
    rate: Annotated[
        float, typer.Option(metavar="MSG/S", help="Rate of the application (msg/s).")
    ] = 1000.0,
    message_bytes: Annotated[
        float, typer.Option(metavar="BYTES", help="Message size (bytes).")
    ] = 1024.0,
    memory_limit: Annotated[int, typer.Option(help="memoryLimitBytes; 0: none.")] = 64 * 1024**2,
    batch_messages: Annotated[int, typer.Option(help="batchingMaxMessages.")] = 1000,
    batch_bytes: Annotated[int, typer.Option(help="batchingMaxBytes.")] = 128 * 1024,
    batch_delay_ms: Annotated[
        float, typer.Option(metavar="MS", help="batchingMaxPublishDelay (ms).")
    ] = 1.0,
    send_timeout_s: Annotated[
        float, typer.Option(metavar="SECONDS", help="sendTimeout (s); 0: never.")
    ] = 30.0,
    silent: Annotated[int, typer.Option(help="Partitions on a slow or dead broker.")] = 1,
    slow_ratio: Annotated[
        float,
        typer.Option(
            "--slow",
            metavar="SHARE",
            help="Share of its traffic that the broker still accepts, 0 to 1.",
        ),
    ] = 0.0,
    routing: Annotated[
        str, typer.Option(help="RoundRobinPartition, or SinglePartition.")
    ] = "RoundRobinPartition",
    as_json: Json = False,
) -> int:
    """Compute when a slow broker blocks a producer's queue.

    Also shows its batches.
    """
    if routing not in ROUTINGS:
        unknown = UnknownNameError.of("routing mode", routing, ROUTINGS)
        raise UsageFaultError(unknown.message, hint=unknown.hint)
    load = ProducerLoad(
        msgs_per_s=rate,
        message_bytes=message_bytes,
        partitions=partitions,
        max_pending=max_pending,
        max_pending_across=max_pending_across,
        memory_limit_bytes=memory_limit,
        batch_messages=batch_messages,
        batch_bytes=batch_bytes,
        batch_delay_s=batch_delay_ms / 1000,
        send_timeout_s=send_timeout_s,
    )
    batch = batch_of(load)
    found = routed_stall(load, silent, routing=routing, slow_ratio=slow_ratio)
    stall = found.stall
    body = {
        "queue_per_partition": load.queue,
        "batch": dataclasses.asdict(batch),
        "routing": routing,
        "hit_ratio": found.hit_ratio,
        "stall": dataclasses.asdict(stall),
    }

    def show() -> None:
        limit = f"{load.queue:,} messages" if load.queue else "as many as memory allows"
        print_line(f"Queue of each partition: {limit}.")
        print_line(
            f"A batch closes by {batch.closes_by} after {batch.wait_s * 1000:.2f} ms with "
            f"{batch.messages:,.1f} messages; {batch.per_s:,.0f} per second over all partitions."
        )
        print_line(_stall_words(silent, stall.blocked_after_s, stall.by, slow_ratio))
        if found.hit_ratio < 1:
            print_line(f"This applies to {format_ratio(found.hit_ratio)} of the producers.")
        if stall.timeouts_before:
            print_line(f"Messages fail earlier, after {load.send_timeout_s:g} s (sendTimeout).")

    return emit(Answer(body, show), as_json=as_json)


def _stall_words(silent: int, after_s: float | None, by: str, slow_ratio: float) -> str:
    who = f"{pluralize(silent, 'partition')} on a broker that "
    who += f"takes {format_ratio(slow_ratio)} of its traffic" if slow_ratio else "does not answer"
    if after_s is None:
        return f"With {who}, the producer does not block."
    full = "the queue of a partition" if by == "queue" else "the client's memory"
    return f"With {who}, the entire producer blocks after {after_s:,.2f} s: {full} is full."
