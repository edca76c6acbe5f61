"""The level of a Pegasus cluster as a five-step switch, and what another one would do."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

import streamlit as st

from core.errors import IncompleteSnapshotError
from core.pegasus.even.planner import signed_deviation
from core.pegasus.levels import FunctionLevel
from core.pegasus.plan.preview import preview_pegasus
from core.pegasus.steps.level import LEVEL_KEY
from core.units import format_deviation, format_mb, pluralize
from dashboard import state
from dashboard.app_pages.pegasus.cluster import model
from dashboard.charts.nodes import round_lines
from dashboard.components import action_bar, figures, frame, tables, words
from dashboard.components.pegasus import plan as pegasus_plan
from dashboard.presenters.applying import remarks
from dashboard.presenters.pegasus.copies import expected_rate, time_words, total_cost
from dashboard.queries.pegasus import balance as queries
from dashboard.queries.pegasus.copies import measured_rate
from dashboard.queries.pegasus.plans import LevelRequest, level_plan_of

if TYPE_CHECKING:
    from core.plan.model import Plan
    from core.plan.options import CopyRate
    from dashboard.components.pegasus.page import PegasusPage

LEVEL: Final = "level"
"""Query parameter: the level that is previewed, when it is not the stored one."""

_AGAIN: Final = "_level_again"
_LOOK_EVERY_S: Final = 1.0


def level_switch(page: PegasusPage) -> FunctionLevel | None:
    """Draw the switch with the effects of every level; return the level to set, or ``None``."""
    facts = page.facts
    words.section("Meta function level")
    wanted = _choose(page)
    st.html(model.dots(facts))
    is_again = bool(st.session_state.get(_AGAIN)) and wanted is facts.stored_level
    is_set = wanted is not None and (wanted is not facts.stored_level or is_again)
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.caption(words.plain(model.level_note(facts)), width="content")
        if wanted is not None and not is_set and model.may_clear(wanted):
            st.button(
                f"Resend level {wanted.word}…",
                icon=":material/clear_all:",
                type="tertiary",
                help="Discards all pending proposals and stops the current round.",
                on_click=_ask_again,
                key="_set_again",
            )
    return wanted if is_set else None


def _ask_again() -> None:
    st.session_state[_AGAIN] = True


def _choose(page: PegasusPage) -> FunctionLevel | None:
    """Draw the five steps; return the one that is chosen, ``None`` when none is."""
    stored = page.facts.stored_level
    known = [level.word for level in FunctionLevel]
    unknown = state.unknown_in_address(LEVEL, [*known, *(one.upper() for one in known)])
    words.report_unknown("level", unknown, known)
    named = st.query_params.get(LEVEL, "").upper()
    shown = FunctionLevel[named] if named in FunctionLevel.__members__ else stored
    # another stored level: what was chosen against the former one does not count any more
    key = f"_level_at_{model.word_of(stored)}"
    chosen = st.segmented_control(
        "Level",
        list(FunctionLevel),
        format_func=lambda level: model.step_label(page.facts, level),
        default=shown,
        key=key,
        on_change=_keep_level,
        args=(key, stored),
        label_visibility="collapsed",
    )
    return FunctionLevel(chosen) if chosen is not None else None


def _keep_level(key: str, stored: FunctionLevel | None) -> None:
    chosen = st.session_state.get(key)
    st.session_state.pop(_AGAIN, None)
    if chosen is None or chosen is stored:
        st.query_params.pop(LEVEL, None)
    else:
        st.query_params[LEVEL] = FunctionLevel(chosen).word


# -- the preview --------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Rounds:
    """The rounds that the cluster's own balancer makes at lively.

    Attributes:
        basis: The snapshot.
        run: Its rounds; ``None``: they are being computed.
        rate: Of one copy.
    """

    basis: queries.BalanceBasis
    run: queries.PolicyRounds | None
    rate: CopyRate


def rounds_of(page: PegasusPage) -> Rounds | None:
    """Return the rounds at lively; ``None``: partitions were not read, so they are unknown."""
    try:
        basis = queries.basis(page.stored)
    except IncompleteSnapshotError:
        return None
    options, _ = page.facts.options()
    candidate = queries.PolicyCandidate(stored=page.stored, options=options, order="learned")
    is_huge = basis.view.partition_count > queries.SYNC_PARTITIONS
    run = queries.converged_in_background if is_huge else queries.converged
    rate = expected_rate(measured_rate(page.config, page.name), basis)
    return Rounds(basis, run(candidate), rate)


def plan_of(page: PegasusPage, function_level: FunctionLevel) -> Plan:
    """Return the plan that sets a level; behind an open dialog the one that it is about."""
    made = level_plan_of(LevelRequest(stored=page.stored, level=function_level.word))
    plan = pegasus_plan.in_dialog(made)
    return plan if all(step.subject == LEVEL_KEY for step in plan.steps) else made


def draw_preview(page: PegasusPage, function_level: FunctionLevel | None) -> None:
    """Draw the effects of the selected level; of lively while none is selected."""
    level = FunctionLevel.LIVELY if function_level is None else function_level
    words.section(f"Preview: {level.word}")
    if function_level is not None:
        pegasus_plan.draw_remarks(plan_of(page, function_level), ("error", "warning"))
    if level is FunctionLevel.LIVELY:
        _draw_lively(page)
    if function_level is not None:
        words.notes(
            [
                *model.change_sentences(page.facts, function_level),
                *remarks(plan_of(page, function_level)).get("info", ()),
            ]
        )


def _draw_lively(page: PegasusPage) -> None:
    rounds = rounds_of(page)
    if rounds is None:
        st.caption(":material/help: Rounds unknown: some partitions were not read.")
    elif rounds.run is None:
        st.fragment(partial(_wait, page), run_every=state.ticking(_LOOK_EVERY_S))()
    else:
        _draw_rounds(rounds, rounds.run)


def _wait(page: PegasusPage) -> None:
    rounds = rounds_of(page)
    if rounds is not None and rounds.run is not None:
        st.rerun()
    st.caption(":material/progress_activity: Simulating rounds in the background.")


def _draw_rounds(rounds: Rounds, run: queries.PolicyRounds) -> None:
    if not run.rounds:
        obstacles = rounds.basis.obstacles
        st.caption(words.plain(obstacles[0] if obstacles else "No changes by the balancer."))
        return
    if not run.is_converged:
        st.warning(
            f"No convergence after {len(run.rounds):,} simulated rounds.",
            icon=":material/all_inclusive:",
        )
    rows = model.rounds_frame(run, rounds.basis, rounds.rate)
    rows["bar"] = tables.deviation_bars(rows["off"], rounds.basis.target_ratio)
    rows["off"] = rows["off"] * 100
    left, right = frame.columns([0.58, 0.42], key="rounds")
    with left:
        _caption_copies(rounds, run)
        tables.table(
            rows,
            {
                "round": tables.whole("Round", width_px=56),
                "move_primary": tables.whole("Move primary", "Role changes; no data is copied."),
                "copy_primary": tables.whole("Copy primary"),
                "copy_secondary": tables.whole("Copy secondary"),
                "copied_mb": tables.copied(),
                "bar": tables.deviation(
                    "Primaries after", "Max deviation of primaries from the mean."
                ),
                "off": tables.percent(
                    "Deviation", "Max deviation of primaries, after the round.", width_px=74
                ),
                **(
                    {}
                    if rounds.rate.is_limit
                    else {"takes": st.column_config.TextColumn("Copy time", alignment="right")}
                ),
            },
            key="level_rounds",
            alt="Rounds of the balancer at lively with changes, data and deviation",
            height=min(_MOST_PX, tables.height_of(len(rows))),
        )
    with right:
        words.section("Primaries per node, by round")
        first, last = _deviations(run)
        figures.chart(
            round_lines(model.round_lines(run)),
            key="level_round_lines",
            alt=(
                f"Primaries per node by round: max deviation {format_deviation(first)} before, "
                f"{format_deviation(last)} after {pluralize(len(run.rounds), 'round')}."
            ),
        )


def _caption_copies(rounds: Rounds, run: queries.PolicyRounds) -> None:
    """Draw the rate of copies; by a mere limit the time of all rounds, as no round has its own."""
    cost = total_cost(run.costs, len(run.before.nodes))
    if not cost.copy_count:
        return
    rate = rounds.rate.describe()
    if rounds.rate.is_limit:
        rate = f"{rate}, {time_words(cost, rounds.basis, rounds.rate)} for all rounds"
    st.caption(words.plain(f"Copy rate: {rate}."))


_MOST_PX: Final = 300


def _deviations(run: queries.PolicyRounds) -> tuple[float, float]:
    """Return the max deviation of primaries before the first and after the last round."""
    ends = [view.primary_counts.sum(axis=0).astype(float) for view in (run.before, run.after)]
    return signed_deviation(ends[0]), signed_deviation(ends[1])


# -- the action bar -----------------------------------------------------------------------------


def draw_bar(page: PegasusPage, level: FunctionLevel) -> None:
    """Draw the action bar that sets the chosen level."""
    plan = plan_of(page, level)
    pegasus_plan.draw_bar(
        page,
        plan,
        preview_pegasus(page.snapshot, plan),
        key="level",
        effects=_effects(page, level),
        label=f"Set level to {level.word}…",
    )


def _effects(page: PegasusPage, level: FunctionLevel) -> list[action_bar.PlanFigure]:
    stored = model.word_of(page.facts.stored_level)
    change = action_bar.PlanFigure(
        label="Meta function level",
        value=f"{stored} → {level.word}",
        note="discards proposals" if model.may_clear(level) else "until a new leader",
    )
    rounds = rounds_of(page) if level is FunctionLevel.LIVELY else None
    if rounds is None or rounds.run is None:
        return [change]
    run = rounds.run
    cost = total_cost(run.costs, len(run.before.nodes))
    return [
        change,
        action_bar.PlanFigure(
            label="Total changes",
            value=f"{len(run.plans):,}",
            note=pluralize(len(run.rounds), "round"),
        ),
        action_bar.PlanFigure(
            label="Copies",
            value=format_mb(cost.copy_mb) if cost.copy_count else "0 B",
            note=f"{time_words(cost, rounds.basis, rounds.rate)} at "
            f"{format_mb(rounds.rate.mb_per_s)}/s"
            if cost.copy_count
            else "role changes only",
        ),
        pegasus_plan.deviation_effect(*_deviations(run)),
    ]
