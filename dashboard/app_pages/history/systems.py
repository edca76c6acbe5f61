"""The systems as the History page shows them."""

from __future__ import annotations

from typing import Final

from core.pegasus.system import PEGASUS
from core.pulsar.system import PULSAR
from dashboard.app_pages.history.system import HistorySystem
from dashboard.app_pages.pegasus.history import PEGASUS as PEGASUS_PAGES
from dashboard.app_pages.pulsar.history import PULSAR as PULSAR_PAGES

HISTORY: Final[dict[str, HistorySystem]] = {PULSAR.name: PULSAR_PAGES, PEGASUS.name: PEGASUS_PAGES}
"""What the History page shows, by the kind of the cluster."""
