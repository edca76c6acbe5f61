"""Sessions behind the znodes, and bundles that two reports name, to the table of claims."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pyarrow as pa

from core.schemas.pulsar import CLAIMS
from core.snapshot.znodes.brokers import Registry
from core.snapshot.znodes.bundles import Reported
from core.snapshot.znodes.readings import Held, Readings


def claims_table(
    readings: Readings,
    registry: Registry,
    owners: Mapping[str, str],
    reported: Reported,
    leader: str | None,
) -> pa.Table:
    """Return the table of :data:`core.schemas.pulsar.CLAIMS`, sorted.

    Args:
        readings: Raw values with how their znodes are held.
        registry: The brokers.
        owners: Bundle -> broker id.
        reported: Last statistics, with the bundles that several reports name.
        leader: Broker id.
    """
    held = readings.ownership_held
    brokers = [name for name in registry.names if name in readings.brokers_held]
    parts = [
        _znodes("bundle", list(held), [owners.get(name) for name in held], held.values()),
        _znodes("broker", brokers, brokers, [readings.brokers_held[name] for name in brokers]),
    ]
    if readings.leader_held is not None:
        parts.append(_znodes("leader", [readings.leader_place], [leader], [readings.leader_held]))
    parts.append(_reports(registry, reported))
    keys = [(name, "ascending") for name in ("subject_kind", "subject", "source", "broker")]
    return pa.concat_tables(parts).sort_by(keys)


def _znodes(
    kind: str, subjects: list[str], brokers: Iterable[str | None], held: Iterable[Held]
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
        },
        schema=CLAIMS,
    )


def _reports(registry: Registry, reported: Reported) -> pa.Table:
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
