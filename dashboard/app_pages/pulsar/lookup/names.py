"""Names of topics on the page Lookup: completion, and whether a topic exists.

Names come from the snapshot and from what this session read. A topic that a person entered is
looked for on the cluster at once; one that an address names, on request.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Final, cast

import streamlit as st

from core.errors import NotFoundError, OpsError
from core.pulsar.lookup import TopicLookup, TopicNames
from dashboard import services, state
from dashboard.app_pages.pulsar.lookup import model
from dashboard.components import words
from dashboard.legible import option
from dashboard.presenters.pulsar.topics import web_addresses_of
from dashboard.services import pulsar

if TYPE_CHECKING:
    from dashboard.components.pulsar.page import PulsarPage

_READ: Final = "_topic_names"
_ENTERED: Final = "_topic_entered"
_FAILED: Final = "_topic_names_failed"
_MAX_READ: Final = 8
_FRESH: Final = timedelta(minutes=1)


def pick_topic(page: PulsarPage) -> str:
    """Draw the field of the topic, which completes known names; return its content."""
    known = [one.names for (cluster, _), one in _stored().items() if cluster == page.name]
    named = state.text(state.TOPIC)
    topic = st.selectbox(
        "Topic",
        model.offered(page.reading.snapshot, page.reading.namespaces, known, named),
        index=None,
        format_func=option,
        key=state.TOPIC,
        bind="query-params",
        accept_new_options=True,
        filter_mode="contains",
        placeholder="tenant/namespace/topic",
        on_change=_note_entered,
    )
    return (topic or "").strip()


def _note_entered() -> None:
    st.session_state[_ENTERED] = True


def existence(page: PulsarPage, lookup: TopicLookup) -> model.TopicState:
    """Return the state of a topic from the names of its namespace, else from fetched topics."""
    read = _stored().get((page.name, lookup.namespace))
    if read is not None:
        known = model.from_names(lookup, read, services.now())
        if known is not None:
            return known
    fetched = state.topics_of(page.name, lookup.bundle)
    tables = [page.reading.snapshot.topics, *([fetched.table] if fetched else [])]
    return model.from_tables(lookup, tables)


def check(page: PulsarPage, namespace: str, owner: str | None, *, label: str) -> None:
    """Draw the button that reads the names of a namespace, and read them after an entry.

    Args:
        namespace: Of the topic.
        owner: Broker that is asked first; ``None``: any.
        label: Of the button.
    """
    address = next(_addresses(page, owner), None)
    is_asked = st.button(
        label,
        icon=":material/cloud_download:",
        key="_check_topic",
        disabled=address is None,
        help="Reads the topic names from a broker without loading or assigning topics."
        if address
        else "No broker in this snapshot reports a web address.",
    )
    read = _stored().get((page.name, namespace))
    is_entered = bool(st.session_state.pop(_ENTERED, False))
    is_due = read is None or services.now() - read.read_at > _FRESH
    if address is not None and (is_asked or (is_entered and is_due)):
        _read(page, address, namespace)
        st.rerun()


def draw_failure(page: PulsarPage, namespace: str) -> None:
    """Draw the error of reading a namespace's names; nothing if there was none."""
    failed = cast("Mapping[tuple[str, str], OpsError]", st.session_state.get(_FAILED, {}))
    if (error := failed.get((page.name, namespace))) is not None:
        words.failed(error, what="Could not read the topic names")


def _read(page: PulsarPage, address: str, namespace: str) -> None:
    key = page.name, namespace
    st.session_state[_FAILED] = {}
    try:
        with st.spinner(words.plain(f"Reading topic names of {namespace}"), show_time=True):
            names = pulsar.fetch_topic_names(page.cluster, address, namespace)
    except NotFoundError:
        names = TopicNames(frozenset(), frozenset())
    except OpsError as error:
        st.session_state[_FAILED] = {key: error}
        return
    stored = _stored()
    stored.pop(key, None)
    stored[key] = model.ReadNames(names, services.now())
    while len(stored) > _MAX_READ:
        stored.pop(next(iter(stored)))


def read_of(page: PulsarPage, namespace: str) -> model.ReadNames | None:
    """Return the topic names of a namespace that this session read; ``None``: it read none."""
    return _stored().get((page.name, namespace))


def _addresses(page: PulsarPage, owner: str | None) -> Iterator[str]:
    """Yield the web addresses that can be asked, the owner's first."""
    snapshot = page.reading.snapshot
    for broker in (*([owner] if owner else []), *snapshot.brokers["broker"].to_pylist()):
        address = page.cluster.web_address(*web_addresses_of(snapshot, broker))
        if address is not None:
            yield address


def _stored() -> dict[tuple[str, str], model.ReadNames]:
    return cast("dict[tuple[str, str], model.ReadNames]", st.session_state.setdefault(_READ, {}))
