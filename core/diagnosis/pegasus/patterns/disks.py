"""Disks: where tags decide what the balancer moves, and where one node's disks are uneven.

Source: Pegasus ``cluster_balance_policy`` (only the fullest disk gives), ``fs_manager`` (a node
chooses the disk by its number of replicas); nothing moves between the disks of a node by itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import numpy as np

from core.diagnosis.model import Cause, Effect, Outcome
from core.diagnosis.pegasus.context import PegasusDiagnosisContext
from core.pegasus.view import NO_NODE, ClusterView
from core.units import format_ratio

_MIN_MISPLACED: Final = 3
"""Replicas beyond the even share on one disk, fewer are not worth a move."""

_UNEVEN_RATIO: Final = 0.5

_CHANCE: Final = 3.0
"""So many standard deviations of a count that is drawn at random are chance."""


def tags_decide(context: PegasusDiagnosisContext) -> Iterator[Cause]:
    """The balancer ends more even once every table is spread over the disks of each node."""
    if len(context.view.disks) < 2:
        return
    proof = context.proven(context.opened, replace(context.opened, has_even_disks=True))
    if proof is None:
        return
    node, tag, held, mean = _fullest(context.view, context.node)
    yield Cause(
        code="disk_tags_decide",
        objects=(node, tag),
        summary=f"The balancer moves replicas only from the fullest disk of a table: {tag} of "
        f"{node} has {held:,} replicas, the mean of its disks is "
        f"{mean:,.1f}{proof.scope}.",
        effect=proof.effect,
        hint="Spread the tables over the disks of each node with admin-cli disk-migrate, then "
        "balance again.",
        measured=float(held),
        threshold=mean,
        unit="replicas",
    )


def disks_uneven(context: PegasusDiagnosisContext) -> Iterator[Cause]:
    """One disk of a node has far more replicas than the others: nothing ever moves between them.

    The effect is that of the disks of this node: the fullest one over their mean.
    """
    view = context.view
    node, tag, held, mean = _fullest(view, context.node)
    least = max(_MIN_MISPLACED, _CHANCE * mean**0.5, _UNEVEN_RATIO * mean)
    if not node or held - mean <= least:
        return
    place = view.nodes.index(node)
    counts, listed = _disk_counts(view)[place], list(view.node_disks[place])
    even = np.sort(counts[listed])
    spare = np.full(len(listed), counts[listed].sum() // len(listed))
    spare[: counts[listed].sum() % len(listed)] += 1
    moves = int(np.maximum(even[::-1] - np.sort(spare)[::-1], 0).sum())
    effect = Effect(
        before=Outcome(
            moves=0, returned=0, deviation=float(held / mean - 1), converges=True, rounds=0
        ),
        after=Outcome(
            moves=moves,
            returned=0,
            deviation=float(np.abs(spare - mean).max() / mean),
            converges=True,
            rounds=1,
        ),
    )
    if effect.is_better:
        yield Cause(
            code="disks_uneven",
            objects=(node, tag),
            summary=f"{tag} of {node} has {held:,} replicas, {format_ratio(held / mean - 1)} "
            f"above the mean of its {len(listed)} disks ({mean:,.1f}). The balancer does "
            "not move replicas between disks.",
            effect=effect,
            hint=f"Move replicas between the disks of {node}: admin-cli disk-balance.",
            measured=float(held),
            threshold=mean,
            unit="replicas",
        )


def _disk_counts(view: ClusterView) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    """Return replicas by node and disk, shape ``(n_nodes, n_disks)``; unknown disks left out."""
    known = (view.members != NO_NODE) & (view.member_disks != NO_NODE)
    size = max(len(view.disks), 1)
    places = view.members[known].astype(np.int64) * size + view.member_disks[known]
    return np.bincount(places, minlength=len(view.nodes) * size).reshape(len(view.nodes), size)


def _fullest(view: ClusterView, node: str | None) -> tuple[str, str, int, float]:
    """Return the disk with the max deviation from its node's mean: node, tag, replicas, mean."""
    counts = _disk_counts(view)
    best = ("", "", 0, 1.0)
    worst = 0.0
    for at, listed in enumerate(view.node_disks):
        held = counts[at][list(listed)]
        if len(listed) < 2 or not held.sum() or node not in (None, view.nodes[at]):
            continue
        share = float(held.max() / held.mean())
        if share > worst:
            disk = listed[int(held.argmax())]
            worst = share
            best = (view.nodes[at], view.disks[disk], int(held.max()), float(held.mean()))
    return best
