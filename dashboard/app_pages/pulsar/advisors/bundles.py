"""The calculators of bundles and of lookups: how many bundles, and what an unload asks for."""

from __future__ import annotations

from functools import partial
from typing import Final

import streamlit as st

from core.planning.advisors.bundle_reasons import BundleAdvice, BundleLimits, Demand, recommend
from core.planning.advisors.lookups import UnloadPressure, unload_pressure
from core.pulsar.split.watch import OverLimit, over_limit
from core.units import pluralize
from dashboard import state
from dashboard.app_pages.pulsar.advisors import model, queries
from dashboard.app_pages.pulsar.advisors.charts import count_lines, pressure_bars
from dashboard.app_pages.pulsar.advisors.inputs import Subject
from dashboard.app_pages.pulsar.advisors.result import Calculator, Given, Result
from dashboard.components import frame, tables, words
from dashboard.presenters.pulsar.advisors_facts import live_bundles, live_settings
from dashboard.presenters.pulsar.advisors_inputs import BUNDLES, LOOKUPS

_MAXIMUM: Final = "loadBalancerNamespaceMaximumBundles"


def _nothing(_: Subject) -> None:
    """The form has numbers only."""


def _bundles(subject: Subject, given: Given, _: None) -> Result:
    advice = queries.bundle_advice(_request(subject, given))
    present = len(subject.facts.bundles)
    reading = subject.page.reading
    over = over_limit(reading.snapshot, reading.settings, subject.facts.namespace)
    recommendation = recommend(advice, present=present, over=over)
    count = None if subject.topics is None else subject.topics.num_rows
    return Result(
        answer=recommendation.sentence,
        figures=model.bundles_figures(advice, recommendation, present=present, over=len(over)),
        action=partial(_open_splits, over) if len(over) else None,
        title="Achievable balance",
        chart=count_lines(
            advice.tried,
            within=given["within_pct"] / 100,
            required=advice.bundles,
            present=present,
        ),
        alt=f"Min deviation of the busiest broker by number of bundles; required: {advice.bundles}",
        basis=model.basis_words(advice, count),
        tabs={"Why": partial(_reasons, advice)},
    )


def _open_splits(over: OverLimit) -> None:
    """Draw the link to the split of the bundle that is furthest over its limit."""
    first = (*over.splittable, *over.single)[0]
    st.button(
        "Preview split" if over.splittable else "Open in Splits",
        icon=":material/call_split:",
        help=words.plain(first),
        on_click=state.go,
        args=("splits",),
        kwargs={state.BUNDLE: first},
    )


def _reasons(advice: BundleAdvice) -> None:
    st.caption("Highest minimum within the limits. Select a row for details.")
    picked = tables.table(
        model.reasons_table(advice),
        {
            "name": tables.words("Reason"),
            "bound": tables.words("Bound"),
            "bundles": tables.whole("Bundles"),
            "formula": tables.words("Calculation"),
        },
        key="advisor_reasons",
        alt="Bounds of the number of bundles",
        missing="",
        selection="single-row",
    )
    for row in picked:
        st.caption(words.coded(advice.reasons[row].why))


def _request(subject: Subject, given: Given) -> queries.BundlesRequest:
    cluster = BundleLimits.of(subject.page.reading.settings)
    has_topics = subject.topics is not None and subject.topics.num_rows > 0
    return queries.BundlesRequest(
        demand=Demand(
            brokers=int(given["brokers"]),
            topics=int(given["topics"]),
            clients=int(given["clients"]),
            msg_rate=float(given["msgs"]),
            bytes_per_s=given["traffic"] * 1e6,
            within=given["within_pct"] / 100,
        ),
        limits=BundleLimits(
            topics=cluster.topics,
            sessions=cluster.sessions,
            msg_rate=cluster.msg_rate,
            megabytes=cluster.megabytes,
            maximum=int(given[_MAXIMUM]),
        ),
        present=len(subject.facts.bundles),
        topics=subject.topics if has_topics else None,
        read_at=subject.read_at if has_topics else None,
        namespace=subject.facts.namespace,
    )


def _lookups(subject: Subject, given: Given, _: None) -> Result:
    facts, pace = subject.facts, float(given["pace"])
    found = unload_pressure(subject.page.reading.snapshot, facts.namespace, pace_per_min=pace)
    owned = [row for row, owner in enumerate(facts.owners) if owner]
    return Result(
        answer=found.sentence,
        figures=model.lookups_figures(found),
        title="Lookups by bundle",
        chart=pressure_bars(facts.clients_of[owned], pace_per_min=pace),
        alt=found.sentence,
        basis=f"Live: {pluralize(facts.producers or 0, 'producer')} and "
        f"{pluralize(facts.consumers or 0, 'consumer')} on "
        f"{pluralize(found.bundles, 'bundle')}. Assumption: one lookup per client.",
        tabs={"Why": partial(_pressure, found, [facts.bundles[row] for row in owned])},
    )


def _pressure(pressure: UnloadPressure, bundles: list[str]) -> None:
    words.notes(model.pressure_words(pressure))
    st.caption(
        "`pulsar-admin namespaces unload` without a bundle closes all topics at once. A plan "
        "unloads bundle by bundle with a rate limit and checks each step."
    )
    st.button(
        "Preview unload",
        icon=":material/swap_horiz:",
        on_click=frame.unload_link,
        args=(bundles,),
    )


BUNDLES_CALCULATOR: Final = Calculator[None](
    title="Bundles",
    parameters=BUNDLES,
    controls=_nothing,
    live=lambda subject, _: (
        live_bundles(subject.facts) | live_settings(subject.page.reading.settings, BUNDLES)
    ),
    compute=_bundles,
)
LOOKUPS_CALCULATOR: Final = Calculator[None](
    title="Lookups",
    parameters=LOOKUPS,
    controls=_nothing,
    live=lambda _subject, _chosen: {},
    compute=_lookups,
    reads_topics=False,
)
