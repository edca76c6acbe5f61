"""Every shedding strategy with every placement strategy, simulated on one cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from core.errors import InputError
from core.planning.what_if.request import WhatIfRequest
from core.pulsar.measures import Measures, measure
from core.pulsar.placement import PAIRED_NAMES, STRATEGY_NAMES, active_placement
from core.pulsar.settings import EffectiveSettings, effective_settings
from core.pulsar.shedding import active_shedding_strategy, strategies_run_by
from core.simulation import Run, Simulation, simulate
from core.snapshot import PulsarSnapshot
from core.units import format_band

NOTHING: Final = "(nothing)"
_WEIGHTED: Final = "LeastResourceUsageWithWeight"

PAIRS: Final = pa.schema(
    [
        pa.field("rank", pa.int64(), nullable=False),
        pa.field("shedding", pa.string(), nullable=False),
        pa.field("placement", pa.string(), nullable=False),
        pa.field("is_effective", pa.bool_(), nullable=False),
        pa.field("meets_target", pa.bool_()),
        pa.field("is_converged", pa.bool_(), nullable=False),
        pa.field("rounds_to_converge", pa.int64()),
        pa.field("moves", pa.int64(), nullable=False),
        pa.field("moved_throughput", pa.float64(), metadata={"unit": "bytes/s"}, nullable=False),
        pa.field("clients", pa.int64(), nullable=False),
        pa.field("flaps", pa.int64(), nullable=False),
        pa.field("deviation_before", pa.float64(), metadata={"unit": "ratio"}),
        pa.field("deviation_after", pa.float64(), metadata={"unit": "ratio"}),
        pa.field("sentence", pa.string(), nullable=False),
    ]
)
"""One row a pair, best first: those that meet the target before the others, of those the fewest
clients cut off, then the fewest moves; of the others the one that comes nearest. The pair
``(nothing)`` is the cluster as it is."""

TOTALS: Final = pa.schema(
    [
        pa.field("shedding", pa.string(), nullable=False),
        pa.field("placement", pa.string(), nullable=False),
        pa.field("clusters", pa.int64(), nullable=False),
        pa.field("meet_target", pa.int64(), nullable=False),
        pa.field("best_in", pa.int64(), nullable=False),
        pa.field("moves", pa.int64(), nullable=False),
        pa.field("clients", pa.int64(), nullable=False),
        pa.field("moved_throughput", pa.float64(), metadata={"unit": "bytes/s"}, nullable=False),
        pa.field("deviation_mean", pa.float64(), metadata={"unit": "ratio"}),
        pa.field("deviation_worst", pa.float64(), metadata={"unit": "ratio"}),
    ]
)
"""One row a pair, summed over the clusters; the one that most clusters meet the target with first,
then by clients cut off; where no cluster does, the nearest on average."""


def pairs_of(
    snapshot: PulsarSnapshot, settings: EffectiveSettings, request: WhatIfRequest
) -> list[tuple[str, str]]:
    """Return the pairs that a cluster can run.

    Raises:
        InputError: None of the requested ones.
    """
    if snapshot.manifest.load_manager == "extensible":
        known = [(one.name, _WEIGHTED) for one in strategies_run_by("extensible")]
    else:
        known = [
            (one.name, placement)
            for one in strategies_run_by("modular")
            for placement in STRATEGY_NAMES
            # a broker of 4.x does not start with that half of the pair alone, one of 5.0 takes
            # another class for it
            if placement not in PAIRED_NAMES or one.name == placement
        ]
    found = [
        pair
        for pair in known
        if (not request.shedding or pair[0] in request.shedding)
        and (not request.placement or pair[1] in request.placement)
    ]
    if not found:
        raise InputError(
            f"{snapshot.manifest.cluster} cannot run any of the requested pairs.",
            hint=f"Its {snapshot.manifest.load_manager} load manager of {settings.release} can run "
            + ", ".join(sorted({"/".join(pair) for pair in known}))
            + ".",
        )
    return found


SimulatePair = Callable[[Run, str], Simulation]
"""Simulates a run with a placement strategy, and with what the request assumes."""


def compare(snapshot: PulsarSnapshot, request: WhatIfRequest) -> pa.Table:
    """Simulate every pair; table of :data:`PAIRS`.

    Raises:
        InputError: The cluster cannot run any of them, or too little is known to simulate it.
    """
    overrides = dict(request.settings)
    settings = effective_settings(snapshot, overrides=overrides)

    def simulate_pair(run: Run, placement: str) -> Simulation:
        return simulate(snapshot, run, placement=placement, overrides=overrides)

    return compared(snapshot, request, measure(snapshot, settings), simulate_pair)


def compared(
    brokers: PulsarSnapshot, request: WhatIfRequest, now: Measures, simulate_pair: SimulatePair
) -> pa.Table:
    """Simulate every pair, wherever bundles are; see :func:`compare`.

    Args:
        brokers: The cluster, with or without its bundles.
        request: What is simulated.
        now: How even its load is.
    Raises:
        InputError: See :func:`compare`.
    """
    settings = effective_settings(brokers, overrides=request.settings)
    manager = brokers.manifest.load_manager
    effective = (
        active_shedding_strategy(manager, settings).name,
        active_placement(settings, manager),
    )
    target = now.target.bound if request.target is None else request.target
    rows = [_as_it_is(now, target)]
    for pair in pairs_of(brokers, settings, request):
        done = simulate_pair(
            Run(shedding=pair[0], rounds=request.rounds, seed=request.seed), pair[1]
        )
        rows.append(_pair_row(done, pair, target) | {"is_effective": pair == effective})
    ranked = sorted(rows, key=_merit)
    numbered = [row | {"rank": rank} for rank, row in enumerate(ranked, 1)]
    return pa.Table.from_pylist(numbered, schema=PAIRS)


def _as_it_is(now: Measures, target: float) -> dict[str, Any]:
    spread = now.throughput
    deviation = spread.band_ratio
    return {
        "shedding": NOTHING,
        "placement": NOTHING,
        "is_effective": False,
        "meets_target": None if deviation is None else deviation <= target,
        "is_converged": True,
        "rounds_to_converge": 0,
        "moves": 0,
        "moved_throughput": 0.0,
        "clients": 0,
        "flaps": 0,
        "deviation_before": deviation,
        "deviation_after": deviation,
        "sentence": f"Current deviation band: {format_band(deviation)}.",
    }


def _pair_row(done: Simulation, pair: tuple[str, str], target: float) -> dict[str, Any]:
    after = done.deviation_after
    return {
        "shedding": pair[0],
        "placement": pair[1],
        "meets_target": None if after is None else after <= target,
        "is_converged": done.ending == "converged",
        "rounds_to_converge": done.rounds_to_converge,
        "moves": done.move_count,
        "moved_throughput": done.moved_bytes_per_s,
        "clients": done.clients,
        "flaps": len(done.flaps),
        "deviation_before": done.deviation_before,
        "deviation_after": after,
        "sentence": done.sentence,
    }


def _merit(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """Sort key: the best pair is the least."""
    after = row["deviation_after"]
    off = float("inf") if after is None else after
    cost = (row["clients"], row["moves"])
    names = (row["shedding"], row["placement"])
    if row["meets_target"]:
        return (0, *cost, off, *names)
    return (1, off, *cost, *names)


def totals_of(pairs: pa.Table) -> pa.Table:
    """Sum pairs up over clusters; table of :data:`TOTALS`.

    Args:
        pairs: :data:`PAIRS` with ``cluster`` in front.
    """
    return pa.Table.from_pylist(sorted(_totals(pairs), key=_worth), schema=TOTALS)


def _worth(row: Mapping[str, Any]) -> tuple[Any, ...]:
    off = float("inf") if row["deviation_mean"] is None else row["deviation_mean"]
    cost = (row["clients"], row["moves"], row["shedding"], row["placement"])
    return (-row["meet_target"], 0.0 if row["meet_target"] else off, *cost)


def _totals(pairs: pa.Table) -> Iterator[dict[str, Any]]:
    by_pair: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in pairs.to_pylist():
        by_pair.setdefault((row["shedding"], row["placement"]), []).append(row)
    for (shedding, placement), rows in by_pair.items():
        known = [row["deviation_after"] for row in rows if row["deviation_after"] is not None]
        yield {
            "shedding": shedding,
            "placement": placement,
            "clusters": len(rows),
            "meet_target": sum(bool(row["meets_target"]) for row in rows),
            "best_in": sum(row["rank"] == 1 for row in rows),
            "moves": sum(row["moves"] for row in rows),
            "clients": sum(row["clients"] for row in rows),
            "moved_throughput": sum(row["moved_throughput"] for row in rows),
            "deviation_mean": sum(known) / len(known) if known else None,
            "deviation_worst": max(known, default=None),
        }


def what_if_sentence(pairs: pa.Table, totals: pa.Table) -> str:
    """Describe the best pair of all."""
    if not totals.num_rows:
        return "No cluster could be simulated."
    best = totals.slice(0, 1).to_pylist()[0]
    clusters = len(pc.unique(pairs["cluster"]))
    pair = (
        "no change"
        if best["shedding"] == NOTHING
        else f"{best['shedding']} with {best['placement']}"
    )
    cost = f"moves: {best['moves']:,}; clients that reconnect: {best['clients']:,}"
    within = f"Clusters within the target: {best['meet_target']:,} of {clusters:,}"
    if not best["meet_target"]:
        deviation = format_band(best["deviation_mean"])
        return f"{within}. Closest pair: {pair}; mean deviation band: {deviation}; {cost}."
    return f"{within}. Best pair: {pair}; {cost}."
