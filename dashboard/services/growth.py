"""Growth of a cluster, with the limit and the owners of its newest snapshot."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.errors import OpsError
from core.history.queries.growth import Growth, growth
from core.history.queries.growth_context import growth_context
from dashboard import services
from dashboard.services.fleet_days import targets_of

if TYPE_CHECKING:
    from core.history.store.reading import TimeRange
    from core.history.store.store import HistoryStore
    from core.snapshot.store import Storable
    from dashboard.services import Config


def growth_of(config: Config, store: HistoryStore, cluster: str, span: TimeRange) -> Growth:
    """Return what grows in a cluster, and when it is full.

    Args:
        config: The configuration.
        store: The history.
        cluster: Name of the cluster; it need not be configured.
        span: Range with both ends.
    Raises:
        HistoryError: No day of the cluster is in the range, or the days cannot be read.
    """
    context = growth_context(_newest(config, store, cluster))
    return growth(store, cluster, span, context, targets_of(config, [cluster])[cluster])


def _newest(config: Config, store: HistoryStore, name: str) -> Storable | None:
    """Return the newest snapshot, saved or recorded; ``None`` if there is none that can be read."""
    try:
        cluster = next((one for one in config.clusters if one.name == name), None)
        saved = services.snapshot_store(config).latest(name, services.now())
        if cluster is not None and saved is not None:
            found: Storable = services.system_of(config, cluster).record.load(saved.path)
            return found
        recorded = store.span(name)
        return None if recorded is None else store.snapshot_at(name, recorded[1])
    except OpsError:
        return None
