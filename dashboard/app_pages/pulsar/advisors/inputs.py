"""Common part of every calculator: its inputs, live or assumed, and the topics of a namespace."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import streamlit as st

from core.errors import InputError, RemoteError
from core.units import pluralize
from dashboard import services, state
from dashboard.app_pages.pulsar.advisors import queries
from dashboard.components import choice, words
from dashboard.presenters.pulsar.advisors_facts import (
    NamespaceFacts,
    PartitionedTopic,
    partitioned_topics,
)
from dashboard.presenters.pulsar.advisors_inputs import (
    AdvisorParameter,
    ClusterValue,
    Number,
    live_value,
)
from dashboard.presenters.pulsar.topics import read_words, web_addresses_of

if TYPE_CHECKING:
    from dashboard.components.pulsar.page import PulsarPage


# -- inputs ----------------------------------------------------------------------------------------

_WIDTH_PX: Final = 184
_REMEMBERED: Final = 8


def draw(
    parameters: Sequence[AdvisorParameter], live: Mapping[str, ClusterValue]
) -> dict[str, Number]:
    """Draw the inputs in rows that wrap, and return their values by key.

    What has not been changed follows the cluster from snapshot to snapshot.

    Args:
        parameters: In their order.
        live: What the cluster gives, by key.
    """
    with st.container(horizontal=True, gap="small"):
        return {parameter.key: _draw(parameter, live) for parameter in parameters}


def _draw(parameter: AdvisorParameter, live: Mapping[str, ClusterValue]) -> Number:
    begin, origin = live_value(parameter, live)
    _follow(parameter.key, begin)
    with st.container(gap=None, width=_WIDTH_PX):
        given = st.number_input(
            parameter.label,
            value=begin,
            step=parameter.step,
            format=None if isinstance(begin, int) else "%g",
            key=parameter.key,
            bind="query-params",
            help=_help(parameter),
        )
        value = begin if given is None else given
        mark = "◇ custom; " if value != begin else ""
        st.caption(f"{mark}{words.plain(origin)}")
    return value


def _help(parameter: AdvisorParameter) -> str | None:
    """Return the meaning of an input and its upstream name."""
    parts = (
        words.plain(parameter.key) if parameter.is_upstream else "",
        words.plain(parameter.help),
    )
    return ": ".join(part for part in parts if part) or None


def _follow(key: str, begin: Number) -> None:
    """Move an input on with the cluster, unless it was changed.

    A browser that is behind sends what a measured input began with some snapshots ago:
    that is no choice.
    """
    seen = f"_began_{key}"
    before: tuple[Number, ...] = st.session_state.get(seen, ())
    if st.session_state.get(key) in before:
        st.session_state[key] = begin
    elif before and before[-1] == begin:
        return
    remaining = _REMEMBERED if isinstance(begin, float) else 1
    st.session_state[seen] = (*[one for one in before if one != begin], begin)[-remaining:]


def preset(values: Mapping[str, Number]) -> None:
    """Put values into inputs; from a callback."""
    for key, value in values.items():
        st.session_state[key] = value


# -- the namespace and its topics ------------------------------------------------------------------


@dataclass(frozen=True, eq=False, kw_only=True)
class Subject:
    """Namespace of a calculator, with its data.

    Attributes:
        page: The page.
        facts: The namespace.
        topics: Its topics, where they were read.
        read_at: When that was.
        partitioned: Those of them that are partitioned, most traffic first.
    """

    page: PulsarPage
    facts: NamespaceFacts
    topics: pa.Table | None
    read_at: datetime | None
    partitioned: tuple[PartitionedTopic, ...]

    @classmethod
    def of(cls, page: PulsarPage, namespace: str) -> Subject:
        """Return the data of a namespace: of the snapshot, and topics fetched in this session."""
        read = state.topics_of(page.name, namespace)
        return cls(
            page=page,
            facts=queries.facts((page.stored, namespace)),
            topics=None if read is None else read.table,
            read_at=None if read is None else read.read_at,
            partitioned=() if read is None else tuple(partitioned_topics(read.table)),
        )

    def topic(self, name: str) -> PartitionedTopic | None:
        """Return the partitioned topic of that name, if it was read."""
        return next((one for one in self.partitioned if one.topic == name), None)


def topics_button(subject: Subject) -> None:
    """Offer to read the namespace's topics from the owners of its bundles."""
    page, facts = subject.page, subject.facts
    snapshot = page.reading.snapshot
    owners = sorted({owner for owner in facts.owners if owner})
    web_addresses = (
        page.cluster.web_address(*web_addresses_of(snapshot, owner)) for owner in owners
    )
    addresses = [address for address in web_addresses if address]
    with st.container(horizontal=True, vertical_alignment="center"):
        is_clicked = st.button(
            "Fetch topics",
            icon=":material/cloud_download:",
            disabled=not addresses,
            key="_advisor_topics",
            help="Topics with hash and traffic, read from the owner brokers.",
        )
        st.caption(words.plain(_source_words(subject, len(addresses))), width="content")
    if not is_clicked:
        return
    try:
        with st.spinner(f"Querying {pluralize(len(addresses), 'broker')}", show_time=True):
            topics = queries.read_topics(page.cluster, addresses, facts.namespace)
    except (RemoteError, InputError) as error:
        words.failed(error, what="Could not read the topics")
        return
    state.keep_topics(page.name, facts.namespace, state.ReadTopics(topics, services.now()))
    st.rerun()


def _source_words(subject: Subject, brokers: int) -> str:
    if subject.topics is not None and subject.read_at is not None:
        return (
            f"{pluralize(subject.topics.num_rows, 'topic')} of {subject.facts.namespace}, "
            f"{len(subject.partitioned):,} partitioned. "
            f"{read_words(subject.read_at, services.now())}"
        )
    if not brokers:
        return "Topics are not readable: no owner broker with a known address."
    return f"Topics not fetched; {pluralize(brokers, 'broker')} to query."


def topic_choice(subject: Subject) -> PartitionedTopic | None:
    """Offer the partitioned topics that were read; ``None``: the average of the namespace."""
    if not subject.partitioned:
        return None
    names = ["", *(one.topic for one in subject.partitioned[:500])]
    chosen = choice.selected(
        "Rate source",
        names,
        key=state.OF,
        format_func=lambda name: name or "namespace average",
        width=460,
    )
    return subject.topic(chosen)
