"""Last statistics, averages, ownership and boundaries to the table of bundles.

Columns throughout: the only loops over bundles are list comprehensions over decoded records.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from core.pulsar.snapshot.znodes.brokers import BrokerNames, Registry
from core.pulsar.snapshot.znodes.decode import decode_record, note_missing
from core.pulsar.snapshot.znodes.readings import BUNDLE_DATA, OWNERSHIP, Readings
from core.pulsar.snapshot.znodes.records import Averages, BundleData, BundleStats, Ownership
from core.schemas.pulsar import BUNDLES, RATES
from core.snapshot.problems import ProblemLog

_NAME: Final = re.compile(r"([^/]+/[^/]+(?:/[^/]+)?)/0x([0-9a-fA-F]{1,8})_0x([0-9a-fA-F]{1,8})\Z")
_STATS: Final = {
    **{name: name for name in RATES},
    "topic_count": "topics",
    "producer_count": "producer_count",
    "consumer_count": "consumer_count",
    "cache_size_bytes": "cache_size",
}
_EMPTY: Final = Averages()


@dataclass(slots=True)
class BundleStatistics:
    """Last statistics by bundle.

    Attributes:
        names: Bundles, each once.
        stats: Its statistics; an empty record where the broker names it without any.
        by: The broker whose report they are from.
        times: When that report was written, ms.
        twice: ``(bundle, broker, other broker)`` of the bundles that a second report names.
    """

    names: list[str] = field(default_factory=list)
    stats: list[BundleStats] = field(default_factory=list)
    by: list[str] = field(default_factory=list)
    times: list[int] = field(default_factory=list)
    twice: list[tuple[str, str, str]] = field(default_factory=list)


def parse_bundle_names(
    names: Iterable[str], place: str, problems: ProblemLog
) -> dict[str, tuple[str, int, int]]:
    """Return ``{bundle: (namespace, lower, upper)}``; a name that is none is a problem."""
    match = _NAME.match
    parsed: dict[str, tuple[str, int, int]] = {}
    for name in names:
        found = match(name)
        lower, upper = (int(found[2], 16), int(found[3], 16)) if found else (0, 0)
        if found is None or lower >= upper:
            problems.add(
                "malformed",
                place,
                f"{name[:100]!r} is not a bundle name.",
                done="It is skipped.",
                severity="error",
            )
            continue
        parsed[name] = (found[1], lower, upper)
    return parsed


def collect_reported(
    readings: Readings,
    registry: Registry,
    owners: Mapping[str, str],
    problems: ProblemLog,
) -> BundleStatistics:
    """Take each bundle's statistics from the report of its owner, else from the newest report.

    Right after a move the old owner's report still names the bundle, so several may.
    """
    out = BundleStatistics()
    row_of: dict[str, int] = {}
    for name, report in zip(registry.names, registry.reports, strict=True):
        entries: dict[str, BundleStats] = report.last_stats or {}
        _note_missing_stats(entries, readings.broker_path(name), problems)
        written = report.last_update or 0
        if row_of.keys().isdisjoint(entries):
            row_of |= {bundle: row for row, bundle in enumerate(entries, len(out.names))}
            out.names.extend(entries)
            out.stats.extend(entries.values())
            out.by.extend([name] * len(entries))
            out.times.extend([written] * len(entries))
        else:
            _merge_entries(out, row_of, entries, name, written, owners)
        for bundle in report.bundles or ():
            if bundle not in row_of:
                row_of[bundle] = len(out.names)
                out.names.append(bundle)
                out.stats.append(BundleStats())
                out.by.append(name)
                out.times.append(written)
    out.stats = [entry if entry is not None else BundleStats() for entry in out.stats]
    _note_twice(out, problems)
    return out


def _note_twice(out: BundleStatistics, problems: ProblemLog) -> None:
    if not out.twice:
        return
    bundle, one, other = out.twice[0]
    more = f" and {len(out.twice) - 1} more bundles" if len(out.twice) > 1 else ""
    problems.add(
        "inconsistent",
        "/loadbalance/brokers",
        f"Two brokers report {bundle} ({one} and {other}){more}.",
        done="It probably just moved; the owner's data is used, else the newest.",
        severity="info",
    )


def _merge_entries(
    out: BundleStatistics,
    row_of: dict[str, int],
    entries: Mapping[str, BundleStats],
    name: str,
    written: int,
    owners: Mapping[str, str],
) -> None:
    for bundle, stats in entries.items():
        row = row_of.get(bundle)
        if row is None:
            row_of[bundle] = len(out.names)
            out.names.append(bundle)
            out.stats.append(stats)
            out.by.append(name)
            out.times.append(written)
            continue
        out.twice.append((bundle, out.by[row], name))
        owner = owners.get(bundle)
        if out.by[row] != owner and (name == owner or written > out.times[row]):
            out.stats[row], out.by[row], out.times[row] = stats, name, written


def _note_missing_stats(
    entries: Mapping[str, BundleStats | None], place: str, problems: ProblemLog
) -> None:
    for bundle, stats in entries.items():
        if stats is None:
            continue  # malformed as a whole, and named as such
        if (
            stats.msg_rate_in is None
            or stats.msg_rate_out is None
            or stats.msg_throughput_in is None
            or stats.msg_throughput_out is None
            or stats.topics is None
            or stats.producer_count is None
            or stats.consumer_count is None
            or stats.cache_size is None
        ):
            note_missing(stats, place, problems, f"lastStats[{bundle}].")


def decode_owners(
    readings: Readings, brokers: BrokerNames, problems: ProblemLog
) -> tuple[dict[str, str], dict[str, bool]]:
    """Return bundle -> broker id from the ownership znodes; REST answers fill what they lack.

    Returns:
        The owners, and bundle -> whether its owner disabled it, where a znode has that.
    """
    owners = dict(readings.owners)
    disabled: dict[str, bool] = {}
    # a broker writes the same value for all its bundles
    by_value: dict[bytes, tuple[str | None, bool | None]] = {}
    for bundle, raw in readings.ownership.items():
        if raw not in by_value:
            by_value[raw] = _owner(raw, f"{OWNERSHIP}/{bundle}", brokers, problems)
        owner, is_disabled = by_value[raw]
        if is_disabled is not None:
            disabled[bundle] = is_disabled
        if owner is not None:
            owners[bundle] = owner
        else:
            # the shared value was named once; every bundle that has it is named here
            _note_unknown_owner(bundle, problems)
            readings.unread_owners.add(bundle)
    return owners, disabled


def _note_unknown_owner(bundle: str, problems: ProblemLog) -> None:
    problems.add(
        "malformed",
        f"{OWNERSHIP}/{bundle}",
        "It does not have the owner of the bundle.",
        done="The owner is unknown.",
        severity="error",
        subject="owner",
    )


def _owner(
    raw: bytes, place: str, brokers: BrokerNames, problems: ProblemLog
) -> tuple[str | None, bool | None]:
    record = decode_record(Ownership, raw, place, problems)
    if record is None:
        return None, None
    note_missing(record, place, problems)
    urls = (record.http_url, record.http_url_tls, record.native_url, record.native_url_tls)
    return brokers.find(urls), record.disabled


def decode_bundle_data(
    readings: Readings, problems: ProblemLog
) -> tuple[list[str], list[BundleData]]:
    """Decode the averages, noting what each lacks."""
    names: list[str] = []
    records: list[BundleData] = []
    for bundle, raw in readings.bundle_data.items():
        place = f"{BUNDLE_DATA}/{bundle}"
        record = decode_record(BundleData, raw, place, problems)
        if record is None:
            continue
        if not _is_whole(record):
            note_missing(record, place, problems)
        names.append(bundle)
        records.append(record)
    return names, records


def _is_whole(record: BundleData) -> bool:
    short, long = record.short_term_data, record.long_term_data
    return not (
        short is None
        or long is None
        or record.topics is None
        or None in (short.num_samples, short.msg_rate_in, short.msg_rate_out)
        or None in (short.msg_throughput_in, short.msg_throughput_out)
        or None in (long.num_samples, long.msg_rate_in, long.msg_rate_out)
        or None in (long.msg_throughput_in, long.msg_throughput_out)
    )


def bundles_table(
    parsed: Mapping[str, tuple[str, int, int]],
    *,
    owner_columns: Mapping[str, Sequence[Any]],
    bound: set[str],
    reported: BundleStatistics,
    averages: tuple[list[str], list[BundleData]],
) -> pa.Table:
    """Return the table of :data:`core.schemas.pulsar.BUNDLES`, sorted.

    Args:
        parsed: Every bundle there is: ``{bundle: (namespace, lower, upper)}``.
        owner_columns: ``owner`` and ``owner_source``, in the order of ``parsed``.
        bound: Heartbeat and SLA namespaces.
        reported: Last statistics.
        averages: Bundles and their averages.
    """
    names = pa.array(parsed, pa.string())
    parts = list(parsed.values())
    columns: dict[str, Any] = {
        "bundle": names,
        "namespace": pa.array([part[0] for part in parts], pa.string()),
        "lower": pa.array([part[1] for part in parts], pa.int64()),
        "upper": pa.array([part[2] for part in parts], pa.int64()),
        "is_broker_bound": pa.array([part[0] in bound for part in parts], pa.bool_()),
        **owner_columns,
    }
    rows = pc.index_in(names, value_set=pa.array(reported.names, pa.string()))
    columns["reported_by"] = pa.array(reported.by, pa.string()).take(rows)
    for ours, theirs in _STATS.items():
        kind = BUNDLES.field(ours).type
        values = list(map(attrgetter(theirs), reported.stats))
        columns[ours] = pa.array(values, kind).take(rows)
    columns |= _average_columns(names, *averages)
    table = pa.Table.from_pydict({name: columns[name] for name in BUNDLES.names}, schema=BUNDLES)
    keys = [("namespace", "ascending"), ("lower", "ascending"), ("upper", "ascending")]
    return table.sort_by(keys)


def _average_columns(
    names: pa.Array, averaged: list[str], records: list[BundleData]
) -> dict[str, pa.Array]:
    rows = pc.index_in(names, value_set=pa.array(averaged, pa.string()))
    columns = {"averaged_topic_count": pa.array([record.topics for record in records], pa.int64())}
    for term in ("short", "long"):
        terms = [getattr(record, f"{term}_term_data") or _EMPTY for record in records]
        for rate in RATES:
            columns[f"{term}_{rate}"] = pa.array(list(map(attrgetter(rate), terms)), pa.float64())
        columns[f"{term}_samples"] = pa.array([each.num_samples for each in terms], pa.int64())
    return {name: column.take(rows) for name, column in columns.items()}
