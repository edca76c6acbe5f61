"""The systems as the fleet page shows them, in the order of its sections."""

from __future__ import annotations

from typing import Final

from core.pegasus.system import PEGASUS
from core.pulsar.system import PULSAR
from dashboard.app_pages.fleet.system import FleetPageSystem
from dashboard.app_pages.pegasus.fleet.view import PEGASUS as PEGASUS_PAGES
from dashboard.app_pages.pulsar.fleet.view import PULSAR as PULSAR_PAGES

FLEET: Final[dict[str, FleetPageSystem]] = {PULSAR.name: PULSAR_PAGES, PEGASUS.name: PEGASUS_PAGES}
"""What the fleet overview shows, by the kind of the cluster, in the order of its sections."""
