"""Declared Arrow schemas, the unit of each column in its metadata, and :func:`conform`."""

from core.schemas.conform import conform, empty
from core.schemas.pulsar import ADDED_LATER, METRIC_TABLES, OPTIONAL_TABLES, PULSAR_TABLES

__all__ = ["ADDED_LATER", "METRIC_TABLES", "OPTIONAL_TABLES", "PULSAR_TABLES", "conform", "empty"]
