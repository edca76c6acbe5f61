"""Cluster: is it whole and balanced, which level is in force, how are its nodes."""

from __future__ import annotations

import streamlit as st

from dashboard.components import frame, words

page = frame.open_pegasus_page("Cluster")
words.answer(page.reading.verdict.sentence)
alive = sum(one.is_alive for one in page.facts.nodes)
level = page.facts.effective_level
with st.container(horizontal=True, gap="small"):
    st.metric("Nodes alive", f"{alive} of {len(page.facts.nodes)}", border=True, width="content")
    st.metric("Level in force", level.word if level else "unknown", border=True, width="content")
