"""The function level: below lively nothing is balanced, at freezed and below nothing is repaired.

Source: Pegasus ``meta_service::check_freeze``, ``server_state`` and ``meta_bulk_load_service``.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from core.diagnosis.model import Cause
from core.diagnosis.pegasus.context import PegasusDiagnosisContext, Proof
from core.diagnosis.pegasus.trials import Change
from core.findings.finding import Fix
from core.pegasus.levels import FunctionLevel
from core.pegasus.server_settings import LIVE_PERCENTAGE
from core.pegasus.snapshot import PegasusFacts
from core.pegasus.steps.level import LEVEL_KEY
from core.units import is_whole, pluralize

ON_START = "meta_function_level_on_start"
_MIN_NODES = "min_live_node_count_for_unfreeze"
_MAX_NAMED = 8


def level_holds(context: PegasusDiagnosisContext) -> Iterator[Cause]:
    """The level forbids what would have to be done."""
    if context.level >= FunctionLevel.LIVELY:
        return
    if context.level == FunctionLevel.STEADY:
        yield from _steady(context)
        return
    stored = context.facts.stored_level
    if stored is not None and stored > FunctionLevel.FREEZED:
        yield from _freezed_by_nodes(context, stored)
    else:
        yield from _set_too_low(context)


def _steady(context: PegasusDiagnosisContext) -> Iterator[Cause]:
    opened = context.opened
    held = Change(repair=opened.repair, is_ready=opened.is_ready)
    proof = context.proven(held, opened)
    if proof is None:
        return
    code, when, hint = _reset(context)
    moves = pluralize(proof.effect.after.moves, "move")
    yield Cause(
        code=code,
        keys=(LEVEL_KEY, ON_START),
        objects=far_nodes(context),
        summary=f"Level steady ({int(FunctionLevel.STEADY)}) counts balance operations but "
        f"executes none{proof.scope}; lively ({int(FunctionLevel.LIVELY)}) would make "
        f"{moves}{when}.",
        effect=proof.effect,
        fix=Fix(wanted={LEVEL_KEY: FunctionLevel.LIVELY.word}),
        hint=hint,
        measured=float(FunctionLevel.STEADY),
        threshold=float(FunctionLevel.LIVELY),
        unit="level",
    )


def _reset(context: PegasusDiagnosisContext) -> tuple[str, str, str]:
    """Return the code, when the level fell, and what to do: who made it steady."""
    usual = "Set the level to lively until the operation count stays at 0, then back to steady."
    loading = [table.name for table in context.facts.tables.values() if table.is_bulk_loading]
    fell = _fell(context)
    leader = context.facts.snapshot.manifest.leader
    if fell is not None:
        before, since = fell
        if before != leader:
            return (
                "level_reset_by_leader",
                f"; the level was lively until the leader changed from {before} to {leader}{since}",
                f"The level is not persistent: a new meta server starts at {ON_START}. {usual}",
            )
        if loading:
            return (
                "level_reset_by_bulk_load",
                f"; the bulk load of {loading[0]} set it to steady{since}",
                f"A bulk load sets the level to steady and does not restore it. {usual}",
            )
        return (
            "level_set_to_steady",
            f"; it was lively under the same leader {leader} and was set to steady{since}",
            f"No failover caused this. Find out who set the level. {usual}",
        )
    if loading:
        return (
            "level_reset_by_bulk_load",
            f"; the bulk load of {loading[0]} sets it to steady",
            f"A bulk load sets the level to steady and does not restore it. {usual}",
        )
    rows = context.facts.rows("node_orders")
    if rows and rows[0]["rounds"] and rows[0]["leader"] == leader:
        return (
            "level_set_to_steady",
            f"; {leader} has balanced since it became the leader, so the level was set to steady",
            f"No failover caused this. Find out who set the level. {usual}",
        )
    return ("level_below_lively", "", usual)


def _fell(context: PegasusDiagnosisContext) -> tuple[str, str] | None:
    """Return the leader under which the level was lively last, and until when."""
    for one in reversed(context.earlier):
        if PegasusFacts(one).stored_level == FunctionLevel.LIVELY:
            at = one.manifest.taken_at
            return one.manifest.leader or "another meta server", f" after {at:%Y-%m-%d %H:%M}"
    return None


def _freezed_by_nodes(context: PegasusDiagnosisContext, stored: FunctionLevel) -> Iterator[Cause]:
    known = len(context.alive) + len(context.dead)
    alive = len(context.alive)
    proof = context.proven(Change(), Change(level=stored, repair=context.own_repair))
    if proof is None or not known:
        return
    least = _number(context, _MIN_NODES, 3)
    share = _number(context, LIVE_PERCENTAGE, 65)
    is_few = alive < least
    measured, limit = (float(alive), float(least)) if is_few else (alive / known, share / 100)
    lowered = {_MIN_NODES: str(alive)} if is_few else {}
    if alive * 100 < share * known:
        lowered[LIVE_PERCENTAGE] = str(alive * 100 // known)
    what = (
        f"{alive} nodes are alive; the minimum is {least}"
        if is_few
        else f"{alive * 100 // known}% of {known} nodes are alive; the minimum is {share}%"
    )
    yield Cause(
        code="level_freezed_by_nodes",
        keys=tuple(lowered) or (LIVE_PERCENTAGE,),
        objects=context.dead[:_MAX_NAMED],
        summary=f"The effective level is freezed, not {stored.word}: {what}.",
        effect=proof.effect,
        fix=Fix(wanted=lowered),
        hint="Start the dead nodes. A decommissioned node counts until the leading meta "
        "server restarts: lower the limit until then.",
        measured=measured,
        threshold=limit,
        unit="nodes" if is_few else "ratio",
    )


def _set_too_low(context: PegasusDiagnosisContext) -> Iterator[Cause]:
    repair = context.own_repair if context.unhealthy.size else None
    best: tuple[FunctionLevel, Proof] | None = None
    for level in (FunctionLevel.STEADY, FunctionLevel.LIVELY):
        proof = context.proven(Change(), Change(level=level, repair=repair))
        if proof is not None and (best is None or proof.effect.gain > best[1].effect.gain + 0.05):
            best = level, proof
    if best is None:
        return
    level, proof = best
    nothing = "repairs nothing" if context.unhealthy.size else "moves nothing"
    yield Cause(
        code="level_too_low",
        keys=(LEVEL_KEY,),
        objects=far_nodes(context),
        summary=f"Level {context.level.word} ({int(context.level)}) {nothing}{proof.scope}; "
        f"{level.word} requires level {int(level)}.",
        effect=proof.effect,
        fix=Fix(wanted={LEVEL_KEY: level.word}),
        hint=f"Set the level to {level.word} when the maintenance is over.",
        measured=float(context.level),
        threshold=float(level),
        unit="level",
    )


def _number(context: PegasusDiagnosisContext, name: str, default: int) -> int:
    text = context.settings.get(name, "")
    return int(text) if is_whole(text) else default


def far_nodes(context: PegasusDiagnosisContext) -> tuple[str, ...]:
    """Return the nodes with less than half of the mean of replicas, the emptiest first."""
    held = context.view.replica_counts.sum(axis=0)
    low = np.flatnonzero(held < held.mean() / 2) if held.size else np.zeros(0, np.int64)
    return tuple(context.view.nodes[at] for at in low[np.argsort(held[low])].tolist())[:_MAX_NAMED]
