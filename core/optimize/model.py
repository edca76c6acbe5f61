"""What the optimizer returns: moves, what they achieve, and what prevents more."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from core.optimize.request import LoadMeasure
from core.units import format_bytes_per_s, format_ratio, pluralize

Verdict = Literal["nothing_to_do", "reached", "best_effort", "unknown"]
"""Balanced already; the goal is reached; as near as it goes, with what binds; no load is known."""

SAME: Final = 5e-4
"""Deviations that differ by less are written as the same."""

BindingCode = Literal[
    "move_budget",
    "bundle_too_large",
    "fixed_load",
    "no_destination",
    "no_room",
    "cannot_receive",
    "no_bundle_for_it",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedMove:
    """One bundle goes from one broker to another.

    Attributes:
        bundle: Name.
        source: Its owner.
        destination: Who shall have it.
        bytes_per_s: In plus out.
        clients: Producers plus consumers that reconnect; ``None`` if unknown.
        topics: Topics that are closed and opened again.
        msgs_per_s: In plus out.
        disruption: One point for each producer, consumer and topic and for each 1,000 msg/s;
            unknown counts as none.
        co_moves: Other moves of the plan in the same namespace: its clients feel those as well.
    """

    bundle: str
    source: str
    destination: str
    bytes_per_s: float
    clients: int | None
    topics: int
    msgs_per_s: float
    disruption: float
    co_moves: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CurvePoint:
    """Gain and cost of the first ``moves`` moves of the plan.

    Attributes:
        deviation: As in :class:`Proposal`.
        mean_deviation: Of all brokers instead of the max, share of the mean; with a relief
            line: how far they are above it, share of the line.
        clients: Sum over the moves whose clients are known.
    """

    moves: int
    deviation: float
    mean_deviation: float
    moved_bytes_per_s: float
    clients: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Binding:
    """Constraint that keeps one broker from the goal.

    Attributes:
        code: Stable word.
        subject: Broker; blank: the plan as a whole.
        sentence: For people, with numbers.
    """

    code: BindingCode
    subject: str
    sentence: str


@dataclass(frozen=True, kw_only=True)
class Proposal:
    """The smallest set of moves that was found, with what no plan can undercut.

    Attributes:
        verdict: How it ended.
        sentence: The same in words, with numbers.
        measure: What counted as load.
        goal: What was wanted, in words.
        low: Least load of a broker that is in order, in the measure's unit (bytes/s or ratio);
            minus infinity when any is.
        high: Greatest one.
        moves: In the order that brings the deviation down fastest.
        deviation_before: Deviation band, half width as a share of the mean; with a
            relief line: how far the busiest broker is above it, share of the line.
        deviation_after: The same after all moves.
        lower_bound_bytes_per_s: No plan that reaches the goal moves less; ``None`` if it is proven
            that no plan reaches it.
        deviation_floor: No plan comes below this: load that cannot move, and the largest bundle,
            which has to be somewhere.
        curve: From no moves to all of them.
        binding: Why the goal is not reached; empty when it is.
        notes: What was assumed.
    """

    verdict: Verdict
    sentence: str
    measure: LoadMeasure
    goal: str
    low: float
    high: float
    moves: tuple[PlannedMove, ...] = ()
    deviation_before: float | None = None
    deviation_after: float | None = None
    lower_bound_bytes_per_s: float | None = 0.0
    deviation_floor: float = 0.0
    curve: tuple[CurvePoint, ...] = ()
    binding: tuple[Binding, ...] = ()
    notes: tuple[str, ...] = field(default=())

    @property
    def moved_bytes_per_s(self) -> float:
        """Traffic of all moves."""
        return math.fsum(move.bytes_per_s for move in self.moves)

    @property
    def ratio(self) -> float | None:
        """Moved traffic over the lower bound; ``None`` unless the goal is reached by moves."""
        bound = self.lower_bound_bytes_per_s
        return self.moved_bytes_per_s / bound if bound and self.verdict == "reached" else None

    @property
    def needed(self) -> int:
        """Number of moves with the same effect on the worst broker as all of them.

        All of them where the goal is reached, and where none lowers the max deviation: then what
        they do for the other brokers is all there is to gain.
        """
        if self.verdict != "best_effort" or not self.curve:
            return len(self.moves)
        last = self.curve[-1].deviation
        first = next(point for point in self.curve if point.deviation <= last + SAME)
        return first.moves or len(self.moves)

    def first(self, count: int) -> Proposal:
        """Return the proposal with its first moves only."""
        curve = tuple(point for point in self.curve if point.moves <= count)
        return replace(self, moves=self.moves[:count], curve=curve)

    @property
    def rest_gain(self) -> str:
        """Effect of the moves that are not needed, or "" if all are needed."""
        rest = len(self.moves) - self.needed
        if not rest:
            return ""
        start = next(point for point in self.curve if point.moves == self.needed)
        end = self.curve[-1]
        others = "The other one" if rest == 1 else f"The other {rest:,}"
        clients = pluralize(end.clients - start.clients, "client")
        moved = format_bytes_per_s(end.moved_bytes_per_s - start.moved_bytes_per_s)
        before, after = format_ratio(start.mean_deviation), format_ratio(end.mean_deviation)
        if before == after:
            return f"{others} ({moved}, {clients}) would not change it."
        return (
            f"{others} ({moved}, {clients}) would change the mean deviation "
            f"from {before} to {after}."
        )

    @property
    def destinations(self) -> dict[str, str]:
        """Destination of each bundle, in the order of the moves; what a plan is built from."""
        return {move.bundle: move.destination for move in self.moves}
