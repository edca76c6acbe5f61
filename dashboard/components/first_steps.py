"""The first steps of a new user: on the demo only, until they are done or dismissed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import streamlit as st

from core.errors import OpsError
from dashboard import state
from dashboard.components import words
from dashboard.components.frame import FleetContext
from dashboard.components.pulsar.page import PulsarPage
from dashboard.presenters.pulsar.first_unload import HotSpot, hot_spot
from dashboard.queries import runs
from dashboard.services.demo import PAST_ACTOR, STEPS, Demo, demo_of, dismiss_first_steps


@dataclass(frozen=True, slots=True)
class _Step:
    """One step.

    Attributes:
        name: Of the page that it leads to.
        title: What is done.
        text: What it shows, one sentence.
        label: Of its button.
        open: Opens the page with the right object.
        is_done: Whether the user has done it.
    """

    name: str
    title: str
    text: str
    label: str
    open: Callable[[], None]
    is_done: bool


def draw(page: FleetContext) -> None:
    """Show the first steps on the demo's Pulsar cluster; nothing anywhere else."""
    demo = demo_of(page.config)
    shown = page.page
    if demo is None or demo.is_dismissed or not isinstance(shown, PulsarPage):
        return
    spot = hot_spot(shown.reading.view)
    if spot is None:
        return
    steps = _steps(page, demo, spot)
    first_open = next((step for step in steps if not step.is_done), None)
    with st.container(border=first_open is not None, key="first_steps", gap="small"):
        with st.container(horizontal=True, vertical_alignment="center"):
            done = sum(step.is_done for step in steps)
            st.markdown(f"**First steps** · {done} of {len(steps)} done", width="stretch")
            st.caption(_note(demo), width="content")
            if first_open is None:
                _draw_button(steps[-1], is_next=False)
            st.button(
                "Dismiss",
                icon=":material/close:",
                type="tertiary",
                key="_first_steps_dismiss",
                on_click=dismiss_first_steps,
                args=(page.config,),
            )
        if first_open is None:
            return
        for column, (number, step) in zip(
            st.columns(len(steps), gap="medium"), enumerate(steps, 1), strict=True
        ):
            with column:
                _draw_step(number, step, is_next=step is first_open)


def _draw_step(number: int, step: _Step, *, is_next: bool) -> None:
    icon = ":green[:material/check_circle:]" if step.is_done else f":gray[{number}.]"
    with st.container(horizontal=True, vertical_alignment="top", wrap=False):
        text = f"{icon} **{step.title}**  \n:small[:gray[{words.plain(step.text)}]]"
        st.markdown(text, width="stretch")
        _draw_button(step, is_next=is_next)


def _draw_button(step: _Step, *, is_next: bool) -> None:
    st.button(
        step.label,
        key=f"_first_steps_{step.name}",
        type="primary" if is_next else "secondary",
        on_click=step.open,
    )


def _steps(page: FleetContext, demo: Demo, spot: HotSpot) -> tuple[_Step, ...]:
    cluster = page.choice.cluster.name
    has_applied = _has_applied(page, cluster)
    done = STEPS if has_applied else demo.done
    return (
        _Step(
            "broker",
            "Find the busiest broker",
            spot.sentence,
            "Open broker",
            lambda: state.go("broker", cluster=cluster, broker=spot.broker),
            "broker" in done,
        ),
        _Step(
            "unload",
            "Preview an unload",
            "Destination and affected clients.",
            "Open preview",
            lambda: state.go("unload", cluster=cluster, bundles=[spot.bundle]),
            "unload" in done,
        ),
        _Step(
            "activity",
            "Apply the plan",
            "Select Apply plan… on the preview. You can undo the run under Runs.",
            "Open Runs" if has_applied else "Go to apply",
            (lambda: state.go("activity", cluster=cluster))
            if has_applied
            else lambda: state.go("unload", cluster=cluster, bundles=[spot.bundle]),
            has_applied,
        ),
    )


def _has_applied(page: FleetContext, cluster: str) -> bool:
    """Whether a person has applied a plan here: the runs of the simulated past do not count."""
    try:
        found = runs.of_cluster(page.config, cluster)
    except OpsError:
        return False
    return any(view.requested_by != PAST_ACTOR for view in found)


def _note(demo: Demo) -> str:
    if not demo.has_past:
        return "Demo: everything is simulated."
    return f"Demo: history before {demo.started_at:%H:%M} UTC is simulated."
