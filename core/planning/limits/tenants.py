"""Tenants: what their namespaces carry together, and what their limits allow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from core.planning.limits.groups import GroupUse, group_uses
from core.planning.limits.namespaces import Floats, NamespaceUse, namespace_use
from core.planning.limits.rates import RateLimit, rate_limits
from core.schemas.pulsar import RATES
from core.snapshot import PulsarSnapshot

BOUNDED: Final[Mapping[str, tuple[str, str]]] = {
    "publish_msgs": ("publish_rate", "publishThrottlingRateInMsg"),
    "publish_bytes": ("publish_rate", "publishThrottlingRateInByte"),
}
"""Quantity of resource groups to the rate of namespaces that bounds the same."""

_COLUMNS: Final = {"publish_msgs": "msg_rate_in", "publish_bytes": "msg_throughput_in"}


@dataclass(frozen=True, kw_only=True)
class Bound:
    """Sum of the limits of a tenant's namespaces, for one quantity.

    Attributes:
        limit: Per second; ``None`` if at least one namespace has none.
        used: Per second, now.
        unlimited: Namespaces without any limit.
        shared_groups: Groups whose limit it shares with other tenants.
    """

    limit: float | None
    used: float
    unlimited: tuple[str, ...]
    shared_groups: tuple[str, ...]

    @property
    def ratio(self) -> float | None:
        """Use as a share of the limit, ``None`` without one."""
        return self.used / self.limit if self.limit else None


@dataclass(frozen=True, kw_only=True)
class TenantUse:
    """One tenant.

    Attributes:
        name: Name.
        namespaces: Names.
        rates: By column of :data:`core.schemas.pulsar.RATES`, messages/s and bytes/s.
        bundles: How many.
        topics: Loaded.
        silent: Bundles with an owner and without reported traffic.
        storage_bytes: Of the topics that were read; ``None`` if none was.
        share: Of the fleet's traffic in bytes, in and out; 0..1.
        bounds: By key of :data:`BOUNDED`.
        groups: Resource groups of its namespaces.
    """

    name: str
    namespaces: tuple[str, ...]
    rates: Mapping[str, float]
    bundles: int
    topics: int
    silent: int
    storage_bytes: float | None
    share: float
    bounds: Mapping[str, Bound]
    groups: tuple[str, ...]


def tenant_uses(snapshot: PulsarSnapshot) -> list[TenantUse]:
    """Return every tenant, the one with the largest share of the traffic first.

    A namespace may publish its own limit times its topics, as brokers limit each topic; a group's
    limit caps all its namespaces together. A group that other tenants use too counts whole, and is
    named.

    Args:
        snapshot: The cluster.
    """
    use = namespace_use(snapshot)
    groups = {one.name: one for one in group_uses(snapshot, use)}
    limits = rate_limits(snapshot, use)
    own = {key: _own_bounds(use, limits, field) for key, (_, field) in BOUNDED.items()}
    traffic = use.rate("msg_throughput_in") + use.rate("msg_throughput_out")
    whole = float(traffic.sum())
    found = []
    for tenant in sorted(set(use.tenants)):
        rows = [row for row, name in enumerate(use.tenants) if name == tenant]
        stored = use.storage_bytes[rows]
        found.append(
            TenantUse(
                name=tenant,
                namespaces=tuple(use.namespaces[row] for row in rows),
                rates={name: float(use.rate(name)[rows].sum()) for name in RATES},
                bundles=int(use.bundles[rows].sum()),
                topics=int(use.topics[rows].sum()),
                silent=int(use.silent[rows].sum()),
                storage_bytes=float(np.nansum(stored)) if np.isfinite(stored).any() else None,
                share=float(traffic[rows].sum()) / whole if whole else 0.0,
                bounds={key: _bound(use, rows, groups, key, own[key]) for key in BOUNDED},
                groups=tuple(sorted({name for row in rows if (name := use.groups[row])})),
            )
        )
    return sorted(found, key=lambda one: (-one.share, one.name))


def _own_bounds(use: NamespaceUse, limits: Sequence[RateLimit], field: str) -> Floats:
    """Joint publish limit of each namespace's topics, NaN if unlimited."""
    found = np.full(len(use.namespaces), np.nan)
    rows = {name: row for row, name in enumerate(use.namespaces)}
    for limit in limits:
        if limit.field == field and limit.limit > 0:
            row = rows[limit.namespace]
            found[row] = limit.limit * max(int(use.topics[row]), 1)
    return found


def _bound(
    use: NamespaceUse,
    rows: Sequence[int],
    groups: Mapping[str, GroupUse],
    quantity: str,
    own: Floats,
) -> Bound:
    total = 0.0
    unlimited: list[str] = []
    shared: list[str] = []
    by_group: dict[str | None, list[int]] = {}
    for row in rows:
        name = use.groups[row]
        is_capped = name is not None and groups[name].limits[quantity] > 0
        by_group.setdefault(name if is_capped else None, []).append(row)
    for name, members in by_group.items():
        mine = float(own[members].sum())  # NaN as soon as one has no limit
        if name is None:
            unlimited += [use.namespaces[row] for row in members if np.isnan(own[row])]
            total += mine
            continue
        cap = float(groups[name].limits[quantity])
        total += cap if np.isnan(mine) else min(cap, mine)
        if not set(groups[name].namespaces) <= {use.namespaces[row] for row in rows}:
            shared.append(name)
    return Bound(
        limit=None if np.isnan(total) else total,
        used=float(use.rate(_COLUMNS[quantity])[list(rows)].sum()),
        unlimited=tuple(unlimited),
        shared_groups=tuple(sorted(shared)),
    )
