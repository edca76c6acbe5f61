"""The systems as the page of a run shows them."""

from __future__ import annotations

from typing import Final

from core.pegasus.system import PEGASUS
from core.pulsar.system import PULSAR
from dashboard.app_pages.pegasus.run import PEGASUS as PEGASUS_PAGES
from dashboard.app_pages.pulsar.run.view import PULSAR as PULSAR_PAGES
from dashboard.app_pages.run.system import OutcomeSystem

OUTCOME: Final[dict[str, OutcomeSystem]] = {PULSAR.name: PULSAR_PAGES, PEGASUS.name: PEGASUS_PAGES}
"""What a run achieved against its prediction, by the kind of the cluster."""
