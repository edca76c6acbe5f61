"""The balancer's rounds simulated on many Pulsar clusters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

import pyarrow as pa

from core.pulsar.requests import SimulateRequest
from core.pulsar.settings import effective_settings
from core.pulsar.shedding import active_shedding_strategy
from core.simulation import Run, Simulation, simulate
from core.simulation.model import run_of
from core.snapshot import PulsarSnapshot
from core.spark.fleet import Operation, require_system

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


def simulate_cluster(snapshot: PulsarSnapshot, request: SimulateRequest) -> Mapping[str, pa.Table]:
    """Simulate the rounds of a cluster, once a seed.

    Raises:
        InputError: It is no Pulsar cluster, or cannot be simulated.
        UnknownNameError: No such strategy.
    """
    require_system(snapshot, "pulsar", "shed bundles")
    options: dict[str, Any] = {
        "placement": request.placement,
        "overrides": dict(request.settings),
    }
    return simulate_tables(snapshot, request, lambda run: simulate(snapshot, run, **options))


def simulate_tables(
    brokers: PulsarSnapshot, request: SimulateRequest, simulated: Callable[[Run], Simulation]
) -> Mapping[str, pa.Table]:
    """Return the tables of a cluster.

    Args:
        brokers: The cluster, with or without its bundles.
        request: What is simulated.
        simulated: Simulates a run with the request's placement and settings.
    """
    settings = effective_settings(brokers, overrides=request.settings)
    active = active_shedding_strategy(brokers.manifest.load_manager, settings)
    run = run_of(request, active.name)
    done = {seed: simulated(replace(run, seed=seed)) for seed in request.seeds}
    parts = [_tables(seed, one) for seed, one in done.items()]
    return {name: pa.concat_tables([part[name] for part in parts]) for name in SIMULATE.tables}


SIMULATE: Final = Operation(
    simulate_cluster, {"simulations": SIMULATIONS, "rounds": ROUNDS, "moves": MOVES}
)
"""What the balancer would do from here on."""


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
