"""Numbers and texts of the back-test page: what was found, and the form with its size."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pandas as pd
import pyarrow as pa

from core.errors import InputError
from core.history.backtest.advice import is_plannable
from core.history.backtest.model import (
    AS_RECORDED,
    REPLAYED,
    Grid,
    is_without_shedding,
)
from core.history.backtest.parsing import grid_of
from core.history.backtest.schemas import RECOMMENDED
from core.units import format_age, format_ratio, pluralize
from dashboard.app_pages.backtest.charts import CandidateSeries, ParetoPoint
from dashboard.presenters.figures import KeyFigure, Status
from dashboard.presenters.jobs import moment
from dashboard.presenters.moments import span_words, stamp

if TYPE_CHECKING:
    from core.history.backtest.job import Backtest
    from core.history.backtest.model import Target
    from core.history.backtest.wording import Wording
    from dashboard.app_pages.backtest.system import GridSystem
    from dashboard.services.jobs import Job

# -- what was found --------------------------------------------------------------------------------

ALL_CLUSTERS: Final = "all clusters"
MAX_LINES: Final = 5
MOST_POINTS: Final = 1_500
RECORD: Final = 0
"""Number of what really happened."""


@dataclass(frozen=True, eq=False)
class ResultTables:
    """The result tables of a back-test, as frames of the declared columns.

    Attributes:
        candidates: One row a candidate and cluster.
        recommended: One row a setting to change.
    """

    candidates: pd.DataFrame
    recommended: pd.DataFrame

    @property
    def clusters(self) -> tuple[str, ...]:
        """The choices of the ranking's scope: one cluster, or all together first."""
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
        """Return the changes for a cluster."""
        return self.recommended[self.recommended["cluster"] == cluster].reset_index(drop=True)


def found_of(candidates: pa.Table, recommended: pa.Table | None) -> ResultTables:
    """Return the tables as frames; without recommendations an empty one."""
    columns = RECOMMENDED.names
    changes = pd.DataFrame(columns=columns) if recommended is None else recommended.to_pandas()
    return ResultTables(candidates.to_pandas(), changes)


@dataclass(frozen=True, eq=False)
class BacktestView:
    """A finished back-test that is looked at.

    Attributes:
        job: The job.
        found: Its ranking and what to change.
        target: What was good enough.
        nouns: Of the system of the job.
        cluster: Whose ranking is shown.
        ranking: That ranking.
        picked: Candidates whose time lines are shown.
    """

    job: Job
    found: ResultTables
    target: Target | None
    nouns: Wording
    cluster: str
    ranking: pd.DataFrame
    picked: list[str]

    @property
    def one_cluster(self) -> str:
        """The cluster of time lines and changes: of all together there are none."""
        if self.cluster != ALL_CLUSTERS:
            return self.cluster
        return self.found.clusters[1]

    @property
    def advised(self) -> str:
        """The recommended candidate; empty: none."""
        changes = self.found.changes(self.cluster)
        return "" if changes.empty else str(changes["candidate"].iloc[0])


MAX_REJECTED: Final = 3


def verdict_words(changes: pd.DataFrame) -> str:
    """Return the name and the rank of the candidate of the changes."""
    first = changes.iloc[0]
    verdict = str(first.get("verdict") or "not simulated")
    return f"{verdict[:1].upper()}{verdict[1:]}: {first['candidate']}"


def cautions(ranking: pd.DataFrame) -> list[str]:
    """Return the rejected candidates with the reason for each."""
    if "is_rejected" not in ranking:  # of a release before
        return []
    rejected = ranking[ranking["is_rejected"].eq(other=True)]
    return [
        f"{row['candidate']}: {row['outcome']}"
        for row in rejected.head(MAX_REJECTED).to_dict("records")
    ]


def marks(row: Mapping[Hashable, Any]) -> str:
    """Return the marks of a candidate, each with a sign."""
    found = []
    if row["is_record"]:
        found.append("● actual")
    elif row["candidate"] == REPLAYED or (
        pd.isna(row["rank"]) and is_without_shedding(row["candidate"])
    ):
        found.append("● comparison")
    if row["meets_target"]:
        found.append("✓ within target")
    if row["is_pareto"] and not row["is_record"]:
        found.append("◆ Pareto-optimal")
    if row["problem"]:
        found.append("✗ not simulated")
    if row.get("is_rejected"):
        found.append("✗ rejected")
    return ", ".join(found)


def ranking_frame(ranking: pd.DataFrame) -> pd.DataFrame:
    """Return the ranking as it is shown: percent, MB/s, ranges over seeds as texts."""
    return pd.DataFrame(
        {
            "rank": ranking["rank"],
            "candidate": ranking["candidate"],
            "marks": [marks(row) for row in ranking.to_dict("records")],
            "deviation_p95": ranking["deviation_p95"] * 100,
            "deviation_range": _ranges(ranking, "deviation_p95", 100, "%"),
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
    """Return ``12 to 18%`` where seeds differ, else nothing."""
    found = []
    for low, high in zip(ranking[f"{name}_low"], ranking[f"{name}_high"], strict=True):
        differs = pd.notna(low) and pd.notna(high) and high - low > 1e-9
        ends = f"{_short(low * factor)} to {_short(high * factor)}{suffix}"
        found.append(ends if differs else "")
    return found


def _short(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def points_of(ranking: pd.DataFrame, advised: str) -> list[ParetoPoint]:
    """Return the candidates that could be simulated, for the Pareto chart.

    Args:
        ranking: Of a cluster.
        advised: The recommended candidate; it and the first one have their ranks as labels.
    """
    rows = ranking[ranking["deviation_p95"].notna() & ranking["unloads_per_day"].notna()]
    return [
        ParetoPoint(
            name=row["candidate"],
            mark=f"{row['rank']:.0f}" if row["rank"] == 1 or row["candidate"] == advised else "",
            unloads_per_day=row["unloads_per_day"],
            deviation=row["deviation_p95"],
            unloads_range=_range_of(row, "unloads_per_day"),
            deviation_range=_range_of(row, "deviation_p95"),
            is_record=bool(row["is_record"]),
            is_replay=row["candidate"] == REPLAYED,
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
    """Return the candidates whose time lines are shown first: the actual run, and the best."""
    best = ranking[ranking["rank"].notna()].sort_values("rank")["candidate"].head(1)
    record = ranking[ranking["is_record"]]["candidate"].head(1)
    return [*record, *best]


def candidates_of(ranking: pd.DataFrame) -> list[str]:
    """Return the labels of those that could be simulated."""
    return list(ranking[ranking["problem"].isna()]["candidate"])


def plannable(ranking: pd.DataFrame) -> list[str]:
    """Return the labels of the candidates that change something, best first."""
    ranks = ranking[ranking["rank"].notna() & (ranking["candidate"] != REPLAYED)]
    return list(ranks.sort_values("rank")["candidate"])


def lines_of(timeline: pa.Table, names: Sequence[str], seed: int) -> list[CandidateSeries]:
    """Return the time lines of candidates, thinned to what a screen shows, with its peaks.

    Args:
        timeline: One row a simulated minute of one cluster.
        names: Labels of candidates.
        seed: Of those that were simulated with several; what happened has none.
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


def _line(name: str, rows: pd.DataFrame) -> CandidateSeries:
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
    return CandidateSeries(
        name=name,
        times=[moment.to_pydatetime() for moment in times[picks]],
        deviation=deviation[picks],
        unloads=rows["unloads"].to_numpy(dtype=np.float64).cumsum()[picks],
        max_deviation_servers=[str(server or "") for server in rows["farthest"].to_numpy()[picks]],
        is_record=name == AS_RECORDED,
    )


def moves_frame(moves: pa.Table, seed: int) -> pd.DataFrame:
    """Return the moves of one candidate, of one seed where it was simulated with several."""
    frame: pd.DataFrame = moves.to_pandas()
    if seed in set(frame["seed"]):
        frame = frame[frame["seed"] == seed]
    at = pd.to_datetime(frame["taken_at"], unit="ms", utc=True)
    shown = frame.assign(taken_at=at, moved=frame["moved_bytes_per_s"] / 1e6)
    names = ["taken_at", "subject", "source", "destination", "kind", "moved", "clients"]
    return pd.DataFrame(shown[names].sort_values("taken_at").reset_index(drop=True))


def diff_text(changes: pd.DataFrame) -> str:
    """Return the settings to change as a diff: recorded value, better value."""
    lines = []
    for row in changes.to_dict("records"):
        if isinstance(row["old"], str):
            lines.append(f"- {row['key']}={_plain(row['old'])}")
        lines.append(f"+ {row['key']}={_plain(row['new'])}")
    return "\n".join(lines)


def change_notes(changes: pd.DataFrame) -> list[str]:
    """Return the distinct reasons for the changes."""
    return list(dict.fromkeys(str(why) for why in changes["why"]))


def restart_note(changes: pd.DataFrame) -> str:
    """Return a note about settings that a plan cannot set; empty if it can set all."""
    fixed = [str(row["key"]) for row in changes.to_dict("records") if not is_plannable(_named(row))]
    if not fixed:
        return ""
    what = f"Set in broker.conf and restart the brokers: {', '.join(fixed)}."
    if len(fixed) == len(changes):
        return what
    return (
        f"{what} Restart first. The plan covers only part of the candidate; the effect of the "
        "plan alone is not simulated."
    )


def _named(row: Mapping[Hashable, Any]) -> dict[str, Any]:
    return {str(name): value for name, value in row.items()}


_PACKAGE: Final = "org."
"""Begins the names of classes, which are shown without their package."""


def _plain(text: object) -> str:
    """Return a JSON text as people write it."""
    if not isinstance(text, str):
        return ""
    value = json.loads(text)
    if not isinstance(value, str):
        return json.dumps(value)
    return value.rpartition(".")[2] if value.startswith(_PACKAGE) else value


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


def record_figures(span: tuple[datetime, datetime] | None, every: Sequence[Job]) -> list[KeyFigure]:
    """Return the recorded period of a cluster and its back-tests."""
    done = sum(job.state == "done" for job in every)
    running = sum(not job.is_ended for job in every)
    recorded = KeyFigure(label="Recorded", value="nothing", status="warning")
    if span is not None:
        recorded = KeyFigure(
            label="Recorded",
            value=span_words(span[1] - span[0]),
            note=f"{span[0]:%m-%d %H:%M} to {span[1]:%m-%d %H:%M} UTC",
        )
    return [
        recorded,
        KeyFigure(
            label="Back-tests",
            value=f"{done:,}",
            note=f"{running:,} active" if running else "done",
        ),
    ]


def result_figures(shown: BacktestView) -> list[KeyFigure]:
    """Return the first candidate against the recorded settings, the actual run and the target."""
    ranking, target = shown.ranking, shown.target
    best = _row(ranking[ranking["rank"].notna()].sort_values("rank"))
    record = record_of(ranking)
    again = _row(ranking[ranking["candidate"] == REPLAYED])
    compared = "Actual: measured on the cluster. Replayed: the recorded settings, simulated."
    references = ranking["is_record"].eq(other=True) | (ranking["candidate"] == REPLAYED)
    played = ranking[ranking["problem"].isna() & ~references]
    enough = int(played["meets_target"].eq(other=True).sum())
    minutes = ranking["minutes"].max()
    return [
        KeyFigure(
            label="Deviation p95 of rank 1",
            value=_ratio(best, "deviation_p95"),
            note=_compared(again, record, "deviation_p95", _ratio),
            status=_judged(best, "deviation_p95", target.deviation if target else None),
            help=f"Max deviation from mean, p95 over the minutes. {compared}",
        ),
        KeyFigure(
            label=f"{shown.nouns.moves.capitalize()} a day of rank 1",
            value=_amount(best, "unloads_per_day"),
            note=_compared(again, record, "unloads_per_day", _amount),
            help=f"{compared} {reassigned_words(record, shown.nouns)}".rstrip(),
            status=_judged(
                best, "unloads_per_day", None if target is None else target.unloads_per_day
            ),
        ),
        KeyFigure(
            label="Within target",
            value=f"{enough:,} of {len(played):,}",
            note="candidates"
            if target is None
            else f"≤ {format_ratio(target.deviation)}, ≤ {target.unloads_per_day:,g} a day",
            status="ok" if enough else "bad",
        ),
        KeyFigure(
            label="Snapshots",
            value="unknown" if pd.isna(minutes) else f"{minutes:,}",
            note=pluralize(int(ranking["runs"].sum()), "run"),
        ),
    ]


def record_of(ranking: pd.DataFrame) -> Mapping[Hashable, Any]:
    """Return the row of the actual run; empty if there is none."""
    return _row(ranking[ranking["is_record"].eq(other=True)])


def _row(rows: pd.DataFrame) -> Mapping[Hashable, Any]:
    return rows.iloc[0].to_dict() if len(rows) else {}


def _compared(
    again: Mapping[Hashable, Any],
    record: Mapping[Hashable, Any],
    name: str,
    written: Callable[[Mapping[Hashable, Any], str], str],
) -> str:
    """Return the figure of the recorded settings, replayed, and the actual one."""
    return f"replayed {written(again, name)} · actual {written(record, name)}"


def reassigned_words(record: Mapping[Hashable, Any], nouns: Wording) -> str:
    """Return the number of reassigned subjects after a failure; empty: none."""
    count = record.get("placed_again")
    if count is None or pd.isna(count) or not count:
        return ""
    return (
        f"Actual, in addition to {nouns.moves}: {int(count):,} {nouns.subject} reassigned after a "
        f"{nouns.server} failure."
    )


def fidelity(ranking: pd.DataFrame, nouns: Wording) -> str:
    """Return how far the replay of the recorded settings is from the record; empty: unknown."""
    record, again = record_of(ranking), _row(ranking[ranking["candidate"] == REPLAYED])
    figures = [row.get(name) for name in _COMPARED for row in (again, record)]
    if any(figure is None or pd.isna(figure) for figure in figures):
        return ""
    deviation, moves = (float(figures[at] or 0.0) - float(figures[at + 1] or 0.0) for at in (0, 2))
    return (
        "Actual: measured on the cluster. Replayed: the recorded settings, simulated. They differ "
        f"by {abs(deviation) * 100:.0f} points of deviation and {_short(abs(moves))} {nouns.moves} "
        "a day; smaller differences between candidates are noise."
    )


_COMPARED: Final = ("deviation_p95", "unloads_per_day")


def _ratio(row: Mapping[Hashable, Any], name: str) -> str:
    value = row.get(name)
    return format_ratio(None if value is None or pd.isna(value) else float(value))


def _amount(row: Mapping[Hashable, Any], name: str) -> str:
    value = row.get(name)
    return "unknown" if value is None or pd.isna(value) else _short(float(value))


def _judged(row: Mapping[Hashable, Any], name: str, limit: float | None) -> Status:
    value = row.get(name)
    if limit is None or value is None or pd.isna(value):
        return ""
    return "ok" if value <= limit else "bad"


def headline(sentence: str) -> tuple[str, str]:
    """Return the first sentence of an answer, and the rest: the actual and replayed results."""
    first, _, rest = sentence.partition(". ")
    return f"{first.rstrip('.')}.", rest


def subtitle(job: Job, now: datetime) -> str:
    """Return the parameters of a back-test, and the age of its request."""
    grid = job.request.parameters.get("grid") if job.request else None
    parts = [grid_words(grid if isinstance(grid, dict) else {})]
    asked_at = moment(job.request.requested_at) if job.request else None
    if asked_at is not None:
        parts.append(f"{format_age((now - asked_at).total_seconds())} ago")
    return " · ".join(parts)


def grid_words(grid: Mapping[str, Any]) -> str:
    """Return the parameters of a back-test, in one line."""
    parts = [", ".join(grid.get("clusters") or ["all recorded clusters"])]
    if grid.get("from") or grid.get("to"):
        parts.append(
            f"{_minute(grid.get('from'), 'the start')} to {_minute(grid.get('to'), 'the end')}"
        )
    names = [name for name in ("shedding", "placement", "policies") if grid.get(name)]
    parts += [f"{name} {', '.join(map(str, grid[name]))}" for name in names]
    for name in ("settings", "switches"):
        for key, values in (grid.get(name) or {}).items():
            parts.append(f"{key} {', '.join(json.dumps(value) for value in values)}")
    seeds = grid.get("seeds")
    if isinstance(seeds, list):
        parts.append(pluralize(len(seeds), "seed"))
    return " · ".join(parts)


# -- the form and its size -------------------------------------------------------------------------

LOCAL: Final = "local"
SPARK: Final = "spark"
ENGINES: Final[Mapping[str, str]] = {LOCAL: "this machine", SPARK: "Spark"}
_ASSUMED_BUNDLE_MINUTES_PER_S: Final = 120_000.0
_SPARK_START_S: Final = 25.0


@dataclass(frozen=True, kw_only=True)
class GridForm:
    """Content of the form.

    Attributes:
        cluster: Whose record.
        system: Of the cluster.
        start: From when; ``None``: its start.
        end: Until when; ``None``: its end.
        shedding: Strategies, or policies.
        placement: Strategies, where the system has any.
        values: Texts of values by upstream key.
        seeds: How many.
        window_minutes: Longest stretch that is simulated at once.
        deviation_pct: Max deviation; ``None``: the default of the system.
        unloads_per_day: Own target.
        minute_s: Seconds of the record that count as a minute of the cluster.
    """

    cluster: str
    system: GridSystem
    start: datetime | None = None
    end: datetime | None = None
    shedding: tuple[str, ...] = ()
    placement: tuple[str, ...] = ()
    values: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    seeds: int = 3
    window_minutes: int = 360
    deviation_pct: float | None = None
    unloads_per_day: float | None = None
    minute_s: float = 60.0

    def parameters(self) -> dict[str, Any]:
        """Return the grid as JSON values.

        Raises:
            InputError: A value that its setting does not take.
        """
        tried = {
            key: [self.system.typed(key, text) for text in texts]
            for key, texts in self.values.items()
            if texts
        }
        body: dict[str, Any] = {
            "clusters": [self.cluster],
            "from": self.start and self.start.isoformat(),
            "to": self.end and self.end.isoformat(),
            "seeds": list(range(1, self.seeds + 1)),
            "window_minutes": self.window_minutes,
            "target": self.system.system.target.name
            if self.deviation_pct is None
            else {
                "deviation": self.deviation_pct / 100,
                "unloads_per_day": self.unloads_per_day or 0.0,
            },
            "minute_s": self.minute_s,
        }
        body |= {
            self.system.strategies_field: list(self.shedding),
            "placement": list(self.placement or self.system.placement),
            self.system.values_field: tried,
        }
        return {key: value for key, value in body.items() if value not in (None, {}, [])}

    @classmethod
    def of(cls, parameters: Mapping[str, Any], system: GridSystem) -> GridForm | None:
        """Return the form that asks for this grid; ``None``: it is of several clusters, or none.

        Args:
            parameters: As :meth:`parameters` gives it.
            system: Of the cluster.
        """
        clusters, target = parameters.get("clusters") or [], parameters.get("target")
        own: dict[str, float] = target if isinstance(target, dict) else {}
        if len(clusters) != 1:
            return None
        tried = parameters.get(system.values_field) or {}
        return cls(
            cluster=clusters[0],
            start=_moment(parameters.get("from")),
            end=_moment(parameters.get("to")),
            shedding=tuple(parameters.get(system.strategies_field) or ()),
            placement=tuple(parameters.get("placement") or ()),
            values={key: tuple(map(text_of, values)) for key, values in tried.items()},
            seeds=len(parameters.get("seeds") or (1,)),
            window_minutes=parameters.get("window_minutes", 360),
            deviation_pct=round(own["deviation"] * 100, 6) if own else None,
            unloads_per_day=own["unloads_per_day"] if own else None,
            minute_s=parameters.get("minute_s", 60.0),
            system=system,
        )

    def grid(self) -> Grid:
        """Return the same as a grid.

        Raises:
            InputError: It cannot be; the sentence names what.
        """
        if not self.shedding:
            raise InputError(
                f"No {self.system.strategy} selected.",
                hint="Select at least one, or use a preset.",
            )
        return grid_of(self.parameters())


def _minute(moment: object, default: str) -> str:
    """Return a time of a grid as ``2026-11-27 03:14``, UTC; ``default`` where it has none."""
    if not moment:
        return default
    try:
        return stamp(datetime.fromisoformat(str(moment)))[:-3]
    except ValueError:  # an offset such as -6h, as it was typed
        return str(moment)


def _moment(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


def parsed(text: str) -> object:
    """Return the value of a text: JSON, or the text itself."""
    try:
        return json.loads(text)
    except ValueError:
        return text.strip()


def problem_of(system: GridSystem, key: str, texts: Sequence[str]) -> str:
    """Return the errors in the values of a setting; empty: none."""
    for text in texts:
        try:
            system.typed(key, text)
        except InputError as error:
            return error.message
    return ""


def text_of(value: object) -> str:
    """Return a value as people write it, and as :func:`parsed` reads it."""
    if isinstance(value, tuple):
        return json.dumps(list(value))
    if isinstance(value, str):
        return value
    return json.dumps(value)


def estimate_s(work: Backtest, engine: str, bundles: int, minutes_per_s: float | None) -> float:
    """Return the approximate duration of a back-test.

    Args:
        work: What is to run.
        engine: Where it is computed.
        bundles: Bundles or partitions of the cluster.
        minutes_per_s: Minutes that an earlier back-test of the cluster played in a second.
    """
    pace = minutes_per_s or _ASSUMED_BUNDLE_MINUTES_PER_S / max(bundles, 100)
    return work.simulated_minutes / pace + (_SPARK_START_S if engine == SPARK else 0.5)


def size_words(work: Backtest, seconds: float, *, is_measured: bool) -> str:
    """Return the estimated work of a back-test."""
    basis = "based on the last back-test" if is_measured else "rough estimate"
    return f"{work.words}, approx. {format_age(seconds)} ({basis})."
