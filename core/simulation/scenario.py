"""What-ifs: the fleet with brokers more or fewer, before anything is shed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from core.arrays import column_values
from core.errors import InputError, UnknownNameError
from core.ids import host_of
from core.pulsar.bundle_counts import Ints
from core.pulsar.isolation import parse_failure_domains
from core.pulsar.load_transfer import usage_per_byte
from core.pulsar.placement.model import PlacedInTurn
from core.pulsar.plan.outcomes import Scenario
from core.pulsar.plan.project import project_scenario
from core.pulsar.view import LoadView
from core.schemas.pulsar import BROKERS, RATES, RESOURCES
from core.simulation.managers import Manager
from core.simulation.model import SimulatedMove, WhatIf
from core.snapshot import PulsarSnapshot

_BUSY: Final = ("cpu", "memory", "direct_memory")
_COPIED: Final = (
    *("version", "load_manager", "persistent_topics_enabled", "non_persistent_topics_enabled"),
    *(f"{resource}_limit" for resource in RESOURCES),
)


@dataclass(frozen=True, slots=True)
class FleetAfterFailure:
    """The fleet after brokers went.

    Attributes:
        snapshot: The fleet.
        moves: Where their bundles are now, in the order of the lookups.
        rows: Row that each of those had in the bundles table before; shape ``(n_moves,)``.
    """

    snapshot: PulsarSnapshot
    moves: tuple[SimulatedMove, ...]
    rows: Ints


def with_brokers(snapshot: PulsarSnapshot, added: Iterable[str]) -> PulsarSnapshot:
    """Return the fleet with more brokers: no bundles, limits and versions as most have.

    Usage without traffic is what the others' usage comes to when their traffic is taken off.

    Raises:
        InputError: A broker that is there already, or a name without a port.
    """
    names = list(dict.fromkeys(added))
    if not names:
        return snapshot
    there = set(snapshot.brokers["broker"].to_pylist())
    for name in names:
        if name in there or not host_of(name):
            word = "already exists" if name in there else "is not a broker id"
            raise InputError(
                f"{name!r} {word}.", hint="An added broker needs its own host:webPort."
            )
    template = _template(snapshot)
    rows = [template | {"broker": name, "web_url": f"http://{name}"} for name in names]
    joined = pa.concat_tables([snapshot.brokers, pa.Table.from_pylist(rows, schema=BROKERS)])
    tables = {**snapshot.tables, "brokers": joined.sort_by("broker")}
    return PulsarSnapshot.build(snapshot.manifest, tables)


def joined(before: PulsarSnapshot, grown: PulsarSnapshot) -> set[str]:
    """Return the brokers that joined."""
    names = set(grown.brokers["broker"].to_pylist())
    return names.difference(before.brokers["broker"].to_pylist())


def _template(snapshot: PulsarSnapshot) -> dict[str, Any]:
    """One row of a broker that just started."""
    brokers = snapshot.brokers
    row: dict[str, Any] = {name: _most_common(brokers[name]) for name in _COPIED}
    traffic = column_values(brokers, "msg_throughput_in") + column_values(
        brokers, "msg_throughput_out"
    )
    for resource in RESOURCES:
        usage = column_values(brokers, f"{resource}_usage")
        idle = 0.0
        if resource in _BUSY:
            slope = usage_per_byte(usage, traffic) or 0.0
            rest = usage - slope * traffic
            rest = rest[np.isfinite(rest)]
            idle = max(float(np.median(rest)), 0.0) if rest.size else 0.0
        limit = row[f"{resource}_limit"]
        row |= {f"{resource}_usage": idle, f"{resource}_ratio": idle / limit if limit else None}
    counts = ("topic_count", "bundle_count", "producer_count", "consumer_count")
    zero = (*RATES, *(f"{term}_{rate}" for term in ("short", "long") for rate in RATES))
    return (
        row
        | dict.fromkeys(counts, 0)
        | dict.fromkeys(zero, 0.0)
        | {
            "is_leader": False,
            "reported_at": pc.max(brokers["reported_at"]).as_py(),
        }
    )


def _most_common(column: pa.ChunkedArray) -> Any:
    counted = pc.value_counts(column.drop_null().combine_chunks())
    rows = sorted(counted.to_pylist(), key=lambda item: -item["counts"])
    return rows[0]["values"] if rows else None


def gone_brokers(snapshot: PulsarSnapshot, what_if: WhatIf) -> list[str]:
    """Return the brokers that go, each once.

    Raises:
        UnknownNameError: A broker or a domain that is not there.
        InputError: No broker would be left.
    """
    known = snapshot.brokers["broker"].to_pylist()
    domains = _domains(snapshot)
    names = [*what_if.failed, *what_if.removed]
    for name in names:
        if name not in known:
            raise UnknownNameError.of("broker", name, known, place="the snapshot")
    for domain in what_if.failed_domains:
        members = [name for name in known if domains.get(name) == domain]
        if not members:
            raise UnknownNameError.of("failure domain", domain, set(domains.values()))
        names += members
    gone = list(dict.fromkeys(names))
    if gone and len(gone) == len(known):
        raise InputError("No broker would be left.", hint="Keep at least one.")
    return gone


def _domains(snapshot: PulsarSnapshot) -> dict[str, str]:
    brokers = snapshot.brokers
    pairs = zip(brokers["broker"].to_pylist(), brokers["failure_domain"].to_pylist(), strict=True)
    return {name: domain for name, domain in pairs if domain} | parse_failure_domains(
        snapshot.policies
    )


def without_brokers(
    snapshot: PulsarSnapshot,
    view: LoadView,
    gone: Sequence[str],
    manager: Manager,
    rng: np.random.Generator,
) -> FleetAfterFailure:
    """Return the fleet after some brokers went; their bundles are looked up one after the other.

    Args:
        snapshot: Before; of the bundles those that the view has, in the same rows.
        view: Load of the cluster; all bundles of the brokers that go are in it.
        gone: Brokers.
        manager: Who picks.
        rng: For the draws; lookups come in random order.
    """
    leaving = np.zeros(len(view.brokers), np.bool_)
    leaving[[view.broker_row(name) for name in gone]] = True
    rows = np.flatnonzero(np.append(leaving, False)[view.owner] & ~view.is_broker_bound)
    rows = rng.permutation(rows)
    ends = _placed_anew(view, manager, rows, ~leaving, rng)
    after = project_scenario(snapshot, rows, Scenario(1.0, ends)) if rows.size else snapshot
    moves = tuple(
        SimulatedMove(
            bundle=str(view.bundles[row]), source=view.brokers[view.owner[row]], destination=end
        )
        for row, end in zip(rows.tolist(), ends, strict=True)
    )
    return FleetAfterFailure(_dropped(after, gone), moves, rows)


def _placed_anew(
    view: LoadView,
    manager: Manager,
    rows: np.ndarray,
    available: np.ndarray,
    rng: np.random.Generator,
) -> tuple[str | None, ...]:
    """Look bundles up one by one."""
    placed = PlacedInTurn(view)
    ends: list[str | None] = []
    for row in rows.tolist():
        found = manager.lookup(view, row, placed, available)
        names = sorted(found)
        chances = np.array([found[name] for name in names])
        if not names or chances.sum() <= 0:
            ends.append(None)
            continue
        end = names[int(rng.choice(len(names), p=chances / chances.sum()))]
        placed.add(row, end)
        ends.append(end)
    return tuple(ends)


def _dropped(snapshot: PulsarSnapshot, gone: Sequence[str]) -> PulsarSnapshot:
    """Drop the brokers; bundles that only they may have (heartbeats) go with them."""
    names = pa.array(gone, pa.string())
    brokers = snapshot.brokers.filter(pc.invert(pc.is_in(snapshot.brokers["broker"], names)))
    owned = pc.fill_null(pc.is_in(snapshot.bundles["owner"], names), fill_value=False)
    tables = {
        **snapshot.tables,
        "brokers": brokers,
        "bundles": snapshot.bundles.filter(pc.invert(owned)),
    }
    return PulsarSnapshot.build(snapshot.manifest, tables)
