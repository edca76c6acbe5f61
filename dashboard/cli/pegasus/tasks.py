"""What each acting command of ``trimtab pegasus`` plans."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, get_args

from core.errors import PlanError, UnknownNameError
from core.pegasus.even.measures import MEASURES, Measured
from core.pegasus.even.planner import EvenGoal, EvenPlan, even_out
from core.pegasus.levels import parse_level
from core.pegasus.plan.build import (
    AskedMove,
    balance_plan,
    change_plan,
    level_plan,
    moves_plan,
    setting_plan,
)
from core.pegasus.plan.maintenance import (
    drain_plan,
    migrate_plan,
    offline_plan,
    rebalance_plan,
    rolling_update_plan,
)
from core.pegasus.proposal import Change, Move
from core.pegasus.server_settings import CHANGEABLE, changeable
from core.pegasus.snapshot import PegasusFacts
from core.plan.model import Diagnostic, Plan
from core.plan.options import PlanOptions
from core.snapshot.pegasus import PegasusSnapshot
from core.units import format_ratio, pluralize
from dashboard.cli.output import UsageFaultError, note
from dashboard.cli.pegasus.plans import PegasusPlanRequest, act, gpid_of

_MOVES: Final[tuple[Move, ...]] = get_args(Move)
_CHANGES: Final[tuple[Change, ...]] = get_args(Change)
_REFUSED: Final = (
    "INVALID",
    "UPGRADE_TO_PRIMARY",
    "UPGRADE_TO_SECONDARY",
    "DOWNGRADE_TO_SECONDARY",
    "ADD_SECONDARY_FOR_LB",
    "PRIMARY_FORCE_UPDATE_BALLOT",
    "DROP_PARTITION",
    "REGISTER_CHILD",
)


@dataclass(frozen=True)
class EvenRequest:
    """What evenness is wanted.

    Attributes:
        by: One of :data:`core.pegasus.even.measures.MEASURES`.
        within_percent: Farthest any node may be from the mean.
        most_moves: ``None``: as many as it takes.
        is_free: Copy nothing.
    """

    by: str
    within_percent: float
    most_moves: int | None
    is_free: bool


def wish_of(
    where: tuple[str, Path | None, bool],
    told: tuple[str, Path | None],
    doing: tuple[bool, bool, bool],
) -> PegasusPlanRequest:
    """Return what the options that all commands share ask for.

    Args:
        where: Cluster or directory, configuration, whether JSON.
        told: Reason, plan file.
        doing: Whether it is applied, only rehearsed, only asked for.
    """
    source, config, as_json = where
    reason, plan_file = told
    is_applied, is_dry, is_detached = doing
    return PegasusPlanRequest(
        source=source,
        config=config,
        as_json=as_json,
        reason=reason,
        plan_file=plan_file,
        is_applied=is_applied,
        is_dry=is_dry,
        is_detached=is_detached,
    )


def set_level(request: PegasusPlanRequest, verb: str, wanted: str | None) -> int:
    """``trimtab pegasus level CLUSTER set LEVEL``."""
    if verb != "set" or wanted is None:
        raise UsageFaultError(
            f"{verb!r} is not understood here.", hint="Write: level CLUSTER set LEVEL."
        )
    try:
        parse_level(wanted)
    except UnknownNameError as exc:
        raise UsageFaultError(exc.message, hint=exc.hint) from exc
    return act(request, lambda snapshot, terms: level_plan(snapshot, wanted, terms))


def set_setting(request: PegasusPlanRequest, key: str, value: str, node: str | None) -> int:
    """``trimtab pegasus set``."""
    try:
        changeable(key)
    except UnknownNameError as exc:
        names = ", ".join(one.key for one in CHANGEABLE)
        near = f"{exc.hint} " if exc.hint.startswith("Did you mean") else ""
        raise UsageFaultError(exc.message, hint=f"{near}These can be changed: {names}.") from exc
    return act(
        request, lambda snapshot, terms: setting_plan(snapshot, key, value, terms, server=node)
    )


def move(
    request: PegasusPlanRequest, gpid: str, kind: str, ends: tuple[str, str], *, keep_level: bool
) -> int:
    """``trimtab pegasus move``."""
    if kind not in _MOVES:
        raise _no_word("kind of move", kind, _MOVES)

    def make(snapshot: PegasusSnapshot, terms: PlanOptions) -> Plan:
        asked = AskedMove(gpid_of(snapshot, gpid), kind, *ends)
        return moves_plan(snapshot, [asked], terms, keep_level=keep_level)

    return act(request, make)


def propose(request: PegasusPlanRequest, gpid: str, change: str, node: str) -> int:
    """``trimtab pegasus propose``."""
    word = change.strip().upper().removeprefix("CT_")
    if word in _REFUSED:
        raise PlanError(
            f"{word} by hand is refused: alone it does nothing or kills a server.",
            hint="Move a primary with `trimtab pegasus move ... move_pri`.",
        )
    if word not in _CHANGES:
        raise _no_word("change", word, _CHANGES)
    return act(
        request,
        lambda snapshot, terms: change_plan(snapshot, gpid_of(snapshot, gpid), word, node, terms),
    )


def migrate(request: PegasusPlanRequest, node: str) -> int:
    """``trimtab pegasus migrate``."""
    return act(request, lambda snapshot, terms: migrate_plan(snapshot, node, terms))


def drain(request: PegasusPlanRequest, nodes: Sequence[str], max_under_replicated: int) -> int:
    """``trimtab pegasus drain``."""
    return act(
        request,
        lambda snapshot, terms: drain_plan(
            snapshot, nodes, terms, max_under_replicated=max_under_replicated
        ),
    )


def offline(
    request: PegasusPlanRequest, nodes: Sequence[str], rate: int, max_under_replicated: int
) -> int:
    """``trimtab pegasus offline``."""
    return act(
        request,
        lambda snapshot, terms: offline_plan(
            snapshot, nodes, terms, rate_mb_per_s=rate, max_under_replicated=max_under_replicated
        ),
    )


def rolling_update(request: PegasusPlanRequest, nodes: Sequence[str]) -> int:
    """``trimtab pegasus rolling-update``."""
    return act(request, lambda snapshot, terms: rolling_update_plan(snapshot, nodes, terms))


def rebalance(request: PegasusPlanRequest, *, only_move_primary: bool, rate: int) -> int:
    """``trimtab pegasus rebalance``."""
    return act(
        request,
        lambda snapshot, terms: rebalance_plan(
            snapshot, terms, only_move_primary=only_move_primary, rate_mb_per_s=rate
        ),
    )


def even(request: PegasusPlanRequest, asked: EvenRequest) -> int:
    """``trimtab pegasus even``."""
    if asked.by not in MEASURES:
        raise _no_word("measure", asked.by, MEASURES)

    def make(snapshot: PegasusSnapshot, terms: PlanOptions) -> Plan | Diagnostic:
        measured = Measured.of(PegasusFacts(snapshot))
        goal = EvenGoal(
            within=asked.within_percent / 100,
            max_steps=asked.most_moves,
            may_copy=not asked.is_free,
            sizes_mb=measured.sizes_mb(),
            room_mb=measured.room_mb(),
        )
        found = even_out(measured.view, measured.weights(asked.by), goal)
        note(_even_sentence(found, asked))
        if found.verdict == "unknown":
            raise PlanError(
                f"The cluster's total by {asked.by} is 0 or unknown: no move can be planned.",
                hint="Choose another measure; trimtab pegasus tables shows what is known.",
            )
        if not found.steps:
            return Diagnostic(
                severity="info",
                code="nothing_to_do",
                sentence=f"Nothing to do: no move reduces the deviation by {asked.by}.",
                hint="Choose another measure, or a smaller --within.",
            )
        return balance_plan(snapshot, measured.view, found.steps, terms)

    return act(request, make)


def _no_word(kind: str, word: str, known: Sequence[str]) -> UsageFaultError:
    """Return the error of a word that is none of a few: bad usage, all of them named."""
    found = UnknownNameError.of(kind, word, known)
    near = f"{found.hint} " if found.hint.startswith("Did you mean") else ""
    return UsageFaultError(found.message, hint=f"{near}Known: {', '.join(known)}.")


def _even_sentence(found: EvenPlan, asked: EvenRequest) -> str:
    unknown = f"; {pluralize(found.unknown_count, 'partition')} of unknown weight stay"
    return (
        f"By {asked.by} the farthest node is {format_ratio(found.deviation_before)} from the mean; "
        f"{pluralize(len(found.steps), 'move')} bring that to "
        f"{format_ratio(found.deviation_after)} ({found.verdict.replace('_', ' ')})"
        f"{unknown if found.unknown_count else ''}."
    )
