"""Simulations of whole generated fleets: what always holds."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from fleet_builder import broker_names, make_snapshot
from fleet_edit import with_policies
from hypothesis import given, settings
from hypothesis import strategies as st
from sampled import examples

from core.arrays import column_values
from core.pulsar.measures import measure
from core.pulsar.placement import STRATEGY_NAMES
from core.pulsar.shedding import SHEDDING_STRATEGY_NAMES
from core.schemas.pulsar import RATES
from core.simulation import Run, Simulation, WhatIf, simulate
from core.snapshot import PulsarSnapshot

NEW = "10.9.0.1:8080"
MODULAR = [name for name in SHEDDING_STRATEGY_NAMES if name != "TransferShedder"]


@lru_cache(maxsize=32)
def fleet_of(brokers: int, bundles: int, seed: int, *, isolated: bool) -> PulsarSnapshot:
    made = make_snapshot(brokers=brokers, bundles=bundles, seed=seed)
    return made if isolated else with_policies(made)


@st.composite
def runs(draw: st.DrawFn) -> tuple[PulsarSnapshot, Run, Simulation]:
    brokers = draw(st.integers(3, 8))
    isolated = draw(st.booleans())
    fleet = fleet_of(brokers, draw(st.integers(12, 80)), draw(st.integers(0, 3)), isolated=isolated)
    names = broker_names(brokers)
    what_if = WhatIf(
        added=draw(st.sampled_from([(), (NEW,)])),
        failed=draw(st.lists(st.sampled_from(names), max_size=1)),
    )
    shedding = draw(st.sampled_from(MODULAR))
    run = Run(
        shedding=shedding,
        rounds=draw(st.integers(1, 12)),
        seed=draw(st.integers(0, 5)),
        what_if=what_if,
    )
    placement = draw(st.sampled_from(placements_beside(shedding)))
    return fleet, run, simulate(fleet, run, placement=placement)


def placements_beside(shedding: str) -> list[str]:
    # a broker of 4.2 does not start with AvgShedder for placement alone, and the simulation says so
    return [name for name in STRATEGY_NAMES if name != "AvgShedder" or shedding == name]


def owners(snapshot: PulsarSnapshot) -> dict[str, str | None]:
    names, owner = (snapshot.bundles[name].to_pylist() for name in ("bundle", "owner"))
    return dict(zip(names, owner, strict=True))


@settings(max_examples=examples(40), deadline=None)
@given(runs())
def test_moves_lead_from_the_first_fleet_to_the_last(case) -> None:
    fleet, run, done = case
    owner = owners(fleet)
    for one in done.rounds:
        for move in one.moves:
            assert owner[move.bundle] == move.source != move.destination
            owner[move.bundle] = move.destination
    left = owners(done.final)
    assert left == {name: owner[name] for name in left}
    gone = set(owner) - set(left)
    assert all(name.startswith("pulsar/") for name in gone)
    alive = set(done.final.brokers["broker"].to_pylist())
    assert not alive & set(run.what_if.failed)
    assert {who for who in left.values() if who is not None} <= alive


@settings(max_examples=examples(40), deadline=None)
@given(runs())
def test_load_is_neither_made_nor_lost(case) -> None:
    fleet, run, done = case
    unowned = [who for who in owners(done.final).values() if who is None]
    if run.what_if.failed or unowned:
        return
    for name in RATES:
        before = column_values(fleet.brokers, name).sum()
        assert np.isclose(column_values(done.final.brokers, name).sum(), before)
    assert done.deviation_after is not None
    found = measure(done.final).throughput
    assert np.isclose(float(np.abs(found.deviations).max()), done.deviation_after)


@settings(max_examples=examples(20), deadline=None)
@given(runs())
def test_rounds_follow_each_other_and_settled_is_quiet(case) -> None:
    _, run, done = case
    numbers = [one.number for one in done.rounds]
    assert numbers == sorted(set(numbers))
    minutes = [one.minute for one in done.rounds]
    assert minutes == sorted(minutes)
    assert done.rounds[-1].number <= run.rounds
    if done.rounds_to_converge is not None:
        assert all(not one.moves for one in done.rounds if one.number > done.rounds_to_converge)
