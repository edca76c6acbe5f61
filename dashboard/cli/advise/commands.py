"""``trimtab advise``: its options, nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dashboard.cli.options import Json, Snapshot

app = typer.Typer()
advise = typer.Typer(no_args_is_help=True, help="Compute sizes and limits that operators tune.")
app.add_typer(advise, name="advise")

Partitions = Annotated[int, typer.Option(min=1, max=100_000, help="Partitions of the topic.")]
Fills = Annotated[
    Path | None, typer.Option(metavar="SNAPSHOT", help="Snapshot that supplies missing values.")
]
Average = Annotated[
    str | None,
    typer.Option(metavar="NS", help="Namespace that supplies the rates of its average topic."),
]
Topic = Annotated[str, typer.Argument(help="Topic without -partition-N.", metavar="TOPIC")]


@advise.command()
def bundles(
    brokers: Annotated[
        int | None, typer.Option(help="Number of brokers; default: the live ones.")
    ] = None,
    topics: Annotated[
        int | None, typer.Option(help="Number of topics; each partition counts.")
    ] = None,
    clients: Annotated[int | None, typer.Option(help="Number of producers and consumers.")] = None,
    rate: Annotated[
        float | None, typer.Option(metavar="MSG/S", help="Message rate, in plus out (msg/s).")
    ] = None,
    throughput: Annotated[
        float | None, typer.Option(metavar="BYTES/S", help="Traffic, in plus out (bytes/s).")
    ] = None,
    within: Annotated[
        float, typer.Option(metavar="SHARE", help="Max deviation above the mean (ratio).")
    ] = 0.2,
    max_bundles: Annotated[
        int | None, typer.Option(help="loadBalancerNamespaceMaximumBundles.")
    ] = None,
    snapshot: Annotated[
        str | None, typer.Option(metavar="SNAPSHOT", help="Snapshot that supplies missing values.")
    ] = None,
    namespace: Annotated[
        str | None, typer.Option(metavar="NS", help="Namespace of the snapshot.")
    ] = None,
    as_json: Json = False,
) -> int:
    """Compute how many bundles a namespace needs, with every reason."""
    from dashboard.cli.advise import bundles as advise_bundles

    request = advise_bundles.BundleCountRequest(
        brokers=brokers,
        topics=topics,
        clients=clients,
        rate=rate,
        throughput=throughput,
        within=within,
        max_bundles=max_bundles,
        snapshot=snapshot,
        namespace=namespace,
    )
    return advise_bundles.bundles(request, as_json=as_json)


@advise.command()
def compaction(
    live: Annotated[float, typer.Option(metavar="SHARE", help="Live part of a log, 0 to 1.")],
    minor: Annotated[float, typer.Option(help="minorCompactionThreshold.")] = 0.2,
    major: Annotated[float, typer.Option(help="majorCompactionThreshold.")] = 0.8,
    as_json: Json = False,
) -> int:
    """Show what a bookie's compaction removes from an entry log, and what stays."""
    from dashboard.cli.advise import bundles as advise_bundles

    return advise_bundles.compaction(live, minor, major, as_json=as_json)


@advise.command()
def queue(
    partitions: Partitions,
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
    slow: Annotated[
        float, typer.Option(metavar="SHARE", help="Rate that broker still accepts, 0 to 1.")
    ] = 0.0,
    routing: Annotated[
        str, typer.Option(help="RoundRobinPartition, or SinglePartition.")
    ] = "RoundRobinPartition",
    as_json: Json = False,
) -> int:
    """Compute a producer's queue and batches, and when one slow broker blocks it."""
    from core.planning.advisors.client_queue import ProducerLoad
    from dashboard.cli.advise import clients as advise_clients

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
    return advise_clients.queue(load, silent, slow, routing=routing, as_json=as_json)


@advise.command()
def ledger(
    rate: Annotated[
        float | None, typer.Option(metavar="ENTRIES/S", help="Entries (batches) per second.")
    ] = None,
    throughput: Annotated[
        float | None, typer.Option(metavar="BYTES/S", help="Traffic (bytes/s).")
    ] = None,
    age: Annotated[float, typer.Option(metavar="MINUTES", help="Age of the ledger (min).")] = 0.0,
    entries: Annotated[float, typer.Option(metavar="ENTRIES", help="Entries in the ledger.")] = 0.0,
    size: Annotated[float, typer.Option(metavar="BYTES", help="Size of the ledger (bytes).")] = 0.0,
    min_minutes: Annotated[
        float | None,
        typer.Option(help="managedLedgerMinLedgerRolloverTimeMinutes (min), default 10."),
    ] = None,
    max_minutes: Annotated[
        float | None,
        typer.Option(help="managedLedgerMaxLedgerRolloverTimeMinutes (min), default 240."),
    ] = None,
    max_entries: Annotated[
        int | None, typer.Option(help="managedLedgerMaxEntriesPerLedger, default 50,000.")
    ] = None,
    max_megabytes: Annotated[
        int | None, typer.Option(help="managedLedgerMaxSizePerLedgerMbytes (MB), default 2,048.")
    ] = None,
    snapshot: Fills = None,
    namespace: Average = None,
    as_json: Json = False,
) -> int:
    """Compute when a ledger rolls over, and its size."""
    from dashboard.cli.advise import storage

    given = {
        "entries": rate,
        "written": None if throughput is None else throughput / 1e6,
        "age": age,
        "managedLedgerMinLedgerRolloverTimeMinutes": min_minutes,
        "managedLedgerMaxLedgerRolloverTimeMinutes": max_minutes,
        "managedLedgerMaxEntriesPerLedger": max_entries,
        "managedLedgerMaxSizePerLedgerMbytes": max_megabytes,
    }
    request = storage.StorageRequest(given=given, snapshot=snapshot, namespace=namespace)
    return storage.ledger(request, entries=entries, size=size, as_json=as_json)


@advise.command()
def retention(
    throughput: Annotated[
        float | None,
        typer.Option(metavar="BYTES/S", help="Publish traffic of the topic (bytes/s)."),
    ] = None,
    consumed_after: Annotated[
        float | None,
        typer.Option(
            metavar="MINUTES", help="Delay of the slowest subscription (min); default: never."
        ),
    ] = None,
    minutes: Annotated[
        float | None,
        typer.Option(metavar="MINUTES", help="Retention time (min), default 0; -1: unlimited."),
    ] = None,
    megabytes: Annotated[
        float | None,
        typer.Option(metavar="MB", help="Retention size (MB), default 0; -1: unlimited."),
    ] = None,
    ttl: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="Time to live (s), default 0: off.")
    ] = None,
    rollover: Annotated[
        float | None, typer.Option(metavar="MINUTES", help="Ledger rollover (min), default 240.")
    ] = None,
    quota: Annotated[
        float | None, typer.Option(metavar="MIB", help="Backlog quota (MiB), default -1: none.")
    ] = None,
    copies: Annotated[int | None, typer.Option(help="Copies of each entry, default 2.")] = None,
    snapshot: Fills = None,
    namespace: Average = None,
    as_json: Json = False,
) -> int:
    """Compute the life of a message: backlog, retained, deleted, and why."""
    from dashboard.cli.advise import storage

    given = {
        "written": None if throughput is None else throughput / 1e6,
        "consumed": consumed_after,
        "defaultRetentionTimeInMinutes": minutes,
        "defaultRetentionSizeInMB": megabytes,
        "ttlDurationDefaultInSeconds": ttl,
        "managedLedgerMaxLedgerRolloverTimeMinutes": rollover,
        "backlogQuotaDefaultLimitBytes": quota,
        "managedLedgerDefaultWriteQuorum": copies,
    }
    request = storage.StorageRequest(given=given, snapshot=snapshot, namespace=namespace)
    return storage.retention(request, consumed_after=consumed_after, as_json=as_json)


@advise.command()
def disks(
    snapshot: Snapshot,
    directories: Annotated[
        int, typer.Option(min=1, max=1_000, help="ledgerDirectories of a bookie.")
    ] = 4,
    as_json: Json = False,
) -> int:
    """Estimate how evenly ledgers fill the directories of a bookie."""
    from dashboard.cli.advise import storage

    return storage.disks(snapshot, directories, as_json=as_json)


@advise.command()
def partitions(
    topic: Topic,
    count: Annotated[
        list[int],
        typer.Option("--partitions", min=1, max=100_000, help="Number of partitions."),
    ],
    bundles: Annotated[
        int | None,
        typer.Option(
            min=1, max=1_000_000, help="Number of equal bundles; default: the snapshot's."
        ),
    ] = None,
    snapshot: Annotated[
        str | None, typer.Option(metavar="SNAPSHOT", help="Snapshot with the topic's namespace.")
    ] = None,
    wanted: Annotated[
        int, typer.Option(min=1, help="Max partitions per bundle; plans the splits.")
    ] = 1,
    max_bundles: Annotated[int, typer.Option(help="loadBalancerNamespaceMaximumBundles.")] = 128,
    plan: Annotated[
        Path | None,
        typer.Option(
            metavar="OUT", help="Write a plan of the splits; the snapshot must hold the topic."
        ),
    ] = None,
    reason: Annotated[str, typer.Option(help="Reason (recorded in the plan).")] = "",
    as_json: Json = False,
) -> int:
    """Show how a topic's partitions fall into bundles, and plan splits that spread them."""
    from dashboard.cli.advise import clients as advise_clients

    request = advise_clients.PartitionSpreadRequest(
        topic, tuple(count), bundles, snapshot, wanted, max_bundles, plan, reason
    )
    return advise_clients.partitions(request, as_json=as_json)


@advise.command()
def lookups(
    snapshot: Snapshot,
    namespace: Annotated[str, typer.Option(metavar="NS", help="Namespace, tenant/namespace.")],
    pace: Annotated[
        float, typer.Option(metavar="BUNDLES/min", help="Bundles per minute, one by one.")
    ] = 10.0,
    as_json: Json = False,
) -> int:
    """Compute the lookups of unloading a namespace, at once and bundle by bundle."""
    from dashboard.cli.advise import clients as advise_clients

    return advise_clients.lookups(snapshot, namespace, pace, as_json=as_json)
