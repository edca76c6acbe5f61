"""Plans for a Pegasus cluster: the level, settings, moves, single changes, and chosen rounds.

What cannot be done is left out and reported: an ``error`` makes the plan ``errored``, and then
none of it is ever applied. Maintenance plans are in :mod:`core.pegasus.plan.maintenance`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from core.errors import InputError, UnknownNameError
from core.pegasus.balance.model import BalancePlan
from core.pegasus.ids import gpid_text, parse_gpid
from core.pegasus.levels import ALLOWANCES, FunctionLevel, clears_proposals, parse_level
from core.pegasus.plan.draft import Draft
from core.pegasus.plan.maintenance_checks import note_balance_waits, note_refill, refuse_split
from core.pegasus.proposal import MOVE_KINDS, Change, Move
from core.pegasus.snapshot import PegasusFacts
from core.pegasus.view import ClusterView
from core.plan.model import Plan
from core.plan.options import PlanOptions
from core.snapshot.pegasus import PegasusSnapshot
from core.units import is_whole, pluralize


@dataclass(frozen=True, slots=True)
class RequestedMove:
    """A requested move of a replica.

    Attributes:
        gpid: ``app.index``.
        move: ``move_pri``, ``copy_pri`` or ``copy_sec``.
        source: Registered name of the node that gives.
        target: Registered name of the node that takes.
    """

    gpid: str
    move: Move
    source: str
    target: str


def level_plan(
    snapshot: PegasusSnapshot, level: str, terms: PlanOptions, *, is_restored: bool = False
) -> Plan:
    """Return the plan that sets the function level.

    Args:
        snapshot: The cluster.
        level: One of the five words, ``steady``.
        terms: When, why and how long.
        is_restored: Restore the former one when the run ends.
    Raises:
        UnknownNameError: There is no such level; the hint has near ones.
    """
    wanted = parse_level(level)
    draft = Draft(snapshot, terms)
    stored, effective = draft.facts.stored_level, draft.facts.effective_level
    if stored is wanted and not clears_proposals(wanted):
        sentence = f"The level is already {wanted.word}."
        draft.note("warning", "already_set", sentence)
        return draft.seal()
    draft.set_level(wanted, is_restored=is_restored)
    if stored is wanted:
        sentence = (
            f"The level is already {wanted.word}; setting it again discards pending proposals."
        )
        draft.note("warning", "already_set", sentence)
    if stored is not effective and effective is not None:
        _note_frozen(draft, wanted)
    _note_effect(draft, wanted)
    return draft.seal()


def moves_plan(
    snapshot: PegasusSnapshot,
    requested: Sequence[RequestedMove],
    terms: PlanOptions,
    *,
    keep_level: bool = False,
) -> Plan:
    """Return the plan that moves replicas, in the given order.

    A partition may be named again: the later move builds on what the earlier one leaves.

    Args:
        snapshot: The cluster.
        requested: At least one.
        terms: When, why and how long.
        keep_level: Hold the level at steady while the run lasts, so that the balancer keeps out.
    Raises:
        InputError: Nothing was named.
    """
    if not requested:
        raise InputError(
            "No partition is specified.", hint="Specify one: partition (2.7), source and target."
        )
    draft = Draft(snapshot, terms)
    if keep_level:
        draft.hold_steady()
    draft.check_level()
    if refuse_split(draft):
        return draft.seal()
    for one in requested:
        draft.move(one.gpid, one.move, one.source, one.target)
    _note_unhealthy(draft, {one.gpid for one in requested})
    return draft.seal()


def requested_moves(view: ClusterView, plans: Iterable[BalancePlan]) -> list[RequestedMove]:
    """Return the balancer's plans, or those of our own objective, as requested moves."""
    words: Mapping[object, Move] = {kind: word for word, kind in MOVE_KINDS.items()}
    return [
        RequestedMove(
            view.gpid_text(plan.row),
            words[plan.kind],
            view.nodes[plan.source],
            view.nodes[plan.target],
        )
        for plan in plans
    ]


def balance_plan(
    snapshot: PegasusSnapshot,
    view: ClusterView,
    plans: Sequence[BalancePlan],
    terms: PlanOptions,
    *,
    keep_level: bool = True,
) -> Plan:
    """Return the plan of what was chosen out of the balancer's rounds, in their order.

    Args:
        snapshot: The cluster; ``view`` was made of it.
        view: Names rows and nodes; that of any of the rounds.
        plans: Chosen out of one or more rounds, earlier rounds first.
        terms: When, why and how long.
        keep_level: Hold the level at steady while the run lasts.
    Raises:
        InputError: Nothing was chosen.
    """
    return moves_plan(snapshot, requested_moves(view, plans), terms, keep_level=keep_level)


def change_plan(
    snapshot: PegasusSnapshot, gpid: str, change: Change, node: str, terms: PlanOptions
) -> Plan:
    """Return the plan of one single safe change of a partition, as ``propose`` of the shell.

    Args:
        snapshot: The cluster.
        gpid: ``app.index``.
        change: Upstream's word without ``CT_``.
        node: Registered name of the node that becomes or ceases to be a member.
        terms: When, why and how long.
    """
    draft = Draft(snapshot, terms)
    draft.check_level()
    if refuse_split(draft):
        return draft.seal()
    draft.change(gpid, change, node)
    if draft.steps and change in ("DOWNGRADE_TO_INACTIVE", "REMOVE"):
        draft.note(
            "warning",
            "guardian_refills",
            f"The guardian then adds a secondary again, most likely on {node} itself.",
            subject=gpid,
            hint="`trimtab pegasus drain` keeps replicas off a node while it is drained.",
        )
    return draft.seal()


def setting_plan(
    snapshot: PegasusSnapshot,
    key: str,
    value: str,
    terms: PlanOptions,
    *,
    server: str | None = None,
    is_restored: bool = False,
) -> Plan:
    """Return the plan that changes a setting of servers while they run.

    Args:
        snapshot: The cluster.
        key: Upstream key, or its name in a snapshot.
        value: As a person writes it; lists of nodes and of tables take ``clear``.
        terms: When, why and how long.
        server: For a setting of replica servers the registered name of one; ``None`` for all.
        is_restored: Put the former value back when the run ends.
    Raises:
        InputError: The setting does not take the value, or not at that server.
        UnknownNameError: There is no such setting or server; the hint has near ones.
    """
    draft = Draft(snapshot, terms)
    draft.set_setting(key, value, server=server, is_restored=is_restored)
    step = draft.setting_steps[0]
    if step.before is None:
        draft.note(
            "warning",
            "before_unknown",
            f"The current value of {step.key} is unknown; it cannot be restored.",
            subject=step.subject,
        )
    elif step.before == step.value:
        draft.note(
            "warning",
            "already_set",
            f"{step.key} is already {step.before or 'empty'}.",
            subject=step.subject,
        )
        draft.steps.clear()
    draft.note("info", "not_persisted", "It is lost when its server restarts.")
    return draft.seal()


def _note_frozen(draft: Draft, wanted: FunctionLevel) -> None:
    if wanted > FunctionLevel.FREEZED and draft.state.level is FunctionLevel.FREEZED:
        draft.note(
            "warning",
            "stays_freezed",
            "Too few nodes are alive: the effective level stays freezed, regardless of "
            "the stored level.",
            hint="Start the missing nodes. A decommissioned node counts until the meta "
            "servers restart.",
        )


def _note_effect(draft: Draft, wanted: FunctionLevel) -> None:
    unhealthy = draft.state.unhealthy
    if clears_proposals(wanted):
        now = (
            f"; {pluralize(len(unhealthy), 'partition')} without the configured number of replicas"
        )
        draft.note(
            "warning" if unhealthy else "info",
            "clears_pending",
            f"Every pending proposal (repair and balance) is discarded{now if unhealthy else ''}.",
            hint="At steady, repairs are proposed again at the next tick."
            if wanted is FunctionLevel.STEADY
            else "",
        )
    if wanted < FunctionLevel.STEADY:
        sentence = f"At {wanted.word}: {ALLOWANCES[wanted].sentence}"
        draft.note("warning", "no_repairs", sentence, hint="Set it back to steady soon.")
    if wanted is FunctionLevel.LIVELY:
        _note_lively(draft)
    draft.note(
        "info",
        "not_persisted",
        "The level is not persistent: it is steady again after a failover of the "
        "leading meta server.",
    )


def _note_lively(draft: Draft) -> None:
    counts = draft.facts.operations
    note_balance_waits(draft)
    note_refill(draft)
    if counts is not None and counts.total >= 0:
        sentence = f"The balancer counts {pluralize(counts.total, 'balance operation')} now"
        sentence += ", primaries and secondaries together." if counts.total else "."
        hint = "Its first round moves primaries, so it makes fewer changes; other rounds follow."
        draft.note("info", "forecast", sentence, hint=hint if counts.total else "")
    if draft.facts.snapshot.settings.get("balance_cluster") == "true" and any(
        table.max_replica_count == 1 for table in draft.facts.tables.values()
    ):
        draft.note(
            "error",
            "kills_meta_server",
            "balance_cluster is true and a table has a single replica: at lively the "
            "leading meta server would crash.",
            hint="Set balance_cluster to false first.",
        )


def _note_unhealthy(draft: Draft, requested: set[str]) -> None:
    unhealthy = [config.gpid for config in draft.state.unhealthy if config.gpid not in requested]
    if unhealthy:
        number = pluralize(len(unhealthy), "other partition")
        sentence = (
            f"The guardian is repairing {number}, {unhealthy[0]} first; that may take longer now."
        )
        draft.note("info", "unhealthy", sentence)


def gpid_of(snapshot: PegasusSnapshot, text: str) -> str:
    """Return a partition written as ``2.7``, or with its table's name as ``temp.7``.

    Raises:
        InputError: It is neither.
        UnknownNameError: There is no such table; the hint has near ones.
    """
    name, _, index = text.strip().rpartition(".")
    if not name or name.lstrip("-").isdigit() or not is_whole(index):
        return gpid_text(*parse_gpid(text.strip()))
    ids = {table.name: app_id for app_id, table in PegasusFacts(snapshot).tables.items()}
    if name not in ids:
        raise UnknownNameError.of("table", name, sorted(ids))
    return gpid_text(ids[name], int(index))
