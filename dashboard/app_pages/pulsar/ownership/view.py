"""The five tabs: bundles by state, sessions, namespaces, leaders, the failure of a broker."""

from __future__ import annotations

from typing import Final

import streamlit as st

from core.errors import OpsError, SnapshotError
from core.planning.drill.broker_failure import BrokerFailure
from core.planning.drill.request import HOT_THRESHOLD
from core.pulsar.leaders import change_costs
from core.pulsar.measures import BundleCounts
from core.pulsar.owner_spread import spread_sentence
from core.units import format_ratio
from dashboard import state
from dashboard.app_pages.pulsar.ownership import model, queries
from dashboard.components import choice, findings, frame, tables, words
from dashboard.components.pulsar.page import PulsarPage
from dashboard.presenters.findings import Listed

FINDINGS_IN_SIGHT: Final = 4


def findings_of(page: PulsarPage) -> list[Listed]:
    """Return the findings on ownership."""
    found = findings.of_cluster(page)
    return [one for one in found if (one.links.action(one.finding) or ("", ""))[1] == "ownership"]


def bundles(page: PulsarPage) -> None:
    """Show the bundles in the chosen state of ownership."""
    found, taken_at = queries.ownership(page.stored), page.stored.taken_at
    with st.container(horizontal=True, vertical_alignment="bottom"):
        options = model.choices(found)
        words.tell_unknown("state", state.unknown_in_address(state.STATE, options), options)
        chosen = st.selectbox(
            "State",
            options,
            index=options.index(model.first_choice(found)),
            key=state.STATE,
            bind="query-params",
            width=260,
        )
        contains = st.text_input(
            "Bundle or broker contains",
            key=state.CONTAINS,
            bind="query-params",
            live=tables.TYPING_PAUSE,
            width=300,
        )
    st.caption(words.plain(f"{model.meaning(chosen)} {model.since_text(found)}".strip()))
    rows, count = model.owned_table(
        found, chosen or model.WRONG_ONLY, (contains or "").strip(), taken_at
    )
    if not count:
        st.success(
            f"Owners, sessions and states of {BundleCounts.of(page.reading.movable).text}: no "
            f"problem. {page.reading.cluster_verdict.elsewhere(('serving',))}".rstrip()
            if (chosen or model.WRONG_ONLY) == model.WRONG_ONLY and not contains
            else "No bundle fits this choice.",
            icon=":material/check_circle:",
        )
        return
    has_claims = rows["claimant"].any()
    tables.table(
        rows,
        {
            "bundle": tables.opener("Bundle", "_owned_bundle", frame.bundle_link),
            "state": tables.words("State"),
            "owner": tables.words("Owner"),
            **(
                {"claimant": tables.words("Also claimed by", "Its report also names the bundle.")}
                if has_claims
                else {}
            ),
            "held": tables.words("Held for", "Since its znode was created."),
            **(
                {"unserved": tables.words("Not served for", "Since its state changed.")}
                if rows["unserved"].notna().any()
                else {}
            ),
            "traffic": tables.megabytes("Traffic", "As last reported.", width_px=88),
            "clients": tables.whole("Clients", "Producers and consumers.", width_px=62),
        },
        key="owned_bundles",
        alt="Bundles in the chosen state, with owner and session",
        height=min(420, tables.height_of(len(rows))),
    )
    if count > len(rows):
        st.caption(f"{len(rows):,} of {count:,} are shown; the command line has them all.")
    tables.downloads(rows, cluster=page.name, what="ownership", moment=taken_at)


def sessions(page: PulsarPage) -> None:
    """Show every session and what hangs on it."""
    found, taken_at = queries.ownership(page.stored), page.stored.taken_at
    st.caption(words.plain(model.sessions_answer(found)))
    rows = model.sessions_table(found.sessions, taken_at)
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


def spread(page: PulsarPage) -> None:
    """Show the namespaces that sit on few brokers first."""
    table = queries.spread(page.stored)
    st.caption(words.plain(spread_sentence(table)))
    if not table.num_rows:
        return
    rows = model.spread_table(table)

    def open_bundles(namespace: str) -> None:
        state.go("bundles", namespace=namespace)

    tables.table(
        rows,
        {
            "namespace": tables.opener("Namespace", "_spread_namespace", open_bundles),
            "mark": tables.words("Spread", "Few: far below the expected number."),
            "owned": tables.whole("Bundles", "Assigned bundles."),
            "brokers_used": tables.whole("Brokers used"),
            "expected_used": st.column_config.NumberColumn(
                "Expected",
                format="%.1f",
                help="m (1 - (1 - 1/m)^b): brokers that b bundles placed at random would use.",
            ),
            "brokers_allowed": tables.whole("May serve it", "m: what isolation policies leave."),
            "hottest": tables.words("Most traffic on"),
            "hottest_pct": tables.percent("Traffic share"),
            "fullest_pct": tables.percent("Bundle share", "On the broker with most of them."),
            "traffic": tables.megabytes("Traffic"),
        },
        key="ownership_spread",
        alt="Namespaces with the brokers that serve them, the crowded first",
        height=min(520, tables.height_of(len(rows))),
        missing="no traffic",
    )
    tables.downloads(rows, cluster=page.name, what="spread", moment=page.stored.taken_at)


def leader(page: PulsarPage) -> None:
    """Show who led when, and what a change costs."""
    reading = page.reading
    try:
        history = queries.leaders(page.config, page.cluster, page.stored)
    except SnapshotError as error:
        words.failed(error, what="The record of leaders cannot be read")
        return
    st.caption(words.plain(history.sentence))
    left, right = st.columns([0.5, 0.5], gap="medium")
    with left:
        rows = model.leads_table(history, page.stored.taken_at)
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


# -- a broker fails -------------------------------------------------------------------------------


def failure(page: PulsarPage) -> None:
    """Show the failure of the chosen broker, computed; the cluster is not contacted."""
    names = page.reading.brokers
    if not names:
        words.nothing("No broker is in this snapshot", page.reading.snapshot.manifest)
        return
    leader = page.reading.snapshot.manifest.leader
    with st.container(horizontal=True, vertical_alignment="bottom"):
        broker = choice.selected(
            "Failed broker",
            names,
            key=state.BROKER,
            say=lambda name: f"{name} (leads)" if name == leader else name,
        )
        st.button(
            "Open broker",
            icon=":material/dns:",
            type="tertiary",
            on_click=frame.broker_link,
            args=(broker,),
        )
    try:
        death = queries.death((page.stored, broker))
    except OpsError as error:
        words.failed(error, what="This cannot be simulated")
        return
    st.markdown(words.plain(death.sentence))
    left, right = st.columns(2, gap="medium")
    with left:
        _landing(death)
    with right:
        _hot(death)
    _groups(death)
    with st.expander("Timeline", icon=":material/schedule:"):
        _moments(death)
    with st.expander("Bundles and destinations", on_change="rerun") as each:
        if each.open:
            _each(page, death)


def _moments(death: BrokerFailure) -> None:
    for moment in death.moments:
        when, title = words.plain(model.when(moment)), words.plain(moment.title)
        st.markdown(f":gray-badge[{when}] **{title}**  \n{words.plain(moment.detail)}")


def _landing(death: BrokerFailure) -> None:
    words.section("Destinations")
    rows = model.landing_table(death)
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
    bundles, label = model.to_drain(death)
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


def _hot(death: BrokerFailure) -> None:
    rows = model.hot_table(death)
    line = format_ratio(HOT_THRESHOLD)
    if not len(rows):
        st.caption(f"No broker is at {line} or more afterwards.")
        return
    words.section("Hot afterwards", f"Usage of {line} and more.")
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


def _groups(death: BrokerFailure) -> None:
    rows = model.groups_table(death)
    if not len(rows):
        return
    words.section("Isolation groups", "That lose the broker, or a bundle.")
    tables.table(
        rows,
        {
            "group": tables.words("Group"),
            "room": tables.words("Room"),
            "left": tables.words("Brokers left"),
            "bundles": tables.whole("Bundles to place"),
            "unassigned": tables.whole("Unassigned"),
            "coolest": tables.percent("Min usage"),
        },
        key="ownership_groups",
        alt="Isolation groups that the loss touches",
        height=min(300, tables.height_of(len(rows))),
    )


def _each(page: PulsarPage, death: BrokerFailure) -> None:
    rows = model.bundles_of(death)
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
    tables.downloads(rows, cluster=page.name, what="broker_failure", moment=page.stored.taken_at)
