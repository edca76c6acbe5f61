"""Maintenance of a Pegasus cluster as plans: every wait and check of the scripts, as steps.

Settings are changed for the time of the run only; the executor puts them back in every exit path.

Source: Pegasus ``admin_tools`` (``migrate_node.sh``, ``downgrade_node.sh``,
``pegasus_rolling_update.sh``, ``pegasus_offline_node_list.sh``, ``pegasus_rebalance_cluster.sh``);
what they wait for is waited for here, by looking at the cluster instead of at printed words.
"""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from itertools import chain
from typing import Final

from core.errors import InputError, OpsError
from core.pegasus.levels import FunctionLevel
from core.pegasus.plan.draft import Draft
from core.pegasus.plan.drain import close, downgrade, migrate
from core.pegasus.plan.maintenance_checks import (
    check_healthy,
    check_left,
    check_policy,
    check_whole,
    note_balance_waits,
    note_refill,
    unfreeze,
    warn_of_freezing,
)
from core.pegasus.server_settings import (
    ADD_LIMIT,
    ASSIGN_DELAY,
    BLACK_LIST,
    COPY_RATE,
    FLOW_CONTROL,
    ONLY_MOVE_PRIMARY,
    SEND_RATE,
)
from core.pegasus.steps.base import PegasusStep
from core.pegasus.steps.wait import Awaited, AwaitState
from core.plan.model import Plan
from core.plan.options import PlanOptions
from core.snapshot.pegasus import PegasusSnapshot
from core.units import pluralize

OFFLINE_RATE_MB_PER_S: Final = 50
REBALANCE_RATE_MB_PER_S: Final = 100
_SHORT_WAIT_S: Final = 600.0
_CLOSING_WAIT_S: Final = 30.0
"""As long as the rolling update waits. By then the node is a member of no partition, and a server
keeps what it closes by itself in memory for ``gc_memory_replica_interval_ms`` (10 min, not
changeable while it runs), which no command shortens."""
_LONG_DELAY_MS: Final = 180_000_000
"""50 h, as the rolling update sets it: no other node takes over a replica of a node under way."""
_SHORT_DELAY_MS: Final = 10
MAX_UNDER_REPLICATED: Final = 10
"""Partitions that may lack a replica at a time while a node is emptied."""

_MAX_NAMED: Final = 4
_ADDS_AGAIN: Final = 100


def migrate_plan(snapshot: PegasusSnapshot, node: str, terms: PlanOptions) -> Plan:
    """Return the plan that moves every primary off a node; no data moves.

    Args:
        snapshot: The cluster.
        node: Registered name.
        terms: When, why and how long.
    Raises:
        UnknownNameError: There is no such node; the hint has near ones.
    """
    draft = Draft(snapshot, terms)
    [node] = _named(draft, [node])
    draft.hold_steady()
    draft.check_level()
    check_whole(draft)
    if not migrate(draft, node, [node]):
        draft.note("warning", "nothing_to_do", f"{node} has no primaries.", subject=node)
        return _nothing(draft)
    _await(draft, "no_primaries", node, within_s=_SHORT_WAIT_S)
    return draft.seal()


def drain_plan(
    snapshot: PegasusSnapshot,
    nodes: Sequence[str],
    terms: PlanOptions,
    *,
    max_under_replicated: int = MAX_UNDER_REPLICATED,
) -> Plan:
    """Return the plan that empties nodes one after the other; their replicas go to other nodes.

    While it runs the nodes are on the black list, so the guardian puts what they give up elsewhere.
    A node leaves its partitions in batches, each after the one before is repaired.

    Args:
        snapshot: The cluster.
        nodes: Registered names.
        terms: When, why and how long.
        max_under_replicated: Partitions that may lack a replica at a time, 1 or more.
    Raises:
        InputError: No node was named, one twice, or no such number of partitions.
        UnknownNameError: There is no such node; the hint has near ones.
    """
    draft = Draft(snapshot, terms)
    leaving = _named(draft, nodes)
    _check_batch(max_under_replicated)
    check_left(draft, leaving)
    was_lively = draft.facts.stored_level is FunctionLevel.LIVELY
    _begin(draft)
    if not any(draft.state.replicas[node] for node in leaving):
        draft.note("warning", "nothing_to_do", f"{', '.join(leaving)}: no replicas.")
        return _nothing(draft)
    _keep_out(draft, leaving)
    for node in leaving:
        _empty(draft, node, leaving, is_closed=False, batch=max_under_replicated)
        _await(draft, "healthy")
    _note_batches(draft, max_under_replicated)
    if was_lively:
        draft.note(
            "warning",
            "lively_refills",
            "After the run the level is lively again and the balancer moves replicas to "
            "these nodes.",
            hint="Set the level to steady first to keep them empty.",
        )
    return draft.seal()


def offline_plan(
    snapshot: PegasusSnapshot,
    nodes: Sequence[str],
    terms: PlanOptions,
    *,
    rate_mb_per_s: int = OFFLINE_RATE_MB_PER_S,
    max_under_replicated: int = MAX_UNDER_REPLICATED,
) -> Plan:
    """Return the plan that takes nodes out of service for good, one after the other.

    Each is emptied, then the run waits until the operator has stopped its process.

    Args:
        snapshot: The cluster.
        nodes: Registered names.
        terms: When, why and how long.
        rate_mb_per_s: What one disk may receive and send meanwhile; 0: without limit.
        max_under_replicated: Partitions that may lack a replica at a time, 1 or more.
    Raises:
        InputError: No node was named, one twice, no such rate or number of partitions.
        UnknownNameError: There is no such node; the hint has near ones.
    """
    draft = Draft(snapshot, terms)
    leaving = _named(draft, nodes)
    _check_batch(max_under_replicated)
    check_left(draft, leaving)
    _begin(draft)
    _set_rates(draft, rate_mb_per_s)
    _keep_out(draft, leaving)
    unfreeze(draft, leaving)
    draft.set_setting(ASSIGN_DELAY, str(_SHORT_DELAY_MS), is_restored=True)
    for node in leaving:
        _empty(draft, node, leaving, batch=max_under_replicated)
        _await(draft, "healthy")  # safer than the scripts, which stop it while copies are missing
        _await(draft, "gone", node, reason=f"Stop the replica server of {node} now.")
        _await(draft, "healthy")
    _note_batches(draft, max_under_replicated)
    stops = f"The run waits until the process of {' and then of '.join(leaving)} is stopped."
    draft.note("info", "operator_acts", stops, hint="The operator stops the processes.")
    return draft.seal()


def rolling_update_plan(
    snapshot: PegasusSnapshot, nodes: Sequence[str], terms: PlanOptions
) -> Plan:
    """Return the plan that takes nodes out, waits for their restart, and takes them in again.

    Args:
        snapshot: The cluster.
        nodes: Registered names in the order in which they are restarted; none: all that live.
        terms: When, why and how long.
    Raises:
        InputError: One was named twice.
        UnknownNameError: There is no such node; the hint has near ones.
    """
    draft = Draft(snapshot, terms)
    wanted = _named(draft, nodes or draft.state.alive)
    _begin(draft)
    warn_of_freezing(draft)
    draft.set_setting(ASSIGN_DELAY, str(_LONG_DELAY_MS), is_restored=True)
    if draft.facts.snapshot.settings.get("add_secondary_enable_flow_control") != "true":
        draft.set_setting(FLOW_CONTROL, "true", is_restored=True)  # else the limit is not looked at
    for node in wanted:
        draft.set_setting(ADD_LIMIT, "0", is_restored=True)
        dropped = _empty(draft, node, [node], is_refilled=False)
        reason = f"Restart the replica server of {node} now, with the new version."
        _await(draft, "restarted", node, reason=reason)
        draft.set_setting(ADD_LIMIT, str(_ADDS_AGAIN), is_restored=True)
        for gpid in dropped:
            draft.state.come_back(draft.state.config(gpid), node)
        _await(draft, "healthy")
    waits = f"The run waits for {pluralize(len(wanted), 'restart')} by the operator."
    draft.note("info", "operator_acts", waits, hint="The operator restarts the processes.")
    draft.note(
        "info",
        "primaries_stay",
        "Primaries stay on the nodes they moved to: the last node ends with few primaries.",
        hint="`trimtab pegasus rebalance` balances them afterwards.",
    )
    return draft.seal()


def rebalance_plan(
    snapshot: PegasusSnapshot,
    terms: PlanOptions,
    *,
    only_move_primary: bool = False,
    rate_mb_per_s: int = REBALANCE_RATE_MB_PER_S,
) -> Plan:
    """Return the plan that lets the meta server's own balancer work until nothing is left to do.

    Args:
        snapshot: The cluster.
        terms: When, why and how long.
        only_move_primary: Primaries change roles only; no primary is copied meanwhile.
        rate_mb_per_s: What one disk may receive and send meanwhile; 0: without limit.
    Raises:
        InputError: No such rate.
    """
    draft = Draft(snapshot, terms)
    if draft.facts.stored_level is None or draft.state.level is None:
        draft.check_level()
    check_policy(draft)
    _warn_of_exclusions(draft)
    if only_move_primary:
        draft.set_setting(ONLY_MOVE_PRIMARY, "true", is_restored=True)
    _set_rates(draft, rate_mb_per_s)
    # also where it is stored already: after a new leader took over the run sets it again
    draft.set_level(FunctionLevel.LIVELY, is_restored=True)
    if draft.state.level is not None and draft.state.level < FunctionLevel.STEADY:
        draft.check_level()
    note_balance_waits(draft)
    note_refill(draft)
    if draft.state.unhealthy:
        _await(draft, "healthy")
    _await(draft, "balanced")
    draft.note(
        "info",
        "balancer_decides",
        "The meta server decides which replicas move, not this plan.",
        hint="`trimtab pegasus balance` shows its rounds.",
    )
    return draft.seal()


# -- parts -----------------------------------------------------------------------------------------


def _named(draft: Draft, nodes: Sequence[str]) -> list[str]:
    """Return registered names of living nodes in the order given."""
    if not nodes:
        raise InputError("No node is specified.", hint="Specify one as host:port.")
    names = [draft.state.node(name).name for name in nodes]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise InputError(f"{min(twice)} is specified twice.", hint="Specify each node once.")
    for name in names:
        if not draft.state.nodes[name].is_alive:
            sentence = f"{name} is not alive: the guardian is already replacing its replicas."
            hint = "Wait until every partition is healthy; nothing can be moved off the node."
            draft.note("error", "node_down", sentence, subject=name, hint=hint)
    return names


def _begin(draft: Draft) -> None:
    """Hold the level at steady; wait until what the balancer had under way ends."""
    draft.hold_steady()
    draft.check_level()
    check_whole(draft)
    check_healthy(draft)
    if draft.steps:
        _await(draft, "healthy")


def _warn_of_exclusions(draft: Draft) -> None:
    """Report which excluded tables the meta server's own balancer moves all the same."""
    names = sorted(table.name for table in draft.facts.tables.values())
    excluded = [
        name for name in names if any(fnmatchcase(name, one) for one in draft.terms.exclusions)
    ]
    if excluded:
        more = f" and {len(excluded) - _MAX_NAMED} more" if excluded[_MAX_NAMED:] else ""
        draft.note(
            "warning",
            "exclusions_ignored",
            f"Excluded tables are balanced too: {', '.join(excluded[:_MAX_NAMED])}{more}. The "
            "meta server's own balancer ignores Trimtab's exclusions.",
            hint="To keep them unchanged, put them on meta.lb.ignored_app_list first.",
        )


def _nothing(draft: Draft) -> Plan:
    draft.steps.clear()
    return draft.seal()


def _await(
    draft: Draft,
    state: Awaited,
    node: str | None = None,
    *,
    within_s: float | None = None,
    reason: str | None = None,
) -> None:
    draft.steps.append(
        AwaitState(
            state=state,
            node=node,
            within_s=within_s,
            reason=draft.terms.reason if reason is None else reason,
        )
    )


def _empty(
    draft: Draft,
    node: str,
    leaving: Sequence[str],
    *,
    is_closed: bool = True,
    is_refilled: bool = True,
    batch: int | None = None,
) -> list[str]:
    """Add what takes primaries, then secondaries off a node; return the partitions it leaves.

    Args:
        draft: What is filled.
        node: The one to empty.
        leaving: Nodes that get nothing.
        is_closed: What is left of the replicas is closed: the process ends next.
        is_refilled: The guardian puts what is missing on other nodes; else the node takes it up
            again after its restart.
        batch: Partitions that it leaves at a time; ``None`` for all at once.
    """
    if migrate(draft, node, leaving):
        _await(draft, "no_primaries", node, within_s=_SHORT_WAIT_S)
    if not is_refilled:
        # notes which process has to end: any restart from now on counts, an earlier one does not
        _await(draft, "running", node)
    dropped = list(chain.from_iterable(downgrade(draft, node, batch)))
    if dropped:
        _await(draft, "no_replicas", node, within_s=_SHORT_WAIT_S)
    if dropped and is_closed:
        close(draft, node, dropped)
        _await(draft, "closed", node, within_s=_CLOSING_WAIT_S)
    if is_refilled:
        _refill(draft, dropped, leaving)
    return dropped


def _check_batch(max_under_replicated: int) -> None:
    if max_under_replicated < 1:
        raise InputError(
            f"max_under_replicated is {max_under_replicated}: no node could leave any partition.",
            hint="Set it to 1 or more; the default is 10.",
        )


def _note_batches(draft: Draft, max_under_replicated: int) -> None:
    """Show the limit, and how many batches it makes."""
    batches = [
        step for step in draft.steps if isinstance(step, PegasusStep) and step.removed_replicas
    ]
    total = sum(one.partition_count for one in draft.facts.tables.values())
    draft.note(
        "info",
        "batches",
        f"At most {max_under_replicated:,} of {pluralize(total, 'partition')} are "
        "under-replicated at a time: "
        f"{'1 batch' if len(batches) == 1 else f'{len(batches):,} batches'}, the next "
        "one when every partition is healthy again.",
        hint="A larger limit is faster, a smaller one safer.",
    )


def _refill(draft: Draft, dropped: Sequence[str], leaving: Sequence[str]) -> None:
    unassigned = [
        gpid for gpid in dropped if draft.state.refill(draft.state.config(gpid), leaving) is None
    ]
    if unassigned:
        draft.note(
            "error",
            "too_few_nodes",
            f"No node can take a replica of {unassigned[0]}"
            + (f" and {len(unassigned) - 1:,} more." if len(unassigned) > 1 else "."),
            hint="Specify fewer nodes, or add some first.",
        )


def _keep_out(draft: Draft, leaving: Sequence[str]) -> None:
    """Add nodes to the black list."""
    listed = draft.facts.snapshot.settings.get("assign_secondary_black_list") or ""
    names = [name for name in listed.split(",") if name in draft.state.nodes]
    draft.set_setting(BLACK_LIST, ",".join(dict.fromkeys([*names, *leaving])), is_restored=True)


def _set_rates(draft: Draft, rate_mb_per_s: int) -> None:
    for key in (COPY_RATE, SEND_RATE):
        try:
            draft.set_setting(key, str(rate_mb_per_s), is_restored=True)
        except OpsError as exc:
            raise InputError(exc.message, hint=exc.hint) from exc
