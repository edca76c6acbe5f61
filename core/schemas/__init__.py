"""Declared Arrow schemas, the unit of each column in its metadata, and :func:`conform`."""

from core.schemas.conform import conform, empty
from core.schemas.pulsar import OPTIONAL_TABLES, PULSAR_TABLES

__all__ = ["OPTIONAL_TABLES", "PULSAR_TABLES", "conform", "empty"]
