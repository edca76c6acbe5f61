"""The candidates side by side; what takes long is computed in the background."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final

import streamlit as st

from core.pegasus.balance.rounds import BalanceRound
from core.pegasus.even.planner import EvenPlan
from core.pegasus.levels import FunctionLevel
from core.pegasus.plan.build import RequestedMove
from core.plan.options import CopyRate
from dashboard import state
from dashboard.app_pages.pegasus.balance import model
from dashboard.app_pages.pegasus.balance.switches import (
    APP,
    CANDIDATES,
    CLUSTER,
    EVEN,
    HAND,
    POLICIES,
    BalanceSettings,
)
from dashboard.components import tables, words
from dashboard.queries.pegasus import balance as queries
from dashboard.services import config_option

if TYPE_CHECKING:
    from dashboard.components.pegasus.page import PegasusPage

_LOOK_EVERY_S: Final = 1.0
_TABLE: Final = "candidates"


@dataclass(frozen=True, kw_only=True)
class CandidateComparison:
    """The compared candidates, as far as they are computed.

    Attributes:
        page: The page.
        basis: Its snapshot.
        settings: The switches.
        even_run: What our own planner computes.
        rate: Of one copy.
        followed: Candidates that are followed to their end on a huge cluster; else all are.
    """

    page: PegasusPage
    basis: queries.BalanceBasis
    settings: BalanceSettings
    even_run: queries.EvenRun
    rate: CopyRate
    followed: tuple[str, ...] = ()

    def follows(self, name: str) -> bool:
        """Return whether a candidate is followed to its end."""
        return not self.is_huge or name in self.followed

    @property
    def is_huge(self) -> bool:
        """Whether the ends are computed in the background."""
        return self.basis.view.partition_count > queries.SYNC_PARTITIONS

    def first(self, name: str) -> BalanceRound:
        """Return a policy's next round; ``name``: of the candidate."""
        return queries.first_round(self.settings.candidate(self.page, POLICIES[name]))

    def run(self, name: str) -> queries.PolicyRounds | None:
        """Return a policy's rounds to the end, ``None`` while they are not known."""
        if not self.follows(name):
            return None
        candidate = self.settings.candidate(self.page, POLICIES[name])
        return (
            queries.converged_in_background(candidate)
            if self.is_huge
            else queries.converged(candidate)
        )

    def even(self) -> EvenPlan | None:
        """Return the plan of our own planner; ``None`` while it is computed."""
        return (
            queries.even_in_background(self.even_run)
            if self.is_huge
            else queries.even(self.even_run)
        )

    @property
    def is_whole(self) -> bool:
        """Whether everything is known."""
        return self.even() is not None and all(self.run(name) is not None for name in POLICIES)


def lines_of(compared: CandidateComparison) -> list[model.CandidateRow]:
    """Return one row a candidate, as far as it is known; the first is doing nothing."""
    lines = _rows(compared)
    best = model.recommended(lines, compared.page.facts.target_ratio)
    lines = [
        replace(one, mark=", ".join(filter(None, ("recommended", one.mark))))
        if one.name == best
        else one
        for one in lines
    ]
    return [*lines, model.CandidateRow(name=HAND, note="one partition")]


def _rows(compared: CandidateComparison) -> list[model.CandidateRow]:
    """Return the rows that are compared: doing nothing, the policies, the planner."""
    measure = compared.even_run.measure
    effective = compared.settings.here.policy
    level = compared.page.facts.effective_level
    is_off = level is not None and level is not FunctionLevel.LIVELY
    own_mark = "configured, off" if is_off else "● active"
    lines = [model.as_it_is(compared.basis, measure)]
    for name, policy in POLICIES.items():
        line = model.CandidateRow(
            name=name,
            mark=own_mark if policy == effective else "",
            next_changes=len(compared.first(name).plans),
            note="computing" if compared.follows(name) else "select",
        )
        lines.append(
            model.policy_row(
                line, compared.basis, compared.run(name), measure=measure, rate=compared.rate
            )
        )
    lines.append(
        model.even_row(
            model.CandidateRow(name=EVEN),
            compared.basis,
            compared.even(),
            measure=measure,
            rate=compared.rate,
        )
    )
    return lines


def best_of(compared: CandidateComparison) -> str:
    """Return the recommended candidate, else the effective policy."""
    best = model.recommended(_rows(compared), compared.page.facts.target_ratio)
    return best or (CLUSTER if compared.settings.here.policy == "cluster" else APP)


def effect_of(compared: CandidateComparison, name: str) -> model.CandidateEffect:
    """Return the effect of a candidate on the max deviation, and the data that it copies."""
    rows = {row.name: row for row in _rows(compared)}
    return model.CandidateEffect(
        measure=compared.even_run.measure,
        before=rows[model.NO_CHANGE].off,
        after=rows[name].off,
        copied_mb=rows[name].copy_mb,
    )


def picked(default: str) -> str:
    """Return the chosen candidate: of the session, of the address, or the default."""
    is_chosen = state.PICK in st.query_params  # it stays when another one becomes the default
    state.begin_choice(state.PICK, CANDIDATES, default)
    name = str(st.session_state[state.PICK])
    state.end_choice(state.PICK, name, default="" if is_chosen else default)
    return name


def draw_table(
    lines: Sequence[model.CandidateRow], measure: str, target_ratio: float, pick: str
) -> None:
    """Draw one compact row a candidate; selecting a row chooses it."""
    rows = model.rows_frame(lines)
    rows["bar"] = tables.deviation_bars([line.off for line in lines], target_ratio)
    names = [line.name for line in lines]
    in_units, columns = tables.sized(
        rows,
        {
            "candidate": tables.words("Candidate", width_px=96),
            "mark": st.column_config.TextColumn(
                "Status",
                width=98,
                help=f"Recommended: {measure} within the target with the least data copied.",
            ),
            "bar": tables.deviation(
                "Max deviation",
                f"{measure.capitalize()} of any node vs. mean, at convergence.",
            ),
            "off": tables.signed_percent(
                "After", "Max deviation from the mean at convergence.", width_px=58
            ),
            "changes": tables.whole(
                "Total changes", "Simulated, all rounds to convergence.", width_px=97
            ),
            "copies": tables.whole(
                "Copies", "Copied replicas; role changes copy no data.", width_px=56
            ),
            "copy_mb": tables.copied(),
            "rounds": tables.whole("Rounds", width_px=57),
        },
    )
    st.session_state[_TABLE] = {"selection": {"rows": [names.index(pick)], "columns": []}}
    tables.grid(
        in_units,
        hide_index=True,
        column_order=list(columns),
        column_config=columns,
        key=_TABLE,
        alt="Candidates with deviation, changes, copies and rounds",
        height=tables.height_of(len(rows)),
        row_height=tables.ROW_PX,
        placeholder="",
        on_select=partial(_choose_row, names),
        selection_mode="single-row-required",
    )


def _choose_row(names: Sequence[str]) -> None:
    rows = st.session_state[_TABLE]["selection"]["rows"]
    if rows and names[rows[0]] in CANDIDATES:  # doing nothing is none
        st.session_state[state.PICK] = st.query_params[state.PICK] = names[rows[0]]


def draw_compared(lines: Sequence[model.CandidateRow]) -> None:
    """Draw further figures of the candidates."""
    tables.table(
        model.rows_frame(lines),
        {
            "candidate": tables.words("Candidate"),
            "note": tables.words("Result"),
            "next": tables.whole("Next round", "Changes in the next round."),
            "least": tables.words("Lower bound", "Min changes to reach the target."),
            "takes": tables.words(
                "Copy time", "Range: all nodes in parallel to one copy at a time."
            ),
            "primary_stddev": st.column_config.NumberColumn("Std. dev., primaries", format="%.2f"),
            "replica_stddev": st.column_config.NumberColumn("Std. dev., replicas", format="%.2f"),
        },
        key="compared",
        alt="Candidates compared by result, next round, lower bound, copy time and standard "
        "deviation",
        missing="",
    )


def draw_progress(compared: CandidateComparison) -> None:
    """Render the computations in progress; rerun the page when they are done."""
    if compared.is_huge and not compared.is_whole:
        st.fragment(partial(_look, compared), run_every=state.ticking(_LOOK_EVERY_S))()


def _look(compared: CandidateComparison) -> None:
    if compared.is_whole:
        st.rerun()
    partitions = compared.basis.view.partition_count
    is_slow = CLUSTER in compared.followed
    st.caption(
        f":material/progress_activity: Simulating {partitions:,} partitions to convergence in "
        f"the background ({'up to a minute' if is_slow else 'a few seconds'})."
    )


def draw_remarks(compared: CandidateComparison, name: str) -> None:
    """Render the remarks about a policy: its relevant quirks and the effect of its switches."""
    first, run = compared.first(name), compared.run(name)
    plans = run.plans if run is not None else first.plans
    options = replace(compared.settings.options, policy=POLICIES[name])
    remarks = model.quirks(options, first.before, run, plans)
    free = model.without_switches(options)
    if name == APP and free != options:
        candidate = replace(compared.settings.candidate(compared.page, "app"), options=free)
        more = len(queries.first_round(candidate).plans)
        remarks.append(
            f"Without only_move_primary, only_primary_balancer, balancer_in_turn and ignored "
            f"tables its next round has {more:,} changes instead of {len(first.plans):,}."
        )
    if name == CLUSTER and compared.settings.here.policy == "app":
        remarks.append("This policy requires `balance_cluster` = true.")
    words.notes(remarks)


def command(
    compared: CandidateComparison, pick: str, moves: Sequence[RequestedMove], *, is_held: bool
) -> str:
    """Return the line of the command line that shows, or prepares, the same."""
    page = compared.page
    if pick in POLICIES:
        options = replace(compared.settings.options, policy=POLICIES[pick])
        line = model.policy_command(page.stored.path, options, compared.settings.here)
    elif pick == EVEN or not moves:
        line = model.even_command(page.name, compared.even_run.request)
    else:
        line = model.move_command(page.name, moves[0], is_held=is_held)
    return f"{line}{config_option(page.config)}"
