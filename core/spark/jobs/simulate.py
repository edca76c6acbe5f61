"""The balancer's rounds simulated on many Pulsar clusters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import pyarrow as pa

from core.pulsar.settings import effective_settings
from core.pulsar.shedding import active_shedding_strategy
from core.simulation import Run, Simulation, WhatIf, simulate
from core.snapshot import PulsarSnapshot
from core.spark.fleet import Snapshot
from core.spark.jobs.systems import pulsar_of

SIMULATIONS: Final = pa.schema(
    [
        pa.field("shedding", pa.string(), nullable=False),
        pa.field("placement", pa.string(), nullable=False),
        pa.field("seed", pa.int64(), nullable=False),
        pa.field("is_settled", pa.bool_(), nullable=False),
        pa.field("rounds_to_settle", pa.int64()),
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


@dataclass(frozen=True)
class SimulateQuestion:
    """What the balancer would do from here on.

    Attributes:
        shedding: Class name; ``None``: the active one.
        placement: Class name; ``None``: the active one.
        rounds: Horizon.
        seeds: One simulation each.
        overrides: Settings to assume, upstream key to value.
        what_if: Brokers that join and go before the first round.
    """

    shedding: str | None = None
    placement: str | None = None
    rounds: int = 60
    seeds: tuple[int, ...] = (1,)
    overrides: Mapping[str, object] = field(default_factory=dict)
    what_if: WhatIf = field(default_factory=WhatIf)

    @property
    def tables(self) -> Mapping[str, pa.Schema]:
        """Schemas of the answer."""
        return {"simulations": SIMULATIONS, "rounds": ROUNDS, "moves": MOVES}

    def answer(self, snapshot: Snapshot) -> Mapping[str, pa.Table]:
        """Simulate the rounds of a cluster, once a seed.

        Raises:
            InputError: It is no Pulsar cluster, or cannot be simulated.
            UnknownNameError: No such strategy.
        """
        pulsar = pulsar_of(snapshot, "shed bundles")
        options: dict[str, Any] = {"placement": self.placement, "overrides": dict(self.overrides)}
        return self.answer_with(pulsar, lambda run: simulate(pulsar, run, **options))

    def answer_with(
        self, brokers: PulsarSnapshot, play: Callable[[Run], Simulation]
    ) -> Mapping[str, pa.Table]:
        """Return the tables of a cluster.

        Args:
            brokers: The cluster, with or without its bundles.
            play: Simulates a run with :attr:`placement` and :attr:`overrides`.
        """
        settings = effective_settings(brokers, overrides=self.overrides)
        active = active_shedding_strategy(brokers.manifest.load_manager, settings)
        shedding = self.shedding or active.name
        run = Run(shedding=shedding, rounds=self.rounds, what_if=self.what_if)
        done = {seed: play(replace(run, seed=seed)) for seed in self.seeds}
        parts = [_tables(seed, one) for seed, one in done.items()]
        return {name: pa.concat_tables([part[name] for part in parts]) for name in self.tables}


def _tables(seed: int, done: Simulation) -> Mapping[str, pa.Table]:
    whole = {
        "shedding": done.shedding,
        "placement": done.placement,
        "seed": seed,
        "is_settled": done.ending == "settled",
        "rounds_to_settle": done.rounds_to_settle,
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
