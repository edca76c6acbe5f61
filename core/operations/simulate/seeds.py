"""The same simulation once a seed, as tables: for jobs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from core.operations.operation import CountedSummary, Job, Operation, Rows, Tables
from core.progress import Progress
from core.pulsar.facts import PulsarFacts
from core.pulsar.requests import SimulateSeedsRequest
from core.pulsar.settings import effective_settings
from core.pulsar.shedding import active_shedding_strategy
from core.simulation import Run, Simulation, simulate
from core.simulation.model import run_of
from core.snapshot import PulsarSnapshot

SIMULATIONS: Final = pa.schema(
    [
        pa.field("shedding", pa.string(), nullable=False),
        pa.field("placement", pa.string(), nullable=False),
        pa.field("seed", pa.int64(), nullable=False),
        pa.field("is_converged", pa.bool_(), nullable=False),
        pa.field("rounds_to_converge", pa.int64()),
        pa.field("moves", pa.int64(), nullable=False),
        pa.field("moved_throughput", pa.float64(), metadata={"unit": "bytes/s"}),
        pa.field("clients", pa.int64(), nullable=False),
        pa.field("flaps", pa.int64(), nullable=False),
        pa.field("deviation_before", pa.float64(), metadata={"unit": "ratio"}),
        pa.field("deviation_after", pa.float64(), metadata={"unit": "ratio"}),
        pa.field("sentence", pa.string(), nullable=False),
    ]
)
"""One row a cluster and seed."""

ROUNDS: Final = pa.schema(
    [
        pa.field("seed", pa.int64(), nullable=False),
        pa.field("round", pa.int64(), nullable=False),
        pa.field("minute", pa.float64(), metadata={"unit": "min"}),
        pa.field("moves", pa.int64(), nullable=False),
        pa.field("moved_throughput", pa.float64(), metadata={"unit": "bytes/s"}),
        pa.field("clients", pa.int64(), nullable=False),
        pa.field("deviation", pa.float64(), metadata={"unit": "ratio"}),
        pa.field("usage_deviation", pa.float64(), metadata={"unit": "ratio"}),
        pa.field("sentence", pa.string(), nullable=False),
    ]
)
"""One row a round."""

MOVES: Final = pa.schema(
    [
        pa.field("seed", pa.int64(), nullable=False),
        pa.field("round", pa.int64(), nullable=False),
        pa.field("bundle", pa.string(), nullable=False),
        pa.field("source", pa.string()),
        pa.field("destination", pa.string()),
    ]
)
"""One row a bundle that went."""


def simulate_seeds(facts: PulsarFacts, request: SimulateSeedsRequest, _: Progress) -> Rows:
    """Simulate the rounds of a cluster, once a seed.

    Raises:
        UnknownNameError: A broker or a failure domain that is not there.
        InputError: A strategy that cannot be simulated on this snapshot.
    """
    run = partial(
        simulate,
        facts.snapshot,
        placement=request.placement,
        overrides=dict(request.settings),
    )
    return simulated_seeds(facts.snapshot, request, run)


def simulated_seeds(
    brokers: PulsarSnapshot, request: SimulateSeedsRequest, simulate: Callable[[Run], Simulation]
) -> Rows:
    """Return the tables of a cluster, wherever its bundles are.

    Args:
        brokers: The cluster, with or without its bundles.
        request: What is simulated.
        simulate: Simulates a run with the request's placement and settings.
    """
    settings = effective_settings(brokers, overrides=request.settings)
    active = active_shedding_strategy(brokers.manifest.load_manager, settings)
    done = {seed: simulate(run_of(request, active.name, seed)) for seed in request.seeds}
    parts = [_tables(seed, one) for seed, one in done.items()]
    return Rows({name: pa.concat_tables([part[name] for part in parts]) for name in parts[0]})


def _tables(seed: int, done: Simulation) -> Mapping[str, pa.Table]:
    whole = {
        "shedding": done.shedding,
        "placement": done.placement,
        "seed": seed,
        "is_converged": done.ending == "converged",
        "rounds_to_converge": done.rounds_to_converge,
        "moves": done.move_count,
        "moved_throughput": done.moved_bytes_per_s,
        "clients": done.clients,
        "flaps": len(done.flaps),
        "deviation_before": done.deviation_before,
        "deviation_after": done.deviation_after,
        "sentence": done.sentence,
    }
    rounds = [
        {
            "seed": seed,
            "round": one.number,
            "minute": one.minute,
            "moves": len(one.moves),
            "moved_throughput": one.moved_bytes_per_s,
            "clients": one.clients,
            "deviation": one.deviation,
            "usage_deviation": one.usage_deviation,
            "sentence": one.sentence,
        }
        for one in done.rounds
    ]
    moves = [
        {
            "seed": seed,
            "round": one.number,
            "bundle": move.bundle,
            "source": move.source,
            "destination": move.destination,
        }
        for one in done.rounds
        for move in one.moves
    ]
    return {
        "simulations": pa.Table.from_pylist([whole], schema=SIMULATIONS),
        "rounds": pa.Table.from_pylist(rounds, schema=ROUNDS),
        "moves": pa.Table.from_pylist(moves, schema=MOVES),
    }


def _words(found: Tables) -> str:
    """Return the number of simulations that converge, and of their moves."""
    converged = found["simulations"]["is_converged"].to_pylist()
    moves = pc.sum(found["simulations"]["moves"]).as_py() or 0
    return (
        f"simulations: {len(converged):,}; converged: {converged.count(True):,}; moves: {moves:,}"
    )


OPERATION: Final = Operation(
    name="simulate-seeds",
    module=__name__,
    help="""Simulate the balancer's rounds to convergence, once a seed.""",
    request=SimulateSeedsRequest,
    answers={"pulsar": simulate_seeds},
    spread={"pulsar": "core.spark.pulsar.large.simulate:spread_seeds"},
    job=Job(
        kind="simulate",
        title="Simulation to convergence",
        question="What would the balancers do next, and do they converge?",
        tables={
            "simulations": "Result of each simulation: moves, clients, deviation before and after.",
            "rounds": "Every round.",
            "moves": "Every bundle that moved, with its destination.",
        },
        summary=CountedSummary("simulations", _words),
        schemas={"simulations": SIMULATIONS, "rounds": ROUNDS, "moves": MOVES},
    ),
)
