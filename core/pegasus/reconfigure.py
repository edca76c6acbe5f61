"""How actions change a partition's configuration, and whether a proposal has happened.

No error to a proposal means queued; whether it happens is observed: the ballot grows by one with
every change, and the members show which.

Source: Pegasus ``replica_config`` (roles) and ``server_state`` (``maintain_drops``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from core.errors import InputError
from core.pegasus.balance.model import ConfigType, ProposalAction
from core.pegasus.partition import PartitionConfig

_MAX_DROPS: Final = 3
_TO_PRIMARY: Final = (ConfigType.ASSIGN_PRIMARY, ConfigType.UPGRADE_TO_PRIMARY)
_TO_SECONDARY: Final = (
    ConfigType.ADD_SECONDARY,
    ConfigType.ADD_SECONDARY_FOR_LB,
    ConfigType.UPGRADE_TO_SECONDARY,
)
_AWAY: Final = (ConfigType.DOWNGRADE_TO_INACTIVE, ConfigType.REMOVE)
State = Literal["done", "under_way", "not_begun", "otherwise"]


def apply_action(config: PartitionConfig, action: ProposalAction) -> PartitionConfig:
    """Return the configuration when one action has succeeded.

    Args:
        config: Before.
        action: An addition means the whole of it: learning, then becoming a secondary.

    Raises:
        InputError: The action does not change roles.
    """
    node = action.node
    others = tuple(one for one in config.secondaries if one != node)
    drops = tuple(one for one in config.last_drops if one != node)
    if action.type in _TO_PRIMARY:
        changed = replace(config, primary=node, secondaries=others, last_drops=drops)
    elif action.type in _TO_SECONDARY:
        changed = replace(config, secondaries=(*others, node), last_drops=drops)
    elif action.type is ConfigType.DOWNGRADE_TO_SECONDARY:
        changed = replace(config, primary=None, secondaries=(*others, node))
    elif action.type in _AWAY:
        primary = None if config.primary == node else config.primary
        dropped = (*drops, node)[-_MAX_DROPS:]
        changed = replace(config, primary=primary, secondaries=others, last_drops=dropped)
    else:
        raise InputError(
            f"{action.type.name} changes no roles.", hint="Only role changes can be followed."
        )
    return replace(changed, ballot=config.ballot + 1)


def projected_configs(
    config: PartitionConfig, actions: Sequence[ProposalAction]
) -> list[PartitionConfig]:
    """Return the configurations before the first action and after each."""
    configs = [config]
    for action in actions:
        configs.append(apply_action(configs[-1], action))
    return configs


@dataclass(frozen=True)
class ProposalResult:
    """Result of a proposal.

    Attributes:
        state: ``otherwise``: the partition changed otherwise.
        done_count: Actions that have happened, as far as that can be determined.
        sentence: The same for people.
    """

    state: State
    done_count: int
    sentence: str


def reconcile(
    before: PartitionConfig, actions: Sequence[ProposalAction], now: PartitionConfig
) -> ProposalResult:
    """Return the result of a proposal, from the current partition.

    Args:
        before: As it was just before the proposal was sent.
        actions: What was proposed, one or more.
        now: As it is.
    """
    configs = projected_configs(before, actions)
    for done, wanted in enumerate(configs):
        if now.ballot == wanted.ballot and _same_members(now, wanted):
            return _result_so_far(done, len(actions), now)
    end = configs[-1]
    if now.ballot >= end.ballot and _same_members(now, end):
        more = now.ballot - end.ballot
        return ProposalResult(
            "done",
            len(actions),
            f"{now.gpid} is as requested; {more} more changes followed or came in between.",
        )
    return ProposalResult(
        "otherwise",
        0,
        f"{now.gpid} changed differently: ballot {before.ballot} -> {now.ballot}, "
        f"primary {now.primary or 'none'}, secondaries "
        f"{', '.join(now.secondaries) or 'none'}.",
    )


def _result_so_far(done: int, wanted: int, now: PartitionConfig) -> ProposalResult:
    if done == wanted:
        return ProposalResult("done", done, f"{now.gpid} is as requested at ballot {now.ballot}.")
    if done == 0:
        return ProposalResult("not_begun", 0, f"{now.gpid} is unchanged, at ballot {now.ballot}.")
    return ProposalResult("under_way", done, f"{done} of {wanted} changes of {now.gpid} are done.")


def _same_members(one: PartitionConfig, other: PartitionConfig) -> bool:
    # Pegasus itself compares secondaries as a set
    return one.primary == other.primary and set(one.secondaries) == set(other.secondaries)
