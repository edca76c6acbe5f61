"""Charts on a page: all of them shown the same way."""

from __future__ import annotations

import plotly.graph_objects as go
import streamlit as st

from dashboard.charts.template import CONFIG


def chart(figure: go.Figure, *, key: str, alt: str) -> None:
    """Show a chart; ``alt`` says its takeaway in one plain sentence."""
    st.plotly_chart(figure, key=key, alt=alt, config=CONFIG, theme="streamlit")
