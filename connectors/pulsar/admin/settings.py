"""Active settings: running values of the brokers against defaults and dynamic overrides."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import pyarrow as pa

from core.errors import InputError
from core.pulsar.releases import Release
from core.pulsar.setting_values import parse_upstream_value
from core.pulsar.settings import SETTINGS, Setting
from core.schemas.pulsar import SETTINGS as SETTINGS_SCHEMA
from core.schemas.pulsar import STORED_PREFIX
from core.snapshot.znodes import ProblemLog
from core.snapshot.znodes.readings import CONFIGURATION

Runtime = Mapping[str, Mapping[str, str]]


def settings_table(
    runtime: Runtime,
    versions: Mapping[str, str | None],
    dynamic: Mapping[str, str],
    problems: ProblemLog,
) -> pa.Table:
    """Return the table of :data:`core.schemas.pulsar.SETTINGS`.

    Args:
        runtime: Broker id -> all its running values, as texts.
        versions: Broker id -> version, for the defaults of its release.
        dynamic: What ``/admin/configuration`` stores; brokers store anything and use what is valid.
        problems: Gets the stored values that no broker can use.
    """
    rows: list[dict[str, str | None]] = []
    for setting in SETTINGS:
        stored = dynamic.get(setting.key)
        usable = stored is None or _check(setting, stored, problems)
        effective = stored if usable else None
        origin_of: dict[tuple[str, Release], str] = {}  # a thousand brokers share a few values
        values: dict[str, tuple[str, str]] = {}
        for broker, own in runtime.items():
            text = own.get(setting.key)
            if text is not None:
                key = (text, Release.of(versions.get(broker)))
                if key not in origin_of:
                    origin_of[key] = _origin(setting, *key, effective)
                values[broker] = (text, origin_of[key])
        if values:
            rows += _rows(setting.key, values)
            if stored is not None and all(origin != "dynamic" for _, origin in values.values()):
                rows.append(_row(None, STORED_PREFIX + setting.key, stored, "stored"))
        elif stored is not None and usable:
            rows.append(_row(None, setting.key, stored, "dynamic"))
    rows += _others(runtime, dynamic)
    return pa.Table.from_pylist(rows, schema=SETTINGS_SCHEMA)


def _others(runtime: Runtime, dynamic: Mapping[str, str]) -> list[dict[str, str | None]]:
    """Return the stored values of other settings; ``stored``: no broker that answered has it."""
    others = dynamic.keys() - {setting.key for setting in SETTINGS}
    has = {name for own in runtime.values() for name in own}
    return [
        _row(None, STORED_PREFIX + name, dynamic[name], "stored")
        if runtime and name not in has
        else _row(None, name, dynamic[name], "dynamic")
        for name in sorted(others)
    ]


def _rows(key: str, values: Mapping[str, tuple[str, str]]) -> list[dict[str, str | None]]:
    """Return one row for the most common value and one for each broker that differs."""
    common = Counter(values.values()).most_common(1)[0][0]
    own = [_row(broker, key, *entry) for broker, entry in sorted(values.items()) if entry != common]
    return [_row(None, key, *common), *own]


def _row(broker: str | None, name: str, value: str, origin: str) -> dict[str, str | None]:
    return {"broker": broker, "name": name, "value": value, "origin": origin}


def _origin(setting: Setting, text: str, release: Release, stored: str | None) -> str:
    if stored is not None and _same(setting, text, stored):
        return "dynamic"
    default = setting.default_for(release)
    try:
        return "default" if parse_upstream_value(setting, text) == default else "file"
    except InputError:
        return "file"


def _same(setting: Setting, left: str, right: str) -> bool:
    try:
        return parse_upstream_value(setting, left) == parse_upstream_value(setting, right)
    except InputError:
        return left == right


def _check(setting: Setting, stored: str, problems: ProblemLog) -> bool:
    """Return whether brokers can use a stored value; a bool other than true or false is false."""
    try:
        parse_upstream_value(setting, stored)
    except InputError as exc:
        problems.add(
            "inconsistent",
            CONFIGURATION,
            f"Dynamic setting {exc.message.removeprefix('Setting ')}",
            done="Brokers store it and go on with the value they have; delete or correct it.",
            subject=setting.key,
        )
        return False
    if setting.kind == "bool" and stored.strip().lower() not in ("true", "false"):
        problems.add(
            "inconsistent",
            CONFIGURATION,
            f"Dynamic setting {setting.key} holds {stored!r}; brokers read that as false.",
            done="Write true or false.",
            subject=setting.key,
        )
    return True
