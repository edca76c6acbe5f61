"""The bounds against all assignments there are, on fleets small enough to try them all."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from optimize_fleets import FleetRecipe, fleet

from core.optimize import OptimizeRequest, optimize
from core.optimize.balance import Band
from core.optimize.bounds import Transport, find_bounds
from core.optimize.fleet import FleetColumns, lay_out
from core.optimize.solve import goal_band

WITHIN = 0.25


def laid_out(**recipe: object) -> FleetColumns:
    snapshot, settings = fleet(FleetRecipe(**recipe))
    return lay_out(snapshot, settings, OptimizeRequest(within=WITHIN))


def every_assignment(laid: FleetColumns) -> tuple[np.ndarray, np.ndarray]:
    """Loads, shape (assignments, brokers), and the traffic that each moves."""
    choices = [
        sorted({int(owner), *np.flatnonzero(laid.where.allowed[kind]).tolist()})
        for owner, kind in zip(laid.owner, laid.kind, strict=True)
    ]
    ends = np.array(list(itertools.product(*choices)), np.int64)
    loads = np.repeat(laid.load[None, :], len(ends), axis=0)
    moved = np.zeros(len(ends))
    for bundle, size in enumerate(laid.bytes_per_s):
        np.subtract.at(loads, (slice(None), laid.owner[bundle]), size)
        loads[np.arange(len(ends)), ends[:, bundle]] += size
        moved += np.where(ends[:, bundle] != laid.owner[bundle], size, 0.0)
    return loads, moved


@pytest.mark.parametrize("pools", [0, 2])
@pytest.mark.parametrize("seed", range(6))
def test_no_assignment_undercuts_the_bounds(seed, pools):
    brokers = 4 if pools else 3
    laid = laid_out(brokers=brokers, bundles=8, seed=seed, largest_ratio=0.9, pools=pools)
    mean = float(laid.load.mean())
    band = goal_band(mean, OptimizeRequest(within=WITHIN))
    bounds = find_bounds(laid, band)
    loads, moved = every_assignment(laid)
    inside = (np.abs(loads - mean) <= WITHIN * mean * (1 + 1e-9)).all(axis=1)
    farthest = np.abs(loads - mean).max(axis=1) / mean
    assert bounds.deviation_floor <= farthest.min() + 1e-6
    assert bounds.min_peak <= loads.max(axis=1).min() * (1 + 1e-6)
    if bounds.least_bytes_per_s is None:
        assert not inside.any()
    elif inside.any():
        assert bounds.least_bytes_per_s <= moved[inside].min() * (1 + 1e-6)


@pytest.mark.parametrize("seed", range(6))
def test_what_is_found_is_near_the_best_of_all_assignments(seed):
    recipe = FleetRecipe(brokers=3, bundles=8, seed=seed, largest_ratio=0.9)
    snapshot, settings = fleet(recipe)
    laid = lay_out(snapshot, settings, OptimizeRequest(within=WITHIN))
    loads, moved = every_assignment(laid)
    mean = float(laid.load.mean())
    inside = (np.abs(loads - mean) <= WITHIN * mean).all(axis=1)
    proposal = optimize(snapshot, OptimizeRequest(within=WITHIN), settings=settings)
    assert (proposal.verdict != "best_effort") == bool(inside.any())
    if inside.any():
        assert proposal.moved_bytes_per_s <= 1.3 * moved[inside].min() + 1.0


def test_where_everybody_may_have_everything_the_programme_says_what_the_sums_say():
    laid = laid_out(brokers=8, bundles=300, seed=3)
    mean = float(laid.load.mean())
    band = goal_band(mean, OptimizeRequest(within=0.05))
    over = np.maximum(laid.load - band.high, 0.0).sum()
    under = np.maximum(band.low - laid.load, 0.0).sum()
    flow = Transport.of(laid)
    assert flow.is_free(np.maximum(laid.load - band.high, 0.0))
    assert flow.min_flow(band) == pytest.approx(max(over, under), rel=1e-6)
    assert flow.min_peak() == pytest.approx(mean, rel=1e-6)
    assert flow.min_deviation() == pytest.approx(0.0, abs=1e-6)


def test_a_broker_that_has_too_little_to_give_proves_that_there_is_no_plan():
    laid = laid_out(brokers=4, bundles=80, seed=2)
    load = laid.load.copy()
    band = Band(0.0, float(load.min()) * 0.5)
    assert Transport.of(laid).min_flow(band) is None
