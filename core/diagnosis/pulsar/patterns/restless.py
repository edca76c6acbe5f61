"""What is unloaded comes back, or goes to brokers that are busy themselves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from core.diagnosis.model import Outcome
from core.diagnosis.pulsar.context import Candidate, DiagnosisContext, with_setting
from core.diagnosis.pulsar.patterns.releases import later_has
from core.diagnosis.pulsar.trials import PLACEMENT, Change
from core.diagnosis.pulsar.values import alternatives
from core.pulsar.placement import active_placement
from core.pulsar.releases import REFERENCE_VERSIONS, Release
from core.pulsar.settings import SETTING_BY_KEY
from core.pulsar.shedding.registry import upstream_class
from core.units import format_ratio, pluralize

_EVENLY: Final = "loadBalancerDistributeBundlesEvenlyEnabled"
_HISTORY: Final = "loadBalancerHistoryResourcePercentage"
_BUNDLES_A_ROUND: Final = "maxUnloadBundleNumPerShedding"
_BY_RATE: Final = "LeastLongTermMessageRate"
_BY_USAGE: Final = "LeastResourceUsageWithWeight"
_PLACES_BY: Final = {
    _BY_RATE: "long-term message rate",
    _BY_USAGE: "weighted usage",
    "RoundRobinBrokerSelector": "turn",
}


def even_distribution(context: DiagnosisContext) -> Iterator[Candidate]:
    """Only brokers with the fewest bundles of a namespace are candidates, however busy they are."""
    if not context.settings.flag(_EVENLY) or _EVENLY not in context.reads():
        return
    end = context.end
    off = _off(context)
    if off[0].release is not None and not end.moves:
        return  # the upgrade alone changes what happens
    yield Candidate(
        code="even_distribution",
        keys=(_EVENLY,),
        objects=tuple(filter(None, (context.busiest,))),
        summary=f"{_EVENLY} places bundles only on brokers with the fewest bundles of their "
        f"namespace: {_ending(context)}, and the deviation ends at {format_ratio(end.deviation)}.",
        changes=(*off, *(one.also(other) for one in off for other in fitting_placements(context))),
        hint=""
        if off[0].release is None
        else f"Upgrade the brokers to {off[0].release} or later, which can disable it.",
        tier=0 if end.moves or not end.converges else 1,
    )


def _ending(context: DiagnosisContext) -> str:
    end = context.end
    if end.returned:
        return f"{end.returned:,} of {pluralize(end.moves, 'move')} return"
    if end.moves or end.converges:
        return pluralize(end.moves, "move")
    return "no shed bundle leaves its broker"


def _off(context: DiagnosisContext) -> tuple[Change, ...]:
    """Return the change that switches it off, by an upgrade where the release cannot."""
    setting = SETTING_BY_KEY[_EVENLY]
    target = context.settings.target
    first = next(
        (
            later
            for later in map(Release.of, REFERENCE_VERSIONS.values())
            if later.number >= target.number and setting.exists_in(later)
        ),
        target,
    )
    if first == target or setting.exists_in(target):
        return with_setting(context, _EVENLY, False)  # noqa: FBT003  # a value, no argument
    held = {key: context.settings.value(key) for key in context.reads() if later_has(key, first)}
    held[_EVENLY] = False
    return (context.base.also(Change(settings=held, release=first.name)),)


def smoothing(context: DiagnosisContext) -> Iterator[Candidate]:
    """Usage is smoothed by its past: a broker counts as busy after it was relieved."""
    ratio = context.settings.number(_HISTORY)
    if _HISTORY not in context.reads() or not ratio:
        return
    end = context.end
    yield Candidate(
        code="smoothed_usage",
        keys=(_HISTORY,),
        summary=f"{_HISTORY} is {ratio:g}: usage lags behind the load{_late_moves(end)}.",
        changes=with_setting(
            context, _HISTORY, *(value for value in (0.5, 0.2, 0.0) if value < ratio)
        ),
        measured=ratio,
        tier=0 if end.moves else 2,
    )


def _late_moves(end: Outcome) -> str:
    """Return the evidence that brokers shed after they are relieved; "" if there is none."""
    if not end.returned:
        return ""
    return (
        f", and brokers continue shedding after they are relieved ({end.returned:,} of "
        f"{pluralize(end.moves, 'move')} returned)"
    )


def idle_unloads(context: DiagnosisContext) -> Iterator[Candidate]:
    """Most of the bundles that are unloaded have no traffic: clients reconnect for nothing."""
    end = context.end
    if not end.is_mostly_idle or _BUNDLES_A_ROUND not in context.reads():
        return
    present = context.settings.number(_BUNDLES_A_ROUND)
    yield Candidate(
        code="idle_unloads",
        keys=(_BUNDLES_A_ROUND,),
        objects=tuple(filter(None, (context.busiest,))),
        summary=f"{context.strategy.name} unloads {pluralize(end.idle_moves, 'bundle')} "
        f"without traffic (of {end.moves:,} in total); {_BUNDLES_A_ROUND} is "
        f"{present:g}.",
        changes=with_setting(
            context,
            _BUNDLES_A_ROUND,
            *alternatives(_BUNDLES_A_ROUND, context.settings, context.view),
        ),
        measured=float(end.idle_moves),
        threshold=0.0,
        unit="bundles",
        calm_suffices=True,
    )


def fitting_placements(context: DiagnosisContext) -> tuple[Change, ...]:
    """Return placement changes that use the measure of shedding."""
    fitting = context.strategy.fitting_placement
    if context.trials.judged_by == "throughput" and fitting == _BY_RATE:
        fitting = _BY_USAGE  # traffic makes usage; none places by traffic itself
    active = active_placement(context.settings, context.view.load_manager)
    if not fitting or fitting == active or not context.settings.target.has_class(fitting):
        return ()
    return with_setting(context, PLACEMENT, upstream_class(fitting))


def placement_measure(context: DiagnosisContext) -> Iterator[Candidate]:
    """Shedding and placement use different measures."""
    changes = fitting_placements(context)
    if not changes:
        return
    active = active_placement(context.settings, context.view.load_manager)
    yield Candidate(
        code="measures_differ",
        keys=(PLACEMENT,),
        summary=f"{context.strategy.name} sheds by {context.strategy.measure or 'its own measure'},"
        f" {active} places by {_PLACES_BY.get(active, 'another measure')}.",
        changes=changes,
        tier=0 if context.end.moves else 2,
    )
