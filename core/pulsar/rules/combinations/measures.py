"""Shed by one measure, placed by another; classes of the other load manager."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from core.findings.engine import Rule
from core.findings.finding import Finding, Fix
from core.pulsar.rules.combinations.model import IMPL, PLACEMENT, SHEDDER, Case
from core.pulsar.settings import SETTING_BY_KEY, EffectiveSettings
from core.snapshot import LoadManager

_USAGE: Final = "weighted usage (CPU, memory, network)"
_RATE: Final = "message rate"
_TRANSFER: Final = "org.apache.pulsar.broker.loadbalance.extensions.scheduler.TransferShedder"
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


def measures(case: Case) -> Iterator[Finding]:
    """Shed by one measure, placed by another: what leaves comes back, or lands on a busy one."""
    if case.is_extensible:
        return
    shedder, placement = case.shedder, case.short(PLACEMENT)
    outcome = outcome_of_half_a_pair(case.settings)
    if outcome:
        other = PLACEMENT if shedder == "AvgShedder" else SHEDDER
        yield Finding(
            code="half_a_pair",
            severity="warning",
            keys=(SHEDDER, PLACEMENT),
            sentence=f"Bundles are shed by {shedder} and placed by {placement}: AvgShedder works "
            "as a pair, for it plans the destination when it sheds.",
            consequence=outcome,
            hint="Name AvgShedder in both, or in neither.",
            fix=Fix(wanted={other: IMPL + "AvgShedder"}),
        )
        return
    sheds_by, places_by = SHEDS_BY.get(shedder), PLACES_BY.get(placement)
    if sheds_by is None or places_by is None:
        return
    if not sheds_by.startswith(places_by):
        fitting, is_settable = _placement_for(shedder), case.settings.has(PLACEMENT)
        yield Finding(
            code="two_measures",
            severity="warning" if is_settable else "info",
            keys=(SHEDDER, PLACEMENT),
            sentence=f"{shedder} sheds by {sheds_by}; {placement} places by {places_by}.",
            consequence="A broker that is busy for the one can be idle for the other, and bundles "
            "come back.",
            hint=f"{fitting} goes with it; it is read when a broker starts. "
            "Try the pair under Rebalance first."
            if is_settable
            else f"Release {case.settings.target.name} has no setting {PLACEMENT}. "
            f"Available in {SETTING_BY_KEY[PLACEMENT].available_in}.",
            fix=Fix(wanted={PLACEMENT: IMPL + fitting} if is_settable else {}),
        )
    elif shedder == "UniformLoadShedder":
        yield Finding(
            code="two_spans",
            severity="info",
            keys=(SHEDDER, PLACEMENT),
            sentence="UniformLoadShedder goes by what was measured last, "
            "LeastLongTermMessageRate by the average of about 1,000 reports.",
            consequence="A new peak counts late for placement.",
        )


def half_a_pair(settings: EffectiveSettings, load_manager: LoadManager) -> Finding | None:
    """Return the warning that AvgShedder is active in one of its two places only, if it is."""
    found = measures(Case(settings, load_manager))
    return next((item for item in found if item.code == "half_a_pair"), None)


def outcome_of_half_a_pair(settings: EffectiveSettings) -> str:
    """Return the effect of AvgShedder in one of its two places; blank: in both, or in neither.

    Source:
        Pulsar ``ModularLoadManagerImpl``, 4.x: a placement class that sheds too has to be the
        shedding class, else it throws at the start; 5.0: a classic shedder with it means
        ``LeastLongTermMessageRate``.
    """
    shedder, placement = (settings.text(key).rpartition(".")[2] for key in (SHEDDER, PLACEMENT))
    if (shedder == "AvgShedder") is (placement == "AvgShedder"):
        return ""
    if shedder == "AvgShedder":
        return "Its plan is left unused, and bundles land elsewhere than planned."
    if settings.release < "5.0":
        return f"With these two a broker of {settings.release} does not start."
    return f"A broker of {settings.release} then places by LeastLongTermMessageRate."


def _placement_for(shedder: str) -> str:
    if shedder == "UniformLoadShedder":
        return "LeastLongTermMessageRate"
    return "LeastResourceUsageWithWeight"


def other_managers_class(case: Case) -> Iterator[Finding]:
    """A shedding class that this cluster's load manager cannot run.

    Source:
        Pulsar ``ModularLoadManagerImpl#createLoadSheddingStrategy`` (no fallback),
        ``UnloadScheduler#createNamespaceUnloadStrategy`` (TransferShedder instead).
    """
    is_transfer = case.shedder == "TransferShedder"
    if not case.is_extensible and is_transfer:
        yield Finding(
            code="class_of_other_manager",
            severity="warning",
            keys=(SHEDDER, "loadManagerClassName"),
            sentence="TransferShedder is named, and the brokers run the modular load manager.",
            consequence="It belongs to the extensible manager: a broker that starts so fails, "
            "those that run go on with what they started with.",
            hint="Name a class of the modular manager before any broker restarts.",
            fix=Fix(wanted={SHEDDER: IMPL + "ThresholdShedder"}),
        )
    elif case.is_extensible and not is_transfer and case.is_changed(SHEDDER):
        yield Finding(
            code="class_of_other_manager",
            severity="info",
            keys=(SHEDDER, "loadManagerClassName"),
            sentence=f"{case.shedder} is named, and the brokers run the extensible load manager.",
            consequence="It runs TransferShedder instead, so nothing of the named class is in "
            "force.",
            fix=Fix(wanted={SHEDDER: _TRANSFER}),
        )


RULES: Final[tuple[Rule[Case], ...]] = (measures, other_managers_class)
