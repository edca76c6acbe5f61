"""How each kind of step is executed on a Pegasus cluster: :data:`ACTIONS`, one line a kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from connectors.pegasus.actions.batch import BatchAction
from connectors.pegasus.actions.change import ChangeAction
from connectors.pegasus.actions.close import CloseAction
from connectors.pegasus.actions.level import LevelAction
from connectors.pegasus.actions.move import MoveAction
from connectors.pegasus.actions.setting import SettingAction
from connectors.pegasus.actions.wait import await_action
from core.actions.ports import Action
from core.pegasus.steps.batch import ProposeMany
from core.pegasus.steps.change import ChangeReplica
from core.pegasus.steps.close import CloseReplicas
from core.pegasus.steps.level import SetMetaLevel
from core.pegasus.steps.move import MoveReplica
from core.pegasus.steps.setting import SetServerSetting
from core.pegasus.steps.wait import AwaitState
from core.step import Step

ACTIONS: Final[Mapping[type[Step], Callable[[Any, Any], Action]]] = {
    SetMetaLevel: LevelAction,
    MoveReplica: MoveAction,
    ChangeReplica: ChangeAction,
    ProposeMany: BatchAction,
    CloseReplicas: CloseAction,
    SetServerSetting: SettingAction,
    AwaitState: await_action,
}
