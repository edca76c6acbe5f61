"""Shed by one measure, placed by another; classes of the other load manager."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from core.findings.engine import Rule
from core.findings.finding import Finding, Fix
from core.findings.quantity import Quantity
from core.pulsar.placement import PAIRED_NAMES
from core.pulsar.placement.pair import half_pair_evidence, unpaired_outcome
from core.pulsar.rules.combinations.model import IMPL, PLACEMENT, SHEDDER, Case
from core.pulsar.settings import SETTING_BY_KEY, EffectiveSettings
from core.pulsar.shedding import known_shedding_strategy, strategies_run_by, upstream_class
from core.pulsar.shedding.model import RATE, USAGE
from core.snapshot import LoadManager

PLACES_BY: Final = {
    "LeastLongTermMessageRate": RATE,
    "LeastResourceUsageWithWeight": USAGE,
    "RoundRobinBrokerSelector": "turn",
    **dict.fromkeys(PAIRED_NAMES, USAGE),
}
"""By what each placement strategy of the modular manager recognizes an idle one."""


def measures(case: Case) -> Iterator[Finding]:
    """Shed by one measure, placed by another: what leaves comes back, or lands on a busy one."""
    if case.is_extensible:
        return
    shedder, placement = case.shedder, case.short(PLACEMENT)
    outcome = unpaired_outcome(case.settings)
    if outcome:
        pair, other = (shedder, PLACEMENT) if shedder in PAIRED_NAMES else (placement, SHEDDER)
        yield Finding(
            code="unpaired_avg_shedder",
            title="AvgShedder is configured on one side only",
            severity="warning",
            keys=(SHEDDER, PLACEMENT),
            sentence=half_pair_evidence(case.settings),
            consequence=outcome,
            hint=f"Use {pair} for both, or for neither.",
            fix=Fix(wanted={other: upstream_class(pair)}),
        )
        return
    strategy, places_by = known_shedding_strategy(shedder), PLACES_BY.get(placement)
    if strategy is None or not strategy.measure or places_by is None:
        return
    sheds_by = strategy.measure
    if not sheds_by.startswith(places_by):
        fitting, is_settable = strategy.fitting_placement, case.settings.has(PLACEMENT)
        # what a release ships with is worth knowing; what was configured is worth a look
        is_shipped = all(case.settings.origin(key) == "default" for key in (SHEDDER, PLACEMENT))
        yield Finding(
            code="measures_differ",
            title="Shedding and placement measures differ",
            measured=Quantity(sheds_by.partition(" (")[0]),
            limit=Quantity(places_by),
            severity="warning" if is_settable and not is_shipped else "info",
            keys=(SHEDDER, PLACEMENT),
            sentence=f"{shedder} sheds by {sheds_by}; {placement} places by {places_by}.",
            consequence="A broker that is busy by one measure can be idle by the other, and "
            "bundles return.",
            hint=f"{fitting} fits; it is read when a broker starts. Simulate the pair "
            "under Rebalance first."
            if is_settable
            else f"Release {case.settings.target.name} has no setting {PLACEMENT}. "
            f"Available in {SETTING_BY_KEY[PLACEMENT].available_in}.",
            fix=Fix(wanted={PLACEMENT: IMPL + fitting} if is_settable else {}),
        )
    elif placement == "LeastLongTermMessageRate":
        yield Finding(
            code="averages_differ",
            title="Shedding and placement averages differ",
            severity="info",
            keys=(SHEDDER, PLACEMENT),
            sentence=f"{shedder} uses the latest measurement, LeastLongTermMessageRate the "
            "average of about 1,000 reports.",
            consequence="Placement reacts late to a new peak.",
        )


def unpaired_avg_shedder(settings: EffectiveSettings, load_manager: LoadManager) -> Finding | None:
    """Return the warning that a class is active in one of its two places only, if one is."""
    found = measures(Case(settings, load_manager))
    return next((item for item in found if item.code == "unpaired_avg_shedder"), None)


def other_managers_class(case: Case) -> Iterator[Finding]:
    """A shedding class that this cluster's load manager cannot run.

    Source:
        Pulsar ``ModularLoadManagerImpl#createLoadSheddingStrategy`` (no fallback),
        ``UnloadScheduler#createNamespaceUnloadStrategy`` (TransferShedder instead).
    """
    own = case.strategy
    (transfer,) = strategies_run_by("extensible")
    is_transfer = own is not None and own.manager == "extensible"
    if not case.is_extensible and is_transfer:
        yield Finding(
            code="class_of_other_manager",
            title="Strategy belongs to another load manager",
            measured=Quantity(case.shedder),
            severity="warning",
            keys=(SHEDDER, "loadManagerClassName"),
            sentence=f"{case.shedder} is configured, but the brokers run the modular load manager.",
            consequence="It belongs to the extensible manager: brokers fail to start with it; "
            "running brokers keep the previous strategy.",
            hint="Set a class of the modular manager before any broker restarts.",
            fix=Fix(wanted={SHEDDER: upstream_class(strategies_run_by("modular")[0].name)}),
        )
    elif case.is_extensible and not is_transfer and case.is_set(SHEDDER):
        yield Finding(
            code="class_of_other_manager",
            title="Strategy belongs to another load manager",
            measured=Quantity(case.shedder),
            limit=Quantity(transfer.name),
            severity="warning",
            keys=(SHEDDER,),
            sentence=f"{case.shedder} is configured, but the brokers run the extensible load "
            "manager.",
            consequence=f"It runs {transfer.name} instead: the configured class has no effect.",
            hint=f"Set {transfer.name}, or remove the setting.",
            fix=Fix(wanted={SHEDDER: upstream_class(transfer.name)}),
        )


RULES: Final[tuple[Rule[Case], ...]] = (measures, other_managers_class)
