"""Where a bundle is cut: Pulsar's four split algorithms, on the hashes and rates of its topics."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from core.errors import InputError, UnknownNameError
from core.ids import FULL_UPPER
from core.pulsar.ring import range_equally_divide
from core.pulsar.settings import EffectiveSettings

MIB_BYTES: Final = 1_048_576
BY_RANGE: Final = "range_equally_divide"
BY_HAND: Final = "specified_positions_divide"
BY_FLOW: Final = "flow_or_qps_equally_divide"

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class TopicLoads:
    """Loaded topics of one bundle, sorted by hash; rates are in + out, 0 where unknown.

    Attributes:
        names: Complete names.
        hashes: Places on the ring.
        msg_rate: msg/s.
        throughput: bytes/s.
        sessions: Producers and consumers.
    """

    names: tuple[str, ...]
    hashes: Ints
    msg_rate: Floats
    throughput: Floats
    sessions: Ints

    @classmethod
    def of(cls, topics: pa.Table, bundle: str) -> TopicLoads | None:
        """Take the topics of a bundle out of a snapshot; ``None`` when they were not read."""
        own = topics.filter(pc.equal(topics.column("bundle"), bundle))
        if not own.num_rows:
            return None
        own = own.sort_by([("hash", "ascending"), ("topic", "ascending")])
        return cls(
            names=tuple(own.column("topic").to_pylist()),
            hashes=np.asarray(own.column("hash").to_numpy(), np.int64),
            msg_rate=_sum(own, "msg_rate_in", "msg_rate_out"),
            throughput=_sum(own, "msg_throughput_in", "msg_throughput_out"),
            sessions=_sum(own, "producer_count", "consumer_count").astype(np.int64),
        )


def _sum(table: pa.Table, *names: str) -> Floats:
    columns = [
        np.asarray(pc.fill_null(table.column(name), 0).to_numpy(zero_copy_only=False), np.float64)
        for name in names
    ]
    return np.asarray(columns[0] + columns[1], np.float64)


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitLimits:
    """Above which a bundle is split.

    Attributes:
        topics: ``loadBalancerNamespaceBundleMaxTopics``.
        sessions: ``loadBalancerNamespaceBundleMaxSessions``; 0 or less: off.
        msgs_per_s: ``loadBalancerNamespaceBundleMaxMsgRate``.
        bytes_per_s: ``loadBalancerNamespaceBundleMaxBandwidthMbytes``, as bytes.
        tolerance_ratio: ``flowOrQpsDifferenceThresholdPercentage``, as ratio.
        bundles: ``loadBalancerNamespaceMaximumBundles``.
    """

    topics: int
    sessions: int
    msgs_per_s: int
    bytes_per_s: int
    tolerance_ratio: float
    bundles: int

    @classmethod
    def of(cls, settings: EffectiveSettings) -> SplitLimits:
        """Read them out of the active settings."""

        def whole(key: str) -> int:
            return int(settings.number(key))

        return cls(
            topics=whole("loadBalancerNamespaceBundleMaxTopics"),
            sessions=whole("loadBalancerNamespaceBundleMaxSessions"),
            msgs_per_s=whole("loadBalancerNamespaceBundleMaxMsgRate"),
            bytes_per_s=whole("loadBalancerNamespaceBundleMaxBandwidthMbytes") * MIB_BYTES,
            tolerance_ratio=settings.number("flowOrQpsDifferenceThresholdPercentage") / 100.0,
            bundles=whole("loadBalancerNamespaceMaximumBundles"),
        )


@dataclass(frozen=True, slots=True)
class Positions:
    """Inner boundaries that an algorithm names.

    Attributes:
        values: Ascending; empty: the bundle stays whole, and the request still succeeds.
        why: Why there are none; blank when there are some.
        is_known: False: they hang on topics that were not read.
    """

    values: tuple[int, ...]
    why: str = ""
    is_known: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class _SplitRequest:
    lower: int
    upper: int
    topics: TopicLoads | None
    limits: SplitLimits
    given: tuple[int, ...]


_UNREAD: Final = Positions(
    (), "The bundle's topics were not read, and this algorithm needs them.", is_known=False
)
_FEW: Final = "The bundle has fewer than two loaded topics: it cannot be split."
_LIGHT: Final = (
    "Topics with the same hash are counted with the rates of the last one; "
    "by that count no part is above a limit."
)


def _range(request: _SplitRequest) -> Positions:
    """Source: Pulsar ``RangeEquallyDivideBundleSplitAlgorithm``."""
    middle = range_equally_divide(request.lower, request.upper)
    if middle is None:
        return Positions((), "The range is too narrow to be split.")
    return Positions((middle,))


def _topic_count(request: _SplitRequest) -> Positions:
    """Source: Pulsar ``TopicCountEquallyDivideBundleSplitAlgorithm``."""
    topics = request.topics
    if topics is None:
        return _UNREAD
    count = topics.hashes.size
    if count <= 1:
        return Positions((), _FEW)
    start = int(topics.hashes[max(count // 2 - 1, 0)])
    return Positions((start + (int(topics.hashes[count // 2]) - start) // 2,))


def _specified(request: _SplitRequest) -> Positions:
    """Source: Pulsar ``SpecifiedPositionsBundleSplitAlgorithm``."""
    if not request.given:
        raise InputError(
            f"{BY_HAND} needs positions.",
            hint="Specify them: --positions 0x20000000,0x60000000.",
        )
    if request.topics is not None and request.topics.hashes.size <= 1:
        return Positions((), _FEW)
    inside = tuple(at for at in sorted(request.given) if request.lower < at < request.upper)
    return Positions(inside, "" if inside else "No position is inside the bundle's range.")


def _flow(request: _SplitRequest) -> Positions:
    """Cut wherever the next topic would bring a part over a limit.

    Source:
        Pulsar ``FlowOrQpsEquallyDivideBundleSplitAlgorithm``.
    Parity:
        Totals are added in the order in which the broker lists its topics, which is unknown; here
        by hash. Topics that share a hash count with the last one's rates, each time.
    """
    topics, limits = request.topics, request.limits
    if topics is None:
        return _UNREAD
    if topics.hashes.size <= 1:
        return Positions((), _FEW)
    busy = ~((topics.msg_rate <= 0) & (topics.throughput <= 0))
    hashes = topics.hashes[busy]
    if np.unique(hashes).size < 2:
        return Positions((), "Fewer than two topics have traffic.")
    rate, flow = topics.msg_rate[busy], topics.throughput[busy]
    factor = 1 + limits.tolerance_ratio
    within_rate = float(np.cumsum(rate)[-1]) < limits.msgs_per_s * factor
    if within_rate and float(np.cumsum(flow)[-1]) < limits.bytes_per_s * factor:
        return Positions((), "Rate and throughput are within the limits and their tolerance.")
    last = np.searchsorted(hashes, hashes, side="right") - 1
    cuts = _segments(hashes, rate[last], flow[last], limits)
    return Positions(cuts, "" if cuts else _LIGHT)


def _segments(hashes: Ints, rate: Floats, flow: Floats, limits: SplitLimits) -> tuple[int, ...]:
    """Cut greedily from the left; a segment holds one topic at least."""
    cuts: list[int] = []
    held_rate, held_flow = float(rate[0]), float(flow[0])
    neighbours = hashes[:-1].tolist(), hashes[1:].tolist()
    rows = zip(*neighbours, rate[1:].tolist(), flow[1:].tolist(), strict=True)
    for before, here, more_rate, more_flow in rows:
        over = held_rate + more_rate > limits.msgs_per_s
        if over or held_flow + more_flow > limits.bytes_per_s:
            cuts.append(before + (here - before) // 2 + 1)
            held_rate, held_flow = more_rate, more_flow
        else:
            held_rate, held_flow = held_rate + more_rate, held_flow + more_flow
    return tuple(cuts)


_BY_NAME: Final[dict[str, Callable[[_SplitRequest], Positions]]] = {
    BY_RANGE: _range,
    "topic_count_equally_divide": _topic_count,
    BY_HAND: _specified,
    BY_FLOW: _flow,
}
ALGORITHMS: Final = tuple(_BY_NAME)
"""Every split algorithm there is, the default first."""


def default_algorithm(settings: EffectiveSettings) -> str:
    """Return the algorithm of brokers when none is given.

    Source:
        Pulsar ``NamespaceService#splitAndOwnBundle``: an unknown default is the range's middle.
    """
    named = settings.text("defaultNamespaceBundleSplitAlgorithm")
    return named if named in ALGORITHMS else BY_RANGE


def default_positions(
    settings: EffectiveSettings, bounds: tuple[int, int], topics: TopicLoads | None
) -> Positions:
    """Return the boundaries of an automatic split, by the default algorithm.

    Args:
        bounds: Lower and upper bound of the bundle.
        topics: Its loaded topics; ``None`` if not read.
    """
    algorithm = default_algorithm(settings)
    if algorithm == BY_HAND:
        return Positions((), "It needs positions, but an automatic split has none: it fails.")
    found = split_positions(algorithm, bounds, topics, limits=SplitLimits.of(settings))
    why = refusal(bounds, found.values)
    return Positions((), why) if why else found


def split_positions(
    algorithm: str,
    bounds: tuple[int, int],
    topics: TopicLoads | None,
    *,
    limits: SplitLimits,
    given: Sequence[int] = (),
) -> Positions:
    """Return an algorithm's boundaries of a bundle.

    Args:
        algorithm: One of :data:`ALGORITHMS`.
        bounds: Lower and upper bound of the bundle.
        topics: Its loaded topics; ``None`` if not read.
        limits: For ``flow_or_qps_equally_divide``.
        given: For ``specified_positions_divide``.
    Raises:
        UnknownNameError: No such algorithm.
        InputError: Positions are required and none is given.
    Cost:
        O(n_topics); the greedy cut is a loop over the topics of one bundle.
    """
    if algorithm not in _BY_NAME:
        raise UnknownNameError.of("split algorithm", algorithm, ALGORITHMS)
    return _BY_NAME[algorithm](
        _SplitRequest(
            lower=bounds[0], upper=bounds[1], topics=topics, limits=limits, given=tuple(given)
        )
    )


def most_even_position(topics: TopicLoads) -> tuple[int, float] | None:
    """Return the one position that leaves the larger of two parts with least load, and its share.

    By throughput, or by rate where there is none; ``None`` when no cut between two topics is there.
    Ours: Pulsar has no such algorithm, yet it takes the position.
    """
    measure = topics.throughput if topics.throughput.sum() > 0 else topics.msg_rate
    total = float(measure.sum())
    gaps = np.diff(topics.hashes)
    between = topics.hashes[:-1] + (gaps + 1) // 2
    # the ring's very last position is no bound inside it
    apart = np.flatnonzero((gaps > 0) & (between < FULL_UPPER))
    if total <= 0 or not apart.size:
        return None
    left = np.cumsum(measure)[apart] / total
    larger = np.maximum(left, 1.0 - left)
    at = int(larger.argmin())
    return int(between[apart[at]]), float(larger[at])


def refusal(bounds: tuple[int, int], positions: Sequence[int]) -> str:
    """Return the reason the broker refuses a boundary, or "".

    Source:
        Pulsar ``NamespaceBundleFactory#splitBundles``, and what ``NamespaceBundles`` checks.
    """
    lower, upper = bounds
    if upper - lower <= 1:
        return "The range is too narrow to be split."
    ordered = sorted(positions)
    if ordered and not lower < ordered[0] <= ordered[-1] < upper:
        outside = ordered[0] if ordered[0] <= lower else ordered[-1]
        return f"0x{outside:08x} is not strictly inside 0x{lower:08x}_0x{upper:08x}."
    twice = [at for at, after in pairwise(ordered) if at == after]
    return f"0x{twice[0]:08x} is specified twice." if twice else ""
