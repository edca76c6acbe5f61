"""What would have to be set otherwise for a broker to shed, or to stay: found by trying."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from core.pulsar.settings import SETTING_BY_KEY, EffectiveSettings
from core.pulsar.shedding.registry import AnyStrategy
from core.pulsar.view import LoadView

MOST_TRIED: Final = 150_000
"""Bundles up to which turning points are sought: each is found by some fifty rounds."""

_HALVINGS: Final = 64
_PRECISION_RATIO: Final = 1e-6
_DIGITS: Final = 4

SettingsOf = Callable[[Mapping[str, object]], EffectiveSettings]
"""The settings in force with some of them assumed otherwise."""


@dataclass(frozen=True, slots=True)
class Lever:
    """A setting that decides whether brokers shed.

    Attributes:
        key: Upstream key.
        eager: Value at which the strategy sheds most readily.
        idle: Value at which it does so least.
    """

    key: str
    eager: float
    idle: float


_MINIMUMS: Final = (
    Lever("minUnloadMessage", 0, 2**31 - 1),
    Lever("minUnloadMessageThroughput", 0, 2**31 - 1),
)
LEVERS: Final[Mapping[str, tuple[Lever, ...]]] = {
    "ThresholdShedder": (
        Lever("loadBalancerBrokerThresholdShedderPercentage", 0, 100),
        Lever("loadBalancerBundleUnloadMinThroughputThreshold", 0.0, 1e9),
    ),
    "OverloadShedder": (Lever("loadBalancerBrokerOverloadedThresholdPercentage", 0, 1000),),
    "UniformLoadShedder": (
        Lever("loadBalancerMsgRateDifferenceShedderThreshold", 1e-3, 1e9),
        Lever("loadBalancerMsgThroughputMultiplierDifferenceShedderThreshold", 1e-3, 1e9),
        *_MINIMUMS,
        Lever("maxUnloadPercentage", 1.0, 0.0),
    ),
    "AvgShedder": (
        Lever("loadBalancerAvgShedderLowThreshold", 1, 1000),
        Lever("loadBalancerAvgShedderHitCountLowThreshold", 1, 10_000),
        Lever("loadBalancerAvgShedderHitCountHighThreshold", 1, 10_000),
        *_MINIMUMS,
        Lever("maxUnloadPercentage", 1.0, 0.0),
    ),
}
"""What may be turned, by strategy; each alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurningPoint:
    """The value of one setting at which the verdict on a broker turns.

    Attributes:
        broker: Broker id.
        key: Upstream key.
        present: The value in force.
        needed: The value nearest to it that turns the verdict; tried.
        sheds: What the broker does at that value.
        sentence: All of that in words.
    """

    broker: str
    key: str
    present: float
    needed: float
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
    """

    strategy: AnyStrategy
    view: LoadView
    settings_of: SettingsOf
    state: Any = None
    recently_unloaded: Collection[str] = field(default=())

    def sheds(self, broker: str, **assumed: object) -> bool:
        """Return whether a broker sheds with some settings assumed otherwise."""
        config = self.strategy.config(self.settings_of(assumed))
        state = self.strategy.initial_state() if self.state is None else self.state
        recent = frozenset(self.recently_unloaded)
        decision, _ = self.strategy.decide(self.view, config, state, recent)
        return any(move.broker == broker for move in decision.moves)

    def turning_points(self, broker: str) -> Iterator[TurningPoint]:
        """Yield each setting that turns the verdict on a broker by itself, with the value.

        A value once found is tried: the strategy is run with it and decides otherwise.
        """
        now = self.sheds(broker)
        settings = self.settings_of({})
        for lever in LEVERS.get(self.strategy.name, ()):
            present = settings.number(lever.key)
            bound = lever.idle if now else lever.eager
            found = self._turned(broker, lever.key, (present, bound), now=now)
            if found is not None:
                yield _told(broker, lever.key, present, found, sheds=not now)

    def _turned(
        self, broker: str, key: str, span: tuple[float, float], *, now: bool
    ) -> float | None:
        """Return the value nearest to ``span[0]``, towards ``span[1]``, that turns the verdict."""
        is_whole = SETTING_BY_KEY[key].kind == "int"

        def turns(value: float) -> bool:
            return self.sheds(broker, **{key: int(value) if is_whole else value}) is not now

        same, other = span
        if same == other or not turns(other):
            return None
        for _ in range(_HALVINGS):
            least = 1.0 if is_whole else _PRECISION_RATIO * abs(other)
            if abs(other - same) <= least:
                break
            middle = (same + other) / 2
            middle = math.floor(middle) if is_whole else middle
            same, other = (same, middle) if turns(middle) else (middle, other)
        short = _shortened(other, away_from=same)
        return short if turns(short) else other


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


def _told(broker: str, key: str, present: float, needed: float, *, sheds: bool) -> TurningPoint:
    verb = "would shed" if sheds else "would stay as it is"
    return TurningPoint(
        broker=broker,
        key=key,
        present=present,
        needed=needed,
        sheds=sheds,
        sentence=f"{broker} {verb} with {key} at {needed:g} (now {present:g})",
    )
