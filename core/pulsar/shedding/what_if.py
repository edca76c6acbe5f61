"""What would have to be set otherwise for a broker or a bundle to go, or to stay: tried out."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from core.ids import namespace_of
from core.pulsar.settings import SETTING_BY_KEY, EffectiveSettings
from core.pulsar.shedding.model import Move
from core.pulsar.shedding.registry import AnyStrategy
from core.pulsar.shedding.transfer_shedder import TransferShedder
from core.pulsar.shedding.unload_checks import UnloadChecks
from core.pulsar.view import LoadView

MOST_TRIED: Final = 150_000
"""Bundles up to which turning points are sought: each is found by some fifty rounds."""

_SCANNED: Final = 20_000
"""Bundles up to which values between the present one and the end are tried as well."""

_STEPS: Final = 6
_HALVINGS: Final = 64
_PRECISION_RATIO: Final = 1e-6
_DIGITS: Final = 4
_EXCLUDED: Final = "loadBalancerSheddingExcludedNamespaces"

SettingsOf = Callable[[Mapping[str, object]], EffectiveSettings]
"""The settings in force with some of them assumed otherwise."""

Verdict = Callable[[Mapping[str, object]], bool]
"""Whether a broker or a bundle sheds or leaves under some assumptions."""


@dataclass(frozen=True, slots=True)
class Lever:
    """A setting that decides whether brokers shed; the ends do not matter for a switch.

    Attributes:
        key: Upstream key.
        eager: Value at which the strategy sheds most readily.
        idle: Value at which it does so least.
    """

    key: str
    eager: float = 1
    idle: float = 0


_INT_MAX: Final = 2**31 - 1
_MINIMUMS: Final = (
    Lever("minUnloadMessage", 0, _INT_MAX),
    Lever("minUnloadMessageThroughput", 0, _INT_MAX),
)
LEVERS: Final[Mapping[str, tuple[Lever, ...]]] = {
    "ThresholdShedder": (
        Lever("loadBalancerBrokerThresholdShedderPercentage", 0, 100),
        Lever("loadBalancerBundleUnloadMinThroughputThreshold", 0.0, 1e9),
        Lever("lowerBoundarySheddingEnabled"),
    ),
    "OverloadShedder": (Lever("loadBalancerBrokerOverloadedThresholdPercentage", 0, 1000),),
    "UniformLoadShedder": (
        Lever("loadBalancerMsgRateDifferenceShedderThreshold", 1e-3, 1e9),
        Lever("loadBalancerMsgThroughputMultiplierDifferenceShedderThreshold", 1e-3, 1e9),
        *_MINIMUMS,
        Lever("maxUnloadPercentage", 1.0, 0.0),
        Lever("maxUnloadBundleNumPerShedding", _INT_MAX, 0),
    ),
    "AvgShedder": (
        Lever("loadBalancerAvgShedderLowThreshold", 1, 1000),
        Lever("loadBalancerAvgShedderHitCountLowThreshold", 1, 10_000),
        Lever("loadBalancerAvgShedderHitCountHighThreshold", 1, 10_000),
        *_MINIMUMS,
        Lever("maxUnloadPercentage", 1.0, 0.0),
    ),
    "TransferShedder": (
        Lever("loadBalancerBrokerLoadTargetStd", 0.0, 10.0),
        Lever("loadBalancerSheddingConditionHitCountThreshold", 0, 10_000),
        Lever("loadBalancerBrokerOverloadedThresholdPercentage", 0, 1000),
        Lever("loadBalancerMaxNumberOfBrokerSheddingPerCycle", 10_000, 0),
        Lever("loadBalanceSheddingDelayInSeconds", 0, _INT_MAX),
        Lever("loadBalancerBrokerLoadDataTTLInSeconds", _INT_MAX, 0),
        Lever("loadBalancerTransferEnabled"),
        Lever("loadBalancerSheddingBundlesWithPoliciesEnabled"),
    ),
}
"""What may be turned, by strategy; each alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurningPoint:
    """The value of one setting at which the verdict on a broker or a bundle turns.

    Attributes:
        broker: Broker id; blank: about a bundle.
        bundle: Name; blank: about a broker.
        key: Upstream key.
        present: The value in force.
        needed: The value nearest to it that turns the verdict; tried.
        sheds: What becomes of it at that value.
        sentence: All of that in words.
    """

    broker: str = ""
    bundle: str = ""
    key: str
    present: float | tuple[str, ...]
    needed: float | tuple[str, ...]
    sheds: bool
    sentence: str


@dataclass(frozen=True, eq=False)
class WhatIf:
    """One round of a strategy that can be asked again under other settings.

    Attributes:
        strategy: Of the registry.
        view: Load of the cluster.
        settings_of: Gives settings with some assumed otherwise; none of :data:`LEVERS` changes the
            view.
        state: The strategy's memory before the round; ``None``: it just started.
        recently_unloaded: Bundles in their grace period.
        is_checked: Whether the load manager's checks count: what it leaves alone is not shed.
    """

    strategy: AnyStrategy
    view: LoadView
    settings_of: SettingsOf
    state: Any = None
    recently_unloaded: Collection[str] = field(default=())
    is_checked: bool = False

    def sheds(self, broker: str, **assumed: object) -> bool:
        """Return whether a broker sheds with some settings assumed otherwise."""
        return self._any_goes(assumed, lambda move: move.broker == broker)

    def leaves(self, bundle: str, **assumed: object) -> bool:
        """Return whether a bundle is shed with some settings assumed otherwise."""
        return self._any_goes(assumed, lambda move: move.bundle == bundle)

    def _any_goes(self, assumed: Mapping[str, object], concerns: Callable[[Move], bool]) -> bool:
        settings = self.settings_of(assumed)
        state = self.strategy.initial_state() if self.state is None else self.state
        recent = frozenset(self.recently_unloaded)
        config = self.strategy.config(settings)
        decision, _ = self.strategy.decide(self.view, config, state, recent)
        moves = [move for move in decision.moves if concerns(move)]
        if not moves or not self.is_checked or isinstance(self.strategy, TransferShedder):
            return bool(moves)
        return any(not one.skipped for one in UnloadChecks(self.view, settings).landings(moves))

    def turning_points(self, broker: str) -> Iterator[TurningPoint]:
        """Yield each setting that turns the verdict on a broker by itself, with the value.

        A value once found is tried: the strategy is run with it and decides otherwise.
        """
        for lever, present, found, sheds in self._turned(lambda more: self.sheds(broker, **more)):
            verb = "would shed" if sheds else "would stay as it is"
            yield TurningPoint(
                broker=broker,
                key=lever.key,
                present=present,
                needed=found,
                sheds=sheds,
                sentence=_told(f"{broker} {verb}", lever.key, present, found),
            )

    def bundle_turning_points(self, bundle: str) -> Iterator[TurningPoint]:
        """Yield each setting that turns the verdict on a bundle by itself; each value is tried."""

        def verdict(more: Mapping[str, object]) -> bool:
            return self.leaves(bundle, **more)

        for lever, present, found, sheds in self._turned(verdict):
            verb = "would be shed" if sheds else "would stay"
            yield TurningPoint(
                bundle=bundle,
                key=lever.key,
                present=present,
                needed=found,
                sheds=sheds,
                sentence=_told(f"{bundle} {verb}", lever.key, present, found),
            )
        yield from self._by_exclusion(bundle, verdict)

    def _by_exclusion(self, bundle: str, verdict: Verdict) -> Iterator[TurningPoint]:
        """Take its namespace out of those that are left alone, or put it there."""
        now = verdict({})
        present = self.settings_of({}).names(_EXCLUDED)
        namespace = namespace_of(bundle)
        is_in = namespace in present
        others = tuple(name for name in present if name != namespace)
        needed = others if is_in else (*present, namespace)
        if is_in is not now and verdict({_EXCLUDED: list(needed)}) is not now:
            verb, how = ("would be shed", "without") if is_in else ("would stay", "with")
            yield TurningPoint(
                bundle=bundle,
                key=_EXCLUDED,
                present=present,
                needed=needed,
                sheds=not now,
                sentence=f"{bundle} {verb} {how} {namespace} in {_EXCLUDED}",
            )

    def _turned(self, verdict: Verdict) -> Iterator[tuple[Lever, float, float, bool]]:
        """Yield lever, present value, the value that turns the verdict, and what it turns to."""
        now = verdict({})
        settings = self.settings_of({})
        for lever in LEVERS.get(self.strategy.name, ()):
            if SETTING_BY_KEY[lever.key].kind == "bool":
                present = settings.flag(lever.key)
                if verdict({lever.key: not present}) is not now:
                    yield lever, present, not present, not now
                continue
            search = _Search(lever.key, verdict, now)
            number = settings.number(lever.key)
            ends = (lever.idle, lever.eager) if now else (lever.eager, lever.idle)
            found = search.nearest(number, ends, is_scanned=self.view.bundles.size <= _SCANNED)
            if found is not None:
                yield lever, number, found, not now


@dataclass(frozen=True, eq=False)
class _Search:
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
        """Return the value that turns the verdict, as near to the present one as can be told.

        Args:
            present: The value in force.
            ends: How far to go: the likelier way first.
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
        """Values on the way to an end, evenly by ratio where both have the same sign."""
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
    """Return whether a cluster is small enough for turning points to be sought."""
    return view.bundles.size <= MOST_TRIED


def _shortened(value: float, *, away_from: float) -> float:
    """Return the value in four digits, rounded away from where the verdict is the present one."""
    if float(value).is_integer():
        return value
    unit = 10.0 ** (math.floor(math.log10(abs(value))) - _DIGITS + 1)
    rounded = (math.floor if value < away_from else math.ceil)(value / unit) * unit
    return float(f"{rounded:.{_DIGITS}g}")


def _told(subject: str, key: str, present: float, needed: float) -> str:
    return f"{subject} with {key} at {_words(needed)} (now {_words(present)})"


def _words(value: float) -> str:
    return str(value).lower() if isinstance(value, bool) else f"{value:g}"
