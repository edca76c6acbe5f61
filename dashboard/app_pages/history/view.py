"""Below the timeline of the History page: events, moves, series, predictions; and the export."""

from __future__ import annotations

import tempfile
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pandas as pd
import pyarrow as pa
import streamlit as st

from core.alerts.rules import RULE_BY_CODE
from core.history.analysis.flaps.flaps import flap_answer, flaps_of
from core.history.analysis.requests import SETTLE_MINUTES, SIDE_MINUTES, FlapsRequest
from core.history.transfer.export import export
from core.units import format_bytes, ms_to_datetime
from dashboard import services, state
from dashboard.app_pages.history import model
from dashboard.app_pages.history.charts import moves_by_time
from dashboard.app_pages.history.events import MOVE_KINDS, details_of, events_frame
from dashboard.app_pages.history.timeline import look_at, period_words
from dashboard.charts.lines import LineSeries, history_lines
from dashboard.components import choice, figures, tables, words
from dashboard.components.activity import run_link
from dashboard.legible import option
from dashboard.presenters.moments import parse_stamp, stamp
from dashboard.presenters.naming import file_name
from dashboard.queries.history import HistoryQuery, PeriodLoad, predicted
from dashboard.services import alerts, config_option

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dashboard.app_pages.history.system import HistoryMeasure, HistorySystem, SubjectSeries
    from dashboard.queries.history import HistoryQuery
    from dashboard.services import Config


# -- events and alerts -----------------------------------------------------------------------------

STAMP: Final = "YYYY-MM-DD HH:mm:ss"
MAX_EVENTS: Final = 2_000
MOST_BYTES: Final = 200_000_000
"""Larger exports are left to the command line: a browser's download is held in memory."""
_ISO: Final = "%Y-%m-%dT%H:%M:%SZ"
_EVENTS: Final = "_history_events"
_ALERTS: Final = "_history_alerts"
_ROUNDS: Final = "history_rounds"
_TABLE_PX: Final = 420
"""Of a table below the timeline: timeline and table together are two screens at most."""


def draw_events(
    config: Config,
    query: HistoryQuery,
    system: HistorySystem,
    period_load: PeriodLoad,
    lanes: Sequence[str],
) -> None:
    """Draw the events, the moves or the alerts of the period.

    Args:
        config: The configuration.
        query: Cluster and period.
        system: Of the cluster.
        period_load: Of the period.
        lanes: Which events; empty: all.
    """
    with st.container(horizontal=True, vertical_alignment="center"):
        shown = choice.segmented(
            "List",
            list(model.EVENT_LISTS),
            key=state.KIND,
            format_func=model.EVENT_LISTS.__getitem__,
        )
        text = (
            st.text_input(
                "Contains",
                live=tables.TYPING_PAUSE,
                key=state.CONTAINS,
                bind="query-params",
                placeholder="bundle, broker, node, setting",
                width=260,
                label_visibility="collapsed",
            )
            if shown == "events"
            else ""
        )
    if shown == "events":
        _draw_events(query, lanes, (text or "").strip())
    elif shown == "moves":
        _draw_moves(query, system, period_load, config.history.minute_s)
    else:
        _draw_alerts(config, query)


def _draw_events(query: HistoryQuery, lanes: Sequence[str], text: str) -> None:
    """Draw the events that contain a text; a selected row is shown in full."""
    table = query.history.events().events(query.period, subject=text, limit=MAX_EVENTS)
    rows = events_frame(table, lanes)
    if rows.empty:
        st.caption("No events.")
        return
    tables.grid(
        rows,
        hide_index=True,
        column_order=("at", "what", "subject", "before", "after", "by", "who", "why", "run"),
        column_config={
            "at": st.column_config.DatetimeColumn(
                "Time (UTC)", format=STAMP, timezone="UTC", width=120
            ),
            "what": tables.words("Event", width_px=108),
            "subject": tables.words("Object", width_px=236),
            "before": tables.words("Before", width_px=114),
            "after": tables.words("After", width_px=114),
            "by": tables.words("By", "Trimtab (step of a run) or the cluster itself.", width_px=58),
            "who": tables.words("User", width_px=50),
            "why": tables.words("Reason", width_px=192),
            "run": tables.opener("Run", "_history_run", run_link, is_pinned=False, width_px=156),
        },
        key=_EVENTS,
        on_select="rerun",
        selection_mode="single-row",
        height=min(_TABLE_PX, tables.height_of(len(rows))),
        row_height=tables.ROW_PX,
        placeholder="",
        alt="Events, newest first",
    )
    _draw_ticked(rows)
    with st.container(horizontal=True, vertical_alignment="center"):
        more = f"newest {MAX_EVENTS:,}" if table.num_rows == MAX_EVENTS else ""
        st.caption(" · ".join(filter(None, [f"{len(rows):,} events", more])), width="content")
        tables.downloads(
            rows, cluster=query.history.cluster, what="history-events", moment=query.period.end
        )


def _draw_alerts(config: Config, query: HistoryQuery) -> None:
    """Draw the alerts that began or ended in the period."""
    changes = alerts.changes(config, query.history.cluster, query.period.start, query.period.end)
    if not changes:
        st.caption("No alert changes in this period.")
        return
    rows = pd.DataFrame(
        {
            "at": [change.at for change in changes],
            "state": ["began" if change.state == "firing" else "ended" for change in changes],
            "severity": [change.severity for change in changes],
            "alert": [_alert_title(change.key.rule) for change in changes],
            "subject": [change.key.subject for change in changes],
        }
    )
    selected = tables.selected(_ALERTS, ((change.at, change.key) for change in changes))
    tables.table(
        rows,
        {
            "at": st.column_config.DatetimeColumn("Time (UTC)", format=STAMP, timezone="UTC"),
            "state": tables.words("Change"),
            "severity": tables.words("Severity"),
            "alert": tables.words("Alert"),
            "subject": tables.words("Object"),
        },
        key=_ALERTS,
        missing="",
        alt="Alert changes, newest first",
        height=min(_TABLE_PX, tables.height_of(len(rows))),
        selection="single-row",
    )
    st.caption(
        "Select an alert to show the measured value."
        if selected is None
        else words.plain(changes[selected].sentence)
    )


def _alert_title(rule: str) -> str:
    """Return the title of an alert's rule; of a removed rule, its code."""
    return RULE_BY_CODE[rule].title if rule in RULE_BY_CODE else rule


def _draw_ticked(rows: pd.DataFrame) -> None:
    held = st.session_state.get(_EVENTS, {})
    ticked = [row for row in held.get("selection", {}).get("rows", []) if row < len(rows)]
    state.note_ticked(is_any=bool(ticked))
    for row in ticked:
        event = rows.iloc[row]
        with st.container(border=True, gap="xsmall"):
            moment = event["at"].to_pydatetime()
            st.markdown(
                f"**{words.plain(event['subject'])}** {words.plain(event['what'])}, "
                f"{stamp(moment)} UTC"
            )
            if event["before"] or event["after"]:
                st.markdown(
                    f"{words.plain(event['before'] or 'none')} → "
                    f"{words.plain(event['after'] or 'none')}"
                )
            for name, value in details_of(event["details"]):
                st.caption(f"{words.plain(name)}: {words.plain(value)}")
            st.button(
                "Open minute",
                icon=":material/schedule:",
                key="_look_at_event",
                on_click=look_at,
                args=(moment,),
            )


# -- predictions -----------------------------------------------------------------------------------


def draw_predictions(config: Config, query: HistoryQuery, system: HistorySystem) -> None:
    """Draw the rounds that the shadow balancer predicted against those of the leader.

    Args:
        config: The configuration.
        query: Cluster and period.
        system: Of the cluster.
    """
    if system.draw_accuracy(config, query.history.cluster):
        words.section("By snapshots")
    cluster, period = query.history.cluster, query.period
    known = predicted((query.history, period, None))
    if known is None:
        st.caption(
            "No predictions in this period. The collector predicts with the active strategy; "
            "add strategies with `shadow` under `[history]`."
        )
        return
    configured = model.configured_words(list(known.effective))
    chosen = choice.selected(
        "Strategy",
        [model.CONFIGURED, *known.strategies],
        key=state.STRATEGY,
        format_func=lambda one: configured if one == model.CONFIGURED else one,
        width=360,
    )
    if chosen != model.CONFIGURED:
        known = predicted((query.history, period, chosen)) or known
    agreement = known.agreement
    st.markdown(words.plain(agreement.sentence))
    words.notes(model.notes(agreement, system))
    rows = model.agreement_frame(agreement)
    acting = st.toggle("Only rounds with moves", value=True, key="_acting")
    shown = rows[rows["acting"]] if acting else rows
    selected = tables.selected(_ROUNDS, shown["at"])
    tables.table(
        shown.head(MAX_EVENTS),
        {
            "at": st.column_config.DatetimeColumn("Round (UTC)", format=STAMP, timezone="UTC"),
            "verdict": tables.words("Verdict"),
            "predicted_count": tables.whole("Predicted"),
            "moved_count": tables.whole("Actual", "Moves by the leader."),
            "both": tables.whole("Matched", "Bundles that were predicted and moved."),
            "early": tables.whole("Predicted earlier", "Predicted one or two rounds before."),
            "brokers": tables.words("Sources", "Source brokers, predicted vs. actual."),
        },
        key=_ROUNDS,
        alt="Rounds: predicted and actual",
        missing="",
        height=min(_ROUNDS_PX, tables.height_of(len(shown))),
        selection="single-row",
    )
    if selected is None:
        st.caption("Select a round to show its moves.")
    else:
        _draw_round(shown.iloc[selected])
    tables.downloads(rows, cluster=cluster, what="history-agreement", moment=period.end)


_ROUNDS_PX: Final = 300


def _draw_round(one: pd.Series[Any]) -> None:
    """Draw one round in full."""
    parts = {"Predicted": one["predicted"], "Actual": one["moved"], "Not evaluated": one["why"]}
    with st.container(border=True, gap="xsmall"):
        st.markdown(words.plain(one["sentence"]))
        for name, text in parts.items():
            if text:
                st.caption(words.plain(f"{name}: {text}"))


# -- export ----------------------------------------------------------------------------------------

_EXPORT: Final = "_export"


def draw_export(config: Config, query: HistoryQuery) -> None:
    """Draw the button that opens the export of the period."""
    panel = st.popover(
        "Export", icon=":material/download:", key=_EXPORT, on_change="rerun", width="content"
    )
    if panel.open:
        with panel:
            _draw_export(config, query)


def _draw_export(config: Config, query: HistoryQuery) -> None:
    """Offer the period as one file."""
    history, period = query.history, query.period
    name = file_name(history.cluster, "history", period.end, "zip")
    st.markdown(
        words.coded(
            f"{history.cluster}, {period_words(period)}, from the full hour. To import it on "
            "another machine, run `trimtab history import FILE`."
        )
    )

    def made() -> bytes:
        with tempfile.TemporaryDirectory(prefix="trimtab-export-") as folder:
            file = Path(folder) / name
            export(history.store, history.cluster, period.start, period.end, file)
            return file.read_bytes()

    sizes = history.store.sizes(history.cluster)
    total = sum(size.bytes for size in sizes.values())
    files = sum(size.files for size in sizes.values())
    if total * _share(query) > MOST_BYTES:
        st.caption(
            f"The range exceeds the browser limit ({format_bytes(MOST_BYTES)}). Choose a "
            "shorter range or use the command line:"
        )
    else:
        st.download_button(
            "Export range",
            data=made,
            file_name=name,
            icon=":material/download:",
            key="_history_export",
            on_click="ignore",
        )
        st.caption("Command line:")
    st.code(
        f'trimtab history export {history.cluster} --from "{period.start:{_ISO}}" '
        f'--to "{period.end:{_ISO}}" --out {name}{config_option(config)}',
        language="bash",
    )
    st.caption(
        words.plain(
            f"History of {history.cluster}: {format_bytes(total)} in {files:,} files at "
            f"{config.history_uri}. {_retention_words(config)}"
        )
    )


def _share(query: HistoryQuery) -> float:
    """Return the share of the recorded time that a period takes."""
    span = query.history.span()
    if span is None or span[0] == span[1]:
        return 1.0
    start, end = max(query.period.start, span[0]), min(query.period.end, span[1])
    return max(0.0, (end - start) / (span[1] - span[0]))


def _retention_words(config: Config) -> str:
    limits = config.history
    return (
        f"Data older than {limits.max_age_days:g} days and data beyond "
        f"{format_bytes(limits.max_bytes)} are deleted, oldest first. Current time: "
        f"{services.now():%H:%M} UTC."
    )


# -- moves -----------------------------------------------------------------------------------------

_MAX_MOVES: Final = 200_000
_SHORT_PX: Final = 300
"""Of the two tables below the chart of moves."""
_SIDE: Final = "history_flaps_side"
_SETTLE: Final = "history_flaps_settle"


def _draw_moves(
    query: HistoryQuery, system: HistorySystem, period_load: PeriodLoad, minute_s: float
) -> None:
    """Draw the moves over time, and the top movers, the flaps, or the effect of each round.

    Args:
        query: Cluster and period.
        system: Of the cluster.
        minute_s: Seconds of the record that count as a minute of the cluster.
    """
    moves = _moves(query, system)
    if moves is None:
        return
    cluster, found = query.history.cluster, _flaps(moves, period_load, minute_s)
    st.markdown(words.plain(flap_answer([(cluster, found)]).sentence))
    by_time = model.by_time(moves, query.period)
    figures.chart(
        moves_by_time(by_time),
        key="history_moves",
        alt=f"Moves in each {by_time.each} by actor",
    )
    labels = {
        "movers": "Top movers",
        "flaps": f"Flaps ({found['flaps'].num_rows:,})",
        "effect": "Effect",
    }
    with st.container(horizontal=True, vertical_alignment="center"):
        shown = choice.segmented(
            "List", list(labels), key=state.SHOW, format_func=labels.__getitem__
        )
        _draw_all_clusters("flaps", "Find flaps on all clusters…")
    if shown == "movers":
        _draw_top(query, system)
    elif shown == "flaps":
        _draw_flaps(found["flaps"], cluster, query)
    else:
        _draw_rounds(found["rounds"], query, minute_s)


def _moves(query: HistoryQuery, system: HistorySystem) -> pa.Table | None:
    """Return the moves of the period; ``None`` and a caption if there are none."""
    moves = query.history.events().events(query.period, kinds=MOVE_KINDS, limit=_MAX_MOVES)
    if moves.num_rows:
        return moves
    st.caption(f"No {system.subject} moved in this period.")
    return None


def _flaps(moves: pa.Table, period_load: PeriodLoad, minute_s: float) -> dict[str, pa.Table]:
    """Return the flaps, and the rounds with the effect of each."""
    evenness = period_load.evenness
    minutes = pa.table({"taken_at": evenness.at_ms, "deviation": evenness.deviation})
    return flaps_of(moves, minutes, _flaps_request(), minute_s)


def _draw_all_clusters(kind: str, label: str) -> None:
    """Draw the button that opens the same job for all clusters."""
    st.button(
        label,
        icon=":material/pending_actions:",
        type="tertiary",
        key=f"_all_{kind}",
        on_click=state.go,
        args=("jobs",),
        kwargs={state.KIND: kind},
    )


def _flaps_request() -> FlapsRequest:
    """Return the compared minutes, from the fields of the effect."""
    side = st.session_state.get(_SIDE, SIDE_MINUTES)
    settle = st.session_state.get(_SETTLE, SETTLE_MINUTES)
    return FlapsRequest(side_minutes=float(side), settle_minutes=float(settle))


def _draw_top(query: HistoryQuery, system: HistorySystem) -> None:
    rows = model.movers_frame(query.history.events().movers(query.period))
    opener = (
        tables.words(system.subject.capitalize())
        if system.open_subject is None
        else tables.opener(system.subject.capitalize(), "_open_mover", system.open_subject)
    )
    tables.table(
        rows,
        {
            "subject": opener,
            "moves": tables.whole("Moves"),
            "returns": tables.whole("Returned", "Moves back to the source of the previous move."),
            "by_trimtab": tables.whole("By Trimtab"),
            "shortest_stay_min": st.column_config.NumberColumn(
                "Min stay", format="%.1f min", help="Min time between two moves."
            ),
            "last_at": st.column_config.DatetimeColumn(
                "Last (UTC)", format="MM-DD HH:mm", timezone="UTC"
            ),
        },
        key="history_movers",
        alt="Top movers, returned bundles first",
        missing="",
        height=min(_SHORT_PX, tables.height_of(len(rows))),
    )
    tables.downloads(
        rows, cluster=query.history.cluster, what="history-movers", moment=query.period.end
    )


def _draw_flaps(flaps: pa.Table, cluster: str, query: HistoryQuery) -> None:
    rows = model.flaps_frame(flaps)
    if rows.empty:
        st.caption("No flaps in this period.")
        return
    tables.table(
        rows,
        {
            "subject": tables.words("Object"),
            "home": tables.words("Original owner"),
            "away": tables.words("Temporary owner"),
            "away_min": st.column_config.NumberColumn("Away", format="%.1f min"),
            "returned_at": st.column_config.DatetimeColumn(
                "Returned (UTC)", format="MM-DD HH:mm", timezone="UTC"
            ),
            "by": tables.words("By", "Actors of the two moves."),
        },
        key="history_flaps",
        alt="Flaps, newest first",
        missing="",
        height=min(_SHORT_PX, tables.height_of(len(rows))),
    )
    tables.downloads(rows, cluster=cluster, what="history-flaps", moment=query.period.end)


def _draw_rounds(rounds: pa.Table, query: HistoryQuery, minute_s: float) -> None:
    rows = model.rounds_frame(rounds)
    note = "Improved: max deviation lower, on average, by more than 0.5 percentage points."
    st.caption(f"{note} {model.minute_words(minute_s)}".strip())
    left, right, _ = st.columns([1, 1, 3])
    left.number_input(
        "Compared minutes",
        min_value=1,
        max_value=240,
        value=SIDE_MINUTES,
        key=_SIDE,
        help="Minutes before and after each round. Shorter windows overlap less and are noisier.",
    )
    right.number_input(
        "Settling time (min)",
        min_value=0,
        max_value=120,
        value=SETTLE_MINUTES,
        key=_SETTLE,
        help="Minutes skipped after the moves, because load reports and averages lag.",
    )

    def look(text: str) -> None:
        moment = parse_stamp(text)
        if moment is not None:
            look_at(moment)

    tables.table(
        rows,
        {
            "at": tables.opener("Time (UTC)", "_look_at_round", look),
            "by": tables.words("By"),
            "moves": tables.whole("Moves"),
            "flaps": tables.whole("Returned"),
            "before": tables.percent("Deviation before"),
            "after": tables.percent("Deviation after"),
            "helped": tables.words("Improved"),
            "others": tables.whole(
                "Other moves",
                "Moves within the compared minutes; the effect cannot be attributed if there "
                "are any.",
            ),
        },
        key="history_move_rounds",
        alt="Rounds with deviation before and after",
        missing="unknown",
        height=min(_TABLE_PX, tables.height_of(len(rows))),
    )
    tables.downloads(
        rows, cluster=query.history.cluster, what="history-rounds", moment=query.period.end
    )


# -- one subject over time -------------------------------------------------------------------------


_SERIES_A_ROW: Final = 3
_SERIES_PX: Final = 130


def draw_series(query: HistoryQuery, system: HistorySystem, period_load: PeriodLoad) -> None:
    """Draw the load of one server or moved object over the period, with its events."""
    _begin_with_busiest(system.server_parameter, period_load)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        server = st.selectbox(
            system.server.capitalize(),
            list(period_load.grid.subjects),
            format_func=option,
            key=system.server_parameter,
            bind="query-params",
            width=320,
        )
        subjects, subject = system.subjects, ""
        if subjects is not None:
            text = st.text_input(
                subjects.label,
                key=subjects.parameter,
                bind="query-params",
                placeholder=subjects.placeholder,
                width=420,
            )
            subject = (text or "").strip()
        _draw_all_clusters("trends", "Trends of all clusters…")
    if subjects is not None and subject:
        _draw_subject(query, period_load, system.subject, subjects, subject)
    elif server:
        table = query.history.queries().server_series(
            str(server), query.period, step_ms=period_load.step_ms, weights=query.weighed
        )
        _draw(query, str(server), table, system.measures)


def _begin_with_busiest(key: str, period_load: PeriodLoad) -> None:
    """Show the one that carried most on average, unless the user or the address chose another."""
    grid = period_load.grid
    if key in st.session_state or key in st.query_params or not grid.subjects:
        return
    known = np.isfinite(grid.mean)
    means = np.where(known, grid.mean, 0.0).sum(axis=1) / np.maximum(known.sum(axis=1), 1)
    st.session_state[key] = grid.subjects[int(means.argmax())]


def _draw_subject(
    query: HistoryQuery, period_load: PeriodLoad, noun: str, subjects: SubjectSeries, name: str
) -> None:
    table = subjects.read(query, period_load, name)
    if not np.asarray(table["rate"].to_numpy()).any():
        st.caption(
            words.plain(
                f"{name}: no load in this period, or no such {noun}. Format: {subjects.names}."
            )
        )
        return
    _draw(query, name, table, subjects.measures)


def _draw(
    query: HistoryQuery, subject: str, table: pa.Table, measures: tuple[HistoryMeasure, ...]
) -> None:
    if not table.num_rows:
        st.caption(words.plain(f"No records for {subject} in this period."))
        return
    times = [ms_to_datetime(int(at)) for at in table["at"].to_pylist()]
    happened = events_frame(query.history.events().events(query.period, subject=subject, limit=60))
    marks: list[tuple[datetime, str]] = [
        (row["at"], f"{row['what']}: {row['before'] or 'none'} → {row['after'] or 'none'}")
        for row in happened.to_dict("records")
    ]
    columns = st.columns(_SERIES_A_ROW)
    drawn = 0
    for measure in measures:
        values = np.asarray(table[measure.key].to_numpy(), dtype=np.float64)
        if not np.isfinite(values).any():
            continue
        with columns[drawn % _SERIES_A_ROW]:
            words.section(measure.label)
            figures.chart(
                history_lines(
                    times,
                    [LineSeries(measure.label, values)],
                    measure.unit,
                    events=marks,
                    height=_SERIES_PX,
                ),
                key=f"history_series_{measure.key}",
                alt=f"{measure.label} of {subject} over time, with events",
            )
        drawn += 1
