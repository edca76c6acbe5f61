"""The kinds of steps on a Pegasus cluster: :data:`STEPS`, one line a kind."""

from __future__ import annotations

from typing import Final

from core.pegasus.steps.batch import ProposeMany
from core.pegasus.steps.change import ChangeReplica
from core.pegasus.steps.close import CloseReplicas
from core.pegasus.steps.level import SetMetaLevel
from core.pegasus.steps.move import MoveReplica
from core.pegasus.steps.setting import SetServerSetting
from core.pegasus.steps.wait import AwaitState
from core.step import StepBase

STEPS: Final[tuple[type[StepBase], ...]] = (
    SetMetaLevel,
    MoveReplica,
    ChangeReplica,
    ProposeMany,
    CloseReplicas,
    SetServerSetting,
    AwaitState,
)
"""In the order in which the steps of a plan are counted."""
