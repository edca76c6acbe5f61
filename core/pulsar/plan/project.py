"""The snapshot that a plan is expected to leave behind: health runs on it unchanged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from core.pulsar.plan.load_transfer import CARRIED, RESOURCES, LoadChange, carried_by, shift_of
from core.pulsar.plan.outcomes import Scenario
from core.snapshot import PulsarSnapshot

Floats = NDArray[np.float64]


def project_scenario(
    snapshot: PulsarSnapshot, bundle_rows: NDArray[np.int64], scenario: Scenario
) -> PulsarSnapshot:
    """Return the snapshot as it would be after one scenario.

    Bundles have their new owner, which reports them; brokers have the load that follows. Bundles
    that no broker takes over have no owner. Everything else, the time included, stays as it was.

    Args:
        snapshot: Before.
        bundle_rows: Row of each step's bundle, in step order.
        scenario: Where they end.
    """
    key = ("projected", bundle_rows.tobytes(), scenario.destinations)
    return snapshot.derived.get(key, lambda: _projected(snapshot, bundle_rows, scenario))


def _projected(
    snapshot: PulsarSnapshot, bundle_rows: NDArray[np.int64], scenario: Scenario
) -> PulsarSnapshot:
    names = snapshot.brokers["broker"].to_pylist()
    carried = carried_by(snapshot, bundle_rows)
    certain = [{name: 1.0} if name is not None else {} for name in scenario.destinations]
    shift = shift_of(carried, [replace(scenario, probability=1.0)], certain, names)
    return snapshot.with_tables(
        {
            "bundles": _with_owners(snapshot.bundles, bundle_rows, scenario.destinations),
            "brokers": _with_load(snapshot.brokers, shift),
        }
    )


def _with_owners(
    bundles: pa.Table, rows: NDArray[np.int64], destinations: Sequence[str | None]
) -> pa.Table:
    """Set owner and reporter of some rows."""
    is_moved = np.zeros(bundles.num_rows, np.bool_)
    is_moved[rows] = True
    in_order = np.argsort(rows, kind="stable")
    owners = pa.array([destinations[step] for step in in_order.tolist()], pa.string())
    for name in ("owner", "reported_by"):
        column = bundles[name].combine_chunks()
        moved = pc.replace_with_mask(column, pa.array(is_moved), owners)
        bundles = _set(bundles, name, moved)
    return bundles


def _with_load(brokers: pa.Table, shift: LoadChange) -> pa.Table:
    """Add the first scenario's deltas to the touched brokers; unknown stays unknown."""
    for column, name in enumerate(CARRIED):
        values = np.array(brokers[name].cast(pa.float64()).to_numpy(), dtype=np.float64)
        values[shift.touched] = np.maximum(
            values[shift.touched] + shift.delta[0, :, column],
            np.minimum(values[shift.touched], 0.0),
        )
        brokers = _set(brokers, name, _typed(values, brokers.schema.field(name).type))
        if name in RESOURCES:
            brokers = _with_ratio(brokers, name.removesuffix("_usage"), values, shift)
    return brokers


def _with_ratio(brokers: pa.Table, resource: str, usage: Floats, shift: LoadChange) -> pa.Table:
    limit = np.array(brokers[f"{resource}_limit"].to_numpy(), dtype=np.float64)
    ratio = np.array(brokers[f"{resource}_ratio"].to_numpy(), dtype=np.float64)
    rows = shift.touched
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio[rows] = np.where(limit[rows] > 0, usage[rows] / limit[rows], ratio[rows])
    return _set(brokers, f"{resource}_ratio", _typed(ratio, pa.float64()))


def _typed(values: Floats, kind: pa.DataType) -> pa.Array:
    """NaN becomes null; counts are rounded."""
    known = np.isfinite(values)
    if pa.types.is_integer(kind):
        whole = np.where(known, np.round(values), 0).astype(np.int64)
        return pa.array(whole, kind, mask=~known)
    return pa.array(values, kind, mask=~known)


def _set(table: pa.Table, name: str, values: pa.Array) -> pa.Table:
    index = table.schema.get_field_index(name)
    return table.set_column(index, table.schema.field(name), values)
