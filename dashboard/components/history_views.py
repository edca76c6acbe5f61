"""The parts of the History page below the picture: events, agreement, export."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

import streamlit as st

from dashboard import services, state
from dashboard.cli_config import words_of
from dashboard.components import choice, tables, words
from dashboard.components.activity import run_link
from dashboard.components.history_minute import look_at, period_words
from dashboard.presenters import history_agreement as told
from dashboard.presenters.history_events import details_of, events_frame
from dashboard.presenters.moments import stamp
from dashboard.presenters.naming import file_name
from dashboard.reading_history import foretold

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

    from dashboard.reading_history import Asked
    from dashboard.services import Config

STAMP: Final = "YYYY-MM-DD HH:mm:ss"
MAX_EVENTS: Final = 2_000
MOST_BYTES: Final = 200_000_000
"""Larger exports are left to the command line: a browser's download is held in memory."""
_ISO: Final = "%Y-%m-%dT%H:%M:%SZ"
_EVENTS: Final = "_history_events"


def draw_events(asked: Asked, wanted: Sequence[str]) -> None:
    """Draw the events of the period, filtered; a ticked row is told in full."""
    text = st.text_input(
        "Contains",
        key=state.CONTAINS,
        bind="query-params",
        placeholder="bundle, broker, node, setting",
        width=260,
        label_visibility="collapsed",
    )
    table = asked.history.events().events(
        asked.period, subject=(text or "").strip(), most=MAX_EVENTS
    )
    rows = events_frame(table, wanted)
    more = f" The newest {MAX_EVENTS:,} are shown." if table.num_rows == MAX_EVENTS else ""
    st.caption(f"{len(rows):,} events.{more} Tick one to look at its minute.")
    if rows.empty:
        return
    st.dataframe(
        rows,
        hide_index=True,
        column_order=("at", "what", "subject", "before", "after", "by", "who", "why", "run"),
        column_config={
            "at": st.column_config.DatetimeColumn("Seen at (UTC)", format=STAMP, timezone="UTC"),
            "what": tables.words("What"),
            "subject": tables.words("Of"),
            "before": tables.words("Before"),
            "after": tables.words("After"),
            "by": tables.words("By", "Trimtab: a step of a run; else the cluster itself."),
            "who": tables.words("Who"),
            "why": tables.words("Why"),
            "run": tables.opener("Run", "_history_run", run_link, is_pinned=False),
        },
        key=_EVENTS,
        on_select="rerun",
        selection_mode="single-row",
        height=min(460, tables.height_of(len(rows))),
        row_height=tables.ROW_PX,
        placeholder="",
        alt="Events of the period, the newest first",
    )
    _draw_ticked(rows)
    tables.downloads(
        rows, cluster=asked.history.cluster, what="history-events", moment=asked.period.end
    )


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
                f"seen at {stamp(moment)} UTC"
            )
            if event["before"] or event["after"]:
                st.markdown(
                    f"{words.plain(event['before'] or 'none')} → "
                    f"{words.plain(event['after'] or 'none')}"
                )
            for name, value in details_of(event["details"]):
                st.caption(f"{words.plain(name)}: {words.plain(value)}")
            st.button(
                "Look at this minute",
                icon=":material/schedule:",
                key="_look_at_event",
                on_click=look_at,
                args=(moment,),
            )


def draw_agreement(asked: Asked) -> None:
    """Draw what the shadow balancer foretold against what the real leader did."""
    cluster, period = asked.history.cluster, asked.period
    known = foretold((asked.history, period, None))
    if known is None:
        st.caption(
            "Nothing was foretold in this time. While a collector records, the cluster's own "
            "strategy is asked at every snapshot; more of them by `shadow` under `[history]`."
        )
        return
    configured = told.configured_words(list(known.in_force))
    chosen = choice.selected(
        "Strategy",
        [told.CONFIGURED, *known.strategies],
        key=state.STRATEGY,
        say=lambda one: configured if one == told.CONFIGURED else one,
        width=360,
    )
    if chosen != told.CONFIGURED:
        known = foretold((asked.history, period, chosen)) or known
    found = known.agreement
    st.markdown(words.plain(found.sentence))
    words.notes(told.notes(found))
    rows = told.rounds_frame(found)
    acting = st.toggle("Only rounds with a move, foretold or made", value=True, key="_acting")
    shown = rows[rows["acting"]] if acting else rows
    tables.table(
        shown.head(MAX_EVENTS),
        {
            "at": st.column_config.DatetimeColumn("Round (UTC)", format=STAMP, timezone="UTC"),
            "verdict": tables.words("Verdict", pinned=True),
            "why": st.column_config.TextColumn("Not judged because", width=170),
            "both": st.column_config.NumberColumn("Both", format="%,.0f", width=60),
            "early": st.column_config.NumberColumn(
                "Early", format="%,.0f", width=60, help="Foretold a round or two before."
            ),
            "foretold": st.column_config.TextColumn("Foretold", width=200),
            "moved": st.column_config.TextColumn("Moved by the leader", width=200),
            "brokers": tables.words("Brokers", "Whether both took from the same brokers."),
            "sentence": st.column_config.TextColumn("In its own words", width="large"),
        },
        key="history_rounds",
        alt="Rounds: what was foretold and what came",
        missing="",
        height=min(460, tables.height_of(len(shown))),
    )
    tables.downloads(rows, cluster=cluster, what="history-agreement", moment=period.end)


def draw_export(config: Config, asked: Asked) -> None:
    """Offer the period as one file."""
    history, period = asked.history, asked.period
    name = file_name(history.cluster, "history", period.end, "zip")
    st.markdown(
        words.plain(
            f"Everything recorded of {history.cluster} from {period_words(period)}, in one file, "
            "from the full hour on: it opens on another machine with "
        )
        + "`trimtab history import FILE`."
    )

    def made() -> bytes:
        with tempfile.TemporaryDirectory(prefix="trimtab-export-") as folder:
            file = Path(folder) / name
            history.store.export(history.cluster, period.start, period.end, file)
            return file.read_bytes()

    sizes = history.store.sizes(history.cluster)
    total = sum(one.bytes for one in sizes.values())
    files = sum(one.files for one in sizes.values())
    if total * _share(asked) > MOST_BYTES:
        st.caption(
            f"This range is too long for a browser, which gets {MOST_BYTES / 1e6:,.0f} MB at most: "
            "choose a shorter one, or write it on the command line:"
        )
    else:
        st.download_button(
            "Export this range",
            data=made,
            file_name=name,
            icon=":material/download:",
            key="_history_export",
            on_click="ignore",
        )
        st.caption("The same on the command line, for ranges too long for a browser:")
    st.code(
        f'trimtab history export {history.cluster} --from "{period.start:{_ISO}}" '
        f'--to "{period.end:{_ISO}}" --out {name}{words_of(config)}',
        language="bash",
    )
    st.caption(
        words.plain(
            f"The history of {history.cluster} takes {total / 1e6:,.1f} MB in {files:,} files at "
            f"{config.history_uri}. {_kept_words(config)}"
        )
    )


def _share(asked: Asked) -> float:
    """Return the share of the recorded time that a period takes."""
    span = asked.history.span()
    if span is None or span[0] == span[1]:
        return 1.0
    start, end = max(asked.period.start, span[0]), min(asked.period.end, span[1])
    return max(0.0, (end - start) / (span[1] - span[0]))


def _kept_words(config: Config) -> str:
    limits = config.history
    return (
        f"Days older than {limits.max_age_days:g} days are dropped, and the oldest ones beyond "
        f"{limits.max_bytes / 1e9:,.0f} GB. It is {services.now():%H:%M} UTC."
    )
