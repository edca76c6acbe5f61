"""One calculator: its form, its answer, and how both are shown."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, TypeVar

import plotly.graph_objects as go
import streamlit as st

from core.errors import OpsError
from dashboard import state
from dashboard.app_pages.pulsar.advisors import inputs
from dashboard.components import figures, frame, words
from dashboard.presenters.figures import KeyFigure
from dashboard.presenters.pulsar.advisors_inputs import AdvisorParameter, ClusterValue, Number

if TYPE_CHECKING:
    from dashboard.app_pages.pulsar.advisors.inputs import Subject

Chosen = TypeVar("Chosen")
Given = dict[str, Number]


@dataclass(frozen=True, eq=False, kw_only=True)
class Result:
    """Result of a calculator.

    Attributes:
        answer: The page's one sentence.
        figures: The same as figures.
        action: Draws the button that leads to it; ``None``: nothing to do.
        title: Of the chart.
        chart: The chart; ``None``: there is nothing to draw.
        alt: What the chart shows.
        basis: What was taken from the cluster and what is assumed.
        warnings: What does not go together.
        tabs: By label, what draws the details.
    """

    answer: str
    figures: Sequence[KeyFigure]
    action: Callable[[], None] | None = None
    title: str = ""
    chart: go.Figure | None = None
    alt: str = ""
    basis: str = ""
    warnings: Sequence[str] = ()
    tabs: Mapping[str, Callable[[], None]] = field(default_factory=dict)


@dataclass(frozen=True, eq=False, kw_only=True)
class Calculator(Generic[Chosen]):
    """A question with its form.

    Attributes:
        title: In the chooser.
        parameters: Numbers of the form.
        controls: Draws what else the form has, and returns what was chosen.
        live: What the cluster gives for the numbers.
        compute: Returns the answer; raises an :class:`OpsError` for what cannot be.
        reads_topics: Whether the topics of the namespace count.
    """

    title: str
    parameters: Sequence[AdvisorParameter]
    controls: Callable[[Subject], Chosen]
    live: Callable[[Subject, Chosen], Mapping[str, ClusterValue]]
    compute: Callable[[Subject, Given, Chosen], Result]
    reads_topics: bool = True

    def show(self, subject: Subject) -> None:
        """Draw the form at the left, and the answer at its right."""
        left, right = frame.columns([0.38, 0.62], key="calculator")
        with left, st.container(border=True):
            chosen = self.controls(subject)
            given = inputs.draw(self.parameters, self.live(subject, chosen))
            if self.reads_topics:
                inputs.topics_button(subject)
        with right:
            try:
                result = self.compute(subject, given, chosen)
            except OpsError as error:
                words.failed(error, what="Calculation failed")
                return
            _show(result, self.title)


def _show(result: Result, title: str) -> None:
    words.answer(result.answer)
    figures.key_figures(result.figures, key=f"calculator_{title}")
    if result.action is not None:
        result.action()
    for sentence in result.warnings:
        st.warning(words.plain(sentence), icon=":material/warning:")
    if result.chart is not None:
        words.section(result.title)
        figures.chart(result.chart, key=f"calculator_{title}_chart", alt=result.alt)
    if result.basis:
        st.caption(words.plain(result.basis))
    if not result.tabs:
        return
    shown = st.tabs(list(result.tabs), key=state.SHOW, on_change="rerun", bind="query-params")
    for tab, draw in zip(shown, result.tabs.values(), strict=True):
        if tab.open:
            with tab:
                draw()
