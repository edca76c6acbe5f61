"""Unload preview, and undo: who would take these bundles, what changes, and who notices."""

from __future__ import annotations

import streamlit as st

from core.plan.preview import Preview
from core.plan.steps import SetPolicy
from core.plan.words import describe
from dashboard import state
from dashboard.charts.bars import before_after_bars
from dashboard.cli_config import words_of
from dashboard.components import figures, frame, policy_changes, tables, words
from dashboard.components.applying import Ask, draw_choices, in_dialog
from dashboard.components.asked_plan import picked_plan, undo_of
from dashboard.components.placement import placement_panel
from dashboard.presenters import unload as presenter
from dashboard.presenters.settings import is_shedding

ICONS = {"error": ":material/error:", "warning": ":material/warning:", "info": ":material/info:"}


def draw_moves(preview: Preview) -> None:
    """Draw what the unloads change, and each of them."""
    words.section("Before and after", "Grey: now. Diamond: expected after; the bar its range.")
    quantity = st.segmented_control(
        "Quantity",
        list(presenter.QUANTITIES),
        default="traffic",
        required=True,
        key="quantity",
        bind="query-params",
        label_visibility="collapsed",
    )
    figures.chart(
        before_after_bars(presenter.before_after(preview.before_after, quantity or "traffic")),
        key="unload_before_after",
        alt=f"{quantity} of the brokers before and after the unload",
    )

    words.section("Steps", f"Clients affected: {preview.clients.sentence()}")
    rows = presenter.steps_table(preview)
    tables.table(
        rows,
        {
            "from": tables.words("From"),
            "to": tables.words("To", "Most probable destination and its probability."),
            "bundle": tables.opener("Bundle", "_step_bundle", frame.bundle_link, is_pinned=False),
            "clients": tables.whole("Clients"),
            "traffic": tables.megabytes("Traffic"),
            "topics": tables.whole("Topics"),
        },
        key="unload_steps",
        alt="Steps of the plan",
    )
    with st.container(horizontal=True, gap="small"):
        for owner in list(dict.fromkeys(step.step.owner for step in preview.steps))[:3]:
            st.button(
                words.plain(f"Open {owner}"),
                icon=":material/dns:",
                type="tertiary",
                key=f"_owner_{owner}",
                on_click=frame.broker_link,
                args=(owner,),
            )


def draw_takers(preview: Preview) -> None:
    """Draw who gets a bundle, and why nobody else does."""
    words.section("Who gets it, and why nobody else")
    names = [step.step.bundle for step in preview.steps]
    chosen = names[0]
    if len(names) > 1:
        chosen = st.selectbox("Step", names, key=state.STEP, bind="query-params") or names[0]
    step = preview.steps[names.index(chosen)]
    placement_panel(step.placement, key="unload")


undo = state.text(state.UNDO)
page = frame.open_page("Undo" if undo else "Unload preview")
reading = page.reading
if reading.movable.num_rows == 0:
    words.nothing("No bundle is in this snapshot", reading.snapshot.manifest)
    st.stop()
made = undo_of(page, undo) if undo else picked_plan(page)
if made is None:
    st.stop()
plan, preview = in_dialog() or made
words.answer(presenter.answer(plan, preview))
for severity, sentences in presenter.remarks(plan).items():
    show = {"error": st.error, "warning": st.warning, "info": st.info}[severity]
    mark = "- " if len(sentences) > 1 else ""
    show("\n".join(mark + words.plain(one) for one in sentences), icon=ICONS[severity])
if not plan.steps:
    st.stop()

if preview.steps:
    draw_moves(preview)
if preview.others:
    words.section("Changes", "Each is checked before it is sent, and read back afterwards.")
    policy_changes.draw_difference(plan, key="undo_difference")
    others = [one.step for one in preview.others if not isinstance(one.step, SetPolicy)]
    words.notes([f"{describe(step)}." for step in others])
words.notes(preview.notes)

plan_file = draw_choices(
    Ask(
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
    draw_takers(preview)

words.section(
    "Do it by hand",
    "The first line applies the downloaded plan and keeps a journal; the rest do not.",
)
line = f'trimtab apply {plan_file} --cluster {page.name} --reason "..."{words_of(page.config)}'
st.code(line, language="bash")
moves = [(one.command, one.rest) for one in preview.steps]
changes = [(one.command, one.rest) for one in preview.others]
is_change_first = isinstance(plan.steps[0], SetPolicy)  # as an undo of policies and unloads
by_hand = [*changes, *moves] if is_change_first else [*moves, *changes]
st.code("\n".join(command for command, _ in by_hand), language="bash")
st.code("\n".join(rest for _, rest in by_hand), language="bash")
