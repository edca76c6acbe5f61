"""The drill of the page of ownership: one broker dies, and what comes of it."""

from __future__ import annotations

import streamlit as st

from core.errors import OpsError
from core.planning.broker_death import BrokerDeath
from core.planning.drill import HOT_LINE
from dashboard import owning, state
from dashboard.components import choice, frame, tables, words
from dashboard.components.frame import PageContext
from dashboard.presenters import ownership as presenter


def drill(page: PageContext) -> None:
    """Let a person choose a broker, and show its death."""
    names = list(page.reading.view.brokers)
    if not names:
        words.nothing("No broker is in this snapshot", page.reading.snapshot.manifest)
        return
    leader = page.reading.snapshot.manifest.leader
    with st.container(horizontal=True, vertical_alignment="bottom"):
        broker = choice.selected(
            "Broker that dies",
            names,
            key=state.BROKER,
            say=lambda name: f"{name} (leads)" if name == leader else name,
        )
        st.button(
            "Open the broker",
            icon=":material/dns:",
            type="tertiary",
            on_click=frame.broker_link,
            args=(broker,),
        )
    try:
        death = owning.death((page.shelved, broker))
    except OpsError as error:
        words.failed(error, what="This cannot be played")
        return
    words.section("What comes of it", "Nothing is done to the cluster: this is computed.")
    st.markdown(words.plain(death.sentence))
    left, right = st.columns([0.46, 0.54], gap="medium")
    with left:
        _moments(death)
    with right:
        _landing(death)
    _hot(death)
    _groups(death)
    with st.expander("Each bundle and where it lands", on_change="rerun") as each:
        if each.open:
            _each(page, death)


def _moments(death: BrokerDeath) -> None:
    st.markdown("**What happens when**")
    for moment in death.moments:
        when, title = words.plain(presenter.when(moment)), words.plain(moment.title)
        st.markdown(f":gray-badge[{when}] **{title}**  \n{words.plain(moment.detail)}")


def _landing(death: BrokerDeath) -> None:
    st.markdown("**Where its bundles would go**")
    rows = presenter.landing_table(death)
    if not len(rows):
        st.caption("It owns no bundle that others could serve.")
        return
    tables.table(
        rows,
        {
            "to": tables.opener("To", "_landing_broker", frame.broker_link),
            "bundles": tables.whole("Bundles"),
            "clients": tables.whole("Clients"),
            "traffic": tables.megabytes("Traffic"),
        },
        key="ownership_landing",
        alt="Brokers that take the bundles, the most traffic first",
        height=min(400, tables.height_of(len(rows))),
    )
    bundles, label = presenter.to_drain(death)
    st.button(
        label,
        icon=":material/swap_horiz:",
        type="primary",
        on_click=frame.unload_link,
        args=(bundles,),
    )
    st.caption(
        "Stopping it in order costs each bundle an unload, well under a second as a rule, instead "
        f"of {death.session_s:g} s without an owner."
    )


def _hot(death: BrokerDeath) -> None:
    rows = presenter.hot_table(death)
    line = f"{HOT_LINE * 100:g} %"
    if not len(rows):
        st.caption(f"Nobody is at {line} or more afterwards.")
        return
    words.section("Hot afterwards", f"Usage of {line} and more; some were there before.")
    tables.table(
        rows,
        {
            "broker": tables.opener("Broker", "_hot_broker", frame.broker_link),
            "before": tables.percent("Before"),
            "after": tables.percent("After"),
            "gained": tables.whole("Bundles gained"),
            "traffic": tables.megabytes("Gained"),
        },
        key="ownership_hot",
        alt="Brokers that are hot afterwards",
        height=min(300, tables.height_of(len(rows))),
    )


def _groups(death: BrokerDeath) -> None:
    rows = presenter.groups_table(death)
    if not len(rows):
        return
    words.section("Isolation groups", "That lose the broker, or a bundle.")
    tables.table(
        rows,
        {
            "group": tables.words("Group", pinned=True),
            "room": tables.words("Room"),
            "left": tables.words("Brokers left"),
            "bundles": tables.whole("Bundles to place"),
            "unplaced": tables.whole("Find no broker"),
            "coolest": tables.percent("Coolest left"),
        },
        key="ownership_groups",
        alt="Isolation groups that the loss touches",
        height=min(300, tables.height_of(len(rows))),
    )


def _each(page: PageContext, death: BrokerDeath) -> None:
    rows = presenter.bundles_of(death)
    tables.table(
        rows,
        {
            "bundle": tables.opener("Bundle", "_dead_bundle", frame.bundle_link),
            "to": tables.words("To"),
            "clients": tables.whole("Clients"),
            "traffic": tables.megabytes("Traffic"),
        },
        key="ownership_dead_bundles",
        alt="Each bundle of the broker and where it lands",
        height=min(420, tables.height_of(len(rows))),
    )
    tables.downloads(rows, cluster=page.name, what="broker_death", moment=page.shelved.taken_at)
