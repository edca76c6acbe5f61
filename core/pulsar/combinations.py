"""Settings that do not go together: each is sound by itself, and the pair does harm."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, Literal

from core.pulsar.load import resource_weights
from core.pulsar.settings import SETTINGS, EffectiveSettings
from core.snapshot import LoadManager

Weight = Literal["warning", "info"]

_SHEDDER: Final = "loadBalancerLoadSheddingStrategy"
_PLACEMENT: Final = "loadBalancerLoadPlacementStrategy"
_HISTORY: Final = "loadBalancerHistoryResourcePercentage"
_GRACE: Final = "loadBalancerSheddingGracePeriodMinutes"
_INTERVAL: Final = "loadBalancerSheddingIntervalMinutes"
_UNIFORM_RATE: Final = "loadBalancerMsgRateDifferenceShedderThreshold"
_UNIFORM_FLOW: Final = "loadBalancerMsgThroughputMultiplierDifferenceShedderThreshold"
_SHARE: Final = "maxUnloadPercentage"
_MINIMUMS: Final = ("minUnloadMessage", "minUnloadMessageThroughput")
_SPLIT: Final = "loadBalancerAutoBundleSplitEnabled"
_EVENLY: Final = "loadBalancerDistributeBundlesEvenlyEnabled"

_USAGE: Final = "weighted usage (CPU, memory, network)"
_RATE: Final = "message rate"
SHEDS_BY: Final = {
    "ThresholdShedder": _USAGE,
    "OverloadShedder": _USAGE,
    "UniformLoadShedder": f"{_RATE} and throughput",
    "AvgShedder": _USAGE,
}
"""By what each shedder of the modular manager tells a busy broker."""

PLACES_BY: Final = {
    "LeastLongTermMessageRate": _RATE,
    "LeastResourceUsageWithWeight": _USAGE,
    "RoundRobinBrokerSelector": "turn",
    "AvgShedder": _USAGE,
}
"""By what each placement strategy of the modular manager tells an idle one."""

_LAGGING_ROUNDS: Final = 5.0
_HALF: Final = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Combination:
    """Settings that do harm together, or do nothing.

    Attributes:
        code: Stable word.
        weight: ``warning``: the balance suffers; ``info``: worth knowing.
        keys: The settings.
        sentence: What comes of it, with the values.
        hint: What to do.
    """

    code: str
    weight: Weight
    keys: tuple[str, ...]
    sentence: str
    hint: str = ""


@dataclass(frozen=True)
class _Case:
    settings: EffectiveSettings
    is_extensible: bool

    def short(self, key: str) -> str:
        """Class name without its package."""
        return self.settings.text(key).rpartition(".")[2]

    @property
    def shedder(self) -> str:
        return self.short(_SHEDDER)


def combinations(settings: EffectiveSettings, load_manager: LoadManager) -> tuple[Combination, ...]:
    """Return what does harm together, warnings first.

    Args:
        settings: In force.
        load_manager: Which one decides; the modular one's rules hold where it is unknown.
    """
    case = _Case(settings, load_manager == "extensible")
    found = [item for rule in _RULES for item in rule(case)]
    return tuple(sorted(found, key=lambda item: item.weight != "warning"))


def _measures(case: _Case) -> Iterator[Combination]:
    """Shed by one measure, placed by another: what leaves comes back, or lands on a busy one."""
    if case.is_extensible:
        return
    shedder, placement = case.shedder, case.short(_PLACEMENT)
    outcome = outcome_of_half_a_pair(case.settings)
    if outcome:
        yield Combination(
            code="half_a_pair",
            weight="warning",
            keys=(_SHEDDER, _PLACEMENT),
            sentence=f"Bundles are shed by {shedder} and placed by {placement}: AvgShedder works "
            f"as a pair, for it plans the destination when it sheds. {outcome}",
            hint="Name AvgShedder in both, or in neither.",
        )
        return
    sheds_by, places_by = SHEDS_BY.get(shedder), PLACES_BY.get(placement)
    if sheds_by is None or places_by is None:
        return
    if not sheds_by.startswith(places_by):
        yield Combination(
            code="two_measures",
            weight="warning",
            keys=(_SHEDDER, _PLACEMENT),
            sentence=f"{shedder} sheds by {sheds_by}; {placement} places by {places_by}: a broker "
            "that is busy for the one can be idle for the other, and bundles come back.",
            hint=_one_measure(shedder),
        )
    elif shedder == "UniformLoadShedder":
        yield Combination(
            code="two_spans",
            weight="info",
            keys=(_SHEDDER, _PLACEMENT),
            sentence="UniformLoadShedder goes by what was measured last, "
            "LeastLongTermMessageRate by the average of about 1,000 reports: a new peak counts "
            "late for placement.",
        )


def half_a_pair(settings: EffectiveSettings, load_manager: LoadManager) -> Combination | None:
    """Return the warning that AvgShedder is in force in one of its two places only, if it is."""
    found = _measures(_Case(settings, load_manager == "extensible"))
    return next((item for item in found if item.code == "half_a_pair"), None)


def outcome_of_half_a_pair(settings: EffectiveSettings) -> str:
    """Return what comes of AvgShedder in one of its two places; blank: in both, or in neither.

    Source:
        Pulsar ``ModularLoadManagerImpl``, 4.x: a placement class that sheds too has to be the
        shedding class, else it throws at the start; 5.0: a classic shedder beside it means
        ``LeastLongTermMessageRate``.
    """
    shedder, placement = (settings.text(key).rpartition(".")[2] for key in (_SHEDDER, _PLACEMENT))
    if (shedder == "AvgShedder") is (placement == "AvgShedder"):
        return ""
    if shedder == "AvgShedder":
        return "Its plan is left unused, and bundles land elsewhere than it reckoned."
    if settings.release < "5.0":
        return f"With these two a broker of {settings.release} does not start."
    return f"A broker of {settings.release} then places by LeastLongTermMessageRate."


def _one_measure(shedder: str) -> str:
    if shedder == "UniformLoadShedder":
        return "LeastLongTermMessageRate goes with it; it is read when a broker starts."
    return (
        "LeastResourceUsageWithWeight goes with it; it is read when a broker starts. "
        "Try the pair under Rebalance first."
    )


def _switched_off(case: _Case) -> Iterator[Combination]:
    off = case.settings.shedding_off
    if off:
        yield Combination(
            code="no_shedding",
            weight="info",
            keys=off,
            sentence=f"The cluster sheds nothing by itself: {off[0]} is false.",
            hint="Everything about shedding below waits for that switch.",
        )


def _weightless(case: _Case) -> Iterator[Combination]:
    weights = resource_weights(case.settings)
    if not any(weights.values()):
        yield Combination(
            code="weightless",
            weight="warning",
            keys=tuple(_weight_keys()),
            sentence="No resource has a weight: the usage of every broker is 0, and nothing that "
            "goes by usage ever acts.",
            hint="Give at least the network a weight of 1.",
        )


def _weight_keys() -> Iterator[str]:
    for setting in SETTINGS:
        if setting.key.endswith("ResourceWeight"):
            yield setting.key


def _misspelt(case: _Case) -> Iterator[Combination]:
    """The misspelt old key counts while the new one is exactly 1."""
    for way in ("In", "Out"):
        new, old = (f"loadBalancer{word}{way}ResourceWeight" for word in ("Bandwidth", "Bandwith"))
        weight, held = case.settings.number(new), case.settings.number(old)
        if held != 1.0:
            wins = "it counts" if weight == 1.0 else f"{new} counts, being other than 1"
            yield Combination(
                code="look_alike_keys",
                weight="warning",
                keys=(old, new),
                sentence=f"The misspelt key {old} is {held:g} beside {new} of {weight:g}: {wins}.",
                hint="Use the well-spelt key alone.",
            )


def _lag(case: _Case) -> Iterator[Combination]:
    history = case.settings.number(_HISTORY)
    if case.shedder != "ThresholdShedder" or case.is_extensible or not 0 < history < 1:
        return
    rounds = math.log(_HALF) / math.log(history)
    if rounds < _LAGGING_ROUNDS:
        return
    minutes = rounds * case.settings.number(_INTERVAL)
    yield Combination(
        code="lagging_usage",
        weight="info",
        keys=(_HISTORY, _INTERVAL),
        sentence=f"ThresholdShedder smooths usage with {history:g} of the past: a change is half "
        f"seen after {rounds:.1f} rounds ({minutes:.0f} min), so a broker that was relieved goes "
        "on giving away meanwhile.",
        hint="A grace period longer than that keeps bundles from coming back.",
    )


def _grace(case: _Case) -> Iterator[Combination]:
    grace, interval = (case.settings.number(key) for key in (_GRACE, _INTERVAL))
    if not case.is_extensible and grace < 2 * interval:
        yield Combination(
            code="short_grace",
            weight="warning",
            keys=(_GRACE, _INTERVAL),
            sentence=f"A bundle rests {grace:g} min after it was shed, and a round comes every "
            f"{interval:g} min: it may be shed again before its load is averaged.",
            hint="Rest at least ten rounds; 30 min is the default.",
        )


def _uniform(case: _Case) -> Iterator[Combination]:
    if case.shedder != "UniformLoadShedder" or case.is_extensible:
        return
    settings = case.settings
    if all(settings.number(key) <= 0 for key in (_UNIFORM_RATE, _UNIFORM_FLOW)):
        yield Combination(
            code="no_threshold",
            weight="warning",
            keys=(_UNIFORM_RATE, _UNIFORM_FLOW),
            sentence="Both thresholds of UniformLoadShedder are off: it never acts.",
            hint="Give one of them a value above 0.",
        )
    if all(settings.number(key) <= 0 for key in _MINIMUMS):
        yield Combination(
            code="no_minimum",
            weight="warning",
            keys=_MINIMUMS,
            sentence="Both minimums are 0: UniformLoadShedder moves bundles without any traffic "
            "too, all of them.",
            hint="Leave them at 1,000 msg/s and 1 MiB/s.",
        )


def _overshoot(case: _Case) -> Iterator[Combination]:
    share = case.settings.number(_SHARE)
    if case.shedder in ("UniformLoadShedder", "AvgShedder") and share > _HALF:
        yield Combination(
            code="overshoot",
            weight="warning",
            keys=(_SHARE,),
            sentence=f"{_SHARE} is {share:g}: a round may move more than half of the gap, and the "
            "two brokers change places.",
            hint=f"At most {_HALF:g}.",
        )


def _evenly(case: _Case) -> Iterator[Combination]:
    if case.settings.flag(_EVENLY) and not case.is_extensible:
        yield Combination(
            code="count_before_load",
            weight="info",
            keys=(_EVENLY, _PLACEMENT),
            sentence="Before the placement strategy is asked, the brokers with more bundles of the "
            "namespace than others are ruled out: the count decides before the load.",
        )


def _not_felt(case: _Case) -> Iterator[Combination]:
    """Dynamic values that brokers only read when they start."""
    settings = case.settings
    late = [
        setting.key
        for setting in SETTINGS
        if setting.takes_effect == "restart" and settings.origin(setting.key) == "dynamic"
    ]
    if late:
        verb = "is" if len(late) == 1 else "are"
        yield Combination(
            code="felt_at_restart",
            weight="warning",
            keys=tuple(late),
            sentence=f"{', '.join(late)} {verb} set dynamically, and brokers read it only when "
            "they start: what the running ones go by may be another value.",
            hint="Restart the brokers one by one, or compare with what they started with.",
        )


def _not_read(case: _Case) -> Iterator[Combination]:
    """Changed settings that this cluster's load manager does not look at."""
    manager = "extensible" if case.is_extensible else "modular"
    idle = [
        setting.key
        for setting in SETTINGS
        if manager not in setting.managers
        and case.settings.origin(setting.key) in ("dynamic", "file")
        and case.settings.value(setting.key) != setting.default_for(case.settings.release)
    ]
    if idle:
        verb = "is" if len(idle) == 1 else "are"
        yield Combination(
            code="not_read",
            weight="info",
            keys=tuple(idle),
            sentence=f"{', '.join(idle)} {verb} changed, and the {manager} load manager of this "
            "cluster does not read it.",
        )


def _parts(case: _Case) -> Iterator[Combination]:
    key = "loadBalancerAutoUnloadSplitBundlesEnabled"
    settings = case.settings
    if not case.is_extensible and settings.flag(_SPLIT) and settings.flag(key):
        yield Combination(
            code="split_unloads",
            weight="info",
            keys=(_SPLIT, key),
            sentence="An automatic split unloads its parts: the clients of a busy bundle reconnect "
            "when it is busiest.",
            hint="With false the parts stay, and shedding moves one when there is reason to.",
        )


_RULES: Final[tuple[Callable[[_Case], Iterator[Combination]], ...]] = (
    _measures,
    _switched_off,
    _weightless,
    _misspelt,
    _lag,
    _grace,
    _uniform,
    _overshoot,
    _evenly,
    _not_felt,
    _not_read,
    _parts,
)
