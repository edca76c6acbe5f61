"""How each kind of step is executed on a Pulsar cluster: :data:`ACTIONS`, one line a kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from connectors.pulsar.actions.policy import PolicyAction
from connectors.pulsar.actions.setting import SettingAction
from connectors.pulsar.actions.split import split_action
from connectors.pulsar.actions.unload import unload_action
from core.actions.ports import Action
from core.pulsar.steps.policy import SetPolicy
from core.pulsar.steps.setting import SetDynamicSetting
from core.pulsar.steps.split import SplitBundle
from core.pulsar.steps.unload import UnloadBundle
from core.step import Step

ACTIONS: Final[Mapping[type[Step], Callable[[Any, Any], Action]]] = {
    UnloadBundle: unload_action,
    SplitBundle: split_action,
    SetDynamicSetting: SettingAction,
    SetPolicy: PolicyAction,
}
