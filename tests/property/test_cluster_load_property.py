"""The load of a cluster after moves: columns and tables agree, and nothing is lost."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from claims import claimed
from fleet_builder import make_snapshot

from core.pulsar.cluster import BrokerLoads, FleetStart
from core.pulsar.liveness import STOPPED, liveness_of, loads_of
from core.pulsar.load_transfer import AVERAGES, OWN, RESOURCES
from core.pulsar.measures import measure
from core.pulsar.plan.outcomes import Scenario
from core.pulsar.plan.project import project_scenario
from core.pulsar.settings import effective_settings
from core.pulsar.view import LoadView
from core.snapshot import PulsarSnapshot

SEEDS = range(24)
HOUR_MS = 3_600_000


def fleet(seed: int) -> tuple[PulsarSnapshot, np.random.Generator]:
    """A fleet with unknown numbers and bundles that another broker reports; some with claims."""
    rng = np.random.default_rng(seed)
    made = make_snapshot(brokers=int(rng.integers(3, 9)), bundles=60, seed=seed)
    names = made.brokers["broker"].to_pylist()
    others = [names[row] for row in rng.integers(len(names), size=made.bundles.num_rows)]
    reported = pa.array(others, mask=rng.random(len(others)) > 0.1)
    bundles = {"reported_by": reported.fill_null(made.bundles["owner"].combine_chunks())}
    tables = {
        "brokers": _holed(made.brokers, rng, {}, (*OWN, *RESOURCES)),
        "bundles": _holed(made.bundles, rng, bundles, (*OWN, "owner", "reported_by")),
    }
    if seed % 3 == 0:  # the first broker's reports stopped, and its session is valid
        at = tables["brokers"]["reported_at"].to_numpy().copy()
        at[0] -= HOUR_MS
        tables["brokers"] = _holed(tables["brokers"], rng, {"reported_at": pa.array(at)}, ())
    snapshot = PulsarSnapshot.build(made.manifest, {**made.tables, **tables})
    return (claimed(snapshot) if seed % 3 == 0 else snapshot), rng


def _holed(
    table: pa.Table, rng: np.random.Generator, columns: dict[str, pa.Array], names: tuple[str, ...]
) -> pa.Table:
    columns = {name: column.combine_chunks() for name, column in _columns(table).items()} | columns
    for name in names:
        known = pa.array(rng.random(table.num_rows) > 0.05)
        columns[name] = pa.compute.if_else(known, columns[name], None)
    return pa.table(columns).cast(table.schema)


def _columns(table: pa.Table) -> dict[str, pa.ChunkedArray]:
    return dict(zip(table.column_names, table.columns, strict=True))


def moves(snapshot: PulsarSnapshot, rng: np.random.Generator) -> tuple[np.ndarray, list[str]]:
    is_bound = snapshot.bundles["is_broker_bound"].to_numpy(zero_copy_only=False)
    rows = rng.choice(np.flatnonzero(~is_bound), int(rng.integers(1, 20)), replace=False)
    names = snapshot.brokers["broker"].to_pylist()
    return rows, [names[row] for row in rng.integers(len(names), size=rows.size)]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_fleet_in_columns_is_the_projected_snapshot(seed):
    snapshot, rng = fleet(seed)
    columns, tables = FleetStart(snapshot).fleet(), snapshot
    for _ in range(2):
        rows, ends = moves(snapshot, rng)
        columns = columns.moved(rows, ends)
        tables = project_scenario(tables, rows, Scenario(1.0, tuple(ends)))
        assert columns.snapshot.brokers.equals(tables.brokers)
        assert columns.snapshot.bundles.equals(tables.bundles)
        believed = BrokerLoads.of(loads_of(tables))
        assert np.array_equal(columns.believed.values, believed.values, equal_nan=True)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_view_and_the_measures_are_those_of_the_snapshot(seed):
    snapshot, rng = fleet(seed)
    settings = effective_settings(snapshot)
    after = FleetStart(snapshot).fleet().moved(*moves(snapshot, rng)).sampled(3)
    seen, expected = after.view(settings), LoadView.of(after.snapshot, settings)
    for name in ("usage", "overload_usage", "has_report", "broker_throughput", "broker_long_rate"):
        assert np.array_equal(getattr(seen, name), getattr(expected, name)), name
    for one, other in zip(after.measures(settings), measure(after.snapshot, settings), strict=True):
        assert np.array_equal(one.values, other.values, equal_nan=True)


def test_some_fleets_have_a_broker_whose_reports_stopped():
    snapshot, _ = fleet(0)
    verdicts = liveness_of(snapshot, effective_settings(snapshot))
    assert STOPPED in [verdicts.state_of(name) for name in snapshot.brokers["broker"].to_pylist()]


@pytest.mark.parametrize("seed", SEEDS)
def test_samples_change_averages_only(seed):
    snapshot, _ = fleet(seed)
    before = FleetStart(snapshot).fleet()
    after = before.sampled(5).sampled(5)
    assert np.array_equal(before.owned_counts, after.owned_counts, equal_nan=True)
    for name in (*OWN, *RESOURCES):
        is_same = np.array_equal(before.load.column(name), after.load.column(name), equal_nan=True)
        assert is_same or name in AVERAGES, name
