"""Candidates that might have kept a Pegasus cluster calm, and what one does to it as it is now."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any, Final

from core.diagnosis.model import Effect
from core.diagnosis.pegasus.context import PegasusDiagnosisContext
from core.diagnosis.pegasus.trials import Change, TimeUpError
from core.findings.finding import Fix
from core.history.backtest.model import Candidate
from core.history.backtest.pegasus.rules import (
    LEVEL,
    RECORDED_LEVEL,
    SWITCHES,
    checked_switch,
    rules_of,
    switches_in_force,
)
from core.pegasus.levels import FunctionLevel, parse_level
from core.pegasus.snapshot import PegasusFacts
from core.pegasus.steps.level import LEVEL_KEY
from core.snapshot.pegasus import PegasusSnapshot

_BUDGET_S: Final = 10.0
_POLICY: Final = "balance_cluster"
_PREFIX: Final = "meta.lb."
_CALMING: Final = ("only_move_primary", "only_primary_balancer", "balancer_in_turn")


def converged(
    snapshot: PegasusSnapshot, best: Mapping[str, Any], record: Mapping[str, Any]
) -> Effect | None:
    """Simulate a candidate until the balancer plans nothing; see :class:`BacktestSystem`.

    Switches of the guardian are not simulated: it makes partitions whole, and nothing even.
    """
    settings = json.loads(best["settings"])
    policy = None if best["shedding"] == record["shedding"] else best["shedding"]
    context = PegasusDiagnosisContext(PegasusFacts(snapshot), budget_s=_BUDGET_S)
    wanted = rules_of(snapshot.settings, Candidate(policy=policy, settings=settings)).options
    present = context.options
    options = tuple(
        (one.name, getattr(wanted, one.name))
        for one in fields(wanted)
        if getattr(wanted, one.name) != getattr(present, one.name)
    )
    level = settings.get(LEVEL, RECORDED_LEVEL)
    change = Change(level=None if level == RECORDED_LEVEL else parse_level(level), options=options)
    try:
        return context.trials.effect(Change(), change, context.over_nodes)
    except TimeUpError:
        return None


def preventing(snapshot: PegasusSnapshot, fixes: Sequence[Fix]) -> tuple[Candidate, ...]:
    """Return candidates for a calm cluster: the fixes, then the switches that move less.

    Args:
        snapshot: A recorded minute.
        fixes: Of the causes.
    """
    found: dict[str, Candidate] = {}
    for candidate in (*map(_of_fix, fixes), *_calmer(snapshot)):
        if candidate.policy or candidate.settings:
            found.setdefault(candidate.label, candidate)
    return tuple(found.values())


def _of_fix(fix: Fix) -> Candidate:
    policy, settings = None, {}
    for key, value in fix.wanted.items():
        name = key.removeprefix(_PREFIX)
        if key == LEVEL_KEY:
            settings[LEVEL] = value
        elif name == _POLICY:
            policy = "cluster" if str(value).lower() == "true" else "app"
        elif name in SWITCHES:
            settings[name] = checked_switch(name, value)
    return Candidate(policy=policy, settings=settings)


def _calmer(snapshot: PegasusSnapshot) -> Iterator[Candidate]:
    force = switches_in_force(snapshot.settings)
    is_cluster = snapshot.settings.get(_POLICY) == "true"
    yield Candidate(policy="app" if is_cluster else "cluster")
    for level in (FunctionLevel.STEADY.word, FunctionLevel.LIVELY.word):
        if force.get(LEVEL) != level:
            yield Candidate(settings={LEVEL: level})
    if not is_cluster:
        for name in _CALMING:
            if force.get(name) is not True:
                yield Candidate(settings={name: True})
