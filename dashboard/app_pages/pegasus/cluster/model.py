"""Texts and tables of the Cluster page: levels, one node, and the settings of the servers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import pandas as pd

from core.pegasus.balance.model import PlanKind
from core.pegasus.even.planner import deviation
from core.pegasus.levels import ALLOWANCES, FunctionLevel, clears_proposals
from core.pegasus.server_settings import CHANGEABLE, value_before
from core.pegasus.settings import SERVER_SETTINGS, ServerSetting
from core.pegasus.snapshot import PegasusFacts
from core.plan.options import CopyRate
from dashboard.charts.nodes import RoundLines
from dashboard.charts.template import ACCENT
from dashboard.presenters.naming import UNKNOWN
from dashboard.presenters.pegasus.cluster import word_of
from dashboard.presenters.pegasus.copies import time_words
from dashboard.queries.pegasus.balance import BalanceBasis, PolicyRounds

__all__ = [
    "change_sentences",
    "dots",
    "level_note",
    "may_clear",
    "round_lines",
    "rounds_frame",
    "shell_line",
    "step_label",
    "word_of",
]

TAB: Final = "tab"
"""Query parameter: the tab that is open."""

TABS: Final = ("Preview", "Nodes", "Disks", "Settings", "Findings", "Events")
TAB_OF: Final = {"level": "Preview", "node": "Nodes", "view": "Nodes", "setting": "Settings"}
"""Tab that a parameter of an address belongs to."""


@dataclass(frozen=True, slots=True)
class TabState:
    """State of the tabs when the page was last drawn.

    Attributes:
        tab: The open one.
        values: Of the parameters in :data:`TAB_OF`.
    """

    tab: str
    values: Mapping[str, str]


def tab_to_open(at: str, values: Mapping[str, str], followed: TabState | None) -> str:
    """Return the tab of a parameter that was set from outside of its tab; empty: stay.

    A widget in a tab sets its parameter when it is drawn, which does not request that tab: only
    the page's next run sees it, and that run may be the click that leaves the tab.

    Args:
        at: The tab that is named or open; empty: none.
        values: Of the parameters in :data:`TAB_OF`.
        followed: What the page was drawn with the last time; ``None``: it is new.
    """
    if at if followed is None else at != followed.tab:
        return ""
    before = {} if followed is None else followed.values
    own = "" if followed is None else followed.tab
    changed = [TAB_OF[key] for key, value in values.items() if value and value != before.get(key)]
    return next((tab for tab in reversed(changed) if tab != own), "")


_ABILITIES: Final = {
    "records_dead_primaries": "record dead primaries",
    "accepts_updates": "accept table changes",
    "cures": "repair partitions",
    "counts_balance": "count balance operations",
    "balances": "balance",
    "deletes_replicas": "delete unused replicas",
}
NOT_PERSISTED: Final = "Resets to steady when the leader changes."
_DOTS: Final = {True: ("●", "yes"), False: ("○", "no")}
_DOTS_STYLE: Final = f"""<style>
.levels {{ width: 100%; border-collapse: collapse; font-size: 0.875rem; }}
.levels :is(th, td) {{
  border: 0 solid {ACCENT}; padding: 0.14rem 0.3rem; text-align: center; font-weight: 400;
}}
.levels th[scope="row"] {{ text-align: left; }}
.levels .yes {{ color: {ACCENT}; }}
.levels td {{ font-size: 1.05rem; line-height: 1.2; }}
.levels .at {{ border-left-width: 1px; border-right-width: 1px; }}
.levels thead .at {{ border-top-width: 1px; font-weight: 600; }}
.levels tr:last-child .at {{ border-bottom-width: 1px; }}
.levels .read {{ position: absolute; width: 1px; height: 1px; clip-path: inset(50%); }}
</style>"""


def dots(facts: PegasusFacts) -> str:
    """Return a table of the effects of each level, a dot each, with the word for screen readers."""
    levels = list(FunctionLevel)
    marks = {level: " at" if level is facts.effective_level else "" for level in levels}
    head = "".join(f'<th scope="col" class="{marks[level]}">{level.word}</th>' for level in levels)
    rows = "".join(
        f'<tr><th scope="row">{label.capitalize()}</th>'
        + "".join(_dot(getattr(ALLOWANCES[level], name), marks[level]) for level in levels)
        + "</tr>"
        for name, label in _ABILITIES.items()
    )
    return (
        f'{_DOTS_STYLE}<table class="levels"><thead><tr><th scope="col" class="read">Does</th>'
        f"{head}</tr></thead><tbody>{rows}</tbody></table>"
    )


def _dot(is_done: bool, mark: str) -> str:  # noqa: FBT001  # one cell
    sign, word = _DOTS[is_done]
    return (
        f'<td class="{word}{mark}"><span aria-hidden="true">{sign}</span>'
        f'<span class="read">{word}</span></td>'
    )


def level_note(facts: PegasusFacts) -> str:
    """Return the cause of a differing effective level, else the lifetime of the stored one."""
    stored, effective = facts.stored_level, facts.effective_level
    if stored is not None and effective is not None and stored is not effective:
        return (
            f"Stored: {stored.word}, effective: {effective.word}, because too few nodes are alive."
        )
    return NOT_PERSISTED


def change_sentences(facts: PegasusFacts, level: FunctionLevel) -> list[str]:
    """Return the activities that start, stop and are discarded when another level is stored."""
    stored = facts.stored_level
    found = [] if stored is None else _differences(stored, level)
    if clears_proposals(level):
        found.append("Discards all pending proposals.")
    return found


def _differences(stored: FunctionLevel, level: FunctionLevel) -> list[str]:
    was, will = ALLOWANCES[stored], ALLOWANCES[level]
    begins = [text for name, text in _ABILITIES.items() if getattr(will, name) > getattr(was, name)]
    ends = [text for name, text in _ABILITIES.items() if getattr(will, name) < getattr(was, name)]
    found = []
    if begins:
        found.append(f"Enables: {', '.join(begins)}.")
    if ends:
        found.append(f"Disables: {', '.join(ends)}.")
    return found


def shell_line(level: FunctionLevel) -> str:
    """Return the line of Pegasus' shell that does the same."""
    return f"set_meta_level {level.word}"


def step_label(facts: PegasusFacts, level: FunctionLevel) -> str:
    """Return a step of the switch: the level, and whether it is stored or in force."""
    stored, effective = facts.stored_level, facts.effective_level
    if level is stored:
        return f"{level.word} (stored)" if effective is not stored else f"{level.word} (now)"
    return f"{level.word} (effective)" if level is effective else level.word


def may_clear(level: FunctionLevel) -> bool:
    """Return whether setting a level again, though it is stored, throws proposals away."""
    return clears_proposals(level)


def disks_frame(facts: PegasusFacts, node: str = "") -> pd.DataFrame:
    """Return one row a disk of the node, or of all, with its replicas; none: not reported."""
    tables = facts.snapshot.tables
    disks, held = tables["disks"].to_pandas(), tables["replicas"].to_pandas()
    if node:
        disks, held = disks[disks["node"] == node], held[held["node"] == node]
    places = ["node", "disk"]
    led = held[held["is_primary"]].groupby(places).size().rename("primaries")
    every = held.groupby(places).size().rename("replicas")
    rows = disks.join(every, on=places).join(led, on=places)
    capacity = rows["capacity_mb"].astype(float)
    replicas, primaries = rows["replicas"].fillna(0), rows["primaries"].fillna(0)
    return pd.DataFrame(
        {
            "node": rows["node"],
            "disk": rows["disk"],
            "directory": rows["directory"],
            "capacity_mb": capacity,
            "available_mb": rows["available_mb"].astype(float),
            "free_pct": rows["available_mb"] / capacity.where(capacity > 0) * 100,
            "primaries": primaries,
            "secondaries": replicas - primaries,
        }
    ).sort_values("free_pct", kind="stable", ignore_index=True)


def rounds_frame(run: PolicyRounds, basis: BalanceBasis, rate: CopyRate) -> pd.DataFrame:
    """Return one row a round of the balancer: its changes by kind, data, deviation after, time."""
    rows = []
    for number, (plans, spread, cost) in enumerate(
        zip(run.rounds, run.spreads, run.costs, strict=True), 1
    ):
        kinds = Counter(plan.kind for plan in plans)
        rows.append(
            {
                "round": number,
                "move_primary": kinds[PlanKind.MOVE_PRIMARY],
                "copy_primary": kinds[PlanKind.COPY_PRIMARY],
                "copy_secondary": kinds[PlanKind.COPY_SECONDARY],
                "copied_mb": cost.copy_mb,
                "off": deviation(spread.primaries.astype(np.float64)),
                "takes": time_words(cost, basis, rate),
            }
        )
        if number == MAX_ROUNDS_SHOWN:
            break
    return pd.DataFrame(rows)


def round_lines(run: PolicyRounds) -> RoundLines:
    """Return the primaries of the nodes by round, of those with the largest initial deviations."""
    begin = run.before.primary_counts.sum(axis=0, dtype=np.int64)
    counts = np.array([begin, *(spread.primaries for spread in run.spreads)], dtype=np.float64)
    rounds = np.unique(np.linspace(0, len(counts) - 1, MAX_POINTS, dtype=np.int64))
    order = np.argsort(-np.abs(counts[0] - counts[0].mean()), kind="stable")[:MAX_LINES]
    order = order[np.argsort(-counts[0][order], kind="stable")]
    return RoundLines(
        nodes=[run.before.nodes[at] for at in order.tolist()],
        rounds=rounds,
        counts=counts[np.ix_(rounds, order)],
    )


MAX_LINES: Final = 8
MAX_POINTS: Final = 120
MAX_ROUNDS_SHOWN: Final = 100


def carried_frame(facts: PegasusFacts, node: str) -> pd.DataFrame:
    """Return one row per table with replicas on the node, most primaries first."""
    columns = facts.columns
    at = columns.nodes.index(node)
    held = columns.counts(primaries_only=False)[:, at]
    led = columns.counts(primaries_only=True)[:, at]
    rows = np.nonzero(held)[0]
    rows = rows[np.lexsort((rows, -held[rows], -led[rows]))]
    living = max(int(columns.is_compared.sum()), 1)
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
    """Return one row a setting; values not reported are unknown, never the default."""
    origins, values = origins_of(facts), values_of(facts)
    return pd.DataFrame(
        [
            {
                "key": setting.key,
                "value": shown(values[setting.key]),
                "mark": _mark(setting, values),
                "default": shown(setting.default),
                "origin": _origin(setting, values, origins),
            }
            for setting in ALL_SETTINGS
        ]
    )


def values_of(facts: PegasusFacts) -> dict[str, str | None]:
    """Return the value of every setting by its key; ``None`` if unknown."""
    known: dict[str, str | None] = {
        setting.key: facts.snapshot.settings.get(setting.name) for setting in SERVER_SETTINGS
    }
    return known | {one.key: value_before(one, facts) for one in CHANGEABLE}


def _origin(
    setting: ServerSetting, values: Mapping[str, str | None], origins: Mapping[str, str]
) -> str:
    if values[setting.key] is None:
        return UNKNOWN
    return ORIGINS.get(origins.get(setting.name, ""), "all alive nodes")


def origins_of(facts: PegasusFacts) -> dict[str, str]:
    """Return the source of every setting by its name."""
    table = facts.snapshot.tables["settings"]
    names, origins = table["name"].to_pylist(), table["origin"].to_pylist()
    return dict(zip(names, origins, strict=True))


def _mark(setting: ServerSetting, values: Mapping[str, str | None]) -> str:
    value = values[setting.key]
    if value is None:
        return "? unknown"
    return "default" if value == setting.default else "● changed"


def info_table(facts: PegasusFacts) -> dict[str, str]:
    """Return the output of ``cluster_info``, in its order; values not reported are unknown."""
    settings = facts.snapshot.settings
    return {key: settings.get(key) or UNKNOWN for key in _INFO_ORDER}
