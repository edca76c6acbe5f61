"""Why a namespace should have no fewer and no more bundles: each reason with its number."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from core.errors import InputError
from core.planning.advisors.bundle_count import BundleCount, advise
from core.pulsar.settings import EffectiveSettings
from core.pulsar.split.watch import OverLimit
from core.units import format_bytes_per_s, format_msgs_per_s, format_ratio, pluralize

Bound = Literal["least", "most", "cost"]

EVEN_LOAD: Final = "even load"
"""Name of the reason that the brokers decide: their load is to be even."""

MAX_TOPICS: Final = 5_000_000
_MIB_BYTES: Final = 1024**2
_SEED: Final = 1


@dataclass(frozen=True, kw_only=True)
class Demand:
    """Load of a namespace.

    Attributes:
        brokers: That share it.
        topics: In it, each partition one.
        clients: Producers and consumers.
        msg_rate: msg/s, in and out.
        bytes_per_s: In and out.
        within: Tolerated distance of a broker above the mean, 0..1.
    """

    brokers: int
    topics: int
    clients: int = 0
    msg_rate: float = 0.0
    bytes_per_s: float = 0.0
    within: float = 0.2

    def __post_init__(self) -> None:
        if self.brokers < 1:
            raise InputError(f"A namespace needs at least 1 broker, not {self.brokers}.")
        if not 0 <= self.topics <= MAX_TOPICS:
            raise InputError(
                f"{self.topics:,} is not a valid number of topics.", hint="Use 0 to 5,000,000."
            )
        if min(self.clients, self.msg_rate, self.bytes_per_s) < 0:
            raise InputError(
                "A number of clients or a rate is negative.", hint="Specify 0 or more."
            )
        if not 0 < self.within < math.inf:
            raise InputError(f"The tolerance {self.within:g} is not above 0.")


@dataclass(frozen=True, kw_only=True)
class BundleLimits:
    """Split limits of a bundle; 0 or less for no limit.

    Attributes:
        topics: ``loadBalancerNamespaceBundleMaxTopics``.
        sessions: ``loadBalancerNamespaceBundleMaxSessions``.
        msg_rate: ``loadBalancerNamespaceBundleMaxMsgRate``.
        megabytes: ``loadBalancerNamespaceBundleMaxBandwidthMbytes``, of 1,048,576 bytes/s.
        maximum: ``loadBalancerNamespaceMaximumBundles``: automatic splits stop there.
    """

    topics: int = 1000
    sessions: int = 1000
    msg_rate: float = 30_000
    megabytes: float = 100
    maximum: int = 128

    @classmethod
    def of(cls, settings: EffectiveSettings) -> BundleLimits:
        """Take the active limits of a cluster."""
        prefix = "loadBalancerNamespaceBundleMax"
        return cls(
            topics=int(settings.number(f"{prefix}Topics")),
            sessions=int(settings.number(f"{prefix}Sessions")),
            msg_rate=settings.number(f"{prefix}MsgRate"),
            megabytes=settings.number(f"{prefix}BandwidthMbytes"),
            maximum=int(settings.number("loadBalancerNamespaceMaximumBundles")),
        )


@dataclass(frozen=True, kw_only=True)
class BundleReason:
    """One reason for a number of bundles.

    Attributes:
        name: In a few words.
        bound: Whether it requires a minimum or a maximum, or only costs.
        bundles: That number; ``None`` if no number meets it, or it is a cost.
        formula: The arithmetic with its numbers.
        why: One sentence.
    """

    name: str
    bound: Bound
    bundles: int | None
    formula: str
    why: str


@dataclass(frozen=True, kw_only=True)
class BundleAdvice:
    """Number of bundles, with reasons.

    Attributes:
        bundles: The advice.
        is_even: Whether the brokers can be within the tolerance with that many.
        is_assumed: Topics were taken for equal and spread by chance, as none were read.
        reasons: Each with its number.
        tried: What each number comes to, ascending.
        because: Why it is no fewer, as a clause.
        sentence: The advice in words.
    """

    bundles: int
    is_even: bool
    is_assumed: bool
    reasons: tuple[BundleReason, ...]
    tried: tuple[BundleCount, ...]
    because: str
    sentence: str


Action = Literal["create", "add", "split", "keep"]


@dataclass(frozen=True, kw_only=True)
class BundleRecommendation:
    """What to do with the bundles of a namespace.

    Attributes:
        action: ``create``: the namespace has none yet; ``add``: split until there are enough;
            ``split``: only those over a limit; ``keep``: no change.
        bundles: Number of bundles after it.
        sentence: Both, with the reason.
    """

    action: Action
    bundles: int
    sentence: str


def advise_bundles(
    demand: Demand,
    limits: BundleLimits,
    *,
    present: int = 0,
    positions: NDArray[np.int64] | None = None,
    loads: NDArray[np.float64] | None = None,
) -> BundleAdvice:
    """Return the recommended number of bundles of a namespace, with every reason.

    Args:
        demand: What it has to carry.
        limits: Of its bundles.
        present: Bundles that it has, which costs are computed for if they are more; 0: none.
        positions: Place of every real topic on the ring; ``None`` for random positions.
        loads: Load of every real topic; ``None`` if all are equal.
    Raises:
        InputError: As :class:`Demand` and :func:`core.planning.advisors.bundle_count.advise`.
    """
    is_assumed = positions is None
    if positions is None:
        positions = np.random.default_rng(_SEED).integers(0, 1 << 32, demand.topics)
    if loads is None:
        loads = np.ones(positions.size)
    most = max(limits.maximum, 1)
    even, tried = advise(demand.brokers, positions, loads, within=demand.within, max_bundles=most)
    reasons = [_spread(demand, even, most), *_splitting(demand, limits)]
    wanted = max([one.bundles or 1 for one in reasons], default=1)
    bundles = min(wanted if even else most, most)
    after = max(bundles, present)
    reasons += [_maximum(wanted, most), _lookups(demand, after), _znodes(after)]
    because = _because(demand, reasons, bundles, is_even=even is not None)
    return BundleAdvice(
        bundles=bundles,
        is_even=even is not None,
        is_assumed=is_assumed,
        reasons=tuple(reasons),
        tried=tuple(tried),
        because=because,
        sentence=f"{pluralize(bundles, 'bundle')}: {because}.",
    )


def recommend(advice: BundleAdvice, *, present: int, over: OverLimit) -> BundleRecommendation:
    """Return what to do with a namespace that has bundles: Pulsar splits them, and merges none.

    Args:
        advice: How many the namespace needs.
        present: How many it has; 0: none, or unknown.
        over: Those over a limit of automatic splits.
    """
    needed, splits = advice.bundles, len(over.splittable)
    alone = ""
    if over.single:
        one = len(over.single) == 1
        alone = (
            f" {pluralize(len(over.single), 'bundle')} over a limit {'has' if one else 'have'} "
            "one topic and cannot be split: add partitions to the topic."
        )
    if not present:
        return BundleRecommendation(action="create", bundles=needed, sentence=advice.sentence)
    if present < needed:
        first = f" Split the {splits} over a limit first." if splits else ""
        return BundleRecommendation(
            action="add",
            bundles=needed,
            sentence=f"{pluralize(needed, 'bundle')}, {needed - present} more than now: "
            f"{advice.because}.{first}{alone}",
        )
    why = advice.because
    if present > needed and advice.is_even:
        why = f"{needed} would be enough, but Pulsar cannot merge bundles"
    if splits:
        hot = pluralize(splits, "bundle")
        return BundleRecommendation(
            action="split",
            bundles=present + splits,
            sentence=f"Split {hot} over a limit, keep the other {present - splits}: {why}.{alone}",
        )
    return BundleRecommendation(
        action="keep",
        bundles=present,
        sentence=f"Keep the {pluralize(present, 'bundle')}: {why}.{alone}",
    )


def _spread(demand: Demand, even: BundleCount | None, most: int) -> BundleReason:
    name, brokers = EVEN_LOAD, pluralize(demand.brokers, "broker")
    if even is None:
        return BundleReason(
            name=name,
            bound="least",
            bundles=None,
            formula=f"no number from 1 to {most} is enough",
            why=f"No number of bundles keeps {brokers} within "
            f"{format_ratio(demand.within)} above the mean: one topic exceeds that, "
            "or the bundle limit is too low.",
        )
    return BundleReason(
        name=name,
        bound="least",
        bundles=even.bundles,
        formula=f"{even.bundles} / {demand.brokers} = {even.per_broker:.1f} bundles per broker",
        why=f"At best, the busiest of {brokers} is "
        f"{format_ratio(even.reachable_ratio)} above the mean; one average "
        f"bundle is {format_ratio(even.step_ratio)} of a broker's load.",
    )


def _splitting(demand: Demand, limits: BundleLimits) -> list[BundleReason]:
    """Return the requirement of the bundle limits that prevents immediate splits."""
    measured: list[tuple[str, float, float, str, str]] = [
        ("topics", demand.topics, limits.topics, f"{demand.topics:,}", f"{limits.topics:,}"),
        (
            "sessions",
            demand.clients,
            limits.sessions,
            f"{demand.clients:,}",
            f"{limits.sessions:,}",
        ),
        (
            "message rate",
            demand.msg_rate,
            limits.msg_rate,
            format_msgs_per_s(demand.msg_rate),
            format_msgs_per_s(limits.msg_rate),
        ),
        (
            "bandwidth",
            demand.bytes_per_s,
            limits.megabytes * _MIB_BYTES,
            format_bytes_per_s(demand.bytes_per_s),
            format_bytes_per_s(limits.megabytes * _MIB_BYTES),
        ),
    ]
    return [
        BundleReason(
            name=f"limit of {name}",
            bound="least",
            bundles=max(math.ceil(value / limit), 1),
            formula=f"{value_text} / {limit_text} per bundle",
            why="With fewer, an average bundle exceeds the limit and brokers split it "
            "automatically.",
        )
        for name, value, limit, value_text, limit_text in measured
        if limit > 0
    ]


def _maximum(wanted: int, most: int) -> BundleReason:
    is_short = wanted > most
    return BundleReason(
        name="max bundles",
        bound="most",
        bundles=most,
        formula=f"{wanted} required, {most} allowed",
        why="loadBalancerNamespaceMaximumBundles is below the required number: "
        "raise it, or spread the topics over more namespaces."
        if is_short
        else "Automatic splits stop at loadBalancerNamespaceMaximumBundles; "
        f"{most - wanted} remain for them.",
    )


def _lookups(demand: Demand, bundles: int) -> BundleReason:
    each = demand.clients / bundles
    return BundleReason(
        name="lookups of a move",
        bound="cost",
        bundles=None,
        formula=f"{demand.clients:,} clients / {bundles} = {each:,.0f}",
        why="Clients that look up their topic again when one bundle moves; all "
        f"{bundles} at once would cause {demand.clients:,} lookups.",
    )


def _znodes(bundles: int) -> BundleReason:
    return BundleReason(
        name="znodes",
        bound="cost",
        bundles=None,
        formula=f"2 \u00d7 {bundles} = {2 * bundles:,}",
        why="With the modular manager each owned bundle has an ephemeral znode of "
        "its owner and one with its averages, which the leader rewrites "
        "periodically; the extensible manager keeps both in topics.",
    )


def _because(
    demand: Demand, reasons: Sequence[BundleReason], bundles: int, *, is_even: bool
) -> str:
    keeps = (
        f"{pluralize(demand.brokers, 'broker')} within {format_ratio(demand.within)} of the mean"
    )
    if not is_even:
        return f"no number up to {bundles} keeps {keeps}"
    binding = next(
        (one for one in reasons if one.bound == "least" and one.bundles == bundles), None
    )
    if binding is None:
        return "the maximum is reached"
    if binding.name == EVEN_LOAD:
        return f"fewer cannot keep {keeps}"
    return f"the {binding.name} requires it"
