"""``trimtab advise``: its options, nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dashboard.cli_options import Json, Snapshot

advise = typer.Typer(no_args_is_help=True, help="The arithmetic behind what operators tune.")

Partitions = Annotated[int, typer.Option(min=1, max=100_000, help="Partitions of the topic.")]
Fills = Annotated[
    Path | None, typer.Option(metavar="SNAPSHOT", help="Its settings fill in what is not given.")
]
Average = Annotated[
    str | None, typer.Option(metavar="NS", help="The rates of its average topic, of the snapshot.")
]
Topic = Annotated[str, typer.Argument(help="Topic without -partition-N.", metavar="TOPIC")]


@advise.command()
def bundles(
    brokers: Annotated[int | None, typer.Option(help="That share it; else those live.")] = None,
    topics: Annotated[int | None, typer.Option(help="Partitions count one each.")] = None,
    clients: Annotated[int | None, typer.Option(help="Producers and consumers.")] = None,
    rate: Annotated[float | None, typer.Option(help="msg/s, in and out.")] = None,
    throughput: Annotated[float | None, typer.Option(help="Bytes/s, in and out.")] = None,
    within: Annotated[
        float, typer.Option(metavar="SHARE", help="Tolerated above the mean, 0.2 is 20 %.")
    ] = 0.2,
    max_bundles: Annotated[
        int | None, typer.Option(help="loadBalancerNamespaceMaximumBundles.")
    ] = None,
    snapshot: Annotated[
        str | None, typer.Option(metavar="SNAPSHOT", help="Fills in what is not given.")
    ] = None,
    namespace: Annotated[
        str | None, typer.Option(metavar="NS", help="tenant/namespace of the snapshot.")
    ] = None,
    as_json: Json = False,
) -> int:
    """How many bundles a namespace should have, with every reason."""
    from dashboard import cli_advising_bundles

    wish = cli_advising_bundles.CountWish(
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
    return cli_advising_bundles.bundles(wish, as_json=as_json)


@advise.command()
def compaction(
    live: Annotated[float, typer.Option(metavar="SHARE", help="Of a log still needed, 0 to 1.")],
    minor: Annotated[float, typer.Option(help="minorCompactionThreshold.")] = 0.2,
    major: Annotated[float, typer.Option(help="majorCompactionThreshold.")] = 0.8,
    as_json: Json = False,
) -> int:
    """What a bookie does with an entry log, and what of dead data stays for good."""
    from dashboard import cli_advising_bundles

    return cli_advising_bundles.compaction(live, minor, major, as_json=as_json)


@advise.command()
def queue(
    partitions: Partitions,
    max_pending: Annotated[int, typer.Option(help="maxPendingMessages; 0: none.")] = 0,
    max_pending_across: Annotated[
        int, typer.Option(help="maxPendingMessagesAcrossPartitions; 0: none.")
    ] = 0,
    rate: Annotated[float, typer.Option(help="msg/s that the application sends.")] = 1000.0,
    message_bytes: Annotated[float, typer.Option(help="Size of a message.")] = 1024.0,
    memory_limit: Annotated[int, typer.Option(help="memoryLimitBytes; 0: none.")] = 64 * 1024**2,
    batch_messages: Annotated[int, typer.Option(help="batchingMaxMessages.")] = 1000,
    batch_bytes: Annotated[int, typer.Option(help="batchingMaxBytes.")] = 128 * 1024,
    batch_delay_ms: Annotated[float, typer.Option(help="batchingMaxPublishDelay.")] = 1.0,
    send_timeout_s: Annotated[float, typer.Option(help="sendTimeout; 0: never.")] = 30.0,
    silent: Annotated[int, typer.Option(help="Partitions on a slow or dead broker.")] = 1,
    slow: Annotated[
        float, typer.Option(metavar="SHARE", help="What that broker still takes, 0 to 1.")
    ] = 0.0,
    routing: Annotated[
        str, typer.Option(help="RoundRobinPartition, or SinglePartition.")
    ] = "RoundRobinPartition",
    as_json: Json = False,
) -> int:
    """How a producer's messages queue and batch, and how soon one bad broker holds it up."""
    from core.planning.advisors.client_queue import ProducerLoad
    from dashboard import cli_advising

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
    return cli_advising.queue(load, silent, slow, routing=routing, as_json=as_json)


@advise.command()
def ledger(
    rate: Annotated[float | None, typer.Option(help="Entries (batches) a second.")] = None,
    throughput: Annotated[float | None, typer.Option(help="Bytes a second.")] = None,
    age: Annotated[float, typer.Option(help="Minutes that the ledger is open.")] = 0.0,
    entries: Annotated[float, typer.Option(help="In it now.")] = 0.0,
    size: Annotated[float, typer.Option(help="Bytes in it now.")] = 0.0,
    min_minutes: Annotated[
        float | None, typer.Option(help="managedLedgerMinLedgerRolloverTimeMinutes, else 10.")
    ] = None,
    max_minutes: Annotated[
        float | None, typer.Option(help="managedLedgerMaxLedgerRolloverTimeMinutes, else 240.")
    ] = None,
    max_entries: Annotated[
        int | None, typer.Option(help="managedLedgerMaxEntriesPerLedger, else 50,000.")
    ] = None,
    max_megabytes: Annotated[
        int | None, typer.Option(help="managedLedgerMaxSizePerLedgerMbytes, else 2,048.")
    ] = None,
    snapshot: Fills = None,
    namespace: Average = None,
    as_json: Json = False,
) -> int:
    """When the next ledger begins, and how big this one becomes."""
    from dashboard import cli_advising_storage

    given = {
        "entries": rate,
        "written": None if throughput is None else throughput / 1e6,
        "age": age,
        "managedLedgerMinLedgerRolloverTimeMinutes": min_minutes,
        "managedLedgerMaxLedgerRolloverTimeMinutes": max_minutes,
        "managedLedgerMaxEntriesPerLedger": max_entries,
        "managedLedgerMaxSizePerLedgerMbytes": max_megabytes,
    }
    wish = cli_advising_storage.StorageWish(given=given, snapshot=snapshot, namespace=namespace)
    return cli_advising_storage.ledger(wish, entries=entries, size=size, as_json=as_json)


@advise.command()
def retention(
    throughput: Annotated[
        float | None, typer.Option(help="Bytes a second that the topic takes in.")
    ] = None,
    consumed_after: Annotated[
        float | None, typer.Option(metavar="MINUTES", help="By the slowest; else: never.")
    ] = None,
    minutes: Annotated[
        float | None, typer.Option(help="Retention time, else 0; -1: without end.")
    ] = None,
    megabytes: Annotated[
        float | None, typer.Option(help="Retention size, else 0; -1: without end.")
    ] = None,
    ttl: Annotated[
        float | None, typer.Option(help="Time to live in seconds, else 0, which is off.")
    ] = None,
    rollover: Annotated[
        float | None, typer.Option(help="Minutes that a ledger is open, else 240.")
    ] = None,
    quota: Annotated[
        float | None, typer.Option(metavar="MIB", help="Backlog quota, else -1, which is none.")
    ] = None,
    copies: Annotated[
        int | None, typer.Option(help="Bookies that each entry is written to, else 2.")
    ] = None,
    snapshot: Fills = None,
    namespace: Average = None,
    as_json: Json = False,
) -> int:
    """The life of a message: backlog, kept, deleted, with what decides each."""
    from dashboard import cli_advising_storage

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
    wish = cli_advising_storage.StorageWish(given=given, snapshot=snapshot, namespace=namespace)
    return cli_advising_storage.retention(wish, consumed_after=consumed_after, as_json=as_json)


@advise.command()
def disks(
    snapshot: Snapshot,
    directories: Annotated[
        int, typer.Option(min=1, max=1_000, help="ledgerDirectories of a bookie.")
    ] = 4,
    as_json: Json = False,
) -> int:
    """How evenly the cluster's ledgers fill the directories of a bookie."""
    from dashboard import cli_advising_storage

    return cli_advising_storage.disks(snapshot, directories, as_json=as_json)


@advise.command()
def partitions(
    topic: Topic,
    count: Annotated[
        list[int],
        typer.Option("--partitions", min=1, max=100_000, help="To look at. Several times."),
    ],
    bundles: Annotated[
        int | None,
        typer.Option(min=1, max=1_000_000, help="Even bundles; else those of the snapshot."),
    ] = None,
    snapshot: Annotated[
        str | None, typer.Option(metavar="SNAPSHOT", help="Whose namespace it is.")
    ] = None,
    wanted: Annotated[
        int, typer.Option(min=1, help="Most partitions of one bundle; plans the splits for it.")
    ] = 1,
    max_bundles: Annotated[int, typer.Option(help="loadBalancerNamespaceMaximumBundles.")] = 128,
    plan: Annotated[
        Path | None,
        typer.Option(metavar="OUT", help="Write the plan of these splits, for a topic it holds."),
    ] = None,
    reason: Annotated[str, typer.Option(help="Why, for the record.")] = "",
    as_json: Json = False,
) -> int:
    """How a topic's partitions fall into bundles, and the splits that would spread them."""
    from dashboard import cli_advising

    wish = cli_advising.SpreadWish(
        topic, tuple(count), bundles, snapshot, wanted, max_bundles, plan, reason
    )
    return cli_advising.partitions(wish, as_json=as_json)


@advise.command()
def lookups(
    snapshot: Snapshot,
    namespace: Annotated[str, typer.Option(metavar="NS", help="tenant/namespace.")],
    pace: Annotated[float, typer.Option(help="Bundles a minute, one by one.")] = 10.0,
    as_json: Json = False,
) -> int:
    """What unloading a whole namespace asks of the brokers, beside bundle by bundle."""
    from dashboard import cli_advising

    return cli_advising.lookups(snapshot, namespace, pace, as_json=as_json)
