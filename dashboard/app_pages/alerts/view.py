"""Tables of alerts and thresholds, silences, and the message that tests a target."""

from __future__ import annotations

import glob
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Final

import streamlit as st

from core.alerts.model import Alert, AlertKey, Silence
from core.alerts.rules import RULES
from core.errors import OpsError
from dashboard import state
from dashboard.app_pages.alerts import model
from dashboard.components import frame, tables, words
from dashboard.presenters.moments import stamp
from dashboard.queries import access
from dashboard.services import alerts
from dashboard.sitemap import ENTRIES

if TYPE_CHECKING:
    import pandas as pd

    from dashboard.services import Config

_FAILED: Final = "_alerts_failed"
_DONE: Final = "_alerts_done"
_ANY: Final = "all clusters"
_FIRING_PX: Final = 320
_PRESELECTED: Final = "_silence_preselected"
"""In the session: the alert that the form of a silence was opened for."""
_MESSAGE_LETTERS: Final = 64
"""Of one line: in rows of several, Streamlit draws a state at the top and texts in the middle."""
_OTHERS_PX: Final = 300
_SEVERITY: Final = tables.status("Severity", model.SEVERITIES.values())


def draw_firing(
    config: Config,
    alerts: Sequence[Alert],
    silences: Sequence[Silence],
    now: datetime,
    unread: Sequence[str],
) -> Alert | None:
    """Draw the alerts that fire, the most urgent first, and the selected one at their side.

    Args:
        config: The configuration.
        alerts: That fire.
        silences: The silences that cover alerts.
        now: The present moment.
        unread: Clusters without a snapshot, whose alerts are unknown.
    Returns:
        The selected alert, else the most urgent one; ``None`` if none fires.
    """
    if not alerts:
        icon = ":material/help:" if unread else ":material/check_circle:"
        st.caption(f"{icon} {words.plain(model.all_clear(unread))}")
        return None
    columns = {
        "severity": _SEVERITY,
        "title": tables.words("Alert", width_px=140),
        "object": tables.words("Object", width_px=190),
        "since": st.column_config.TextColumn("Since", alignment="right", width=66),
        "measured": st.column_config.TextColumn("Value", alignment="right", width=70),
        "limit": st.column_config.TextColumn("Limit", alignment="right", width=66),
        "message": tables.words("Message", width_px=400),
        "sent": st.column_config.TextColumn("Sent", alignment="right", width=76),
    }
    rows = model.rows_of(alerts, silences, now)
    rows["message"] = tables.shortened(rows["message"], _MESSAGE_LETTERS)
    selected = _table(config, alerts, rows, columns, "firing", _FIRING_PX)
    if selected is None:
        _draw_next(alerts[0])
    return alerts[selected or 0]


def _draw_next(alert: Alert) -> None:
    """Draw the whole message of an alert, and its fix with the page for it."""
    of = f"{model.title_of(alert)}, {model.object_of(alert)}"
    st.markdown(f"**{words.plain(of)}:** {words.plain(alert.sentence)}")
    with st.container(horizontal=True, vertical_alignment="center"):
        _draw_link(alert, "next", is_primary=True)
        if alert.hint:
            st.markdown(f"**Next:** {words.plain(alert.hint)}", width="content")


def _draw_link(alert: Alert, key: str, *, is_primary: bool = False) -> None:
    """Draw the button to the page where something can be done about an alert, if any."""
    link = model.link_of(alert)
    if link is None:
        return
    page, params = link
    st.button(
        f"Open {ENTRIES[page].title}",
        key=f"_open_{key}",
        icon=":material/arrow_forward:",
        type="primary" if is_primary else "secondary",
        on_click=state.go,
        args=(page,),
        kwargs=params,
    )


def draw_others(
    config: Config, alerts: Sequence[Alert], silences: Sequence[Silence], now: datetime
) -> None:
    """Draw the alerts that are pending, silenced or resolved."""
    if not alerts:
        st.caption("None.")
        return
    columns = {
        "state": tables.status("State", model.STATES.values()),
        "title": tables.words("Alert"),
        "object": tables.words("Object"),
        "since": st.column_config.TextColumn("Since", alignment="right"),
        "ended": st.column_config.TextColumn("Resolved", alignment="right"),
        "measured": st.column_config.TextColumn("Value", alignment="right"),
        "limit": st.column_config.TextColumn("Limit", alignment="right"),
    }
    _table(config, alerts, model.rows_of(alerts, silences, now), columns, "others", _OTHERS_PX)


def draw_thresholds(rows: pd.DataFrame) -> None:
    """Draw the condition of each rule and the number of its firing alerts.

    Args:
        rows: Of :func:`model.thresholds_table`.
    """
    tables.table(
        rows,
        {
            "title": tables.words("Alert"),
            "condition": tables.words("Condition"),
            "minutes": st.column_config.NumberColumn(
                "For (min)", format="%g", help="Min duration of the condition; 0: fires at once."
            ),
            "severity": _SEVERITY,
            "firing": tables.whole("Firing"),
        },
        key="alert_thresholds",
        alt="Thresholds and delays of the alerts",
        height=min(_OTHERS_PX, tables.height_of(len(rows))),
    )


def _table(
    config: Config,
    alerts: Sequence[Alert],
    rows: pd.DataFrame,
    columns: Mapping[str, tables.Column],
    key: str,
    height: int,
) -> int | None:
    """Draw alerts, and the selected one in full at their side; return the number of its row."""
    selected = tables.selected(f"alerts_{key}", (alert.key for alert in alerts))
    left, right = (st.container(), None)
    if selected is not None:
        left, right = frame.columns([0.66, 0.34], key=f"alerts_{key}")
    with left:
        tables.table(
            rows,
            columns,
            key=f"alerts_{key}",
            missing="",
            alt="Alerts with object, value and limit, most urgent first",
            height=min(height, tables.height_of(len(rows))),
            selection="single-row",
        )
    if right is not None and selected is not None:
        with right, st.container(border=True, key=f"alert_panel_{key}"):
            _in_full(config, alerts[selected], key)
    return selected


def _in_full(config: Config, alert: Alert, key: str) -> None:
    """Draw the measurement, the hint and the times of one alert."""
    of = f"{alert.severity} · {model.object_of(alert)}"
    st.markdown(f"**{words.plain(model.title_of(alert))}**")
    st.caption(words.plain(of))
    st.markdown(words.plain(alert.sentence))
    if alert.hint:
        st.markdown(f"**Next:** {words.plain(alert.hint)}")
    times = {"since": alert.since, "sent": alert.sent_at, "resolved": alert.ended_at}
    st.caption(" · ".join(f"{name} {stamp(at)} UTC" for name, at in times.items() if at))
    with st.container(horizontal=True):
        _draw_link(alert, key)
        why_not = access.refusal(config, "operator", alert.key.cluster, "silence alerts")
        with st.popover(
            "Silence…",
            icon=":material/notifications_off:",
            disabled=why_not is not None,
            help=None if why_not is None else words.plain(why_not),
        ):
            _silence_form(config, alert.key, f"_silence_{key}")


def draw_actions(config: Config, silences: Sequence[Silence], firing: Alert | None) -> None:
    """Draw the actions: silence, end a silence, test a target.

    Args:
        config: The configuration.
        silences: Active ones.
        firing: The alert that a new silence is for, unless another is chosen.
    """
    why_not = access.refusal(config, "operator", None, "silence alerts")
    with st.container(horizontal=True, vertical_alignment="center"):
        with st.popover(
            "Silence…", icon=":material/notifications_off:", disabled=why_not is not None
        ):
            _preselect(config, firing)
            _silence_form(config)
        with st.popover(
            "Send test…",
            icon=":material/send:",
            disabled=why_not is not None or not config.alerts.targets,
        ):
            _test_form(config)
        if why_not:
            st.caption(words.plain(why_not), width="content")
        elif not config.alerts.targets:
            st.caption(
                "No targets. Configure [[alerts.targets]] to send notifications.", width="content"
            )
    failed, done = st.session_state.pop(_FAILED, ""), st.session_state.pop(_DONE, "")
    if failed:
        st.error(words.plain(failed), icon=":material/error:")
    if done:
        st.success(words.plain(done), icon=":material/check:")
    for silence in silences:
        with st.container(horizontal=True, vertical_alignment="center"):
            st.markdown(
                f":material/notifications_off: {words.plain(model.silence_words(silence))}",
                width="content",
            )
            st.button(
                "End silence",
                key=f"_end_silence_{silence.number}",
                type="tertiary",
                disabled=why_not is not None,
                on_click=_end,
                args=(config, silence.number),
            )


def _preselect(config: Config, firing: Alert | None) -> None:
    """Choose rule and cluster of an alert in the form of a silence, once for each alert."""
    key = None if firing is None else firing.key
    if key is None or st.session_state.get(_PRESELECTED) == key:
        return
    st.session_state[_PRESELECTED] = key
    names = [cluster.name for cluster in config.clusters]
    st.session_state["_silence_rule"] = key.rule
    st.session_state["_silence_cluster"] = key.cluster if key.cluster in names else _ANY


def _silence_form(
    config: Config, alert_key: AlertKey | None = None, name: str = "_silence"
) -> None:
    """Draw the form of a silence.

    Args:
        config: The configuration.
        alert_key: The alert that it covers; ``None``: rule and cluster are chosen.
        name: Of the form, unique on the page.
    """
    with st.form(name, border=False, clear_on_submit=True):
        if alert_key is None:
            rules = {"*": "all alerts", **{rule.code: rule.title for rule in RULES}}
            st.selectbox(
                "Alert",
                list(rules),
                index=None,
                format_func=rules.__getitem__,
                placeholder="Select an alert",
                key=f"{name}_rule",
            )
            names = [_ANY, *(cluster.name for cluster in config.clusters)]
            st.selectbox(
                "Cluster",
                names,
                index=None,
                placeholder="Select a cluster",
                key=f"{name}_cluster",
            )
        st.selectbox("For", list(model.SPANS), index=1, key=f"{name}_span")
        st.text_input("Reason (recorded)", key=f"{name}_reason", max_chars=500)
        st.form_submit_button(
            "Silence", type="primary", on_click=_silence, args=(config, alert_key, name)
        )


def _silence(config: Config, alert_key: AlertKey | None, name: str) -> None:
    session_state = st.session_state
    if alert_key is None:
        rule, cluster = session_state[f"{name}_rule"], session_state[f"{name}_cluster"]
        if not rule or not cluster:
            session_state[_FAILED] = "Select an alert and a cluster, then silence."
            return
        session_state.pop(_PRESELECTED, None)
        key = AlertKey(rule, "*" if cluster == _ANY else cluster, "*")
    else:
        key = AlertKey(*(glob.escape(part) for part in alert_key))
    try:
        number = alerts.silence(
            config,
            *key,
            model.SPANS[str(session_state[f"{name}_span"])],
            access.person(config),
            str(session_state[f"{name}_reason"] or ""),
        )
    except OpsError as error:
        session_state[_FAILED] = f"{error.message} {error.hint}".strip()
    else:
        session_state[_DONE] = f"Silence {number} is active."


def _end(config: Config, number: int) -> None:
    try:
        alerts.end_silence(config, number, access.person(config))
    except OpsError as error:
        st.session_state[_FAILED] = f"{error.message} {error.hint}".strip()


def _test_form(config: Config) -> None:
    with st.form("_test_target", border=False):
        names = [target.name for target in config.alerts.targets]
        st.selectbox("Target", names, key="_test_name")
        st.form_submit_button("Send", type="primary", on_click=_test, args=(config,))


def _test(config: Config) -> None:
    name = str(st.session_state["_test_name"])
    try:
        alerts.send_test(config, name, access.person(config))
    except OpsError as error:
        st.session_state[_FAILED] = f"{error.message} {error.hint}".strip()
    else:
        st.session_state[_DONE] = f"Test sent to {name}."
