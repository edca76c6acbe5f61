"""Znodes of Pulsar's load balancing to the tables of a snapshot: pure, and never raising.

Whatever a znode holds, the tables are made: what cannot be read is null, and a problem that names
the path and the field.
"""

from core.pulsar.snapshot.znodes.assemble import SnapshotTables, assemble
from core.pulsar.snapshot.znodes.readings import Readings

__all__ = ["Readings", "SnapshotTables", "assemble"]
