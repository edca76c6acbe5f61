"""The request of a simulation, and its answer."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Literal

from core.errors import InputError
from core.pulsar.requests import SimulateRequest, SimulateSeedsRequest
from core.snapshot import PulsarSnapshot

StepResult = Literal["converged", "horizon"]
"""Nothing moves any more, however long one waits; the rounds were over before that was so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIf:
    """Changes of the fleet before the first round.

    Attributes:
        added: Broker ids that join, empty, as large as the others.
        failed: Broker ids that end at once; their bundles are placed again.
        removed: Broker ids that are shut down in order; the load moves the same.
        failed_domains: Failure domains all of whose brokers fail.
    """

    added: Collection[str] = ()
    failed: Collection[str] = ()
    removed: Collection[str] = ()
    failed_domains: Collection[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Simulation input.

    Attributes:
        shedding: Class name of the shedding strategy.
        rounds: Horizon.
        seed: Everything that the real classes draw at random follows from it.
        recently_unloaded: Bundles in their grace period at the start.
        what_if: Changes before the first round.
    Raises:
        InputError: No round at all.
    """

    shedding: str
    rounds: int = 60
    seed: int = 1
    recently_unloaded: Collection[str] = ()
    what_if: WhatIf = WhatIf()

    def __post_init__(self) -> None:
        if self.rounds < 1:
            raise InputError(f"rounds is {self.rounds}.", hint="Specify at least 1.")


def run_of(
    request: SimulateRequest | SimulateSeedsRequest,
    active: str,
    seed: int,
    recently_unloaded: Collection[str] = (),
) -> Run:
    """Return the run of a request with a seed.

    Args:
        request: What is simulated.
        active: The active shedding strategy, where the request names none.
        seed: Of all random draws.
        recently_unloaded: Bundles in their grace period at the start.
    """
    return Run(
        shedding=request.shedding or active,
        rounds=request.rounds,
        seed=seed,
        recently_unloaded=recently_unloaded,
        what_if=WhatIf(
            added=request.added,
            failed=request.failed,
            removed=request.removed,
            failed_domains=request.failed_domains,
        ),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedMove:
    """One bundle went from one broker to another; ``source`` is ``None`` where it had no owner."""

    bundle: str
    source: str | None
    destination: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundResult:
    """One round.

    Attributes:
        number: From 1; 0 is the what-if.
        minute: Minutes after the start at which it began.
        moves: What moved.
        skipped: Bundles that the strategy picked and the load manager left, by reason.
        deviation: Deviation band of traffic afterwards, half width as a share of the
            mean; ``None`` if unknown.
        usage_deviation: How far the highest usage is above the mean afterwards, share of it.
        moved_bytes_per_s: Traffic of the moves.
        clients: Producers and consumers that reconnect; unknown ones count as none.
        sentence: The strategy's verdict in words.
    """

    number: int
    minute: float
    moves: tuple[SimulatedMove, ...]
    skipped: dict[str, str]
    deviation: float | None
    usage_deviation: float | None
    moved_bytes_per_s: float
    clients: int
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Flap:
    """A bundle came back to a broker that it had left.

    Attributes:
        bundle: Name.
        home: Where it was, and is again.
        away: Where it was last in between.
        left_round: When it left home.
        back_round: When it came back.
        dwell_minutes: How long it was away.
    """

    bundle: str
    home: str
    away: str
    left_round: int
    back_round: int
    dwell_minutes: float


@dataclass(frozen=True, kw_only=True)
class Simulation:
    """Simulation result.

    Attributes:
        shedding: Class name.
        placement: Class name.
        interval_minutes: From the end of a round to the next one.
        grace_minutes: How long a bundle rests after an unload.
        ending: Why it stopped.
        rounds_to_converge: Rounds until convergence (0: from the start); ``None`` if the
            horizon came first.
        deviation_before: Before anything changed, what-if included.
        rounds: The what-if's round 0 first, where there is one.
        flaps: Bundles that went A-B-A, in the order in which they came back.
        sentence: All of it in one sentence.
        final: The fleet after the last round; health and charts run on it unchanged.
        notes: What was assumed.
    """

    shedding: str
    placement: str
    interval_minutes: float
    grace_minutes: float
    ending: StepResult
    rounds_to_converge: int | None
    deviation_before: float | None
    rounds: tuple[RoundResult, ...]
    flaps: tuple[Flap, ...]
    sentence: str
    final: PulsarSnapshot = field(compare=False, repr=False)
    notes: tuple[str, ...] = ()

    @property
    def deviation_after(self) -> float | None:
        """Deviation after the last round."""
        return self.rounds[-1].deviation if self.rounds else self.deviation_before

    @property
    def move_count(self) -> int:
        """Moves of all rounds."""
        return sum(len(done.moves) for done in self.rounds)

    @property
    def moved_bytes_per_s(self) -> float:
        """Traffic of all moves, bundles that moved twice counted twice."""
        return sum(done.moved_bytes_per_s for done in self.rounds)

    @property
    def clients(self) -> int:
        """Reconnects of all moves."""
        return sum(done.clients for done in self.rounds)
