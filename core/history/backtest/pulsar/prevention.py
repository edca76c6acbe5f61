"""Candidates that might have kept a Pulsar cluster calm, and what one does to it as it is now."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from core.diagnosis.model import Effect
from core.diagnosis.pulsar.advice import values_of
from core.diagnosis.pulsar.trials import PLACEMENT, SHEDDING, Change, Trials, judged_trials
from core.diagnosis.pulsar.values import alternatives, calmer_value
from core.findings.finding import Fix
from core.history.backtest.advice import wanted_settings
from core.history.backtest.model import RECORDED, Candidate
from core.pulsar.rules.doctor.model import settings_fix
from core.pulsar.settings import EffectiveSettings, effective_settings
from core.pulsar.shedding.registry import active_shedding_strategy
from core.pulsar.view import LoadView
from core.snapshot import PulsarSnapshot

_EVENLY: Final = "loadBalancerDistributeBundlesEvenlyEnabled"
_HISTORY: Final = "loadBalancerHistoryResourcePercentage"
_GRACE: Final = "loadBalancerSheddingGracePeriodMinutes"
_MAX_CANDIDATES: Final = 10


def converged(
    snapshot: PulsarSnapshot, best: Mapping[str, Any], record: Mapping[str, Any]
) -> Effect | None:
    """Simulate a candidate to convergence; see :class:`BacktestSystem`."""
    values = wanted_settings(best, record, json.loads(record["settings"]))
    return judged_trials(Trials(snapshot)).effect(Change(settings=values))


def fix_of(best: Mapping[str, Any], record: Mapping[str, Any]) -> Fix:
    """Return the fix that applies a candidate; see :class:`BacktestSystem`."""
    force = json.loads(record["settings"])
    wanted = wanted_settings(best, record, force)
    return settings_fix({key: value for key, value in wanted.items() if force.get(key) != value})


def preventing(snapshot: PulsarSnapshot, fixes: Sequence[Fix]) -> tuple[Candidate, ...]:
    """Return candidates for a calm cluster: the fixes, then what damps shedding.

    Args:
        snapshot: A recorded minute.
        fixes: Of the causes.
    """
    found: dict[str, Candidate] = {}
    # with shedding off, no other setting does anything
    base = dict.fromkeys(effective_settings(snapshot).shedding_off, True)
    for values in (*map(values_of, fixes), *(base | one for one in _calmer(snapshot))):
        candidate = candidate_of(values)
        if values:
            found.setdefault(candidate.label, candidate)
    return tuple(found.values())[:_MAX_CANDIDATES]


def candidate_of(values: Mapping[str, Any]) -> Candidate:
    """Return settings as a candidate: classes by their names."""
    own = dict(values)
    shedding, placement = own.pop(SHEDDING, None), own.pop(PLACEMENT, None)
    return Candidate(
        shedding=RECORDED if shedding is None else _class_name(shedding),
        placement=None if placement is None else _class_name(placement),
        settings=own,
    )


def _class_name(value: object) -> str:
    return str(value).rpartition(".")[2]


def _calmer(snapshot: PulsarSnapshot) -> Iterator[dict[str, Any]]:
    """Yield settings of which another value moves less, one each."""
    settings = effective_settings(snapshot)
    view = LoadView.of(snapshot, settings)
    strategy = active_shedding_strategy(snapshot.manifest.load_manager, settings)
    if settings.flag(_EVENLY):
        yield {_EVENLY: False}
    if settings.number(_HISTORY) > 0:
        yield {_HISTORY: 0.0}
    for name in alternatives(PLACEMENT, settings, view):
        yield {PLACEMENT: name}
    for key in (*strategy.adjustable, _GRACE):
        value = _calmer_or_none(key, settings)
        if value is not None:
            yield {key: value}


def _calmer_or_none(key: str, settings: EffectiveSettings) -> float | int | None:
    return None if key in (SHEDDING, PLACEMENT) else calmer_value(key, settings)
