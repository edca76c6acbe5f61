"""Plans that set the level or a setting of a Pegasus cluster, each made once a request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from core.pegasus.plan.build import level_plan, setting_plan
from core.plan.model import Plan
from core.plan.options import PlanOptions
from core.snapshot.store import Shelved
from dashboard import services
from dashboard.memo import Memo
from dashboard.reading_pegasus import pegasus_reading

_RENEW_AFTER_S: Final = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelRequest:
    """A level that somebody wants; equal requests on the same snapshot have the same plan.

    Attributes:
        shelved: The snapshot.
        level: One of the five words.
    """

    shelved: Shelved
    level: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettingRequest:
    """A setting that somebody wants.

    Attributes:
        shelved: The snapshot.
        key: Upstream's.
        value: As written.
    """

    shelved: Shelved
    key: str
    value: str


def level_plan_of(request: LevelRequest) -> Plan:
    """Return the plan that sets a level; made anew before it expires."""
    return _levels((request, _period()))


def server_setting_plan_of(request: ServerSettingRequest) -> Plan:
    """Return the plan that changes a setting; made anew before it expires.

    Raises:
        InputError: The setting does not take the value.
        UnknownNameError: There is no such setting.
    """
    return _settings((request, _period()))


def _period() -> int:
    return int(services.now().timestamp()) // _RENEW_AFTER_S


def _level(key: tuple[LevelRequest, int]) -> Plan:
    request, _ = key
    terms = PlanOptions(now=services.now(), reason="The level switch of the Cluster page")
    return level_plan(pegasus_reading(request.shelved).snapshot, request.level, terms)


def _setting(key: tuple[ServerSettingRequest, int]) -> Plan:
    request, _ = key
    terms = PlanOptions(now=services.now(), reason="The settings of the Cluster page")
    snapshot = pegasus_reading(request.shelved).snapshot
    return setting_plan(snapshot, request.key, request.value, terms)


_levels = Memo(_level, max_entries=32)
_settings = Memo(_setting, max_entries=32)
