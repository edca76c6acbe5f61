"""The systems that Trimtab knows: the one list of them."""

from __future__ import annotations

from typing import Any, Final

from core.pegasus.system import PEGASUS
from core.plan.registry import StepRegistry
from core.pulsar.system import PULSAR
from core.system import System

SYSTEMS: Final[tuple[System[Any], ...]] = (PULSAR, PEGASUS)

STEPS: Final = StepRegistry(kind for system in SYSTEMS for kind in system.steps)
"""Every kind of step of every system."""
