"""A single move by hand: who may give, who may take, and why the others may not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pandas as pd

from core.errors import GuardRefusedError
from core.pegasus.levels import FunctionLevel
from core.pegasus.partition import PartitionConfig
from core.pegasus.proposal import MOVE_KINDS, ClusterSight, Move, propose_move
from core.pegasus.snapshot import PegasusFacts

MOVES: Final[dict[str, Move]] = {
    "move the primary": "move_pri",
    "copy the primary": "copy_pri",
    "copy a secondary": "copy_sec",
}
EXPLAINED: Final[dict[Move, str]] = {
    "move_pri": "Roles change with a secondary; nothing is copied, clients follow within seconds.",
    "copy_pri": "The replica is copied to a node that has none, which then leads.",
    "copy_sec": "A secondary is copied to a node that has none, and the old one goes.",
}
MAY: Final = "may take it"


def sight_of(facts: PegasusFacts) -> ClusterSight:
    """Return what proposals are checked against; an unknown level counts as one that forbids."""
    level = facts.effective_level or FunctionLevel.FREEZED
    return ClusterSight(nodes={one.name: one for one in facts.nodes}, level=level)


def config_of(facts: PegasusFacts, table: str, index: int) -> PartitionConfig | None:
    """Return a partition; ``None``: there is none such in the snapshot."""
    app_id = next((key for key, one in facts.tables.items() if one.name == table), None)
    configs = facts.partitions.get(app_id, []) if app_id is not None else []
    return next((one for one in configs if one.index == index), None)


def givers(config: PartitionConfig, move: Move) -> list[str]:
    """Return the nodes that may give in such a move."""
    if move == "copy_sec":
        return list(config.secondaries)
    return [] if config.primary is None else [config.primary]


def targets_frame(
    facts: PegasusFacts, config: PartitionConfig, move: Move, source: str
) -> pd.DataFrame:
    """Return one row a node: whether it may take the replica, why not, and what it carries.

    Those that may stand first, the emptiest of them at the top.
    """
    columns = facts.columns
    primaries = columns.counts(primaries_only=True).sum(axis=0)
    replicas = columns.counts(primaries_only=False).sum(axis=0)
    carried = primaries if move == "move_pri" else replicas
    sight = sight_of(facts)
    verdicts = [_verdict(sight, config, move, source, name) for name in columns.nodes]
    order = np.lexsort((carried, np.array([one != MAY for one in verdicts])))
    free = {
        name: float(sum(disk.available_mb for disk in disks)) for name, disks in facts.disks.items()
    }
    return pd.DataFrame(
        {
            "node": [columns.nodes[at] for at in order],
            "verdict": [verdicts[at] for at in order],
            "primaries": primaries[order],
            "replicas": replicas[order],
            "free_mb": pd.Series([free.get(columns.nodes[at]) for at in order], dtype="float64"),
        }
    )


def allowed(frame: pd.DataFrame) -> Sequence[str]:
    """Return the nodes that may take the replica, the emptiest first."""
    names: list[str] = frame.loc[frame["verdict"] == MAY, "node"].tolist()
    return names


def _verdict(
    sight: ClusterSight, config: PartitionConfig, move: Move, source: str, target: str
) -> str:
    if target == source:
        return "not: it leads it already" if source == config.primary else "not: it is the giver"
    try:
        propose_move(sight, config, MOVE_KINDS[move], source, target)
    except GuardRefusedError as refused:
        head = f"The proposal for partition {config.gpid} is refused: "
        reason = refused.message.removeprefix(head).rstrip(".")
        return f"not: {reason}"
    return MAY
