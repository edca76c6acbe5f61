"""From a back-test to a plan: the settings to change as a diff, previewed and applied here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pandas as pd
import streamlit as st

from core.errors import InputError, OpsError, UnknownNameError
from dashboard import state
from dashboard.components import pegasus_plan, settings, words
from dashboard.planning_pegasus_settings import ServerSettingRequest, server_setting_plan_of
from dashboard.presenters import backtest as presenter
from dashboard.presenters.settings import typed

if TYPE_CHECKING:
    from dashboard.components.backtest import Shown
    from dashboard.components.frame import FleetContext, PageContext, PegasusPage

PLAN: Final = "plan"
_LEVEL: Final = "level"


def draw(page: FleetContext, view: Shown) -> None:
    """Draw what to change on the cluster, and the plan of it."""
    name = view.one_cluster
    changes = view.found.changes(name)
    words.section("What to change", f"On {name}, to have the best candidate.")
    if changes.empty:
        st.caption(
            ":material/check_circle: Nothing: no candidate is better than the recorded settings, "
            "played again."
        )
        return
    st.caption(words.plain(str(changes["candidate"].iloc[0])))
    st.code(presenter.diff_text(changes), language="diff", wrap_lines=True)
    words.notes(presenter.change_notes(changes))
    if name != page.choice.cluster.name:
        st.button(
            f"Look at {words.plain(name)} to plan this",
            icon=":material/open_in_new:",
            on_click=_choose,
            args=(name,),
        )
        return
    if not presenter.wanted(changes):
        return  # the notes say what needs a restart
    is_planned = st.toggle(
        "Make the plan",
        key=PLAN,
        bind="query-params",
        help="The plan is previewed below; nothing is set until it is applied.",
    )
    if not is_planned:
        return
    if page.pulsar is not None:
        _pulsar(page.pulsar, changes)
    elif page.pegasus is not None:
        _pegasus(page.pegasus, changes)
    else:
        st.info(
            f"A plan is made on a snapshot, and there is none of {words.plain(name)} yet.",
            icon=":material/info:",
        )


def _choose(cluster: str) -> None:
    st.session_state[state.CLUSTER] = cluster


def _pulsar(page: PageContext, changes: pd.DataFrame) -> None:
    with st.container(border=True):
        st.button(
            "See what they would do at once, under Settings",
            icon=":material/settings:",
            type="tertiary",
            on_click=_open_settings,
            args=(page.name, presenter.set_options(changes)),
        )
        try:
            settings.draw_plan(page, typed(presenter.wanted(changes)))
        except OpsError as error:
            words.failed(error, what="These changes cannot be planned")


def _open_settings(cluster: str, options: list[str]) -> None:
    state.go("settings", cluster=cluster, set=options)


def _pegasus(page: PegasusPage, changes: pd.DataFrame) -> None:
    """Draw the plan of one switch: each is set by a plan of its own."""
    wanted = presenter.wanted(changes)
    keys = list(wanted)
    key = str(st.selectbox("One switch a plan", keys, key="_planned_switch") or keys[0])
    if key == _LEVEL:
        st.caption("The level is a switch of its own, on the Cluster page.")
        st.button("Open the Cluster page", on_click=state.go, args=("pegasus",))
        return
    request = ServerSettingRequest(
        shelved=page.shelved, key=key, value=presenter.upstream_text(wanted[key])
    )
    try:
        made = server_setting_plan_of(request)
    except (InputError, UnknownNameError) as error:
        words.failed(error, what="This value cannot be set")
        return
    with st.container(border=True):
        pegasus_plan.draw_plan(page, pegasus_plan.in_dialog(made))
