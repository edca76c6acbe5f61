"""Panels that explain: why a broker sheds, when it reports, what its leader does next."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Final

import pandas as pd
import streamlit as st

from core.errors import OpsError, UnknownNameError
from core.pulsar.leader.facts import LeaderFacts
from core.pulsar.split import explain_split
from core.units import pluralize
from dashboard import state
from dashboard.components import frame, tables, words
from dashboard.components.pulsar import leader_round
from dashboard.presenters.pulsar import explain as presenter
from dashboard.presenters.pulsar.rebalance import MAX_REACHED
from dashboard.queries import runs
from dashboard.queries.pulsar import explanations

if TYPE_CHECKING:
    from core.pulsar.explain import BrokerReason, BundleReason
    from dashboard.components.pulsar.page import PulsarPage

_TRIED_AT_ONCE: Final = 2_000
"""Up to so many bundles turning points are sought, and simulated, unasked."""


def leader_facts_of(page: PulsarPage) -> LeaderFacts:
    """Return the facts about the leader of the shown snapshot."""
    return explanations.leader_of(page.saved, page.stored, _own_moves(page))


def _own_moves(page: PulsarPage) -> dict[str, list[datetime]]:
    """Bundles that our own runs moved, and when; none where the journal cannot be read."""
    try:
        views = runs.of_cluster(page.config, page.name)
    except OpsError:
        return {}
    moves: dict[str, list[datetime]] = {}
    for view in views:
        for step in view.steps:
            if step.begun_at is not None and step.step.is_placed_by_cluster:
                moves.setdefault(step.step.subject, []).append(step.begun_at)
    return moves


def _resting(facts: LeaderFacts) -> frozenset[str]:
    return frozenset(one.bundle for one in facts.resting)


def leader_panel(page: PulsarPage, broker: str, tab: str) -> None:
    """Render the activity of a broker as the leader; of another one, which broker leads.

    Args:
        page: Of the cluster.
        broker: Its id.
        tab: That of the leader's page which shows this.
    """
    facts = leader_facts_of(page)
    if facts.leader == broker:
        _leader_panel(page, facts)
        return
    with st.container(horizontal=True, vertical_alignment="center"):
        st.caption(words.plain(facts.sentence), width="content")
        if facts.leader:
            st.button(
                "Next actions of the leader",
                icon=":material/arrow_forward:",
                type="tertiary",
                key="_to_leader",
                on_click=_open_leader,
                args=(facts.leader, tab),
            )


def _open_leader(leader: str, tab: str) -> None:
    state.go("broker", **{state.BROKER: leader, state.VIEW: tab})


def shedding_panel(page: PulsarPage, broker: str) -> None:
    """Explain whether a broker sheds."""
    facts = leader_facts_of(page)
    explanation = explanations.explanation(page.stored, _resting(facts))
    try:
        name = explanation.strategy.name
    except UnknownNameError as error:
        words.section("Shedding decision")
        words.failed(error, what="Unknown shedding strategy")
        return
    words.section("Shedding decision", f"Conditions of {name} in the next round, in order.")
    reason = explanation.of_broker(broker)
    off = presenter.off_words(explanation)
    leader_round.one_line(page, broker=broker)
    st.markdown(words.plain(f"{off} {reason.sentence}".strip()))
    if reason.gates:
        tables.table(
            presenter.broker_trail(reason),
            {**gate_columns("Gate"), "state": tables.words("State", width_px=110)},
            key="broker_gates",
            alt=f"Gates of {name} for {broker}, in evaluation order",
            missing="-",
        )
    words.notes([*presenter.broker_notes(reason), *explanation.decision.notes])
    _turning(page, _resting(facts), reason)
    st.button(
        "Compare strategies under Rebalance",
        icon=":material/balance:",
        type="tertiary",
        key="_to_rebalance",
        on_click=_rebalance,
        args=(name, broker),
    )


def gate_columns(label: str, *, bar_px: int = 124) -> dict[str, tables.Column]:
    """Return the columns of a gate: measured against threshold as a bar, with the distance."""
    most = MAX_REACHED * 100
    return {
        "gate": tables.words(label),
        "reached": tables.share(
            "Of threshold", "Measured value relative to the threshold.", most=most, width_px=bar_px
        ),
        "measured": tables.words("Measured", width_px=76),
        "threshold": tables.words("Threshold", width_px=76),
        "distance": tables.words("Distance"),
    }


def _rebalance(strategy: str, broker: str) -> None:
    state.go("rebalance", **{state.PICK: strategy, state.BROKER: broker})


def _because(
    rows: pd.DataFrame,
    columns: dict[str, tables.Column],
    *,
    key: str,
    alt: str,
    default_row: int = -1,
) -> None:
    """Draw a table, and under it the sentence of the selected row, else of ``default_row``."""
    picked = tables.table(
        rows.drop(columns="why"),
        columns,
        key=key,
        alt=alt,
        missing="",
        selection="single-row",
    )
    if len(rows):
        row = rows.iloc[picked[0] if picked else default_row]
        st.caption(f"**{words.plain(str(row.iloc[0]))}**: {words.plain(row['why'])}")


def _turning(page: PulsarPage, resting: frozenset[str], reason: BrokerReason) -> None:
    """Render the value of a setting at which the verdict turns; tried with the strategy itself."""
    is_small = page.reading.view.bundles.size <= _TRIED_AT_ONCE
    if not is_small and not st.button(
        "Find turning points", icon=":material/tune:", key="_turning", type="tertiary"
    ):
        return
    with st.spinner("Simulating other settings", show_time=True):
        points = explanations.turning_points((page.stored, resting, reason.broker))
        otherwise = explanations.otherwise((page.stored, resting, reason.broker))
    if points:
        words.notes([point.text for point in points])
    else:
        st.caption(words.plain(f"No single setting changes this verdict. {otherwise}"))


def reports_panel(page: PulsarPage, broker: str) -> None:
    """Render the time of a broker's next load report: the leader sees only the last one."""
    words.section("Next load report")
    snapshot = page.reading.snapshot
    names = snapshot.brokers["broker"].to_pylist()
    row = snapshot.brokers.slice(names.index(broker), 1)
    before = explanations.report_before(page.saved.entries, page.stored, broker)
    report_facts = presenter.report_facts(row, before, page.reading.settings, page.stored.taken_at)
    if report_facts is None:
        st.caption("The load report and its next time are unknown.")
        return
    st.caption(words.plain(report_facts.due))
    tables.table(
        report_facts.rows,
        {
            "measure": tables.words("Measure"),
            "before": tables.words("Previous report", "The leader uses the latest report."),
            "last": tables.words("Last report"),
            "below": tables.words("Lower trigger"),
            "above": tables.words("Upper trigger"),
        },
        key="broker_reports",
        alt=f"Values that trigger the next load report of {broker}",
        missing="",
    )
    if report_facts.why:
        st.caption(words.plain(report_facts.why))
    if snapshot.manifest.load_manager == "extensible":
        st.caption("The extensible load manager uses the unweighted usage.")


def _leader_panel(page: PulsarPage, facts: LeaderFacts) -> None:
    words.section("Leader role", facts.sentence)
    tables.table(
        presenter.timers_table(facts),
        {
            "timer": tables.words("Timer", width_px=134),
            "when": st.column_config.TextColumn("Next run", width=400),
            "setting": tables.words("Setting"),
        },
        key="leader_timers",
        alt="Timers of the leader",
    )
    leader_round.next_round(page)
    explanation = explanations.explanation(page.stored, _resting(facts))
    left, right = st.columns([0.5, 0.5], gap="medium")
    with left:
        st.markdown("**Next round, from this snapshot**")
        st.caption(words.plain(explanation.sentence))
        rows = presenter.next_table(explanation)
        if not rows.empty:
            _because(
                rows,
                {
                    "broker": tables.opener("Broker", "_next_broker", frame.broker_link),
                    "verdict": tables.words("Verdict"),
                },
                key="leader_next",
                alt="Brokers that shed next or are closest to the threshold",
                default_row=0,
            )
    with right:
        _draw_resting(facts)
    words.notes(facts.notes)


def _draw_resting(facts: LeaderFacts) -> None:
    st.markdown("**Bundles in their grace period**")
    if not facts.resting:
        st.caption("None: no bundle moves within the grace period of this leader.")
        return
    st.caption(f"{pluralize(len(facts.resting), 'bundle')} (from observed moves).")
    moment = st.column_config.DatetimeColumn
    tables.table(
        presenter.resting_table(facts),
        {
            "bundle": tables.opener("Bundle", "_resting_bundle", frame.bundle_link),
            "from": tables.words("From"),
            "to": tables.words("To"),
            "seen_at": moment("Seen (UTC)", format="HH:mm:ss"),
            "until": moment("Grace period ends", format="HH:mm:ss"),
        },
        key="leader_resting",
        alt="Bundles in their grace period",
        height=min(300, tables.height_of(len(facts.resting))),
    )


def bundle_shedding_panel(page: PulsarPage, bundle: str) -> None:
    """Explain whether a bundle is shed next."""
    facts = leader_facts_of(page)
    words.section("Shedding decision")
    leader_round.one_line(page, bundle=bundle)
    explanation = explanations.explanation(page.stored, _resting(facts))
    try:
        reason = explanation.of_bundle(bundle)
    except UnknownNameError as error:
        words.failed(error, what="Unknown shedding strategy")
    else:
        off = presenter.off_words(explanation)
        text = f"{off} {reason.sentence} {presenter.landing_words(reason)}"
        st.markdown(words.plain(text.strip()))
        _because(
            presenter.shed_conditions_table(reason),
            {
                "condition": tables.words("Condition"),
                "state": tables.words("State"),
                "distance": tables.words("Distance", "Distance to the opposite verdict."),
            },
            key="bundle_conditions",
            alt=f"Conditions for shedding {bundle}",
        )
        _bundle_turning(page, _resting(facts), reason)


def _bundle_turning(page: PulsarPage, resting: frozenset[str], reason: BundleReason) -> None:
    """Render the setting value at which the verdict on a bundle turns, or another condition."""
    is_small = page.reading.view.bundles.size <= _TRIED_AT_ONCE
    if not is_small and not st.button(
        "Find turning points", icon=":material/tune:", key="_turning", type="tertiary"
    ):
        return
    with st.spinner("Simulating other settings", show_time=True):
        points = explanations.bundle_turning_points((page.stored, resting, reason.bundle))
    if points:
        words.notes([point.text for point in points])
    else:
        st.caption(words.plain(f"No single setting changes this verdict. {reason.otherwise}"))


def split_panel(page: PulsarPage, bundle: str) -> None:
    """Draw the conditions of an automatic split of a bundle, with their distances."""
    read = state.topics_of(page.name, bundle)
    snapshot = explanations.with_topics(page.reading.snapshot, read and read.table)
    found = explain_split(snapshot, page.reading.settings, bundle)
    words.section("Automatic split")
    st.markdown(words.plain(found.when))
    draw_conditions(presenter.split_conditions_table(found.conditions), bundle)
    st.button(
        "Preview splits",
        icon=":material/call_split:",
        key="_to_splits",
        type="tertiary",
        disabled=found.subject.is_broker_bound,
        on_click=_splits,
        args=(bundle,),
    )


def _splits(bundle: str) -> None:
    state.go("splits", bundle=bundle)


def draw_conditions(rows: pd.DataFrame, bundle: str) -> None:
    """Draw the conditions of an automatic split."""
    _because(
        rows,
        {
            "condition": tables.words("Condition"),
            "state": tables.words("State"),
            "reached": tables.percent("Reached", "Share of the limit."),
            "kind": tables.words("Kind"),
        },
        key="split_conditions",
        alt=f"Conditions of an automatic split of {bundle}",
    )
