"""Readings to the tables and facts of a snapshot."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from types import MappingProxyType
from typing import Any, Final

import msgspec
import pyarrow as pa

from core.ids import is_broker_bound, tenant_of
from core.pulsar.snapshot.znodes import brokers as broker_znodes
from core.pulsar.snapshot.znodes import bundles as bundle_znodes
from core.pulsar.snapshot.znodes import namespaces as namespace_znodes
from core.pulsar.snapshot.znodes.brokers import Registry
from core.pulsar.snapshot.znodes.bundles import BundleStatistics
from core.pulsar.snapshot.znodes.decode import UNREADABLE
from core.pulsar.snapshot.znodes.readings import (
    BROKER_AVERAGES,
    BROKERS,
    BUNDLE_DATA,
    CONFIGURATION,
    Readings,
    ZnodeOwnership,
)
from core.schemas.pulsar import CLAIMS, SETTINGS
from core.snapshot.model import LoadManager
from core.snapshot.problems import ProblemLog
from core.units import pluralize

EXTENSIBLE_LACKS: Final = (
    "Usage and traffic of brokers are not available: the extensible load "
    "manager stores them in system topics, not in ZooKeeper or REST, and "
    "not all of those were read. The same applies to bundle traffic; "
    "averages are not stored."
)
OWNERS_LACK: Final = (
    "Bundle owners are not available: with the extensible load manager "
    "only the brokers' REST reports them, and not every broker answered "
    "(or no admin URL is configured)."
)
SIMPLE_LACKS: Final = (
    "Load and bundles are not available: SimpleLoadManagerImpl is a legacy load manager that "
    "Trimtab does not support; only its brokers are listed."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotTables:
    """Tables and facts.

    Attributes:
        tables: By name; ``topics`` is not among them.
        load_manager: Which one the brokers run.
        leader: Broker id.
        release: Most common version.
        unavailable: Sentences about what this load manager does not have.
        expected: Table name -> rows that there should be.
        oldest_at: Table name -> oldest reading in it, ms since the epoch.
    """

    tables: dict[str, pa.Table]
    load_manager: LoadManager
    leader: str | None
    release: str | None
    unavailable: tuple[str, ...]
    expected: dict[str, int]
    oldest_at: dict[str, int]


def assemble(
    readings: Readings, problems: ProblemLog, registry: broker_znodes.Registry | None = None
) -> SnapshotTables:
    """Make the tables out of raw values; never raises for what is in them.

    Args:
        readings: Raw values.
        problems: Where to note everything that is wrong in them.
        registry: The decoded registry znodes, when they are at hand already.
    """
    registry = registry or broker_znodes.decode_registry(readings, problems)
    leader = broker_znodes.leader_of(readings, problems)
    spaces = namespace_znodes.decode_spaces(readings, problems)
    owners, disabled = bundle_znodes.decode_owners(
        readings, broker_znodes.BrokerNames(registry), problems
    )
    reported = bundle_znodes.collect_reported(readings, registry, owners, problems)
    averages = bundle_znodes.decode_bundle_data(readings, problems)
    parsed = _all_bundles(spaces, owners, reported, averages[0], problems)
    bound = {part[0] for part in parsed.values() if is_broker_bound(part[0])}
    tables = {
        "brokers": broker_znodes.brokers_table(
            readings,
            registry,
            leader=leader,
            domains=namespace_znodes.domains_by_broker(readings, problems),
            problems=problems,
        ),
        "bundles": bundle_znodes.bundles_table(
            parsed,
            owner_columns=_owner_columns(readings, parsed, owners, reported),
            bound=bound,
            reported=reported,
            averages=averages,
        ),
        "namespaces": namespace_znodes.namespaces_table(
            {part[0] for part in parsed.values()} | spaces.boundaries.keys() | spaces.named, spaces
        ),
        "policies": namespace_znodes.policies_table(readings, spaces, problems),
        "settings": dynamic_settings(readings, problems),
        "claims": claims_table(readings, registry, owners, disabled, reported, leader),
    }
    manager = registry.load_manager
    return SnapshotTables(
        tables=tables,
        load_manager=manager,
        leader=leader,
        release=registry.release,
        unavailable=_unavailable(registry, problems, owners_known=readings.owners_known),
        expected=_expected(tables),
        oldest_at=_oldest(tables),
    )


def _all_bundles(
    spaces: namespace_znodes.NamespaceColumns,
    owners: dict[str, str],
    reported: bundle_znodes.BundleStatistics,
    averaged: list[str],
    problems: ProblemLog,
) -> dict[str, tuple[str, int, int]]:
    """Return every bundle there is: by boundaries where they are known, else those seen."""
    parsed: dict[str, tuple[str, int, int]] = {}
    for namespace, bounds in spaces.boundaries.items():
        names = namespace_znodes.bundle_names(namespace, bounds)
        ranges = [(namespace, low, high) for low, high in pairwise(bounds)]
        parsed.update(zip(names, ranges, strict=True))
    known = set(spaces.boundaries)
    sources: tuple[tuple[str, Iterable[str]], ...] = (
        ("ownership of bundles", owners),
        ("lastStats of the load reports", reported.names),
    )
    for place, named in sources:
        new = [name for name in named if name not in parsed]
        seen = bundle_znodes.parse_bundle_names(new, place, problems)
        for name, part in seen.items():
            if part[0] in known:
                _note_stale(name, place, problems)
            else:
                parsed[name] = part
    parsed |= _averaged_only(spaces, parsed, averaged, problems)
    unknown = namespace_znodes.complete_from_names(
        spaces, parsed, expect_all=bool(spaces.boundaries)
    )
    for namespace in sorted(unknown):
        problems.add(
            "missing",
            f"boundaries of {namespace}",
            "Bundles of it were observed, but no policies list its bundles.",
            done="Only the observed bundles are listed.",
        )
    return parsed


def _averaged_only(
    spaces: namespace_znodes.NamespaceColumns,
    parsed: dict[str, tuple[str, int, int]],
    averaged: list[str],
    problems: ProblemLog,
) -> dict[str, tuple[str, int, int]]:
    """Return the bundles that only averages name; those of no namespace are left over.

    Averages outlive their bundle: the leader deletes them neither after every split nor with the
    namespace.
    """
    new = [name for name in averaged if name not in parsed]
    seen = bundle_znodes.parse_bundle_names(new, "names of bundle averages", problems)
    listed = {*spaces.boundaries, *spaces.named, *(part[0] for part in parsed.values())}
    is_listing = bool(spaces.boundaries)
    left = {
        name: part
        for name, part in seen.items()
        if part[0] in spaces.boundaries or (is_listing and part[0] not in listed)
    }
    if left:
        namespaces = sorted({part[0] for part in left.values()})
        named = ", ".join(namespaces[:_NAMED])
        more = f" and {len(namespaces) - _NAMED} more namespaces" if namespaces[_NAMED:] else ""
        problems.add(
            "leftover",
            BUNDLE_DATA,
            f"It has averages of {pluralize(len(left), 'bundle')} that no policies list, of "
            f"{named}{more}.",
            done="Left over from splits or deleted namespaces: no lookup assigns them.",
            severity="info",
        )
    return {name: part for name, part in seen.items() if name not in left}


_NAMED: Final = 3


def _note_stale(bundle: str, place: str, problems: ProblemLog) -> None:
    problems.add(
        "inconsistent",
        place,
        f"{bundle} is no longer, or not yet, among the bundles of its namespace.",
        done="A split just happened, or left it over; the namespace's own boundaries apply.",
        severity="info",
    )


def _owner_columns(
    readings: Readings,
    parsed: dict[str, tuple[str, int, int]],
    owners: dict[str, str],
    reported: bundle_znodes.BundleStatistics,
) -> dict[str, list[Any]]:
    """Return ``owner`` and ``owner_source``: ownership or REST, else the report, else unknown."""
    unread = readings.unread_owners
    may_guess = not readings.owners_known or bool(unread)
    by_report = dict(zip(reported.names, reported.by, strict=True)) if may_guess else {}
    holders: list[str | None] = []
    sources: list[str | None] = []
    read_from = "rest" if readings.owners and not readings.ownership else "ownership"
    for name, part in parsed.items():
        owner = owners.get(name)
        source: str | None = read_from
        if owner is None and (not readings.owners_known or _is_unread(name, part[0], unread)):
            owner = by_report.get(name)
            source = None if owner is None else "report"
        holders.append(owner)
        sources.append(source)
    return {"owner": holders, "owner_source": sources}


def _is_unread(bundle: str, namespace: str, unread: set[str]) -> bool:
    return bool(unread) and not unread.isdisjoint((bundle, namespace, tenant_of(namespace)))


def _unavailable(
    registry: broker_znodes.Registry, problems: ProblemLog, *, owners_known: bool
) -> tuple[str, ...]:
    manager = registry.load_manager
    if manager == "mixed":
        kinds = sorted({kind for kind in registry.kinds if kind != "unknown"})
        problems.add(
            "inconsistent",
            BROKERS,
            f"Brokers run different load managers: {', '.join(kinds)}.",
            done="Bundles are placed only among brokers of the same load manager.",
        )
    lacks: list[str] = []
    if "extensible" in registry.kinds:
        lacks.append(EXTENSIBLE_LACKS)
        lacks += [] if owners_known else [OWNERS_LACK]
    if "simple" in registry.kinds:
        lacks.append(SIMPLE_LACKS)
        problems.add(
            "unsupported",
            BROKERS,
            "Brokers run the legacy SimpleLoadManagerImpl.",
            done="Their load and bundles are not read.",
            severity="error",
        )
    return tuple(lacks)


def _expected(tables: dict[str, pa.Table]) -> dict[str, int]:
    """Return the rows there should be: of bundles only where every namespace's ring is known."""
    expected = {name: tables[name].num_rows for name in ("brokers", "namespaces")}
    if tables["namespaces"].column("boundaries").null_count == 0:
        expected["bundles"] = tables["bundles"].num_rows
    return expected


def _oldest(tables: dict[str, pa.Table]) -> dict[str, int]:
    reported = [at for at in tables["brokers"].column("reported_at").to_pylist() if at]
    return dict.fromkeys(("brokers", "bundles"), min(reported)) if reported else {}


def dynamic_settings(readings: Readings, problems: ProblemLog) -> pa.Table:
    """Return the dynamic settings as rows; their values are texts, not validated."""
    rows = [
        {"broker": None, "name": name, "value": value, "origin": "dynamic"}
        for name, value in sorted(decode_dynamic(readings.dynamic, problems).items())
    ]
    return pa.Table.from_pylist(rows, schema=SETTINGS)


def decode_dynamic(raw: bytes | None, problems: ProblemLog) -> dict[str, str]:
    """Return the dynamic settings; a value that is no text is a problem."""
    if raw is None:
        return {}
    try:
        stored = msgspec.json.decode(raw, type=dict[str, object])
    except UNREADABLE:
        problems.add(
            "malformed",
            CONFIGURATION,
            "It is not a JSON object.",
            done="Dynamic settings are unknown; defaults are assumed.",
            severity="error",
        )
        return {}
    for name, value in stored.items():
        if not isinstance(value, str):
            problems.add(
                "malformed",
                CONFIGURATION,
                f"Setting {name} is not a string.",
                done="It is skipped.",
                subject=name,
            )
    return {name: value for name, value in stored.items() if isinstance(value, str)}


def claims_table(
    readings: Readings,
    registry: Registry,
    owners: Mapping[str, str],
    disabled: Mapping[str, bool],
    reported: BundleStatistics,
    leader: str | None,
) -> pa.Table:
    """Return the table of :data:`core.schemas.pulsar.CLAIMS`, sorted.

    Args:
        readings: Raw values with how their znodes are held.
        registry: The brokers.
        owners: Bundle -> broker id.
        disabled: Bundle -> whether its owner disabled it.
        reported: Last statistics, with the bundles that several reports name.
        leader: Broker id.
    """
    # a dump may lack how znodes are held: whether a bundle is disabled is in it all the same
    held = dict.fromkeys(readings.ownership, _UNKNOWN) | readings.ownership_held
    brokers = [name for name in registry.names if name in readings.brokers_held]
    parts = [
        _znodes("bundle", list(held), [owners.get(name) for name in held], held.values(), disabled),
        _znodes("broker", brokers, brokers, [readings.brokers_held[name] for name in brokers]),
    ]
    if readings.leader_held is not None:
        parts.append(_znodes("leader", [readings.leader_place], [leader], [readings.leader_held]))
    parts.append(_reports(registry, reported))
    parts.append(_written(readings))
    keys = [(name, "ascending") for name in ("subject_kind", "subject", "source", "broker")]
    return pa.concat_tables(parts).sort_by(keys)


_UNKNOWN: Final = ZnodeOwnership(None, None)


def _znodes(
    kind: str,
    subjects: list[str],
    brokers: Iterable[str | None],
    held: Iterable[ZnodeOwnership],
    disabled: Mapping[str, bool] = MappingProxyType({}),
) -> pa.Table:
    found = list(held)
    return pa.Table.from_pydict(
        {
            "subject_kind": [kind] * len(subjects),
            "subject": subjects,
            "source": ["znode"] * len(subjects),
            "broker": list(brokers),
            "session_id": [one.session_id for one in found],
            "created_at": [one.created_at for one in found],
            "reported_at": pa.nulls(len(subjects), pa.int64()),
            "modified_at": [one.modified_at for one in found],
            "is_disabled": [disabled.get(name) for name in subjects],
        },
        schema=CLAIMS,
    )


SELF_WRITTEN_MS: Final = 60_000
"""A broker writes empty averages of its own within this of its registration, when it starts."""


def _written(readings: Readings) -> pa.Table:
    """Return the times of the leader's last averages: one row for bundles, one for brokers."""
    held = readings.brokers_held
    own = {name: held[name].created_at or 0 for name in held}
    by_leader = [
        at
        for name, at in readings.averages_written.items()
        if not 0 <= at - own.get(name, 0) <= SELF_WRITTEN_MS
    ]
    newest = {
        BUNDLE_DATA: readings.bundle_data_written,
        BROKER_AVERAGES: max(by_leader, default=None),
    }
    rows = [
        {"subject_kind": "averages", "subject": path, "source": "written", "modified_at": at}
        for path, at in newest.items()
        if at
    ]
    return pa.Table.from_pylist(rows, schema=CLAIMS)


def _reports(registry: Registry, reported: BundleStatistics) -> pa.Table:
    """Return a row for each report that names a bundle which another one names too."""
    times = {
        name: report.last_update
        for name, report in zip(registry.names, registry.reports, strict=True)
    }
    pairs = {(bundle, by) for bundle, *both in reported.twice for by in both}
    rows = [
        {
            "subject_kind": "bundle",
            "subject": bundle,
            "source": "report",
            "broker": by,
            "reported_at": times.get(by),
        }
        for bundle, by in sorted(pairs)
    ]
    return pa.Table.from_pylist(rows, schema=CLAIMS)
