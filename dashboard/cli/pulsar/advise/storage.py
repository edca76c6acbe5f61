"""``trimtab advise``: ledgers, retention, disks and compaction of bookies."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

import pyarrow.compute as pc
import typer

from core.errors import IncompleteSnapshotError, UnknownNameError
from core.planning.advisors.contradictions import contradictions
from core.planning.advisors.disks import disk_picture, disks_words
from core.planning.advisors.ledger import Rollover, RolloverRule, next_rollover
from core.planning.advisors.retention import (
    CompactionRule,
    RetentionRule,
    fate_of_log,
    held_words,
    life_of_message,
)
from core.snapshot.store import load_snapshot
from core.units import format_age, format_bytes, format_ratio
from dashboard.cli.options import Config, Json
from dashboard.cli.output import Answer, UsageFaultError, emit, print_line, table
from dashboard.cli.pulsar.source import Snapshot, active_settings, pulsar_directory
from dashboard.presenters.pulsar.advisors_facts import (
    live_ledger,
    live_settings,
    live_storage,
    namespace_facts,
)
from dashboard.presenters.pulsar.advisors_inputs import (
    LEDGER,
    RETENTION,
    AdvisorParameter,
    ClusterValue,
    Number,
)

_MEASURED: Final = frozenset({"entries", "written"})


_ACTIONS: Final = {
    "deleted": "Deletion of the log",
    "minor": "Minor compaction",
    "major": "Major compaction",
    "stays": "No compaction",
}

app = typer.Typer()

Fills = Annotated[
    Path | None, typer.Option(metavar="SNAPSHOT", help="Snapshot that supplies missing values.")
]
Average = Annotated[
    str | None,
    typer.Option(metavar="NS", help="Namespace that supplies the rates of its average topic."),
]


@dataclass(frozen=True)
class _Inputs:
    values: Mapping[str, Number]
    words: Mapping[str, str]

    def show(self) -> None:
        """Print the values taken from the snapshot."""
        rows = [(key, f"{self.values[key]:,.6g}", words) for key, words in self.words.items()]
        if rows:
            table(("from the snapshot", "value", "source"), rows)


@app.command()
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
    given = {
        "entries": rate,
        "written": None if throughput is None else throughput / 1e6,
        "age": age,
        "managedLedgerMinLedgerRolloverTimeMinutes": min_minutes,
        "managedLedgerMaxLedgerRolloverTimeMinutes": max_minutes,
        "managedLedgerMaxEntriesPerLedger": max_entries,
        "managedLedgerMaxSizePerLedgerMbytes": max_megabytes,
    }
    inputs = _filled(given, LEDGER, snapshot, namespace)
    values = inputs.values
    found = next_rollover(
        _rule(values),
        entries_per_s=float(values["entries"]),
        bytes_per_s=values["written"] * 1e6,
        age_minutes=float(values["age"]),
        entries=entries,
        size_bytes=size,
    )
    body: dict[str, Any] = {
        "rollover": dataclasses.asdict(found) if found else None,
        "inputs": dict(values),
        "taken_from_snapshot": dict(inputs.words),
    }

    def show() -> None:
        print_line(_rollover_words(found))
        inputs.show()

    return emit(Answer(body, show), as_json=as_json)


def _rollover_words(rollover: Rollover | None) -> str:
    if rollover is None:
        return "Never: an empty ledger is not rolled over."
    held = " (full earlier; the min age keeps it open)" if rollover.held_by_minimum else ""
    return (
        f"Rollover after {rollover.in_minutes:,.1f} min by {rollover.cause}{held}, with "
        f"{rollover.entries:,.0f} "
        f"entries and {format_bytes(rollover.size_bytes)}."
    )


@app.command()
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
    """Compute when a message is retained, expired and deleted.

    Shows backlog, retained and deleted bytes with the reason.
    """
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
    inputs = _filled(given, RETENTION, snapshot, namespace)
    values = inputs.values
    rule = RetentionRule(
        retention_minutes=float(values["defaultRetentionTimeInMinutes"]),
        retention_megabytes=float(values["defaultRetentionSizeInMB"]),
        ttl_s=float(values["ttlDurationDefaultInSeconds"]),
        rollover_minutes=float(values["managedLedgerMaxLedgerRolloverTimeMinutes"]),
        expiry_check_s=values["messageExpiryCheckIntervalInMinutes"] * 60.0,
        retention_check_s=float(values["retentionCheckIntervalInSeconds"]),
        copies=int(values["managedLedgerDefaultWriteQuorum"]),
    )
    bytes_per_s = values["written"] * 1e6
    phases = life_of_message(rule, consumed_after_minutes=consumed_after, bytes_per_s=bytes_per_s)
    found = contradictions(
        rule,
        consumed_after_minutes=consumed_after,
        bytes_per_s=bytes_per_s,
        quota_megabytes=float(values["backlogQuotaDefaultLimitBytes"]),
    )
    stored = held_words(rule, phases, bytes_per_s)
    body = {
        "phases": [dataclasses.asdict(phase) for phase in phases],
        "held": stored,
        "contradictions": list(found),
        "inputs": {key: value for key, value in values.items() if key != "consumed"},
        "taken_from_snapshot": dict(inputs.words),
    }

    def show() -> None:
        rows = [
            (
                phase.name,
                f"{phase.begins:,.1f} min",
                "unlimited" if phase.ends is None else f"{phase.ends:,.1f} min",
                phase.why,
            )
            for phase in phases
        ]
        table(("phase", "from", "until (latest)", "reason"), rows)
        if stored:
            print_line(f"Until then {stored}.")
        for sentence in found:
            print_line(f"Warning: {sentence}")
        inputs.show()

    return emit(Answer(body, show), as_json=as_json)


@app.command()
def disks(
    directory: Snapshot,
    directories: Annotated[
        int, typer.Option(min=1, max=1_000, help="Number of ledgerDirectories of a bookie.")
    ] = 4,
    config: Config = None,
    as_json: Json = False,
) -> int:
    """Estimate how evenly ledgers fill a bookie's directories."""
    read = pulsar_directory(directory, config)
    snapshot = load_snapshot(read)
    inputs = _filled(dict.fromkeys(_MEASURED, 0), LEDGER, read, None)
    rule = _rule(inputs.values)
    movable = snapshot.bundles.filter(pc.invert(snapshot.bundles["is_broker_bound"]))
    found = disk_picture(movable, rule, directories)
    if found is None:
        raise IncompleteSnapshotError(
            f"{directory} has no topics.", hint="Capture the cluster with its load data."
        )
    body = {
        "ledgers": found.ledgers,
        "rule": dataclasses.asdict(rule),
        "largest_to_mean": found.largest_ratio,
        "by_rate": [float(one) for one in found.uneven.size_bytes],
        "all_alike": [float(one) for one in found.even.size_bytes],
        "fullest_above_mean": found.uneven.unevenness,
        "fullest_above_mean_if_alike": found.even.unevenness,
    }

    def show() -> None:
        print_line(disks_words(found, directories))
        rows = [
            (str(number), format_bytes(size), str(ledgers))
            for number, (size, ledgers) in enumerate(
                zip(found.uneven.size_bytes, found.uneven.ledgers, strict=True)
            )
        ]
        table(("directory", "share", "ledgers"), rows)
        print_line(
            "Assumed: uniform topics in a bundle, one ledger each with a random number, all on "
            "one bookie."
        )

    return emit(Answer(body, show), as_json=as_json)


def _rule(held: Mapping[str, Number]) -> RolloverRule:
    return RolloverRule(
        min_minutes=float(held["managedLedgerMinLedgerRolloverTimeMinutes"]),
        max_minutes=float(held["managedLedgerMaxLedgerRolloverTimeMinutes"]),
        max_entries=int(held["managedLedgerMaxEntriesPerLedger"]),
        max_megabytes=int(held["managedLedgerMaxSizePerLedgerMbytes"]),
    )


def _filled(
    given: Mapping[str, Number | None],
    parameters: Sequence[AdvisorParameter],
    snapshot: Path | None,
    namespace: str | None,
) -> _Inputs:
    """Return the given values, else those of the snapshot, else the release's defaults.

    Args:
        given: Inputs by key, in the units of the page; ``None``: not given.
        parameters: The inputs.
        snapshot: Directory of the snapshot that fills what is not given.
        namespace: Namespace of the average topic.

    Raises:
        UsageFaultError: A rate is in neither.
    """
    live = _live(parameters, snapshot, namespace)
    values: dict[str, Number] = {}
    words: dict[str, str] = {}
    for parameter in parameters:
        value = given.get(parameter.key)
        if value is not None:
            values[parameter.key] = value
        elif parameter.key in live:
            values[parameter.key], words[parameter.key] = (
                live[parameter.key].value,
                live[parameter.key].words,
            )
        elif parameter.key in _MEASURED:
            raise UsageFaultError(
                "The rate or the throughput is missing.",
                hint="Pass --rate and --throughput, or --snapshot and --namespace.",
            )
        else:
            values[parameter.key] = parameter.value
    return _Inputs(values, words)


def _live(
    parameters: Sequence[AdvisorParameter], directory: Path | None, namespace: str | None
) -> dict[str, ClusterValue]:
    if directory is None:
        if namespace is not None:
            raise UsageFaultError(
                "--namespace needs a snapshot.", hint="Pass --snapshot with --namespace."
            )
        return {}
    snapshot = load_snapshot(directory)
    found = live_settings(active_settings(snapshot), parameters)
    if namespace is None:
        return found
    facts = namespace_facts(snapshot.bundles, namespace, snapshot.brokers.num_rows)
    if not facts.bundles:
        known = pc.unique(snapshot.bundles["namespace"]).to_pylist()
        raise UnknownNameError.of("namespace", namespace, known, place=str(directory))
    own = live_storage(snapshot, namespace)
    wanted = {parameter.key for parameter in parameters}
    found |= {key: one for key, one in own.items() if key in wanted}
    return found | live_ledger(facts, None)


@app.command()
def compaction(
    live: Annotated[float, typer.Option(metavar="SHARE", help="Live part of a log, 0 to 1.")],
    minor: Annotated[float, typer.Option(help="minorCompactionThreshold.")] = 0.2,
    major: Annotated[float, typer.Option(help="majorCompactionThreshold.")] = 0.8,
    as_json: Json = False,
) -> int:
    """Estimate the disk space that a bookie's compaction frees."""
    rule = CompactionRule(minor_threshold=minor, major_threshold=major)
    fate = fate_of_log(rule, live)
    body = {**dataclasses.asdict(fate), "dead_for_good_ratio": 1 - major}

    def show() -> None:
        within = "" if fate.within_s is None else f" within {format_age(fate.within_s)}"
        print_line(
            f"{_ACTIONS[fate.action]}{within}: {format_ratio(fate.freed_ratio)} of the log "
            f"is freed, {format_ratio(fate.rewritten_ratio)} is rewritten."
        )
        print_line(
            f"Up to {format_ratio(1 - major)} of the disk may be used by dead data permanently."
        )

    return emit(Answer(body, show), as_json=as_json)
