"""The candidates of the Rebalance page: one row each; rounds are simulated in the background."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

import streamlit as st

from core.errors import UnknownNameError
from core.optimize import Proposal
from core.pulsar.placement.pair import unpaired_outcome
from core.pulsar.shedding import active_shedding_strategy, strategies_run_by
from dashboard import state
from dashboard.app_pages.pulsar.rebalance import queries, strategy_settings
from dashboard.app_pages.pulsar.rebalance.fleets import REAL, FleetChange
from dashboard.components import tables, words
from dashboard.components.waiting import until
from dashboard.presenters.pulsar import rebalance as presenter
from dashboard.presenters.pulsar.sliders import sliders

if TYPE_CHECKING:
    from dashboard.components.pulsar.page import PulsarPage

_LOOK_EVERY_S: Final = 1.0
BAND_HELP: Final = "All brokers are within ± this of the mean traffic, at convergence."
"""Unlike the max deviation, which is of the busiest broker, it counts idle brokers too."""
_TABLE: Final = "candidates"

DECIDING: Final = "Computing the next round of each strategy."


@dataclass(frozen=True, kw_only=True)
class CandidateChoice:
    """The compared candidates.

    Attributes:
        page: The page, on its frozen snapshot.
        names: Strategies that the cluster's load manager knows.
        effective: The one that it goes by; empty: none that is known here.
        chosen: The chosen strategy with what is assumed for it; ``None``: the planner is chosen.
        optimal: What the planner proposes; ``None``: not computed.
        is_simulated: Whether the rounds are simulated.
        fleet: What of the fleet is supposed to be otherwise.
    """

    page: PulsarPage
    names: tuple[str, ...]
    effective: str
    chosen: queries.StrategyCandidate | None
    optimal: Proposal | None
    is_simulated: bool
    fleet: FleetChange = REAL

    @property
    def candidates(self) -> list[queries.StrategyCandidate]:
        """Every strategy with the cluster's settings, then the one with assumed settings."""
        plain = [
            queries.StrategyCandidate(stored=self.page.stored, strategy=name, fleet=self.fleet)
            for name in self.names
        ]
        extra = self.chosen is not None and (self.chosen.assumed or self.chosen.pinned)
        return [*plain, self.chosen] if self.chosen is not None and extra else plain

    @property
    def chosen_row(self) -> int:
        """Number of the chosen candidate's row; the optimal plan has the first."""
        if self.chosen is None:
            return 0
        return max(
            at for at, one in enumerate(self.candidates, 1) if one.strategy == self.chosen.strategy
        )


def known_strategies(page: PulsarPage) -> tuple[str, ...]:
    """Return the strategies that the cluster's load manager can run."""
    manager = page.reading.snapshot.manifest.load_manager
    return tuple(strategy.name for strategy in strategies_run_by(manager))


def strategy_in_force(page: PulsarPage) -> str:
    """Return the strategy in force; warn and return nothing when it is none that is known."""
    try:
        manager = page.reading.snapshot.manifest.load_manager
        return active_shedding_strategy(manager, page.reading.settings).name
    except UnknownNameError as error:
        st.warning(
            words.plain(f"{error.message} Next round unknown."),
            icon=":material/help:",
        )
        return ""


def picked(names: tuple[str, ...]) -> str:
    """Return the chosen candidate: of the session, or of the address."""
    state.begin_choice(state.PICK, (queries.OPTIMIZER, *names), queries.OPTIMIZER)
    name = str(st.session_state[state.PICK])
    state.end_choice(state.PICK, name, default=queries.OPTIMIZER)
    return name


def lines_of(choice: CandidateChoice) -> list[presenter.StrategyRow]:
    """Return the result of every strategy, one row each."""
    lines = []
    is_off = bool(choice.page.reading.settings.shedding_off)
    own_mark = presenter.SWITCHED_OFF if is_off else presenter.IN_FORCE
    for candidate in choice.candidates:
        decision = queries.decision(candidate)
        done = decision if isinstance(decision, queries.StrategyDecision) else None
        is_extra = bool(candidate.assumed or candidate.pinned)
        is_own = candidate.strategy == choice.effective
        lines.append(
            presenter.StrategyRow(
                name=candidate.strategy,
                mark=presenter.WHAT_IF if is_extra else own_mark if is_own else "",
                settings=_settings_of(choice, candidate),
                first=done.first if done else None,
                acting=done.number if done else 0,
                impact=done.impact if done else None,
                failure=decision if isinstance(decision, str) else "",
                placement=candidate.placement,
                warning=unpaired_outcome(candidate.settings())
                if candidate.unpaired_avg_shedder
                else "",
                simulated=queries.simulated_rounds(candidate) if choice.is_simulated else None,
            )
        )
    return lines


def _settings_of(choice: CandidateChoice, candidate: queries.StrategyCandidate) -> str:
    if candidate.assumed:
        return strategy_settings.settings_words(candidate.assumed)
    main = sliders(candidate.strategy)[0]
    return strategy_settings.settings_words(
        ((main.key, main.present(choice.page.reading.settings)),)
    )


def draw_table(
    choice: CandidateChoice, lines: list[presenter.StrategyRow], target_ratio: float
) -> None:
    """Draw the candidates, one row each; selecting a row chooses it."""
    rows = presenter.table(lines, choice.optimal, queries.OPTIMIZER)
    now = choice.page.reading.measures.throughput.band_ratio
    rows["bar"] = tables.deviation_bars(
        rows["after"].astype(float) / 100, target_ratio, end_ratio=now
    )
    waiting = any(
        line.is_pending or (choice.is_simulated and line.simulated is None) for line in lines
    )
    columns = {
        "candidate": tables.words("Strategy", width_px=146),
        "mark": st.column_config.TextColumn(
            "Status", width=100, help="Configured on the cluster or adjusted on this page."
        ),
        "bar": tables.deviation("Deviation band", BAND_HELP),
        "after": tables.whole("After (±%)", BAND_HELP),
        "moves": tables.whole("Moves", "Moves in all rounds."),
        "moved": tables.whole("MB/s", "Moved traffic; repeated moves count each time."),
        "clients": tables.whole("Clients", "Producers and consumers that reconnect."),
        "rounds": st.column_config.TextColumn(
            "Rounds", help="Rounds to convergence; +: not converged after so many.", width=58
        ),
    }
    for name, width in (("after", 66), ("moves", 54), ("moved", 50), ("clients", 58)):
        columns[name]["width"] = width
    st.session_state[_TABLE] = {"selection": {"rows": [choice.chosen_row], "columns": []}}
    tables.grid(
        rows,
        hide_index=True,
        column_order=list(columns),
        column_config=columns,
        key=_TABLE,
        alt="Candidates with moves and effect",
        height=tables.height_of(len(rows)),
        row_height=tables.ROW_PX,
        placeholder="…" if waiting else "-",
        on_select=partial(_choose_row, choice, rows["candidate"].tolist(), rows["mark"].tolist()),
        selection_mode="single-row-required",
    )


def _choose_row(choice: CandidateChoice, names: list[str], marks: list[str]) -> None:
    rows = st.session_state[_TABLE]["selection"]["rows"]
    if not rows or rows[0] >= len(names):
        return
    name = names[rows[0]]
    if presenter.WHAT_IF in marks and marks[rows[0]] != presenter.WHAT_IF:
        strategy_settings.reset(name, choice.page.reading.settings)
        state.keep_list(state.PIN, [])
        choose(name)
    elif name != st.session_state[state.PICK]:  # also called when the table appears
        choose(name)


def choose(name: str) -> None:
    """Select a candidate; edits belong to another one's moves and are dropped."""
    st.session_state[state.PICK] = name
    forget_edits()


def forget_edits() -> None:
    """Forget the excluded and redirected moves."""
    for key in (state.DROP, state.RETARGET):
        state.keep_list(key, [])


def warn_of_unpaired(candidate: queries.StrategyCandidate) -> None:
    """Warn of an AvgShedder that is set as shedding or placement strategy only."""
    conflict = candidate.unpaired_avg_shedder
    if conflict is not None:
        st.warning(
            words.plain(f"{conflict.text} {conflict.hint} Select another placement strategy."),
            icon=":material/link_off:",
        )


def wait_for_decisions(choice: CandidateChoice, lines: list[presenter.StrategyRow]) -> None:
    """Name the strategies that failed; draw the page again when the others have decided."""
    for line in lines:
        if line.failure:
            st.warning(words.plain(line.failure), icon=":material/error:")
    if any(line.is_pending for line in lines):
        until(
            lambda: all(queries.decision(candidate) is not None for candidate in choice.candidates),
            DECIDING,
        )


def wait_for_rounds(choice: CandidateChoice, lines: list[presenter.StrategyRow]) -> None:
    """Draw the page again as rounds are simulated, until all are."""
    done = sum(line.simulated is not None for line in lines)
    if choice.is_simulated and done < len(lines):
        look = partial(_look, choice, done)
        st.fragment(look, run_every=state.ticking(_LOOK_EVERY_S))()


def _look(choice: CandidateChoice, shown: int) -> None:
    done = sum(queries.simulated_rounds(candidate) is not None for candidate in choice.candidates)
    st.caption(f":material/hourglass_top: Simulating: {done} of {len(choice.candidates)} done.")
    if done > shown and not state.is_busy():
        st.rerun()
