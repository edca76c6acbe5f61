"""Findings of the settings doctor on a cluster, with the recorded past next to the snapshot."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from core.errors import SnapshotError
from core.pulsar.rules.doctor import Examination, examine
from core.pulsar.rules.recorded_past import RecordedPast
from core.snapshot.store import CachedSnapshot
from core.units import ms_to_datetime
from dashboard.queries.cache import cached
from dashboard.queries.pulsar.snapshots import reading
from dashboard.services.pulsar.recorded_week import recorded_week, silence_words

if TYPE_CHECKING:
    from dashboard.services import Config

_EVERY_S: Final = 600
"""Pages ask the history that seldom; what is newer is in the snapshot."""


@dataclass(frozen=True)
class _Week:
    config: Config = field(compare=False, repr=False)
    uri: str
    cluster: str
    end_s: int


def _past(week: _Week) -> RecordedPast | None:
    return recorded_week(week.config, week.cluster, ms_to_datetime(week.end_s * 1000))


_pasts = cached(_past, max_entries=16)


def _examination(key: tuple[CachedSnapshot, _Week]) -> Examination:
    stored, week = key
    one = reading(stored)
    try:
        past, pause_balancer = _pasts(week), ""
    except SnapshotError as error:
        past, pause_balancer = None, silence_words(error)
    found = examine(one.snapshot, one.settings, past, one.earlier_brokers)
    return replace(found, unjudged=(*found.unjudged, pause_balancer)) if pause_balancer else found


_examinations = cached(_examination, max_entries=16)


def examination(config: Config, cluster: str, stored: CachedSnapshot) -> Examination:
    """Return the doctor's examination of a saved snapshot, the minutes and the week before it."""
    taken_s = int(stored.taken_at.timestamp())
    week = _Week(config, config.history_uri, cluster, taken_s // _EVERY_S * _EVERY_S)
    return _examinations((stored, week))
