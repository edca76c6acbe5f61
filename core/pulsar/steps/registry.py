"""The kinds of steps on a Pulsar cluster: :data:`STEPS`, one line a kind."""

from __future__ import annotations

from typing import Final

from core.pulsar.steps.policy import SetPolicy
from core.pulsar.steps.setting import SetDynamicSetting
from core.pulsar.steps.split import SplitBundle
from core.pulsar.steps.unload import UnloadBundle
from core.step import StepBase

STEPS: Final[tuple[type[StepBase], ...]] = (
    UnloadBundle,
    SplitBundle,
    SetDynamicSetting,
    SetPolicy,
)
"""In the order in which the steps of a plan are counted."""
