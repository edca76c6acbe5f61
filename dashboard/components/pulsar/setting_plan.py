"""The plan of changed settings: what is dynamic is set, the rest is left to the brokers' files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import streamlit as st

from core.pulsar.settings import SETTING_BY_KEY
from dashboard import state
from dashboard.components import words
from dashboard.components.pulsar import moves_plan
from dashboard.components.pulsar.applying import PulsarDialog
from dashboard.presenters.pulsar.settings import wanted_words
from dashboard.queries.pulsar import explanations

if TYPE_CHECKING:
    from dashboard.components.pulsar.page import PulsarPage


def draw_plan(page: PulsarPage, changes: Mapping[str, Any]) -> None:
    """Draw the plan; what is not dynamic is named and left to the brokers' files."""
    fixed = [key for key in changes if not SETTING_BY_KEY[key].is_dynamic]
    dynamic = {key: value for key, value in changes.items() if key not in fixed}
    if fixed:
        st.info(
            words.plain(
                f"Not dynamic, so for broker.conf and a restart: {', '.join(fixed)}. "
                "The plan leaves them out."
            ),
            icon=":material/block:",
        )
    if not dynamic:
        return
    request = explanations.SettingRequest(stored=page.stored, wanted=wanted_words(dynamic))
    plan, preview = explanations.setting_preview(request)
    dialog = state.open_dialog()
    # behind an open dialog stands what it is about
    if isinstance(dialog, PulsarDialog):
        plan, preview = dialog.plan, dialog.preview
    words.section("The plan", "Each is checked, set, and read back from every broker.")
    words.notes([other.sentence for other in preview.others])
    moves_plan.draw_remarks(plan)
    if not preview.others:
        return
    moves_plan.draw_apply(page, plan, preview)
    with st.expander("The brokers' own lines", icon=":material/terminal:"):
        st.code("\n".join(other.command for other in preview.others), language="bash")
