"""Declared Arrow schemas, the unit of each column in its metadata, and :func:`conform`."""

from core.schemas.conform import conform, empty
from core.schemas.pulsar import PULSAR_TABLES

__all__ = ["PULSAR_TABLES", "conform", "empty"]
