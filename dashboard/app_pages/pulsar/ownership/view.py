"""The five tabs: bundles by state, sessions, namespaces, leaders, the failure of a broker."""

from __future__ import annotations

from typing import Final

import streamlit as st

from core.errors import OpsError, SnapshotError
from core.operations.drill.broker_failure import BrokerFailure
from core.operations.drill.request import HOT_THRESHOLD
from core.pulsar.leaders import change_costs
from core.pulsar.measures import BundleCounts
from core.pulsar.owner_spread import spread_sentence
from core.units import format_ratio
from dashboard import state
from dashboard.app_pages.pulsar.ownership import model, queries
from dashboard.components import choice, findings, frame, tables, words
from dashboard.components.pulsar.page import PulsarPage
from dashboard.components.pulsar.system import PULSAR
from dashboard.presenters.findings import FindingRow

FINDINGS_IN_SIGHT: Final = 4


def findings_of(page: PulsarPage) -> list[FindingRow]:
    """Return the findings on ownership."""
    return findings.of_cluster(page, PULSAR.findings_of("ownership", page.reading.findings))


def bundles(page: PulsarPage) -> None:
    """Show the bundles in the chosen state of ownership."""
    found, taken_at = queries.owners(page.stored).found, page.stored.taken_at
    with st.container(horizontal=True, vertical_alignment="bottom"):
        options = model.choices(found)
        words.report_unknown("state", state.unknown_in_address(state.STATE, options), options)
        chosen = st.selectbox(
            "State",
            options,
            index=options.index(model.first_choice(found)),
            format_func=model.label_of,
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
            f"problems. {page.reading.cluster_verdict.elsewhere(('serving',))}".rstrip()
            if (chosen or model.WRONG_ONLY) == model.WRONG_ONLY and not contains
            else "No matching bundles.",
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
                {
                    "claimant": tables.words(
                        "Also claimed by", "Broker with the bundle in its load report."
                    )
                }
                if has_claims
                else {}
            ),
            "held": tables.words("Owned for", "Time since the creation of the znode."),
            **(
                {"unserved": tables.words("Not served for", "Time since the state changed.")}
                if rows["unserved"].notna().any()
                else {}
            ),
            "traffic": tables.megabytes("Traffic", "As last reported.", width_px=88),
            "clients": tables.whole("Clients", "Producers and consumers.", width_px=62),
        },
        key="owned_bundles",
        alt="Bundles in the selected state with owner and session",
        height=min(420, tables.height_of(len(rows))),
    )
    if count > len(rows):
        st.caption(f"{len(rows):,} of {count:,} shown. Use the command line for all bundles.")
    tables.downloads(rows, cluster=page.name, what="ownership", moment=taken_at)


def sessions(page: PulsarPage) -> None:
    """Draw every session and its owned bundles."""
    found, taken_at = queries.owners(page.stored).found, page.stored.taken_at
    st.caption(words.plain(model.sessions_answer(found)))
    rows = model.sessions_table(found.sessions, taken_at)
    tables.table(
        rows,
        {
            "broker": tables.opener("Broker", "_session_broker", frame.broker_link),
            "what": tables.words("Role"),
            "session": tables.words("Session"),
            "age": tables.words("Min age", "Age of the oldest ephemeral znode of the session."),
            "bundles": tables.whole("Bundles", "Unassigned when the session ends."),
            "traffic": tables.megabytes("Traffic"),
            "clients": tables.whole("Clients"),
            "orphaned": tables.whole("Orphaned"),
            "stale": tables.whole("Stale"),
        },
        key="ownership_sessions",
        alt="Sessions with broker, age and owned bundles",
        height=min(520, tables.height_of(len(rows))),
    )
    tables.downloads(rows, cluster=page.name, what="sessions", moment=taken_at)


def spread(page: PulsarPage) -> None:
    """Show the namespaces that sit on few brokers first."""
    table = queries.owners(page.stored).namespaces
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
            "mark": tables.words("Spread", "Few: far fewer brokers than expected."),
            "owned": tables.whole("Bundles", "Assigned bundles."),
            "brokers_used": tables.whole("Brokers used"),
            "expected_used": st.column_config.NumberColumn(
                "Expected",
                format="%.1f",
                help="m (1 - (1 - 1/m)^b): expected number of brokers for b randomly placed "
                "bundles.",
            ),
            "brokers_allowed": tables.whole(
                "Eligible brokers", "m: eligible by isolation policies."
            ),
            "hottest": tables.words("Busiest broker"),
            "hottest_pct": tables.percent("Traffic share"),
            "fullest_pct": tables.percent("Bundle share", "Share on the busiest broker."),
            "traffic": tables.megabytes("Traffic"),
        },
        key="ownership_spread",
        alt="Namespaces with their brokers, most concentrated first",
        height=min(520, tables.height_of(len(rows))),
        missing="no traffic",
    )
    tables.downloads(rows, cluster=page.name, what="spread", moment=page.stored.taken_at)


def leader(page: PulsarPage) -> None:
    """Render the leaders over time and the cost of a change."""
    reading = page.reading
    try:
        history = queries.leaders(page.config, page.cluster, page.stored)
    except SnapshotError as error:
        words.failed(error, what="Could not read the leader history")
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
                    "since": tables.words("From (UTC)"),
                    "until": tables.words("Until (UTC)"),
                    "length": tables.words("Duration"),
                },
                key="ownership_leads",
                alt="Leaders, newest first",
                height=min(420, tables.height_of(len(rows))),
            )
        st.caption("Resolution: one minute; two changes within a minute appear as one.")
    with right:
        st.markdown("**Cost of a leader change**")
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
            format_func=lambda name: f"{name} (leader)" if name == leader else name,
        )
        st.button(
            "Open broker",
            icon=":material/dns:",
            type="tertiary",
            on_click=frame.broker_link,
            args=(broker,),
        )
    try:
        broker_failure = queries.broker_failure((page.stored, broker))
    except OpsError as error:
        words.failed(error, what="Simulation failed")
        return
    st.markdown(words.plain(broker_failure.sentence))
    left, right = st.columns(2, gap="medium")
    with left:
        _landing(broker_failure)
    with right:
        _hot(broker_failure)
    _groups(broker_failure)
    with st.expander("Timeline", icon=":material/schedule:"):
        _moments(broker_failure)
    with st.expander("Bundles and destinations", on_change="rerun") as each:
        if each.open:
            _each(page, broker_failure)


def _moments(broker_failure: BrokerFailure) -> None:
    for moment in broker_failure.moments:
        when, title = words.plain(model.when(moment)), words.plain(moment.title)
        st.markdown(f":gray-badge[{when}] **{title}**  \n{words.plain(moment.detail)}")


def _landing(broker_failure: BrokerFailure) -> None:
    words.section("Destinations")
    rows = model.landing_table(broker_failure)
    if not len(rows):
        st.caption("No bundles that other brokers can serve.")
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
        alt="Destinations of the bundles, most traffic first",
        height=min(400, tables.height_of(len(rows))),
    )
    bundles, label = model.to_drain(broker_failure)
    st.button(
        label,
        icon=":material/swap_horiz:",
        type="primary",
        on_click=frame.unload_link,
        args=(bundles,),
    )
    st.caption(
        "A graceful shutdown unloads each bundle, usually in less than 1 s, instead of "
        f"{broker_failure.session_s:g} s without an owner."
    )


def _hot(broker_failure: BrokerFailure) -> None:
    rows = model.hot_table(broker_failure)
    line = format_ratio(HOT_THRESHOLD)
    if not len(rows):
        st.caption(f"No brokers at {line} usage or more afterwards.")
        return
    words.section("Overloaded brokers", f"Usage of {line} or more after the failure.")
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
        alt="Overloaded brokers after the failure",
        height=min(300, tables.height_of(len(rows))),
    )


def _groups(broker_failure: BrokerFailure) -> None:
    rows = model.groups_table(broker_failure)
    if not len(rows):
        return
    words.section("Isolation groups", "Groups that lose the broker or a bundle.")
    tables.table(
        rows,
        {
            "group": tables.words("Group"),
            "room": tables.words("Capacity"),
            "left": tables.words("Brokers left"),
            "bundles": tables.whole("Bundles to place"),
            "unassigned": tables.whole("Unassigned"),
            "coolest": tables.percent("Min usage"),
        },
        key="ownership_groups",
        alt="Isolation groups affected by the failure",
        height=min(300, tables.height_of(len(rows))),
    )


def _each(page: PulsarPage, broker_failure: BrokerFailure) -> None:
    rows = model.bundles_of(broker_failure)
    tables.table(
        rows,
        {
            "bundle": tables.opener("Bundle", "_dead_bundle", frame.bundle_link),
            "to": tables.words("To"),
            "clients": tables.whole("Clients"),
            "traffic": tables.megabytes("Traffic"),
        },
        key="ownership_dead_bundles",
        alt="Bundles of the broker with destinations",
        height=min(420, tables.height_of(len(rows))),
    )
    tables.downloads(rows, cluster=page.name, what="broker_failure", moment=page.stored.taken_at)
