"""Splits: which bundles are near one, where they would be cut, and whether that helps."""

from __future__ import annotations

import streamlit as st

from core.errors import UnknownNameError
from core.pulsar.split import find_bundles_to_split
from core.pulsar.split.watch import split_watch
from dashboard import state
from dashboard.app_pages.pulsar.splits import model, view
from dashboard.components import frame, tables, words
from dashboard.components.pulsar.page import PulsarPage

MOST = 100

IN_SIGHT = 7

COMPARED_HELP = "As the load manager compares it with the limit."

page = frame.open_page("Splits", PulsarPage)
reading = page.reading
snapshot, settings = reading.snapshot, reading.settings
if reading.movable.num_rows == 0:
    words.nothing("No bundles in this snapshot", snapshot.manifest)
    st.stop()
watch = split_watch(snapshot, settings, limit=MOST)
choices, _ = find_bundles_to_split(snapshot, settings)
due = {choice.bundle for choice in choices}
words.answer(
    model.answer(
        model.near_counts(watch, due),
        limit=MOST,
        is_extensible=snapshot.manifest.load_manager == "extensible",
        is_on=settings.flag("loadBalancerAutoBundleSplitEnabled"),
    )
)

rows = model.watch_table(watch, due)
compared = "Current" if snapshot.manifest.load_manager == "extensible" else "Long-term"


def choose(bundle: str) -> None:
    """Look at another bundle."""
    st.session_state[state.BUNDLE] = bundle
    forget_positions()


def forget_positions() -> None:
    """Positions lie in one bundle: another one has its own."""
    st.session_state.pop(state.POSITIONS, None)


if not state.text(state.BUNDLE):
    st.session_state[state.BUNDLE] = str(rows["bundle"][0])
tables.table(
    rows,
    {
        "bundle": tables.opener("Bundle", "_split_bundle", choose),
        "mark": tables.words("State", width_px=118),
        "nearest": tables.words("Nearest limit"),
        "reached": tables.share("Reached", "Share of that limit.", width_px=94),
        "topics": tables.whole("Topics", width_px=54),
        "sessions": tables.whole("Clients", "Producers and consumers.", width_px=62),
        "msg_rate": tables.rate(f"{compared} rate", COMPARED_HELP, width_px=110),
        "throughput": tables.megabytes(f"{compared} traffic", COMPARED_HELP, width_px=110),
    },
    key="split_watch",
    alt="Bundles closest to an automatic split",
    height=tables.height_within(len(rows), IN_SIGHT),
)

with st.container(horizontal=True, vertical_alignment="bottom"):
    bundle = (
        st.text_input(
            "Selected bundle",
            key=state.BUNDLE,
            bind="query-params",
            width=390,
            on_change=forget_positions,
        )
        or ""
    ).strip()
    is_there = model.splittable(snapshot.bundles, bundle)
    controls = st.container(horizontal=True, vertical_alignment="bottom", width="content")
if not is_there:
    known = reading.movable["bundle"].to_pylist()[:10_000]
    unknown = UnknownNameError.of("bundle", bundle, known, place="this snapshot")
    words.failed(unknown, what="Unknown bundle, or bundle that cannot be split")
    st.stop()
chosen = view.SelectedBundle.of(page, bundle)
with controls:
    picked = view.picked(chosen)
    view.topics_button(chosen)
    st.button(
        "Open bundle",
        icon=":material/donut_small:",
        type="tertiary",
        on_click=frame.bundle_link,
        args=(bundle,),
    )
if picked is None:
    st.stop()
found, is_unloaded = picked
view.verdict(found)

result_tab, compare_tab, ring_tab, when_tab = st.tabs(
    ["Result", "Algorithms", "Hash range", "Automatic split"],
    key=state.VIEW,
    on_change="rerun",
    bind="query-params",
)
if result_tab.open:
    with result_tab:
        view.outcome(chosen, found)
if compare_tab.open:
    with compare_tab:
        view.compared(chosen)
if ring_tab.open:
    with ring_tab:
        view.rings(chosen, found)
if when_tab.open:
    with when_tab:
        view.conditions(chosen, found)
tables.downloads(rows, cluster=page.name, what="splits", moment=page.stored.taken_at)
view.planned(chosen, found, is_unloaded=is_unloaded)
