"""Activity: who did what, when and why, with what came of it; the journal, filtered and checked."""

from __future__ import annotations

import streamlit as st

from core.errors import OpsError
from dashboard import services, state
from dashboard.app_pages.activity import model
from dashboard.app_pages.activity.view import pick, pick_span
from dashboard.components import frame, tables, words
from dashboard.components.activity import run_link
from dashboard.presenters.freshness import Badge
from dashboard.presenters.runs import RUN_WORDS, runs_frame
from dashboard.queries import runs

VIEWS = ("runs", "entries")
STAMP = "YYYY-MM-DD HH:mm:ss"
SHOWN = 2_000

config = frame.open_journal("Runs")
try:
    views, entries = runs.every(config), runs.audit(config)
except OpsError as error:
    words.failed(error, what="The journal cannot be read")
    st.stop()
words.answer(model.answer(views, services.now()))
with st.container(horizontal=True, vertical_alignment="center"):
    is_requested = st.button(
        "Verify the chain",
        icon=":material/verified:",
        type="tertiary",
        help="Computes every entry's hash again. `trimtab runs --verify` does the same.",
    )
    chain = runs.chain(config, is_requested=is_requested)
    if chain is not None:
        words.badge(
            Badge(
                text=chain.sentence,
                icon=":material/verified:" if chain.is_sound else ":material/gpp_bad:",
                tone="green" if chain.is_sound else "red",
                help="A cut end leaves a sound chain: keep the newest digest elsewhere, too.",
            )
        )
if not views:
    st.caption(
        "Runs begin with Apply plan… on the page that shows a plan, or with `trimtab apply`. "
        "Every request, step, setting and outcome is recorded here."
    )
    st.stop()

with st.container(horizontal=True, vertical_alignment="bottom"):
    shown = st.segmented_control(
        "Show", VIEWS, default="runs", required=True, key=state.VIEW, bind="query-params"
    )
    clusters = sorted({view.cluster for view in views})
    people = sorted(set(entries["who"]))
    cluster = pick("Cluster", clusters, state.OF, 150)
    who = pick("Person", people, state.WHO, 180)
    is_runs = shown != "entries"
    status, kind = "", ""
    if is_runs:
        status = pick("State", [one.lower() for one in RUN_WORDS], state.STATE, 130)
    else:
        kind = pick("Kind", list(model.KINDS.values()), state.KIND, 150)
    text = st.text_input(
        "Contains",
        key=state.TEXT,
        bind="query-params",
        placeholder="bundle, node, reason, run",
        width=190,
    )
    since, until = pick_span()
wanted = model.JournalFilter(
    cluster=cluster,
    person=who,
    state=status,
    kind=kind,
    text=(text or "").strip(),
    since=since,
    until=until,
)
if is_runs:
    rows = runs_frame(model.matching_runs(views, wanted), services.now())
    columns = {
        "run": tables.opener("Run", "_activity_run", run_link),
        "requested_at": st.column_config.DatetimeColumn("When (UTC)", format=STAMP),
        "cluster": tables.words("Cluster"),
        "who": tables.words("Who"),
        "state": tables.words("State"),
        "done": tables.whole("Done"),
        "failed": tables.whole("Failed", "Failed, or unknown still."),
        "skipped": tables.whole("Skipped"),
        "steps": tables.whole("Of"),
        "took_s": tables.seconds("Took"),
        "why": tables.words("Why"),
        "outcome": st.column_config.TextColumn("Result", width="large"),
        "undoes": tables.words("Undoes"),
    }
else:
    rows = model.matching_rows(entries, wanted)
    columns = {
        "seq": st.column_config.NumberColumn("No.", format="%d"),
        "at": st.column_config.DatetimeColumn("When (UTC)", format=STAMP),
        "who": tables.words("Who"),
        "cluster": tables.words("Cluster"),
        "run": tables.opener("Run", "_activity_entry", run_link),
        "kind": tables.words("Entry"),
        "what": st.column_config.TextColumn("What", width=300),
        "before": st.column_config.TextColumn("Before", width=105),
        "after": st.column_config.TextColumn("After", width=105),
        "why": tables.words("Why"),
    }
total = len(views) if is_runs else len(entries)
more = f", the newest {SHOWN:,} of them are shown" if len(rows) > SHOWN else ""
held = runs.MAX_RUNS if is_runs else runs.MAX_ENTRIES
older = f" Older {shown} than these {held:,}: `trimtab runs`." if total >= held else ""
st.caption(f"{len(rows):,} of {total:,} {shown} match{more}. Click a run to open it.{older}")
tables.table(
    rows.head(SHOWN),
    columns,
    key=f"activity_{shown}",
    missing="",
    alt=f"Journal: {shown} that match the filter",
    height=min(620, tables.height_of(min(len(rows), SHOWN))),
)
tables.downloads(rows, cluster=cluster or "all", what=str(shown), moment=services.now())
