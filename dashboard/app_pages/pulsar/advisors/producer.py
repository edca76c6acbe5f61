"""The advisor of producers: queue, batches, and what one slow or dead broker does to them."""

from __future__ import annotations

import streamlit as st

from core.errors import OpsError
from core.planning.advisors.client_queue import ProducerLoad, batch_of
from core.planning.advisors.stalls import (
    ROUTINGS,
    RoutedStall,
    routed_stall,
    silent_partitions,
    stall_curve,
)
from dashboard.app_pages.pulsar.advisors import inputs, model
from dashboard.app_pages.pulsar.advisors.charts import stall_lines
from dashboard.app_pages.pulsar.advisors.inputs import Subject, topic_choice, topics_button
from dashboard.components import figures, words
from dashboard.presenters.pulsar.advisors_facts import live_producer
from dashboard.presenters.pulsar.advisors_inputs import PRODUCER, Number


def draw_producer(subject: Subject) -> None:
    """Draw what the settings of a producer on a partitioned topic come to."""
    said = st.container()
    chosen = topic_choice(subject)
    given = inputs.draw(PRODUCER, live_producer(subject.facts, chosen))
    routing = _choices()
    topics_button(subject)
    try:
        load = model.load_of(given)
        silent = silent_partitions(load.partitions, int(given["brokers"]))
        slow_ratio = given["slow_pct"] / 100
        found = routed_stall(load, silent, routing=routing, slow_ratio=slow_ratio)
        batch = batch_of(load)
    except OpsError as error:
        words.failed(error, what="That cannot be computed")
        return
    with said:
        words.answer(model.answer(load, found))
    left, right = st.columns([0.5, 0.5], gap="medium")
    with left:
        words.section("What it comes to")
        _table(model.comes_to(load, batch, found))
        for remark in model.remarks(load, batch):
            st.warning(words.plain(remark), icon=":material/warning:")
    with right:
        words.section("One bad broker", "How soon it holds up a producer, by partitions.")
        _curve(load, given, slow_ratio)


def _choices() -> str:
    with st.container(horizontal=True, vertical_alignment="bottom"):
        routing = st.segmented_control(
            "Routing of messages without a key",
            list(ROUTINGS),
            default=ROUTINGS[0],
            required=True,
            key="messageRoutingMode",
            bind="query-params",
            help="messageRoutingMode: in turn round all partitions, or all to one that the "
            "producer picked when it began.",
        )
        for partitions in (30, 120):
            st.button(
                f"As vivo, {partitions} partitions",
                icon=":material/lightbulb:",
                type="tertiary",
                on_click=inputs.preset,
                args=({**model.VIVO, "partitions": partitions},),
                key=f"_vivo_{partitions}",
                help="Of its report: 2,000 and 40,000 pending messages, 200 MiB, batches of 50 µs, "
                "2,000 messages or 5 MiB.",
            )
    return str(routing)


def _table(rows: object) -> None:
    st.table(rows, border="horizontal", alt="What the settings come to")


def _curve(load: ProducerLoad, given: dict[str, Number], slow_ratio: float) -> None:
    brokers = int(given["brokers"])
    lines: list[tuple[str, list[RoutedStall]]] = [
        (
            one,
            stall_curve(load, model.CURVE, brokers=brokers, routing=one, slow_ratio=slow_ratio),
        )
        for one in ROUTINGS
    ]
    if all(found.stall.blocked_after_s is None for _, line in lines for found in line):
        st.info(
            "Neither a queue nor memory has a limit: nothing holds the producer up; messages fail "
            "by sendTimeout, or wait without end.",
            icon=":material/info:",
        )
        return
    figures.chart(
        stall_lines(lines, partitions=load.partitions, timeout_s=load.send_timeout_s),
        key="advisor_stall",
        alt="Time until one bad broker holds up a producer, by number of partitions",
    )
    st.caption(
        f"One of {brokers} brokers is bad; partitions are spread evenly. In turn, every producer "
        "is held up; with a single partition only those whose partition is there, but sooner. With "
        "blockIfQueueFull=false (the default) a full queue fails the send instead of blocking it."
    )
