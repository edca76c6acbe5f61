"""The systems as the back-test page shows them."""

from __future__ import annotations

from typing import Final

from core.pegasus.system import PEGASUS
from core.pulsar.system import PULSAR
from dashboard.app_pages.backtest.system import BacktestPages
from dashboard.app_pages.pegasus.backtest.view import PEGASUS as PEGASUS_PAGES
from dashboard.app_pages.pulsar.backtest.view import PULSAR as PULSAR_PAGES

BACKTEST: Final[dict[str, BacktestPages]] = {PULSAR.name: PULSAR_PAGES, PEGASUS.name: PEGASUS_PAGES}
"""What a back-test tries, by the kind of the cluster."""
