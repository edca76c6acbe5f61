"""The advisors of bundles and of lookups: how many bundles, and what an unload asks for."""

from __future__ import annotations

from typing import Final

import streamlit as st

from core.errors import InputError, UnknownNameError
from core.planning.advisors.bundle_reasons import BundleAdvice, BundleLimits, Demand
from core.planning.advisors.lookups import unload_pressure
from core.units import pluralize
from dashboard.app_pages.pulsar.advisors import inputs, model, queries
from dashboard.app_pages.pulsar.advisors.charts import count_lines, pressure_bars
from dashboard.app_pages.pulsar.advisors.inputs import Subject, topics_button
from dashboard.components import figures, frame, tables, words
from dashboard.presenters.pulsar.advisors_facts import live_bundles, live_settings
from dashboard.presenters.pulsar.advisors_inputs import BUNDLES, LOOKUPS, Number

_MAXIMUM: Final = "loadBalancerNamespaceMaximumBundles"


def draw_bundles(subject: Subject) -> None:
    """Draw how many bundles the namespace should have, and why."""
    said = st.container()
    settings = subject.page.reading.settings
    live = live_bundles(subject.facts) | live_settings(settings, BUNDLES)
    given = inputs.draw(BUNDLES, live)
    topics_button(subject)
    try:
        advice = queries.bundle_advice(_asked(subject, given))
    except InputError as error:
        words.failed(error, what="That cannot be computed")
        return
    present = len(subject.facts.bundles)
    with said:
        words.answer(model.bundles_answer(advice, present))
    words.section("How even the brokers can be")
    figures.chart(
        count_lines(
            advice.tried,
            within=given["within_pct"] / 100,
            advised=advice.bundles,
            present=present,
        ),
        key="advisor_counts",
        alt=f"Busiest broker at best by number of bundles; advised: {advice.bundles}",
    )
    count = None if subject.topics is None else subject.topics.num_rows
    st.caption(words.plain(model.basis_words(advice, count)))
    words.section("Why", "The largest of the minimums, within the limits.")
    _reasons(advice)


def _reasons(advice: BundleAdvice) -> None:
    rows = model.reasons_table(advice)
    columns = {
        "name": tables.words("Reason"),
        "bound": tables.words("Asks for"),
        "bundles": tables.whole("Bundles"),
        "why": st.column_config.TextColumn("Because", width=300),
        "formula": st.column_config.TextColumn("Arithmetic", width=150),
    }
    tables.grid(
        rows,
        hide_index=True,
        column_order=list(columns),
        column_config=columns,
        key="advisor_reasons",
        alt="Reasons for the number of bundles",
        height=min(460, tables.height_of(len(rows), tables.WRAPPED_PX)),
        row_height=tables.WRAPPED_PX,
        placeholder="",
    )


def _asked(subject: Subject, given: dict[str, Number]) -> queries.BundlesRequest:
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
        topics=subject.topics if has_topics else None,
        read_at=subject.read_at if has_topics else None,
        namespace=subject.facts.namespace,
    )


def draw_lookups(subject: Subject) -> None:
    """Draw what unloading the whole namespace asks of the brokers, next to bundle by bundle."""
    said = st.container()
    facts = subject.facts
    pace = float(inputs.draw(LOOKUPS, {})["pace"])
    try:
        found = unload_pressure(subject.page.reading.snapshot, facts.namespace, pace_per_min=pace)
    except (InputError, UnknownNameError) as error:
        words.failed(error, what="That cannot be computed")
        return
    with said:
        words.answer(found.sentence)
    st.caption(
        f":material/sensors: Live: {pluralize(facts.producers or 0, 'producer')} and "
        f"{pluralize(facts.consumers or 0, 'consumer')} on {pluralize(found.bundles, 'bundle')}. "
        "Assumed: each looks its topic up once."
    )
    owned = [row for row, owner in enumerate(facts.owners) if owner]
    figures.chart(
        pressure_bars(facts.clients_of[owned], pace_per_min=pace),
        key="advisor_lookups",
        alt=found.sentence,
    )
    words.notes(model.pressure_words(found))
    st.warning(
        "Unloading a namespace with one request (pulsar-admin namespaces unload, without a bundle) "
        "closes every topic at the same moment. A plan goes bundle by bundle, at a pace, and each "
        "step is checked.",
        icon=":material/warning:",
    )
    st.button(
        "Preview it bundle by bundle",
        icon=":material/swap_horiz:",
        type="primary",
        on_click=frame.unload_link,
        args=([facts.bundles[row] for row in owned],),
    )
