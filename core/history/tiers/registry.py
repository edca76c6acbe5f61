"""Which systems have tiers, and the tables of all of them."""

from __future__ import annotations

from typing import Final

from core.history.store.layout import Kinds
from core.history.store.store import HistoryStore
from core.history.store.tables import Tables
from core.history.tiers.model import profile_kind, tier_kind
from core.history.tiers.pegasus import PEGASUS_TIERS
from core.history.tiers.pulsar import PULSAR_TIERS

SYSTEM_TIERS: Final = {one.system: one for one in (PULSAR_TIERS, PEGASUS_TIERS)}

HOURS: Final = tier_kind("hours", tuple(SYSTEM_TIERS.values()))
DAYS: Final = tier_kind("days", tuple(SYSTEM_TIERS.values()))
PROFILES: Final = profile_kind("profiles", tuple(SYSTEM_TIERS.values()))
TIERS: Final = (HOURS, DAYS, PROFILES)

FORMAT: Final = 1
"""Part of every revision: a step that computes something else gets another one, and what minutes
are still there for is then computed again."""


def tier_tables(store: HistoryStore) -> Tables:
    """Return the tables of the tiers: ``<history>/tiers/hours``, ``.../days``, ``.../profiles``."""
    location = store.location
    return Tables(f"{location.uri.rstrip('/')}/tiers", location.options, Kinds((), TIERS))
