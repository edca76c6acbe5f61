"""Results of the advisors for their page, each computed once per input."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from core.plan.model import Plan
from core.plan.options import PlanOptions
from core.planning.advisors.bundle_reasons import (
    BundleAdvice,
    BundleLimits,
    Demand,
    advise_bundles,
)
from core.planning.advisors.partitions import (
    MAX_PARTITIONS,
    CountAdvice,
    by_bundle_count,
    by_partition_count,
    even_boundaries,
    expected_worst,
    partition_hashes,
)
from core.planning.advisors.split_plan import SplitPlan, plan_cuts
from core.pulsar.plan.preview import Preview, preview_plan
from core.pulsar.plan.split import build_cuts_plan
from core.snapshot.store import CachedSnapshot
from dashboard import services
from dashboard.presenters.pulsar.advisors_facts import NamespaceFacts, namespace_facts, topic_loads
from dashboard.queries.cache import cached
from dashboard.queries.pulsar.explanations import with_topics
from dashboard.queries.pulsar.snapshots import reading
from dashboard.services import pulsar

if TYPE_CHECKING:
    from dashboard.services import Cluster

MAX_CURVE: Final = 60
MAX_COUNTED: Final = 20_000
_RENEW_AFTER_S: Final = 300
_READERS: Final = 8


def _facts(key: tuple[CachedSnapshot, str]) -> NamespaceFacts:
    stored, namespace = key
    one = reading(stored)
    return namespace_facts(one.movable, namespace, one.snapshot.brokers.num_rows)


facts = cached(_facts, max_entries=32)
"""What a saved snapshot shows of a namespace."""


def read_topics(cluster: Cluster, addresses: Sequence[str], namespace: str) -> pa.Table:
    """Read the topics of a namespace from the brokers that own its bundles.

    Args:
        cluster: Of the brokers.
        addresses: Their web addresses.
        namespace: ``tenant/namespace``.
    Raises:
        RemoteError: One of them did not answer as it should.
        InputError: An address is no address.
    """
    with ThreadPoolExecutor(_READERS) as pool:
        parts = list(pool.map(lambda one: pulsar.fetch_topics(cluster, one, None), addresses))
    table = pa.concat_tables(parts)
    return table.filter(pc.starts_with(table["bundle"], f"{namespace}/"))


# -- how many bundles ------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class BundlesRequest:
    """A number of bundles to find; equal requests have the same answer.

    Attributes:
        demand: What the namespace carries.
        limits: Of its bundles.
        present: How many it has.
        topics: That were read; ``None``: none were.
        read_at: When, so that a later reading is another request.
        namespace: Whose topics these are.
    """

    demand: Demand
    limits: BundleLimits
    present: int
    topics: pa.Table | None = field(default=None, compare=False, repr=False)
    read_at: datetime | None = None
    namespace: str = ""


def _bundles(request: BundlesRequest) -> BundleAdvice:
    if request.topics is None or not request.topics.num_rows:
        return advise_bundles(request.demand, request.limits, present=request.present)
    positions, loads = topic_loads(request.topics)
    if not loads.any():
        loads = np.ones(loads.size)
    return advise_bundles(
        request.demand,
        request.limits,
        present=request.present,
        positions=positions,
        loads=loads,
    )


bundle_advice = cached(_bundles, max_entries=64)
"""How many bundles, and why."""


# -- partitions over bundles -----------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class SpreadRequest:
    """Partitions of a topic over bundles.

    Attributes:
        topic: Complete name.
        partitions: Of it.
        even: So many bundles of the same width; 0: those of ``boundaries``.
        wanted: Most partitions of a bundle.
        max_bundles: ``loadBalancerNamespaceMaximumBundles``.
        boundaries: Of its namespace.
    """

    topic: str
    partitions: int
    even: int
    wanted: int
    max_bundles: int
    boundaries: tuple[int, ...] = ()


@dataclass(frozen=True, eq=False, kw_only=True)
class SpreadAnswer:
    """Distribution of the partitions, and the splits that improve it.

    Attributes:
        bundles: In all.
        split_plan: The spread now, the cuts, and the spread after them.
        expected: Partitions in the fullest bundle for random names.
        counts: Some numbers of partitions in these bundles.
        curve: Many numbers of partitions in these bundles.
        by_bundles: Even bundles: how many, the fullest of them by this name, and by random names.
    """

    bundles: int
    split_plan: SplitPlan
    expected: float
    counts: Sequence[CountAdvice]
    curve: Sequence[CountAdvice]
    by_bundles: Sequence[tuple[int, int, float]]


def _spread(request: SpreadRequest) -> SpreadAnswer:
    hashes = partition_hashes(request.topic, request.partitions)
    bounds = even_boundaries(request.even) if request.even else request.boundaries
    split_plan = plan_cuts(bounds, hashes, wanted=request.wanted, max_bundles=request.max_bundles)
    bundles, own = len(bounds) - 1, request.partitions
    top = min(max(4 * own, 2 * bundles, 120), MAX_COUNTED)
    many = np.unique(np.append(np.geomspace(1, max(top, own), MAX_CURVE).astype(int), own))
    few = sorted({max(own // 2, 1), own, *(min(times * own, MAX_PARTITIONS) for times in (2, 4))})
    sizes = sorted({4, 8, 16, 32, 64, 128, 180, 256, 512, bundles})
    return SpreadAnswer(
        bundles=bundles,
        split_plan=split_plan,
        expected=expected_worst(own, bundles),
        counts=by_partition_count(request.topic, bounds, few),
        curve=by_partition_count(request.topic, bounds, many.tolist()),
        by_bundles=[
            (count, worst, expected_worst(own, count))
            for count, worst in by_bundle_count(request.topic, own, sizes)
        ],
    )


spread = cached(_spread, max_entries=64)
"""How partitions fall into bundles, and what would fix it."""


@dataclass(frozen=True, kw_only=True)
class CutsRequest:
    """Cuts of several bundles to plan.

    Attributes:
        stored: The snapshot.
        cuts: Bundle and the positions within it.
        exclusions: Namespaces that the configuration keeps out of plans.
        topics: Of the namespace, as they were read: they tell what each part carries.
        read_at: When they were read, so that a request with other topics is another one.
    """

    stored: CachedSnapshot
    cuts: tuple[tuple[str, tuple[int, ...]], ...]
    exclusions: tuple[str, ...] = ()
    topics: pa.Table | None = field(default=None, compare=False, repr=False)
    read_at: datetime | None = None


def cuts_preview(request: CutsRequest) -> tuple[Plan, Preview]:
    """Return the plan of the cuts and its preview; the plan is made again before it expires.

    Raises:
        InputError: There is nothing to cut.
    """
    return _cuts((request, int(services.now().timestamp()) // _RENEW_AFTER_S))


def _cut(key: tuple[CutsRequest, int]) -> tuple[Plan, Preview]:
    request, _ = key
    snapshot = with_topics(reading(request.stored).snapshot, request.topics)
    terms = PlanOptions(now=services.now(), exclusions=frozenset(request.exclusions))
    plan = build_cuts_plan(snapshot, dict(request.cuts), terms)
    return plan, preview_plan(snapshot, plan)


_cuts = cached(_cut, max_entries=16)


def owners_of(found: NamespaceFacts, split_plan: SplitPlan) -> dict[str, int]:
    """Return the number of partitions per broker, largest first; the bundles keep their owners."""
    counts: dict[str, int] = {}
    for owner, held in zip(found.owners, split_plan.before.per_bundle.tolist(), strict=True):
        if held:
            name = owner or "no owner known"
            counts[name] = counts.get(name, 0) + held
    return dict(sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])))
