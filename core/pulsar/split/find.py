"""What both managers' checks would split next, over a whole fleet, as folds.

The order of bundles matters where a namespace is near its largest number of bundles: whoever comes
first is split. The real classes take the order of a hash map, which is unknown; here it is that of
the snapshot, so that as many are chosen, and they may be others (deviation SP-1).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from core.pulsar.settings import EffectiveSettings
from core.pulsar.split.algorithms import (
    BY_HAND,
    Floats,
    SplitLimits,
    TopicLoads,
    default_algorithm,
    split_positions,
)
from core.pulsar.split.rates import compared_rates
from core.snapshot import PulsarSnapshot

Reason = Literal["topics", "sessions", "msg_rate", "bandwidth"]

_REASONS: Final[tuple[Reason, ...]] = ("topics", "sessions", "msg_rate", "bandwidth")
_HITS: Final = "loadBalancerNamespaceBundleSplitConditionHitCountThreshold"
_MAX: Final = "loadBalancerMaxNumberOfBundlesToSplitPerCycle"


@dataclass(frozen=True, slots=True)
class SplitChoice:
    """One bundle that a check splits, on the broker that reports it, for the first reason met."""

    bundle: str
    broker: str
    reason: Reason


@dataclass(frozen=True, slots=True)
class SplitState:
    """State of the checks: consecutive hits by bundle (extensible manager only)."""

    hits: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Columns:
    """Reported bundles; ``over`` is ``(4, n)`` in the order of the reasons."""

    names: list[str]
    spaces: list[str]
    brokers: list[str]
    over: np.ndarray
    is_wide: np.ndarray
    has_topics: np.ndarray


def find_bundles_to_split(
    snapshot: PulsarSnapshot,
    settings: EffectiveSettings,
    state: SplitState | None = None,
    *,
    busy: Iterable[str] = (),
) -> tuple[tuple[SplitChoice, ...], SplitState]:
    """Return the bundles that the next check splits, and its state.

    Args:
        snapshot: Bundles with their last stats and long-term averages.
        state: Of the check before; the modular leader has none.
        busy: Bundles that are being split right now (extensible).
    Source:
        Pulsar ``ModularLoadManagerImpl#checkNamespaceBundleSplit`` (a second broker by release),
        ``BundleSplitterTask#findBundlesToSplit`` and
        ``DefaultNamespaceBundleSplitStrategyImpl#findBundlesToSplit``.
    Cost:
        O(n_bundles) in columns; a loop over those above a limit.
    """
    state = state or SplitState()
    if not settings.flag("loadBalancerAutoBundleSplitEnabled"):
        return (), state
    if snapshot.manifest.load_manager == "extensible":
        if not settings.flag("loadBalancerEnabled"):
            return (), state
        return _extensible(snapshot, settings, state, tuple(busy))
    if settings.rules.splits_need_second and snapshot.brokers.num_rows <= 1:
        return (), state
    return _modular(snapshot, settings), state


def _modular(snapshot: PulsarSnapshot, settings: EffectiveSettings) -> tuple[SplitChoice, ...]:
    limits = SplitLimits.of(settings)
    columns = _columns(snapshot, limits, "reported_by")
    room = _BundleBudget(snapshot, limits)
    rows = np.flatnonzero(columns.has_topics & columns.over.any(axis=0))
    chosen = [row for row in rows.tolist() if room.take(columns.spaces[row])]
    # one that is too narrow is chosen and counted, and dropped only when its turn comes
    return tuple(_choice(columns, row) for row in chosen if columns.is_wide[row])


def _extensible(
    snapshot: PulsarSnapshot, settings: EffectiveSettings, state: SplitState, busy: tuple[str, ...]
) -> tuple[tuple[SplitChoice, ...], SplitState]:
    """Every broker for its own bundles; the caps are per broker."""
    limits = SplitLimits.of(settings)
    columns = _columns(snapshot, limits, "owner")
    threshold, limit = int(settings.number(_HITS)), int(settings.number(_MAX))
    looked_at = columns.has_topics & columns.is_wide
    is_over = looked_at & columns.over.any(axis=0)
    calm = {columns.names[row] for row in np.flatnonzero(looked_at & ~is_over)}
    present = set(columns.names) - calm
    hits = {name: count for name, count in state.hits.items() if name in present}
    rooms: dict[str, _BundleBudget] = {}
    chosen: dict[str, list[SplitChoice]] = {}
    for row in np.flatnonzero(is_over).tolist():
        name, broker, space = columns.names[row], columns.brokers[row], columns.spaces[row]
        mine = chosen.setdefault(broker, [])
        if 0 < limit <= len(mine):
            continue
        hits[name] = hits.get(name, 0) + 1
        room = rooms.setdefault(broker, _BundleBudget(snapshot, limits))
        may = hits[name] > threshold and room.has(space) and not _is_blocked(name, space, busy)
        if may and _has_one_boundary(snapshot, settings, name, limits):
            mine.append(_choice(columns, row))
            room.take(space)
            hits.pop(name)
    every = tuple(choice for part in chosen.values() for choice in part)
    return every, SplitState(hits)


def _is_blocked(bundle: str, namespace: str, busy: tuple[str, ...]) -> bool:
    """Whether a bundle that is being split shares a boundary, compared as text."""
    lower, upper = bundle.rpartition("/")[2].split("_")
    ranges = [name.rpartition("/")[2] for name in busy if name.startswith(namespace)]
    return any(text.startswith(lower) or text.endswith(upper) for text in ranges)


def _has_one_boundary(
    snapshot: PulsarSnapshot, settings: EffectiveSettings, bundle: str, limits: SplitLimits
) -> bool:
    algorithm = default_algorithm(settings)
    if algorithm == BY_HAND:
        return False  # no positions are given: the real class fails
    bounds = bundle.rpartition("/")[2].split("_")
    topics = TopicLoads.of(snapshot.topics, bundle)
    where = split_positions(
        algorithm, (int(bounds[0], 16), int(bounds[1], 16)), topics, limits=limits
    )
    return len(where.values) == 1


class _BundleBudget:
    """Remaining number of bundles per namespace."""

    def __init__(self, snapshot: PulsarSnapshot, limits: SplitLimits) -> None:
        self._most = limits.bundles
        spaces = snapshot.namespaces.select(["namespace", "boundaries"]).to_pylist()
        self._count = {row["namespace"]: max(len(row["boundaries"] or []) - 1, 0) for row in spaces}
        counts = pc.value_counts(snapshot.bundles.column("namespace")).to_pylist()
        for row in counts:
            self._count[row["values"]] = self._count.get(row["values"]) or row["counts"]

    def has(self, namespace: str) -> bool:
        return self._count[namespace] < self._most

    def take(self, namespace: str) -> bool:
        if not self.has(namespace):
            return False
        self._count[namespace] += 1
        return True


def _choice(columns: _Columns, row: int) -> SplitChoice:
    first = int(columns.over[:, row].argmax())
    return SplitChoice(columns.names[row], columns.brokers[row], _REASONS[first])


def _columns(snapshot: PulsarSnapshot, limits: SplitLimits, holder: str) -> _Columns:
    is_held = pc.is_valid(snapshot.bundles.column(holder))
    bundles = snapshot.bundles.filter(is_held)
    held = np.asarray(is_held, np.bool_)
    msgs_per_s, bytes_per_s = (rates[held] for rates in compared_rates(snapshot))
    topics = _numbers(bundles, "topic_count")
    sessions = _numbers(bundles, "producer_count") + _numbers(bundles, "consumer_count")
    return _Columns(
        names=bundles.column("bundle").to_pylist(),
        spaces=bundles.column("namespace").to_pylist(),
        brokers=bundles.column(holder).to_pylist(),
        over=np.stack(
            [
                topics > limits.topics,
                (sessions > limits.sessions) & (limits.sessions > 0),
                msgs_per_s > limits.msgs_per_s,  # never of NaN: what is unknown splits nothing
                bytes_per_s > limits.bytes_per_s,
            ]
        ),
        is_wide=_numbers(bundles, "upper") - _numbers(bundles, "lower") > 1,
        has_topics=topics >= 2,
    )


def _numbers(table: pa.Table, name: str) -> Floats:
    filled = pc.fill_null(table.column(name), 0)
    return np.asarray(filled.to_numpy(zero_copy_only=False), np.float64)
