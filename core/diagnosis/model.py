"""A diagnosis: facts that hurt clients, and causes of uneven load, each proven by simulation.

A cause of uneven load is reported only where the cluster with its fix ends better than without:
that comparison is its :class:`Effect`. A fact (a bundle that is refused, a dead broker, a policy
that matches nothing) has none: it is a finding at warning or above, ranked by what it costs
clients. What knows a system fills these in; nothing here knows one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from core.findings.finding import FREE, Cost, Fix, Severity
from core.findings.verdict import Verdict
from core.units import format_ratio, pluralize

MIN_GAIN_RATIO: Final = 0.05
"""The deviation has to fall by so much of the mean: less is noise of the draws."""

MIN_GAIN_SHARE: Final = 0.2
"""... and by this share of itself."""

_LONGER_S: Final = (10.0, 60.0, 600.0, 3_600.0)

MAX_IDLE: Final = 4
"""So many moves of bundles without traffic are no trouble."""

EVEN_RATIO: Final = 0.2
"""Load within this distance of the mean, share of it, is even enough."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Simulated end of the cluster's own balancer.

    Attributes:
        moves: Bundles or replicas that moved, in all rounds.
        returned: Of these, moves back to where one had been.
        deviation: Farthest distance of a server's load from the mean at the end, share of the mean;
            ``None`` if unknown.
        converges: Whether nothing moves any more, however long one waits; in a simulation that is
            too short for that, whether nothing has moved back.
        rounds: Rounds until then, or all that were simulated.
        missing: Bundles without a broker, or partitions without exactly their replicas, at the end.
        idle_moves: Of the moves, those of bundles without load: they even out nothing.
    """

    moves: int
    returned: int
    deviation: float | None
    converges: bool
    rounds: int
    missing: int = 0
    idle_moves: int = 0

    @property
    def is_mostly_idle(self) -> bool:
        """Whether most moves are of bundles without traffic."""
        return self.idle_moves > MAX_IDLE and 2 * self.idle_moves > self.moves


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """Effect of a fix: the outcome without and with it, both simulated from this snapshot."""

    before: Outcome
    after: Outcome

    @property
    def gain(self) -> float:
        """Reduction of the final deviation, share of the mean; negative if it increases."""
        if self.before.deviation is None or self.after.deviation is None:
            return 0.0
        return self.before.deviation - self.after.deviation

    @property
    def is_more_even(self) -> bool:
        """Whether the final deviation is lower by more than noise."""
        known = self.before.deviation or 0.0
        return self.gain >= MIN_GAIN_RATIO and self.gain >= MIN_GAIN_SHARE * known

    @property
    def is_harmful(self) -> bool:
        """Whether the fix must not be recommended: less complete, less even, or not converging."""
        if self.after.missing > self.before.missing:
            return True
        if not self.after.converges and (self.before.converges or not self.is_more_complete):
            return True
        return not self.is_more_complete and self.gain < -MIN_GAIN_RATIO

    @property
    def is_worse(self) -> bool:
        """Whether the outcome is less complete or less even, or does not converge where it did."""
        if self.after.missing > self.before.missing:
            return True
        if self.before.converges and not self.after.converges:
            return True
        return not self.is_more_complete and self.gain < -MIN_GAIN_RATIO

    @property
    def is_more_complete(self) -> bool:
        """Whether fewer bundles or partitions lack a server."""
        return self.after.missing < self.before.missing

    @property
    def is_calmer(self) -> bool:
        """Whether it converges where it did not, or has fewer useless moves without extra ones."""
        before, after = self.before, self.after
        if after.converges and not before.converges:
            return True
        fewer = after.returned < before.returned or after.idle_moves < before.idle_moves
        return fewer and after.returned <= before.returned and after.moves <= before.moves

    @property
    def is_better(self) -> bool:
        """Whether the fix is worth recommending.

        Calm alone is none while the load is uneven, and neither are moves most of which relieve no
        broker.
        """
        is_even = (self.after.deviation or 0.0) <= EVEN_RATIO
        gains = self.is_more_complete or self.is_more_even or (self.is_calmer and is_even)
        adds_idle = self.after.is_mostly_idle and self.after.idle_moves > self.before.idle_moves
        return gains and not self.is_harmful and not adds_idle

    @property
    def sentence(self) -> str:
        """Both outcomes, for a person."""
        return f"{_words(self.before)} without, {_words(self.after)} with the change"

    def as_json(self) -> dict[str, Any]:
        """The effect as ``diagnose --json`` prints it."""
        before, after = self.before, self.after
        return {
            "moves_before": before.moves,
            "moves_after": after.moves,
            "returned_before": before.returned,
            "returned_after": after.returned,
            "deviation_before": before.deviation,
            "deviation_after": after.deviation,
            "converges_before": before.converges,
            "converges_after": after.converges,
            "rounds_before": before.rounds,
            "rounds_after": after.rounds,
            "missing_before": before.missing,
            "missing_after": after.missing,
            "idle_moves_before": before.idle_moves,
            "idle_moves_after": after.idle_moves,
        }


def effect_sentence(effect: Effect) -> str:
    """Return the effect of a change as one sentence, with a warning if it is worse."""
    before, after = effect.before, effect.after
    moves = pluralize(after.moves, "move")
    if after.returned:
        moves += f", {after.returned:,} returned"
    end = f"deviation {format_ratio(before.deviation)} to {format_ratio(after.deviation)}, {moves}"
    if not effect.is_harmful:
        return f"Simulated: {end}{'' if after.converges else '; it does not converge'}."
    if not after.converges:
        return f"Not recommended: the simulation does not converge ({end})."
    return f"Not recommended: the simulation ends with a higher deviation ({end})."


def _words(outcome: Outcome) -> str:
    end = "" if outcome.converges else ", does not converge"
    returned = f" ({outcome.returned:,} returned)" if outcome.returned else ""
    missing = f", {outcome.missing:,} incomplete" if outcome.missing else ""
    moves = pluralize(outcome.moves, "move")
    return f"{format_ratio(outcome.deviation)} with {moves}{returned}{missing}{end}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """One cause.

    Attributes:
        code: Stable word of the pattern.
        keys: Settings concerned, the deciding one first, upstream names.
        objects: What it is about: brokers, bundles, nodes, partitions, policies.
        summary: One short sentence: the cause, with the value measured and the limit.
        effect: What the fix changes; ``None`` for a fact, which has no effect on balance.
        fix: Settings and configuration lines.
        hint: What to do, one sentence.
        measured: The value that decides, in ``unit``; ``None`` if no number does.
        threshold: What it is compared with.
        unit: Of both.
        severity: Of a fact, or of the findings that a proven cause explains.
        cost: What it costs clients now.
        area: Of the rule that found a fact; blank: it is proven by simulation.
        present: Active values of the settings that a proven fix changes.
        title: Of a fact: what is wrong in a few words; blank: the code says it.
    """

    code: str
    keys: tuple[str, ...] = ()
    objects: tuple[str, ...] = ()
    summary: str
    effect: Effect | None = None
    fix: Fix = field(default_factory=Fix)
    hint: str = ""
    measured: float | None = None
    threshold: float | None = None
    unit: str = ""
    severity: Severity = "warning"
    cost: Cost = FREE
    area: str = ""
    title: str = ""
    present: Mapping[str, Any] = field(default_factory=dict)


def one_per_fix(causes: Iterable[Cause]) -> tuple[Cause, ...]:
    """Return the causes, those with the same fix as one: the first, with the objects of all.

    Args:
        causes: Best first.
    """
    found: dict[object, Cause] = {}
    for cause in causes:
        fix = cause.fix
        key: object = (repr(sorted(fix.wanted.items())), fix.lines)
        if not fix.wanted and not fix.lines:  # what to do is in words only
            key = cause.hint or (cause.code, cause.objects)
        first = found.get(key)
        objects = cause.objects if first is None else (*first.objects, *cause.objects)
        found[key] = replace(first or cause, objects=tuple(dict.fromkeys(objects)))
    return tuple(found.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """The answer to "what is wrong, and why is it uneven?".

    Attributes:
        causes: The first to act on first; empty: no problem found, or none whose fix helps.
        problem: What is wrong, a sentence or two; empty: nothing that has a cause.
        subject: The verdict on the broker, bundle or node in question, one sentence; empty: the
            question is about the cluster.
        tried: Changes that were simulated to the end, those without effect included.
        untried: Changes that the time did not allow to the end.
        untried_pairs: Pairs of changes that the time did not allow.
        cut_short: Of these, changes that were begun.
        refuted: Changes that help, but not with every random placement.
        notes: What was assumed, and what could not be judged.
        target_ratio: Deviation that is even enough, of the system.
        verdict: On the whole cluster; ``None`` if only load was examined, under assumed settings.
        outlook: Where the balancer ends by itself, one sentence; empty: not simulated.
        seconds: The time that the simulations had.
    """

    causes: tuple[Cause, ...] = ()
    problem: str = ""
    subject: str = ""
    tried: int = 0
    untried: int = 0
    untried_pairs: int = 0
    cut_short: int = 0
    refuted: int = 0
    notes: tuple[str, ...] = ()
    target_ratio: float = EVEN_RATIO
    verdict: Verdict | None = None
    outlook: str = ""
    seconds: float = 0.0

    @property
    def by_effect(self) -> tuple[Cause, ...]:
        """The causes; those that a simulation proves by the deviation that their fix leaves.

        What gives a bundle its server, and what was observed, keeps its place.
        """
        places = [at for at, one in enumerate(self.causes) if _evens(one)]
        best = iter(sorted((self.causes[at] for at in places), key=_deviation_left))
        return tuple(next(best) if _evens(one) else one for one in self.causes)

    @property
    def best(self) -> Cause | None:
        """The cause whose fix leaves the least deviation; ``None`` if none has an effect."""
        effective = [one for one in self.causes if one.effect is not None]
        return min(effective, key=_deviation_left, default=None)

    @property
    def is_complete(self) -> bool:
        """Whether every change was simulated."""
        return not self.untried and not self.untried_pairs

    @property
    def is_clear(self) -> bool:
        """Whether the examined areas are clear."""
        is_open = self.verdict is not None and not self.verdict.is_clear
        return not self.problem and not self.causes and not is_open

    @property
    def progress(self) -> str:
        """Progress of the search; "" if every change was simulated."""
        if self.untried:
            total = pluralize(self.tried + self.untried, "change")
            return f"{self.untried:,} of {total} not simulated"
        if self.untried_pairs:
            return f"{pluralize(self.untried_pairs, 'pair')} of changes not simulated"
        return ""

    @property
    def continue_seconds(self) -> float:
        """Time with which the search would come farther, seconds."""
        return next((one for one in _LONGER_S if one >= 2 * self.seconds), _LONGER_S[-1])

    @property
    def answer(self) -> str:
        """Problem and search progress as text."""
        if not self.problem and not self.causes:
            return self._without_cause
        if self.causes:
            counted = pluralize(len(self.causes), "cause")
            late = f"{counted}; {self.progress}." if self.progress else ""
            return " ".join(filter(None, (self.problem, self._short_of_even(), late)))
        if self.refuted:
            late = f"; {self.progress}" if self.progress else ""
            return (
                f"{self.problem} {pluralize(self.refuted, 'change')} effective with some random "
                f"placements, none with all{late}."
            )
        if self.progress:
            if not self.tried:
                late = f"No simulation of {pluralize(self.untried, 'change')} finished"
                return f"{self.problem} {late}: time limit reached."
            return f"{self.problem} No cause found yet: {self.progress}."
        return f"{self.problem} No single setting changes this ({self.tried:,} changes simulated)."

    @property
    def _without_cause(self) -> str:
        """Return the verdict; an all-clear names its scope."""
        late = f"{self.progress}." if self.progress else ""
        if self.verdict is None:
            return " ".join(filter(None, ("No load problem found.", late)))
        found = self.verdict.problems
        if self.verdict.is_clear:
            return " ".join(filter(None, (self.verdict.headline, self.verdict.scope, late)))
        parts = (self.verdict.headline, found[0].sentence, self.outlook, late)
        return " ".join(filter(None, parts))

    def _short_of_even(self) -> str:
        """Return the note that no single fix is sufficient, with the best of them."""
        effects = [one.effect for one in self.causes if one.effect is not None]
        ends = [one.after.deviation for one in effects if not one.is_more_complete]
        best = min((end for end in ends if end is not None), default=0.0)
        if None in ends or best <= self.target_ratio:
            return ""
        alone = "The fix" if len(ends) == 1 else "No fix is sufficient: the best"
        return f"{alone} ends at {format_ratio(best)} (target: {format_ratio(self.target_ratio)})."


def _evens(cause: Cause) -> bool:
    return cause.effect is not None and not cause.effect.is_more_complete


def _deviation_left(cause: Cause) -> tuple[bool, bool, float, int]:
    """Sort key: fixes that converge first, then by deviation, unknown last, then by moves."""
    if cause.effect is None:
        return (True, True, 0.0, 0)
    after = cause.effect.after
    return (not after.converges, after.deviation is None, after.deviation or 0.0, after.moves)
