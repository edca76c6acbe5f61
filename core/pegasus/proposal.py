"""Proposals by hand: the safe ones are built here, the others are refused before a byte is sent.

What a meta server accepts without a word may kill a replica server or the meta server itself; so a
proposal is made from what is known of the cluster, and only when all of it fits.

Source: Pegasus shell ``balance`` and ``propose``, ``server_state::on_propose_balancer``,
``replica_config`` (2.6.0-SNAPSHOT, db756dc).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from core.errors import GuardRefusedError
from core.pegasus.answers import NodeEntry
from core.pegasus.balance.model import ConfigType, PlanKind, ProposalAction
from core.pegasus.levels import FunctionLevel
from core.pegasus.partition import PartitionConfig

Move = Literal["move_pri", "copy_pri", "copy_sec"]
"""How the shell calls a move of a replica."""

Change = Literal["ASSIGN_PRIMARY", "ADD_SECONDARY", "DOWNGRADE_TO_INACTIVE", "REMOVE"]
"""How the shell calls a single safe change of a partition, without ``CT_``."""

MOVE_KINDS: Final[Mapping[Move, PlanKind]] = {
    "move_pri": PlanKind.MOVE_PRIMARY,
    "copy_pri": PlanKind.COPY_PRIMARY,
    "copy_sec": PlanKind.COPY_SECONDARY,
}
"""The balancer's kind of plan for each move."""


@dataclass(frozen=True)
class ProposalContext:
    """Context of proposal checks; all of it just read.

    Attributes:
        nodes: By registered name.
        level: The effective level.
        pending: Partitions (gpid) that have a proposal of ours whose end was not seen.
    """

    nodes: Mapping[str, NodeEntry]
    level: FunctionLevel
    pending: frozenset[str] = field(default_factory=frozenset)


@dataclass(frozen=True)
class Proposal:
    """Actions for one partition, never forced.

    Attributes:
        app_id: Table.
        index: Place in the table.
        actions: In the order of their execution, with registered names only.
        kind: What it is called; ``None`` for a single change.
    """

    app_id: int
    index: int
    actions: tuple[ProposalAction, ...]
    kind: PlanKind | None = None


def propose_move(
    context: ProposalContext, config: PartitionConfig, kind: PlanKind, source: str, target: str
) -> Proposal:
    """Return the proposal that moves or copies a replica from one node to another.

    Raises:
        GuardRefusedError: It would do nothing, something else, or harm; the message names it.
    """
    _check_moment(context, config)
    _check_nodes(context, source, target)
    if config.primary is None:
        raise _refusal(config, "it has no primary", "Wait until the guardian has chosen one.")
    if kind is PlanKind.COPY_SECONDARY:
        if source not in config.secondaries:
            raise _refusal(config, f"{source} has no secondary", _holders(config))
    elif source != config.primary:
        raise _refusal(config, f"{source} is not its primary", f"Its primary is {config.primary}.")
    if kind is PlanKind.MOVE_PRIMARY:
        if target not in config.secondaries:
            raise _refusal(
                config,
                f"{target} has no secondary: the primary would step down and another "
                "node would be chosen",
                _holders(config),
            )
    else:
        _check_copy(config, target)
    return Proposal(
        config.app_id, config.index, move_actions(kind, config.primary, source, target), kind
    )


def propose_change(
    context: ProposalContext, config: PartitionConfig, change: ConfigType, node: str
) -> Proposal:
    """Return the proposal of one single change.

    Raises:
        GuardRefusedError: The change is none of the safe ones, or not safe for this partition.
    """
    _check_moment(context, config)
    _check_nodes(context, node)
    if change is ConfigType.ASSIGN_PRIMARY:
        _check_assign(config, node)
        action = ProposalAction(change, node, node)
    elif change is ConfigType.ADD_SECONDARY:
        action = ProposalAction(change, _primary(config), node)
        _check_copy(config, node)
        if config.replica_count >= config.max_replica_count:
            raise _refusal(config, "no replica of it is missing", "Copy one instead.")
    elif change in (ConfigType.DOWNGRADE_TO_INACTIVE, ConfigType.REMOVE):
        action = ProposalAction(change, _primary(config), node)
        _check_drop(config, node)
    else:
        raise _refusal(
            config,
            f"{change.name} is not supported as a manual change: alone it has no effect "
            "or crashes a server",
            "Move a primary with move_pri; add with ADD_SECONDARY; remove with "
            "DOWNGRADE_TO_INACTIVE or REMOVE.",
        )
    return Proposal(config.app_id, config.index, (action,))


def move_actions(
    kind: PlanKind, primary: str, source: str, target: str
) -> tuple[ProposalAction, ...]:
    """Return the actions of a move or a copy, unchecked: see :func:`propose_move`."""
    if kind is PlanKind.COPY_SECONDARY:
        return (
            ProposalAction(ConfigType.ADD_SECONDARY_FOR_LB, primary, target),
            ProposalAction(ConfigType.REMOVE, primary, source),
        )
    swap = (
        ProposalAction(ConfigType.DOWNGRADE_TO_SECONDARY, source, source),
        ProposalAction(ConfigType.UPGRADE_TO_PRIMARY, target, target),
    )
    if kind is PlanKind.MOVE_PRIMARY:
        return swap
    return (
        ProposalAction(ConfigType.ADD_SECONDARY_FOR_LB, source, target),
        *swap,
        ProposalAction(ConfigType.REMOVE, target, source),
    )


def _check_moment(context: ProposalContext, config: PartitionConfig) -> None:
    if context.level <= FunctionLevel.FREEZED:
        raise _refusal(
            config,
            f"at level {context.level.word} it would stay pending until the level is raised",
            "Set the level to steady first.",
        )
    if config.gpid in context.pending:
        raise _refusal(
            config,
            "a proposal of an earlier run may still be executed",
            "Wait for its result, or set the level to steady in a run: set_meta_level "
            "steady discards what is pending.",
        )


def _check_nodes(context: ProposalContext, *names: str) -> None:
    for name in names:
        node = context.nodes.get(name)
        if node is None:
            raise GuardRefusedError(
                f"{name or 'An empty name'} is not the registered name of a node: the servers "
                "would ignore it or crash.",
                hint=_registered(context, name),
            )
        if not node.is_alive:
            raise GuardRefusedError(f"{name} is not alive.", hint="Choose another node.")
    if len(set(names)) != len(names):
        raise GuardRefusedError(f"{names[0]} is both source and target.", hint="Choose two nodes.")


def _registered(context: ProposalContext, name: str) -> str:
    for node in context.nodes.values():
        if name and node.address == name:
            return f"That address is registered as {node.name}."
    return f"Registered: {', '.join(sorted(context.nodes)[:8])}."


def _check_copy(config: PartitionConfig, target: str) -> None:
    if target in config.members:
        role = "the primary" if target == config.primary else "a secondary"
        raise _refusal(
            config,
            f"{target} is already {role} of it; a second copy there would crash that server",
            "Choose a node that does not serve it.",
        )
    if config.replica_count > config.max_replica_count:
        raise _refusal(
            config,
            f"it has {config.replica_count} replicas, one more than configured; no node can learn",
            "Wait until the guardian has removed one.",
        )


def _check_assign(config: PartitionConfig, node: str) -> None:
    if not config.is_ddd:
        raise _refusal(
            config,
            "a primary is assigned manually only when every replica was lost",
            "Move the primary with move_pri instead.",
        )
    if node not in config.last_drops:
        raise _refusal(
            config,
            f"{node} is not known to have had it: its data would be lost",
            f"It was last on {', '.join(config.last_drops)}.",
        )


def _check_drop(config: PartitionConfig, node: str) -> None:
    if node == config.primary:
        raise _refusal(
            config,
            f"{node} is its primary: reads would fail until another is chosen",
            "Move the primary first.",
        )
    if node not in config.secondaries:
        raise _refusal(config, f"{node} does not serve it", _holders(config))
    if len(config.secondaries) == 1:
        raise _refusal(
            config, f"{node} is its only secondary", "Wait until another secondary has been added."
        )


def _primary(config: PartitionConfig) -> str:
    if config.primary is None:
        raise _refusal(config, "it has no primary", "Wait until the guardian has chosen one.")
    return config.primary


def _holders(config: PartitionConfig) -> str:
    return f"Its secondaries are on {', '.join(config.secondaries) or 'no node'}."


def _refusal(config: PartitionConfig, reason: str, hint: str) -> GuardRefusedError:
    return GuardRefusedError(
        f"The proposal for partition {config.gpid} is refused: {reason}.",
        hint=hint,
        gpid=config.gpid,
    )
