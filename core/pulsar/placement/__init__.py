"""Placement of bundles: filters, strategies, and the distribution over brokers they make."""

from core.pulsar.placement.model import Placement, PlacementMemory, PlacementTable
from core.pulsar.placement.place import (
    active_placement,
    place_all,
    place_bundle,
    placement_name,
)
from core.pulsar.placement.selectors import PAIRED_NAMES, STRATEGIES, STRATEGY_NAMES, find_strategy

__all__ = [
    "PAIRED_NAMES",
    "STRATEGIES",
    "STRATEGY_NAMES",
    "Placement",
    "PlacementMemory",
    "PlacementTable",
    "active_placement",
    "find_strategy",
    "place_all",
    "place_bundle",
    "placement_name",
]
