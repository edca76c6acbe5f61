"""The diagnosis of one Pulsar cluster: what is wrong, and which changes prove why."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from core.diagnosis.facts import ExplainedFindings, fact_headline, headline, with_facts
from core.diagnosis.model import Cause, Diagnosis, Effect, one_per_fix
from core.diagnosis.pulsar.context import Candidate, DiagnosisContext, Pattern
from core.diagnosis.pulsar.draws import SeedTrials
from core.diagnosis.pulsar.patterns.restless import fitting_placements
from core.diagnosis.pulsar.patterns.thresholds import code_of
from core.diagnosis.pulsar.registry import OWNERSHIP, PATTERNS
from core.diagnosis.pulsar.trials import (
    NOTHING,
    PLACEMENT,
    SHEDDING,
    Change,
    Trials,
    judged_trials,
)
from core.diagnosis.pulsar.values import alternatives
from core.diagnosis.request import DiagnoseRequest
from core.errors import InputError, OpsError
from core.findings.finding import Fix
from core.progress import JobStoppedError, Progress
from core.pulsar.load import usage_sources
from core.pulsar.measures import cluster_target, measure
from core.pulsar.owners import ORPHANED, STUCK
from core.pulsar.presets import upstream_words
from core.pulsar.rules.doctor.examine import OF_HOSTS
from core.pulsar.rules.verdict import verdict_of
from core.pulsar.served import unregistered_words
from core.pulsar.settings import SETTING_BY_KEY
from core.snapshot import PulsarSnapshot
from core.units import format_ratio, pluralize

ROOM_POINTS: Final = 30.0
"""So far over the usual usage, an overloaded broker is a problem though traffic is even."""

UNEVEN_TIMES: Final = 1.25
"""Load that ends farther from the mean than so many times the target is a problem."""

MAX_CAUSES: Final = 6
_RESOLVED_SHARE: Final = 0.5
_RESTLESS: Final = ("even_distribution", "measures_differ", "smoothed_usage")
"""Patterns of a balancer whose own moves do harm."""

_CODES: Final = {
    "loadBalancerDistributeBundlesEvenlyEnabled": "even_distribution",
    "loadBalancerHistoryResourcePercentage": "smoothed_usage",
    "loadBalancerSheddingGracePeriodMinutes": "grace_period",
    "preferLaterVersions": "version_filter",
    "loadBalancerBrokerMaxTopics": "topic_limit",
    "loadBalancerSheddingExcludedNamespaces": "namespaces_excluded",
    PLACEMENT: "placement_strategy",
    SHEDDING: "shedding_strategy",
}


_POLICIES: Final = (
    *("isolation_port_in_regex", "isolation_without_brokers", "isolation_violated"),
    *("isolation_intruded", "isolation_short"),
)
EXPLAINED: Final = ExplainedFindings(
    symptoms=(
        *("traffic_deviation", "usage_spread", "broker_overloaded", "idle_broker"),
        *("hot_bundle", "single_bundle_namespace"),
    ),
    by_cause={
        "stuck_ownership": ("stuck_ownership", "unowned_with_traffic"),
        "stale_owner": ("orphaned_bundles", "unowned_with_traffic"),
        "policy_names_port": _POLICIES,
        "policy_matches_no_broker": _POLICIES,
        "policy_too_narrow": _POLICIES,
        "policy_not_applied": _POLICIES,
        "network_unmeasured": ("capacity_missing", "no_limit"),
        "network_limit": ("nic_limit_suspicious", "network_limit_odd", "traffic_beyond_cards"),
        "limits_differ": ("limits_differ",),
        "load_managers_differ": ("mixed_load_managers",),
    },
    after_proven=OF_HOSTS,
    by_object={"stale_owner": ("broker_dead", "broker_suspected_dead", "broker_unregistered")},
)
"""What is the uneven load itself, and what a proven cause says already."""


@dataclass(frozen=True, slots=True)
class _ProvenChange:
    candidate: Candidate
    change: Change
    effect: Effect


def diagnose(
    snapshot: PulsarSnapshot,
    request: DiagnoseRequest,
    progress: Progress,
    assumed: Change = NOTHING,
    max_count: int = 0,
) -> Diagnosis:
    """Name what is wrong: facts, and causes of uneven load, each proven on this snapshot.

    Args:
        snapshot: Any snapshot of a Pulsar cluster.
        request: The broker or bundle in question, and the time for simulations.
        progress: Where the number of changes tried so far goes.
        assumed: Settings and release that hold in place of the cluster's own.
        max_count: Number of changes after which no further one is tried; 0: the time decides.
    Returns:
        Causes best first; none where the cluster is healthy, or no change helps.
    Raises:
        UnknownNameError: There is no such broker or bundle.
    """
    # under assumed settings only what they make of the load is in question
    verdict = verdict_of(snapshot) if assumed is NOTHING else None
    facts = () if verdict is None else with_facts((), verdict, EXPLAINED)
    if not snapshot.brokers.num_rows or not snapshot.bundles.num_rows:
        return Diagnosis(
            causes=facts,
            problem=fact_headline(facts),
            target_ratio=cluster_target(snapshot.manifest).bound,
            notes=("The snapshot has no brokers or no bundles; load is not evaluated.",),
            verdict=verdict,
        )
    target_ratio = cluster_target(snapshot.manifest).bound
    trials = Trials(
        snapshot,
        budget_s=request.budget_s,
        progress=progress,
        assumed=assumed,
        max_count=max_count,
        stops_midway=True,
    )
    subject = _subject(DiagnosisContext(trials), request)
    try:
        context = DiagnosisContext(judged_trials(trials))
        problem = _problem(context)
        if not problem and _overloaded(context):
            context = DiagnosisContext(context.trials.judged("usage", traffic_may_differ=True))
            problem = _overload_problem(context)
    except JobStoppedError:
        raise
    except OpsError as exc:
        return Diagnosis(
            causes=facts,
            problem=fact_headline(facts),
            target_ratio=target_ratio,
            subject=subject,
            notes=(str(exc),),
            verdict=verdict,
        )
    unserved = _unserved_words(context)
    about = request.broker or request.bundle
    if not problem and not unserved:
        return Diagnosis(
            causes=_concerning(facts, about),
            problem=fact_headline(facts),
            target_ratio=target_ratio,
            subject=subject,
            notes=(*_drained(context), *_brevity(context.trials)),
            verdict=verdict,
            outlook=_outlook(context),
            untried=int(context.trials.baseline.is_cut_short),
            seconds=request.budget_s,
        )
    # bundles without a broker are no matter of settings
    search = _Search(context, PATTERNS if problem else OWNERSHIP)
    causes = search.causes()
    if verdict is not None:
        causes = with_facts(causes, verdict, EXPLAINED)
    return Diagnosis(
        causes=_concerning(causes, about),
        target_ratio=target_ratio,
        problem=headline(causes, f"{unserved} {problem}".strip()),
        subject=subject,
        tried=search.tried,
        untried=search.untried,
        untried_pairs=search.untried_pairs,
        cut_short=search.cut_short,
        refuted=search.refuted,
        notes=(*_drained(context), *search.notes()),
        verdict=verdict,
        seconds=request.budget_s,
    )


def _drained(context: DiagnosisContext) -> tuple[str, ...]:
    """Return the sentence about drained brokers, or ""."""
    spread = measure(context.snapshot, context.settings).throughput
    names = [spread.brokers[row] for row in np.flatnonzero(spread.is_set_aside)]
    return (f"Drained and excluded: {', '.join(names)}.",) if names else ()


def _outlook(context: DiagnosisContext) -> str:
    """Return the end state of the balancer without changes, one sentence."""
    end = context.trials.baseline.outcome
    if not end.moves:
        return f"{context.strategy.name} moves nothing; the load is balanced."
    return (
        f"{context.strategy.name} converges to a deviation of "
        f"{format_ratio(end.deviation)} without changes, after "
        f"{pluralize(end.moves, 'move')}."
    )


def _subject(context: DiagnosisContext, request: DiagnoseRequest) -> str:
    """Return the verdict on the broker or bundle in question."""
    if request.node is not None:
        raise InputError(
            f"{context.snapshot.manifest.cluster} is a Pulsar cluster; --node is for Pegasus.",
            hint="Specify a broker (--broker host:port) or a bundle (--bundle).",
        )
    if request.broker is not None:
        if request.broker not in context.view.broker_index and (
            words := unregistered_words(context.snapshot, context.settings, request.broker)
        ):
            return words
        row = context.view.broker_row(request.broker)
        reason = context.explanation.of_broker(request.broker)
        source = usage_sources(context.snapshot.brokers, context.settings)[row]
        usage = f" Usage: {source}." if source else ""
        return f"{reason.sentence}{usage} {reason.otherwise}".strip()
    if request.bundle is not None:
        why = context.explanation.of_bundle(request.bundle)
        return f"{why.sentence} {why.otherwise}".strip()
    return ""


def _concerning(causes: tuple[Cause, ...], name: str | None) -> tuple[Cause, ...]:
    """Return the causes, those about one object first; each part keeps its order."""
    if name is None:
        return causes
    return tuple(sorted(causes, key=lambda cause: name not in cause.objects))


def _problem(context: DiagnosisContext) -> str:
    """Return the problem that remains after balancing, one sentence, or "".

    A balancer that is not done within the horizon is judged by what it has reached.
    """
    end = context.trials.baseline.outcome
    if not end.converges:
        if not end.moves:
            return (
                f"{context.strategy.name} sheds bundles every round, but no bundle leaves its "
                "broker."
            )
        if context.trials.baseline.is_cut_short and not end.returned:
            return (
                f"{context.strategy.name} has not converged within "
                f"{pluralize(end.rounds, 'round')}: {pluralize(end.moves, 'move')}."
            )
        returned = f", {end.returned:,} returned" if end.returned else ""
        return (
            f"{context.strategy.name} does not converge: {pluralize(end.moves, 'move')} in "
            f"{pluralize(end.rounds, 'round')}{returned}."
        )
    harm = _harm_of_moves(context)
    if harm:
        return harm
    if (
        end.deviation is not None
        and end.deviation > UNEVEN_TIMES * context.target_ratio
        and context.hurts
    ):
        measure = context.load.label
        after = f" after {pluralize(end.moves, 'move')}" if end.moves else ""
        why = _why_no_more(context)
        return f"Max deviation of {measure} is {format_ratio(end.deviation)}{after}, and {why}."
    return ""


def _harm_of_moves(context: DiagnosisContext) -> str:
    """Return the sentence about useless or harmful moves of a converging balancer, or ""."""
    end = context.trials.baseline.outcome
    if end.returned:
        return (
            f"{end.returned:,} of {pluralize(end.moves, 'move')} return a bundle to a "
            "previous broker."
        )
    if context.spoils:
        now = format_ratio(context.trials.pools.deviation(context.load))
        return (
            f"The balancer increases the deviation of {context.load.label}: {now} now, "
            f"{format_ratio(end.deviation)} after {pluralize(end.moves, 'move')}."
        )
    if end.is_mostly_idle:
        return (
            f"{end.idle_moves:,} of {pluralize(end.moves, 'move')} are of bundles without traffic."
        )
    return ""


def _unserved_words(context: DiagnosisContext) -> str:
    """Return the number of bundles in a broken ownership state, as text, or ""."""
    if not context.trials.baseline.outcome.missing:
        return ""
    states = (
        (STUCK, "stuck in transfer"),
        (ORPHANED, "owned by a broker that is dead or not registered"),
    )
    found = [(context.unserved_rows(state).size, words) for state, words in states]
    parts = [f"{pluralize(count, 'bundle')} {words}" for count, words in found if count]
    return f"{', '.join(parts)}."


def _brevity(trials: Trials) -> tuple[str, ...]:
    """Return the note that the simulation of the unchanged cluster was cut short, or ""."""
    if not trials.baseline.is_cut_short:
        return ()
    rounds = pluralize(trials.horizon, "round")
    return (f"Simulated for {rounds} (time limit).",)


def _why_no_more(context: DiagnosisContext) -> str:
    off = " and ".join(context.settings.shedding_off)
    done = context.trials.baseline.simulation
    if off:
        return f"{off} is false"
    if done is not None and done.ending == "horizon":
        return f"bundles still move after {pluralize(done.rounds[-1].number, 'round')}"
    return (
        "the balancer makes no further moves"
        if context.end.moves
        else "the balancer makes no moves"
    )


def _overloaded(context: DiagnosisContext) -> str:
    """Return the broker that ends overloaded while others have room; blank: none does."""
    usage = context.real_usage_at_end
    known = np.isfinite(usage)
    limit = context.settings.number("loadBalancerBrokerOverloadedThresholdPercentage")
    if known.sum() < 2:  # there is no other
        return ""
    row = int(np.where(known, usage, -np.inf).argmax())
    has_room = usage[row] - float(np.median(usage[known])) >= ROOM_POINTS
    return context.load.brokers[row] if usage[row] >= limit and has_room else ""


def _overload_problem(context: DiagnosisContext) -> str:
    name = _overloaded(context)
    row = context.load.brokers.index(name)
    others = np.delete(context.real_usage_at_end, row)
    done = context.trials.baseline.simulation
    brokers = (context.snapshot if done is None else done.final).brokers
    found = usage_sources(brokers, context.settings)[row]
    source = f" ({found})" if found else ""
    return (
        f"{name} ends at {context.real_usage_at_end[row]:.0f}% usage{source}, the "
        f"other brokers at {float(np.nanmedian(others)):.0f}%: traffic is balanced, "
        "usage is not."
    )


class _Search:
    """Patterns, then every setting that is read, then pairs; until the time is up."""

    def __init__(self, context: DiagnosisContext, patterns: Sequence[Pattern]) -> None:
        self._context = context
        self._patterns = patterns
        self._trials = context.trials
        self._draws = SeedTrials(self._trials)
        self._hasty = 0
        self._late: dict[bool, dict[tuple[object, ...], Change]] = {False: {}, True: {}}
        self._promising: list[_ProvenChange] = []
        self._unproven: list[Candidate] = []
        self._turning: dict[tuple[object, ...], tuple[Candidate, Change]] = {}

    def _is_resolved(self, effect: Effect) -> bool:
        return _is_resolved(effect, self._context.target_ratio)

    def _merit(self, one: _ProvenChange) -> tuple[Any, ...]:
        return _merit(one, self._context.target_ratio)

    @property
    def tried(self) -> int:
        """Changes that were simulated."""
        return self._trials.count

    @property
    def untried(self) -> int:
        """Single changes that the time did not allow, those that it cut short included."""
        late = self._unfinished(is_pair=False)
        # where the cluster as it is was cut short, more settings may be read later on
        return late or int(self._trials.baseline.is_cut_short)

    @property
    def cut_short(self) -> int:
        """Of the untried changes, those that were begun."""
        return sum(
            self._trials.is_begun(one) and not self._trials.known(one)
            for one in self._late[False].values()
        )

    @property
    def untried_pairs(self) -> int:
        """Pairs of changes that the time did not allow."""
        return self._unfinished(is_pair=True)

    def _unfinished(self, *, is_pair: bool) -> int:
        return sum(not self._trials.known(one) for one in self._late[is_pair].values())

    @property
    def refuted(self) -> int:
        """Changes that help with some draws only."""
        return self._draws.refuted

    def causes(self) -> tuple[Cause, ...]:
        """Return the proven causes, best first."""
        candidates = [one for pattern in self._patterns for one in pattern(self._context)]
        # what a broker does not serve matters most, and takes one round to see
        candidates.sort(key=lambda one: (one.tier >= 0, self._turn(one)))
        proven = list(self._proven(one for one in candidates if one.tier <= 0))
        later = self._proven(one for one in candidates if one.tier > 0)
        # what the snapshot shows needs no pair
        is_shown = any(not one.effect.is_more_complete for one in proven)
        pairs = () if is_shown else self._pairs()
        for further in (later, self._singles(), pairs) if self._patterns is PATTERNS else ():
            if any(self._is_resolved(one.effect) and self._is_confirmed(one) for one in proven):
                break
            known = {key for one in proven for key in one.candidate.keys}
            proven += (one for one in further if not known.intersection(one.candidate.keys[:1]))
        confirmed = list(self._confirmed(sorted(proven, key=self._merit)))
        self._hasty = sum(self._draws.is_hasty(one.change) for one in confirmed)
        # a switch or a filter is a fact, whether or not there was time to simulate its fix
        facts = [self._fact(one) for one in self._unproven]
        return one_per_fix([*facts, *(self._cause(one) for one in confirmed)])

    def _turn(self, candidate: Candidate) -> bool:
        """Sort key: what moves of the balancer cause comes first where they do harm."""
        now, end = self._trials.pools.deviation(self._context.load) or 0.0, self._context.end
        spoils = end.moves and (end.returned or not end.converges or (end.deviation or 0.0) > now)
        return not (spoils and candidate.code in _RESTLESS)

    def _confirmed(self, ranked: Iterable[_ProvenChange]) -> Iterator[_ProvenChange]:
        """Yield the best change of each cause; one that depends on the draws hides no other.

        A change that is the best of another cause, too, takes no place of its own.
        """
        done: set[tuple[str, tuple[str, ...]]] = set()
        changes: set[tuple[object, ...]] = set()
        for one in ranked:
            key = one.candidate.code, one.candidate.objects
            is_full = len(changes) == MAX_CAUSES and one.change.key not in changes
            if key not in done and not is_full and self._is_confirmed(one):
                done.add(key)
                changes.add(one.change.key)
                yield one

    def _is_confirmed(self, one: _ProvenChange) -> bool:
        """Whether its effect is independent of random draws."""
        return self._draws.confirm(one.change)

    def _proven(self, candidates: Iterable[Candidate]) -> Iterator[_ProvenChange]:
        for candidate in candidates:
            found = self._best(candidate)
            if found is not None:
                yield found
            elif candidate.tier < 0 and not any(map(self._trials.known, candidate.changes)):
                self._unproven.append(candidate)

    def _best(self, candidate: Candidate, *, is_pair: bool = False) -> _ProvenChange | None:
        """Return the change of a candidate with the best effect; ``None`` if none helps."""
        found: list[_ProvenChange] = []
        for change in candidate.changes:
            is_late = self._trials.is_search_over and not self._trials.is_begun(change)
            effect = None if is_late else self._trials.effect(change)
            is_finished = self._trials.known(change)
            # whether a broker serves a bundle does not take more rounds
            is_shown = candidate.tier < 0 and effect is not None and effect.is_more_complete
            if not is_finished and not is_shown:
                self._late[is_pair].setdefault(change.key, change)
            if effect is None:
                continue
            # with shedding off, a change has to be better than switching it on alone
            own = self._own_effect(change, effect)
            is_better = effect.is_better and own.is_better
            if candidate.calm_suffices:
                is_better |= effect.is_calmer and not effect.is_harmful
            is_better &= effect.is_more_complete or not self._trials.spoils_traffic(change)
            if is_better:
                # what the time cut short proves nothing else
                (found if is_finished or is_shown else self._promising).append(
                    _ProvenChange(candidate, change, effect)
                )
                if is_finished:
                    self._trials.leave_time_for(change)
            elif own.before != own.after and change.edit is None and not is_pair:
                self._turning.setdefault(change.key, (candidate, change))
        return min(found, key=self._merit) if found else None

    def _own_effect(self, change: Change, effect: Effect) -> Effect:
        base = self._context.base
        trial = None if change is base else self._trials.trial(base)
        return effect if trial is None else Effect(before=trial.outcome, after=effect.after)

    def _singles(self) -> Iterator[_ProvenChange]:
        """Try every setting that anything reads here."""
        context = self._context
        own = (*context.strategy.deciding, *context.strategy.adjustable)
        classes = (SHEDDING, PLACEMENT)  # another class changes most, and takes longest

        def turn(name: str) -> tuple[bool, bool, str]:
            return (name in classes, name not in own, name)

        for key in sorted(context.reads(), key=turn):
            values = alternatives(key, context.settings, context.view)
            changes = tuple(context.base.also(Change(settings={key: value})) for value in values)
            if not changes:
                continue
            found = self._best(
                Candidate(
                    code=_CODES.get(
                        key, code_of(key) if key in context.strategy.deciding else "setting"
                    ),
                    keys=(key,),
                    summary="",
                    changes=changes,
                    tier=3 if key in classes else 2,
                )
            )
            if found is not None:
                yield found

    def _pairs(self) -> Iterator[_ProvenChange]:
        """Try a second setting with those that alone change something, and not for the better."""
        context = self._context
        own = context.strategy.deciding
        yield from self._placed_by_load()
        for candidate, first in list(self._turning.values()):
            trial, key = self._trials.trial(first), next(iter(candidate.keys), "")
            reads = sorted(trial.reads if trial else (), key=lambda name: (name not in own, name))
            for other in reads:
                if other == key or other in (SHEDDING, PLACEMENT):
                    continue
                values = alternatives(other, context.settings, context.view)
                changes = tuple(first.also(Change(settings={other: value})) for value in values)
                pair = replace(candidate, keys=(key, other), changes=changes, tier=1)
                found = self._best(pair, is_pair=True)
                if found is not None:
                    yield found
                    if self._is_resolved(found.effect):
                        break

    def _placed_by_load(self) -> Iterator[_ProvenChange]:
        """Try the placement that fits with changes whose moves end less even than the load is."""
        now = self._trials.pools.deviation(self._context.load) or 0.0
        for candidate, first in list(self._turning.values()):
            trial, fitting = self._trials.trial(first), fitting_placements(self._context)
            if trial is None or not trial.outcome.moves or PLACEMENT in first.settings:
                continue
            if not fitting or (trial.outcome.deviation or 0.0) <= now:
                continue
            changes = tuple(first.also(other) for other in fitting)
            keys = (*candidate.keys[:1], PLACEMENT)
            pair = replace(candidate, keys=keys, changes=changes, tier=1)
            found = self._best(pair, is_pair=True)
            if found is not None:
                yield found
                if self._is_resolved(found.effect):
                    return

    def _fact(self, candidate: Candidate) -> Cause:
        change = candidate.changes[0]
        return Cause(
            code=candidate.code,
            keys=candidate.keys,
            objects=candidate.objects,
            summary=candidate.summary,
            fix=self._fix(candidate, change),
            hint=candidate.hint or self._hint(change),
            measured=candidate.measured,
            threshold=candidate.threshold,
            unit=candidate.unit,
        )

    def _cause(self, one: _ProvenChange) -> Cause:
        candidate = one.candidate
        base = self._context.base.settings
        is_data = one.change.edit is not None or one.change.release is not None
        hint = candidate.hint or self._hint(one.change)
        if base and candidate.hint and is_data:  # without shedding it changes nothing
            hint = f"{hint} {_orders(base)} as well."
        return Cause(
            code=candidate.code,
            keys=tuple(dict.fromkeys((*self._keys(one), *base))),
            objects=candidate.objects,
            summary=candidate.summary or self._summary(one),
            effect=one.effect,
            fix=self._fix(candidate, one.change),
            hint=hint,
            measured=candidate.measured,
            threshold=candidate.threshold,
            unit=candidate.unit,
            present=self._present(one.change),
        )

    def _present(self, change: Change) -> dict[str, Any]:
        """Return the active values that a change replaces; an upgrade also names what it keeps."""
        present = {key: self._context.settings.value(key) for key in change.settings}
        return {key: present[key] for key, to in change.settings.items() if to != present[key]}

    def _keys(self, one: _ProvenChange) -> tuple[str, ...]:
        """Return the settings concerned: a later release keeps those it is tried with."""
        if one.candidate.keys or one.change.release is not None:
            return one.candidate.keys
        return tuple(one.change.settings)

    def _summary(self, one: _ProvenChange) -> str:
        present = " and ".join(
            f"{key} is {_text(self._context.settings.value(key))}" for key in one.candidate.keys
        )
        changed = {key: one.change.settings.get(key) for key in one.candidate.keys}
        values = " and ".join(_text(value) for value in changed.values())
        if one.effect.is_more_even:
            return f"{present}; with {values} the max deviation is lower."
        return f"{present}; with {values} fewer bundles return."

    def _hint(self, change: Change) -> str:
        release = f" on release {change.release}" if change.release else ""
        return f"{_orders(change.settings)}{release}."

    def _fix(self, candidate: Candidate, change: Change) -> Fix:
        is_other = change.release is not None or change.edit is not None
        settings = {} if is_other else dict(change.settings)  # the hint says what to do
        target = self._context.settings.target
        wanted, lines = {}, list(candidate.lines)
        restart = bool(lines)
        for key, value in settings.items():
            setting = SETTING_BY_KEY[key]
            if setting.is_dynamic_in(target):
                wanted[key] = value
                restart |= setting.takes_effect == "restart"
            else:
                lines.append(f"{key}={upstream_words(value)}")
                restart = True
        return Fix(wanted=wanted, lines=tuple(lines), restart=restart)

    def notes(self) -> tuple[str, ...]:
        """Return the assumptions."""
        notes = [f"Measure: {self._context.load.label}.", *_brevity(self._trials)]
        if self._hasty:
            notes.append(
                f"{pluralize(self._hasty, 'cause')} simulated with too few random placements to "
                "exclude chance: time limit reached."
            )
        if self._draws.refuted:
            notes.append(
                f"{pluralize(self._draws.refuted, 'change')} not recommended: the effect "
                "depends on random placement."
            )
        budget = f"time limit of {self._trials.budget_s:g} s reached"
        untried_pairs = self.untried_pairs
        if self.untried:
            begun = f", {self.cut_short:,} incomplete" if self.cut_short else ""
            notes.append(
                f"{pluralize(self.untried, 'change')} without a finished simulation{begun}: "
                f"{budget}."
            )
        elif untried_pairs:
            notes.append(f"{pluralize(untried_pairs, 'pair')} of changes not simulated: {budget}.")
        if self._promising:
            best = min(self._promising, key=self._merit)
            notes.append(
                f"Promising but incomplete: {_assignments(best.change) or best.change.data}. "
                "Raise --seconds."
            )
        return tuple(notes)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, list | tuple):
        return ",".join(map(str, value)) or "empty"
    return str(value).rpartition(".")[2] if str(value).startswith("org.") else str(value)


def _orders(settings: Mapping[str, Any]) -> str:
    """Return the setting changes in broker syntax: ``Set A=1 and clear B``."""
    values = {key: upstream_words(value) for key, value in settings.items()}
    orders = [f"set {key}={text}" if text else f"clear {key}" for key, text in values.items()]
    words = " and ".join(orders)
    return f"{words[:1].upper()}{words[1:]}"


def _assignments(change: Change) -> str:
    return " and ".join(f"{key}={_text(value)}" for key, value in change.settings.items())


def _is_resolved(effect: Effect, target_ratio: float) -> bool:
    """Whether the problem is solved: even enough or much closer, without flapping."""
    before, after = effect.before.deviation, effect.after.deviation
    if after is None or before is None or after <= target_ratio:
        return not effect.after.returned
    return not effect.after.returned and effect.gain >= _RESOLVED_SHARE * before


def _merit(one: _ProvenChange, target_ratio: float) -> tuple[Any, ...]:
    """Sort key: what the snapshot itself shows first, then what resolves it, then the effect."""
    after = one.effect.after
    off = max((after.deviation or 0.0) - target_ratio, 0.0)
    return (
        max(-1, min(one.candidate.tier, 1)),
        not _is_resolved(one.effect, target_ratio),
        one.candidate.tier,
        after.returned,
        round(off / 0.05),
        after.moves,
        after.rounds,
        len(one.change.settings),
    )
