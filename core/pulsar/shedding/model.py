"""What a shedding strategy reads and what it decides.

A strategy is a fold, ``(view, config, state, recently_unloaded)`` to ``(decision, next state)``: it
reads no clock and keeps nothing; what the real class remembers between rounds is its state.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Final, Generic, Literal, Protocol, TypeVar

from core.pulsar.settings import EffectiveSettings
from core.pulsar.view import LoadView
from core.snapshot import LoadManager

Label = Literal["success", "skip", "failure"]
"""Moves were found; nothing to do, with the reason; the question cannot be answered."""

Reason = Literal[
    "overloaded",
    "underloaded",
    "balanced",
    "no_bundles",
    "no_brokers",
    "no_load_data",
    "outdated_data",
    "hit_count",
    "cool_down",
    "too_small",
    "sort_failed",
    "disabled",
    "unavailable",
]
"""Why; upstream's own words where it has one (``UnloadDecision.Reason``)."""

USAGE: Final = "weighted usage (CPU, memory, network)"
RATE: Final = "message rate"
"""What strategies rank brokers by; see :attr:`SheddingStrategy.measure`."""

ConfigT = TypeVar("ConfigT")
StateT = TypeVar("StateT")


@dataclass(frozen=True, slots=True)
class Move:
    """One bundle leaves one broker.

    Attributes:
        broker: Where it leaves.
        bundle: Name.
        destination: Where the strategy itself wants it; ``None`` if placement decides.
    """

    broker: str
    bundle: str
    destination: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """One condition of a move: what was measured against what, and how far it is.

    Attributes:
        name: The condition in a few words, the same for every broker.
        measured: The value found, in ``unit``; NaN where it is unknown.
        threshold: What it is compared with, same unit.
        unit: For example ``ratio``, ``bytes/s``, ``msg/s``, ``bundles``, ``rounds``.
        is_open: Whether the condition holds.
        distance: How much ``measured`` has to change until the verdict turns, same unit: above zero
            while the gate is shut, zero or below while it is open.
        sentence: All of that in words.
        is_alternative: One of several of which one suffices: the move may go on though it is shut.
    """

    name: str
    measured: float
    threshold: float
    unit: str
    is_open: bool
    distance: float
    sentence: str
    is_alternative: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerTrace:
    """The gates of one broker, or of the whole cluster, in the order in which they are checked.

    Attributes:
        broker: Broker id; ``None`` for the cluster as a whole, or a pair that ``sentence`` names.
        sheds: Whether bundles leave it.
        gates: A shut gate is the last one, unless it is one of several alternatives.
        sentence: The verdict in words.
    """

    broker: str | None
    sheds: bool
    gates: tuple[Gate, ...]
    sentence: str


def no_pick(_bundle: str) -> Gate | None:
    """Return that nothing is known about single bundles."""
    return None


def no_trace() -> tuple[BrokerTrace, ...]:
    """Return no explanation at all."""
    return ()


@dataclass(frozen=True, kw_only=True)
class Decision:
    """Decision of one round of a strategy.

    Attributes:
        label: Moves or none.
        reason: Why.
        moves: In the order in which the real class picks: brokers in its order, bundles of a broker
            in its order.
        sentence: The verdict in words, with numbers.
        explain: Makes the trace; called only when it is read.
        pick: Why a bundle of a broker that sheds is picked or not, as a gate; ``None`` if it is no
            candidate.
        notes: What was assumed.
    """

    label: Label
    reason: Reason
    moves: tuple[Move, ...] = ()
    sentence: str = ""
    explain: Callable[[], tuple[BrokerTrace, ...]] = field(
        default=no_trace, compare=False, repr=False
    )
    pick: Callable[[str], Gate | None] = field(default=no_pick, compare=False, repr=False)
    notes: tuple[str, ...] = ()

    @cached_property
    def trace(self) -> tuple[BrokerTrace, ...]:
        """The gates of every broker."""
        return self.explain()

    def bundles_by_broker(self) -> dict[str, list[str]]:
        """Return ``{broker: bundles}`` in picking order; brokers without moves are absent."""
        found: dict[str, list[str]] = {}
        for move in self.moves:
            found.setdefault(move.broker, []).append(move.bundle)
        return found


class SheddingStrategy(Protocol[ConfigT, StateT]):
    """One shedding strategy.

    Attributes:
        name: Of the upstream class, without its package.
        summary: What it does, one sentence.
        package: Of the upstream class.
        manager: The load manager that runs it.
        measure: By what it ranks brokers, in words; empty: the measures differ by setting.
        fitting_placement: Placement strategy that ranks by the same measure; empty: it names
            destinations itself.
        memory: What is lost with a leader's memory, a sentence; empty: nothing is.
        adjustable: Keys of the settings that a form offers for it, the most important first.
        deciding: Keys of the settings, each of which alone decides whether brokers shed.
        checks_itself: It checks its moves and names their destinations; the load manager does not.
        counts_rounds: Brokers shed only after several rounds in a row of the same kind.
        evens_load: It acts on differences between brokers; otherwise on absolute usage alone.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    package: ClassVar[str]
    manager: ClassVar[LoadManager]
    measure: ClassVar[str]
    fitting_placement: ClassVar[str]
    memory: ClassVar[str]
    adjustable: ClassVar[tuple[str, ...]]
    deciding: ClassVar[tuple[str, ...]]
    checks_itself: ClassVar[bool]
    counts_rounds: ClassVar[bool]
    evens_load: ClassVar[bool]

    def fires_by(self, view: LoadView, config: ConfigT, /) -> Literal["throughput", "msg_rate"]:
        """Return the measure by which it judges the load of this cluster now."""
        ...

    def config(self, settings: EffectiveSettings) -> ConfigT:
        """Return the strategy's settings from the active settings."""
        ...

    def initial_state(self) -> StateT:
        """Return the memory of a leader that just started."""
        ...

    def decide(
        self,
        view: LoadView,
        config: ConfigT,
        state: StateT,
        recently_unloaded: AbstractSet[str],
        /,
    ) -> tuple[Decision, StateT]:
        """Return this round's unloads, and the memory for the next one.

        Args:
            view: Load of the cluster.
            config: Of :meth:`config`.
            state: Of the round before, or :meth:`initial_state`.
            recently_unloaded: Names of bundles in their grace period.
        """
        ...

    def patient_state(self, view: LoadView, config: ConfigT, /) -> StateT:
        """Return the memory of a leader that saw the same load for as many rounds as it counts."""
        ...

    def after_unloads(self, view: LoadView, state: StateT, moves: Sequence[Move], /) -> StateT:
        """Return the memory after moves were executed."""
        ...

    def with_recent_sources(self, state: StateT, gave_at_ms: Mapping[str, int], /) -> StateT:
        """Return the memory with these brokers as the ones that gave bundles away recently."""
        ...


class RelativeLoadStrategy:
    """Declaration of a strategy based on usage relative to other brokers."""

    __slots__ = ()

    evens_load: ClassVar[bool] = True

    def fires_by(self, _view: LoadView, _config: Any, /) -> Literal["throughput", "msg_rate"]:
        """Return traffic: usage follows it."""
        return "throughput"


class ModularStrategy(RelativeLoadStrategy, Generic[StateT]):
    """Declaration of a strategy without counts of rounds or moves.

    The load manager checks its moves and places them.
    """

    __slots__ = ()

    checks_itself: ClassVar[bool] = False
    counts_rounds: ClassVar[bool] = False

    def initial_state(self) -> StateT:
        """Return the memory of a leader that just started."""
        raise NotImplementedError

    def patient_state(self, _view: LoadView, _config: Any, /) -> StateT:
        """Return the memory of a leader that just started: no rounds are counted."""
        return self.initial_state()

    def after_unloads(self, _view: LoadView, state: StateT, _moves: Sequence[Move], /) -> StateT:
        """Return the memory unchanged: moves do not affect it."""
        return state

    def with_recent_sources(self, state: StateT, _gave_at_ms: Mapping[str, int], /) -> StateT:
        """Return the memory unchanged: no broker has a cool-down."""
        return state
