"""What the settings of a Pegasus cluster show: value, origin, default and meaning."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pandas as pd

from core.pegasus.server_settings import CHANGEABLE, value_before
from core.pegasus.settings import SERVER_SETTINGS, ServerSetting
from core.pegasus.snapshot import PegasusFacts
from dashboard.presenters.naming import UNKNOWN

ORIGINS: Final = {
    "command": "remote command",
    "flag": "flag of the leader",
    "cluster": "cluster info",
}
EMPTY: Final = "(empty)"
ALL_SETTINGS: Final = (
    *SERVER_SETTINGS,
    *(one.setting for one in CHANGEABLE if one.whose == "replica"),
)
"""Of the leading meta server, then of the replica servers."""

SETTING_BY_KEY: Final = {setting.key: setting for setting in ALL_SETTINGS}
_INFO_ORDER: Final = (
    "cluster_name",
    "primary_meta_server",
    "meta_servers",
    "zookeeper_hosts",
    "zookeeper_root",
    "meta_function_level",
    "balance_operation_count",
    "primary_replica_count_stddev",
    "total_replica_count_stddev",
)


def shown(text: str | None) -> str:
    """Return a value as people read it."""
    return UNKNOWN if text is None else text or EMPTY


def settings_frame(facts: PegasusFacts) -> pd.DataFrame:
    """Return one row a setting; what was not told is unknown, never its default."""
    origins, values = origins_of(facts), values_of(facts)
    return pd.DataFrame(
        [
            {
                "key": setting.key,
                "value": shown(values[setting.key]),
                "mark": _mark(setting, values),
                "default": shown(setting.default),
                "origin": _origin(setting, values, origins),
                "meaning": f"{setting.meaning} {setting.note}".strip(),
            }
            for setting in ALL_SETTINGS
        ]
    )


def values_of(facts: PegasusFacts) -> dict[str, str | None]:
    """Return what every setting is, by its key; ``None``: unknown."""
    told: dict[str, str | None] = {
        setting.key: facts.snapshot.settings.get(setting.name) for setting in SERVER_SETTINGS
    }
    return told | {one.key: value_before(one, facts) for one in CHANGEABLE}


def _origin(
    setting: ServerSetting, values: Mapping[str, str | None], origins: Mapping[str, str]
) -> str:
    if values[setting.key] is None:
        return UNKNOWN
    return ORIGINS.get(origins.get(setting.name, ""), "every living node")


def origins_of(facts: PegasusFacts) -> dict[str, str]:
    """Return where every setting was read, by name."""
    table = facts.snapshot.tables["settings"]
    names, origins = table["name"].to_pylist(), table["origin"].to_pylist()
    return dict(zip(names, origins, strict=True))


def _mark(setting: ServerSetting, values: Mapping[str, str | None]) -> str:
    value = values[setting.key]
    if value is None:
        return "? unknown"
    return "default" if value == setting.default else "● changed"


def settings_sentence(facts: PegasusFacts) -> str:
    """Return how many settings are not their defaults, and how many are unknown."""
    values = values_of(facts)
    marks = [_mark(setting, values) for setting in ALL_SETTINGS]
    changed, unknown = marks.count("● changed"), marks.count("? unknown")
    rest = f", {unknown} could not be read" if unknown else ""
    return f"{changed} of {len(marks)} are not the compiled default{rest}."


def info_table(facts: PegasusFacts) -> dict[str, str]:
    """Return what ``cluster_info`` prints, in its order; what was not told is unknown."""
    told = facts.snapshot.settings
    return {key: told.get(key) or UNKNOWN for key in _INFO_ORDER}
