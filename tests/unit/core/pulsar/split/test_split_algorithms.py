"""Where the four algorithms cut; the numbers of the first cases are the real classes' own."""

from __future__ import annotations

import numpy as np
import pytest
from split_limits import split_limits

from core.errors import InputError, UnknownNameError
from core.pulsar.ring import topic_hash
from core.pulsar.split import ALGORITHMS, TopicLoads, split_positions
from core.pulsar.split.algorithms import most_even_position, refusal

FULL = (0, 0xFFFFFFFF)
RATES = {"t3": 100, "t2": 800, "t6": 2500, "t4": 0, "t0": 600, "t1": 300, "t5": 500}


def loads(rates: dict[str, float], *, flow: float = 0.0) -> TopicLoads:
    names = sorted((f"persistent://acme/orders/{name}" for name in rates), key=topic_hash)
    values = [rates[name.rpartition("/")[2]] for name in names]
    return TopicLoads(
        names=tuple(names),
        hashes=np.array([topic_hash(name) for name in names], np.int64),
        msg_rate=np.array(values, np.float64),
        throughput=np.array(values, np.float64) * flow,
        sessions=np.full(len(names), 5, np.int64),
    )


def test_flow_cuts_before_the_topic_that_would_exceed_the_limit() -> None:
    found = split_positions(
        "flow_or_qps_equally_divide", FULL, loads(RATES), limits=split_limits(msgs_per_s=1000)
    )
    assert [f"{at:08x}" for at in found.values] == ["6bc704ed", "7ac6155b", "f3c7154f"]


@pytest.mark.parametrize(("limit", "cuts"), [(4363, True), (4364, False)])
def test_flow_leaves_a_bundle_alone_within_the_tolerance(limit: int, *, cuts: bool) -> None:
    found = split_positions(
        "flow_or_qps_equally_divide", FULL, loads(RATES), limits=split_limits(msgs_per_s=limit)
    )
    assert bool(found.values) is cuts
    assert bool(found.why) is not cuts


def test_flow_says_why_topics_that_share_a_hash_bring_no_part_over_a_limit() -> None:
    shared = TopicLoads(
        names=("a", "b", "c"),
        hashes=np.array([0, 0, 1], np.int64),
        msg_rate=np.array([2.0, 1.0, 0.0]),
        throughput=np.array([0.0, 0.0, 1.0]),
        sessions=np.zeros(3, np.int64),
    )
    limits = split_limits(msgs_per_s=2)
    found = split_positions("flow_or_qps_equally_divide", (0, 2), shared, limits=limits)
    assert found.values == ()
    assert "same hash" in found.why


@pytest.mark.parametrize(
    ("bounds", "middle"),
    [(FULL, 0x7FFFFFFF), ((0xC0000000, 0xFFFFFFFF), 0xDFFFFFFF), ((4, 6), 5), ((4, 5), None)],
)
def test_range_is_halved_whatever_the_topics_are(
    bounds: tuple[int, int], middle: int | None
) -> None:
    found = split_positions("range_equally_divide", bounds, None, limits=split_limits())
    assert found.values == (() if middle is None else (middle,))


def test_topic_count_cuts_between_the_middle_topics() -> None:
    topics = loads(RATES)
    found = split_positions("topic_count_equally_divide", FULL, topics, limits=split_limits())
    left = int((topics.hashes < found.values[0]).sum())
    assert left == len(RATES) // 2


@pytest.mark.parametrize(
    ("hashes", "at"),
    [([10, 20], 15), ([10, 21], 15), ([10, 20, 40], 15), ([10, 20, 40, 90], 30), ([7, 7], 7)],
    ids=["two", "rounded down", "three", "four", "one hash"],
)
def test_topic_count_takes_the_middle_of_the_two_middle_hashes(hashes: list[int], at: int) -> None:
    idle = np.zeros(len(hashes))
    topics = TopicLoads(
        names=tuple(map(str, hashes)),
        hashes=np.array(hashes, np.int64),
        msg_rate=idle,
        throughput=idle,
        sessions=idle.astype(np.int64),
    )
    found = split_positions("topic_count_equally_divide", (7, 100), topics, limits=split_limits())
    assert found.values == (at,)
    # equal hashes give a position that may be the lower bound itself, which a broker refuses
    assert bool(refusal((7, 100), found.values)) is (at == 7)


def test_one_topic_is_never_cut_by_count_flow_or_given_positions() -> None:
    one = loads({"t1": 90_000.0})
    for algorithm in ALGORITHMS[1:]:
        found = split_positions(algorithm, FULL, one, limits=split_limits(), given=(7,))
        assert found.values == ()
        assert found.why


def test_positions_by_hand_are_sorted_and_those_outside_are_dropped() -> None:
    found = split_positions(
        "specified_positions_divide",
        (100, 200),
        None,
        limits=split_limits(),
        given=(150, 100, 120, 200, 5),
    )
    assert found.values == (120, 150)


def test_positions_by_hand_must_be_given() -> None:
    with pytest.raises(InputError, match="needs positions"):
        split_positions("specified_positions_divide", FULL, None, limits=split_limits())


def test_an_unknown_algorithm_offers_near_names() -> None:
    with pytest.raises(UnknownNameError, match="range_equally_divide"):
        split_positions("range_equaly_divide", FULL, None, limits=split_limits())


def test_unread_topics_are_unknown_and_not_none() -> None:
    for algorithm in ("topic_count_equally_divide", "flow_or_qps_equally_divide"):
        found = split_positions(algorithm, FULL, None, limits=split_limits())
        assert (found.values, found.is_known) == ((), False)


@pytest.mark.parametrize(
    ("bounds", "positions", "said"),
    [
        ((4, 9), [5, 7], ""),
        ((4, 9), [4], "not strictly inside"),
        ((4, 9), [5, 9], "not strictly inside"),
        ((4, 5), [], "too narrow"),
        ((4, 9), [6, 6], "specified twice"),
    ],
)
def test_the_broker_refuses_cuts_that_make_no_parts(
    bounds: tuple[int, int], positions: list[int], said: str
) -> None:
    assert said in refusal(bounds, positions)
    assert bool(refusal(bounds, positions)) is bool(said)


def test_the_most_even_position_lies_between_two_topics() -> None:
    topics = loads(RATES, flow=10.0)
    found = most_even_position(topics)
    assert found is not None
    left = float(topics.throughput[topics.hashes < found[0]].sum() / topics.throughput.sum())
    assert max(left, 1 - left) == pytest.approx(found[1])
    assert most_even_position(loads({"t1": 3.0})) is None
