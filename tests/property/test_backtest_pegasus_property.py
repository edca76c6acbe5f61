"""Whatever fails and whatever is tried: what a played Pegasus cluster always keeps."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from backtest_clusters import living
from hypothesis import given, settings
from hypothesis import strategies as st
from sampled import examples

from core.history.backtest.model import Candidate
from core.history.backtest.pegasus.engine import simulate_tape
from core.history.backtest.pegasus.reading import tape_of_snapshots
from core.history.backtest.pegasus.score import score_run
from core.history.backtest.pegasus.tape import PegasusTape
from core.pegasus.view import NO_NODE

MINUTES, NODES = 16, 5
CANDIDATES = [
    Candidate(policy=policy, settings={"level": level, **more})
    for policy in ("app", "cluster")
    for level in ("steady", "lively")
    for more in (
        {},
        {"assign_delay_ms": 60_000},
        {"add_secondary_enable_flow_control": True, "add_secondary_max_count_for_one_node": 2},
    )
]


@pytest.fixture(scope="module")
def tape() -> PegasusTape:
    return tape_of_snapshots(living(MINUTES, shape=(2, 8, NODES)))


outages = st.lists(
    st.tuples(st.integers(0, NODES - 1), st.integers(1, MINUTES - 2), st.integers(1, MINUTES)),
    max_size=4,
)


@settings(max_examples=examples(30), deadline=None)
@given(outages=outages, candidate=st.sampled_from(CANDIDATES), seed=st.integers(0, 3))
def test_members_live_are_distinct_and_no_more_than_wanted(tape, outages, candidate, seed):
    alive = tape.is_alive.copy()
    for node, start, length in outages:
        alive[start : start + length, node] = False
    failing = replace(tape, is_alive=alive)
    for minute in simulate_tape(failing, candidate, seed=seed):
        held = np.sort(minute.members, axis=1)
        assert not ((held[:, 1:] == held[:, :-1]) & (held[:, 1:] != NO_NODE)).any()
        assert set(minute.members[minute.members != NO_NODE]) <= set(
            np.nonzero(alive[minute.number])[0]
        )
        assert ((minute.members != NO_NODE).sum(axis=1) <= tape.wanted).all()
    score = score_run(failing, simulate_tape(failing, candidate, seed=seed))
    assert score.steps == score_run(failing, simulate_tape(failing, candidate, seed=seed)).steps
    assert all(step.source != step.target for _, step in score.steps)
