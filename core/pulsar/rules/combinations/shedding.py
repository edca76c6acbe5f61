"""Thresholds, weights and shares of the shedders that cannot work together."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

from core.findings.engine import Rule
from core.findings.finding import Finding, Fix
from core.findings.quantity import Quantity
from core.pulsar.load import resource_weights
from core.pulsar.rules.combinations.model import INTERVAL, Case
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


def switched_off(case: Case) -> Iterator[Finding]:
    """The cluster does not shed by itself."""
    off = case.settings.shedding_off
    if off:
        yield Finding(
            code="no_shedding",
            title="Automatic shedding is off",
            measured=Quantity("false"),
            limit=Quantity("true"),
            severity="info",
            keys=off,
            sentence=f"{off[0]} is false.",
            consequence="The cluster sheds nothing automatically.",
            hint="All other shedding settings have no effect until then.",
        )


def zero_weights(case: Case) -> Iterator[Finding]:
    """No resource counts."""
    if any(resource_weights(case.settings).values()):
        return
    yield Finding(
        code="zero_weights",
        title="All resource weights are zero",
        measured=Quantity(0),
        severity="warning",
        keys=tuple(one.key for one in SETTINGS if one.key.endswith("ResourceWeight")),
        sentence="The weight of every resource is 0.",
        consequence="The usage of every broker is 0, and strategies based on usage never act.",
        hint="Set at least the network weights to 1.",
        fix=Fix(wanted={_IN_WEIGHT: 1.0, _OUT_WEIGHT: 1.0}),
    )


def lag(case: Case) -> Iterator[Finding]:
    """Usage that is smoothed so much that a relieved broker goes on giving away."""
    history = case.number(_HISTORY)
    if history >= 1:
        yield Finding(
            code="frozen_usage",
            title="Smoothing ignores the newest usage",
            measured=Quantity(history),
            severity="warning",
            keys=(_HISTORY,),
            sentence=f"{_HISTORY} is {history:g}: the newest usage has no weight.",
            consequence="The usage for shedding keeps its first value forever.",
            hint="Below 1; the upstream default is 0.9.",
            fix=Fix(wanted={_HISTORY: case.default(_HISTORY)}),
        )
    if not case.sheds_by(_HISTORY) or not 0 < history < 1:
        return
    rounds = math.log(_HALF) / math.log(history)
    if rounds < _LAGGING_ROUNDS:
        return
    minutes = rounds * case.number(INTERVAL)
    yield Finding(
        code="lagging_usage",
        title="Smoothed usage lags behind the load",
        measured=Quantity(minutes, "min"),
        severity="info",
        keys=(_HISTORY, INTERVAL),
        sentence=f"{case.shedder} smooths usage with {history:g} of the past: half of a "
        f"change is visible after {rounds:.1f} rounds ({minutes:.0f} min).",
        consequence="A relieved broker continues shedding until then.",
        hint="A longer grace period keeps bundles from returning.",
    )


def grace(case: Case) -> Iterator[Finding]:
    """Bundles that may be shed again before their load was measured in the new place."""
    rest, interval = (case.number(key) for key in (_GRACE, INTERVAL))
    if not case.is_extensible and rest < 2 * interval:
        yield Finding(
            code="short_grace",
            title="Grace period is shorter than a round",
            measured=Quantity(rest, "min"),
            limit=Quantity(interval, "min"),
            severity="warning",
            keys=(_GRACE, INTERVAL),
            sentence=f"A bundle is not shed again for {rest:g} min, but a round runs every "
            f"{interval:g} min.",
            consequence="It may be shed again before its load is averaged.",
            hint="Use at least ten rounds; the default is 30 min.",
            fix=Fix(wanted={_GRACE: max(30, round(10 * interval))}),
        )


def uniform(case: Case) -> Iterator[Finding]:
    """Thresholds and minimums with which a strategy never acts, or moves everything."""
    if not all(case.sheds_by(key) for key in _UNIFORM):
        return
    if all(case.number(key) <= 0 for key in _UNIFORM):
        yield Finding(
            code="no_threshold",
            title="Both shedding thresholds are off",
            severity="warning",
            keys=_UNIFORM,
            sentence=f"Both thresholds of {case.shedder} are off (0 or less).",
            consequence="It never acts.",
            hint="Set one of them above 0.",
            fix=Fix(wanted={key: case.default(key) for key in _UNIFORM}),
        )
    if all(case.number(key) <= 0 for key in _MINIMUMS):
        yield Finding(
            code="no_minimum",
            title="Both shedding minimums are zero",
            measured=Quantity(0),
            severity="warning",
            keys=_MINIMUMS,
            sentence=f"Both minimums of {case.shedder} are 0.",
            consequence="It also moves bundles without traffic, all of them.",
            hint="Keep them at 1,000 msg/s and 1 MiB/s.",
            fix=Fix(wanted={key: case.default(key) for key in _MINIMUMS}),
        )


def share_of_the_gap(case: Case) -> Iterator[Finding]:
    """A share of the gap that is moved at once: too much, or nothing."""
    share = case.number(_SHARE)
    if not case.sheds_by(_SHARE):
        return
    if share > _HALF:
        yield Finding(
            code="overshoot",
            title="Unload share overshoots the mean",
            measured=Quantity(share),
            severity="warning",
            keys=(_SHARE,),
            sentence=f"{_SHARE} is {share:g}.",
            consequence="A round may move more than half of the gap, so that the two brokers "
            "swap their load.",
            hint=f"At most {_HALF:g}.",
            fix=Fix(wanted={_SHARE: _HALF}),
        )
    elif share <= 0:
        yield Finding(
            code="nothing_to_move",
            title="Unload share moves nothing",
            measured=Quantity(share),
            severity="warning",
            keys=(_SHARE,),
            sentence=f"{_SHARE} is {share:g}.",
            consequence=f"{case.shedder} moves no bundles.",
            hint=f"Above 0, at most {_HALF:g}.",
            fix=Fix(wanted={_SHARE: case.default(_SHARE)}),
        )


def avg_thresholds(case: Case) -> Iterator[Finding]:
    """A low and a high limit in the wrong order."""
    if not all(case.sheds_by(key) for key in (*_AVG_GAPS, *_AVG_HITS)):
        return
    (low, high), (many, few) = (
        tuple(case.number(key) for key in keys) for keys in (_AVG_GAPS, _AVG_HITS)
    )
    if low < high and many >= few:
        return
    yield Finding(
        code="thresholds_crossed",
        title="Low and high thresholds are crossed",
        measured=Quantity(low, "points"),
        limit=Quantity(high, "points"),
        severity="warning",
        keys=(*_AVG_GAPS, *_AVG_HITS),
        sentence=f"{case.shedder} acts on a gap of {low:g} points after {many:g} hits, and on one "
        f"of {high:g} after {few:g}.",
        consequence="A large gap should trigger sooner than a small one; here it does not.",
        hint="Set the low threshold below the high one, and its hit count not below the other's.",
        fix=Fix(wanted={key: case.default(key) for key in (*_AVG_GAPS, *_AVG_HITS)}),
    )


def overload_limit(case: Case) -> Iterator[Finding]:
    """An overload limit that usage cannot reach."""
    limit = case.number(_OVERLOAD)
    heaviest = max(resource_weights(case.settings).values(), default=1.0)
    if limit < _FULL_PCT * max(heaviest, 1.0):
        return
    is_deaf = case.sheds_by(_OVERLOAD)
    yield Finding(
        code="overload_out_of_reach",
        title="Overload threshold cannot be reached",
        measured=Quantity(limit, "percent"),
        limit=Quantity(100, "percent"),
        severity="warning" if is_deaf else "info",
        keys=(_OVERLOAD,),
        sentence=f"{_OVERLOAD} is {limit:g}: a broker never exceeds it.",
        consequence=f"{case.shedder} never acts."
        if is_deaf
        else "No broker counts as overloaded, for placement either: only the other measures apply.",
        hint="This can be intentional where brokers share their hosts; findings and "
        "the overview then never report an overloaded broker.",
        fix=Fix(wanted={_OVERLOAD: case.default(_OVERLOAD)} if is_deaf else {}),
    )


def target_deviation(case: Case) -> Iterator[Finding]:
    """A target of the extensible manager that no fleet meets."""
    target = case.number(_TARGET_STD)
    if case.is_extensible and target <= 0:
        yield Finding(
            code="band_never_balances",
            title="Target deviation cannot be reached",
            measured=Quantity(target),
            severity="warning",
            keys=(_TARGET_STD,),
            sentence=f"{_TARGET_STD} is {target:g}.",
            consequence="No cluster is that even: TransferShedder moves bundles in every round.",
            hint="The upstream default is 0.25.",
            fix=Fix(wanted={_TARGET_STD: case.default(_TARGET_STD)}),
        )


def debug_decides(case: Case) -> Iterator[Finding]:
    """A debug switch that changes what is decided.

    Source:
        Pulsar ``TransferShedder#findBundlesForUnloading``: the traffic that is swapped back is
        added up in debug mode only.
    """
    if case.is_extensible and case.settings.flag(_DEBUG):
        yield Finding(
            code="debug_changes_result",
            title="Debug mode changes shedding decisions",
            measured=Quantity("true"),
            limit=Quantity("false"),
            severity="warning",
            keys=(_DEBUG,),
            sentence=f"{_DEBUG} is true.",
            consequence="It does more than log: TransferShedder then counts swapped-back "
            "traffic, and evaluates other brokers than without it.",
            hint="Switch it off after debugging.",
            fix=Fix(wanted={_DEBUG: False}),
        )


RULES: Final[tuple[Rule[Case], ...]] = (
    switched_off,
    zero_weights,
    lag,
    grace,
    uniform,
    share_of_the_gap,
    avg_thresholds,
    overload_limit,
    target_deviation,
    debug_decides,
)
