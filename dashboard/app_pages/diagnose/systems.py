"""The systems as the Diagnose page shows them."""

from __future__ import annotations

from typing import Final

from core.pegasus.system import PEGASUS
from core.pulsar.system import PULSAR
from dashboard.app_pages.diagnose.system import DiagnoseSystem
from dashboard.app_pages.pegasus.diagnose.view import PEGASUS as PEGASUS_PAGES
from dashboard.app_pages.pulsar.diagnose.view import PULSAR as PULSAR_PAGES

DIAGNOSE: Final[dict[str, DiagnoseSystem]] = {
    PULSAR.name: PULSAR_PAGES,
    PEGASUS.name: PEGASUS_PAGES,
}
"""What leads on from a cause, by the kind of the cluster."""
