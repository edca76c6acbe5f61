"""The one table of settings: key, type, unit, defaults per release, label, range, meaning.

Those of the load balancer, and those that advice about a cluster depends on.
"""

from typing import Final

from core.pulsar.catalogue.bundles import BUNDLE_SETTINGS
from core.pulsar.catalogue.model import Extremes, Range, Setting, Value
from core.pulsar.catalogue.placement import PLACEMENT_SETTINGS
from core.pulsar.catalogue.reports import REPORT_SETTINGS
from core.pulsar.catalogue.shedding import SHEDDING_SETTINGS
from core.pulsar.catalogue.storage import STORAGE_SETTINGS

SETTINGS: Final[tuple[Setting, ...]] = (
    *REPORT_SETTINGS,
    *PLACEMENT_SETTINGS,
    *SHEDDING_SETTINGS,
    *BUNDLE_SETTINGS,
    *STORAGE_SETTINGS,
)

__all__ = ["SETTINGS", "Extremes", "Range", "Setting", "Value"]
