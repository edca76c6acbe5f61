"""The classes that pick one of the brokers that the filters left.

Each answers with the *set* it draws from; the real classes draw from it uniformly.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar, Final, Protocol

import numpy as np

from core.errors import UnknownNameError
from core.pulsar.load import next_smoothed_usage
from core.pulsar.placement.context import PlacementContext
from core.pulsar.placement.filters import FilterResult
from core.pulsar.placement.masks import any_in_row
from core.pulsar.placement.model import PlacementMemory
from core.pulsar.view import Flags, Floats
from core.units import format_msgs_per_s, format_ratio

_DOUBT_RATIO: Final = 1e-9
ReasonOf = Callable[[int], str]
"""Broker row to a reason in words."""


class Selector(Protocol):
    """One placement strategy."""

    name: ClassVar[str]
    score_label: ClassVar[str]
    is_paired: ClassVar[bool]
    """It sends what the shedding strategy of the same class sheds where that one planned."""
    is_by_averages: ClassVar[bool]
    """Its scores are as old as the leader's averages: a near loser may be first by now."""

    def picks(
        self, context: PlacementContext, mask: Flags, before: Flags | None = None, /
    ) -> Flags:
        """Return the candidate set per row, a subset of ``mask``.

        Args:
            context: The question.
            mask: Candidates, ``(n_rows, n_brokers)``.
            before: Candidates of the first pick, when this is the second one of the same question.
        """
        ...

    def scores(self, context: PlacementContext) -> Floats:
        """Return each broker's score; less is better."""
        ...

    def losses(self, context: PlacementContext, mask: Flags, /) -> ReasonOf:
        """Return the reason a candidate was not selected; ``mask`` is one row of candidates."""
        ...

    def plans_picks(self, context: PlacementContext) -> bool:
        """Return whether an unplanned selection becomes its bundle's plan."""
        ...

    def unknown_memory(self, context: PlacementContext) -> str:
        """Return the note on state that only the leader has, or ""."""
        ...

    def after_pick(
        self,
        context: PlacementContext,
        filtered: FilterResult,
        retry: float,
        memory: PlacementMemory,
        /,
    ) -> PlacementMemory:
        """Return the memory after a pick.

        Args:
            context: The question.
            filtered: One row of candidates.
            retry: Probability of a second pick; it counts when it is certain.
            memory: Before the pick.
        """
        ...


class StatelessSelector:
    """Declaration of a stateless placement strategy."""

    __slots__ = ()

    is_paired: ClassVar[bool] = False
    is_by_averages: ClassVar[bool] = False

    def plans_picks(self, _context: PlacementContext) -> bool:
        """Return that selections become no plans."""
        return False

    def unknown_memory(self, _context: PlacementContext) -> str:
        """Return that nothing is unknown."""
        return ""

    def after_pick(
        self,
        _context: PlacementContext,
        _filtered: FilterResult,
        _retry: float,
        memory: PlacementMemory,
        /,
    ) -> PlacementMemory:
        """Return the memory unchanged."""
        return memory


@dataclass(frozen=True, slots=True)
class LeastLongTermMessageRate(StatelessSelector):
    """The least long-term message rate wins; overloaded brokers only when all are.

    Source:
        Pulsar ``broker.loadbalance.impl.LeastLongTermMessageRate#selectBroker``.
    Parity:
        The same sets; the bundle's own rate has no effect.
    """

    name: ClassVar[str] = "LeastLongTermMessageRate"
    score_label: ClassVar[str] = "long-term rate, msg/s"
    is_by_averages: ClassVar[bool] = True

    def picks(
        self, context: PlacementContext, mask: Flags, _before: Flags | None = None, /
    ) -> Flags:
        """Return the brokers that share the least score, or may, as far as is known."""
        scores = np.where(mask, self.scores(context), np.inf)
        least = np.asarray((scores + context.long_doubt).min(axis=1, initial=np.inf))
        return np.asarray(mask & (scores - context.long_doubt <= least[:, None]), np.bool_)

    def scores(self, context: PlacementContext) -> Floats:
        """Return msg/s in + out, infinite for overloaded brokers."""
        return np.where(context.is_overloaded, np.inf, context.long_rate)

    def losses(self, context: PlacementContext, mask: Flags, /) -> ReasonOf:
        """Describe both rates, or the usage."""
        least = format_msgs_per_s(float(self.scores(context)[mask[0]].min()))
        bound = format_ratio(context.overload_ratio)

        def reason(broker: int) -> str:
            if context.is_overloaded[broker]:
                return f"usage {format_ratio(context.view.overload_usage[broker])} is over {bound}"
            rate = format_msgs_per_s(context.long_rate[broker])
            return f"long-term rate {rate}, the minimum is {least}"

        return reason

    def unknown_memory(self, context: PlacementContext) -> str:
        """Return the note that the averages lack recent moves, if there were any."""
        if not context.long_doubt.any():
            return ""
        return (
            "Long-term rates are uncertain: bundles moved after the leader last wrote its "
            "averages. Each broker that could have the lowest rate has the same probability."
        )


def _ordered_mean(context: PlacementContext, usage: Floats, mask: Flags) -> Floats:
    """Mean usage of each row's candidates, added up in the order in which Java adds."""
    order = context.view.java_order
    ordered = np.where(mask, usage, 0.0)[:, order]
    if not ordered.shape[1]:
        return np.zeros(mask.shape[0])
    # cumsum adds left to right as Java does; np.sum adds in pairs
    total = np.cumsum(ordered, axis=1)[:, -1]
    return np.asarray(total / np.maximum(mask.sum(axis=1), 1), np.float64)


@dataclass(frozen=True, slots=True)
class LeastResourceUsageWithWeight(StatelessSelector):
    """Any broker far enough below the mean usage of the candidates; any at all when none is.

    Source:
        Pulsar ``broker.loadbalance.impl.LeastResourceUsageWithWeight#selectBroker``.
    Parity:
        The same sets, the mean added up in hash order. Usage is smoothed at every pick, not over
        time; a second pick of the same question smooths again.
    """

    name: ClassVar[str] = "LeastResourceUsageWithWeight"
    score_label: ClassVar[str] = "smoothed usage, ratio"

    def picks(
        self, context: PlacementContext, mask: Flags, before: Flags | None = None, /
    ) -> Flags:
        """Return the brokers at least the margin below the mean, else all."""
        usage = self.scores(context)
        if before is None:
            mean = self._mean(context, usage, mask)
        else:
            usage = np.where(before, self.smooth(context, usage), usage)
            mean = _ordered_mean(context, usage, mask)
        best = mask & (usage + self._margin(context) <= mean[:, None])
        return np.where(any_in_row(best)[:, None], best, mask)

    def scores(self, context: PlacementContext) -> Floats:
        """Return usage smoothed with the memory; current usage without memory."""
        held = context.memory.smoothed_usage
        if not held:
            return context.view.usage
        past = np.array([held.get(name, np.nan) for name in context.view.brokers])
        smoothed = self.smooth(context, past)
        return np.where(np.isnan(past), context.view.usage, smoothed)

    def smooth(self, context: PlacementContext, past: Floats) -> Floats:
        """Return usage after one more pick.

        From 3.0 on a broker without bundles or traffic starts again; 2.11 keeps its past.
        """
        view = context.view
        ratio = context.settings.number("loadBalancerHistoryResourcePercentage")
        smoothed = next_smoothed_usage(past, view.usage, ratio)
        if not context.settings.rules.placement_forgets_idle:
            return smoothed
        is_idle = (view.broker_bundles == 0) | (view.broker_msg_rate == 0)
        return np.where(is_idle, view.usage, smoothed)

    def _margin(self, context: PlacementContext) -> float:
        key = "loadBalancerAverageResourceUsageDifferenceThresholdPercentage"
        return context.settings.number(key) / 100.0

    def _mean(self, context: PlacementContext, usage: Floats, mask: Flags) -> Floats:
        """Mean usage of each row's candidates, exact wherever a last bit could turn a verdict."""
        mean = np.asarray(mask @ usage / np.maximum(mask.sum(axis=1), 1), np.float64)
        lines = np.sort(usage + self._margin(context))
        slack = _DOUBT_RATIO * np.maximum(np.abs(mean), 1.0)
        below = np.searchsorted(lines, mean - slack, side="left")
        doubtful = np.flatnonzero(np.searchsorted(lines, mean + slack, side="right") != below)
        if doubtful.size:
            mean[doubtful] = _ordered_mean(context, usage, mask[doubtful])
        return mean

    def losses(self, context: PlacementContext, mask: Flags, /) -> ReasonOf:
        """Describe usage, mean and margin."""
        usage = self.scores(context)
        mean = float(self._mean(context, usage, mask)[0])
        words = (
            f"is not {self._margin(context) * 100:g} points below the mean {format_ratio(mean)} "
            f"of {int(mask.sum())} candidates"
        )
        return lambda broker: f"usage {format_ratio(usage[broker])} {words}"

    def unknown_memory(self, context: PlacementContext) -> str:
        """Return the note that the leader's smoothed usage is unknown, if it is."""
        if context.memory.smoothed_usage:
            return ""
        return "Current usage is used: the leader's smoothed usage is unknown."

    def after_pick(
        self,
        context: PlacementContext,
        filtered: FilterResult,
        retry: float,
        memory: PlacementMemory,
        /,
    ) -> PlacementMemory:
        """Return the memory with the usage smoothed for every broker that was looked at."""
        seen = filtered.candidates[0]
        usage = self.scores(context)
        if retry >= 1.0:
            usage = np.where(seen, self.smooth(context, usage), usage)
            seen = seen | filtered.allowed[0]
        names = context.view.brokers
        new = {names[row]: float(usage[row]) for row in np.flatnonzero(seen)}
        return replace(memory, smoothed_usage={**memory.smoothed_usage, **new})


@dataclass(frozen=True, slots=True)
class RoundRobinBrokerSelector(StatelessSelector):
    """The candidates in turn. Its counter cannot be seen from outside.

    Source:
        Pulsar ``broker.loadbalance.impl.RoundRobinBrokerSelector#selectBroker``.
    Parity:
        With an unknown counter all candidates are equally likely. With a known one: the candidate
        at ``counter mod n`` in hash order, on a list made for these candidates.
    """

    name: ClassVar[str] = "RoundRobinBrokerSelector"
    score_label: ClassVar[str] = ""

    def picks(
        self, context: PlacementContext, mask: Flags, before: Flags | None = None, /
    ) -> Flags:
        """Return all candidates, or the one whose turn it is."""
        turn = context.memory.round_robin_count
        if turn is None:
            return mask
        turn += before is not None
        order = context.view.java_order
        ordered = mask[:, order]
        count = ordered.sum(axis=1)
        wanted = turn % np.maximum(count, 1)
        chosen = np.zeros_like(mask)
        chosen[:, order] = ordered & (np.cumsum(ordered, axis=1) - 1 == wanted[:, None])
        return chosen

    def scores(self, context: PlacementContext) -> Floats:
        """Return nothing that counts: zero for all."""
        return np.zeros(len(context.view.brokers))

    def losses(self, context: PlacementContext, _mask: Flags, /) -> ReasonOf:
        """Describe whose turn it is not; with an unknown counter, who is left to a second pick."""
        turn = context.memory.round_robin_count
        if turn is not None:
            return lambda _broker: f"turn {turn} selects another candidate"
        bound = format_ratio(context.overload_ratio)

        def reason(broker: int) -> str:
            usage = format_ratio(context.view.overload_usage[broker])
            return f"usage {usage} is over {bound}, and a second selection picks others"

        return reason

    def unknown_memory(self, context: PlacementContext) -> str:
        """Return the note that the leader's counter is unknown, if it is."""
        if context.memory.round_robin_count is not None:
            return ""
        return "The leader's counter is unknown: every candidate is equally likely."

    def after_pick(
        self,
        _context: PlacementContext,
        _filtered: FilterResult,
        retry: float,
        memory: PlacementMemory,
        /,
    ) -> PlacementMemory:
        """Return the memory with the counter one further, two after a certain second pick."""
        if memory.round_robin_count is None:
            return memory
        return replace(memory, round_robin_count=memory.round_robin_count + 1 + (retry >= 1.0))


@dataclass(frozen=True, slots=True)
class AvgShedder(StatelessSelector):
    """Planned destinations for AvgShedder's bundles; any broker for others.

    Source:
        Pulsar ``broker.loadbalance.impl.AvgShedder#selectBroker``; 5.0 from its byte code.
    Parity:
        The same sets. From 4.0 to 4.2 the real class finds its plan by the *values* of a bundle's
        averages, so that two bundles with equal ones share a destination, and a plan is lost when
        the averages move; here it is found by name (deviation AVG-1), as in 3.x, where the record
        of the bundle itself is the key.
    """

    name: ClassVar[str] = "AvgShedder"
    score_label: ClassVar[str] = ""
    is_paired: ClassVar[bool] = True

    def picks(
        self, context: PlacementContext, mask: Flags, _before: Flags | None = None, /
    ) -> Flags:
        """Return the planned broker where it is a candidate, else all candidates."""
        planned = context.planned
        if planned < 0:
            return mask
        if context.view.release >= "5.0":
            return self._picks_of_5(context, mask, planned)
        chosen = np.zeros_like(mask)
        chosen[:, planned] = mask[:, planned]
        return np.where(mask[:, planned][:, None], chosen, mask)

    def _picks_of_5(self, context: PlacementContext, mask: Flags, planned: int) -> Flags:
        """Return the selection of 5.0: never the source or an overloaded planned broker."""
        elsewhere = mask.copy()
        elsewhere[:, context.view.owner[context.bundle]] = False
        calm = elsewhere & ~context.is_overloaded
        only = np.zeros_like(mask)
        only[:, planned] = True
        if context.is_overloaded[planned]:
            only = np.where(any_in_row(calm)[:, None], calm, only)
        return np.where(mask[:, planned][:, None], only, elsewhere)

    def scores(self, context: PlacementContext) -> Floats:
        """Return nothing that counts: zero for all."""
        return np.zeros(len(context.view.brokers))

    def losses(self, context: PlacementContext, _mask: Flags, /) -> ReasonOf:
        """Describe who is planned."""
        names = context.view.brokers
        return lambda _broker: f"{names[context.planned]} is the planned destination"

    def plans_picks(self, context: PlacementContext) -> bool:
        """Return whether the release saves its first selection as the plan; 5.0 does not."""
        return context.view.release < "5.0"

    def unknown_memory(self, context: PlacementContext) -> str:
        """Return the note that no plan is known, if none is."""
        if context.planned >= 0:
            return ""
        return (
            "No destination is planned for the bundle: every candidate is equally "
            "likely. AvgShedder's plan is only in the leader's memory."
        )


STRATEGIES: Final[tuple[Selector, ...]] = (
    LeastLongTermMessageRate(),
    LeastResourceUsageWithWeight(),
    RoundRobinBrokerSelector(),
    AvgShedder(),
)
"""Every placement strategy there is, the default first."""

STRATEGY_NAMES: Final = tuple(strategy.name for strategy in STRATEGIES)
PAIRED_NAMES: Final = tuple(strategy.name for strategy in STRATEGIES if strategy.is_paired)
ROUND_ROBIN: Final = STRATEGIES[2]


def find_strategy(name: str) -> Selector:
    """Return the strategy with that class name, with or without its package.

    Raises:
        UnknownNameError: There is none; the hint offers near names.
    """
    simple = name.rpartition(".")[2]
    for strategy in STRATEGIES:
        if strategy.name == simple:
            return strategy
    raise UnknownNameError.of("placement strategy", name, STRATEGY_NAMES)
