"""The selected candidate of the Rebalance page: its moves as a plan to edit and to apply."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

import streamlit as st

from core.findings.measures import Spread
from core.optimize import LoadMeasure, Proposal
from core.plan.model import Plan
from core.pulsar.plan.preview import Preview
from core.units import pluralize
from dashboard import state
from dashboard.app_pages.pulsar.rebalance import queries
from dashboard.app_pages.pulsar.rebalance.candidates import forget_edits
from dashboard.app_pages.pulsar.rebalance.fleets import FleetChange, origin
from dashboard.components import action_bar, applying, frame, tables, words
from dashboard.components.pulsar import moves_plan
from dashboard.components.pulsar.applying import PulsarDialog
from dashboard.legible import option
from dashboard.presenters.pulsar import rebalance_plan
from dashboard.presenters.pulsar import unload as presenter

if TYPE_CHECKING:
    from dashboard.components.pulsar.page import PulsarPage

Moves = tuple[tuple[str, str | None], ...]


@dataclass(frozen=True, kw_only=True)
class Selection:
    """Moves of the selected candidate.

    Attributes:
        name: Of the candidate.
        moves: All of its moves, in the order in which they are made.
        reason: Stored with the plan.
        nothing: What is said when there is no plan.
        round: In which round it moves them; 0: it does not go by rounds, or moves nothing.
        is_known: False while the moves are being computed, and where that failed.
    """

    name: str
    moves: Moves
    reason: str
    nothing: str
    round: int = 0
    is_known: bool = True

    @classmethod
    def of_strategy(cls, candidate: queries.StrategyCandidate) -> Selection:
        """The first round of a strategy that moves something."""
        done = queries.decision(candidate)
        if not isinstance(done, queries.StrategyDecision):
            return cls.without_moves(candidate.strategy, is_pending=done is None)
        acting = done.acting or done.first
        return cls(
            name=candidate.strategy,
            moves=queries.moves_of(done.acting) if done.acting else (),
            reason=f"{candidate.strategy}: {acting.decision.sentence}",
            nothing=done.first.decision.sentence,
            round=done.number,
        )

    @classmethod
    def of_optimal(cls, optimal: Proposal | str | None) -> Selection:
        """The optimal plan, its error, or ``None`` while it is computed."""
        name = queries.OPTIMIZER
        if not isinstance(optimal, Proposal):
            return cls.without_moves(name, is_pending=optimal is None)
        return cls(
            name=name,
            moves=tuple(optimal.destinations.items()),
            reason=f"{name}: {optimal.goal}",
            nothing=optimal.sentence,
        )

    @classmethod
    def without_moves(cls, name: str, *, is_pending: bool) -> Selection:
        """A candidate whose moves are being computed, or could not be."""
        nothing = "Computing the moves." if is_pending else "No plan."
        return cls(name=name, moves=(), reason="", nothing=nothing, is_known=False)


@dataclass(frozen=True, kw_only=True)
class SelectedPlan:
    """A candidate with the plan that is shown for it.

    Attributes:
        selection: The candidate.
        made: Plan and preview; ``None``: there is none.
        nothing: Why there is none.
        limit: Most moves of one plan.
        awaited: The plan that is being computed.
    """

    selection: Selection
    made: tuple[Plan, Preview] | None
    nothing: str
    limit: int
    awaited: queries.PlanRequest | None = None


def planned(page: PulsarPage, selection: Selection, fleet: FleetChange) -> SelectedPlan:
    """Return the plan of a candidate: on the real fleet as it was edited, else only to be shown."""
    first = queries.first_moves(page.stored, selection.moves, page.cluster.apply.max_steps)
    made, nothing, awaited = None, selection.nothing, None
    if first:
        request = queries.PlanRequest(
            stored=page.stored,
            moves=first,
            edits=edits() if fleet.is_real else queries.MoveEdits(),
            exclusions=tuple(page.cluster.exclusions),
            reason=selection.reason,
            fleet=fleet,
        )
        found = queries.rebalance_preview(request)
        if found is None:
            awaited, found = request, queries.former_preview(request)
        if isinstance(found, str):
            nothing = found
        elif found is not None:
            made = found
    dialog = state.open_dialog()
    # behind an open dialog stands what it is about
    if isinstance(dialog, PulsarDialog) and fleet.is_real:
        made = dialog.plan, dialog.preview
    return SelectedPlan(
        selection=selection, made=made, nothing=nothing, limit=len(first), awaited=awaited
    )


def deviations(
    page: PulsarPage, shown: SelectedPlan, fleet: FleetChange, measure: LoadMeasure
) -> tuple[Spread, Spread | None, Spread | None]:
    """Return the brokers' load now, in the scenario before any move, and after the plan.

    The second is ``None`` on the real fleet, the third without a plan.

    Args:
        measure: ``throughput`` or ``usage``.
    """
    preview = None if shown.made is None else shown.made[1]
    after = None if preview is None else getattr(preview.measures_after, measure)
    if fleet.is_real:
        measures = page.reading.measures if preview is None else preview.measures_before
        return getattr(measures, measure), None, after
    scenario = getattr(origin(page.stored, fleet).measures, measure)
    return getattr(page.reading.measures, measure), scenario, after


def are_all_selected() -> bool:
    """Return whether the moves of the optimal plan that are not needed are selected, too."""
    held = st.session_state.get(state.ALL_MOVES)
    return bool(held) if held is not None else st.query_params.get(state.ALL_MOVES) == "true"


def draw_rest(optimal: Proposal) -> None:
    """Draw the further moves of the optimal plan, with their gain."""
    if not optimal.rest_gain:
        return
    st.toggle(
        f"All {pluralize(len(optimal.moves), 'move')}",
        key=state.ALL_MOVES,
        bind="query-params",
        help=f"The first {optimal.needed:,} moves reach the same deviation band.",
    )
    st.caption(words.plain(optimal.rest_gain))


def draw_plan(page: PulsarPage, shown: SelectedPlan) -> None:
    """Draw the moves of the plan, each with its actions."""
    edits_panel()
    if shown.made is None and shown.awaited is not None:
        return  # the page waits for it
    if shown.made is None:
        st.info(words.plain(shown.nothing), icon=":material/check:")
        return
    plan, preview = shown.made
    _draw_caption(shown)
    moves_plan.draw_remarks(plan, ("error", "warning"))
    if preview.steps:
        _draw_moves(preview)
        _destination(page, preview)
    moves_plan.draw_remarks(plan, ("info",))


def _draw_caption(shown: SelectedPlan) -> None:
    if shown.selection.round > 1:
        st.caption(f"Moves of round {shown.selection.round}, the first round with moves.")
    count = len(shown.selection.moves)
    if shown.limit < count:
        st.caption(
            f"First {shown.limit:,} of {pluralize(count, 'move')} (plan limit). "
            "Apply the plan, then recompute."
        )


_EDITS: Final = (
    ("Pin", state.PIN, "Keep the bundle on its broker; recomputes the plan."),
    ("Exclude", state.DROP, "Remove this move from the plan."),
)
"""Label, list of edited bundles and help of what may be done with a move."""


def _draw_moves(preview: Preview) -> None:
    rows = presenter.steps_table(preview)
    wanted = ["requested" if step.step.destination else "by placement" for step in preview.steps]
    rows["wanted"] = wanted
    rows["pin"], rows["exclude"] = "Pin", "Exclude"
    bundles = rows["bundle"].tolist()
    placed = tables.words("Placement", "Requested destination or placement by the cluster.")
    tables.table(
        rows,
        {
            "bundle": tables.opener("Bundle", "_move_bundle", frame.bundle_link, is_pinned=False),
            **_move_columns({"wanted": placed} if len(set(wanted)) > 1 else {}),
            **{
                label.lower(): _action(f"_{label.lower()}", edit, bundles, help_text)
                for label, edit, help_text in _EDITS
            },
        },
        key="moves",
        alt="Moves of the plan",
        height=min(420, tables.height_of(len(rows))),
    )


def _move_columns(placement: Mapping[str, tables.Column] | None = None) -> dict[str, tables.Column]:
    """Return the columns of a move, with one for its placement where the moves differ in it."""
    destination = "Requested or most probable destination with its probability."
    return {
        "from": tables.words("From"),
        "to": tables.words("To", destination),
        **(placement or {}),
        "traffic": tables.megabytes("Traffic"),
        "clients": tables.whole("Clients"),
        "topics": tables.whole("Topics"),
    }


def _action(key: str, edit: str, bundles: list[str], help_text: str) -> tables.Column:
    """Return a column of buttons, each of which edits the move of its row."""

    def clicked() -> None:
        click = st.session_state.get(key)
        if click is not None and click["row"] < len(bundles):
            _add(edit, bundles[click["row"]])

    return st.column_config.ButtonColumn(
        "", on_click=clicked, key=key, help=help_text, width="small"
    )


def draw_bar(
    page: PulsarPage, shown: SelectedPlan, settings: PulsarDialog | None, missed: str
) -> None:
    """Draw the action bar of the plan, and of changed settings.

    Args:
        settings: The plan of the settings that were changed here; ``None``: none were.
        missed: The target that the plan misses; empty: it has none, or reaches it.
    """
    if shown.made is None or not shown.made[0].steps:
        if settings is not None:
            moves_plan.draw_bar(page, settings, key="settings", effects=_of_settings(settings))
        return
    plan, preview = shown.made
    sentence = rebalance_plan.answer(plan, preview)
    dialog = moves_plan.dialog_of(
        page, plan, preview, sentence=sentence, caveat=rebalance_plan.caveat(preview)
    )
    more = [] if settings is None else [applying.apply_action(settings, "Apply settings…")]
    part = "next round" if shown.selection.round else ""
    moves_plan.draw_bar(page, dialog, key="rebalance", more=more, part=part, caveat=missed)


def _of_settings(dialog: PulsarDialog) -> list[action_bar.PlanFigure]:
    return [
        action_bar.PlanFigure(label="Settings", value=f"{len(dialog.plan.steps):,}", note="changed")
    ]


def draw_supposed(shown: SelectedPlan) -> None:
    """Draw the moves of the candidate in the scenario, without actions."""
    if shown.made is None:
        if shown.awaited is None:
            st.info(words.plain(shown.nothing), icon=":material/check:")
        return
    _draw_caption(shown)
    steps = shown.made[1].steps
    if steps:
        rows = presenter.steps_table(shown.made[1])
        tables.table(
            rows,
            {"bundle": tables.words("Bundle"), **_move_columns()},
            key="moves",
            alt="Moves in the scenario",
            height=min(420, tables.height_of(len(rows))),
        )
    st.caption("Scenario only; no plan to apply.")


PLACED: Final = "by placement"
_ARROW: Final = " → "
_LABELS: Final = {
    state.DROP: "Excluded from the plan",
    state.PIN: "Pinned to its broker",
    state.RETARGET: "Changed destination",
}


def edits() -> queries.MoveEdits:
    """Return the excluded and redirected moves; unreadable parts of the address are ignored."""
    pairs = [one.split(_ARROW) for one in state.listed(state.RETARGET)]
    return queries.MoveEdits(
        left_out=state.listed(state.DROP),
        retargets=tuple(
            (pair[0], None if pair[1] == PLACED else pair[1]) for pair in pairs if len(pair) == 2
        ),
    )


def edits_panel() -> None:
    """Draw the edits of the moves; removing a chip reverts the edit."""
    held = {key: state.listed(key) for key in _LABELS}
    if not any(held.values()):
        return
    with st.container(horizontal=True, vertical_alignment="bottom"):
        for key, values in held.items():
            if values:
                st.multiselect(
                    _LABELS[key],
                    list(values),
                    default=None if key in st.session_state else list(values),
                    format_func=option,
                    key=key,
                    select_all=False,
                    on_change=partial(_chips_changed, key),
                )
        st.button(
            "Undo edits",
            icon=":material/undo:",
            type="tertiary",
            on_click=_forget_all,
            key="_edits_reset",
        )


def _destination(page: PulsarPage, preview: Preview) -> None:
    """Draw the actions on one move: pin it, exclude it, or send it elsewhere."""
    steps = {step.step.bundle: step.step for step in preview.steps}
    with st.popover("Edit a move", icon=":material/edit:", width="content"):
        bundle = st.selectbox(
            "Move", list(steps), format_func=option, key=state.STEP, bind="query-params"
        )
        allowed = queries.allowed_destinations((page.stored, bundle))
        now = steps[bundle].destination or PLACED
        options = list(dict.fromkeys([now, PLACED, *allowed]))
        key = f"_target_{bundle}"
        _keep_choice(key, options, now)
        target = st.selectbox(
            "Destination",
            options,
            format_func=option,
            key=key,
            help=f"{pluralize(len(allowed), 'eligible broker')} after policies, anti-affinity, "
            "version and drain filters.",
        )
        st.button(
            "Set destination",
            disabled=target == now,
            help="Select another destination." if target == now else None,
            on_click=partial(_retarget, bundle, target),
            key="_send",
        )
        with st.container(horizontal=True, gap="small"):
            for label, edit, help_text in _EDITS:
                st.button(
                    label, help=help_text, on_click=partial(_add, edit, bundle), key=f"_move_{edit}"
                )


def _keep_choice(key: str, options: list[str], now: str) -> None:
    """Keep the selection when a refresh makes the plan again; the rest follows the plan."""
    held, was = st.session_state.get(key), st.session_state.get(f"{key}_was")
    st.session_state[key] = held if held in options and held != was else now
    st.session_state[f"{key}_was"] = now


def _retarget(bundle: str, target: str) -> None:
    others = [
        one for one in state.listed(state.RETARGET) if not one.startswith(f"{bundle}{_ARROW}")
    ]
    state.keep_list(state.RETARGET, [*others, f"{bundle}{_ARROW}{target}"])


def _add(key: str, bundle: str) -> None:
    state.keep_list(key, [*state.listed(key), bundle])


def _chips_changed(key: str) -> None:
    state.keep_list(key, st.session_state[key])


def _forget_all() -> None:
    forget_edits()
    state.keep_list(state.PIN, [])
