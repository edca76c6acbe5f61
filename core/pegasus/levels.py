"""Function levels of the meta server: what each allows, and which one is effective.

Source: Pegasus ``meta_function_level``, ``meta_service::check_freeze`` and the checks of the level
in ``server_state``, ``meta_service`` and ``greedy_load_balancer`` (2.6.0-SNAPSHOT, db756dc).
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final

from core.errors import UnknownNameError


class FunctionLevel(enum.IntEnum):
    """The five levels; any other number kills the leading meta server when it reads it."""

    STOPPED = 100
    BLIND = 200
    FREEZED = 300
    STEADY = 400
    LIVELY = 500

    @property
    def word(self) -> str:
        """The level as people write it: ``steady``."""
        return self.name.lower()


LEVEL_QUERY: Final = 10_000
"""``invalid``: requests the stored level and changes nothing."""


@dataclass(frozen=True)
class Allowance:
    """Operations that one level allows.

    Attributes:
        sentence: All of it for people.
        records_dead_primaries: Configurations are written, also those that record a dead primary.
        accepts_updates: Primaries may change their partition's configuration; tables are created.
        cures: The guardian repairs partitions and sends what was proposed.
        counts_balance: The balancer says what it would do, and does nothing.
        balances: The balancer acts.
        deletes_replicas: Replica servers may be ordered to delete useless replicas.
    """

    sentence: str
    records_dead_primaries: bool = False
    accepts_updates: bool = False
    cures: bool = False
    counts_balance: bool = False
    balances: bool = False
    deletes_replicas: bool = False


_NOTHING = "No record, repair or move; dead primaries stay in the configuration."
ALLOWANCES: Final[dict[FunctionLevel, Allowance]] = {
    # stopped has no code of its own: it is below blind, and that is all that is ever compared
    FunctionLevel.STOPPED: Allowance(_NOTHING),
    FunctionLevel.BLIND: Allowance(_NOTHING),
    FunctionLevel.FREEZED: Allowance(
        "Dead primaries are recorded; no repairs, no proposals.",
        records_dead_primaries=True,
    ),
    FunctionLevel.STEADY: Allowance(
        records_dead_primaries=True,
        accepts_updates=True,
        cures=True,
        counts_balance=True,
        sentence="Partitions are repaired and proposals are sent; balance operations are only "
        "counted.",
    ),
    FunctionLevel.LIVELY: Allowance(
        records_dead_primaries=True,
        accepts_updates=True,
        cures=True,
        counts_balance=True,
        balances=True,
        deletes_replicas=True,
        sentence="Partitions are repaired, then balanced; surplus replicas are deleted.",
    ),
}


def parse_level(text: str) -> FunctionLevel:
    """Return the level named ``steady``, ``fl_steady`` or ``STEADY``.

    Raises:
        UnknownNameError: There is no such level; ``frozen`` is spelled ``freezed``.
    """
    word = text.strip().lower().removeprefix("fl_")
    for level in FunctionLevel:
        if level.word == word:
            return level
    raise UnknownNameError.of("function level", text, [level.word for level in FunctionLevel])


def level_of(number: int) -> FunctionLevel:
    """Return the level with that number.

    Raises:
        UnknownNameError: It is none of the five: never to be sent, since a stored unknown level
            makes the meta server crash at the next question for its cluster information.
    """
    try:
        return FunctionLevel(number)
    except ValueError:
        known = [str(int(level)) for level in FunctionLevel]
        raise UnknownNameError.of("function level", str(number), known) from None


def clears_proposals(new: FunctionLevel) -> bool:
    """Return whether setting this level discards every pending proposal, even when unchanged."""
    return new <= FunctionLevel.STEADY


def effective_level(
    stored: FunctionLevel,
    *,
    alive_count: int,
    dead_count: int,
    min_live_node_count: int = 3,
    live_percentage: int = 65,
) -> FunctionLevel:
    """Return the effective level: ``freezed`` while too few nodes are alive.

    Args:
        stored: What was set; it never changes by itself.
        alive_count: Nodes that the failure detector believes alive.
        dead_count: Nodes it has lost since the meta server started; they stay counted.
        min_live_node_count: ``min_live_node_count_for_unfreeze``.
        live_percentage: ``node_live_percentage_threshold_for_update``, 0..100; the compiled
            default is 65, the shipped configuration sets 50.
    """
    is_few = alive_count < min_live_node_count
    is_share_low = alive_count * 100 < live_percentage * (alive_count + dead_count)
    if stored > FunctionLevel.FREEZED and (is_few or is_share_low):
        return FunctionLevel.FREEZED
    return stored
