"""The form of a back-test: which part of the history, what is tried on it, what is enough."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import streamlit as st

from core.errors import OpsError
from dashboard import services, state
from dashboard.app_pages.backtest import model, queries
from dashboard.app_pages.backtest.model import GridForm
from dashboard.components import choice, jobs, unknown_params, words

if TYPE_CHECKING:
    from dashboard.app_pages.backtest.queries import Span
    from dashboard.app_pages.backtest.system import BacktestPages, GridPreset, GridSystem
    from dashboard.components.frame import FleetContext
    from dashboard.services.jobs import Job


# -- the form --------------------------------------------------------------------------------------

WHOLE: Final = "all"
OWN: Final = "custom"
SPANS: Final = {
    "last hour": timedelta(hours=1),
    "last 6 hours": timedelta(hours=6),
    "last 24 hours": timedelta(hours=24),
    "last 7 days": timedelta(days=7),
}
SHEDDING: Final = "shedding"
PLACEMENT: Final = "placement"
TRIED: Final = "tried"
SEEDS: Final = "seeds"
TARGET: Final = "target"
ENGINE: Final = "engine"
STRETCH: Final = "stretch"
WINDOW, MINUTE_S, OFF, UNLOADS = "window", "minute_s", "off", "unloads"
OWN_TARGET: Final = "own"
CLUSTER_TARGET: Final = "cluster"


@dataclass(frozen=True, eq=False)
class FormContext:
    """Context of the form.

    Attributes:
        page: The page.
        span: First and last recorded minute of the cluster.
        system: Of the cluster.
        minute_s: Seconds of the record that count as a minute, as the configuration says.
        earlier: Back-tests, the newest first.
    """

    page: FleetContext
    span: Span
    system: BacktestPages
    minute_s: float
    earlier: Sequence[Job]


def editing(
    page: FleetContext, system: BacktestPages, span: Span, earlier: Sequence[Job]
) -> FormContext:
    """Return the context of the form for the cluster in the header."""
    return FormContext(
        page=page,
        span=span,
        system=system,
        minute_s=page.config.history.minute_s,
        earlier=earlier,
    )


def draw(about: FormContext) -> None:
    """Draw the form, the size of the grid, and the start button."""
    _presets(about)
    first, second = st.columns([0.4, 0.6], gap="medium")
    with first:
        start, end = _stretch(about.span)
    with second:
        deviation, unloads = _target(about)
    shedding, placement = about.system.strategies(about.page.page)
    values, problems = _values(about)
    advanced = _advanced(about)
    form = model.GridForm(
        cluster=about.page.choice.cluster.name,
        start=start,
        end=end,
        shedding=shedding,
        placement=placement,
        values=values,
        seeds=advanced.seeds,
        window_minutes=advanced.window_minutes,
        deviation_pct=deviation,
        unloads_per_day=unloads,
        minute_s=advanced.minute_s,
        system=about.system.grid,
    )
    _start(about, form, advanced.engine, problems)


def _start(about: FormContext, form: model.GridForm, engine: str, problems: Sequence[str]) -> None:
    """Render the size of the grid and the start button."""
    refusal, work = "", None
    try:
        form.grid()
        work = queries.work_of(about.page.config, form.parameters())
    except OpsError as error:
        refusal = str(error)
    refusal = problems[0] if problems else refusal
    with st.container(horizontal=True, vertical_alignment="center"):
        st.button(
            "Start back-test",
            icon=":material/play_arrow:",
            type="primary",
            key="_start_backtest",
            disabled=bool(refusal),
            on_click=_ask,
            args=(about, form, engine),
        )
        if refusal:
            st.caption(f":material/block: {words.coded(refusal)}", width="content")
        elif work is not None:
            pace = queries.minutes_per_s(about.earlier, form.cluster, engine)
            seconds = model.estimate_s(work, engine, about.system.subjects(about.page.page), pace)
            text = model.size_words(work, seconds, is_measured=pace is not None)
            st.caption(words.plain(text), width="content")
    jobs.draw_refusal()


def _ask(about: FormContext, form: model.GridForm, engine: str) -> None:
    body = queries.body_of(form.parameters(), engine)
    jobs.start(about.page.config, queries.KIND, body, "backtest")


def _presets(about: FormContext) -> None:
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.caption("Presets:", width="content")
        for preset in about.system.presets(about.page.page):
            st.button(
                words.plain(preset.title),
                icon=":material/grid_view:",
                key=f"_preset_{preset.title}",
                help=words.plain(preset.help),
                on_click=_take,
                args=(about, preset),
            )


def _take(about: FormContext, preset: GridPreset) -> None:
    """Fill the form with a preset; for callbacks."""
    st.session_state[SHEDDING] = list(preset.shedding)
    if about.system.grid.placement:
        st.session_state[PLACEMENT] = list(preset.placement)
    st.session_state[TRIED] = list(preset.keys)
    for key in preset.keys:
        st.session_state[value_key(key)] = list(about.system.suggestions(about.page.page, key))


def value_key(key: str) -> str:
    """Return the key of the widget that holds the values of a setting."""
    return f"grid_{key}"


def _stretch(span: Span) -> tuple[datetime | None, datetime | None]:
    """Draw the range picker; return its ends, ``None``: open."""
    chosen = st.selectbox(
        "Period",
        [WHOLE, *SPANS, OWN],
        key=STRETCH,
        bind="query-params",
        help=f"Recorded: {span[0]:%Y-%m-%d %H:%M} to {span[1]:%Y-%m-%d %H:%M} UTC.",
    )
    if chosen in SPANS:
        return span[1] - SPANS[str(chosen)], None
    if chosen != OWN:
        return None, None
    unknown_params.check_times(state.FROM)
    unknown_params.check_times(state.UNTIL, may_be_ahead=True)
    first, last = (moment.astimezone(UTC).replace(tzinfo=None) for moment in span)
    start = st.datetime_input("From (UTC)", first, key=state.FROM, bind="query-params")
    end = st.datetime_input("To (UTC)", last, key=state.UNTIL, bind="query-params")
    unknown_params.draw(state.FROM, start)
    unknown_params.draw(state.UNTIL, end)
    return _utc(start), _utc(end)


def _utc(moment: datetime | None) -> datetime | None:
    return None if moment is None else moment.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class _AdvancedOptions:
    """Advanced options of the replay.

    Attributes:
        seeds: Replays of each candidate.
        window_minutes: Longest stretch that is replayed without a fresh start.
        minute_s: Seconds of the record that count as a minute.
        engine: Key of the engines.
    """

    seeds: int
    window_minutes: int
    minute_s: float
    engine: str


def _advanced(about: FormContext) -> _AdvancedOptions:
    with st.expander("Advanced", icon=":material/tune:"):
        first, second, third, fourth = st.columns(4, gap="medium")
        seeds = first.number_input(
            "Seeds",
            min_value=1,
            max_value=50,
            value=3,
            key=SEEDS,
            bind="query-params",
            help="One replay per seed; several seeds give error bars.",
        )
        window = second.number_input(
            "Max window (min)",
            min_value=2,
            max_value=44_640,
            value=360,
            key=WINDOW,
            bind="query-params",
            help="Each window starts from the recorded state, which limits accumulated errors.",
        )
        minute_s = third.number_input(
            "Cluster minute (s)",
            min_value=0.001,
            max_value=86_400.0,
            value=float(about.minute_s),
            format="%g",
            key=MINUTE_S,
            bind="query-params",
            help="minute_s under [history] of the configuration: 60, less for a sandbox in "
            "compressed time.",
        )
        with fourth:
            engine = choice.segmented(
                "Engine",
                list(model.ENGINES),
                default=model.LOCAL,
                key=ENGINE,
                format_func=lambda one: model.ENGINES.get(one, one),
                has_label=True,
            )
    return _AdvancedOptions(
        seeds=int(seeds or 3),
        window_minutes=int(window or 360),
        minute_s=float(minute_s or about.minute_s),
        engine=str(engine or model.LOCAL),
    )


def begin_with(key: str, values: Sequence[str]) -> None:
    """Set the initial values of a list that presets fill, too; those of the address win."""
    if key not in st.session_state and key not in st.query_params:
        st.session_state[key] = list(values)


def _target(about: FormContext) -> tuple[float, float]:
    """Draw the target: the cluster's own, or another for this back-test."""
    system, page = about.system, about.page
    preset, noun = system.grid.system.target, system.grid.system.nouns.moves
    own = services.target_ratio(page.config, page.choice.cluster)
    words = f"≤ {own:.0%} deviation, ≤ {preset.unloads_per_day:,g} {noun} a day"
    chosen = choice.segmented(
        "Target",
        [CLUSTER_TARGET, OWN_TARGET],
        key=TARGET,
        format_func=lambda one: words if one == CLUSTER_TARGET else "Custom",
        has_label=True,
    )
    if chosen != OWN_TARGET:
        return own * 100, preset.unloads_per_day
    with st.container(horizontal=True):
        deviation = st.number_input(
            "Deviation (%)",
            min_value=0.0,
            value=own * 100,
            format="%g",
            key=OFF,
            bind="query-params",
        )
        unloads = st.number_input(
            f"{noun.capitalize()} a day",
            min_value=0.0,
            value=preset.unloads_per_day,
            format="%g",
            key=UNLOADS,
            bind="query-params",
        )
    return float(deviation or 0.0), float(unloads or 0.0)


def _values(about: FormContext) -> tuple[dict[str, tuple[str, ...]], list[str]]:
    """Draw the settings to try; return their values, and the problems."""
    grid = about.system.grid
    tried = st.multiselect(
        about.system.values_label,
        grid.keys,
        key=TRIED,
        bind="query-params",
        format_func=lambda one: f"{one}: {grid.describe(str(one))}",
        placeholder="Setting name or description",
        help="Simulates every combination of values with each strategy that reads the setting.",
    )
    columns = st.columns(2, gap="medium")
    values: dict[str, tuple[str, ...]] = {}
    problems: list[str] = []
    for rank, key in enumerate(tried):
        with columns[rank % 2]:
            texts = _values_of(about, str(key), grid.describe(str(key)))
        problem = model.problem_of(grid, str(key), texts)
        if problem:
            problems.append(problem)
            with columns[rank % 2]:
                st.caption(f":red[:material/error: {words.plain(problem)}]")
        if not texts:
            problems.append(f"Enter a value for {key}.")
        values[str(key)] = texts
    return values, problems


def _values_of(about: FormContext, key: str, meaning: str) -> tuple[str, ...]:
    suggested = list(about.system.suggestions(about.page.page, key))
    begin_with(value_key(key), suggested)
    remaining = (
        st.query_params.get_all(value_key(key)) or st.session_state.get(value_key(key)) or []
    )
    texts = st.multiselect(
        words.plain(meaning),
        list(dict.fromkeys([*suggested, *remaining])),
        key=value_key(key),
        bind="query-params",
        accept_new_options=True,
        select_all=False,
        placeholder="Enter a value",
    )
    present = about.system.present(about.page.page, key)
    here = f" · here {present}" if present else ""
    st.caption(f":small[{words.plain(key)}]{here}")
    return tuple(str(text) for text in texts)


# -- the form filled from an earlier back-test -----------------------------------------------------

_REFILLED: Final = "_backtest_refilled"
_WIDGETS: Final = (
    SHEDDING,
    PLACEMENT,
    TRIED,
    SEEDS,
    STRETCH,
)


def refill(job: Job, cluster: str, system: GridSystem, target_ratio: float) -> None:
    """Fill the form with the parameters of a job, once; call it before the form is drawn.

    What a link says in addition to the job wins.

    Args:
        job: The one that is shown.
        cluster: The one that the header shows: a form of another cluster is left alone.
        system: Of that cluster.
        target_ratio: Deviation that the target of the cluster allows.
    """
    before = st.session_state.get(_REFILLED)
    if before == job.id and SHEDDING in st.session_state:
        return  # else the tab was left meanwhile, and its widgets have lost what they held
    st.session_state[_REFILLED] = job.id
    if before is None and any(key in st.query_params for key in _WIDGETS):
        return
    try:
        form = GridForm.of(queries.grid_parameters(job), system)
    except (OpsError, ValueError, TypeError, KeyError, AttributeError):
        return  # requested by other means, in a form that this one does not have
    if form is None or form.cluster != cluster:
        return
    values = _widgets(form, queries.engine_of(job))
    own = (target_ratio * 100, system.system.target.unloads_per_day)
    if np.allclose((values.get(OFF, np.nan), values.get(UNLOADS, np.nan)), own):
        values[TARGET] = CLUSTER_TARGET
    st.session_state.update(values)


def _widgets(form: GridForm, engine: str) -> dict[str, Any]:
    """Return the values of the widgets by key."""
    held: dict[str, Any] = {
        SHEDDING: list(form.shedding),
        TRIED: list(form.values),
        SEEDS: form.seeds,
        ENGINE: engine,
        WINDOW: form.window_minutes,
        MINUTE_S: float(form.minute_s),
        STRETCH: WHOLE,
        TARGET: CLUSTER_TARGET,
        **{value_key(key): list(texts) for key, texts in form.values.items()},
    }
    if form.system.placement:
        held[PLACEMENT] = list(form.placement)
    if form.start is not None or form.end is not None:
        held[STRETCH] = OWN
        held |= {
            key: _naive(moment)
            for key, moment in ((state.FROM, form.start), (state.UNTIL, form.end))
            if moment is not None
        }
    if form.deviation_pct is not None:
        held |= {
            TARGET: OWN_TARGET,
            OFF: form.deviation_pct,
            UNLOADS: float(form.unloads_per_day or 0.0),
        }
    return held


def _naive(moment: datetime) -> datetime:
    return moment.astimezone(UTC).replace(tzinfo=None)
