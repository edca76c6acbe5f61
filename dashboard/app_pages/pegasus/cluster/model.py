"""Texts and tables of the Cluster page: levels, one node, and the settings of the servers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
import pandas as pd
import pyarrow.compute as pc

from core.pegasus.levels import ALLOWANCES, FunctionLevel, clears_proposals
from core.pegasus.server_settings import CHANGEABLE, value_before
from core.pegasus.settings import SERVER_SETTINGS, ServerSetting
from core.pegasus.snapshot import PegasusFacts
from dashboard.presenters.naming import UNKNOWN
from dashboard.presenters.pegasus.cluster import word_of

__all__ = [
    "allowances_frame",
    "change_sentences",
    "level_remarks",
    "may_clear",
    "shell_line",
    "step_label",
    "word_of",
]

_ABILITIES: Final = {
    "records_dead_primaries": "records dead primaries",
    "accepts_updates": "accepts changes, creates tables",
    "cures": "repairs partitions, sends proposals",
    "counts_balance": "counts what balancing would do",
    "balances": "balances",
    "deletes_replicas": "deletes replicas of no use",
}
NOT_PERSISTED: Final = (
    "The level is not persistent: when another meta server takes over, it is steady again."
)


def allowances_frame(facts: PegasusFacts) -> pd.DataFrame:
    """Return one row an ability, a column a level; the stored and effective ones are marked."""
    return pd.DataFrame(
        {
            "allows": [label.capitalize() for label in _ABILITIES.values()],
            **{
                step_label(facts, level): [
                    "✔ yes" if getattr(ALLOWANCES[level], name) else "no" for name in _ABILITIES
                ]
                for level in FunctionLevel
            },
        }
    )


def level_remarks(facts: PegasusFacts) -> list[str]:
    """Return what must be known about the levels of this cluster."""
    stored, effective = facts.stored_level, facts.effective_level
    found = []
    if stored is not None and effective is not None and stored is not effective:
        found.append(
            f"`{stored.word}` is stored and `{effective.word}` is effective: too few nodes are "
            "alive, so the meta server protects itself until they are back."
        )
    found.append(
        "Setting steady or a lower level, even the one that is stored, discards every pending "
        "proposal of every table."
    )
    found.append(NOT_PERSISTED)
    return found


def change_sentences(facts: PegasusFacts, wanted: FunctionLevel) -> list[str]:
    """Return what would change if another level were stored, a sentence each."""
    stored = facts.stored_level
    found = [f"The stored level becomes {wanted.word}; it is {word_of(stored)}."]
    found.append(ALLOWANCES[wanted].sentence)
    if stored is not None:
        found += _differences(stored, wanted)
    return found


def _differences(stored: FunctionLevel, wanted: FunctionLevel) -> list[str]:
    was, will = ALLOWANCES[stored], ALLOWANCES[wanted]
    begins = [text for name, text in _ABILITIES.items() if getattr(will, name) > getattr(was, name)]
    ends = [text for name, text in _ABILITIES.items() if getattr(will, name) < getattr(was, name)]
    found = []
    if begins:
        found.append(f"From then on it also: {'; '.join(begins)}.")
    if ends:
        found.append(f"It stops to do: {'; '.join(ends)}.")
    return found


def shell_line(wanted: FunctionLevel) -> str:
    """Return the line of Pegasus' shell that does the same."""
    return f"set_meta_level {wanted.word}"


def step_label(facts: PegasusFacts, level: FunctionLevel) -> str:
    """Return a step of the switch: the level, and whether it is stored or in force."""
    stored, effective = facts.stored_level, facts.effective_level
    if level is stored:
        return f"{level.word} (stored)" if effective is not stored else f"{level.word} (now)"
    return f"{level.word} (effective)" if level is effective else level.word


def may_clear(level: FunctionLevel) -> bool:
    """Return whether setting a level again, though it is stored, throws proposals away."""
    return clears_proposals(level)


def disks_frame(facts: PegasusFacts, node: str) -> pd.DataFrame:
    """Return one row a disk of the node, with what lies on it; none: the node did not tell."""
    known = facts.snapshot.tables
    disks = known["disks"].filter(pc.equal(known["disks"]["node"], node)).to_pandas()
    held = known["replicas"].filter(pc.equal(known["replicas"]["node"], node)).to_pandas()
    led = held[held["is_primary"]].groupby("disk").size()
    every = held.groupby("disk").size()
    capacity = disks["capacity_mb"].astype(float)
    replicas = disks["disk"].map(every).fillna(0)
    primaries = disks["disk"].map(led).fillna(0)
    return pd.DataFrame(
        {
            "disk": disks["disk"],
            "directory": disks["directory"],
            "capacity_mb": capacity,
            "available_mb": disks["available_mb"].astype(float),
            "free_pct": disks["available_mb"] / capacity.where(capacity > 0) * 100,
            "primaries": primaries,
            "secondaries": replicas - primaries,
        }
    )


def carried_frame(facts: PegasusFacts, node: str) -> pd.DataFrame:
    """Return one row a table of which the node has replicas, most primaries first."""
    columns = facts.columns
    at = columns.nodes.index(node)
    held = columns.counts(primaries_only=False)[:, at]
    led = columns.counts(primaries_only=True)[:, at]
    rows = np.nonzero(held)[0]
    rows = rows[np.lexsort((rows, -held[rows], -led[rows]))]
    living = max(int(columns.is_alive.sum()), 1)
    share = columns.partition_counts[rows] / living
    return pd.DataFrame(
        {
            "table": [columns.app_names[row] for row in rows],
            "primaries": led[rows],
            "even": share,
            "secondaries": (held - led)[rows],
            "size_mb": columns.grid("size_mb", primaries_only=False)[rows, at],
            "reads": columns.grid("read_rate", primaries_only=True)[rows, at],
            "writes": columns.grid("write_rate", primaries_only=True)[rows, at],
        }
    )


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
    """Return one row a setting; what was not reported is unknown, never its default."""
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
    known: dict[str, str | None] = {
        setting.key: facts.snapshot.settings.get(setting.name) for setting in SERVER_SETTINGS
    }
    return known | {one.key: value_before(one, facts) for one in CHANGEABLE}


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
    """Return what ``cluster_info`` prints, in its order; what was not reported is unknown."""
    known = facts.snapshot.settings
    return {key: known.get(key) or UNKNOWN for key in _INFO_ORDER}
