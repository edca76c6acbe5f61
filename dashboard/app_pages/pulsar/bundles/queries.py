"""Data of the Bundles page over all bundles, computed once per snapshot."""

from __future__ import annotations

from core.snapshot.store import CachedSnapshot
from dashboard.app_pages.pulsar.bundles import model
from dashboard.charts.treemap import TreemapData
from dashboard.presenters.pulsar import bundles as presenter
from dashboard.queries.cache import cached
from dashboard.queries.pulsar.snapshots import reading


def _load(stored: CachedSnapshot) -> model.Load:
    return model.load_of(reading(stored).movable)


load_of = cached(_load, max_entries=16)
"""How the load is spread over the bundles."""


def _treemap(key: tuple[CachedSnapshot, presenter.GroupBy]) -> tuple[TreemapData, str]:
    stored, group_by = key
    movable = reading(stored).movable
    return presenter.treemap_data(movable, group_by), model.treemap_note(movable, group_by)


treemap = cached(_treemap, max_entries=16)
"""The treemap of bundles, and what it leaves out."""
