"""What holds for every ring and every placement."""

from __future__ import annotations

import itertools
import json
from typing import Any

import numpy as np
import pyarrow as pa
from fleet_builder import NOON
from hypothesis import given, settings
from hypothesis import strategies as st
from random_fleets import BROKERS, pulsar_rows
from sampled import examples

from core.ids import FULL_UPPER, range_text
from core.pulsar.java.maps import java_hash_order
from core.pulsar.lookup import lookup_topic
from core.pulsar.placement import STRATEGY_NAMES, place_all, place_bundle
from core.pulsar.ring import (
    find_bundle_index,
    initial_boundaries,
    range_equally_divide,
    topic_hash,
    validate_boundaries,
)
from core.pulsar.settings import effective_settings
from core.pulsar.view import LoadView
from core.snapshot import Manifest, PulsarSnapshot


@st.composite
def rings(draw: st.DrawFn) -> list[int]:
    """Boundaries that tile the ring, however they came to be."""
    inner = draw(st.sets(st.integers(1, FULL_UPPER - 1), max_size=40))
    return [0, *sorted(inner), FULL_UPPER]


def _snapshot(rows: dict[str, list[dict[str, Any]]]) -> PulsarSnapshot:
    manifest = Manifest(cluster="c", taken_at=NOON, tables={}, load_manager="modular")
    tables = {name: pa.Table.from_pylist(part) for name, part in rows.items()}
    return PulsarSnapshot.build(manifest, tables)


def _distributions(
    rows: dict[str, list[dict[str, Any]]], strategy: str, **overrides: object
) -> dict[str, dict[str, float]]:
    snapshot = _snapshot(rows)
    conf = effective_settings(snapshot, overrides=overrides)
    table = place_all(LoadView.of(snapshot, conf), conf, strategy=strategy)
    return {row["bundle"]: table.distribution(row["bundle"]) for row in rows["bundles"]}


@settings(deadline=None)
@given(count=st.integers(1, 5_000))
def test_a_new_namespaces_bundles_tile_the_ring(count: int) -> None:
    boundaries = initial_boundaries(count)
    assert validate_boundaries(boundaries) is None
    assert len(boundaries) == count + 1


@settings(deadline=None)
@given(boundaries=rings(), position=st.integers(0, FULL_UPPER))
def test_every_position_is_in_exactly_one_bundle(boundaries: list[int], position: int) -> None:
    assert validate_boundaries(boundaries) is None
    last = len(boundaries) - 2
    holding = [
        index
        for index in range(last + 1)
        if boundaries[index] <= position < boundaries[index + 1]
        or (index == last and position == FULL_UPPER)
    ]
    assert holding == [find_bundle_index(boundaries, position)]


@settings(deadline=None)
@given(boundaries=rings())
def test_halves_tile_the_bundle_they_came_from(boundaries: list[int]) -> None:
    for lower, upper in itertools.pairwise(boundaries):
        middle = range_equally_divide(lower, upper)
        if middle is not None:
            assert lower < middle < upper


@settings(deadline=None)
@given(boundaries=rings(), name=st.text("abcé/-.", min_size=1).filter(lambda t: "/" not in t))
def test_a_lookup_finds_the_bundle_that_holds_the_hash(boundaries: list[int], name: str) -> None:
    namespace = {
        "namespace": "t/n",
        "tenant": "t",
        "boundaries": boundaries,
        "is_broker_bound": False,
    }
    found = lookup_topic(_snapshot({"namespaces": [namespace]}), f"t/n/{name}")
    assert found.hash == topic_hash(f"persistent://t/n/{name}")
    index = find_bundle_index(boundaries, found.hash)
    assert found.bundle == f"t/n/{range_text(boundaries[index], boundaries[index + 1])}"


@settings(max_examples=examples(60), deadline=None)
@given(rows=pulsar_rows(), strategy=st.sampled_from(STRATEGY_NAMES), evenly=st.booleans())
def test_a_distribution_sums_to_one_or_is_empty_and_says_why(
    rows: dict[str, list[dict[str, Any]]], strategy: str, *, evenly: bool
) -> None:
    snapshot = _snapshot(rows)
    conf = effective_settings(
        snapshot, overrides={"loadBalancerDistributeBundlesEvenlyEnabled": evenly}
    )
    view = LoadView.of(snapshot, conf)
    table = place_all(view, conf, strategy=strategy)
    for row in rows["bundles"]:
        placement = place_bundle(view, row["bundle"], conf, strategy=strategy)
        assert placement.why
        assert placement.distribution == table.distribution(row["bundle"])
        assert set(placement.distribution).isdisjoint(placement.ruled_out)
        assert set(placement.distribution) | set(placement.ruled_out) == set(view.brokers)
        if placement.distribution:
            assert abs(sum(placement.distribution.values()) - 1.0) < 1e-12
            assert min(placement.distribution.values()) > 0
        else:
            assert not any(facts["persistent_topics_enabled"] for facts in rows["brokers"])


@settings(max_examples=examples(60), deadline=None)
@given(rows=pulsar_rows(), strategy=st.sampled_from(STRATEGY_NAMES))
def test_a_broker_that_serves_no_persistent_topics_never_gets_a_bundle(
    rows: dict[str, list[dict[str, Any]]], strategy: str
) -> None:
    never = {row["broker"] for row in rows["brokers"] if not row["persistent_topics_enabled"]}
    for distribution in _distributions(rows, strategy).values():
        assert never.isdisjoint(distribution)


@settings(max_examples=examples(60), deadline=None)
@given(rows=pulsar_rows(), strategy=st.sampled_from(STRATEGY_NAMES), data=st.data())
def test_the_order_of_rows_changes_nothing(
    rows: dict[str, list[dict[str, Any]]], strategy: str, data: st.DataObject
) -> None:
    shuffled = {name: data.draw(st.permutations(part)) for name, part in rows.items()}
    assert _distributions(shuffled, strategy) == _distributions(rows, strategy)


@settings(max_examples=examples(60), deadline=None)
@given(rows=pulsar_rows(), factor=st.sampled_from([0.5, 2.0, 1024.0]))
def test_the_unit_of_rates_does_not_matter_to_the_least_long_term_rate(
    rows: dict[str, list[dict[str, Any]]], factor: float
) -> None:
    scaled = [
        {key: value * factor if "msg_rate" in key else value for key, value in row.items()}
        for row in rows["brokers"]
    ]
    before = _distributions(rows, STRATEGY_NAMES[0])
    assert _distributions({**rows, "brokers": scaled}, STRATEGY_NAMES[0]) == before


@settings(deadline=None)
@given(names=st.lists(st.sampled_from(BROKERS), unique=True), data=st.data())
def test_the_hash_order_is_that_of_the_set_and_not_of_the_list(
    names: list[str], data: st.DataObject
) -> None:
    other = data.draw(st.permutations(names))
    ordered = [names[row] for row in java_hash_order(names)]
    assert ordered == [other[row] for row in java_hash_order(other)]
    assert sorted(ordered) == sorted(names)
    assert np.issubdtype(java_hash_order(names).dtype, np.integer)


NUMBER = st.one_of(
    st.none(), st.floats(allow_nan=False, allow_infinity=True), st.sampled_from([0.0, -1.0, 1e308])
)
KEYS = [
    *("namespaces", "primary", "secondary", "auto_failover_policy", "parameters"),
    *("min_limit", "usage_threshold", "brokers"),
]
LEAF = st.one_of(
    st.none(), st.booleans(), st.floats(allow_nan=False), st.text("a.*([)-9", max_size=6)
)
JSON = st.recursive(
    LEAF,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(KEYS), inner, max_size=5)
    ),
    max_leaves=12,
)


@settings(max_examples=examples(60), deadline=None)
@given(rows=pulsar_rows(), bodies=st.lists(JSON, max_size=3), data=st.data())
def test_odd_numbers_and_odd_policies_still_get_an_answer(
    rows: dict[str, list[dict[str, Any]]], bodies: list[Any], data: st.DataObject
) -> None:
    for row in rows["brokers"]:
        for key in ("cpu_usage", "cpu_limit", "long_msg_rate_in", "msg_rate_in"):
            row[key] = data.draw(NUMBER)
    kinds = st.sampled_from(["isolation", "failure_domain"])
    rows["policies"] = [
        {"kind": data.draw(kinds), "name": f"p{number}", "body": json.dumps(body)}
        for number, body in enumerate(bodies)
    ] or [{"kind": "isolation", "name": "p", "body": "{"}]
    snapshot = _snapshot(rows)
    conf = effective_settings(snapshot)
    view = LoadView.of(snapshot, conf)
    for strategy in STRATEGY_NAMES:
        placement = place_bundle(view, rows["bundles"][0]["bundle"], conf, strategy=strategy)
        total = sum(placement.distribution.values())
        assert abs(total - 1.0) < 1e-9 if placement.distribution else placement.why
