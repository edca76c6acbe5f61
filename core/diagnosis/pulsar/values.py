"""Values of a setting that are worth a trial."""

from __future__ import annotations

from typing import Any, Final

from core.pulsar.catalogue import Setting
from core.pulsar.placement import STRATEGY_NAMES, find_strategy
from core.pulsar.settings import SETTING_BY_KEY, EffectiveSettings
from core.pulsar.shedding import strategies_run_by
from core.pulsar.shedding.registry import upstream_class
from core.pulsar.view import LoadView

_PLACEMENT: Final = "loadBalancerLoadPlacementStrategy"
_SHEDDING: Final = "loadBalancerLoadSheddingStrategy"

_PARTS: Final = (0.3, 0.5, 0.75)
"""Of the path from the present value to an end; the end itself is no value to run a cluster by."""

_ZERO: Final = (
    "minUnloadMessage",
    "minUnloadMessageThroughput",
    "loadBalancerBundleUnloadMinThroughputThreshold",
    "loadBalancerMsgRateDifferenceShedderThreshold",
    "loadBalancerMsgThroughputMultiplierDifferenceShedderThreshold",
)
"""Settings of which 0 switches a condition off."""

_BUNDLES_A_ROUND: Final = "maxUnloadBundleNumPerShedding"
_COUNTS: Final = (1, 4, 10, 40)

_MULTIPLES: Final = (2.0, 4.0, 10.0)
"""Of the present value, where an end is out of all proportion."""

_VAST: Final = 50.0
"""An end so many times the present value is out of all proportion."""

UNTRIED: Final = frozenset(
    {
        "loadBalancerEnabled",
        "loadBalancerSheddingEnabled",
        "loadManagerClassName",
        "loadBalancerDebugModeEnabled",
        "loadBalancerHostUsageCheckIntervalMinutes",
        "topicBundleAssignmentStrategy",
    }
)
"""Settings of which another value is no remedy for uneven load; switches have their own pattern."""


def alternatives(key: str, settings: EffectiveSettings, view: LoadView) -> tuple[Any, ...]:
    """Return other values of a setting, the nearest to the present one first.

    Args:
        key: Upstream key.
        settings: The active ones.
        view: Of the cluster, for its load manager.
    """
    setting = SETTING_BY_KEY[key]
    if key in UNTRIED or not setting.exists_in(settings.target):
        return ()
    if key in (_SHEDDING, _PLACEMENT):
        return _classes(key, settings, view)
    if setting.kind == "bool":
        return (not settings.flag(key),)
    if key == _BUNDLES_A_ROUND:
        return tuple(count for count in _COUNTS if count != settings.number(key))
    if setting.kind == "names":
        return ((),) if settings.names(key) else ()
    return _numbers(setting, settings.number(key)) if setting.kind in ("int", "float") else ()


def calmer_value(key: str, settings: EffectiveSettings) -> float | int | None:
    """Return a value of a numeric setting with which less moves, half way to its idle end.

    Args:
        key: Upstream key.
        settings: The active ones.
    Returns:
        ``None`` where the setting is no number, has no idle end, or is at it.
    """
    setting = SETTING_BY_KEY[key]
    if setting.kind not in ("int", "float") or setting.extremes is None:
        return None
    present, idle = settings.number(key), float(setting.extremes.idle)
    if setting.range is not None:
        idle = min(max(idle, setting.range.min), setting.range.max)
    is_vast = abs(idle) > _VAST * max(abs(present), 1.0)
    value = present * _MULTIPLES[0] if is_vast else present + (idle - present) / 2
    typed = round(value) if setting.kind == "int" else round(value, 4)
    return None if typed == present or not setting.exists_in(settings.target) else typed


def _classes(key: str, settings: EffectiveSettings, view: LoadView) -> tuple[str, ...]:
    present = settings.text(key).rpartition(".")[2]
    if key == _SHEDDING:
        names = [one.name for one in strategies_run_by(view.load_manager)]
        return tuple(
            upstream_class(name)
            for name in names
            if name != present and settings.target.has_class(name)
        )
    if view.load_manager == "extensible":
        return ()
    return tuple(
        upstream_class(find_strategy(name).name)
        for name in STRATEGY_NAMES
        if name != present and settings.target.has_class(name)
    )


def _numbers(setting: Setting, present: float) -> tuple[float | int, ...]:
    found: list[float] = []
    for end in _ends(setting, present):
        if abs(end) > _VAST * max(abs(present), 1.0):
            found += [present * times for times in _MULTIPLES if present > 0]
        else:
            found += [present + (end - present) * part for part in _PARTS]
    if setting.key in _ZERO:
        found.append(0.0)
    if setting.unit == "percentage points" and present > 1:
        found.append(1.0)
    whole = setting.kind == "int"
    typed = [round(value) if whole else round(value, 4) for value in found]
    return tuple(value for value in dict.fromkeys(typed) if value != present)


def _ends(setting: Setting, present: float) -> tuple[float, ...]:
    if setting.extremes is not None:
        ends = setting.extremes.eager, setting.extremes.idle
        if setting.range is None:
            return ends
        return tuple(min(max(end, setting.range.min), setting.range.max) for end in ends)
    if setting.unit == "ratio" and present <= 1.0:
        return 0.0, 1.0
    if setting.key.endswith("Weight"):
        return (0.0,) if present else (1.0,)
    return 0.0, present * _VAST * 2
