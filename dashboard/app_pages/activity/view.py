"""The tabs of the page of runs, with their filters, which the address holds."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, time, timedelta
from typing import TYPE_CHECKING, Final

import streamlit as st

from core.actions.views import RunView
from dashboard import services, state
from dashboard.app_pages.activity import model
from dashboard.components import tables, words
from dashboard.components.activity import journal_table, run_link
from dashboard.legible import option
from dashboard.presenters.freshness import Badge
from dashboard.presenters.runs import RUN_WORDS, runs_frame
from dashboard.queries import runs

if TYPE_CHECKING:
    import pandas as pd

    from dashboard.services import Config

MAX_ROWS: Final = 2_000
_TABLE_PX: Final = 560

SPANS: Final = {
    "1 h": timedelta(hours=1),
    "24 h": timedelta(hours=24),
    "7 d": timedelta(days=7),
    "30 d": timedelta(days=30),
}
EVER: Final = "all time"
DATES: Final = "custom"


def _pick(label: str, options: Sequence[str], key: str, width: int) -> str:
    """Draw a filter with all as first choice; return the choice, empty for all."""
    every = f"all {label.lower()}s"
    named = state.text(key)
    more = [named] if named and named not in (every, *options) else []  # so that it is not lost
    chosen = st.selectbox(
        label,
        [every, *options, *more],
        format_func=option,
        key=key,
        bind="query-params",
        width=width,
    )
    return "" if chosen in (None, every) else str(chosen)


def _pick_span() -> tuple[datetime | None, datetime | None]:
    """Draw the stretch of time; return its ends, aware UTC, ``None``: open."""
    span = st.selectbox(
        "Period", [EVER, *SPANS, DATES], key=state.SINCE, bind="query-params", width=150
    )
    if span in SPANS:
        return services.now() - SPANS[str(span)], None
    if span != DATES:
        return None, None
    today = services.now().date()
    first = st.date_input("From (UTC)", today, key=state.FROM, bind="query-params", width=140)
    last = st.date_input("To (UTC)", today, key=state.UNTIL, bind="query-params", width=140)
    return datetime.combine(first, time.min, UTC), datetime.combine(last, time.max, UTC)


def runs_tab(views: Sequence[RunView], entries: pd.DataFrame) -> None:
    """Show the runs that match the filters, the newest first."""
    filters = _filters(views, entries, is_journal=False)
    matching_runs = model.matching_runs(views, filters)
    rows = runs_frame(matching_runs, services.now())
    _draw_count(len(rows), len(views), runs.MAX_RUNS, "runs")
    columns = {
        "run": tables.opener("Run", "_activity_run", run_link),
        "requested_at": st.column_config.DatetimeColumn("When (UTC)", format="YYYY-MM-DD HH:mm:ss"),
        "cluster": tables.words("Cluster"),
        "who": tables.words("User"),
        "state": tables.words("State"),
        "steps_done": st.column_config.TextColumn(
            "Steps", help="Done and total.", alignment="right"
        ),
        "failed": tables.whole("Failed", "Failed or unknown."),
        "skipped": tables.whole("Skipped"),
        "took_s": tables.seconds("Duration"),
        "why": st.column_config.TextColumn("Reason", width=210),
        "undoes": tables.words("Undo of"),
    }
    for name in ("failed", "skipped", "undoes"):
        if not rows[name].any():
            del columns[name]
    done = rows["done"].astype(str) + " / " + rows["steps"].astype(str)
    tables.table(
        rows.assign(steps_done=done).head(MAX_ROWS),
        columns,
        key="activity_runs",
        missing="",
        alt="Matching runs",
        height=min(_TABLE_PX, tables.height_of(min(len(rows), MAX_ROWS))),
    )
    tables.downloads(rows, cluster=filters.cluster or "all", what="runs", moment=services.now())


def journal_tab(config: Config, views: Sequence[RunView], entries: pd.DataFrame) -> None:
    """Show the entries that match the filters, the newest first, and the verdict on the chain."""
    filters = _filters(views, entries, is_journal=True)
    rows = model.matching_rows(entries, filters)
    with st.container(horizontal=True, vertical_alignment="center"):
        is_requested = st.button(
            "Verify chain",
            icon=":material/verified:",
            type="tertiary",
            help="Recomputes the hash of every entry, like `trimtab runs --verify`.",
        )
        _draw_chain(config, is_requested=is_requested)
        _draw_count(len(rows), len(entries), runs.MAX_ENTRIES, "entries")
    journal_table(rows.head(MAX_ROWS), key="activity_entries")
    tables.downloads(rows, cluster=filters.cluster or "all", what="entries", moment=services.now())


def _draw_chain(config: Config, *, is_requested: bool) -> None:
    chain = runs.chain(config, is_requested=is_requested)
    if chain is not None:
        words.badge(
            Badge(
                text=chain.sentence,
                icon=":material/verified:" if chain.is_sound else ":material/gpp_bad:",
                tone="green" if chain.is_sound else "red",
                help="A truncated journal still verifies. Store the newest digest elsewhere as "
                "well.",
            )
        )


def _draw_count(matching: int, total: int, limit: int, what: str) -> None:
    cut = f", newest {MAX_ROWS:,} shown" if matching > MAX_ROWS else ""
    older = f" For older {what}, use `trimtab runs`." if total >= limit else ""
    if matching != total or cut or older:
        st.caption(f"{matching:,} of {total:,} {what}{cut}.{older}", width="content")


def _filters(
    views: Sequence[RunView], entries: pd.DataFrame, *, is_journal: bool
) -> model.JournalFilter:
    """Draw the filters of a tab, and return the filter."""
    with st.container(horizontal=True, vertical_alignment="bottom"):
        cluster = _pick("Cluster", sorted({view.cluster for view in views}), state.OF, 150)
        who = _pick("User", sorted(set(entries["who"])), state.WHO, 180)
        status, kind = "", ""
        if is_journal:
            kind = _pick("Kind", list(model.KINDS.values()), state.KIND, 150)
        else:
            status = _pick("State", [word.lower() for word in RUN_WORDS], state.STATE, 130)
        text = st.text_input(
            "Contains",
            live=tables.TYPING_PAUSE,
            key=state.TEXT,
            bind="query-params",
            placeholder="bundle, node, reason, run",
            width=190,
        )
        since, until = _pick_span()
    return model.JournalFilter(
        cluster=cluster,
        person=who,
        state=status,
        kind=kind,
        text=(text or "").strip(),
        since=since,
        until=until,
    )
