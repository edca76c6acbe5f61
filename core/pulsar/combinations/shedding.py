"""Thresholds, weights and shares of the shedders that cannot work together."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

from core.pulsar.combinations.model import INTERVAL, Case, Combination, CombinationRule
from core.pulsar.load import resource_weights
from core.pulsar.settings import SETTINGS

_HISTORY: Final = "loadBalancerHistoryResourcePercentage"
_GRACE: Final = "loadBalancerSheddingGracePeriodMinutes"
_UNIFORM: Final = (
    "loadBalancerMsgRateDifferenceShedderThreshold",
    "loadBalancerMsgThroughputMultiplierDifferenceShedderThreshold",
)
_SHARE: Final = "maxUnloadPercentage"
_MINIMUMS: Final = ("minUnloadMessage", "minUnloadMessageThroughput")
_OVERLOAD: Final = "loadBalancerBrokerOverloadedThresholdPercentage"
_TARGET_STD: Final = "loadBalancerBrokerLoadTargetStd"
_DEBUG: Final = "loadBalancerDebugModeEnabled"
_IN_WEIGHT: Final = "loadBalancerBandwidthInResourceWeight"
_OUT_WEIGHT: Final = "loadBalancerBandwidthOutResourceWeight"
_AVG_GAPS: Final = ("loadBalancerAvgShedderLowThreshold", "loadBalancerAvgShedderHighThreshold")
_AVG_HITS: Final = (
    "loadBalancerAvgShedderHitCountLowThreshold",
    "loadBalancerAvgShedderHitCountHighThreshold",
)

_LAGGING_ROUNDS: Final = 5.0
_HALF: Final = 0.5
_FULL_PCT: Final = 100.0


def switched_off(case: Case) -> Iterator[Combination]:
    """The cluster does not shed by itself."""
    off = case.settings.shedding_off
    if off:
        yield Combination(
            code="no_shedding",
            weight="info",
            keys=off,
            evidence=f"{off[0]} is false.",
            consequence="The cluster sheds nothing by itself.",
            hint="Everything about shedding waits for that switch.",
        )


def weightless(case: Case) -> Iterator[Combination]:
    """No resource counts."""
    if any(resource_weights(case.settings).values()):
        return
    yield Combination(
        code="weightless",
        weight="warning",
        keys=tuple(one.key for one in SETTINGS if one.key.endswith("ResourceWeight")),
        evidence="No resource has a weight: all of them are 0.",
        consequence="The usage of every broker is 0, and nothing that goes by usage ever acts.",
        hint="Give at least the network a weight of 1.",
        wanted={_IN_WEIGHT: 1.0, _OUT_WEIGHT: 1.0},
    )


def lag(case: Case) -> Iterator[Combination]:
    """Usage that is smoothed so much that a relieved broker goes on giving away."""
    history = case.number(_HISTORY)
    if history >= 1:
        yield Combination(
            code="frozen_usage",
            weight="warning",
            keys=(_HISTORY,),
            evidence=f"{_HISTORY} is {history:g}: the newest usage weighs nothing.",
            consequence="The usage that shedding goes by stays what it first was, for ever.",
            hint="Below 1; upstream has 0.9.",
            wanted={_HISTORY: case.default(_HISTORY)},
        )
    if case.shedder != "ThresholdShedder" or case.is_extensible or not 0 < history < 1:
        return
    rounds = math.log(_HALF) / math.log(history)
    if rounds < _LAGGING_ROUNDS:
        return
    minutes = rounds * case.number(INTERVAL)
    yield Combination(
        code="lagging_usage",
        weight="info",
        keys=(_HISTORY, INTERVAL),
        evidence=f"ThresholdShedder smooths usage with {history:g} of the past: a change is half "
        f"seen after {rounds:.1f} rounds ({minutes:.0f} min).",
        consequence="A broker that was relieved goes on giving away meanwhile.",
        hint="A grace period longer than that keeps bundles from coming back.",
    )


def grace(case: Case) -> Iterator[Combination]:
    """Bundles that may be shed again before their load was measured in the new place."""
    rest, interval = (case.number(key) for key in (_GRACE, INTERVAL))
    if not case.is_extensible and rest < 2 * interval:
        yield Combination(
            code="short_grace",
            weight="warning",
            keys=(_GRACE, INTERVAL),
            evidence=f"A bundle rests {rest:g} min after it was shed, and a round comes every "
            f"{interval:g} min.",
            consequence="It may be shed again before its load is averaged.",
            hint="Rest at least ten rounds; 30 min is the default.",
            wanted={_GRACE: max(30, round(10 * interval))},
        )


def uniform(case: Case) -> Iterator[Combination]:
    """UniformLoadShedder that never acts, or moves everything."""
    if case.shedder != "UniformLoadShedder" or case.is_extensible:
        return
    if all(case.number(key) <= 0 for key in _UNIFORM):
        yield Combination(
            code="no_threshold",
            weight="warning",
            keys=_UNIFORM,
            evidence="Both thresholds of UniformLoadShedder are off (0 or less).",
            consequence="It never acts.",
            hint="Give one of them a value above 0.",
            wanted={key: case.default(key) for key in _UNIFORM},
        )
    if all(case.number(key) <= 0 for key in _MINIMUMS):
        yield Combination(
            code="no_minimum",
            weight="warning",
            keys=_MINIMUMS,
            evidence="Both minimums of UniformLoadShedder are 0.",
            consequence="It moves bundles without any traffic too, all of them.",
            hint="Leave them at 1,000 msg/s and 1 MiB/s.",
            wanted={key: case.default(key) for key in _MINIMUMS},
        )


def share_of_the_gap(case: Case) -> Iterator[Combination]:
    """A share of the gap that is moved at once: too much, or nothing."""
    share = case.number(_SHARE)
    if case.is_extensible or case.shedder not in ("UniformLoadShedder", "AvgShedder"):
        return
    if share > _HALF:
        yield Combination(
            code="overshoot",
            weight="warning",
            keys=(_SHARE,),
            evidence=f"{_SHARE} is {share:g}.",
            consequence="A round may move more than half of the gap, and the two brokers change "
            "places.",
            hint=f"At most {_HALF:g}.",
            wanted={_SHARE: _HALF},
        )
    elif share <= 0:
        yield Combination(
            code="nothing_to_move",
            weight="warning",
            keys=(_SHARE,),
            evidence=f"{_SHARE} is {share:g}.",
            consequence=f"{case.shedder} wants to move nothing of the gap, however wide it is.",
            hint=f"Above 0, at most {_HALF:g}.",
            wanted={_SHARE: case.default(_SHARE)},
        )


def avg_thresholds(case: Case) -> Iterator[Combination]:
    """AvgShedder's low and high limits in the wrong order."""
    if case.shedder != "AvgShedder" or case.is_extensible:
        return
    (low, high), (many, few) = (
        tuple(case.number(key) for key in keys) for keys in (_AVG_GAPS, _AVG_HITS)
    )
    if low < high and many >= few:
        return
    yield Combination(
        code="thresholds_crossed",
        weight="warning",
        keys=(*_AVG_GAPS, *_AVG_HITS),
        evidence=f"AvgShedder acts on a gap of {low:g} points after {many:g} hits, and on one of "
        f"{high:g} after {few:g}.",
        consequence="A wide gap is meant to be acted on sooner than a narrow one; here it is not.",
        hint="The low threshold below the high one, its hit count not below the other's.",
        wanted={key: case.default(key) for key in (*_AVG_GAPS, *_AVG_HITS)},
    )


def overload_limit(case: Case) -> Iterator[Combination]:
    """An overload limit that usage cannot reach."""
    limit = case.number(_OVERLOAD)
    heaviest = max(resource_weights(case.settings).values(), default=1.0)
    if limit < _FULL_PCT * max(heaviest, 1.0):
        return
    is_deaf = case.shedder == "OverloadShedder" and not case.is_extensible
    yield Combination(
        code="overload_out_of_reach",
        weight="warning" if is_deaf else "info",
        keys=(_OVERLOAD,),
        evidence=f"{_OVERLOAD} is {limit:g}: a broker is never over it.",
        consequence="OverloadShedder never acts."
        if is_deaf
        else "No broker counts as overloaded, for placement either: only the other measures "
        "decide.",
        hint="Some set it so on purpose, where brokers share their hosts; findings and the "
        "overview then never call a broker overloaded.",
        wanted={_OVERLOAD: case.default(_OVERLOAD)} if is_deaf else {},
    )


def target_deviation(case: Case) -> Iterator[Combination]:
    """A target of the extensible manager that no fleet meets."""
    target = case.number(_TARGET_STD)
    if case.is_extensible and target <= 0:
        yield Combination(
            code="never_even",
            weight="warning",
            keys=(_TARGET_STD,),
            evidence=f"{_TARGET_STD} is {target:g}.",
            consequence="No fleet is that even: TransferShedder moves bundles in every round.",
            hint="Upstream has 0.25.",
            wanted={_TARGET_STD: case.default(_TARGET_STD)},
        )


def debug_decides(case: Case) -> Iterator[Combination]:
    """A debug switch that changes what is decided.

    Source:
        Pulsar ``TransferShedder#findBundlesForUnloading``: the traffic that is swapped back is
        added up in debug mode only.
    """
    if case.is_extensible and case.settings.flag(_DEBUG):
        yield Combination(
            code="debug_decides",
            weight="warning",
            keys=(_DEBUG,),
            evidence=f"{_DEBUG} is true.",
            consequence="It does more than log: TransferShedder then counts swapped-back traffic, "
            "and goes through other brokers than without it.",
            hint="Switch it off when the question is answered.",
            wanted={_DEBUG: False},
        )


RULES: Final[tuple[CombinationRule, ...]] = (
    switched_off,
    weightless,
    lag,
    grace,
    uniform,
    share_of_the_gap,
    avg_thresholds,
    overload_limit,
    target_deviation,
    debug_decides,
)
