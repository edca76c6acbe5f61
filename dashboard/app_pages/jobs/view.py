"""Results of a job: its tables, sorted and filtered, with their charts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pandas as pd
import pyarrow as pa
import streamlit as st

from core.errors import OpsError
from dashboard import services, state
from dashboard.app_pages.jobs import model
from dashboard.app_pages.jobs.charts import SUFFIXES, shape_bars, shape_lines
from dashboard.components import choice, figures, tables, words
from dashboard.presenters import jobs as presenter
from dashboard.services import jobs as services_jobs
from dashboard.sitemap import ENTRIES

if TYPE_CHECKING:
    from dashboard.services.jobs import Job


AS_WRITTEN: Final = "formatted"
MAX_ROWS: Final = 2_000
DRAWN_ROWS: Final = 200_000
_TRAFFIC: Final = ("msg_throughput", "throughput")
_ONE: Final = "single line"


def draw_subject(job: Job) -> None:
    """Draw the link to the page about what a job computed or made, for the cluster of the job."""
    page = presenter.subject_page_of(job.kind) if job.answer is not None else ""
    if not page:
        return
    clusters = presenter.clusters_of(job)
    named = "" if "," in clusters or clusters == presenter.ALL else clusters
    st.button(
        f"Open {ENTRIES[page].title}",
        icon=":material/arrow_forward:",
        key="_job_subject",
        on_click=state.go,
        args=(page,),
        kwargs={state.CLUSTER: named},
    )


def draw_tables(job: Job) -> None:
    """Draw the picker of a job's tables, and the chosen one."""
    known = job.answer.tables if job.answer else {}
    if not known:
        return
    name = choice.segmented(
        "Table",
        list(known),
        key=state.TABLE,
        format_func=lambda one: one.replace("_", " ").capitalize(),
        has_label=True,
    )
    st.caption(words.plain(known[name]))
    draw_table(job, name)


def draw_table(job: Job, name: str) -> None:
    """Draw one table of a job: filter, order, rows, downloads, chart."""
    try:
        _table(job, name)
    except OpsError as error:
        words.failed(error, what="Could not read this table")


def _table(job: Job, name: str) -> None:
    head = services_jobs.result_rows(job, name, limit=50).table
    labels = model.labels_of(head)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        contains = st.text_input(
            "Contains",
            live=tables.TYPING_PAUSE,
            key=state.CONTAINS,
            bind="query-params",
            placeholder="Part of a text",
            width=230,
        )
        sort = st.selectbox(
            "Sort by",
            [AS_WRITTEN, *labels],
            format_func=lambda one: labels.get(str(one), str(one)),
            key=f"_sort_{job.id}_{name}",
            width=240,
            help="Sorts the whole table; a click on a column header sorts the rows on screen.",
        )
        is_descending = st.toggle("Descending", value=True, key=f"_down_{job.id}_{name}")
    wanted = (contains or "").strip()
    result_rows = services_jobs.result_rows(
        job,
        name,
        contains=model.as_recorded(wanted) if model.is_mixed(head) else wanted,
        sort="" if sort in (None, AS_WRITTEN) else str(sort),
        is_descending=is_descending,
        limit=MAX_ROWS,
    )
    rows = model.described(result_rows.table)
    columns = model.shown_columns(rows)
    frame = model.frame_of(rows, columns)
    st.caption(model.counts(result_rows.matching, result_rows.total, len(frame)))
    tables.table(
        frame,
        {column.name: column_of(column) for column in columns},
        key=f"_table_{name}",
        alt=f"Result table {name}",
        height=min(430, tables.height_of(max(len(frame), 1))),
        missing="",
    )
    tables.downloads(frame, cluster=job.kind, what=name, moment=services.now())
    _shape(job, name, result_rows.total)


def column_of(column: model.ResultColumn) -> Any:
    """Return the configured column."""
    makers: Mapping[str, Any] = {
        "percent": tables.percent,
        "megabytes": tables.megabytes,
        "rate": tables.rate,
        "requests": lambda label: st.column_config.NumberColumn(f"{label} req/s", format="%,.0f"),
        "milliseconds": lambda label: st.column_config.NumberColumn(f"{label} s", format="%,.1f"),
        "count": tables.whole,
        "seconds": lambda label: st.column_config.NumberColumn(f"{label} s", format="%.1f"),
        "number": lambda label: st.column_config.NumberColumn(label, format="%.4g"),
        "flag": st.column_config.CheckboxColumn,
        "text": tables.words,
        "time": lambda label: st.column_config.DatetimeColumn(
            f"{label} (UTC)", format="YYYY-MM-DD HH:mm:ss"
        ),
    }
    return makers[column.form](column.label)


def _shape(job: Job, name: str, total: int) -> None:
    """Draw the table's shape, where it has one and is small enough to be read whole."""
    if not 1 < total <= DRAWN_ROWS:
        return
    table = services_jobs.result(job, name)
    charts = model.charts_of(table, model.shown_columns(table))
    if not charts.is_any:
        return
    measures = model.measures_of(table)
    with st.expander("Chart", icon=":material/show_chart:", expanded=bool(charts.time)):
        with st.container(horizontal=True, vertical_alignment="bottom"):
            if measures:
                table = model.only(table, *_pick_measure(measures, f"_measure_{job.id}_{name}"))
            drawn = _ResultView.of(model.described(table))
            value = _pick_value(drawn.charts, f"_value_{job.id}_{name}")
            group = _pick_group(drawn, f"_by_{job.id}_{name}", is_by_subject=bool(measures))
        if value is not None:
            _draw(drawn, value, group)


@dataclass(frozen=True)
class _ResultView:
    """A result table as shown.

    Attributes:
        frame: As shown.
        charts: Columns that can be charted.
        labels: Labels of its columns.
    """

    frame: pd.DataFrame
    charts: model.Charts
    labels: Mapping[str, str]

    @classmethod
    def of(cls, table: pa.Table) -> _ResultView:
        columns = model.shown_columns(table)
        return cls(
            model.frame_of(table, columns),
            model.charts_of(table, columns),
            model.labels_of(table),
        )


def _pick_value(charts: model.Charts, key: str) -> model.ResultColumn | None:
    """Draw the picker of the column that is drawn."""
    picked = st.selectbox(
        "Value",
        range(len(charts.quantities)),
        format_func=lambda at: charts.quantities[at].label,
        key=key,
        width=260,
    )
    return None if picked is None else charts.quantities[picked]


def _pick_group(drawn: _ResultView, key: str, *, is_by_subject: bool) -> str:
    """Draw the picker of the column that separates lines or bars; empty: one line."""
    groups = [*drawn.charts.groups, _ONE] if drawn.charts.time else list(drawn.charts.groups)
    group = st.selectbox(
        "By",
        groups,
        index=groups.index("subject") if is_by_subject and "subject" in groups else 0,
        format_func=lambda one: drawn.labels.get(str(one), str(one)),
        key=key,
        width=260,
    )
    return "" if group in (None, _ONE) else str(group)


def _pick_measure(measures: list[tuple[str, str]], key: str) -> tuple[str, str]:
    """Draw the picker of the measure that is drawn."""
    first = next((at for at, (_, one) in enumerate(measures) if one in _TRAFFIC), 0)
    picked = st.selectbox(
        "Measure",
        range(len(measures)),
        index=first,
        format_func=lambda at: model.words_of(*measures[at]),
        key=key,
    )
    return measures[picked if picked is not None else 0]


def _draw(drawn: _ResultView, value: model.ResultColumn, group: str) -> None:
    suffix = SUFFIXES.get(value.form, "")
    frame, charts = drawn.frame, drawn.charts
    if charts.time:
        wide = model.lines_of(frame, charts, value.name, group)
        figures.chart(
            shape_lines(wide, suffix=suffix),
            key="job_shape",
            alt=f"{value.label} over time, {len(wide.columns)} lines",
        )
        if group and frame[group].nunique() > model.MOST_GROUPS:
            st.caption(f"Top {model.MOST_GROUPS} shown.")
        return
    bars = model.bars_of(frame, value.name, group)
    figures.chart(shape_bars(bars, suffix=suffix), key="job_shape", alt=f"{value.label} by {group}")
