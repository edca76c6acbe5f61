"""The registry of step kinds: everything that Trimtab can do to a cluster.

A kind is a module in ``core/<system>/steps``. Neutral code asks a step what
:class:`core.step.StepBase` declares.
"""

from __future__ import annotations

from typing import get_args

from core.pegasus.steps.base import PegasusStep
from core.pegasus.steps.batch import ProposeMany
from core.pegasus.steps.change import ChangeReplica
from core.pegasus.steps.close import CloseReplicas
from core.pegasus.steps.level import SetMetaLevel
from core.pegasus.steps.move import MoveReplica
from core.pegasus.steps.setting import SetServerSetting
from core.pegasus.steps.wait import AwaitState
from core.pulsar.steps.base import PulsarStep
from core.pulsar.steps.policy import SetPolicy
from core.pulsar.steps.setting import SetDynamicSetting
from core.pulsar.steps.split import SplitBundle
from core.pulsar.steps.unload import UnloadBundle
from core.step import StepBase

__all__ = [
    "STEP_TYPES",
    "PegasusStep",
    "PulsarStep",
    "Step",
]


# one line a kind; in this order the steps of a plan are counted
Step = (
    UnloadBundle
    | SplitBundle
    | SetDynamicSetting
    | SetPolicy
    | SetMetaLevel
    | MoveReplica
    | ChangeReplica
    | ProposeMany
    | CloseReplicas
    | SetServerSetting
    | AwaitState
)
"""Every step type there is."""

STEP_TYPES: tuple[type[StepBase], ...] = get_args(Step)
