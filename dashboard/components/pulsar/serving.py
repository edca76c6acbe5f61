"""Reason why no broker serves a bundle, above the figures of its page."""

from __future__ import annotations

import streamlit as st

from core.pulsar.owners import UNUSED
from core.pulsar.served import Service
from dashboard.components import words


def unserved(service: Service | None) -> None:
    """Draw since when and why no broker serves a bundle, with the fix; nothing if one does."""
    if service is None or service.state == UNUSED:
        return
    body = " ".join(filter(None, (service.sentence, service.next_lookup, service.fix)))
    if not service.why_not and not service.fix:
        return
    is_refused = service.is_served is False and service.is_problem
    show = st.error if is_refused else st.warning if service.is_problem else st.info
    show(words.plain(body), icon=":material/link_off:" if is_refused else ":material/info:")
