"""Explanations of the balancer's decisions for the pages, computed once per snapshot."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from core.diagnosis.pulsar.advice import BUDGET_S, pair_outcome, simulated_points
from core.diagnosis.pulsar.trials import MANY_BUNDLES
from core.errors import SnapshotError
from core.plan.model import Plan
from core.plan.options import PlanOptions
from core.pulsar.explain import Explanation
from core.pulsar.leader.facts import LeaderFacts, SeenMove, Sighting, leader_facts
from core.pulsar.plan.preview import Preview, preview_plan
from core.pulsar.plan.setting import build_setting_plan
from core.pulsar.plan.split import SplitSpec, build_split_plan
from core.pulsar.settings import EffectiveSettings, effective_settings
from core.pulsar.shedding.model import Move
from core.pulsar.shedding.unload_checks import UnloadChecks
from core.pulsar.shedding.what_if import TurningPoint
from core.pulsar.view import LoadView
from core.snapshot import PulsarSnapshot
from core.snapshot.store import CachedSnapshot, load_manifest
from dashboard import services
from dashboard.queries.cache import cached
from dashboard.queries.pulsar.snapshots import moves_seen, reading
from dashboard.queries.snapshots import SavedSnapshots, thinned, within

_RENEW_AFTER_S: Final = 300
_LOOKED_BACK: Final = timedelta(hours=1)
_LOOKED_AT: Final = 45
_UNREADABLE: Final = (OSError, pa.ArrowException)
_GRACE: Final = "loadBalancerSheddingGracePeriodMinutes"
_PAIR_S: Final = 2.0
_POINTS_S: Final = 2.0
"""Time for the simulation of two settings with further random placements."""


# -- the next round --------------------------------------------------------------------------------


def _explained(key: tuple[CachedSnapshot, frozenset[str]]) -> Explanation:
    stored, resting = key
    one = reading(stored)
    return Explanation(
        view=one.view,
        settings=one.settings,
        settings_of=lambda assumed: effective_settings(one.snapshot, overrides=assumed),
        recently_unloaded=resting,
    )


_explanations = cached(_explained, max_entries=8)


def explanation(stored: CachedSnapshot, resting: frozenset[str] = frozenset()) -> Explanation:
    """Return the next shedding round on a saved snapshot.

    Args:
        resting: Bundles that may be in their grace period.
    """
    return _explanations((stored, resting))


def _turned(key: tuple[CachedSnapshot, frozenset[str], str]) -> tuple[TurningPoint, ...]:
    stored, resting, broker = key
    return points_simulated(
        reading(stored).snapshot, explanation(stored, resting).turning_points(broker)
    )


def points_simulated(
    snapshot: PulsarSnapshot,
    points: Iterable[TurningPoint],
    assumed: Mapping[str, object] | None = None,
) -> tuple[TurningPoint, ...]:
    """Return turning points with the simulated cluster, those that improve it first.

    Args:
        snapshot: The cluster.
        points: What would turn a verdict.
        assumed: Settings that hold anyway, upstream key to value.
    """
    is_small = snapshot.bundles.num_rows <= MANY_BUNDLES
    budget_s = _POINTS_S if is_small else BUDGET_S
    found = simulated_points(snapshot, points, assumed=assumed, budget_s=budget_s)
    return tuple(sorted(found, key=lambda point: point.is_recommended is not True))


turning_points = cached(_turned, max_entries=64)
"""What would turn the verdict on a broker: snapshot, resting bundles, broker id."""


def _otherwise(key: tuple[CachedSnapshot, frozenset[str], str]) -> str:
    stored, resting, broker = key
    snapshot = reading(stored).snapshot
    is_small = snapshot.bundles.num_rows <= MANY_BUNDLES
    outcome = partial(pair_outcome, snapshot, budget_s=_PAIR_S) if is_small else None
    return explanation(stored, resting).otherwise(broker, turning_points(key), outcome)


otherwise = cached(_otherwise, max_entries=64)
"""What besides one setting would turn the verdict on a broker; two settings are tried, and
simulated to convergence on a cluster that is not large."""


def _bundle_turned(key: tuple[CachedSnapshot, frozenset[str], str]) -> tuple[TurningPoint, ...]:
    stored, resting, bundle = key
    return points_simulated(
        reading(stored).snapshot, explanation(stored, resting).bundle_turning_points(bundle)
    )


bundle_turning_points = cached(_bundle_turned, max_entries=64)
"""What would turn the verdict on a bundle: snapshot, resting bundles, name."""


Assumed = tuple[tuple[str, object], ...]
"""Settings that are assumed against the cluster's own, by upstream key."""


def _assumed(key: tuple[CachedSnapshot, Assumed]) -> EffectiveSettings:
    stored, assumed = key
    return effective_settings(reading(stored).snapshot, overrides=dict(assumed))


assumed_settings = cached(_assumed, max_entries=32)
"""The settings in force with some assumed otherwise: snapshot and those settings."""


def _explained_with(key: tuple[CachedSnapshot, Assumed]) -> Explanation:
    stored, assumed = key
    snapshot, settings = reading(stored).snapshot, assumed_settings(key)
    return Explanation(
        view=LoadView.of(snapshot, settings),
        settings=settings,
        settings_of=lambda more: effective_settings(snapshot, overrides={**dict(assumed), **more}),
    )


explanation_with = cached(_explained_with, max_entries=4)
"""The next shedding round with some settings assumed otherwise."""


# -- the leader ------------------------------------------------------------------------------------


def _sighted(stored: CachedSnapshot) -> Sighting | None:
    """Return the leader's data in a saved snapshot; ``None`` if it was dropped meanwhile."""
    try:
        _, manifest = load_manifest(stored.path)
        table = pq.read_table(
            stored.path / "bundles.parquet", columns=["long_samples", "long_msg_throughput_in"]
        )
    except (SnapshotError, *_UNREADABLE):
        return None
    samples = np.asarray(table["long_samples"].to_numpy(zero_copy_only=False), np.float64)
    rates = np.asarray(table["long_msg_throughput_in"].to_numpy(zero_copy_only=False), np.float64)
    known = np.isfinite(samples)
    sampled = (int(known.sum()), float(samples[known].sum()), float(np.nansum(rates)))
    return Sighting(stored.taken_at, manifest.leader, sampled if known.any() else None)


_sightings = cached(_sighted, max_entries=400)


def leader_of(
    saved: SavedSnapshots, stored: CachedSnapshot, own_moves: Mapping[str, Sequence[datetime]]
) -> LeaderFacts:
    """Return the facts about the leader from the saved snapshots up to one of them.

    Args:
        stored: The snapshot that is shown.
        own_moves: Bundles that runs of our own moved, and when.
    """
    settings = reading(stored).settings
    back = max(_LOOKED_BACK, timedelta(minutes=settings.number(_GRACE)))
    window = thinned(within(saved.entries, stored.taken_at, back), _LOOKED_AT)
    seen = [sighting for sighting in map(_sightings, window) if sighting is not None]
    return leader_facts(
        seen,
        [
            SeenMove(move.seen_at, move.bundle, move.from_broker, move.to_broker)
            for move in moves_seen(window)
        ],
        settings,
        load_manager=reading(stored).snapshot.manifest.load_manager,
        own_moves=own_moves,
    )


# -- load reports ----------------------------------------------------------------------------------


def report_before(
    entries: Sequence[CachedSnapshot], stored: CachedSnapshot, broker: str
) -> pa.Table | None:
    """Return the broker's row with its report before the present one, ``None``: none is saved.

    Only the latest hour is looked through, newest first.
    """
    earlier = thinned(within(entries, stored.taken_at, _LOOKED_BACK), _LOOKED_AT)
    present = _report_of((stored, broker))
    if present is None:
        return None
    for entry in reversed(earlier):
        row = _report_of((entry, broker))
        if row is not None and row["reported_at"][0] != present["reported_at"][0]:
            return row
    return None


def _read_report(key: tuple[CachedSnapshot, str]) -> pa.Table | None:
    stored, broker = key
    try:
        row = pq.read_table(stored.path / "brokers.parquet", filters=[("broker", "=", broker)])
    except _UNREADABLE:
        return None
    return row if row.num_rows == 1 and row["reported_at"][0].is_valid else None


_report_of = cached(_read_report, max_entries=400)


# -- plans of splits and of settings ---------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitRequest:
    """A split to plan; equal requests on the same snapshot have the same answer.

    Attributes:
        stored: The snapshot.
        bundle: Which.
        algorithm: ``None``: the cluster's default.
        positions: For ``specified_positions_divide``.
        is_unloaded: Whether the parts are unloaded too.
        exclusions: Namespaces that the configuration keeps out of plans.
        topics: The bundle's topics as they were read, ``None``: they were not.
    """

    stored: CachedSnapshot
    bundle: str
    algorithm: str | None = None
    positions: tuple[int, ...] = ()
    is_unloaded: bool = False
    exclusions: tuple[str, ...] = ()
    topics: pa.Table | None = field(default=None, compare=False, repr=False)
    topics_read_at: datetime | None = None
    """When they were read, so that a request with other topics is another one."""


def with_topics(snapshot: PulsarSnapshot, topics: pa.Table | None) -> PulsarSnapshot:
    """Return the snapshot with topics that were read on request."""
    if topics is None or not topics.num_rows:
        return snapshot
    return PulsarSnapshot.build(snapshot.manifest, {**snapshot.tables, "topics": topics})


def split_preview(request: SplitRequest) -> tuple[Plan, Preview]:
    """Return the plan of a split and its preview; the plan is made again before it expires.

    Raises:
        InputError: Positions are needed and none is given.
        UnknownNameError: No such algorithm.
    """
    return _splits((request, int(services.now().timestamp()) // _RENEW_AFTER_S))


def _split(key: tuple[SplitRequest, int]) -> tuple[Plan, Preview]:
    request, _ = key
    snapshot = with_topics(reading(request.stored).snapshot, request.topics)
    spec = SplitSpec(
        algorithm=request.algorithm,
        positions=request.positions,
        is_unloaded=request.is_unloaded,
    )
    terms = PlanOptions(now=services.now(), exclusions=frozenset(request.exclusions))
    plan = build_split_plan(snapshot, [request.bundle], spec, terms)
    return plan, preview_plan(snapshot, plan)


_splits = cached(_split, max_entries=32)


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingRequest:
    """Dynamic settings to plan: upstream key to value as brokers write it, ``None``: taken away."""

    stored: CachedSnapshot
    wanted: tuple[tuple[str, str | None], ...]


def setting_preview(request: SettingRequest) -> tuple[Plan, Preview]:
    """Return the plan that changes settings and its preview; made again before it expires.

    Raises:
        InputError: Nothing was named.
        UnknownNameError: There is no such setting.
    """
    return _settings((request, int(services.now().timestamp()) // _RENEW_AFTER_S))


def _set(key: tuple[SettingRequest, int]) -> tuple[Plan, Preview]:
    request, _ = key
    snapshot = reading(request.stored).snapshot
    plan = build_setting_plan(snapshot, dict(request.wanted), PlanOptions(now=services.now()))
    return plan, preview_plan(snapshot, plan)


_settings = cached(_set, max_entries=32)


# -- where bundles would go ------------------------------------------------------------------------


def _likely(
    key: tuple[CachedSnapshot, tuple[tuple[str, str], ...]],
) -> dict[str, tuple[str, float]]:
    stored, owned = key
    one = reading(stored)
    if one.view.load_manager == "extensible":
        return {}  # it names the destination when it unloads
    checks = UnloadChecks(one.view, one.settings)
    moves = [Move(broker=broker, bundle=bundle) for bundle, broker in owned]
    return {
        outcome.move.bundle: max(outcome.distribution.items(), key=lambda item: item[1])
        for outcome in checks.unload_outcomes(moves)
        if outcome.distribution
    }


likely_destinations = cached(_likely, max_entries=32)
"""Where bundles most likely go if unloaded now, and with which probability.

Key: the snapshot, and pairs of a bundle and its owner; each is placed as if it were the only one.
"""
