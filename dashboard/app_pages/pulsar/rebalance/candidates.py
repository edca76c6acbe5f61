"""The candidates of the Rebalance page side by side; rounds are simulated in the background."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Final

import streamlit as st

from core.errors import UnknownNameError
from core.optimize import Proposal
from core.pulsar.placement.pair import unpaired_outcome
from core.pulsar.shedding import active_shedding_strategy, strategies_run_by
from core.simulation import Simulation
from core.snapshot.store import CachedSnapshot
from core.units import pluralize
from dashboard import state
from dashboard.app_pages.pulsar.rebalance import queries
from dashboard.app_pages.pulsar.rebalance.fleets import REAL, Fleet
from dashboard.app_pages.pulsar.rebalance.strategy_settings import settings_words
from dashboard.charts.efficiency import efficiency_lines
from dashboard.components import figures, tables, words
from dashboard.presenters.naming import clock
from dashboard.presenters.pulsar import leader_round
from dashboard.presenters.pulsar import rebalance as presenter
from dashboard.presenters.pulsar.sliders import sliders

if TYPE_CHECKING:
    from dashboard.components.pulsar.page import PulsarPage

_LOOK_EVERY_S: Final = 1.0
_RENEWED_AFTER: Final = timedelta(seconds=60)
_GIVEN_UP_AFTER: Final = timedelta(minutes=10)
_DONE: Final = "_rounds_done"
_STORED: Final = "_stored_rounds"
_ORIGIN: Final = "_rounds_ground"
_MAX_STORED: Final = 24


@dataclass(frozen=True, kw_only=True)
class Choice:
    """What is compared.

    Attributes:
        page: The page.
        names: Strategies that the cluster's load manager knows.
        effective: The one that it goes by; empty: none that is known here.
        chosen: The chosen strategy with what is assumed for it; ``None``: the planner is chosen.
        optimal: What the planner proposes; ``None``: not computed.
        is_simulated: Whether the rounds are simulated.
        origin: On which snapshot they are.
        fleet: What of the fleet is supposed to be otherwise.
    """

    page: PulsarPage
    names: tuple[str, ...]
    effective: str
    chosen: queries.Candidate | None
    optimal: Proposal | None
    is_simulated: bool
    origin: CachedSnapshot
    fleet: Fleet = REAL

    @property
    def candidates(self) -> list[queries.Candidate]:
        """Every strategy with the cluster's settings, then the one with what is assumed."""
        plain = [
            queries.Candidate(stored=self.page.stored, strategy=name, fleet=self.fleet)
            for name in self.names
        ]
        extra = self.chosen is not None and (self.chosen.assumed or self.chosen.pinned)
        return [*plain, self.chosen] if self.chosen is not None and extra else plain


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
            words.plain(f"{error.message} What this cluster itself would do is not known."),
            icon=":material/help:",
        )
        return ""


def simulation_switch(page: PulsarPage) -> bool:
    """Draw the switch whether rounds are simulated to convergence."""
    count = page.reading.view.bundles.size
    return st.toggle(
        "Simulate to convergence",
        value=count <= queries.PLAY_BUNDLES,
        key=state.PLAY,
        bind="query-params",
        help=f"Shed, unload, place, report, up to {queries.ROUNDS} rounds of every strategy. "
        f"Seconds on a fleet like this; with more than {pluralize(queries.PLAY_BUNDLES, 'bundle')} "
        "minutes, so there it is off by default.",
    )


def lines_of(choice: Choice) -> list[presenter.Line]:
    """Return what every strategy does."""
    lines = []
    for candidate in choice.candidates:
        done = queries.decided(candidate)
        is_extra = bool(candidate.assumed or candidate.pinned)
        is_own = candidate.strategy == choice.effective
        lines.append(
            presenter.Line(
                name=candidate.strategy,
                mark=presenter.WHAT_IF if is_extra else presenter.IN_FORCE if is_own else "",
                settings=_settings_of(choice, candidate),
                first=done.first,
                acting=done.number,
                impact=done.impact,
                placement=candidate.placement,
                warning=unpaired_outcome(candidate.settings())
                if candidate.unpaired_avg_shedder
                else "",
                simulated=_simulated(choice, candidate),
            )
        )
    return lines


def _simulated(choice: Choice, candidate: queries.Candidate) -> Simulation | str | None:
    """Return a strategy's rounds; while newer ones are simulated, those of the snapshot before."""
    if not choice.is_simulated:
        return None
    stored: dict[object, Simulation | str] = st.session_state.setdefault(_STORED, {})
    own = replace(candidate, stored=choice.origin)
    found = queries.simulated(own)
    key = (choice.page.name, own.strategy, own.assumed, own.pinned, own.fleet)
    if found is None:
        return stored.get(key)
    stored.pop(key, None)
    stored[key] = found
    while len(stored) > _MAX_STORED:
        stored.pop(next(iter(stored)))
    return found


def played_on(page: PulsarPage) -> CachedSnapshot:
    """Return the snapshot on which rounds are simulated: renewed once a minute, not every time.

    A simulation may take longer than the time between two snapshots: what was begun is finished.
    """
    stored: dict[str, CachedSnapshot] = st.session_state.setdefault(_ORIGIN, {})
    origin = stored.get(page.name)
    if origin is not None and not page.is_past:
        age = page.stored.taken_at - origin.taken_at
        is_done = st.session_state.get(_DONE) == origin.snapshot_id
        if timedelta(0) <= age < (_RENEWED_AFTER if is_done else _GIVEN_UP_AFTER):
            return origin
    stored[page.name] = page.stored
    return page.stored


def _settings_of(choice: Choice, candidate: queries.Candidate) -> str:
    if candidate.assumed:
        return settings_words(candidate.assumed)
    main = sliders(candidate.strategy)[0]
    return settings_words(((main.key, main.present(choice.page.reading.settings)),))


def draw_answer(choice: Choice, lines: list[presenter.Line]) -> None:
    """Say what the cluster would do, and what the optimal plan would."""
    own = next((line for line in lines if line.mark == presenter.IN_FORCE), None)
    settings = choice.page.reading.settings
    off = settings.shedding_off
    words.answer(presenter.answer(own, off, choice.optimal))
    taken_at = choice.page.reading.snapshot.manifest.taken_at
    st.caption(words.plain(leader_round.snapshot_note(taken_at)))


def draw_table(choice: Choice, lines: list[presenter.Line]) -> None:
    """Draw the candidates side by side; a click on one chooses it."""
    waiting = choice.is_simulated and any(line.simulated is None for line in lines)
    rows = presenter.table(
        lines, choice.optimal, queries.OPTIMIZER, is_simulating=choice.is_simulated
    )
    count = partial(st.column_config.NumberColumn, format="%,.0f")
    share = partial(st.column_config.NumberColumn, format="%.1f%%", width=62)
    columns = {
        "candidate": tables.opener("Candidate", "_candidate", choose),
        "mark": st.column_config.TextColumn(
            "Mark", width=76, help="Active on this cluster, or changed on this page."
        ),
        "now": count("Now", help="Bundles that the next round unloads.", width=46),
    }
    if choice.is_simulated:
        off = "Farthest broker from the mean traffic, above or below, share of the mean"
        columns |= {
            "one": share("1 round", help=f"{off}, after one round."),
            "converged": share(
                "Converged", help=f"{off}, at convergence: no bundle moves any more."
            ),
            "moves": count("Moves", help="In all rounds.", width=56),
            "moved": st.column_config.NumberColumn(
                "MB/s", format="%,.0f", width=56, help="Traffic moved; twice moved, twice."
            ),
            "clients": count("Clients", help="Producers and consumers that reconnect.", width=58),
            "rounds": st.column_config.TextColumn("Rounds", width=64, help="Until convergence."),
            "flaps": count(
                "Returned", help="Bundles that returned to a broker they had left.", width=68
            ),
        }
    tables.grid(
        rows,
        hide_index=True,
        column_order=[*columns, "verdict", "placement", "settings"],
        column_config=columns
        | {
            "verdict": st.column_config.TextColumn("Verdict", width=410),
            "placement": st.column_config.TextColumn(
                "Placed by", width=210, help="Who picks the broker for what is shed."
            ),
            "settings": st.column_config.TextColumn("Goes by", width=330),
        },
        key="candidates",
        alt="Ways to balance with what each moves and achieves",
        height=tables.height_of(len(rows), tables.WRAPPED_PX),
        row_height=tables.WRAPPED_PX,
        placeholder="…" if waiting else "-",
    )


def warn_of_unpaired(candidate: queries.Candidate) -> None:
    """Say what comes of AvgShedder in one of its two places, where the chosen strategy has that."""
    found = candidate.unpaired_avg_shedder
    if found is not None:
        st.warning(
            words.plain(f"{found.text} {found.hint} See another pair under Placed by."),
            icon=":material/link_off:",
        )


def draw_progress(choice: Choice) -> None:
    """Say on which snapshot rounds are simulated, and how far that is; draw again at the end."""
    if not choice.is_simulated:
        st.caption("Results appear when the rounds are simulated.")
        return
    there = _played_count(choice)
    if there == len(choice.candidates):
        st.session_state[_DONE] = choice.origin.snapshot_id
        st.caption(f"Rounds were simulated on the snapshot of {clock(choice.origin.taken_at)}.")
    else:
        look = partial(_look, choice, there)
        st.fragment(look, run_every=state.ticking(_LOOK_EVERY_S))()


def _played_count(choice: Choice) -> int:
    on_origin = [replace(one, stored=choice.origin) for one in choice.candidates]
    return sum(queries.simulated(one) is not None for one in on_origin)


def _look(choice: Choice, shown: int) -> None:
    there = _played_count(choice)
    moment = clock(choice.origin.taken_at)
    st.caption(
        f":material/hourglass_top: Simulating rounds on the snapshot of {moment}: "
        f"{there} of {len(choice.candidates)} strategies are done."
    )
    if there > shown and not state.is_busy():
        st.rerun()


def wait_for_least(run: queries.Optimization) -> None:
    """Draw the page again as soon as the smallest set of moves is there."""
    look = partial(_look_for_least, run)
    st.fragment(look, run_every=state.ticking(_LOOK_EVERY_S))()


def _look_for_least(run: queries.Optimization) -> None:
    st.caption(":material/hourglass_top: The smallest set of moves is being sought.")
    if queries.proposed_in_background(run) is not None and not state.is_busy():
        st.rerun()


def choose(name: str) -> None:
    """Choose a candidate; what was edited belongs to another one's moves."""
    st.session_state[state.PICK] = name
    forget_edits()


def forget_edits() -> None:
    """Forget what was left out and sent elsewhere."""
    for key in (state.DROP, state.RETARGET):
        state.keep_list(key, [])


def draw_ways(choice: Choice, lines: list[presenter.Line], goal_ratio: float | None) -> None:
    """Draw what each candidate achieves for what it moves."""
    found = presenter.efficiency_curves(lines, choice.optimal, queries.OPTIMIZER)
    if not found:
        st.caption("Nothing to draw: nothing moves, or the rounds are not simulated.")
        return
    figures.chart(
        efficiency_lines(found, goal_ratio=goal_ratio),
        key="rebalance_ways",
        alt="Deviation vs. traffic moved, one line per candidate",
    )
