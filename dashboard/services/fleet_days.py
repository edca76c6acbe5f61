"""Facts of the configured clusters by day, with the minutes of their critical alerts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from core.alerts.past import unhealthy_minutes
from core.errors import OpsError
from core.history.queries.fleet_facts import fleet_days
from core.history.store.reading import between
from core.history.tiers.model import BAND
from core.units import datetime_to_ms
from dashboard import services
from dashboard.services import alerts

if TYPE_CHECKING:
    from core.history.store.store import HistoryStore
    from dashboard.services import Config

MEASURES: Final = "traffic of Pulsar brokers, requests of Pegasus nodes"
"""Measures whose deviation from the mean is in the facts, by system."""

UNHEALTHY: Final = pa.field("unhealthy_minutes", pa.int64())
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def targets_of(config: Config, names: Sequence[str]) -> dict[str, float]:
    """Return the deviation that each cluster may have, ratio; 20% for one without configuration."""
    configured = {one.name: services.target_ratio(config, one) for one in config.clusters}
    return {name: configured.get(name, BAND) for name in names}


def facts_of(
    config: Config,
    store: HistoryStore,
    targets: Mapping[str, float],
    start: datetime,
    end: datetime,
) -> pa.Table:
    """Return the facts of some clusters by day.

    Args:
        config: The configuration.
        store: The history.
        targets: Deviation that each cluster may have, by its name.
        start: Start of the range.
        end: End of the range.
    Returns:
        Table of :data:`core.history.queries.fleet_facts.FLEET_DAYS` and ``unhealthy_minutes``:
        minutes with a firing critical alert, null if it is unknown.
    Raises:
        HistoryError: The days cannot be read.
    """
    rows = fleet_days(store, targets, between(start, end))
    found: dict[tuple[str, int], int | None] = {}
    now_ms = datetime_to_ms(services.now())
    for cluster in targets:
        mine = [
            day
            for day, name in zip(rows["day"].to_pylist(), rows["cluster"].to_pylist(), strict=True)
            if name == cluster
        ]
        try:
            changes = alerts.changes(config, cluster, _EPOCH, end)
        except OpsError:
            changes = []  # without alerts nothing is known of them
        minutes = unhealthy_minutes(changes, mine, now_ms)
        found |= {(cluster, day): one for day, one in zip(mine, minutes, strict=True)}
    keys = zip(rows["cluster"].to_pylist(), rows["day"].to_pylist(), strict=True)
    return rows.append_column(UNHEALTHY, pa.array([found[key] for key in keys], pa.int64()))
