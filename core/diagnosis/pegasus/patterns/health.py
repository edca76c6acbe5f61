"""Partitions without their replicas: the balancer waits for every one of them.

Source: Pegasus ``server_state::check_all_partitions``, ``partition_guardian``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from core.diagnosis.model import Cause
from core.diagnosis.pegasus.context import PegasusDiagnosisContext
from core.findings.finding import Fix
from core.pegasus.levels import FunctionLevel
from core.pegasus.persistence import ddd_remedy
from core.pegasus.server_settings import ADD_LIMIT, ASSIGN_DELAY, BLACK_LIST, FLOW_CONTROL
from core.units import format_age, is_whole, pluralize

_MAX_NAMED = 8
_EVERY = "Every replica was lost. "
_SHIPPED_LIMIT = "20"
_DEFAULT_DELAY_MS = 600_000


def under_repair(context: PegasusDiagnosisContext) -> Iterator[Cause]:
    """The guardian repairs partitions, or waits for the node that held them."""
    if not context.unhealthy.size or context.level <= FunctionLevel.FREEZED:
        return
    proof = context.repaired_by(None, context.own_repair)
    if proof is None:
        return
    text = context.settings.get(ASSIGN_DELAY.removeprefix("meta.lb."), "")
    delay_ms = int(text) if is_whole(text) else _DEFAULT_DELAY_MS
    waited = {
        one.config.last_drops[-1]
        for one in context.outlooks
        if one.config.last_drops and not one.config.is_ddd and not one.is_sure
    }
    awaited = sorted(waited & {*context.dead})
    headless = context.headless
    fix = Fix()
    count = proof.effect.before.missing - proof.effect.after.missing
    lack = _lacking(count, context)
    if awaited:
        names = ", ".join(awaited[:_MAX_NAMED])
        why = f"the guardian waits up to {format_age(delay_ms / 1000)} for {names}"
        hint = f"Start {names}; after that time the guardian copies the replicas to other nodes."
        factor = delay_ms / _DEFAULT_DELAY_MS
        if factor > 1:
            why += (
                f" ({ASSIGN_DELAY} is {delay_ms // 60_000:,} min, {factor:,.0f} times its default)"
            )
            fix = Fix(wanted={ASSIGN_DELAY: str(_DEFAULT_DELAY_MS)})
            hint = (
                "Restore the default so that the guardian copies the replicas to other "
                f"nodes, or start {names}."
            )
    elif headless:
        why = f"{pluralize(headless, 'partition')} without a primary although a secondary is alive"
        since = context.unserved_since
        if since is None:
            hint = (
                "A primary normally changes within seconds. Check again in a minute; if the "
                "partition still has no primary, its proposal is refused: search the server "
                "logs for on_config_proposal."
            )
        else:
            why += f", unchanged for at least {format_age(since)}"
            hint = (
                "The servers refuse the proposal. Search the log of the intended primary for "
                "on_config_proposal, and compare the ballots with the meta server's."
            )
    else:
        why = "the guardian repairs them"
        hint = "Wait until every partition is healthy; balancing then resumes."
    yield Cause(
        code="partitions_wait_for_node"
        if awaited
        else "partitions_without_primary"
        if headless
        else "partitions_under_repair",
        keys=(ASSIGN_DELAY,),
        objects=tuple(awaited) or _gpids(context, context.unhealthy.tolist()),
        summary=f"{lack}: {why}. Balancing is blocked until then.",
        effect=proof.effect,
        fix=fix,
        hint=hint,
        measured=float(count),
        threshold=0.0,
        unit="partitions",
    )


def lost_partitions(context: PegasusDiagnosisContext) -> Iterator[Cause]:
    """Partitions that lost every replica: a person decides (DDD)."""
    if not context.lost:
        return
    full = context.full_repair
    left = {row: name for row, name in full.returns.items() if row not in context.lost}
    proof = context.necessary(replace(full, returns=left))
    if proof is None:
        return
    rows = list(context.lost)
    gpids = _gpids(context, rows)
    known = {(one.config.app_id, one.config.index): one for one in context.outlooks}
    outlook = known.get(context.view.gpid(rows[0]))
    reason = ""
    if outlook is not None:
        reason = outlook.reported_reason or outlook.cure.reason.removeprefix(_EVERY)
    yield Cause(
        code="partitions_lost",
        objects=gpids,
        summary=f"{_lost(len(rows), gpids[0])} every replica (DDD). {reason}".strip(),
        effect=proof.effect,
        hint=ddd_remedy(context.config_of(rows[0]), context.alive, context.copies_of(rows[0])),
        measured=float(len(rows)),
        threshold=0.0,
        unit="partitions",
    )


def adds_blocked(context: PegasusDiagnosisContext) -> Iterator[Cause]:
    """Flow control lets no secondary be added."""
    if not context.unhealthy.size or not context.adds_nothing:
        return
    proof = context.necessary(replace(context.full_repair, adds=False))
    if proof is None:
        return
    count = proof.effect.before.missing - proof.effect.after.missing
    yield Cause(
        code="adds_blocked_by_flow_control",
        keys=(ADD_LIMIT, FLOW_CONTROL),
        summary=f"{_lacking(count, context)}: {ADD_LIMIT} is 0, so no secondary is added.",
        effect=proof.effect,
        fix=Fix(wanted={ADD_LIMIT: _SHIPPED_LIMIT}),
        hint="Rolling updates and drains set it to 0. Restore it when they are done.",
        measured=0.0,
        threshold=1.0,
        unit="secondaries per node and tick",
    )


def black_list_blocks_repair(context: PegasusDiagnosisContext) -> Iterator[Cause]:
    """Every node that could take a secondary is on the black list."""
    black = context.black_list & {*context.alive}
    if not context.unhealthy.size or not black:
        return
    proof = context.necessary(replace(context.full_repair, excluded=context.black_list))
    if proof is None:
        return
    count = proof.effect.before.missing - proof.effect.after.missing
    yield Cause(
        code="black_list_blocks_repair",
        keys=(BLACK_LIST,),
        objects=tuple(sorted(black))[:_MAX_NAMED],
        summary=f"{_lacking(count, context)}: {len(black)} of "
        f"{pluralize(len(context.alive), 'live node')} cannot take a secondary.",
        effect=proof.effect,
        fix=Fix(wanted={BLACK_LIST: ""}),
        hint="Clear the black list, or start other nodes.",
        measured=float(len(context.alive) - len(black)),
        threshold=float(context.view.max_replica_counts.max()),
        unit="nodes",
    )


def too_few_nodes(context: PegasusDiagnosisContext) -> Iterator[Cause]:
    """A table wants more replicas than nodes are alive."""
    if not context.lacking_nodes:
        return
    proof = context.necessary(replace(context.full_repair, more_nodes=0))
    if proof is None:
        return
    alive = len(context.alive)
    view = context.view
    tables = [
        name
        for name, wanted in zip(view.app_names, view.max_replica_counts.tolist(), strict=True)
        if wanted > alive
    ]
    most = int(view.max_replica_counts.max())
    yield Cause(
        code="too_few_nodes",
        keys=("max_replica_count",),
        objects=tuple(tables[:_MAX_NAMED]),
        summary=f"{tables[0]} requires {most} replicas on {most} nodes; {alive} are alive.",
        effect=proof.effect,
        hint=f"Start or add {pluralize(context.lacking_nodes, 'node')}, or lower the table's "
        "replica count.",
        measured=float(alive),
        threshold=float(most),
        unit="nodes",
    )


def _lacking(count: int, context: PegasusDiagnosisContext) -> str:
    of = f"{count:,} of {pluralize(context.view.partition_count, 'partition')}"
    return f"{of} under-replicated"


def _lost(count: int, first: str) -> str:
    return f"{first} lost" if count == 1 else f"{first} and {count - 1:,} more lost"


def _gpids(context: PegasusDiagnosisContext, rows: Sequence[int]) -> tuple[str, ...]:
    return tuple(context.view.gpid_text(row) for row in rows[:_MAX_NAMED])
