"""From a preview to a run: the button, the dialog that asks why, and the request itself."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple

import streamlit as st

from core.actions.describe import describe_open_run, describe_stop
from core.actions.model import RunOptions
from core.actions.request import MAX_CANARY_S
from core.errors import OpsError
from core.plan.model import Plan
from dashboard import services, state
from dashboard.components import action_bar, words
from dashboard.components.undo import draw_left
from dashboard.presenters import applying as presenter
from dashboard.presenters.naming import file_name
from dashboard.queries import access as page_access
from dashboard.queries import runs
from dashboard.services import access, config_option

if TYPE_CHECKING:
    from dashboard.services import Cluster, Config

REASON: Final = "_apply_reason"
PACE: Final = "_apply_pace"
CANARY: Final = "_apply_canary"
PAUSE: Final = "_apply_pause"
TYPED: Final = "_apply_typed"
FAILED: Final = "_apply_failed"

_FOCUS: Final = """<script>
window.reasonFocus ??= setInterval(() => {
  const field = document.querySelector('[role="dialog"] .st-key-_apply_reason input');
  const dialog = field?.closest('[role="dialog"]');
  if (!dialog?.querySelector('[data-testid="stFormSubmitButton"]')) return;
  field.dataset.seen ??= Date.now();
  const at = document.activeElement;
  const isFree = !dialog.contains(at) || at === dialog || at.ariaLabel === 'Close';
  if (isFree && Date.now() - field.dataset.seen < 2000) field.focus();
  const refused = dialog.querySelector('[data-testid="stForm"] [data-testid="stAlert"]');
  if (!refused || refused.dataset.seen) return;
  refused.dataset.seen = true;
  const fields = [...dialog.querySelectorAll('[data-testid="stForm"] input[type="text"]')];
  (fields.find((one) => !one.value.trim()) ?? fields.at(-1)).focus();
}, 50);
</script>"""
"""Focuses the reason in the 2 s after it appears: Streamlit focuses the dialog, once or twice; and
the field that is lacking, once that was said."""


class PauseOption(NamedTuple):
    """The choice to pause the cluster's own balancer during the run.

    Attributes:
        label: Of the switch.
        help: What it does.
    """

    label: str
    help: str


@dataclass(frozen=True, eq=False)
class ApplyDialog(ABC):
    """The plan about to be applied, exactly as shown; each system has a subclass.

    Attributes:
        config: The configuration.
        cluster: Its cluster.
        plan: The plan.
        is_past: It was made on a snapshot that was chosen by its time.
    """

    example: ClassVar[str]
    """A reason, shown in the empty field."""

    config: Config
    cluster: Cluster
    plan: Plan
    is_past: bool

    @property
    def pause(self) -> PauseOption | None:
        """The way to pause the cluster's own balancer; ``None`` if not needed or not possible."""
        return None

    @property
    def doubt(self) -> str:
        """The reason against applying the plan, one sentence; empty if there is none."""
        return presenter.doubt(self.plan)

    @abstractmethod
    def draw_effects(self) -> None:
        """Draw the expected effects of the plan."""


def draw_choices(dialog: ApplyDialog, now: datetime) -> str:
    """Draw the actions on a plan: apply it, or download it; return the file's name."""
    words.section("Apply", "A worker executes this plan and checks each step.")
    with st.container(horizontal=True, vertical_alignment="center"):
        apply_button(dialog)
        name = draw_download(dialog)
    st.caption(presenter.expiry_words(dialog.plan, now))
    return name


def draw_download(dialog: ApplyDialog) -> str:
    """Draw the button that takes the plan along; return the file's name."""
    plan = dialog.plan
    name = file_name(dialog.cluster.name, f"plan-{plan.short_id}", plan.created_at, "json")
    st.download_button(
        "Download plan",
        data=access.plan_file(services.page_config(), plan),
        file_name=name,
        mime="application/json",
        icon=":material/download:",
        on_click="ignore",
    )
    return name


def apply_button(dialog: ApplyDialog) -> None:
    """Draw the button that leads from the preview to the dialog, with the reason when it may not.

    A dialog that is open already keeps to the plan it was opened with.
    """
    refusal = _refusal(dialog)
    st.button(
        _label(dialog.plan),
        icon=":material/rocket_launch:",
        disabled=refusal is not None,
        help=None if refusal is None else words.coded(refusal),
        on_click=_begin,
        args=(dialog,),
        key="_apply",
    )
    if refusal is not None:
        st.caption(f":material/block: {words.coded(refusal)}", width="content")
    draw_dialog()


def apply_action(dialog: ApplyDialog, label: str = "") -> action_bar.Button:
    """Return the button of an action bar that opens the dialog; draw :func:`draw_dialog` as well.

    Args:
        dialog: The plan.
        label: By default that of applying the plan: the primary button, unless the plan does no
            good, which its help then says.
    """
    refusal, doubt = _refusal(dialog), dialog.doubt
    return action_bar.Button(
        label=label or ("Apply anyway…" if doubt else _label(dialog.plan)),
        on_click=_begin,
        args=(dialog,),
        is_primary=not label and not doubt,
        is_disabled=refusal is not None,
        help=refusal or doubt,
        icon=":material/rocket_launch:",
        key="" if label else "_apply",
    )


def _label(plan: Plan) -> str:
    return "Apply undo…" if plan.undoes else "Apply plan…"


def draw_dialog() -> None:
    """Draw the dialog of a plan, if it is open."""
    opened = state.open_dialog()
    if isinstance(opened, ApplyDialog):
        title = presenter.send_label(opened.plan)
        st.dialog(title, width="medium", icon=":material/rocket_launch:", on_dismiss=_close)(
            partial(_body, opened)
        )()


def _refusal(dialog: ApplyDialog) -> str | None:
    """Return the refusal of the plan now; checked when drawn, and again when sent."""
    name = dialog.cluster.name
    forbidden = page_access.plan_refusal(dialog.config, dialog.plan, name)
    if forbidden is not None:
        return forbidden
    try:
        going = runs.open_run(dialog.config, name)
    except OpsError as error:
        return f"{error.message} {error.hint}".strip()
    found = presenter.why_not(
        presenter.ApplyContext(
            plan=dialog.plan,
            now=services.now(),
            is_past=dialog.is_past,
            is_read_only=dialog.cluster.read_only,
            worker=runs.worker(dialog.config, name),
            open_run=None if going is None else (going.run_id, going.requested_by),
            max_steps=dialog.cluster.apply.max_steps,
        )
    )
    if found is None or going is None or dialog.cluster.read_only:
        return found
    describe = describe_stop if going.run_id in found else describe_open_run
    return f"{found} {describe(going, config_option(dialog.config))}"


def _begin(dialog: ApplyDialog) -> None:
    st.session_state.pop(FAILED, None)
    state.set_dialog(dialog)


def _close() -> None:
    state.set_dialog(None)


def _body(dialog: ApplyDialog) -> None:
    plan = dialog.plan
    dialog.draw_effects()
    for sentence in presenter.remarks(plan).get("warning", []):
        st.warning(words.plain(sentence), icon=":material/warning:")
    draw_left(plan)
    # a form sends what is typed together with the click: none is lost, and Enter submits
    with st.form("_apply_form", border=False):
        st.text_input(
            "Reason (recorded in the audit log)",
            key=REASON,
            max_chars=500,
            placeholder=f"For example: {dialog.example}",
        )
        _options(dialog)
        _confirmation(dialog)
        failed = st.session_state.get(FAILED)
        if failed:
            st.error(words.coded(str(failed)), icon=":material/error:")
        _buttons(dialog)
    st.caption(f"{presenter.STOP_WORDS} {presenter.expiry_words(plan, services.now())}")
    st.html(_FOCUS, unsafe_allow_javascript=True)


def _options(dialog: ApplyDialog) -> None:
    """No tooltips here: on the way of the Tab key they cover the reason above."""
    with st.container(horizontal=True, vertical_alignment="bottom"):
        if len(dialog.plan.steps) > 1:
            _pace(dialog)
        if dialog.pause is not None:
            why_not = page_access.plan_refusal(
                dialog.config, dialog.plan, dialog.cluster.name, is_balancer_paused=True
            )
            st.checkbox(dialog.pause.label, key=PAUSE, disabled=why_not is not None)
            if why_not is not None:
                st.caption(words.plain(why_not))
    if dialog.pause is not None:
        st.caption(words.plain(dialog.pause.help))


def _pace(dialog: ApplyDialog) -> None:
    """Draw the rate of the steps and the observation of the first one."""
    limit = float(dialog.cluster.apply.pace_per_min)
    st.number_input(
        f"Steps/min (max {limit:g})",
        min_value=min(0.1, limit),
        max_value=limit,
        value=limit,
        step=1.0 if limit >= 2.0 else 0.1,
        format="%g",
        key=PACE,
        width=180,
    )
    least_s = float(dialog.cluster.apply.canary_s)
    st.number_input(
        "Canary observation (s)",
        min_value=least_s,
        max_value=MAX_CANARY_S,
        value=least_s,
        step=10.0,
        format="%g",
        key=CANARY,
        width=220,
    )


def _confirmation(dialog: ApplyDialog) -> None:
    why = presenter.must_type_name(dialog.plan, dialog.cluster.environment)
    if why:
        st.text_input(
            # read aloud as it is written, so it has no Markdown; names of clusters need none
            f"{why[0].upper() + why[1:]}. To confirm, enter {dialog.plan.cluster}",
            key=TYPED,
        )


def _answers() -> presenter.Answers:
    stored = st.session_state
    return presenter.Answers(
        reason=str(stored.get(REASON) or ""), typed_name=str(stored.get(TYPED) or "")
    )


def _buttons(dialog: ApplyDialog) -> None:
    """The first button of a form is the one that Enter presses."""
    with st.container(horizontal=True):
        st.form_submit_button(
            presenter.send_label(dialog.plan),
            type="primary",
            icon=":material/rocket_launch:",
            on_click=_apply,
            args=(dialog,),
            key="_apply_now",
        )
        if st.form_submit_button("Cancel", type="tertiary", on_click=_close, key="_apply_cancel"):
            st.rerun()  # a click within a dialog draws the dialog alone


def _apply(dialog: ApplyDialog) -> None:
    """Ask for the run once, and open its page: nothing is carried out here."""
    st.session_state.pop(FAILED, None)
    if state.open_dialog() is not dialog:  # a second click on the same dialog
        return
    lacking = presenter.missing(dialog.plan, dialog.cluster.environment, _answers())
    if lacking is not None:
        st.session_state[FAILED] = lacking
        return
    limits, stored = dialog.cluster.apply, st.session_state
    options = RunOptions(
        pace_per_min=float(stored.get(PACE) or limits.pace_per_min),
        max_failures=limits.max_failures,
        max_unassigned=limits.max_unassigned,
        verify_within_s=limits.verify_within_s,
        pause_balancer=dialog.pause is not None and bool(stored.get(PAUSE)),
        is_gradual=limits.gradual_pace,
        canary_s=float(stored.get(CANARY) or limits.canary_s),
    )
    refusal = _refusal(dialog)
    if refusal is not None:
        stored[FAILED] = refusal
        return
    try:
        run_id = runs.request(dialog.config, dialog.plan, _answers().reason, options)
    except OpsError as error:
        stored[FAILED] = f"{error.message} {error.hint}".strip()
        return
    _close()
    state.go("run", run=run_id)
