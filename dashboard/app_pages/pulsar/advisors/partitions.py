"""The calculator of partitions: how they fall into bundles, and the splits that spread them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

import streamlit as st

from core.errors import IncompleteSnapshotError, InputError, OpsError, UnknownNameError
from core.planning.advisors.split_plan import SplitPlan, partitions_needed
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
from dashboard.app_pages.pulsar.advisors.inputs import Subject
from dashboard.app_pages.pulsar.advisors.result import Calculator, Given, Result
from dashboard.charts.ring import namespace_ring
from dashboard.components import action_bar, figures, tables, words
from dashboard.components.pulsar import moves_plan
from dashboard.components.pulsar.applying import in_dialog
from dashboard.legible import option
from dashboard.presenters.pulsar.advisors_facts import NamespaceFacts, live_topic
from dashboard.presenters.pulsar.advisors_inputs import PARTITIONS

_MAXIMUM: Final = "loadBalancerNamespaceMaximumBundles"
_BANDWIDTH: Final = "loadBalancerNamespaceBundleMaxBandwidthMbytes"
_MIB_BYTES: Final = 1024**2
_RING_PX: Final = 290
_MAX_OFFERED: Final = 500


def _compute(subject: Subject, given: Given, topic: str) -> Result:
    request, facts = _request(subject, topic, given)
    spread = queries.spread(request)
    split_plan = spread.split_plan
    limit = subject.page.reading.settings.number(_BANDWIDTH) * _MIB_BYTES
    need = partitions_needed(given["topic_traffic"] * 1e6, request.partitions, limit)
    text = model.need_words(need, request.partitions)
    owners = "" if facts is None else model.owners_words(queries.owners_of(facts, split_plan))
    return Result(
        answer=model.spread_answer(split_plan, spread.expected, request.partitions),
        figures=model.spread_figures(split_plan, spread.expected, request.partitions),
        title="Partitions per bundle",
        chart=tally_bars(model.tally(split_plan, request.partitions)),
        alt=f"Bundles by number of partitions; max {split_plan.before.worst}",
        basis=f"{_basis(subject, request)} {owners}".strip(),
        warnings=[text] if text and not need.is_enough else [],
        tabs={
            "Other counts": partial(_others, spread, request),
            "Splits": partial(_splits, subject, request, split_plan, facts),
        },
    )


def _form(subject: Subject) -> str:
    topic = _topic(subject)
    _examples()
    return topic


def _topic(subject: Subject) -> str:
    """Draw the choice of topic; return its complete name, or the typed text."""
    assumed = f"persistent://{subject.facts.namespace}/my-topic"
    offered = [one.topic for one in subject.partitioned[:_MAX_OFFERED]]
    named = state.text(state.TOPIC)
    if named == assumed and offered:  # real ones were read meanwhile
        named = st.session_state[state.TOPIC] = offered[0]
    chosen = st.selectbox(
        "Topic (without -partition-N)",
        list(dict.fromkeys([*([named] if named else []), *offered, assumed])),
        format_func=option,
        key=state.TOPIC,
        bind="query-params",
        accept_new_options=True,
        help="Any name; the topic does not have to exist.",
    )
    topic = str(chosen or assumed).strip()
    if topic == assumed:
        st.caption("Example name. Type a topic, or fetch the topics of the namespace.")
    try:
        return str(parse_topic_name(topic))
    except InputError:
        return topic


def _examples() -> None:
    """Draw the buttons of the published example."""
    with st.container(horizontal=True, gap="small"):
        for partitions, about in (
            (30, model.EXAMPLE_WORDS),
            (120, "Four times the partitions, same bundles."),
        ):
            st.button(
                f"Example: {partitions} partitions, 180 bundles (vivo)",
                icon=":material/lightbulb:",
                type="tertiary",
                key=f"_vivo_over_{partitions}",
                help=about,
                on_click=_example,
                args=(partitions,),
            )


def _example(partitions: int) -> None:
    st.session_state[state.TOPIC] = model.EXAMPLE_TOPIC
    inputs.preset({**model.EXAMPLE, "partitions": partitions})


def _request(
    subject: Subject, topic: str, given: Given
) -> tuple[queries.SpreadRequest, NamespaceFacts | None]:
    """Return the request, and the namespace that owns the bundles.

    Raises:
        InputError: The topic has no name, or a number cannot be.
        UnknownNameError: The snapshot has no such namespace.
        IncompleteSnapshotError: Its bundles are not all known.
    """
    page, even = subject.page, int(given["even"])
    namespace = parse_topic_name(topic).namespace
    if even < 0:
        raise InputError(f"Invalid number of bundles: {even}.", hint="0: bundles of the namespace.")
    facts = None
    if not even:
        facts = queries.facts((page.stored, namespace))
        if not facts.bundles:
            known = page.reading.movable["namespace"].unique().to_pylist()
            raise UnknownNameError.of("namespace", namespace, known, place="this snapshot")
        if facts.boundaries is None:
            raise IncompleteSnapshotError(
                f"Some bundles of {namespace} are unknown in this snapshot.",
                hint="Specify a number of even bundles instead.",
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


def _basis(subject: Subject, request: queries.SpreadRequest) -> str:
    real = subject.topic(request.topic) is not None
    whose = f"{request.even} even bundles, assumed" if request.even else "of the namespace, live"
    what = "exists on the cluster" if real else "any name, cluster not queried"
    text = f"Bundles: {whose}. Topic: {request.topic}, {what}."
    if request.topic == model.EXAMPLE_TOPIC and request.even == model.EXAMPLE["even"]:
        return f"{text} {model.EXAMPLE_WORDS} The example name reproduces that distribution."
    return text


def _others(spread_answer: queries.SpreadAnswer, request: queries.SpreadRequest) -> None:
    left, right = st.columns(2, gap="medium")
    with left:
        words.section("Share of the fullest bundle")
        figures.chart(
            curve_lines(spread_answer.curve, partitions=request.partitions),
            key="advisor_curve",
            alt="Share of the traffic in the fullest bundle by number of partitions",
        )
    with right:
        words.section("Even bundles", "Highlighted: number of this cluster.")
        figures.chart(
            bundle_count_bars(spread_answer.by_bundles, bundles=spread_answer.bundles),
            key="advisor_bundle_counts",
            alt="Partitions in the fullest bundle by number of even bundles",
        )
    tables.table(
        model.counts_table(spread_answer.counts, request.partitions),
        {
            "partitions": tables.whole("Partitions"),
            "mark": tables.words(""),
            "worst": tables.whole("Fullest bundle", "From the actual hashes."),
            "expected": st.column_config.NumberColumn(
                "Random names", format="%.1f", help="Expected max per bundle."
            ),
            "share": tables.percent(
                "Traffic share", "Share of the topic in the fullest bundle, for equal partitions."
            ),
            "unevenness": st.column_config.NumberColumn("Times mean", format="%.1f"),
        },
        key="advisor_partition_counts",
        alt="Comparison of partition counts",
    )


def _splits(
    subject: Subject,
    request: queries.SpreadRequest,
    split_plan: SplitPlan,
    facts: NamespaceFacts | None,
) -> None:
    """Draw the splits that would spread them, the ring before and after, and the plan."""
    st.markdown(words.plain(split_plan.verdict))
    if split_plan.cuts:
        rows = model.cuts_table(split_plan)
        tables.table(
            rows,
            {
                "range": tables.words("Split"),
                "at": tables.words("Position"),
                "held": tables.whole("Partitions"),
                "left": tables.whole("Below"),
                "right": tables.whole("Above"),
            },
            key="advisor_cuts",
            alt="Splits that distribute the partitions",
            height=min(240, tables.height_of(len(rows))),
        )
    _rings(request, split_plan)
    if not split_plan.cuts:
        return
    if facts is None:
        st.caption("No plan for assumed even bundles.")
    elif subject.topic(request.topic) is None:
        st.info(
            "Splits are irreversible. To plan splits, fetch the topics of the namespace first.",
            icon=":material/info:",
        )
    else:
        _plan(subject, facts, split_plan)


def _rings(request: queries.SpreadRequest, split_plan: SplitPlan) -> None:
    moments = [("now", split_plan.before), ("after the splits", split_plan.after)]
    shown = moments if split_plan.cuts else moments[:1]
    for column, (moment, spread) in zip(st.columns(2, gap="small"), shown, strict=False):
        with column:
            bundles = spread.boundaries.size - 1
            worst = pluralize(spread.worst, "partition")
            st.caption(f"{pluralize(bundles, 'bundle')} {moment}: max {worst} per bundle")
            ring = model.thin_ring(model.spread_ring(spread, wanted=request.wanted))
            figures.chart(
                by_crowding(namespace_ring(ring, height=_RING_PX)),
                key=f"advisor_ring_{moment.partition(' ')[0]}",
                alt=f"Ring {moment}: max {spread.worst} partitions per bundle",
            )


def _plan(subject: Subject, facts: NamespaceFacts, split_plan: SplitPlan) -> None:
    page = subject.page
    cuts = tuple(
        (f"{facts.namespace}/{name}", positions) for name, positions in split_plan.positions.items()
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
        words.failed(error, what="Could not plan the splits")
        return
    plan, preview = in_dialog() or (plan, preview)
    moves_plan.draw_remarks(plan)
    if not preview.others:
        return
    dialog = moves_plan.dialog_of(page, plan, preview, sentence=split_plan.verdict)
    effects = [
        action_bar.PlanFigure(
            label="Splits", value=f"{len(preview.others):,}", note="irreversible"
        ),
        action_bar.PlanFigure(
            label="Fullest bundle",
            value=pluralize(split_plan.after.worst, "partition"),
            note=f"now {split_plan.before.worst}",
        ),
    ]
    moves_plan.draw_bar(page, dialog, key="cuts", effects=effects)
    with st.expander("REST requests", icon=":material/terminal:"):
        st.code("\n".join(other.command for other in preview.others), language="bash")


PARTITIONS_CALCULATOR: Final = Calculator[str](
    title="Partitions",
    parameters=PARTITIONS,
    controls=_form,
    live=lambda subject, topic: live_topic(subject.topic(topic)),
    compute=_compute,
)
