"""Findings as one table on every page that has any: one row each, the explanation at its side.

A page lists the findings of its clusters and shows them::

    rows = findings.of_cluster(page)
    findings.show(rows, key="fleet", moment=page.stored.taken_at)

A click on the object opens its page, a click on the button the page on which something can be done
(the explanation where that is the page itself), and a selected row its explanation: the whole
sentence, what to do, and the evidence. ``panel`` is a container for the explanation where the page
has a place for it; ``more`` draws what only one page can do about a finding (a fix
that goes into the changes of Settings).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Final, cast

import streamlit as st

from core.findings.finding import SEVERITIES, count_by_severity
from core.findings.starts import LOOK_BACK, with_starts
from core.units import format_age
from dashboard import services, state
from dashboard.components import tables, words
from dashboard.components.systems import system_of
from dashboard.presenters.findings import (
    NONE,
    SEVERITY_WORDS,
    FindingRow,
    evidence_frames,
    file_frame,
    findings_frame,
    listed,
    matching,
)

if TYPE_CHECKING:
    import pandas as pd
    from streamlit.delta_generator import DeltaGenerator

    from core.findings.finding import Finding, Severity
    from dashboard.components.page import AnyPage

MAX_ROWS: Final = 12
"""Rows that are in sight; the table scrolls."""

_MIN_FOR_FILTER: Final = 6
_PANEL_PX: Final = 430
_CHARACTER_PX: Final = 6
_PADDING_PX: Final = 20
_ROOM_PX: Final = 848
"""Of the table in a narrow window."""
_SINCE_PX: Final = 50
_OTHERS_PX: Final = 33 + 90 + 206 + 86
"""Of the columns of a fixed width that every such table has."""
_EXPLAIN: Final = "Explain"
"""Button of a finding about which something can be done on the page that is drawn."""


def of_cluster(page: AnyPage, findings: Sequence[Finding] | None = None) -> list[FindingRow]:
    """Return the findings of a page's cluster, or some of them, for :func:`show`."""
    found = page.reading.findings if findings is None else findings
    spans = services.finding_spans(page.config, page.name)
    dated = with_starts(found, spans, page.stored.taken_at)
    return listed(page.name, dated, system_of(page.cluster.kind).finding_links)


def show(
    rows: Sequence[FindingRow],
    *,
    key: str,
    moment: datetime,
    title: str = "Findings",
    panel: DeltaGenerator | None = None,
    more: Callable[[Finding], None] | None = None,
    max_rows: int = MAX_ROWS,
    scope: str = "",
) -> None:
    """Show findings as a table with filters, a download, and the explanation of one.

    Args:
        rows: Of one or several clusters; the cluster is a column where there are several.
        key: Unique on the page.
        moment: Of the snapshot, for the name of a file.
        title: Of the section.
        panel: Where the explanation goes; ``None``: at the right of the table.
        more: Draws what else the page can do about the finding that is explained.
        max_rows: Rows in sight.
        scope: What was examined, or what is open elsewhere; shown where there are no rows.
    """
    if not rows:
        words.section(title)
        st.caption(f":material/check_circle: No findings. {words.plain(scope)}".rstrip())
        return
    chosen = _filters(rows, key, title)
    opened = _opened(chosen, key)
    place = panel
    if opened is not None and panel is None:
        left, place = st.columns([0.68, 0.32], gap="medium")
    else:
        left = st.container()
    with left:
        _table(chosen, key, max_rows, has_room=place is None)
        tables.downloads(
            partial(file_frame, rows),
            cluster=rows[0].cluster,
            what=f"findings_{key}",
            moment=moment,
        )
    if opened is not None and place is not None:
        with place, st.container(border=True, key=f"finding_panel_{key}"):
            _explanation(opened, key, more)


def _filters(rows: Sequence[FindingRow], key: str, title: str) -> list[FindingRow]:
    """Draw the head with the filters; return the matching rows."""
    counts = count_by_severity(row.finding for row in rows)
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.header(words.plain(title), anchor=False, width="content")
        if len(rows) < _MIN_FOR_FILTER:
            st.caption(f"{len(rows)}")
            return matching(rows, (), "")
        severities = st.pills(
            "Severity",
            [severity for severity in SEVERITIES if counts[severity]],
            selection_mode="multi",
            format_func=lambda one: f"{SEVERITY_WORDS[cast('Severity', one)]} {counts[one]}",
            key=f"_{key}_severity",
            label_visibility="collapsed",
        )
        text = st.text_input(
            "Filter",
            live=tables.TYPING_PAUSE,
            key=f"_{key}_text",
            placeholder="Filter",
            label_visibility="collapsed",
            width=180,
            icon=":material/filter_list:",
        )
    return matching(rows, severities, text.strip())


def _opened(rows: Sequence[FindingRow], key: str) -> FindingRow | None:
    """Return the finding that is explained, wherever it is listed by now."""
    identity = st.session_state.get(f"_{key}_opened")
    return next((row for row in rows if row.identity == identity), None)


def _width_px(frame: pd.DataFrame, column: str, least: int, most: int, *, has_room: bool) -> int:
    """Return the width of a column's longest text, limited by the room."""
    wanted = _CHARACTER_PX * int(frame[column].str.len().max()) + _PADDING_PX
    return min(max(wanted, least), most if has_room else least)


def _table(rows: Sequence[FindingRow], key: str, max_rows: int, *, has_room: bool) -> None:
    frame = findings_frame(rows, services.now())
    frame["action"] = [
        _EXPLAIN if _action_page(one) == state.page() else label
        for one, label in zip(rows, frame["action"], strict=True)
    ]
    has_several = len({row.cluster for row in rows}) > 1
    width_px = partial(_width_px, frame, has_room=has_room and not has_several)

    def selected() -> None:
        picked = st.session_state[f"{key}_findings"].selection.rows
        st.session_state[f"_{key}_opened"] = rows[picked[0]].identity if picked else None

    def open_object() -> None:
        click = st.session_state.get(f"_{key}_object")
        if click is not None:
            one = rows[click["row"]]
            page, params = one.links.target(one.finding)
            if page == state.page():
                st.session_state[f"_{key}_opened"] = one.identity
            else:
                state.go(page, **{state.CLUSTER: one.cluster, **params})

    def act() -> None:
        click = st.session_state.get(f"_{key}_action")
        if click is None:
            return
        one = rows[click["row"]]
        if _action_page(one) == state.page():
            st.session_state[f"_{key}_opened"] = one.identity
        else:
            go_to_action(one)

    has_since = any(row.finding.since for row in rows)
    measured_px, limit_px = width_px("measured", 96, 130), width_px("limit", 64, 84)
    rest_px = _OTHERS_PX + measured_px + limit_px + _SINCE_PX * has_since
    columns = {
        "severity": tables.status("Severity", SEVERITY_WORDS.values(), width_px=90),
        **({"cluster": tables.words("Cluster", width_px=106)} if has_several else {}),
        "object": st.column_config.ButtonColumn(
            "Object",
            type="tertiary",
            alignment="left",
            on_click=open_object,
            key=f"_{key}_object",
            width=width_px("object", 116, max(116, min(252, _ROOM_PX - rest_px))),
        ),
        "finding": tables.words("Finding", width_px=206),
        "measured": st.column_config.TextColumn("Measured", alignment="right", width=measured_px),
        "limit": st.column_config.TextColumn("Limit", alignment="right", width=limit_px),
        "since": st.column_config.TextColumn(
            "Since",
            help=f"From saved snapshots and {LOOK_BACK[-1] / timedelta(hours=1):.0f} h of history.",
            alignment="right",
            width=_SINCE_PX,
        ),
        "action": st.column_config.ButtonColumn("", on_click=act, key=f"_{key}_action", width=86),
    }
    tables.grid(
        frame,
        hide_index=True,
        column_order=_order(columns, has_since=has_since),
        column_config=columns,
        key=f"{key}_findings",
        alt="Findings with measured value and limit, worst first",
        height=tables.height_within(len(frame), max_rows),
        row_height=tables.ROW_PX,
        on_select=selected,
        selection_mode="single-row",
    )


def _order(columns: Collection[str], *, has_since: bool) -> list[str]:
    """Return the columns; where the cluster is one there is no room for all: the button is near."""
    order = [name for name in columns if name != "since" or has_since]
    if "cluster" in order:
        order.insert(order.index("measured"), order.pop())
    return order


def _action_page(row: FindingRow) -> str:
    """Return the page for the action on a finding."""
    action = row.links.action(row.finding)
    return row.links.target(row.finding)[0] if action is None else action[1]


def go_to_action(row: FindingRow) -> None:
    """Open the page for the action on a finding; from a callback."""
    action = row.links.action(row.finding)
    page, params = row.links.target(row.finding) if action is None else action[1:]
    state.go(page, **{state.CLUSTER: row.cluster, **params})


def _explanation(row: FindingRow, key: str, more: Callable[[Finding], None] | None) -> None:
    finding = row.finding
    st.markdown(f"**{words.plain(finding.title)}**")
    st.caption(words.plain(f"{SEVERITY_WORDS[finding.severity]} · {row.object}"))
    st.markdown(words.coded(finding.text))
    if finding.hint:
        st.markdown(f"**Next:** {words.coded(finding.hint)}")
    facts = [
        ("measured", None if finding.measured is None else finding.measured.text),
        ("limit", None if finding.limit is None else finding.limit.text),
        (
            "since",
            None
            if row.finding.since is None
            else f"{row.finding.since:%Y-%m-%d %H:%M} UTC"
            f" ({format_age((services.now() - row.finding.since).total_seconds())})",
        ),
    ]
    st.caption(words.plain(" · ".join(f"{name} {text or NONE}" for name, text in facts)))
    if more is not None:
        more(finding)
    _evidence(finding, key)
    with st.container(horizontal=True, gap="small"):
        action = row.links.action(finding)
        if action is not None and action[1] != state.page():
            st.button(
                action[0], key=f"_{key}_do", type="primary", on_click=go_to_action, args=(row,)
            )
        st.button("Close", key=f"_{key}_close", type="tertiary", on_click=_close, args=(key,))
    st.caption(f"Rule `{finding.code}`")


def _evidence(finding: Finding, key: str) -> None:
    facts, rows = evidence_frames(finding)
    if facts.empty and rows.empty:
        return
    with st.expander("Evidence"):
        for name, frame in (("facts", facts), ("rows", rows)):
            if not frame.empty:
                tables.grid(
                    frame,
                    hide_index=True,
                    key=f"{key}_evidence_{name}",
                    alt=f"Evidence of finding {name}",
                    height=min(_PANEL_PX // 2, tables.height_of(len(frame))),
                    row_height=tables.ROW_PX,
                )


def _close(key: str) -> None:
    st.session_state[f"_{key}_opened"] = None
