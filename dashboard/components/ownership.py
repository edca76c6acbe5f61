"""Panels of the page of ownership: bundles by state, sessions, namespaces, leaders."""

from __future__ import annotations

import streamlit as st

from core.errors import SnapshotError
from core.pulsar.leaders import change_costs
from core.pulsar.owner_spread import spread_sentence
from dashboard import owning, state
from dashboard.components import frame, tables, words
from dashboard.components.frame import PageContext
from dashboard.presenters import ownership as presenter


def bundles(page: PageContext) -> None:
    """Show the states, then the bundles in the chosen one."""
    found, taken_at = owning.ownership(page.shelved), page.shelved.taken_at
    states = presenter.states_table(found)
    tables.table(
        states,
        {
            "state": st.column_config.TextColumn("State", width=170),
            "bundles": st.column_config.NumberColumn("Bundles", format="%,.0f", width=90),
            "meaning": st.column_config.TextColumn("What it means", width="large"),
        },
        key="ownership_states",
        alt="How many bundles are in which state of ownership",
        height=tables.height_of(len(states)),
    )
    words.notes(presenter.wrong_meanings(found))
    words.section("Bundles", presenter.since_text(found))
    with st.container(horizontal=True, vertical_alignment="bottom"):
        options = presenter.choices(found)
        words.tell_unknown("state", state.unknown_in_address(state.STATE, options), options)
        chosen = st.selectbox("State", options, key=state.STATE, bind="query-params", width=260)
        contains = st.text_input(
            "Bundle or broker contains", key=state.CONTAINS, bind="query-params", width=300
        )
    rows, count = presenter.owned_table(
        found, chosen or presenter.WRONG_ONLY, (contains or "").strip(), taken_at
    )
    if not count:
        st.success(
            "No bundle is in a state that makes somebody wait."
            if (chosen or presenter.WRONG_ONLY) == presenter.WRONG_ONLY and not contains
            else "No bundle fits this choice.",
            icon=":material/check_circle:",
        )
        return
    tables.table(
        rows,
        {
            "bundle": tables.opener("Bundle", "_owned_bundle", frame.bundle_link),
            "state": tables.words("State"),
            "owner": tables.words("Owner"),
            "claimant": tables.words("Also claimed by", "Whose report names it too."),
            "session": tables.words("Session", "ZooKeeper's ephemeralOwner of its znode."),
            "held": tables.words("Held for", "Since its znode was created."),
            "traffic": tables.megabytes("Traffic", "As last reported."),
            "clients": tables.whole("Clients", "Producers and consumers."),
        },
        key="owned_bundles",
        alt="Bundles in the chosen state, with owner and session",
        height=min(420, tables.height_of(len(rows))),
    )
    if count > len(rows):
        st.caption(f"{len(rows):,} of {count:,} are shown; the command line has them all.")
    tables.downloads(rows, cluster=page.name, what="ownership", moment=taken_at)


def sessions(page: PageContext) -> None:
    """Show every session and what hangs on it."""
    found, taken_at = owning.ownership(page.shelved), page.shelved.taken_at
    words.section("Sessions with ZooKeeper", presenter.sessions_answer(found))
    rows = presenter.sessions_table(found.sessions, taken_at)
    tables.table(
        rows,
        {
            "broker": tables.opener("Broker", "_session_broker", frame.broker_link),
            "what": tables.words("Role"),
            "session": tables.words("Session"),
            "age": tables.words("Age, at least", "Of the oldest znode that lives with it."),
            "bundles": tables.whole("Bundles", "Go the moment it ends."),
            "traffic": tables.megabytes("Traffic"),
            "clients": tables.whole("Clients"),
            "orphaned": tables.whole("Orphaned"),
            "stale": tables.whole("Stale"),
        },
        key="ownership_sessions",
        alt="Sessions with their broker, age and what hangs on them",
        height=min(520, tables.height_of(len(rows))),
    )
    tables.downloads(rows, cluster=page.name, what="sessions", moment=taken_at)


def spread(page: PageContext) -> None:
    """Show the namespaces that sit on few brokers first."""
    table = owning.spread(page.shelved)
    words.section("Spread of the namespaces", spread_sentence(table))
    if not table.num_rows:
        return
    rows = presenter.spread_table(table)

    def open_bundles(namespace: str) -> None:
        state.go("bundles", namespace=namespace)

    tables.table(
        rows,
        {
            "namespace": tables.opener("Namespace", "_spread_namespace", open_bundles),
            "mark": tables.words("Spread", "Few: far below what chance would use."),
            "owned": tables.whole("Bundles", "That somebody owns."),
            "brokers_used": tables.whole("Brokers used"),
            "expected_used": st.column_config.NumberColumn(
                "By chance",
                format="%.1f",
                help="m (1 - (1 - 1/m)^b): brokers that b bundles placed at random would use.",
            ),
            "brokers_allowed": tables.whole("May serve it", "m: what isolation policies leave."),
            "hottest": tables.words("Most traffic on"),
            "hottest_pct": tables.percent("of its traffic"),
            "fullest_pct": tables.percent("of its bundles", "On the broker with most of them."),
            "traffic": tables.megabytes("Traffic"),
        },
        key="ownership_spread",
        alt="Namespaces with the brokers that serve them, the crowded first",
        height=min(520, tables.height_of(len(rows))),
        missing="no traffic",
    )
    tables.downloads(rows, cluster=page.name, what="spread", moment=page.shelved.taken_at)


def leader(page: PageContext) -> None:
    """Show who led when, and what a change costs."""
    reading = page.reading
    try:
        history = owning.leaders(page.config, page.cluster, page.shelved)
    except SnapshotError as error:
        words.failed(error, what="The record of leaders cannot be read")
        return
    words.section("Who leads", history.sentence)
    left, right = st.columns([0.5, 0.5], gap="medium")
    with left:
        rows = presenter.leads_table(history, page.shelved.taken_at)
        if len(rows):
            tables.table(
                rows,
                {
                    "broker": tables.opener("Leader", "_lead_broker", frame.broker_link),
                    "since": tables.words("From, UTC"),
                    "until": tables.words("Until, UTC"),
                    "length": tables.words("For"),
                },
                key="ownership_leads",
                alt="Leaders, the newest first",
                height=min(420, tables.height_of(len(rows))),
            )
        st.caption("A change is seen when the next minute is recorded; two within one look as one.")
    with right:
        st.markdown("**What each change costs**")
        words.notes(change_costs(reading.settings, reading.snapshot.manifest.load_manager))
