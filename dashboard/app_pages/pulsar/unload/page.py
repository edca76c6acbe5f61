"""Unload preview, and undo: who would take these bundles, what changes, and who notices."""

from __future__ import annotations

import streamlit as st

from core.pulsar.steps.base import policy_change_of
from dashboard import state
from dashboard.app_pages.pulsar.unload import view
from dashboard.app_pages.pulsar.unload.form import picked_plan, undo_of
from dashboard.components import frame, words
from dashboard.components.applying import draw_choices
from dashboard.components.pulsar import policy_changes
from dashboard.components.pulsar.applying import PulsarDialog, in_dialog
from dashboard.components.pulsar.page import PulsarPage
from dashboard.presenters.applying import remarks
from dashboard.presenters.pulsar import unload as presenter
from dashboard.presenters.pulsar.settings import is_shedding
from dashboard.services import config_option

ICONS = {"error": ":material/error:", "warning": ":material/warning:", "info": ":material/info:"}


undo = state.text(state.UNDO)
page = frame.open_page("Undo" if undo else "Unload", PulsarPage)
reading = page.reading
if reading.movable.num_rows == 0:
    words.nothing("No bundle is in this snapshot", reading.snapshot.manifest)
    st.stop()
made = undo_of(page, undo) if undo else picked_plan(page)
if made is None:
    st.stop()
plan, preview = in_dialog() or made
words.answer(presenter.answer(plan, preview))
for severity, sentences in remarks(plan).items():
    show = {"error": st.error, "warning": st.warning, "info": st.info}[severity]
    mark = "- " if len(sentences) > 1 else ""
    show("\n".join(mark + words.plain(one) for one in sentences), icon=ICONS[severity])
if not plan.steps:
    st.stop()

if preview.steps:
    view.draw_moves(preview)
if preview.others:
    words.section("Changes", "Each is checked before it is sent, and read back afterwards.")
    policy_changes.draw_difference(plan, key="undo_difference")
    others = [one.step for one in preview.others if policy_change_of(one.step) is None]
    words.notes([f"{step.describe()}." for step in others])
words.notes(preview.notes)

plan_file = draw_choices(
    PulsarDialog(
        config=page.config,
        cluster=page.cluster,
        plan=plan,
        preview=preview,
        is_past=page.is_past,
        is_shedding=is_shedding(reading.settings),
    ),
    page.now,
)

if preview.steps:
    view.draw_takers(preview)

words.section(
    "Do it by hand",
    "The first line applies the downloaded plan and keeps a journal; the rest do not.",
)
line = f'trimtab apply {plan_file} --cluster {page.name} --reason "..."{config_option(page.config)}'
st.code(line, language="bash")
moves = [(one.command, one.rest) for one in preview.steps]
changes = [(one.command, one.rest) for one in preview.others]
is_change_first = policy_change_of(plan.steps[0]) is not None  # as an undo of policies and unloads
by_hand = [*changes, *moves] if is_change_first else [*moves, *changes]
st.code("\n".join(command for command, _ in by_hand), language="bash")
st.code("\n".join(rest for _, rest in by_hand), language="bash")
