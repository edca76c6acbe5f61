"""Numbers and texts of the back-test page: what was found, and the form with its size."""

from __future__ import annotations

import json
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from typing import Any, Final

import numpy as np
import pandas as pd
import pyarrow as pa

from core.errors import InputError
from core.history.backtest.advice import is_plannable
from core.history.backtest.model import AS_RECORDED, NO_SHEDDING, RECORDED, Grid
from core.history.backtest.parsing import grid_of
from core.history.backtest.pegasus.rules import LEVEL, SWITCHES
from core.history.backtest.systems import system_of
from core.pegasus.levels import FunctionLevel
from core.pegasus.settings import server_setting
from core.pulsar.placement import STRATEGY_NAMES
from core.pulsar.setting_values import typed_value
from core.pulsar.settings import SETTING_BY_KEY, EffectiveSettings, known_setting
from core.pulsar.shedding import SHEDDING_STRATEGIES, SHEDDING_STRATEGY_NAMES, strategies_run_by
from core.units import format_age, pluralize
from dashboard.app_pages.backtest.charts import Line, Point
from dashboard.presenters.sliders import Slider, sliders

# -- what was found --------------------------------------------------------------------------------

ALL_CLUSTERS: Final = "all clusters"
MAX_LINES: Final = 5
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
        found.append("◆ Pareto-optimal")
    if row["problem"]:
        found.append("✗ not simulated")
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
    """Return the candidates that could be simulated, for the Pareto chart."""
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
    """Return the labels of those that could be simulated."""
    return list(ranking[ranking["problem"].isna()]["candidate"])


def lines_of(timeline: pa.Table, names: Sequence[str], seed: int) -> list[Line]:
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
    """Return the moves of one candidate, of one seed where it was simulated with several."""
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
            "and its effect is not simulated."
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
    """Return what there is to simulate, in one sentence."""
    if span is None:
        return f"Nothing is recorded of {cluster} yet, so there is nothing to replay."
    length = format_age((span[1] - span[0]).total_seconds())
    return (
        f"{length} of {cluster} are recorded, from {span[0]:%Y-%m-%d %H:%M} to "
        f"{span[1]:%Y-%m-%d %H:%M} UTC: any strategy and setting can be replayed on them."
    )


def asked_words(grid: Mapping[str, Any]) -> str:
    """Return the parameters of a back-test, in one line."""
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
        parts.append(pluralize(len(seeds), "seed"))
    return "Asked: " + " · ".join(parts)


# -- the form and its size -------------------------------------------------------------------------

LOCAL: Final = "local"
SPARK: Final = "spark"
ENGINES: Final[Mapping[str, str]] = {LOCAL: "this machine", SPARK: "Spark"}
SHEDDINGS: Final = (RECORDED, *SHEDDING_STRATEGY_NAMES, NO_SHEDDING)
PLACEMENTS: Final = (RECORDED, *STRATEGY_NAMES)
POLICIES: Final = ("app", "cluster")

_ADJUSTABLE: Final = tuple(
    dict.fromkeys(key for strategy in SHEDDING_STRATEGIES for key in strategy.adjustable)
)
_EXTENSIBLE_ONLY: Final = tuple(one.name for one in strategies_run_by("extensible"))
_SHARE: Final = "maxUnloadPercentage"
_COMPARING: Final = tuple(one.name for one in SHEDDING_STRATEGIES if _SHARE in one.adjustable)
_STEPS: Final = (0.25, 0.5, 1.0, 1.5, 2.0)
_ASSUMED_BUNDLE_MINUTES_PER_S: Final = 400_000.0
_SPARK_START_S: Final = 25.0
_SELECTED_BY_NAME: Final = (
    "loadBalancerLoadSheddingStrategy",
    "loadBalancerLoadPlacementStrategy",
)


@dataclass(frozen=True, kw_only=True)
class GridForm:
    """What a person has put into the form.

    Attributes:
        cluster: Whose record.
        start: From when; ``None``: its start.
        end: Until when; ``None``: its end.
        shedding: Strategies, or policies of Pegasus.
        placement: Strategies; of Pegasus none.
        values: Texts of values by upstream key.
        seeds: How many.
        window_minutes: Longest stretch that is simulated at once.
        deviation_pct: Own target; ``None``: that of vivo.
        unloads_per_day: Own target.
        minute_s: Seconds of the record that count as a minute of the cluster.
        is_pegasus: The cluster's kind.
    """

    cluster: str
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
    is_pegasus: bool = False

    def parameters(self) -> dict[str, Any]:
        """Return the grid as JSON values.

        Raises:
            InputError: A value that its setting does not take.
        """
        tried = {
            key: [_value(key, text, is_pegasus=self.is_pegasus) for text in texts]
            for key, texts in self.values.items()
            if texts
        }
        body: dict[str, Any] = {
            "clusters": [self.cluster],
            "from": self.start and self.start.isoformat(),
            "to": self.end and self.end.isoformat(),
            "seeds": list(range(1, self.seeds + 1)),
            "window_minutes": self.window_minutes,
            "target": ("pegasus" if self.is_pegasus else "vivo")
            if self.deviation_pct is None
            else {
                "deviation": self.deviation_pct / 100,
                "unloads_per_day": self.unloads_per_day or 0.0,
            },
            "minute_s": self.minute_s,
        }
        if self.is_pegasus:
            body |= {"policies": list(self.shedding), "switches": tried}
        else:
            body |= {
                "shedding": list(self.shedding),
                "placement": list(self.placement) or [RECORDED],
                "settings": tried,
            }
        return {key: value for key, value in body.items() if value not in (None, {}, [])}

    @classmethod
    def of(cls, parameters: Mapping[str, Any]) -> GridForm | None:
        """Return the form that asks for this grid; ``None``: it is of several clusters, or none.

        Args:
            parameters: As :meth:`parameters` gives it.
        """
        clusters, target = parameters.get("clusters") or [], parameters.get("target")
        own: dict[str, float] = target if isinstance(target, dict) else {}
        is_pegasus = "policies" in parameters or "switches" in parameters
        if len(clusters) != 1:
            return None
        tried = parameters.get("switches" if is_pegasus else "settings") or {}
        return cls(
            cluster=clusters[0],
            start=_moment(parameters.get("from")),
            end=_moment(parameters.get("to")),
            shedding=tuple(parameters.get("policies" if is_pegasus else "shedding") or ()),
            placement=tuple(parameters.get("placement") or ()),
            values={key: tuple(map(_text, values)) for key, values in tried.items()},
            seeds=len(parameters.get("seeds") or (1,)),
            window_minutes=parameters.get("window_minutes", 360),
            deviation_pct=round(own["deviation"] * 100, 6) if own else None,
            unloads_per_day=own["unloads_per_day"] if own else None,
            minute_s=parameters.get("minute_s", 60.0),
            is_pegasus=is_pegasus,
        )

    def grid(self) -> Grid:
        """Return the same as a grid.

        Raises:
            InputError: It cannot be; the sentence names what.
        """
        if not self.shedding:
            what = "policy" if self.is_pegasus else "shedding strategy"
            raise InputError(f"No {what} is chosen.", hint="Choose at least one, or take a preset.")
        return grid_of(self.parameters())


def _moment(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


def _value(key: str, text: str, *, is_pegasus: bool) -> object:
    """Return the typed value of one text.

    Raises:
        InputError: Its setting does not take it.
    """
    try:
        value = json.loads(text)
    except ValueError:
        value = text.strip()
    if is_pegasus:
        return text.strip() if isinstance(value, str) else value
    typed = typed_value(known_setting(key), value)
    return list(typed) if isinstance(typed, tuple) else typed


def problem_of(key: str, texts: Sequence[str], *, is_pegasus: bool) -> str:
    """Return what is wrong with the values of a setting, empty: nothing."""
    for text in texts:
        try:
            _value(key, text, is_pegasus=is_pegasus)
        except InputError as error:
            return error.message
    return ""


def offered_settings() -> tuple[str, ...]:
    """Return the keys that may be tried, those that decide shedding first."""
    rest = [key for key in SETTING_BY_KEY if key not in _ADJUSTABLE]
    return tuple(key for key in (*_ADJUSTABLE, *rest) if key not in _SELECTED_BY_NAME)


def offered_switches() -> tuple[str, ...]:
    """Return the switches of Pegasus that may be tried."""
    return SWITCHES


def setting_words(key: str) -> str:
    """Return what a setting of Pulsar is, in plain words."""
    setting = SETTING_BY_KEY[key]
    return setting.label if key in _ADJUSTABLE else setting.meaning


def switch_words(name: str) -> str:
    """Return what a switch of Pegasus is, in plain words."""
    return "Function level" if name == LEVEL else server_setting(name).meaning


def suggestions(key: str, settings: EffectiveSettings) -> tuple[str, ...]:
    """Return values of a setting worth trying as texts, the one in force among them."""
    setting = SETTING_BY_KEY[key]
    if setting.kind == "bool":
        return ("true", "false")
    if setting.kind in ("text", "names"):
        return (_text(settings.value(key)),)
    slider = Slider(setting)
    present = slider.present(settings)
    tried = {present, *(_within(slider, present * step) for step in _STEPS)}
    if present == 0:
        tried |= {
            _within(slider, slider.low + (slider.high - slider.low) * step / 4) for step in _STEPS
        }
    return tuple(_text(value) for value in sorted(tried))


def _within(slider: Slider, value: float) -> bool | int | float:
    """Return a value on the slider's grid, within its span."""
    step = slider.step or 1.0
    rounded = round(value / step) * step if value >= step else value
    held = min(rounded, slider.high) if slider.high else rounded
    return slider.number(round(max(held, slider.low), 6))


def switch_suggestions(name: str) -> tuple[str, ...]:
    """Return values of a switch of Pegasus worth trying."""
    if name == LEVEL:
        return tuple(level.word for level in reversed(FunctionLevel))
    default = server_setting(name).default
    if default in ("true", "false"):
        return ("true", "false")
    if default.isdigit():
        number = int(default)
        return tuple(dict.fromkeys(str(int(number * step)) for step in (0.5, 1, 2, 4)))
    return (default,) if default else ()


def _text(value: object) -> str:
    if isinstance(value, tuple):
        return json.dumps(list(value))
    if isinstance(value, str):
        return value
    return json.dumps(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """A grid that makes sense.

    Attributes:
        title: For people.
        help: What it answers.
        shedding: Strategies or policies.
        placement: Strategies.
        keys: Settings to try, each at the suggested values.
    """

    title: str
    help: str
    shedding: tuple[str, ...]
    placement: tuple[str, ...] = (RECORDED,)
    keys: tuple[str, ...] = ()


def presets(effective: str, *, is_extensible: bool = False) -> tuple[Preset, ...]:
    """Return the grids that are offered for Pulsar: only what can be simulated on such a record.

    Args:
        effective: Class name of the cluster's own shedding strategy; empty: unknown.
        is_extensible: The brokers run the extensible load manager.
    """
    sheddings = tuple(one for one in SHEDDINGS if is_extensible or one not in _EXTENSIBLE_ONLY)
    offered = sliders(effective)
    found = [
        Preset(
            title="Every strategy",
            help="Each shedding strategy with the cluster's own settings, and none at all.",
            shedding=sheddings,
        ),
        Preset(
            title="Every pair",
            help="Each shedding strategy with each placement strategy.",
            shedding=tuple(one for one in sheddings if one != RECORDED),
            placement=PLACEMENTS,
        ),
    ]
    if offered:
        found.insert(
            0,
            Preset(
                title=f"Turn {effective}",
                help="The active strategy at several "
                f"{' and '.join(one.key for one in offered[:2])}.",
                shedding=(effective, NO_SHEDDING),
                keys=tuple(slider.key for slider in offered[:2]),
            ),
        )
    found.append(
        Preset(
            title="Fewer moves",
            help="Strategies that compare brokers, moving several shares of the gap a round.",
            shedding=tuple(dict.fromkeys((effective or RECORDED, *_COMPARING))),
            keys=(_SHARE,),
        )
    )
    return tuple(found)


PEGASUS_PRESETS: Final = (
    Preset(
        title="Both policies",
        help="Balance by table, and over the cluster.",
        shedding=POLICIES,
    ),
    Preset(
        title="Both policies, both ways",
        help="With and without copying, all tables at once and in turn.",
        shedding=POLICIES,
        keys=("only_move_primary", "balancer_in_turn"),
    ),
    Preset(
        title="Operations a round",
        help="How many changes the cluster policy may begin at once.",
        shedding=("cluster",),
        keys=("balance_op_count_per_round",),
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How much a grid is.

    Attributes:
        candidates: Ways that are tried, without what really happened.
        windows: Stretches of the record.
        runs: All together.
        minutes: That are simulated, over all runs.
    """

    candidates: int
    windows: int
    runs: int
    minutes: float


def size_of(grid: Grid, span: tuple[datetime, datetime]) -> Size:
    """Return how much a grid is on a record.

    Args:
        grid: What is tried.
        span: First and last recorded minute.
    """
    candidates = system_of(grid).candidates(grid)
    windows = grid.windows(*span)
    tried = len(candidates) - 1
    each = 1 + tried * len(grid.seeds)
    length = sum((window.end - window.start).total_seconds() for window in windows)
    return Size(
        candidates=tried,
        windows=len(windows),
        runs=len(windows) * each,
        minutes=length / grid.minute_s * each,
    )


def estimate_s(size: Size, engine: str, bundles: int, minutes_per_s: float | None) -> float:
    """Return about how long a grid takes.

    Args:
        size: Of the grid.
        engine: Where it is computed.
        bundles: Bundles or partitions of the cluster.
        minutes_per_s: Minutes that an earlier back-test of the cluster played in a second.
    """
    pace = minutes_per_s or _ASSUMED_BUNDLE_MINUTES_PER_S / max(bundles, 100)
    return size.minutes / pace + (_SPARK_START_S if engine == SPARK else 0.5)


def size_words(size: Size, seconds: float, *, is_measured: bool) -> str:
    """Return how much a grid is, before it is started."""
    if not size.windows:
        return "No recorded minute lies in this range."
    basis = "as the last one here" if is_measured else "a guess until one has run here"
    candidates = pluralize(size.candidates, "candidate")
    return (
        f"{candidates} on {size.minutes / max(size.runs, 1) * size.windows:,.0f} recorded minutes: "
        f"{pluralize(size.runs, 'run')}, {size.minutes:,.0f} minutes simulated, "
        f"about {format_age(seconds)} ({basis})."
    )
