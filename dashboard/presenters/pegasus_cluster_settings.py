"""What the settings of a Pegasus cluster show: value, origin, default and meaning."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pandas as pd

from core.pegasus.settings import SERVER_SETTINGS, ServerSetting
from core.pegasus.snapshot import PegasusFacts
from dashboard.presenters.naming import UNKNOWN

ORIGINS: Final = {
    "command": "remote command",
    "flag": "flag of the leader",
    "cluster": "cluster info",
}
EMPTY: Final = "(empty)"
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
    origins = origins_of(facts)
    told = facts.snapshot.settings
    return pd.DataFrame(
        [
            {
                "key": setting.key,
                "value": shown(told.get(setting.name)),
                "mark": _mark(setting, told),
                "default": shown(setting.default),
                "origin": ORIGINS.get(origins.get(setting.name, ""), UNKNOWN),
                "meaning": f"{setting.meaning} {setting.note}".strip(),
            }
            for setting in SERVER_SETTINGS
        ]
    )


def origins_of(facts: PegasusFacts) -> dict[str, str]:
    """Return where every setting was read, by name."""
    table = facts.snapshot.tables["settings"]
    names, origins = table["name"].to_pylist(), table["origin"].to_pylist()
    return dict(zip(names, origins, strict=True))


def _mark(setting: ServerSetting, told: Mapping[str, str]) -> str:
    value = told.get(setting.name)
    if value is None:
        return "? unknown"
    return "default" if value == setting.default else "● changed"


def settings_sentence(facts: PegasusFacts) -> str:
    """Return how many settings are not their defaults, and how many are unknown."""
    told = facts.snapshot.settings
    marks = [_mark(setting, told) for setting in SERVER_SETTINGS]
    changed, unknown = marks.count("● changed"), marks.count("? unknown")
    rest = f", {unknown} could not be read" if unknown else ""
    return f"{changed} of {len(marks)} are not the compiled default{rest}."


def shell_line(setting: ServerSetting, value: str) -> str:
    """Return the line that does the same by hand."""
    if setting.how == "flag":
        return f"curl 'http://<leading meta server>/updateConfig?{setting.key}={value}'"
    words = {"tables": f"set {value}" if value else "clear", "nodes": value or "clear"}
    return f"remote_command -t meta-server {setting.key} {words.get(setting.kind, value)}"


def info_table(facts: PegasusFacts) -> dict[str, str]:
    """Return what ``cluster_info`` prints, in its order; what was not told is unknown."""
    told = facts.snapshot.settings
    return {key: told.get(key) or UNKNOWN for key in _INFO_ORDER}
