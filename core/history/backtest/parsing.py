"""A grid as people write it: JSON in, a :class:`Grid` or one clear sentence out."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final

from core.errors import InputError, UnknownNameError
from core.history.backtest.model import NO_SHEDDING, OPTIMIZER, RECORDED, TARGETS, Grid, Target
from core.history.backtest.systems import check_fields, system_of
from core.pulsar.catalogue import Setting, Value
from core.pulsar.placement import find_strategy
from core.pulsar.plan.setting import check_value
from core.pulsar.setting_values import typed_value
from core.pulsar.settings import known_setting
from core.pulsar.shedding import find_shedding_strategy

_LONGEST_WINDOW_MINUTES: Final = 60 * 24 * 31
_MOST_SEEDS: Final = 1000
_BY_NAME: Final = {
    "loadBalancerLoadSheddingStrategy": "shedding",
    "loadBalancerLoadPlacementStrategy": "placement",
}
_POLICIES: Final = ("app", "cluster")


def parse_grid(text: str) -> Grid:
    """Return the grid that a JSON text describes.

    Raises:
        InputError: No JSON object, or a value that cannot be; the sentence names the key.
        UnknownNameError: A key, strategy, setting or target that nothing has.
    """
    try:
        values = json.loads(text)
    except (ValueError, RecursionError) as exc:
        raise InputError(
            f"The grid is not JSON: {exc}.", hint='Example: {"shedding": ["AvgShedder"]}.'
        ) from exc
    if not isinstance(values, dict):
        raise InputError(
            f"The grid is {_kind(values)}, not a JSON object.",
            hint='Example: {"shedding": ["AvgShedder"]}.',
        )
    return grid_of(values)


def with_target(grid: Grid, target_ratio: float | None) -> Grid:
    """Return a grid that is judged by the target of its cluster; ``None`` for the system's."""
    if target_ratio is None or target_ratio == grid.target.deviation:
        return grid
    target = replace(grid.target, name="cluster", deviation=target_ratio)
    return replace(grid, target=target)


def grid_of(values: Mapping[str, Any]) -> Grid:
    """Return the grid of a decoded JSON object; keys that are absent or null have their defaults.

    Raises:
        InputError: A value that cannot be.
        UnknownNameError: A key, strategy, setting or target that nothing has.
    """
    for key in values:
        if key not in _READERS:
            raise UnknownNameError.of("key", key, _READERS, place="the grid")
    read = {
        _FIELDS.get(key, key): _READERS[key](key, value)
        for key, value in values.items()
        if value is not None
    }
    grid = Grid(**read)
    if "target" not in read:
        grid = replace(grid, target=system_of(grid).target)
    if grid.start and grid.end and grid.start >= grid.end:
        raise InputError("The grid's `from` is not before its `to`.", hint="Swap `from` and `to`.")
    check_fields([name for name, value in read.items() if value])
    return grid


def grid_as_json(grid: Grid) -> dict[str, Any]:
    """Return the grid as :func:`grid_of` reads it; what is at its default is left out."""
    target: object = grid.target.name
    if TARGETS.get(grid.target.name) != grid.target:
        target = {
            "deviation": grid.target.deviation,
            "unloads_per_day": grid.target.unloads_per_day,
        }
    written = {
        "clusters": grid.clusters and list(grid.clusters),
        "from": grid.start and grid.start.isoformat(),
        "to": grid.end and grid.end.isoformat(),
        "settings": {key: list(tried) for key, tried in grid.settings.items()},
        "policies": list(grid.policies),
        "switches": {key: list(tried) for key, tried in grid.switches.items()},
        "seeds": list(grid.seeds),
        "window_minutes": grid.window_minutes,
        "target": target,
        "minute_s": grid.minute_s,
    }
    if "shedding" in system_of(grid).fields:
        written["shedding"] = [NO_SHEDDING if name is None else name for name in grid.shedding]
        written["placement"] = [RECORDED if name is None else name for name in grid.placement]
    return {key: value for key, value in written.items() if value not in (None, [], {})}


def _kind(value: object) -> str:
    names = {list: "a list", str: "a string", bool: "a boolean", dict: "an object"}
    return "null" if value is None else names.get(type(value), "a number")


def _list(key: str, value: object) -> list[Any]:
    """Return a non-empty list; one value stands for a list of it."""
    if isinstance(value, dict):
        raise InputError(f"`{key}` of the grid is an object, not a list.", hint="Use a list.")
    found = value if isinstance(value, list) else [value]
    if not found:
        raise InputError(
            f"`{key}` of the grid is empty.", hint="Omit it, or list at least one value."
        )
    return found


def _texts(key: str, value: object) -> tuple[str, ...]:
    found = _list(key, value)
    for item in found:
        if not isinstance(item, str) or not item.strip():
            raise InputError(
                f"`{key}` of the grid contains {_kind(item)} instead of a name.",
                hint="Use a list of names.",
            )
    return tuple(dict.fromkeys(found))


def _moment(key: str, value: object) -> datetime:
    try:
        moment = datetime.fromisoformat(str(value))
    except ValueError as exc:
        raise InputError(
            f"`{key}` of the grid is not a time: {value!r}.",
            hint="Use the form 2026-11-21T14:00:00Z.",
        ) from exc
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def _shedding(key: str, value: object) -> tuple[str | None, ...]:
    named = ["none" if item is None else item for item in _list(key, value)]
    return tuple(
        dict.fromkeys(_strategy(name, find_shedding_strategy) for name in _texts(key, named))
    )


def _strategy(name: str, find: Callable[[str], Any]) -> str | None:
    if name == NO_SHEDDING:
        return None
    return name if name in (RECORDED, OPTIMIZER) else str(find(name).name)


def _placement(key: str, value: object) -> tuple[str | None, ...]:
    named = [RECORDED if item is None else item for item in _list(key, value)]
    return tuple(
        dict.fromkeys(
            None if name == RECORDED else find_strategy(name).name for name in _texts(key, named)
        )
    )


def _settings(key: str, value: object) -> dict[str, tuple[object, ...]]:
    found: dict[str, tuple[object, ...]] = {}
    for name, values in _object(key, value).items():
        if name in _BY_NAME:
            raise InputError(
                f"{name} is not a setting of the grid.",
                hint=f"List the classes under `{_BY_NAME[name]}`.",
            )
        setting = known_setting(name)
        many = _list(f"{key}.{name}", values)
        if setting.kind == "names" and not any(isinstance(one, list) for one in many):
            many = [many]  # one value, which is a list itself
        found[name] = tuple(dict.fromkeys(_in_range(setting, one) for one in many))
    return found


def _in_range(setting: Setting, value: object) -> Value:
    """Return the typed value, by the checks of ``trimtab set``.

    Raises:
        InputError: Brokers would not take it, or do nonsense with it.
    """
    typed = typed_value(setting, value)
    if typed is None:
        return typed
    text = ",".join(typed) if isinstance(typed, tuple) else json.dumps(typed).strip('"')
    for finding in check_value(setting, text):
        if finding.severity == "error":
            raise InputError(finding.sentence, hint=finding.hint, key=setting.key)
    return typed


def _object(key: str, value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InputError(
            f"`{key}` of the grid is {_kind(value)}.",
            hint="Use an object that maps a setting name to a list of values.",
        )
    return value


def _switches(key: str, value: object) -> dict[str, tuple[object, ...]]:
    return {
        name: tuple(dict.fromkeys(_list(f"{key}.{name}", values)))
        for name, values in _object(key, value).items()
    }


def _policies(key: str, value: object) -> tuple[str, ...]:
    names = _texts(key, value)
    for name in names:
        if name not in _POLICIES:
            raise UnknownNameError.of("policy", name, _POLICIES, place="the grid")
    return names


def _seeds(key: str, value: object) -> tuple[int, ...]:
    found = _list(key, value)
    if any(isinstance(seed, bool) or not isinstance(seed, int) or seed < 0 for seed in found):
        raise InputError(
            f"`{key}` of the grid contains a value that is not a whole number of 0 or more.",
            hint="Example: [1, 2, 3].",
        )
    if len(found) > _MOST_SEEDS:
        raise InputError(
            f"`{key}` of the grid has {len(found):,} seeds.", hint=f"Use at most {_MOST_SEEDS}."
        )
    return tuple(dict.fromkeys(found))


def _number(key: str, value: object, least: float, most: float) -> float:
    number = float(value) if isinstance(value, int | float) else float("nan")
    if isinstance(value, bool) or not least <= number <= most:
        raise InputError(
            f"`{key}` of the grid is {value!r}.", hint=f"Use a number from {least:g} to {most:g}."
        )
    return number


def _window_minutes(key: str, value: object) -> int:
    return int(_number(key, value, 2, _LONGEST_WINDOW_MINUTES))


def _minute_s(key: str, value: object) -> float:
    return _number(key, value, 0.001, 86_400)


def _target(key: str, value: object) -> Target:
    if isinstance(value, str):
        if value not in TARGETS:
            raise UnknownNameError.of("target", value, TARGETS, place="the grid")
        return TARGETS[value]
    own = _object(key, value)
    for name in own:
        if name not in ("deviation", "unloads_per_day"):
            raise UnknownNameError.of(
                "key", name, ("deviation", "unloads_per_day"), place=f"`{key}` of the grid"
            )
    preset = TARGETS["vivo"]
    return Target(
        name="own",
        deviation=_number(f"{key}.deviation", own.get("deviation", preset.deviation), 0, 1e6),
        unloads_per_day=_number(
            f"{key}.unloads_per_day", own.get("unloads_per_day", preset.unloads_per_day), 0, 1e9
        ),
    )


_FIELDS: Final = {"from": "start", "to": "end"}
_READERS: Final[Mapping[str, Callable[[str, object], Any]]] = {
    "clusters": _texts,
    "from": _moment,
    "to": _moment,
    "shedding": _shedding,
    "placement": _placement,
    "settings": _settings,
    "policies": _policies,
    "switches": _switches,
    "seeds": _seeds,
    "window_minutes": _window_minutes,
    "target": _target,
    "minute_s": _minute_s,
}
