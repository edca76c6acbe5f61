"""The snapshot of the files that a person named."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from connectors.pulsar.admin.parse import BrokerTopics, stub_report, topics_table
from connectors.pulsar.collect import settings_table
from connectors.pulsar.metrics.capture import metric_tables
from connectors.pulsar.metrics.found import MetricValues
from connectors.pulsar.metrics.scrape import exposed, note_exposed
from connectors.pulsar.outputs.gather import ClusterReadings, GivenFile, TakenFile, gather
from connectors.pulsar.outputs.kinds import FORMS, Kind, parts_of
from core.errors import InputError
from core.pulsar.snapshot.input_files import read_input
from core.pulsar.snapshot.znodes import assemble
from core.pulsar.snapshot.znodes.assemble import SnapshotTables, decode_dynamic
from core.pulsar.snapshot.znodes.brokers import decode_registry, version_of
from core.snapshot.model import Manifest, PulsarSnapshot, TableManifest
from core.snapshot.problems import ProblemLog
from core.units import datetime_to_ms, ms_to_datetime

_LACKS: Final[tuple[tuple[frozenset[Kind], str], ...]] = (
    (
        frozenset(("load_report", "dump")),
        "Load of the brokers: add `pulsar-admin broker-stats load-report` of each broker.",
    ),
    (
        frozenset(("runtime", "dump")),
        "Settings in broker.conf: add `pulsar-admin brokers get-runtime-config`.",
    ),
    (
        frozenset(("dynamic", "dump")),
        "Dynamic settings: add `pulsar-admin brokers get-all-dynamic-config`.",
    ),
    (frozenset(("leader", "dump")), "The leader: add `pulsar-admin brokers leader-broker`."),
    (
        frozenset(("isolation", "isolation_policy", "dump")),
        "Isolation policies: add `pulsar-admin ns-isolation-policy list CLUSTER`.",
    ),
    (
        frozenset(("bundles", "policies", "dump")),
        "Boundaries of bundles: add `pulsar-admin namespaces bundles` of each namespace.",
    ),
    (
        frozenset(("dump",)),
        "Long-term averages and quotas of bundles are only in ZooKeeper: import a dump.",
    ),
)
"""What is unknown unless one of these kinds was given."""


@dataclass(frozen=True, slots=True)
class ImportResult:
    """A snapshot of files.

    Attributes:
        snapshot: The snapshot.
        files: What each file was, in the order in which they were named.
    """

    snapshot: PulsarSnapshot
    files: tuple[TakenFile, ...]


def import_outputs(paths: Sequence[Path], cluster: str, now: datetime) -> ImportResult:
    """Make one snapshot out of several files.

    Args:
        paths: Outputs of ``pulsar-admin``, Prometheus text of brokers, ZooKeeper dumps.
        cluster: Trimtab's name for the cluster.
        now: The present, aware UTC: the snapshot's moment where no load report tells another.
    Raises:
        InputError: A file cannot be read, is not recognized, or does not show what it is about.
    """
    problems = ProblemLog()
    made = gather((_given(path) for path in paths), problems)
    readings = made.readings
    for broker, own in made.runtime.items():
        if not readings.brokers.get(broker):
            readings.brokers[broker] = stub_report(f"http://{broker}", own)
    found = _metrics(made, now, problems)
    for broker in found.brokers:
        readings.brokers.setdefault(broker, b"")
    for broker, raw in readings.brokers.items():
        if not raw:
            problems.add(
                "missing", f"load report of {broker}", "It is missing.", done="Load is unknown."
            )
    registry = decode_registry(readings, problems)
    assembled = assemble(readings, problems, registry)
    versions = dict.fromkeys(made.runtime, registry.release) | {
        name: version_of(report) or registry.release
        for name, report in zip(registry.names, registry.reports, strict=True)
    }
    tables = dict(assembled.tables)
    if made.runtime:
        dynamic = decode_dynamic(readings.dynamic, ProblemLog())
        tables["settings"] = settings_table(made.runtime, versions, dynamic, problems)
    tables |= metric_tables(found, datetime_to_ms(now))
    if made.topics:
        tables["topics"] = pa.concat_tables(_topics(made)).sort_by("hash")
    manifest = Manifest(
        cluster=cluster,
        taken_at=_moment(tables["brokers"], made.newest_at, now),
        tables=_manifests(assembled, tables, is_dump="dump" in made.kinds),
        pulsar_cluster=readings.pulsar_cluster,
        load_manager=assembled.load_manager,
        leader=assembled.leader,
        release=assembled.release,
        problems=problems.named(),
        unavailable=(*assembled.unavailable, *_lacking(made)),
    )
    return ImportResult(PulsarSnapshot.build(manifest, tables), tuple(made.files))


def _given(path: Path) -> GivenFile:
    body = read_input(path, FORMS)
    return GivenFile(path, body, parts_of(body, str(path)))


def _metrics(made: ClusterReadings, now: datetime, problems: ProblemLog) -> MetricValues:
    found = MetricValues("scrape")
    for broker, body in made.metrics.items():
        try:
            one = exposed(body, now.timestamp())
        except ValueError as exc:
            reason = " ".join(str(exc).split())[:120].rstrip(".")
            raise InputError(
                f"The metrics of {broker} are damaged: {reason}.",
                hint="Save the complete output again.",
            ) from exc
        note_exposed(found, broker, None, one)
        if one.skipped:
            problems.add(
                "budget",
                f"metrics of {broker}",
                f"{one.skipped:,} lines of topics or bundles were skipped.",
                done="Write latencies or bundle rates are unknown.",
                severity="info",
            )
    return found


def _topics(made: ClusterReadings) -> Iterable[pa.Table]:
    for answer in made.topics:
        try:
            decoded = msgspec.json.decode(msgspec.json.encode(answer), type=BrokerTopics)
            yield topics_table(decoded, None)
        except msgspec.ValidationError as exc:
            raise InputError(
                f"The topics are damaged: {str(exc).rstrip('.')}.",
                hint="Print `pulsar-admin broker-stats topics` again.",
            ) from exc


def _moment(brokers: pa.Table, newest_at: int, now: datetime) -> datetime:
    newest = max(pc.max(brokers["reported_at"]).as_py() or 0, newest_at)
    return ms_to_datetime(newest) if 0 < newest <= datetime_to_ms(now) else now


def _manifests(
    assembled: SnapshotTables, tables: dict[str, pa.Table], *, is_dump: bool
) -> dict[str, TableManifest]:
    return {
        name: TableManifest(
            source="dump" if is_dump else "file" if table.num_rows else "none",
            rows=table.num_rows,
            expected=assembled.expected.get(name),
            oldest_at=assembled.oldest_at.get(name),
        )
        for name, table in tables.items()
    }


def _lacking(made: ClusterReadings) -> list[str]:
    return [sentence for kinds, sentence in _LACKS if not kinds & made.kinds]
