"""Balance: what the cluster's own balancer would do, and what would be better."""

from __future__ import annotations

import streamlit as st

from dashboard.cli_config import words_of
from dashboard.components import frame, words

page = frame.open_pegasus_page("Balance")
words.answer(page.reading.verdict.sentence)
words.section("In a terminal", "Its rounds to the end, one after another.")
st.code(f"trimtab pegasus balance {page.name}{words_of(page.config)}", language="bash")
