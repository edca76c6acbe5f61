"""Averages that the leader does not write go on as it keeps them: a sample at each report."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from fleet_builder import broker_names, make_snapshot
from fleet_edit import with_manifest

from core.arrays import column_values
from core.history.analysis.accuracy.pulsar import CarriedAverages
from core.schemas import PULSAR_TABLES
from core.snapshot import PulsarSnapshot

NAMES = broker_names(3)
RATE = "msg_rate_in"
START_MS = 1_000_000


def minute(
    number: int,
    rate: float,
    order: tuple[int, ...] = (0, 1, 2),
    rows: Mapping[str, Mapping[str, Any]] | None = None,
) -> PulsarSnapshot:
    """A minute in which brokers report in an order, every bundle at one rate.

    Written averages stay what they are but where ``rows`` says so.
    """
    made = make_snapshot(brokers=3, bundles=9)
    brokers, bundles = made.brokers.to_pylist(), made.bundles.to_pylist()
    for row in brokers:
        place = order.index(NAMES.index(row["broker"]))
        row["reported_at"] = START_MS + number * 60_000 + place * 1_000
    for row in bundles:
        averages = {f"short_{RATE}": 100.0, f"long_{RATE}": 100.0}
        samples = {"short_samples": 10, "long_samples": 50}
        row.update({RATE: rate} | averages | samples | (rows or {}).get(row["bundle"], {}))
    tables = dict(made.tables)
    for name, body in (("brokers", brokers), ("bundles", bundles)):
        tables[name] = pa.Table.from_pylist(body, schema=PULSAR_TABLES[name])
    moment = made.manifest.taken_at + timedelta(minutes=number)
    return with_manifest(PulsarSnapshot.build(made.manifest, tables), taken_at=moment)


def after(average: float, *samples: float) -> float:
    """The short average, full as it is, after samples."""
    for value in samples:
        average = (9 * average + value) / 10
    return average


def averages_of(snapshots: list[PulsarSnapshot], name: str = f"short_{RATE}") -> dict[str, float]:
    carried = CarriedAverages()
    seen = [carried.on(one) for one in snapshots][-1]
    names = seen.bundles["bundle"].to_pylist()
    return dict(zip(names, column_values(seen.bundles, name).tolist(), strict=True))


def owned_by(broker: int) -> str:
    rows = minute(0, 1.0).bundles.to_pylist()
    return next(row["bundle"] for row in rows if row["reported_by"] == NAMES[broker])


@pytest.mark.parametrize("broker", [0, 1, 2])
def test_reports_before_a_brokers_own_sample_what_it_told_before(broker):
    order = (2, 0, 1)
    found = averages_of([minute(0, 100.0), minute(1, 400.0, order)])
    old = [100.0] * order.index(broker)
    wanted = after(100.0, *old, *[400.0] * (3 - len(old)))
    assert found[owned_by(broker)] == pytest.approx(wanted)


def test_a_long_average_that_is_not_full_is_a_mean():
    found = averages_of([minute(0, 100.0), minute(1, 400.0)], f"long_{RATE}")
    assert found[owned_by(0)] == pytest.approx((50 * 100 + 3 * 400) / 53)


def test_brokers_have_the_sums_of_what_they_report():
    carried = CarriedAverages()
    for snapshot in (minute(0, 100.0), minute(1, 400.0)):
        seen = carried.on(snapshot)
    for row in seen.brokers.to_pylist():
        own = [one for one in seen.bundles.to_pylist() if one["reported_by"] == row["broker"]]
        assert row[f"long_{RATE}"] == pytest.approx(sum(one[f"long_{RATE}"] for one in own))


@pytest.mark.parametrize("written_after", [0, 1, 2, 3])
def test_what_was_written_tells_how_many_reports_had_come(written_after):
    values = {}
    for broker in range(3):
        told = [400.0 if broker < written_after else 100.0] * (written_after - broker)
        before = [100.0] * min(broker, written_after)
        own = 400.0 if broker < written_after else 100.0
        values[owned_by(broker)] = after(100.0, *before, *told, own)
    rows = {name: {f"short_{RATE}": value} for name, value in values.items()}
    found = averages_of([minute(0, 100.0), minute(1, 400.0, rows=rows)])
    for broker in range(3):
        later = [400.0 if broker <= report else 100.0 for report in range(written_after, 3)]
        name = owned_by(broker)
        if written_after or broker:  # nothing to tell by: the sample of the write is as it was
            assert found[name] == pytest.approx(after(values[name], *later))


def test_a_bundle_that_its_old_broker_gave_up_first_begins_anew():
    name = owned_by(0)
    moved = {name: {"owner": NAMES[1], "reported_by": NAMES[1]}}
    found = averages_of([minute(0, 100.0), minute(1, 400.0, rows=moved)])
    assert found[name] == pytest.approx(400.0)


def test_another_leader_begins_with_what_is_written():
    first, second = minute(0, 100.0), with_manifest(minute(1, 400.0), leader=NAMES[2])
    assert first.manifest.leader != NAMES[2]
    assert averages_of([first, second])[owned_by(0)] == 100.0


def test_the_extensible_manager_keeps_none():
    snapshots = [
        with_manifest(minute(at, rate), load_manager="extensible")
        for at, rate in enumerate((100.0, 400.0))
    ]
    carried = CarriedAverages()
    assert all(carried.on(one) is one for one in snapshots)


def test_no_report_is_no_sample():
    first = minute(0, 100.0)
    assert averages_of([first, first]) == averages_of([first])


def test_averages_come_to_the_load_that_stays():
    carried = CarriedAverages()
    snapshots = [minute(0, 100.0), *(minute(at, 250.0) for at in range(1, 16))]
    steps = [column_values(carried.on(one).bundles, f"short_{RATE}") for one in snapshots]
    assert all((low <= high).all() for low, high in pairwise(steps))
    assert np.allclose(steps[-1], 250.0, rtol=0.02)
