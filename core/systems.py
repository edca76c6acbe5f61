"""The systems that Trimtab knows: the one list of them."""

from __future__ import annotations

from typing import Final

from core.pegasus.steps.registry import STEPS as PEGASUS_STEPS
from core.plan.registry import StepRegistry
from core.pulsar.steps.registry import STEPS as PULSAR_STEPS

STEPS: Final = StepRegistry((*PULSAR_STEPS, *PEGASUS_STEPS))
"""Every kind of step of every system."""
