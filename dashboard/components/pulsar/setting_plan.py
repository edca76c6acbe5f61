"""The plan of changed settings: what is dynamic is set, the rest is left to the brokers' files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import streamlit as st

from core.pulsar.settings import SETTING_BY_KEY
from dashboard.components import words
from dashboard.components.pulsar import moves_plan
from dashboard.components.pulsar.applying import in_dialog
from dashboard.presenters.pulsar.settings import wanted_words
from dashboard.queries.pulsar import explanations

if TYPE_CHECKING:
    from core.plan.model import Plan
    from core.pulsar.plan.preview import Preview
    from dashboard.components.pulsar.page import PulsarPage


def planned(page: PulsarPage, changes: Mapping[str, Any]) -> tuple[Plan, Preview] | None:
    """Return the plan of the dynamic changes, or that of an open dialog; ``None``: none is dynamic.

    Args:
        changes: By key.
    """
    dynamic = {key: value for key, value in changes.items() if SETTING_BY_KEY[key].is_dynamic}
    if not dynamic:
        return None
    request = explanations.SettingRequest(stored=page.stored, wanted=wanted_words(dynamic))
    return in_dialog() or explanations.setting_preview(request)


def draw_effects(page: PulsarPage, changes: Mapping[str, Any]) -> tuple[Plan, Preview] | None:
    """Draw the settings of the plan and the lines for the brokers' files; return the plan."""
    fixed = [key for key in changes if not SETTING_BY_KEY[key].is_dynamic]
    if fixed:
        st.info(
            words.plain(
                f"Not dynamic, require broker.conf and a restart: {', '.join(fixed)}. Not part "
                "of the plan."
            ),
            icon=":material/block:",
        )
    made = planned(page, changes)
    if made is None:
        return None
    plan, preview = made
    words.section("Plan", "Each setting is checked, set and verified on every broker.")
    words.notes([other.sentence for other in preview.others])
    moves_plan.draw_remarks(plan)
    return made if preview.others else None


def draw_plan(page: PulsarPage, changes: Mapping[str, Any]) -> None:
    """Draw the plan with its actions."""
    made = draw_effects(page, changes)
    if made is None:
        return
    moves_plan.draw_apply(page, *made)
    with st.expander("REST requests", icon=":material/terminal:"):
        st.code("\n".join(other.command for other in made[1].others), language="bash")
