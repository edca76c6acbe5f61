"""A snapshot laid out for moving bundles: load per broker, what each bundle takes along.

Load is a vector: one component for throughput, one a resource for usage; a broker's load is the
largest component. Bundles that may move are sorted by owner, and are numbered in that order.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from core.arrays import column_values
from core.optimize.request import LoadMeasure, OptimizeRequest
from core.pulsar.bundle_counts import Codes, Ints
from core.pulsar.load import WEIGHED, resource_weights
from core.pulsar.load_transfer import CARRIED, carried_by
from core.pulsar.measures import measure
from core.pulsar.placement.context import PlacementContext
from core.pulsar.placement.extensible import ExtensibleContext, extensible_filters
from core.pulsar.placement.filters import ANTI_AFFINITY, run_filters
from core.pulsar.settings import EffectiveSettings
from core.pulsar.view import Flags, Floats, LoadView
from core.snapshot import PulsarSnapshot
from core.units import listed

Held = Literal["broker_bound", "excluded", "recently_moved", "unknown"]
HELD: Final[tuple[Held, ...]] = ("broker_bound", "excluded", "recently_moved", "unknown")
HELD_WORDS: Final[dict[Held, str]] = {
    "broker_bound": "belongs to the broker itself (heartbeat, SLA)",
    "excluded": "is in an excluded namespace",
    "recently_moved": "moved recently",
    "unknown": "has no bundle statistics",
}
_MSGS_PER_POINT: Final = 1_000.0

_ROWS_AT_ONCE: Final = 256


@dataclass(frozen=True, eq=False)
class FleetColumns:
    """Columns; ``m`` numbers movable bundles, ``b`` brokers, ``r`` components of load.

    Attributes:
        used: ``(b, r)``: load now, bytes/s or weighted ratio; 0 where unknown.
        scale: ``(b, r)``: what one unit of a bundle's amount adds at that broker.
        known: ``(b,)``: the load is known; other brokers take no part.
        rows: ``(m,)``: row in the view.
        offsets: ``(b + 1,)``: the bundles of broker b are offsets[b]..offsets[b+1].
        amount: ``(m, r)``.
        kind: ``(m,)``: row of ``where.allowed``.
        group: ``(m,)``: anti-affinity group, -1: none.
        clients: ``(m,)``: NaN where unknown.
        points: ``(m,)``: disruption.
        held_bytes: ``(b, 4)``: traffic that stays, by the reasons of :data:`HELD`.
    """

    view: LoadView
    measure: LoadMeasure
    where: Destinations
    used: Floats
    scale: Floats
    known: Flags
    rows: Ints
    offsets: Ints
    owner: Codes
    amount: Floats
    bytes_per_s: Floats
    kind: Ints
    group: Codes
    namespace: Codes
    topics: Ints
    clients: Floats
    points: Floats
    held_bytes: Floats
    excluded: str

    @property
    def load(self) -> Floats:
        """``(b,)``."""
        return load_of(self.used)

    def bundles_of(self, broker: int) -> Ints:
        """Return the numbers of a broker's movable bundles."""
        return np.arange(self.offsets[broker], self.offsets[broker + 1])


def load_of(used: Floats) -> Floats:
    """Return the largest component of each row; NaN never occurs."""
    return np.asarray(used.max(axis=-1), np.float64)


def lay_out(
    snapshot: PulsarSnapshot, settings: EffectiveSettings, request: OptimizeRequest
) -> FleetColumns:
    """Lay a snapshot out.

    Cost:
        O(brokers + bundles + kinds * brokers), no Python loop over bundles.
    """
    view = LoadView.of(snapshot, settings)
    load = measure(snapshot, settings).of(request.load_measure)
    traffic, clients = (
        column_values(snapshot.bundles, one) + column_values(snapshot.bundles, other)
        for one, other in (
            ("msg_throughput_in", "msg_throughput_out"),
            ("producer_count", "consumer_count"),
        )
    )
    fleet = _by_traffic(
        view, settings, request, KnownLoad(load.values, load.known, traffic, clients, load.excluded)
    )
    if request.load_measure == "throughput":
        return fleet
    used, scale, amount = _usage_loads(snapshot, settings, fleet.rows)
    used = np.where(load.known[:, None], used, 0.0)
    return replace(fleet, measure="usage", used=used, scale=scale, amount=amount)


def lay_out_view(
    view: LoadView, settings: EffectiveSettings, request: OptimizeRequest
) -> FleetColumns:
    """Lay the load out as a leader has it, by throughput; the clients of bundles are unknown."""
    unknown = np.full(view.bundles.size, np.nan)
    known = np.isfinite(view.broker_throughput) & view.has_report
    lost = [
        name for name, is_known in zip(view.brokers, known.tolist(), strict=True) if not is_known
    ]
    excluded = f"{listed(lost, 3)} (load unknown)" if lost else ""
    load = KnownLoad(view.broker_throughput, known, view.bundle_throughput, unknown, excluded)
    return _by_traffic(view, settings, request, load)


class KnownLoad(NamedTuple):
    """Known load of each broker and each bundle.

    Attributes:
        excluded: Brokers that are not compared, each with the reason; "" if none.
        values: ``(b,)``: load, bytes/s; for usage, which replaces it later, weighted ratio.
        known: ``(b,)``: it is known.
        traffic: ``(n,)``: of every bundle, bytes/s; NaN where unknown.
        clients: ``(n,)``: of every bundle; NaN where unknown.
    """

    values: Floats
    known: Flags
    traffic: Floats
    clients: Floats
    excluded: str


def _by_traffic(
    view: LoadView, settings: EffectiveSettings, request: OptimizeRequest, load: KnownLoad
) -> FleetColumns:
    traffic, clients = load.traffic, load.clients
    where = find_destinations(view, settings, load.known)
    held = _held(view, settings, request, traffic)
    rows = _movable_rows(view, held, traffic, load.known)
    topics = view.bundle_topics[rows]
    rates = view.bundle_msg_rate[rows]
    namespace = view.bundle_namespace[rows]
    return FleetColumns(
        view=view,
        measure="throughput",
        where=where,
        used=np.where(load.known, load.values, 0.0)[:, None],
        scale=np.ones((len(view.brokers), 1)),
        known=load.known,
        rows=rows,
        offsets=np.searchsorted(view.owner[rows], np.arange(len(view.brokers) + 1)),
        owner=view.owner[rows],
        amount=traffic[rows][:, None],
        bytes_per_s=traffic[rows],
        kind=where.kind_of_namespace[namespace],
        group=view.namespace_group[namespace],
        namespace=namespace,
        topics=topics,
        clients=clients[rows],
        points=np.nan_to_num(clients[rows]) + topics + rates / _MSGS_PER_POINT,
        held_bytes=_held_bytes(view, held, traffic),
        excluded=load.excluded,
    )


def _held(
    view: LoadView, settings: EffectiveSettings, request: OptimizeRequest, traffic: Floats
) -> Codes:
    """Return the reason each bundle stays, as an index of :data:`HELD`; -1 if movable."""
    reasons = np.full(view.bundles.size, -1, np.int32)
    reasons[~np.isfinite(traffic)] = HELD.index("unknown")
    moved = (view.reporter >= 0) & (view.owner >= 0) & (view.reporter != view.owner)
    resting = [view.find_bundle(name) for name in request.recently_moved]
    moved[[row for row in resting if row >= 0]] = True
    reasons[moved] = HELD.index("recently_moved")
    patterns = (*request.exclusions, *settings.excluded_namespaces)
    reasons[_excluded(view, patterns)[view.bundle_namespace]] = HELD.index("excluded")
    reasons[view.is_broker_bound] = HELD.index("broker_bound")
    return reasons


def _excluded(view: LoadView, patterns: Collection[str]) -> Flags:
    return np.array(
        [any(fnmatchcase(name, pattern) for pattern in patterns) for name in view.namespaces],
        np.bool_,
    )


def _movable_rows(view: LoadView, held: Codes, traffic: Floats, known: Flags) -> Ints:
    """Rows of bundles that may move and carry something, by owner, largest first."""
    owned = (view.owner >= 0) & np.append(known, False)[view.owner]
    rows = np.flatnonzero((held < 0) & owned & (np.nan_to_num(traffic) > 0))
    return rows[np.lexsort((-traffic[rows], view.owner[rows]))]


def _usage_loads(
    snapshot: PulsarSnapshot, settings: EffectiveSettings, rows: Ints
) -> tuple[Floats, Floats, Floats]:
    """Return load per broker, scale per broker and amount per movable bundle, by resource."""
    weights = resource_weights(settings)
    scale = np.stack([_per_unit(snapshot, name, weights[name]) for name in WEIGHED], axis=1)
    usage = np.stack(
        [np.nan_to_num(column_values(snapshot.brokers, f"{name}_usage")) for name in WEIGHED],
        axis=1,
    )
    columns = [CARRIED.index(f"{name}_usage") for name in WEIGHED]
    return usage * scale, scale, carried_by(snapshot, rows).amounts[:, columns]


def _per_unit(snapshot: PulsarSnapshot, resource: str, weight: float) -> Floats:
    limit = np.nan_to_num(column_values(snapshot.brokers, f"{resource}_limit"))
    return np.where(limit > 0, weight / np.where(limit > 0, limit, 1.0), 0.0)


def _held_bytes(view: LoadView, held: Codes, traffic: Floats) -> Floats:
    """Traffic that stays on each broker, by reason."""
    total = np.zeros((len(view.brokers), len(HELD)))
    here = (held >= 0) & (view.owner >= 0) & np.isfinite(traffic)
    np.add.at(total, (view.owner[here], held[here]), traffic[here])
    return total


@dataclass(frozen=True, eq=False)
class Destinations:
    """Allowed destinations.

    Attributes:
        kind_of_namespace: Shape ``(n_namespaces,)``: row of ``allowed``.
        allowed: Shape ``(n_kinds, n_brokers)``.
        can_receive: Shape ``(n_brokers,)``: brokers that may take anything at all.
        domains: Failure domain of each broker; all zero when domains have no effect.
        has_domains: Whether they do.
        topic_room: Topics that each broker may still take.
    """

    kind_of_namespace: Ints
    allowed: Flags
    can_receive: Flags
    domains: Codes
    has_domains: bool
    topic_room: Ints


def find_destinations(
    view: LoadView, settings: EffectiveSettings, candidates: Flags
) -> Destinations:
    """Return the eligible destinations of each namespace's bundles.

    Isolation policies, anti-affinity groups with failure domains, load-manager class, versions:
    the same masks that placement uses. Where placement would fall back to a broker that a filter
    ruled out, because no broker is left, we do not.

    Args:
        view: The cluster.
        candidates: Brokers whose load is known; others take nothing.
    Source:
        Pulsar ``ModularLoadManagerImpl#selectBroker``, or ``ExtensibleLoadManagerImpl#selectAsync``
        on a cluster of that manager, filters only; see ``core.pulsar.placement``.
    """
    is_extensible = view.load_manager == "extensible" and view.extensible is not None
    kind = ExtensibleContext if is_extensible else PlacementContext
    context = kind.of(view, settings)
    can_receive = candidates & context.usable & _right_class(view) & _right_version(context)
    packed = [
        np.packbits(_allowed(context, np.arange(start, end)) & can_receive, axis=1)
        for start, end in _chunks(len(view.namespaces))
    ]
    width = (len(view.brokers) + 7) // 8
    rows = np.concatenate([np.zeros((0, width), np.uint8), *packed])
    kinds, kind_of = _distinct(rows)
    allowed = np.unpackbits(kinds, axis=1, count=len(view.brokers)).astype(np.bool_)
    room = settings.number("loadBalancerBrokerMaxTopics") - context.topics
    domains = context.domains
    return Destinations(
        kind_of_namespace=kind_of,
        allowed=allowed,
        can_receive=can_receive,
        domains=np.zeros(len(view.brokers), np.int32) if domains is None else domains,
        has_domains=domains is not None,
        topic_room=np.maximum(room, 0).astype(np.int64),
    )


def _distinct(rows: NDArray[np.uint8]) -> tuple[NDArray[np.uint8], Ints]:
    """Return the distinct rows in order, and which of them each row is.

    ``np.unique`` compares rows byte by byte while it sorts: seconds, in which no page is answered.
    """
    keys = [row.tobytes() for row in rows]
    ranks = {key: rank for rank, key in enumerate(sorted(set(keys)))}
    kinds = np.frombuffer(b"".join(ranks), np.uint8).reshape(len(ranks), rows.shape[1])
    return kinds, np.array([ranks[key] for key in keys], np.int64)


def _chunks(count: int) -> list[tuple[int, int]]:
    return [(start, min(start + _ROWS_AT_ONCE, count)) for start in range(0, count, _ROWS_AT_ONCE)]


def _allowed(context: PlacementContext, namespaces: Ints) -> Flags:
    if isinstance(context, ExtensibleContext):
        return extensible_filters(context, namespaces).candidates
    return dict(run_filters(context, namespaces).stages)[ANTI_AFFINITY]


def _right_class(view: LoadView) -> Flags:
    if view.own_class is None:
        return np.ones(len(view.brokers), np.bool_)
    return np.array([name == view.own_class for name in view.load_manager_classes], np.bool_)


def _right_version(context: PlacementContext) -> Flags:
    ranks = context.version_ranks
    if not context.settings.flag("preferLaterVersions") or not ranks.size:
        return np.ones(ranks.size, np.bool_)
    return np.asarray(ranks == ranks.max(), np.bool_)
