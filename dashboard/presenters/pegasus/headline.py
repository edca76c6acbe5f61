"""States of Pegasus nodes on pages, and the badge of a cluster in trouble."""

from __future__ import annotations

from typing import Final

from core.pegasus.columns import NodeStatus
from core.pegasus.headline import TROUBLED, node_status_words, unhealthy_count
from core.pegasus.snapshot import PegasusFacts
from core.pegasus.summary import unwritable_partitions
from core.units import pluralize
from dashboard.presenters.freshness import Badge

NODE_STATUS_WORDS: Final[dict[NodeStatus, str]] = {
    "down": "✖ down",
    "not answering": "▲ not answering",
    "drained": "○ drained",
    "excluded": "○ excluded",
    "alive": "● alive",
}
"""Worst first."""


def trouble(facts: PegasusFacts) -> Badge | None:
    """Return nodes that are down or silent and unhealthy partitions; ``None`` if there are none."""
    columns = facts.columns
    unhealthy = unhealthy_count(columns)
    parts = [
        f"{pluralize(len(names), 'node')} {status}"
        for status in TROUBLED
        if (names := columns.nodes_with(status))
    ]
    if unhealthy:
        parts.append(f"{pluralize(unhealthy, 'partition')} unhealthy")
    unwritable = int(unwritable_partitions(facts).sum())
    if unwritable:
        parts.append(f"{pluralize(unwritable, 'partition')} unwritable")
    if not parts:
        return None
    named = "".join(f"{word}. " for word in node_status_words(columns))
    return Badge(
        text=", ".join(parts),
        icon=":material/error:",
        tone="red",
        help=f"{named}{pluralize(len(columns.part_table), 'partition')} on "
        f"{pluralize(columns.node_count, 'node')}.",
    )
