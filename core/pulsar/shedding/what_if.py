"""What would have to be set otherwise for a broker or a bundle to go, or to stay: tried out."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any, Final

import numpy as np

from core.ids import namespace_of
from core.progress import NO_PROGRESS, Progress
from core.pulsar.settings import SETTING_BY_KEY, EffectiveSettings, Setting
from core.pulsar.shedding.model import Decision, Move
from core.pulsar.shedding.registry import AnyStrategy
from core.pulsar.shedding.unload_checks import UnloadChecks
from core.pulsar.view import LoadView

__all__ = ["SettingsOf", "TurningPoint", "WhatIf", "deciding_settings", "is_searchable"]

MAX_TRIED: Final = 150_000
"""Bundles up to which turning points are sought: each is found by some fifty rounds."""

_SCANNED: Final = 20_000
"""Bundles up to which values between the present one and the end are tried as well."""

_STEPS: Final = 6
_HALVINGS: Final = 64
_PRECISION_RATIO: Final = 1e-6
_DIGITS: Final = 4
_MAX_ROUNDS: Final = 100
"""Rounds of the same load simulated to confirm a value; counts beyond are not given."""

_EXCLUDED: Final = "loadBalancerSheddingExcludedNamespaces"

SettingsOf = Callable[[Mapping[str, object]], EffectiveSettings]
"""The active settings with some of them assumed otherwise."""

Verdict = Callable[[Mapping[str, object]], bool]
"""Whether a broker or a bundle sheds or leaves under some assumptions."""

Concern = Callable[[Move], bool]
"""Whether a move is one of those in question."""


def deciding_settings(strategy: AnyStrategy) -> tuple[Setting, ...]:
    """Return the settings, each of which alone decides whether brokers shed."""
    return tuple(SETTING_BY_KEY[key] for key in strategy.deciding)


@dataclass(frozen=True, slots=True, kw_only=True)
class TurningPoint:
    """The value of one setting at which the verdict on a broker or a bundle turns.

    Attributes:
        broker: Broker id; blank: about a bundle.
        bundle: Name; blank: about a broker.
        key: Upstream key.
        present: The active value.
        needed: The value nearest to it that turns the verdict; tried.
        sheds: What becomes of it at that value.
        sentence: All of that in words.
        rounds: In which round of the same load, from a leader that just started; 1: the next one.
        outcome: What becomes of the cluster, simulated, one sentence; empty: not simulated yet.
        is_recommended: Whether it ends no worse; ``None`` if not simulated.
    """

    broker: str = ""
    bundle: str = ""
    key: str
    present: float | tuple[str, ...]
    needed: float | tuple[str, ...]
    sheds: bool
    sentence: str
    rounds: int = 1
    outcome: str = ""
    is_recommended: bool | None = None

    @property
    def text(self) -> str:
        """The sentence and what becomes of the cluster."""
        return f"{self.sentence}. {self.outcome}".rstrip()


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingPair:
    """Two settings with which a broker sheds, where neither does it alone.

    Attributes:
        settings: Upstream key to value; tried on the next rounds.
        sentence: In words.
    """

    settings: Mapping[str, Any]
    sentence: str


@dataclass(frozen=True, slots=True)
class _TurningValue:
    """A setting, its present value, the value that turns a verdict, what to, and in which round."""

    setting: Setting
    present: float
    needed: float
    sheds: bool
    rounds: int

    def describe(self, subject: str) -> str:
        """Describe it for a broker or a bundle with its verb."""
        words = f"{subject} with {self.setting.key} at {_words(self.needed)}"
        after = f", after {self.rounds} such rounds" if self.rounds > 1 else ""
        return f"{words} (now {_words(self.present)}){after}"


@dataclass(frozen=True, eq=False)
class WhatIf:
    """One round of a strategy that can be repeated under other settings.

    Attributes:
        strategy: Of the registry.
        view: Load of the cluster.
        settings_of: Gives settings with some assumed otherwise; no deciding one changes the
            view.
        state: The strategy's memory before the round; ``None`` if it just started.
        recently_unloaded: Bundles in their grace period.
        is_checked: Whether the load manager's checks count: what it leaves alone is not shed.
        progress: Called before each repeated round.
    """

    strategy: AnyStrategy
    view: LoadView
    settings_of: SettingsOf
    state: object = None
    recently_unloaded: Collection[str] = field(default=())
    is_checked: bool = False
    progress: Progress = NO_PROGRESS

    def sheds(self, broker: str, **assumed: object) -> bool:
        """Return whether a broker sheds under assumed settings."""
        return self._any_goes(assumed, _of_broker(broker))

    def leaves(self, bundle: str, **assumed: object) -> bool:
        """Return whether a bundle is shed under assumed settings."""
        return self._any_goes(assumed, _of_bundle(bundle))

    def _any_goes(
        self, assumed: Mapping[str, object], concerns: Concern, *, is_patient: bool = False
    ) -> bool:
        """Return whether any of the objects moves in one round.

        Args:
            assumed: Settings.
            concerns: What is in question.
            is_patient: The round is one after many of the same load: no count of rounds lacks.
        """
        self.progress.step(0, 0, "settings that change a verdict")
        settings = self.settings_of(assumed)
        config = self.strategy.config(settings)
        state = self.strategy.initial_state() if self.state is None else self.state
        if is_patient:
            state = self.strategy.patient_state(self.view, config)
        decision, _ = self.strategy.decide(
            self.view, config, state, frozenset(self.recently_unloaded)
        )
        return self._goes(decision, settings, concerns)

    def _goes(self, decision: Decision, settings: EffectiveSettings, concerns: Concern) -> bool:
        moves = [move for move in decision.moves if concerns(move)]
        if not moves or not self.is_checked or self.strategy.checks_itself:
            return bool(moves)
        return any(
            not one.skipped for one in UnloadChecks(self.view, settings).unload_outcomes(moves)
        )

    def _rounds_until(self, assumed: Mapping[str, object], concerns: Concern) -> int | None:
        """Return the first round of the same load in which it moves, or ``None``."""
        settings = self.settings_of(assumed)
        config, state = self.strategy.config(settings), self.strategy.initial_state()
        recent = frozenset(self.recently_unloaded)
        for number in range(1, _MAX_ROUNDS + 1):
            self.progress.step(0, 0, "settings that change a verdict")
            decision, state = self.strategy.decide(self.view, config, state, recent)
            if self._goes(decision, settings, concerns):
                return number
        return None

    def turning_points(self, broker: str) -> Iterator[TurningPoint]:
        """Yield each setting that turns the verdict on a broker by itself, with the value.

        A value once found is tried: the strategy is run with it and decides otherwise. Where not
        even any number of rounds of the same load would make it shed, so many are tried as its
        counts of rounds need.
        """
        for turn in self._turned(_of_broker(broker)):
            verb = "would shed" if turn.sheds else "would stay"
            yield TurningPoint(
                broker=broker,
                key=turn.setting.key,
                present=turn.present,
                needed=turn.needed,
                sheds=turn.sheds,
                sentence=turn.describe(f"{broker} {verb}"),
                rounds=turn.rounds,
            )

    def bundle_turning_points(self, bundle: str) -> Iterator[TurningPoint]:
        """Yield each setting that turns the verdict on a bundle by itself; each value is tried."""
        for turn in self._turned(_of_bundle(bundle)):
            verb = "would be shed" if turn.sheds else "would stay"
            yield TurningPoint(
                bundle=bundle,
                key=turn.setting.key,
                present=turn.present,
                needed=turn.needed,
                sheds=turn.sheds,
                sentence=turn.describe(f"{bundle} {verb}"),
                rounds=turn.rounds,
            )
        yield from self._by_exclusion(bundle)

    def _by_exclusion(self, bundle: str) -> Iterator[TurningPoint]:
        """Take its namespace out of those that are left alone, or put it there."""
        now = self.leaves(bundle)
        present = self.settings_of({}).names(_EXCLUDED)
        namespace = namespace_of(bundle)
        is_in = namespace in present
        others = tuple(name for name in present if name != namespace)
        needed = others if is_in else (*present, namespace)
        if is_in is not now and self.leaves(bundle, **{_EXCLUDED: list(needed)}) is not now:
            verb, how = ("would be shed", "without") if is_in else ("would stay", "with")
            yield TurningPoint(
                bundle=bundle,
                key=_EXCLUDED,
                present=present,
                needed=needed,
                sheds=not now,
                sentence=f"{bundle} {verb} {how} {namespace} in {_EXCLUDED}",
            )

    def together(self, broker: str) -> SettingPair | None:
        """Return two settings that make a broker shed together; ``None`` if no two do.

        For use where none does alone; the values given are verified.
        """
        eager_by_key = {
            one.key: _typed(one.key, one.extremes.eager)
            for one in deciding_settings(self.strategy)
            if one.extremes is not None
        }
        concerns, settings = _of_broker(broker), self.settings_of({})
        for pair in combinations(eager_by_key, 2):
            both = {key: eager_by_key[key] for key in pair}
            if not self._any_goes(both, concerns, is_patient=True):
                continue
            for key in pair:

                def verdict(more: Mapping[str, object], held: Mapping[str, object] = both) -> bool:
                    return self._any_goes({**held, **more}, concerns, is_patient=True)

                search = _ValueSearch(key, verdict, now=False)
                ends = (float(both[key]), float(both[key]))
                value = search.nearest(settings.number(key), ends, is_scanned=False)
                both[key] = both[key] if value is None else _typed(key, value)
            rounds = self._rounds_until(both, concerns)
            if rounds is None:
                continue
            changes = " and ".join(
                f"{key} at {_words(value)} (now {_words(settings.number(key))})"
                for key, value in both.items()
            )
            after = f", after {rounds} such rounds" if rounds > 1 else ""
            sentence = f"{broker} would shed with {changes} together{after}"
            return SettingPair(settings=both, sentence=sentence)
        return None

    def _turned(self, concerns: Concern) -> Iterator[_TurningValue]:
        """Yield the single settings that turn the verdict on a broker or a bundle."""
        now = self._any_goes({}, concerns)
        is_patient = (
            not now
            and self.state is None
            and self.strategy.counts_rounds
            and not self._any_goes({}, concerns, is_patient=True)
        )

        def verdict(more: Mapping[str, object]) -> bool:
            return self._any_goes(more, concerns, is_patient=is_patient)

        for setting, present, needed in self._searched(verdict, now=now):
            more = {setting.key: _typed(setting.key, needed)}
            rounds = self._rounds_until(more, concerns) if is_patient else 1
            if rounds is not None:
                yield _TurningValue(setting, present, needed, not now, rounds)

    def _searched(self, verdict: Verdict, *, now: bool) -> Iterator[tuple[Setting, float, float]]:
        """Yield the setting, its present value and the value that turns the verdict."""
        settings = self.settings_of({})
        for setting in deciding_settings(self.strategy):
            if setting.extremes is None:
                present = settings.flag(setting.key)
                if verdict({setting.key: not present}) is not now:
                    yield setting, present, not present
                continue
            search = _ValueSearch(setting.key, verdict, now)
            number = settings.number(setting.key)
            eager, idle = setting.extremes.eager, setting.extremes.idle
            ends = (idle, eager) if now else (eager, idle)
            found = search.nearest(number, ends, is_scanned=self.view.bundles.size <= _SCANNED)
            if found is not None:
                yield setting, number, found


def _of_broker(broker: str) -> Concern:
    return lambda move: move.broker == broker


def _of_bundle(bundle: str) -> Concern:
    return lambda move: move.bundle == bundle


def _typed(key: str, value: float) -> Any:
    """Return a value of the kind of its setting."""
    kind = SETTING_BY_KEY[key].kind
    return bool(value) if kind == "bool" else int(value) if kind == "int" else value


@dataclass(frozen=True, eq=False)
class _ValueSearch:
    """The value of a number at which a verdict turns."""

    key: str
    verdict: Verdict
    now: bool

    @property
    def is_whole(self) -> bool:
        return SETTING_BY_KEY[self.key].kind == "int"

    def turns(self, value: float) -> bool:
        return self.verdict({self.key: int(value) if self.is_whole else value}) is not self.now

    def nearest(
        self, present: float, ends: tuple[float, float], *, is_scanned: bool
    ) -> float | None:
        """Return the value that turns the verdict, as near to the present one as can be determined.

        Args:
            present: The active value.
            ends: How far to go: the likelier direction first.
            is_scanned: Whether values in between are tried where an end turns nothing: more of a
                thing may be too much of it.
        """
        if present != ends[0] and self.turns(ends[0]):
            return self._narrowed(present, ends[0])
        for end in ends if is_scanned else ():
            same = present
            for value in self._between(present, end):
                if self.turns(value):
                    return self._narrowed(same, value)
                same = value
        return None

    def _between(self, present: float, end: float) -> list[float]:
        """Values up to an end, evenly by ratio where both have the same sign."""
        spread = np.geomspace if present > 0 and end > 0 else np.linspace
        values = spread(present, end, _STEPS + 2)[1:-1].tolist()
        if self.is_whole:
            values = [float(round(value)) for value in values]
        return [value for value in dict.fromkeys(values) if value != present]

    def _narrowed(self, same: float, other: float) -> float:
        """Return the value nearest to ``same`` that turns the verdict, as ``other`` does."""
        for _ in range(_HALVINGS):
            least = 1.0 if self.is_whole else _PRECISION_RATIO * abs(other)
            if abs(other - same) <= least:
                break
            middle = (same + other) / 2
            middle = math.floor(middle) if self.is_whole else middle
            same, other = (same, middle) if self.turns(middle) else (middle, other)
        short = _shortened(other, away_from=same)
        return short if self.turns(short) else other


def is_searchable(view: LoadView) -> bool:
    """Return whether a cluster is small enough to search for turning points."""
    return view.bundles.size <= MAX_TRIED


def _shortened(value: float, *, away_from: float) -> float:
    """Return the value in four digits, rounded away from where the verdict is the present one."""
    if float(value).is_integer():
        return value
    unit = 10.0 ** (math.floor(math.log10(abs(value))) - _DIGITS + 1)
    rounded = (math.floor if value < away_from else math.ceil)(value / unit) * unit
    return float(f"{rounded:.{_DIGITS}g}")


def _words(value: float) -> str:
    return str(value).lower() if isinstance(value, bool) else f"{value:g}"
