"""Pause, resume, stop, undo: what a person may request of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import streamlit as st

from core.access import is_same_person
from core.actions.describe import why_nothing_lasts
from core.actions.model import Control, RunId
from core.actions.views import RunView
from core.errors import OpsError
from core.step import Step
from dashboard import services, state
from dashboard.components import words
from dashboard.components.systems import system_of_run
from dashboard.presenters import runs as presenter
from dashboard.presenters.run_steps import notice as notice_of
from dashboard.queries import access, runs
from dashboard.services import config_option

if TYPE_CHECKING:
    from dashboard.services import Config

FAILED: Final = "_control_failed"
_HELP: Final[dict[Control, str]] = {
    "pause": "Finishes the current step; the next step starts when you resume the run.",
    "resume": "Continues with the next step.",
}


def controls(config: Config, view: RunView) -> None:
    """Draw the controls of the run in its state, and pending requests."""
    if services.awaits_approval(config, view):
        _review(config, view)
    with st.container(horizontal=True, vertical_alignment="center", width="content"):
        if view.is_ended:
            _undo(config, view)
        else:
            _pause_or_resume(config, view)
            _stop(config, view)
        pending = presenter.pending_words(view, services.now())
        if pending:
            st.caption(f":material/hourglass_top: {words.plain(pending)}", width="content")
    failed = st.session_state.pop(FAILED, None)
    if failed:
        st.error(words.plain(str(failed)), icon=":material/error:")


def notice(config: Config, view: RunView) -> None:
    """Render the action that the run needs from a person; nothing if it needs none."""
    found = notice_of(view)
    if found is None:
        return
    st.info(words.plain(found.text), title=found.title, icon=":material/hourglass_top:")
    if _is_sandbox(config, view.cluster):
        st.caption("To stop or start a node's process in this sandbox, run:")
        st.code(f"{found.demo}{config_option(config)}", language="bash")


def _is_sandbox(config: Config, cluster: str) -> bool:
    try:
        return config.cluster(cluster).environment == "demo"
    except OpsError:  # of an old run: the configuration has lost it
        return False


def _pause_or_resume(config: Config, view: RunView) -> None:
    control: Control = "resume" if view.state == "PAUSED" else "pause"
    why_not = presenter.why_no_control(view, control) or _forbidden(config, view, control)
    st.button(
        control.capitalize(),
        icon=":material/play_arrow:" if control == "resume" else ":material/pause:",
        disabled=why_not is not None,
        help=why_not or _HELP[control],
        key=f"_{control}",
        on_click=_ask,
        args=(config, view.run_id, control),
    )


def _stop(config: Config, view: RunView) -> None:
    why_not = presenter.why_no_control(view, "stop") or _forbidden(config, view, "stop")
    with st.popover("Stop…", icon=":material/stop:", disabled=why_not is not None, help=why_not):
        st.markdown(
            "Finishes the current step, skips the remaining steps and restores temporary settings."
        )
        st.text_input("Reason", key="_stop_reason", placeholder="Optional", max_chars=500)
        st.button(
            "Stop run",
            icon=":material/stop_circle:",
            key="_stop",
            on_click=_ask,
            args=(config, view.run_id, "stop"),
        )


def _review(config: Config, view: RunView) -> None:
    """Draw the controls of a reviewer of a run that waits for approval."""
    rules = config.cluster(view.cluster).approval.rules()
    st.info(
        f"{words.plain(rules.why_needed(view.plan).capitalize())}. Requested by "
        f"{words.plain(view.requested_by)}. Another {rules.role} can approve it until "
        f"{rules.until(view):%H:%M} UTC. See the steps and their predicted effects below.",
        title="Waiting for approval",
        icon=":material/how_to_reg:",
    )
    why_not = _may_not_decide(config, view)
    with st.form("_review", border=False, clear_on_submit=True):
        st.text_input(
            "Comment",
            key="_review_comment",
            max_chars=500,
            placeholder="Recorded in the journal; required to reject",
            disabled=why_not is not None,
        )
        with st.container(horizontal=True, vertical_alignment="center"):
            for label, icon, is_approved in (
                ("Approve", ":material/check:", True),
                ("Reject", ":material/close:", False),
            ):
                st.form_submit_button(
                    label,
                    icon=icon,
                    type="primary" if is_approved else "secondary",
                    disabled=why_not is not None,
                    on_click=_decide,
                    args=(config, view.run_id, is_approved),
                    key=f"_{label.lower()}",
                )
            if why_not:
                st.caption(words.plain(why_not), width="content")


def _may_not_decide(config: Config, view: RunView) -> str | None:
    """Return the obstacle to a decision by the person at the page; ``None`` if there is none."""
    rules = config.cluster(view.cluster).approval.rules()
    refused = access.plan_refusal(config, view.plan, view.cluster, "approve runs", role=rules.role)
    if refused is None and is_same_person(access.person(config), view.requester):
        return "Another user must decide, because you requested the run."
    return refused


def _decide(config: Config, run_id: RunId, is_approved: bool) -> None:  # noqa: FBT001  # of args=
    comment = str(st.session_state.get("_review_comment") or "")
    try:
        services.decide(config, run_id, access.person(config), comment, is_approved=is_approved)
    except OpsError as error:
        st.session_state[FAILED] = f"{error.message} {error.hint}".strip()


def _forbidden(config: Config, view: RunView, control: Control) -> str | None:
    return access.plan_refusal(config, view.plan, view.cluster, f"{control} runs", role="operator")


def _undo(config: Config, view: RunView) -> None:
    nothing = why_nothing_lasts(view)
    if nothing:
        st.caption(words.plain(nothing), width="content")
        if not any(step.step.starts_balancer for step in view.steps if step.state == "DONE"):
            return
    undo = runs.standing_undo(config, view)
    why_not = presenter.why_no_undo(view, undo)
    st.button(
        "Undo…",
        icon=":material/undo:",
        disabled=why_not is not None,
        help=why_not or "Preview the undo plan. No request is sent until you apply it.",
        key="_undo",
        on_click=_preview_undo,
        args=(view,),
    )
    if why_not and undo is None:  # the page links the undo
        st.caption(words.plain(why_not), width="content")


def _preview_undo(view: RunView) -> None:
    st.session_state[state.CLUSTER] = view.cluster
    state.go(system_of_run(view).undo_page, undo=view.run_id, cluster=view.cluster)


def next_moves(view: RunView) -> None:
    """Offer, for each bundle that landed elsewhere than requested, the preview of the next move."""
    for step in view.next_moves[:8]:
        with st.container(horizontal=True, vertical_alignment="center"):
            st.markdown(
                f":orange[:material/call_split:] {words.plain(step.subject)} is on "
                f"{words.plain(step.owner or '')} (requested: "
                f"{words.plain(step.destination or '')})."
            )
            st.button(
                "Preview next move",
                icon=":material/swap_horiz:",
                type="tertiary",
                key=f"_next_{step.subject}",
                on_click=_preview_next,
                args=(view.cluster, step),
            )


def _preview_next(cluster: str, step: Step) -> None:
    st.session_state[state.CLUSTER] = cluster
    state.go("unload", bundles=[step.subject], to=step.destination or "", cluster=cluster)


def _ask(config: Config, run_id: RunId, control: Control) -> None:
    reason = str(st.session_state.get("_stop_reason") or "") if control == "stop" else ""
    try:
        services.ask_control(config, run_id, control, access.person(config), reason.strip())
    except OpsError as error:
        st.session_state[FAILED] = f"{error.message} {error.hint}".strip()
