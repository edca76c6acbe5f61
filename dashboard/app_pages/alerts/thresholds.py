"""Changing a threshold of alerts: the change is previewed, applied by an admin, and recorded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import streamlit as st

from core.alerts.rules import RULE_BY_CODE
from core.alerts.thresholds import ADJUSTABLE, AdjustableFields, differences, fields_of, requested
from core.errors import OpsError
from dashboard.components import words
from dashboard.queries import access
from dashboard.services import alerts

if TYPE_CHECKING:
    from core.alerts.model import Limits
    from dashboard.services import Config

_FAILED: Final = "_thresholds_failed"


def draw(config: Config) -> None:
    """Draw the control that changes a threshold, with its preview."""
    why_not = access.refusal(config, "admin", None, "change alert thresholds")
    with st.popover("Change threshold…", icon=":material/tune:", disabled=why_not is not None):
        _form(config)
    if why_not:
        st.caption(words.plain(why_not))
    if failed := st.session_state.pop(_FAILED, ""):
        st.error(words.plain(failed), icon=":material/error:")


def _form(config: Config) -> None:
    rule = st.selectbox(
        "Alert",
        list(ADJUSTABLE),
        format_func=lambda code: RULE_BY_CODE[code].title,
        key="_threshold_rule",
    )
    one, now = ADJUSTABLE[rule], alerts.limits(config)
    threshold = minutes = None
    if one.threshold:
        threshold = st.number_input(
            f"Threshold ({one.unit})",
            min_value=0.1,
            value=_shown(one, now),
            placeholder="cluster target",
            format="%g",
            key=f"_threshold_{rule}",
        )
    if one.minutes:
        minutes = st.number_input(
            "For (min)",
            min_value=0.0,
            value=float(getattr(now, one.minutes)),
            format="%g",
            key=f"_minutes_{rule}",
        )
    values: dict[str, float | None] = dict.fromkeys(fields_of(rule))
    if not st.toggle("Reset", key="_threshold_reset"):
        try:
            values = {**requested(rule, threshold, minutes)}
        except OpsError as error:
            st.caption(words.plain(error.message))
            return
    changed = differences(now, alerts.preview_thresholds(config, values))
    for name, before, after in changed:
        st.markdown(words.plain(f"{name}: {before} → {after}"))
    if not changed:
        st.caption("No changes.")
    reason = st.text_input("Reason (recorded)", key="_threshold_reason", max_chars=500)
    st.button(
        "Apply change",
        type="primary",
        disabled=not changed or not reason.strip(),
        on_click=_apply,
        args=(config, values, reason),
        key="_threshold_apply",
    )


def _shown(fields: AdjustableFields, limits: Limits) -> float | None:
    """Return a threshold in the unit of its field; ``None``: the target of the cluster."""
    value = getattr(limits, fields.threshold)
    if value is None:
        return None
    return float(value) * (100 if fields.unit == "%" else 1)


def _apply(config: Config, values: dict[str, float | None], reason: str) -> None:
    try:
        alerts.change_thresholds(config, values, access.person(config), reason)
    except OpsError as error:
        st.session_state[_FAILED] = f"{error.message} {error.hint}".strip()
