"""What a back-test found, for people: ranking, Pareto front, time lines, what to change."""

from __future__ import annotations

import json
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Any, Final

import numpy as np
import pandas as pd
import pyarrow as pa

from core.history.backtest.advice import is_plannable
from core.history.backtest.model import AS_RECORDED
from core.units import counted, format_age
from dashboard.charts.pareto import Point
from dashboard.charts.timelines import Line

ALL_CLUSTERS: Final = "all clusters"
MOST_LINES: Final = 5
MOST_POINTS: Final = 1_500
RECORD: Final = 0
"""Number of what really happened."""


@dataclass(frozen=True, eq=False)
class Found:
    """The result tables of a back-test, as frames of the declared columns.

    Attributes:
        candidates: One row a candidate and cluster.
        recommended: One row a setting to change.
    """

    candidates: pd.DataFrame
    recommended: pd.DataFrame

    @property
    def clusters(self) -> tuple[str, ...]:
        """What the ranking may be of: one cluster, or all together first."""
        named = sorted(self.candidates["cluster"].dropna().unique())
        has_all = bool(self.candidates["cluster"].isna().any())
        if len(named) == 1:
            return (named[0],)
        return (ALL_CLUSTERS, *named) if has_all else tuple(named)

    def ranking(self, cluster: str) -> pd.DataFrame:
        """Return the candidates of a cluster, or of all together, best first."""
        column = self.candidates["cluster"]
        mask = column.isna() if cluster == ALL_CLUSTERS else column == cluster
        return self.candidates[mask].reset_index(drop=True)

    def changes(self, cluster: str) -> pd.DataFrame:
        """Return what to change on a cluster."""
        return self.recommended[self.recommended["cluster"] == cluster].reset_index(drop=True)


def found_of(candidates: pa.Table, recommended: pa.Table | None) -> Found:
    """Return the tables as frames; without recommendations an empty one."""
    columns = ["cluster", "candidate", "key", "old", "new", "is_dynamic", "takes_effect", "why"]
    changes = pd.DataFrame(columns=columns) if recommended is None else recommended.to_pandas()
    return Found(candidates.to_pandas(), changes)


def marks(row: Mapping[Hashable, Any]) -> str:
    """Return what there is to know of a candidate in a few words, each with a sign."""
    found = []
    if row["is_record"]:
        found.append("● what happened")
    if row["meets_target"]:
        found.append("✓ meets the target")
    if row["is_pareto"] and not row["is_record"]:
        found.append("◆ none is better in both")
    if row["problem"]:
        found.append("✗ not played")
    return ", ".join(found)


def ranking_frame(ranking: pd.DataFrame) -> pd.DataFrame:
    """Return the ranking as it is shown: percent, MB/s, ranges over seeds as texts."""
    return pd.DataFrame(
        {
            "rank": ranking["rank"],
            "candidate": ranking["candidate"],
            "marks": [marks(row) for row in ranking.to_dict("records")],
            "deviation_p95": ranking["deviation_p95"] * 100,
            "deviation_range": _ranges(ranking, "deviation_p95", 100, " %"),
            "unloads_per_day": ranking["unloads_per_day"],
            "unloads_range": _ranges(ranking, "unloads_per_day", 1, ""),
            "deviation_mean": ranking["deviation_mean"] * 100,
            "minutes_over": ranking["minutes_over_ratio"] * 100,
            "moved_per_day": ranking["moved_bytes_per_s_per_day"] / 1e6,
            "client_cuts_per_day": ranking["client_cuts_per_day"],
            "ping_pongs_per_day": ranking["ping_pongs_per_day"],
            "splits_per_day": ranking["splits_per_day"],
            "unowned_s_per_day": ranking["unowned_s_per_day"],
            "runs": ranking["runs"],
            "problem": ranking["problem"],
        }
    )


def _ranges(ranking: pd.DataFrame, name: str, factor: float, suffix: str) -> list[str]:
    """Return ``12 to 18 %`` where seeds differ, else nothing."""
    found = []
    for low, high in zip(ranking[f"{name}_low"], ranking[f"{name}_high"], strict=True):
        differs = pd.notna(low) and pd.notna(high) and high - low > 1e-9
        ends = f"{_short(low * factor)} to {_short(high * factor)}{suffix}"
        found.append(ends if differs else "")
    return found


def _short(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def points_of(ranking: pd.DataFrame) -> list[Point]:
    """Return the candidates that could be played, for the Pareto chart."""
    rows = ranking[ranking["deviation_p95"].notna() & ranking["unloads_per_day"].notna()]
    return [
        Point(
            name=row["candidate"],
            mark="" if pd.isna(row["rank"]) else f"{row['rank']:.0f}",
            unloads_per_day=row["unloads_per_day"],
            deviation=row["deviation_p95"],
            unloads_range=_range_of(row, "unloads_per_day"),
            deviation_range=_range_of(row, "deviation_p95"),
            is_record=bool(row["is_record"]),
            is_pareto=bool(row["is_pareto"]),
            is_enough=bool(row["meets_target"]),
        )
        for row in rows.to_dict("records")
    ]


def _range_of(row: Mapping[Hashable, Any], name: str) -> tuple[float, float]:
    low, high = row[f"{name}_low"], row[f"{name}_high"]
    middle = row[name]
    return (middle if pd.isna(low) else low, middle if pd.isna(high) else high)


def default_pick(ranking: pd.DataFrame) -> list[str]:
    """Return whose time lines are shown first: what happened, and the best."""
    best = ranking[ranking["rank"].notna()].sort_values("rank")["candidate"].head(1)
    record = ranking[ranking["is_record"]]["candidate"].head(1)
    return [*record, *best]


def candidates_of(ranking: pd.DataFrame) -> list[str]:
    """Return the labels of those that could be played."""
    return list(ranking[ranking["problem"].isna()]["candidate"])


def lines_of(timeline: pa.Table, names: Sequence[str], seed: int) -> list[Line]:
    """Return the time lines of candidates, thinned to what a screen shows, peaks kept.

    Args:
        timeline: One row a played minute of one cluster.
        names: Labels of candidates.
        seed: Of those that were played with several; what happened has none.
    """
    frame = timeline.to_pandas()
    found = []
    for name in names:
        rows = frame[frame["candidate"] == name]
        seeds = rows["seed"].unique()
        if len(seeds):
            chosen = seed if seed in seeds else seeds.min()
            found.append(_line(name, rows[rows["seed"] == chosen].sort_values("taken_at")))
    return found


def _line(name: str, rows: pd.DataFrame) -> Line:
    """Thin a line: of each stretch the minute with the greatest deviation."""
    deviation = rows["deviation"].to_numpy(dtype=np.float64)
    picks = np.arange(len(rows))
    if len(rows) > MOST_POINTS:
        edges = np.linspace(0, len(rows), MOST_POINTS + 1).astype(int)
        filled = np.where(np.isnan(deviation), -1.0, deviation)
        picks = np.array(
            [start + int(filled[start:end].argmax()) for start, end in pairwise(edges)]
        )
    times = pd.to_datetime(rows["taken_at"].to_numpy(), unit="ms", utc=True)
    return Line(
        name=name,
        times=[moment.to_pydatetime() for moment in times[picks]],
        deviation=deviation[picks],
        unloads=rows["unloads"].to_numpy(dtype=np.float64).cumsum()[picks],
        farthest=[str(one or "") for one in rows["farthest"].to_numpy()[picks]],
        is_record=name == AS_RECORDED,
    )


def moves_frame(moves: pa.Table, seed: int) -> pd.DataFrame:
    """Return the moves of one candidate, of one seed where it was played with several."""
    frame: pd.DataFrame = moves.to_pandas()
    if seed in set(frame["seed"]):
        frame = frame[frame["seed"] == seed]
    at = pd.to_datetime(frame["taken_at"], unit="ms", utc=True)
    shown = frame.assign(taken_at=at, moved=frame["moved_bytes_per_s"] / 1e6)
    names = ["taken_at", "subject", "source", "destination", "kind", "moved", "clients"]
    return pd.DataFrame(shown[names].sort_values("taken_at").reset_index(drop=True))


def diff_text(changes: pd.DataFrame) -> str:
    """Return the settings to change as a diff: what was recorded, and what is better."""
    lines = []
    for row in changes.to_dict("records"):
        if isinstance(row["old"], str):
            lines.append(f"- {row['key']}={_plain(row['old'])}")
        lines.append(f"+ {row['key']}={_plain(row['new'])}")
    return "\n".join(lines)


def change_notes(changes: pd.DataFrame) -> list[str]:
    """Return why, and which of the settings need more than a plan."""
    fixed = [str(row["key"]) for row in changes.to_dict("records") if not is_plannable(_named(row))]
    late = [f"For broker.conf and a restart: {', '.join(fixed)}."] if fixed else []
    if fixed and len(fixed) < len(changes):
        late.append(
            "Restart the brokers with that first: the plan alone is only a part of the candidate, "
            "and nobody played what comes of it."
        )
    return [*dict.fromkeys(str(why) for why in changes["why"]), *late]


def _named(row: Mapping[Hashable, Any]) -> dict[str, Any]:
    return {str(name): value for name, value in row.items()}


def _plain(text: object) -> str:
    """Return a JSON text as people write it."""
    if not isinstance(text, str):
        return ""
    value = json.loads(text)
    return value if isinstance(value, str) else json.dumps(value)


def wanted(changes: pd.DataFrame) -> dict[str, Any]:
    """Return ``{key: value}`` of the settings that a plan can change."""
    return {
        str(row["key"]): json.loads(row["new"])
        for row in changes.to_dict("records")
        if is_plannable(_named(row))
    }


def set_options(changes: pd.DataFrame) -> list[str]:
    """Return the changes as the Settings page takes them: ``KEY=JSON``."""
    return [f"{key}={new}" for key, new in zip(changes["key"], changes["new"], strict=True)]


def upstream_text(value: object) -> str:
    """Return a value as the servers of Pegasus take it."""
    return value if isinstance(value, str) else json.dumps(value)


def record_words(cluster: str, span: tuple[datetime, datetime] | None) -> str:
    """Return what there is to play, in one sentence."""
    if span is None:
        return f"Nothing is recorded of {cluster} yet, so there is nothing to play again."
    length = format_age((span[1] - span[0]).total_seconds())
    return (
        f"{length} of {cluster} are recorded, from {span[0]:%Y-%m-%d %H:%M} to "
        f"{span[1]:%Y-%m-%d %H:%M} UTC: any strategy and setting can be played on them."
    )


def asked_words(grid: Mapping[str, Any]) -> str:
    """Return what a back-test was asked, in one line."""
    parts = [", ".join(grid.get("clusters") or ["every recorded cluster"])]
    if grid.get("from") or grid.get("to"):
        parts.append(f"{grid.get('from', 'the start')} to {grid.get('to', 'the end')}")
    names = [name for name in ("shedding", "placement", "policies") if grid.get(name)]
    parts += [f"{name} {', '.join(map(str, grid[name]))}" for name in names]
    for name in ("settings", "switches"):
        for key, values in (grid.get(name) or {}).items():
            parts.append(f"{key} {', '.join(json.dumps(value) for value in values)}")
    seeds = grid.get("seeds")
    if isinstance(seeds, list):
        parts.append(counted(len(seeds), "seed"))
    return "Asked: " + " · ".join(parts)
