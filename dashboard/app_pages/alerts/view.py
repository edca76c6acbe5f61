"""The table of alerts, silences, and the message that tests a target."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Final

import streamlit as st

from core.alerts.model import Alert, Silence
from core.alerts.rules import RULES
from core.errors import OpsError
from dashboard.app_pages.alerts import model
from dashboard.components import tables, words
from dashboard.presenters.moments import stamp
from dashboard.queries import access
from dashboard.services import alerts

if TYPE_CHECKING:
    from dashboard.services import Config

_FAILED: Final = "_alerts_failed"
_DONE: Final = "_alerts_done"
_TABLE: Final = "alerts"
_ANY: Final = "every cluster"


def draw_alerts(found: Sequence[Alert], silences: Sequence[Silence], now: datetime) -> None:
    """Draw the alerts, the most urgent first, and the selected one in full at its side."""
    rows = model.rows_of(found, silences, now)
    if rows.empty:
        st.caption("The collector looks at every cluster; limits are under [alerts].")
        return
    selected = tables.selected(_TABLE, (one.key for one in found))
    left, right = (st.container(), None)
    if selected is not None:
        left, right = st.columns([0.68, 0.32], gap="medium")
    with left:
        tables.table(
            rows,
            {
                "state": tables.words("State"),
                "severity": tables.words("Severity"),
                "cluster": tables.words("Cluster"),
                "title": tables.words("Alert"),
                "subject": tables.words("Subject"),
                "since": st.column_config.TextColumn("Since", alignment="right"),
                "sent": st.column_config.TextColumn("Sent", alignment="right"),
            },
            key=_TABLE,
            missing="",
            alt="Alerts with their state, the most urgent first",
            selection="single-row",
        )
        st.caption("Select an alert for what was measured and what to do.")
    if right is not None and selected is not None:
        with right, st.container(border=True, key="alert_panel"):
            _in_full(found[selected], rows["title"].iloc[selected])


def _in_full(alert: Alert, title: str) -> None:
    """Draw what was measured, what to do, and the times of one alert."""
    of = " · ".join(part for part in (alert.severity, *alert.key[1:]) if part)
    st.markdown(f"**{words.plain(title or alert.key.rule)}**")
    st.caption(words.plain(of))
    st.markdown(words.plain(alert.sentence))
    if alert.hint:
        st.markdown(f"**Next:** {words.plain(alert.hint)}")
    times = {"since": alert.since, "sent": alert.sent_at, "ended": alert.ended_at}
    st.caption(" · ".join(f"{name} {stamp(at)} UTC" for name, at in times.items() if at))


def draw_actions(config: Config, silences: Sequence[Silence]) -> None:
    """Draw what may be done: silence, end a silence, test a target."""
    why_not = access.refusal(config, "operator", None, "silence alerts")
    with st.container(horizontal=True, vertical_alignment="center"):
        with st.popover(
            "Silence…", icon=":material/notifications_off:", disabled=why_not is not None
        ):
            _silence_form(config)
        with st.popover(
            "Send a test…",
            icon=":material/send:",
            disabled=why_not is not None or not config.alerts.targets,
        ):
            _test_form(config)
        if why_not:
            st.caption(words.plain(why_not), width="content")
        elif not config.alerts.targets:
            st.caption(
                "No message is sent: name targets under [[alerts.targets]].", width="content"
            )
    failed, done = st.session_state.pop(_FAILED, ""), st.session_state.pop(_DONE, "")
    if failed:
        st.error(words.plain(failed), icon=":material/error:")
    if done:
        st.success(words.plain(done), icon=":material/check:")
    if silences:
        words.section("Silences")
    for one in silences:
        with st.container(horizontal=True, vertical_alignment="center"):
            st.markdown(words.plain(model.silence_words(one)), width="content")
            st.button(
                "End silence",
                key=f"_end_silence_{one.number}",
                type="tertiary",
                disabled=why_not is not None,
                on_click=_end,
                args=(config, one.number),
            )


def _silence_form(config: Config) -> None:
    with st.form("_silence", border=False, clear_on_submit=True):
        rules = {"*": "every alert", **{rule.code: rule.title for rule in RULES}}
        st.selectbox("Alert", list(rules), format_func=rules.__getitem__, key="_silence_rule")
        names = [_ANY, *(cluster.name for cluster in config.clusters)]
        st.selectbox("Cluster", names, key="_silence_cluster")
        st.selectbox("For", list(model.SPANS), index=1, key="_silence_span")
        st.text_input("Reason (recorded)", key="_silence_reason", max_chars=500)
        st.form_submit_button("Silence", type="primary", on_click=_silence, args=(config,))


def _silence(config: Config) -> None:
    held = st.session_state
    cluster = str(held["_silence_cluster"])
    try:
        number = alerts.silence(
            config,
            str(held["_silence_rule"]),
            "*" if cluster == _ANY else cluster,
            "*",
            model.SPANS[str(held["_silence_span"])],
            access.person(config),
            str(held["_silence_reason"] or ""),
        )
    except OpsError as error:
        held[_FAILED] = f"{error.message} {error.hint}".strip()
    else:
        held[_DONE] = f"Silence {number} is active."


def _end(config: Config, number: int) -> None:
    try:
        alerts.end_silence(config, number, access.person(config))
    except OpsError as error:
        st.session_state[_FAILED] = f"{error.message} {error.hint}".strip()


def _test_form(config: Config) -> None:
    with st.form("_test_target", border=False):
        names = [one.name for one in config.alerts.targets]
        st.selectbox("Target", names, key="_test_name")
        st.form_submit_button("Send", type="primary", on_click=_test, args=(config,))


def _test(config: Config) -> None:
    name = str(st.session_state["_test_name"])
    try:
        alerts.send_test(config, name, access.person(config))
    except OpsError as error:
        st.session_state[_FAILED] = f"{error.message} {error.hint}".strip()
    else:
        st.session_state[_DONE] = f"{name} took the message."
