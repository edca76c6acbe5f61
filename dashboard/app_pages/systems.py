"""The systems that the pages about every cluster know: the one list of them."""

from __future__ import annotations

from typing import Final

from core.pegasus.system import PEGASUS
from core.pulsar.system import PULSAR
from dashboard.app_pages.backtest.system import BacktestPages
from dashboard.app_pages.diagnose.system import DiagnoseSystem
from dashboard.app_pages.fleet.system import FleetSystem
from dashboard.app_pages.history.system import HistorySystem
from dashboard.app_pages.pegasus.backtest.view import PEGASUS as PEGASUS_BACKTEST
from dashboard.app_pages.pegasus.diagnose.view import PEGASUS as PEGASUS_DIAGNOSE
from dashboard.app_pages.pegasus.fleet.view import PEGASUS as PEGASUS_FLEET
from dashboard.app_pages.pegasus.history import PEGASUS as PEGASUS_HISTORY
from dashboard.app_pages.pegasus.run import PEGASUS as PEGASUS_OUTCOME
from dashboard.app_pages.pulsar.backtest.view import PULSAR as PULSAR_BACKTEST
from dashboard.app_pages.pulsar.diagnose.view import PULSAR as PULSAR_DIAGNOSE
from dashboard.app_pages.pulsar.fleet.view import PULSAR as PULSAR_FLEET
from dashboard.app_pages.pulsar.history import PULSAR as PULSAR_HISTORY
from dashboard.app_pages.pulsar.run.view import PULSAR as PULSAR_OUTCOME
from dashboard.app_pages.run.system import OutcomeSystem

FLEET: Final[dict[str, FleetSystem]] = {PULSAR.name: PULSAR_FLEET, PEGASUS.name: PEGASUS_FLEET}
"""What the fleet overview shows, by the kind of the cluster, in the order of its sections."""

HISTORY: Final[dict[str, HistorySystem]] = {
    PULSAR.name: PULSAR_HISTORY,
    PEGASUS.name: PEGASUS_HISTORY,
}
"""What the History page shows, by the kind of the cluster."""

BACKTEST: Final[dict[str, BacktestPages]] = {
    PULSAR.name: PULSAR_BACKTEST,
    PEGASUS.name: PEGASUS_BACKTEST,
}
"""What a back-test tries, by the kind of the cluster."""

DIAGNOSE: Final[dict[str, DiagnoseSystem]] = {
    PULSAR.name: PULSAR_DIAGNOSE,
    PEGASUS.name: PEGASUS_DIAGNOSE,
}
"""What leads on from a cause, by the kind of the cluster."""

OUTCOME: Final[dict[str, OutcomeSystem]] = {
    PULSAR.name: PULSAR_OUTCOME,
    PEGASUS.name: PEGASUS_OUTCOME,
}
"""What a run achieved against its prediction, by the kind of the cluster."""
