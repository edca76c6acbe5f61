"""The calculator of producers: queue, batches, and what one slow or dead broker does to them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

import streamlit as st

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
from dashboard.app_pages.pulsar.advisors.inputs import Subject, topic_choice
from dashboard.app_pages.pulsar.advisors.result import Calculator, Given, Result
from dashboard.components import tables
from dashboard.presenters.pulsar.advisors_facts import PartitionedTopic, live_producer
from dashboard.presenters.pulsar.advisors_inputs import PRODUCER

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go


class _Choices(NamedTuple):
    topic: PartitionedTopic | None
    routing: str


def _choices(subject: Subject) -> _Choices:
    topic = topic_choice(subject)
    routing = st.segmented_control(
        "Message routing",
        list(ROUTINGS),
        default=ROUTINGS[0],
        required=True,
        key="messageRoutingMode",
        bind="query-params",
        help="messageRoutingMode for messages without a key: round-robin, or one partition per "
        "producer.",
    )
    with st.container(horizontal=True, gap="small"):
        for partitions in (30, 120):
            st.button(
                f"Example: {partitions} partitions (vivo)",
                icon=":material/lightbulb:",
                type="tertiary",
                on_click=inputs.preset,
                args=({**model.VIVO, "partitions": partitions},),
                key=f"_vivo_{partitions}",
                help="As reported: 2,000 and 40,000 pending messages, 200 MiB, batches of 50 µs, "
                "2,000 messages or 5 MiB.",
            )
    return _Choices(topic, str(routing))


def _compute(_: Subject, given: Given, choices: _Choices) -> Result:
    load = model.load_of(given)
    silent = silent_partitions(load.partitions, int(given["brokers"]))
    slow_ratio = given["slow_pct"] / 100
    found = routed_stall(load, silent, routing=choices.routing, slow_ratio=slow_ratio)
    batch = batch_of(load)
    chart = _chart(load, int(given["brokers"]), slow_ratio)
    return Result(
        answer=model.answer(load, found),
        figures=model.producer_figures(load, batch, found),
        title="Time until one bad broker blocks a producer",
        chart=chart,
        alt="Time until one bad broker blocks a producer, by number of partitions",
        basis=f"1 of {int(given['brokers'])} brokers is bad; partitions are evenly distributed."
        if chart is not None
        else "No queue and no memory limit: messages fail by sendTimeout or wait indefinitely.",
        warnings=model.remarks(load, batch),
        tabs={"Why": partial(_why, model.results_table(load, batch, found))},
    )


def _why(rows: pd.DataFrame) -> None:
    tables.table(
        rows,
        {
            "what": tables.words("Quantity"),
            "value": tables.words("Value"),
            "formula": tables.words("Calculation"),
        },
        key="advisor_producer",
        alt="Effect of the settings",
    )
    st.caption(
        "Round-robin blocks all producers; a single partition blocks only producers with that "
        "partition, but sooner. With blockIfQueueFull=false (default), a full queue fails the "
        "send."
    )


def _chart(load: ProducerLoad, brokers: int, slow_ratio: float) -> go.Figure | None:
    """Return the chart; ``None`` where nothing ever holds a producer up."""
    lines: list[tuple[str, list[RoutedStall]]] = [
        (one, stall_curve(load, model.CURVE, brokers=brokers, routing=one, slow_ratio=slow_ratio))
        for one in ROUTINGS
    ]
    if all(found.stall.blocked_after_s is None for _, line in lines for found in line):
        return None
    return stall_lines(lines, partitions=load.partitions, timeout_s=load.send_timeout_s)


PRODUCER_CALCULATOR: Final = Calculator[_Choices](
    title="Producer queue",
    parameters=PRODUCER,
    controls=_choices,
    live=lambda subject, choices: live_producer(subject.facts, choices.topic),
    compute=_compute,
)
