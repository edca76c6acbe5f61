"""Znodes of Pulsar's load balancing to the tables of a snapshot: pure, and never raising.

Whatever a znode holds, the tables are made: what cannot be read is null, and a problem that names
the path and the field.
"""

from core.snapshot.znodes.assemble import Assembled, assemble
from core.snapshot.znodes.problems import ProblemLog
from core.snapshot.znodes.readings import Readings

__all__ = ["Assembled", "ProblemLog", "Readings", "assemble"]
