"""Simulation of the balancer's rounds from a snapshot on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, TypedDict

from core.diagnosis.pulsar.answer import diagnose
from core.diagnosis.pulsar.trials import PLACEMENT, SHEDDING, Change
from core.diagnosis.request import DiagnoseRequest
from core.operations.operation import Answer, Cells, Line, Operation
from core.progress import NO_PROGRESS, Progress
from core.pulsar.facts import PulsarFacts
from core.pulsar.recent import RecentBundles, recent_bundles
from core.pulsar.requests import SimulateRequest
from core.pulsar.settings import SHEDDING_SWITCHES
from core.pulsar.shedding.registry import active_shedding_strategy, upstream_class
from core.simulation import RoundResult, Simulation, simulate
from core.simulation.model import run_of
from core.snapshot import PulsarSnapshot
from core.units import format_bytes_per_s, format_ratio

_MAX_SHOWN: Final = 40
_ADVISED_TRIALS: Final = 8
_ADVISED_BUNDLES: Final = 1_000
"""A larger cluster takes long to try other settings on: `trimtab diagnose` does."""


class SimulatedJson(TypedDict):
    """The JSON of the answer.

    Attributes:
        answer: In words.
        shedding: Shedding strategy.
        placement: Placement strategy.
        interval_minutes: From the end of a round to the next one.
        grace_minutes: How long a bundle rests after an unload.
        converged: Whether nothing moves any more.
        rounds_to_converge: Rounds until then; null: the horizon came first.
        rounds: The rounds with their moves; round 0 is the change of the brokers.
        deviation_before: Max deviation of a broker's traffic from the mean at the start, ratio.
        deviation_after: The same after the last round.
        moves: Moves of all rounds.
        moved_bytes_per_s: Traffic of all moves; a bundle that moved twice counts twice.
        clients: Producers and consumers that reconnect.
        flaps: Bundles that returned to a broker that they had left.
        notes: What was assumed.
        advice: The setting with which flapping rounds converge; null: none, or none needed.
        seed: Of all random draws.
    """

    answer: str
    shedding: str
    placement: str
    interval_minutes: float
    grace_minutes: float
    converged: bool
    rounds_to_converge: int | None
    rounds: list[dict[str, Any]]
    deviation_before: float | None
    deviation_after: float | None
    moves: int
    moved_bytes_per_s: float
    clients: int
    flaps: list[dict[str, Any]]
    notes: Sequence[str]
    advice: Mapping[str, Any] | None
    seed: int


@dataclass(frozen=True, eq=False)
class Simulated(Answer):
    """The answer.

    Attributes:
        done: The simulation, without the cluster after the last round.
        seed: Of all random draws, as requested.
        advice: The setting with which flapping rounds converge, as in the JSON; ``None``: none,
            or none needed.
        recent: Bundles in their grace period at the start.
    """

    done: Simulation
    seed: int
    advice: Mapping[str, Any] | None
    recent: RecentBundles

    def body(self) -> SimulatedJson:
        """Return the JSON object."""
        done = self.done
        return {
            "answer": done.sentence,
            "shedding": done.shedding,
            "placement": done.placement,
            "interval_minutes": done.interval_minutes,
            "grace_minutes": done.grace_minutes,
            "converged": done.ending == "converged",
            "rounds_to_converge": done.rounds_to_converge,
            "rounds": [_round_json(result) for result in done.rounds],
            "deviation_before": done.deviation_before,
            "deviation_after": done.deviation_after,
            "moves": done.move_count,
            "moved_bytes_per_s": done.moved_bytes_per_s,
            "clients": done.clients,
            "flaps": [
                {
                    "bundle": flap.bundle,
                    "home": flap.home,
                    "away": flap.away,
                    "left_round": flap.left_round,
                    "return_round": flap.back_round,
                    "dwell_minutes": flap.dwell_minutes,
                }
                for flap in done.flaps
            ],
            "notes": done.notes,
            "advice": self.advice,
            "seed": self.seed,
        }

    @property
    def warnings(self) -> tuple[str, ...]:
        """The warning about recently unloaded bundles that are not there."""
        return (self.recent.warning,) if self.recent.warning else ()

    def text(self, _: SimulateRequest) -> Iterator[Line]:
        """Return the text for people."""
        done = self.done
        yield done.sentence
        yield (
            f"{done.shedding} with {done.placement}, round interval {done.interval_minutes:g} min, "
            f"grace period {done.grace_minutes:g} min."
        )
        busy = [result for result in done.rounds if result.moves or result.number == 0]
        if busy:
            yield ""
            head = ("round", "minute", "moves", "traffic", "clients", "deviation after")
            yield Cells(head, [_row(result) for result in busy[:_MAX_SHOWN]])
            if len(busy) > _MAX_SHOWN:
                more = len(busy) - _MAX_SHOWN
                yield f"... and {more} more rounds with moves; --json lists all."
        for flap in done.flaps[:_MAX_SHOWN]:
            yield (
                f"Returned: {flap.bundle} to {flap.home} from {flap.away} after "
                f"{flap.dwell_minutes:.0f} min (round {flap.left_round} to {flap.back_round})."
            )
        for text in done.notes:
            yield f"Note: {text}"
        if self.advice is not None:
            yield f"{self.advice['summary']} {self.advice['sentence']}"


def _row(result: RoundResult) -> tuple[str, ...]:
    return (
        f"{result.number}",
        f"{result.minute:.0f}",
        f"{len(result.moves)}",
        format_bytes_per_s(result.moved_bytes_per_s),
        f"{result.clients:,}",
        format_ratio(result.deviation),
    )


def _round_json(result: RoundResult) -> dict[str, Any]:
    return {
        "round": result.number,
        "minute": result.minute,
        "moves": [
            {"bundle": move.bundle, "from": move.source, "to": move.destination}
            for move in result.moves
        ],
        "skipped": result.skipped,
        "deviation": result.deviation,
        "usage_deviation": result.usage_deviation,
        "moved_bytes_per_s": result.moved_bytes_per_s,
        "clients": result.clients,
        "verdict": result.sentence,
    }


def simulate_rounds(facts: PulsarFacts, request: SimulateRequest, progress: Progress) -> Simulated:
    """Simulate what the cluster's own balancer would do from here on.

    Raises:
        UnknownNameError: A broker or a failure domain that is not there.
        InputError: A strategy that cannot be simulated on this snapshot.
    """
    recent = recent_bundles(facts.snapshot.bundles, request.recently_unloaded)
    rounds = partial(simulate, facts.snapshot, progress=progress)
    return simulated(facts, request, recent, rounds, progress)


def simulated(
    facts: PulsarFacts,
    request: SimulateRequest,
    recent: RecentBundles,
    simulate: Callable[..., Simulation],
    progress: Progress = NO_PROGRESS,
) -> Simulated:
    """Return the answer, wherever the cluster's bundles are.

    Args:
        facts: The cluster, with or without its bundles.
        request: What is simulated.
        recent: Bundles in their grace period at the start.
        simulate: As :func:`core.simulation.simulate`, without the snapshot.
        progress: Called by the search of the advice.
    """
    snapshot, assumed = facts.snapshot, facts.assumed
    active = active_shedding_strategy(snapshot.manifest.load_manager, facts.settings)
    done = simulate(
        run_of(request, active.name, request.seed, recent.names),
        placement=request.placement,
        overrides=assumed.settings,
        release=assumed.release,
    )
    return Simulated(
        done=replace(done, final=PulsarSnapshot.build(snapshot.manifest, {})),
        seed=request.seed,
        advice=_advice(facts, done, request, progress),
        recent=recent,
    )


def _advice(
    facts: PulsarFacts, done: Simulation, request: SimulateRequest, progress: Progress
) -> dict[str, Any] | None:
    """Return the setting with which flapping rounds converge; ``None``: none, or none needed.

    Only for a cluster as it is, whose bundles are in this process.
    """
    is_calm = done.ending == "converged" and not done.flaps
    is_other = request.added or request.failed or request.removed or request.failed_domains
    bundles = facts.snapshot.bundles.num_rows
    if is_calm or is_other or not 0 < bundles <= _ADVISED_BUNDLES:
        return None
    named = {SHEDDING: upstream_class(done.shedding), PLACEMENT: done.placement}
    assumed = facts.assumed.settings or {}
    change = Change(
        settings={**dict.fromkeys(SHEDDING_SWITCHES, True), **assumed, **named},
        release=facts.assumed.release,
    )
    # counted, not timed: the same answer on a slow machine
    unhurried = DiagnoseRequest(seconds=3_600.0)
    causes = diagnose(facts.snapshot, unhurried, progress, change, _ADVISED_TRIALS).causes
    if not causes or causes[0].effect is None:
        return None
    first, effect = causes[0], causes[0].effect
    return {
        "code": first.code,
        "keys": list(first.keys),
        "summary": first.summary,
        "sentence": first.hint,
        "effect": effect.as_json(),
    }


OPERATION: Final = Operation(
    name="simulate",
    module=__name__,
    help="""Simulate the balancer's rounds to convergence.

    Show moves, deviation and flaps.
    """,
    request=SimulateRequest,
    answers={"pulsar": simulate_rounds},
    is_many=True,
    can_assume=True,
    spread={"pulsar": "core.spark.pulsar.large.simulate:spread_simulation"},
)
