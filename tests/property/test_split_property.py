"""What holds of every split, and of every round of TransferShedder, whatever the cluster."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from random_fleets import extensible_rows, extensible_view
from sampled import examples
from split_limits import split_limits

from core.ids import FULL_UPPER, namespace_of
from core.pulsar.shedding import strategy_rounds
from core.pulsar.shedding.transfer_shedder import TransferShedder
from core.pulsar.split import ALGORITHMS, SplitSubject, TopicLoads, split_positions
from core.pulsar.split.algorithms import most_even_position, refusal
from core.pulsar.split.answer import split_parts
from core.pulsar.view import LoadView

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
NOON_MS = round(NOON.timestamp() * 1000)
rates = st.just(0.0) | st.floats(1e-6, 1e9)  # halving these loses no digit


@st.composite
def bundles(draw: st.DrawFn) -> tuple[SplitSubject, TopicLoads]:
    """A bundle anywhere on the ring, and its topics."""
    lower = draw(st.integers(0, FULL_UPPER - 2))
    upper = draw(st.integers(lower + 1, FULL_UPPER))
    last = upper if upper == FULL_UPPER else upper - 1
    hashes = sorted(draw(st.lists(st.integers(lower, last), max_size=12)))
    flows = [draw(rates) for _ in hashes]
    topics = TopicLoads(
        names=tuple(f"persistent://t/n/{number}" for number in range(len(hashes))),
        hashes=np.array(hashes, np.int64),
        msg_rate=np.array([draw(rates) for _ in hashes], np.float64),
        throughput=np.array(flows, np.float64),
        sessions=np.array([draw(st.integers(0, 50)) for _ in hashes], np.int64),
    )
    subject = SplitSubject(
        bundle="t/n/x",
        namespace="t/n",
        lower=lower,
        upper=upper,
        owner=None,
        reporter=None,
        is_broker_bound=False,
        topic_count=len(hashes),
        sessions=None,
        msg_rate=None,
        throughput=None,
        long_msg_rate=None,
        long_throughput=None,
        bundles_in_namespace=1,
        brokers=1,
    )
    return subject, topics


@settings(max_examples=examples(200), deadline=None)
@given(
    made=bundles(),
    algorithm=st.sampled_from(ALGORITHMS),
    given_at=st.lists(st.integers(0, FULL_UPPER), min_size=1, max_size=5, unique=True),
    limit=st.integers(1, 100_000),
)
def test_parts_tile_the_range_and_lose_nothing(
    made: tuple[SplitSubject, TopicLoads], algorithm: str, given_at: list[int], limit: int
) -> None:
    subject, topics = made
    bounds = (subject.lower, subject.upper)
    limits = split_limits(msgs_per_s=limit)
    found = split_positions(algorithm, bounds, topics, limits=limits, given=given_at)
    assert list(found.values) == sorted(found.values)
    assert bool(found.values) is not bool(found.why)
    if refusal(bounds, found.values):
        return  # the brokers would not cut there either
    parts = split_parts(subject, found.values, topics)
    assert (parts[0].lower, parts[-1].upper) == bounds
    assert all(one.upper == other.lower for one, other in pairwise(parts))
    assert sum(part.topic_count or 0 for part in parts) == topics.hashes.size
    assert np.isclose(sum(part.throughput or 0.0 for part in parts), topics.throughput.sum())
    assert sum(part.sessions or 0 for part in parts) == topics.sessions.sum()


@settings(max_examples=examples(200), deadline=None)
@given(made=bundles())
def test_no_single_cut_halves_the_load_better_than_the_one_we_name(
    made: tuple[SplitSubject, TopicLoads],
) -> None:
    subject, topics = made
    best = most_even_position(topics)
    if best is None:
        return
    assert refusal((subject.lower, subject.upper), [best[0]]) == ""
    for at in topics.hashes[1:].tolist():
        if subject.lower < at < subject.upper:
            parts = split_parts(subject, (at,), topics)
            assert max(part.share or 0.0 for part in parts) >= best[1] - 1e-9


def _view(rows: dict[str, list[dict[str, Any]]]) -> tuple[LoadView, Any]:
    return extensible_view(
        rows,
        loadBalancerSheddingConditionHitCountThreshold=0,
        loadBalancerBrokerLoadTargetStd=0.01,
    )


@settings(max_examples=examples(150), deadline=None)
@given(rows=extensible_rows(), data=st.data())
def test_a_transfer_keeps_to_what_may_move(
    rows: dict[str, list[dict[str, Any]]], data: st.DataObject
) -> None:
    view, found = _view(rows)
    owner = {row["bundle"]: row["broker"] for row in rows["top_bundles"]}
    recent = data.draw(st.lists(st.sampled_from(sorted(owner)), max_size=3)) if owner else []
    first = next(strategy_rounds(TransferShedder(), view, found, recently_unloaded=recent))
    again = next(strategy_rounds(TransferShedder(), view, found, recently_unloaded=recent))
    assert first.moves == again.moves
    moved = [move.bundle for move in first.moves]
    assert len(set(moved)) == len(moved)
    for move in first.moves:
        assert owner[move.bundle] == move.broker
        assert move.destination in view.brokers
        assert move.destination != move.broker
    given = {move.bundle for move in first.moves}
    kept = {name for name in owner if namespace_of(name) == "t/c"} | set(recent)
    # what is swapped back is asked for policies only, as in the real class
    busiest = {trace.broker for trace in first.decision.trace if trace.sheds}
    assert not {name for name in given & kept if owner[name] in busiest}
    for name in busiest - {None}:
        listed = [row["bundle"] for row in rows["top_bundles"] if row["broker"] == name]
        assert set(listed) - given, "one published bundle stays at least"


@settings(max_examples=examples(80), deadline=None)
@given(rows=extensible_rows(), factor=st.sampled_from([0.5, 2.0, 1024.0]))
def test_scaling_all_traffic_changes_no_transfer(
    rows: dict[str, list[dict[str, Any]]], factor: float
) -> None:
    view, found = _view(rows)
    assert view.extensible is not None
    top = {
        broker: tuple(replace(entry, throughput=entry.throughput * factor) for entry in entries)
        for broker, entries in view.extensible.top.items()
    }
    scaled = replace(
        view.extensible,
        throughput=view.extensible.throughput * factor,
        throughput_ema=view.extensible.throughput_ema * factor,
        top=top,
    )
    first = next(strategy_rounds(TransferShedder(), view, found))
    second = next(strategy_rounds(TransferShedder(), replace(view, extensible=scaled), found))
    assert first.moves == second.moves
