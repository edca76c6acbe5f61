"""The snapshot that a plan is expected to leave behind: health runs on it unchanged."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from core.pulsar.cluster import BrokerLoads, with_owners
from core.pulsar.load_transfer import carried_by, load_moved
from core.pulsar.plan.outcomes import Scenario
from core.snapshot import PulsarSnapshot


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
    brokers, bundles = snapshot.brokers, snapshot.bundles
    rows = {name: row for row, name in enumerate(brokers["broker"].to_pylist())}
    ends = np.array([rows.get(name, -1) for name in scenario.destinations], np.int64)
    touched, delta = load_moved(carried_by(snapshot, bundle_rows), ends)
    is_touched = np.zeros(brokers.num_rows, np.bool_)
    is_touched[touched] = True
    is_moved = np.zeros(bundles.num_rows, np.bool_)
    is_moved[bundle_rows] = True
    in_order = np.argsort(bundle_rows, kind="stable").tolist()
    owners = pa.array([scenario.destinations[step] for step in in_order], pa.string())
    return snapshot.with_tables(
        {
            "bundles": with_owners(bundles, is_moved, owners),
            "brokers": BrokerLoads.of(brokers).moved(touched, delta).table(brokers, is_touched),
        }
    )
