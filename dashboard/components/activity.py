"""Activity on a cluster, wherever it is shown: the header's badges, an object's past."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import streamlit as st

from core.errors import OpsError
from dashboard import services, state
from dashboard.components import tables, words
from dashboard.presenters.fleet import ACTS, ActionStatus
from dashboard.presenters.freshness import Badge
from dashboard.presenters.runs import running_badge
from dashboard.presenters.step_history import touching
from dashboard.presenters.workers import worker_badge
from dashboard.queries import runs

if TYPE_CHECKING:
    import pandas as pd

    from dashboard.services import Cluster, Config

_JOURNAL_PX: Final = 560


def run_link(run_id: str) -> None:
    """Open the page of a run; call it from a callback."""
    state.go("run", run=run_id)


def draw_activity(config: Config, cluster: Cluster) -> None:
    """Draw the run in progress, with a way to it, and whether a worker is there."""
    try:
        view = runs.open_run(config, cluster.name)
    except OpsError as error:
        words.badge(
            Badge(
                text="journal not readable",
                icon=":material/menu_book:",
                tone="red",
                help=f"{error.message} {error.hint} Apply is disabled.",
            )
        )
        return
    if view is not None:
        item = running_badge(view, services.now())
        st.button(
            words.plain(item.text),
            icon=item.icon,
            type="tertiary",
            help=words.plain(item.help),
            key="_run_button",
            on_click=run_link,
            args=(view.run_id,),
        )
    worker = runs.worker(config, cluster.name)
    if not cluster.read_only and not worker.is_alive:  # that one is there is no news
        words.badge(worker_badge(worker))


def is_busy_cluster(config: Config, cluster: Cluster) -> bool:
    """Return whether a run is in progress; an unreadable journal is none."""
    try:
        return runs.open_run(config, cluster.name) is not None
    except OpsError:
        return False


def acting_of(config: Config, cluster: Cluster) -> ActionStatus:
    """Return the allowed actions on a cluster and the run in progress."""
    try:
        view = runs.open_run(config, cluster.name)
        going = "" if view is None else running_badge(view, services.now()).text
    except OpsError:
        going = "journal not readable"
    worker = runs.worker(config, cluster.name)
    allowed = ACTS if worker.is_alive else f"▲ {worker.words}"
    return ActionStatus(
        access="read-only" if cluster.read_only else allowed, run=going.removeprefix("run: ")
    )


def journal_table(rows: pd.DataFrame, *, key: str, is_of_one_run: bool = False) -> None:
    """Show entries of the journal as a table, and the selected one in full at its side.

    Args:
        rows: As :func:`dashboard.presenters.journal.entries_frame` returns them.
        key: Unique on the page.
        is_of_one_run: Cluster and run are known, and times are to the millisecond.
    """
    selected = tables.selected(key, rows["seq"])
    left, right = (st.container(), None)
    if selected is not None:
        left, right = st.columns([0.68, 0.32], gap="medium")
    stamp = "HH:mm:ss.SSS" if is_of_one_run else "YYYY-MM-DD HH:mm:ss"
    columns = {
        "seq": st.column_config.NumberColumn("No.", format="%d"),
        "at": st.column_config.DatetimeColumn("When (UTC)", format=stamp),
        "who": tables.words("User"),
        "cluster": tables.words("Cluster"),
        "run": tables.opener("Run", f"_{key}_run", run_link),
        "kind": tables.words("Entry"),
        "of": tables.words("Object"),
        "detail": st.column_config.TextColumn(
            "Detail",
            help="Select an entry for its full text.",
            width=280 if selected is None else 210,
        ),
    }
    if is_of_one_run:
        del columns["cluster"], columns["run"]
    with left:
        tables.table(
            rows.assign(detail=tables.shortened(_details(rows))),
            columns,
            key=key,
            alt="Journal entries",
            missing="",
            height=min(_JOURNAL_PX, tables.height_of(len(rows))),
            selection="single-row",
        )
    if right is not None and selected is not None:
        entry = rows.iloc[selected]
        with right, st.container(border=True, key=f"{key}_panel"):
            st.markdown(f"**Entry {entry['seq']}: {words.plain(entry['kind'])}**")
            st.markdown(words.plain(entry["what"]))
            for label in ("before", "after"):
                if entry[label]:
                    st.markdown(f"{label.capitalize()}: {words.plain(entry[label])}")
            if entry["why"]:
                st.caption(words.plain(f"“{entry['why']}”"))


def _details(rows: pd.DataFrame) -> list[str]:
    """Return the detail of an entry: owner after or before, else the reason."""
    columns = (rows["after"], rows["before"], rows["why"])
    return [after or before or why for after, before, why in zip(*columns, strict=True)]


def past_of(config: Config, cluster: str, subject: str, *, key: str) -> None:
    """Draw the steps of runs with a bundle or a broker, the newest first."""
    words.section("Runs", "Runs that changed this object, with their results.")
    try:
        views = runs.of_cluster(config, cluster)
    except OpsError as error:
        words.failed(error, what="Could not read the journal")
        return
    rows = touching(views, subject)
    if rows.empty:
        st.caption("No runs for this object.")
        return
    tables.table(
        rows,
        {
            "run": tables.opener("Run", f"_{key}_run", run_link),
            "at": st.column_config.DatetimeColumn("When (UTC)", format="YYYY-MM-DD HH:mm:ss"),
            "state": tables.words("State"),
            "bundle": tables.words("Subject"),
            "from": tables.words("From"),
            "to": tables.words("To"),
            "who": tables.words("User"),
            "why": tables.words("Reason"),
        },
        key=f"{key}_runs",
        alt=f"Runs for {subject}",
        height=min(300, tables.height_of(len(rows))),
    )
