"""Bundles of a lost broker are reassigned: no unload of the record counts them."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from backtest_series import series_of
from fleet_builder import make_snapshot

from core.history.backtest.pulsar.score import recorded_run, scores

FIRST = make_snapshot(brokers=3, bundles=30)
NAMES = FIRST.brokers["broker"].to_pylist()


def moment(number, *, owners=None, gone=(), started=None):
    """A snapshot so many minutes later."""
    brokers, bundles = FIRST.brokers, FIRST.bundles
    if started is not None:
        at = brokers.schema.get_field_index("started_at")
        field = brokers.schema.field(at)
        brokers = brokers.set_column(at, field, pa.array(started, field.type))
    brokers = brokers.filter(
        pc.invert(pc.is_in(brokers["broker"], pa.array(list(gone), pa.string())))
    )
    if owners is not None:
        at = bundles.schema.get_field_index("owner")
        bundles = bundles.set_column(at, bundles.schema.field(at), pa.array(owners, pa.string()))
    manifest = replace(FIRST.manifest, taken_at=FIRST.manifest.taken_at + timedelta(minutes=number))
    return replace(FIRST.with_tables({"brokers": brokers, "bundles": bundles}), manifest=manifest)


def counted(*snapshots):
    found = scores(series := series_of(snapshots), recorded_run(series))
    return found["unloads"], found["placed_again"]


def reassigned(source, destination):
    bound = FIRST.bundles["is_broker_bound"].to_pylist()
    owners = FIRST.bundles["owner"].to_pylist()
    return [
        destination if one == source and not is_bound else one
        for one, is_bound in zip(owners, bound, strict=True)
    ]


@pytest.fixture(scope="module")
def lost():
    """The broker with bundles that goes, how many it has, and where they end."""
    owners = [
        one
        for one, is_bound in zip(
            FIRST.bundles["owner"].to_pylist(),
            FIRST.bundles["is_broker_bound"].to_pylist(),
            strict=True,
        )
        if one and not is_bound
    ]
    broker = max(NAMES, key=owners.count)
    return broker, owners.count(broker), next(one for one in NAMES if one != broker)


def test_an_unload_is_an_unload(lost):
    broker, count, other = lost
    assert counted(moment(0), moment(1, owners=reassigned(broker, other))) == (count, 0)


def test_what_a_lost_broker_had_is_placed_again_also_if_the_broker_is_back_by_then(lost):
    broker, count, other = lost
    nobody, after = reassigned(broker, None), reassigned(broker, other)
    down = moment(1, owners=nobody, gone=[broker])
    assert counted(moment(0), down, moment(2, owners=after, gone=[broker])) == (0, count)
    assert counted(moment(0), down, moment(2, owners=after)) == (0, count)


def test_what_a_broker_had_that_restarted_between_two_snapshots_is_placed_again(lost):
    broker, count, other = lost
    before = [1_000] * len(NAMES)
    restarted = [2_000 if one == broker else 1_000 for one in NAMES]
    after = reassigned(broker, other)
    first = moment(0, started=before)
    assert counted(first, moment(1, owners=after, started=restarted)) == (0, count)
    assert counted(first, moment(1, owners=after, started=before)) == (count, 0)
