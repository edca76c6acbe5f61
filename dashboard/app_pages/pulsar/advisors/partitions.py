"""The advisor of partitions: how they fall into bundles, and the split surgeon."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import streamlit as st

from core.errors import IncompleteSnapshotError, InputError, OpsError, UnknownNameError
from core.planning.advisors.surgery import Surgery, partitions_needed
from core.pulsar.lookup import parse_topic_name
from core.units import pluralize
from dashboard import state
from dashboard.app_pages.pulsar.advisors import inputs, model, queries
from dashboard.app_pages.pulsar.advisors.charts import (
    bundle_count_bars,
    by_crowding,
    curve_lines,
    tally_bars,
)
from dashboard.app_pages.pulsar.advisors.inputs import Subject, topics_button
from dashboard.charts.ring import namespace_ring
from dashboard.components import figures, tables, words
from dashboard.components.pulsar import moves_plan
from dashboard.components.pulsar.applying import PulsarDialog
from dashboard.legible import option
from dashboard.presenters.pulsar.advisors_facts import NamespaceFacts, live_topic
from dashboard.presenters.pulsar.advisors_inputs import PARTITIONS, Number

_MAXIMUM: Final = "loadBalancerNamespaceMaximumBundles"
_BANDWIDTH: Final = "loadBalancerNamespaceBundleMaxBandwidthMbytes"
_MIB_BYTES: Final = 1024**2
_RING_PX: Final = 290
_MAX_OFFERED: Final = 500


def draw_partitions(subject: Subject) -> None:
    """Draw how a topic's partitions fall into bundles, and what would fix it."""
    said = st.container()
    topic = _topic(subject)
    given = inputs.draw(PARTITIONS, live_topic(subject.topic(topic)))
    _links(subject)
    try:
        request, facts = _request(subject, topic, given)
        found = queries.spread(request)
    except OpsError as error:
        words.failed(error, what="That cannot be computed")
        return
    surgery = found.surgery
    with said:
        words.answer(model.spread_answer(surgery, found.expected, request.partitions))
    _basis(subject, request)
    if facts is not None:
        st.caption(words.plain(model.owners_words(queries.owners_of(facts, surgery))))
    left, right = st.columns(2, gap="medium")
    with left:
        words.section("Partitions per bundle", "Hashes of the names; dashes: balls thrown in bins.")
        figures.chart(
            tally_bars(model.tally(surgery, request.partitions)),
            key="advisor_tally",
            alt=f"Bundles by partitions; the fullest holds {surgery.before.worst}",
        )
    with right:
        words.section("Other numbers of partitions", "In the same bundles.")
        figures.chart(
            curve_lines(found.curve, partitions=request.partitions),
            key="advisor_curve",
            alt="Share of the traffic in the fullest bundle by number of partitions",
        )
    _others(found, request)
    _surgeon(subject, request, surgery, facts, given)


def _topic(subject: Subject) -> str:
    """Draw the choice of topic; return its complete name, or what was typed."""
    assumed = f"persistent://{subject.facts.namespace}/my-topic"
    offered = [one.topic for one in subject.partitioned[:_MAX_OFFERED]]
    named = state.text(state.TOPIC)
    if named == assumed and offered:  # real ones were read meanwhile
        named = st.session_state[state.TOPIC] = offered[0]
    chosen = st.selectbox(
        "Topic, without -partition-N",
        list(dict.fromkeys([*([named] if named else []), *offered, assumed])),
        format_func=option,
        key=state.TOPIC,
        bind="query-params",
        accept_new_options=True,
        help="Any name: where its partitions fall follows from it, before the topic is made.",
    )
    topic = str(chosen or assumed).strip()
    try:
        return str(parse_topic_name(topic))
    except InputError:
        return topic


def _links(subject: Subject) -> None:
    """Draw the example, and the reading of real topics."""
    with st.container(horizontal=True, vertical_alignment="center"):
        st.button(
            "The example of vivo: 30 over 180",
            icon=":material/lightbulb:",
            type="tertiary",
            help=model.EXAMPLE_WORDS,
            on_click=_example,
            args=(30,),
        )
        st.button(
            "The same with 120",
            icon=":material/lightbulb:",
            type="tertiary",
            on_click=_example,
            args=(120,),
            help="Four times the partitions, the same bundles.",
        )
    topics_button(subject)


def _example(partitions: int) -> None:
    st.session_state[state.TOPIC] = model.EXAMPLE_TOPIC
    inputs.preset({**model.EXAMPLE, "partitions": partitions})


def _request(
    subject: Subject, topic: str, given: dict[str, Number]
) -> tuple[queries.SpreadRequest, NamespaceFacts | None]:
    """Return the request, and the namespace whose own bundles these are.

    Raises:
        InputError: The topic has no name, or a number cannot be.
        UnknownNameError: The snapshot has no such namespace.
        IncompleteSnapshotError: Its bundles are not all known.
    """
    page, even = subject.page, int(given["even"])
    namespace = parse_topic_name(topic).namespace
    if even < 0:
        raise InputError(f"{even} bundles cannot be.", hint="0 takes the namespace's own.")
    facts = None
    if not even:
        facts = queries.facts((page.stored, namespace))
        if not facts.bundles:
            known = page.reading.movable["namespace"].unique().to_pylist()
            raise UnknownNameError.of("namespace", namespace, known, place="this snapshot")
        if facts.boundaries is None:
            raise IncompleteSnapshotError(
                f"The bundles of {namespace} are not all known in this snapshot.",
                hint="Give a number of even bundles instead.",
            )
    bounds: Sequence[int] = (
        facts.boundaries.tolist() if facts and facts.boundaries is not None else ()
    )
    request = queries.SpreadRequest(
        topic=topic,
        partitions=int(given["partitions"]),
        even=even,
        wanted=int(given["each"]),
        max_bundles=int(page.reading.settings.number(_MAXIMUM)),
        boundaries=tuple(bounds),
    )
    return request, facts


def _basis(subject: Subject, request: queries.SpreadRequest) -> None:
    real = subject.topic(request.topic) is not None
    whose = f"{request.even} even bundles, assumed" if request.even else "the namespace's own, live"
    what = "a topic of the cluster" if real else "any name: the cluster is not contacted"
    text = f"Bundles: {whose}. Topic: {request.topic}, {what}."
    if request.topic == model.EXAMPLE_TOPIC and request.even == model.EXAMPLE["even"]:
        text = f"{text} {model.EXAMPLE_WORDS} The name is ours, chosen to fall like theirs."
    st.caption(words.plain(text))


def _others(found: queries.SpreadAnswer, request: queries.SpreadRequest) -> None:
    left, right = st.columns(2, gap="medium")
    with left:
        words.section("Side by side", "The same topic with fewer or more partitions.")
        rows = model.counts_table(found.counts, request.partitions)
        tables.table(
            rows,
            {
                "partitions": tables.whole("Partitions"),
                "mark": tables.words(""),
                "worst": tables.whole("In the fullest", "By the real hashes."),
                "expected": st.column_config.NumberColumn(
                    "Random names", format="%.1f", help="Expected in the fullest bundle."
                ),
                "share": tables.percent(
                    "Traffic there", "Of the topic; partitions are assumed equal."
                ),
                "unevenness": st.column_config.NumberColumn("Times the mean", format="%.1f"),
            },
            key="advisor_partition_counts",
            alt="Numbers of partitions side by side",
        )
        st.caption(
            "Random names: the expected maximum of balls thrown into bins, computed with "
            "independent bundles (right to about 1%); the bars' dashes are exact."
        )
    with right:
        words.section("Other numbers of bundles", "Of the same width; coloured: as many as here.")
        figures.chart(
            bundle_count_bars(found.by_bundles, bundles=found.bundles),
            key="advisor_bundle_counts",
            alt="Partitions in the fullest bundle by number of even bundles",
        )


def _surgeon(
    subject: Subject,
    request: queries.SpreadRequest,
    surgery: Surgery,
    facts: NamespaceFacts | None,
    given: dict[str, Number],
) -> None:
    """Draw the splits that would spread them, the ring before and after, and the plan."""
    words.section(
        "The split surgeon", "The fewest splits at positions; a split cannot be taken back."
    )
    st.markdown(words.plain(surgery.verdict))
    limit = subject.page.reading.settings.number(_BANDWIDTH) * _MIB_BYTES
    try:
        need = partitions_needed(given["topic_traffic"] * 1e6, request.partitions, limit)
    except InputError as error:
        words.failed(error, what="That cannot be computed")
        return
    if sentence := model.need_words(need, request.partitions):
        (st.info if need.is_enough else st.warning)(
            words.plain(sentence),
            icon=":material/speed:" if need.is_enough else ":material/warning:",
        )
    _rings(request, surgery)
    if not surgery.cuts:
        return
    rows = model.cuts_table(surgery)
    tables.table(
        rows,
        {
            "range": tables.words("Cut", pinned=True),
            "at": tables.words("At"),
            "held": tables.whole("Partitions in it"),
            "left": tables.whole("Below"),
            "right": tables.whole("Above"),
        },
        key="advisor_cuts",
        alt="Splits that would spread the partitions",
        height=min(300, tables.height_of(len(rows))),
    )
    if facts is None:
        st.caption("Even bundles are assumed: there is nothing to plan on the cluster.")
        return
    if subject.topic(request.topic) is None:
        st.info(
            "A split cannot be taken back, so it is planned only for a topic that was read from "
            "the cluster: choose its namespace above, then Fetch topics.",
            icon=":material/info:",
        )
        return
    _plan(subject, facts, surgery)


def _rings(request: queries.SpreadRequest, surgery: Surgery) -> None:
    moments = [("now", surgery.before), ("after the splits", surgery.after)]
    shown = moments if surgery.cuts else moments[:1]
    for column, (moment, spread) in zip(st.columns(2, gap="small"), shown, strict=False):
        with column:
            bundles = spread.boundaries.size - 1
            worst = pluralize(spread.worst, "partition")
            st.caption(f"{pluralize(bundles, 'bundle')} {moment}: at most {worst} in one")
            ring = model.thin_ring(model.spread_ring(spread, wanted=request.wanted))
            figures.chart(
                by_crowding(namespace_ring(ring, height=_RING_PX)),
                key=f"advisor_ring_{moment.partition(' ')[0]}",
                alt=f"Ring {moment}: at most {spread.worst} partitions in a bundle",
            )


def _plan(subject: Subject, facts: NamespaceFacts, surgery: Surgery) -> None:
    page = subject.page
    cuts = tuple(
        (f"{facts.namespace}/{name}", positions) for name, positions in surgery.positions.items()
    )
    try:
        plan, preview = queries.cuts_preview(
            queries.CutsRequest(
                stored=page.stored,
                cuts=cuts,
                exclusions=tuple(page.cluster.exclusions),
                topics=subject.topics,
                read_at=subject.read_at,
            )
        )
    except OpsError as error:
        words.failed(error, what="The splits cannot be planned")
        return
    dialog = state.open_dialog()
    if isinstance(dialog, PulsarDialog):  # behind a dialog stands what it is about
        plan, preview = dialog.plan, dialog.preview
    words.section("The plan", "Specified positions; each bundle is one request to its owner.")
    moves_plan.draw_remarks(plan)
    if not preview.others:
        return
    moves_plan.draw_apply(page, plan, preview, sentence=surgery.verdict)
    with st.expander("The brokers' own lines", icon=":material/terminal:"):
        st.code("\n".join(other.command for other in preview.others), language="bash")
