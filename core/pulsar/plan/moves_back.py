"""Bundles that changed broker since a run began, by no step of it, and their way back."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from core.actions.undo import cannot_go_back, left_moved, not_in_plan
from core.actions.views import RunView
from core.plan.model import Diagnostic
from core.pulsar.plan.policy.moves import busiest
from core.pulsar.plan.verify import SnapshotChecks
from core.snapshot import PulsarSnapshot
from core.snapshot.diff import moved_bundles
from core.units import pluralize


@dataclass(frozen=True)
class MovesBack:
    """Destinations of reverted moves.

    Attributes:
        destinations: Bundle to the broker that it was on when the run began.
        findings: What stays, and why.
    """

    destinations: dict[str, str]
    findings: tuple[Diagnostic, ...]


def moved_since(view: RunView, start: PulsarSnapshot, now: PulsarSnapshot) -> dict[str, str]:
    """Return the bundles on other brokers than when a run began: bundle to that broker.

    Args:
        view: The run; bundles of its own steps are left out, its undo is about them.
        start: A snapshot of when it began.
        now: A fresh one.
    """
    own = [one.step.subject for one in view.steps if one.begun_at is not None]
    moves = moved_bundles(start.bundles, now.bundles)
    is_other = pc.invert(pc.is_in(moves["bundle"], value_set=pa.array(own, pa.string())))
    both = pc.and_(pc.is_valid(moves["from_broker"]), pc.is_valid(moves["to_broker"]))
    moves = moves.filter(pc.and_(is_other, both))
    names, brokers = moves["bundle"].to_pylist(), moves["from_broker"].to_pylist()
    return dict(zip(names, brokers, strict=True))


def describe_moved(count: int) -> str:
    """Return ``41 bundles moved``, a clause."""
    return f"{pluralize(count, 'other bundle')} moved to another broker"


def moves_back(
    view: RunView,
    moved: dict[str, str],
    start: PulsarSnapshot,
    now: PulsarSnapshot,
    checks: SnapshotChecks,
    max_moves: int,
) -> MovesBack:
    """Return the bundles that can be moved back, busiest first.

    Args:
        moved: Of :func:`moved_since`, without those that the plan moves already.
        start: The snapshot that they were found by.
        now: A fresh one.
        checks: On the cluster as the plan leaves it.
        max_moves: Most moves; 0: none is asked for.
    """
    at = start.manifest.taken_at
    if not max_moves or not moved:
        found = [left_moved(view.run_id, describe_moved(len(moved)), at)] if moved else []
        return MovesBack({}, tuple(found))
    refused: list[tuple[str, Diagnostic]] = []
    able: list[str] = []
    for bundle, broker in moved.items():
        why = checks.bundle(bundle) or checks.destination(broker) or checks.move(bundle, broker)
        if why is None:
            able.append(bundle)
        else:
            refused.append((bundle, why))
    chosen = busiest(now, able, max_moves)
    back = {bundle: moved[bundle] for bundle in chosen}
    found = [
        left_moved(view.run_id, describe_moved(len(moved)), at, back=len(back), is_asked=True),
        *cannot_go_back([(name, why.sentence) for name, why in refused], "bundle"),
        *not_in_plan(len(able) - len(chosen), "bundle", max_moves),
    ]
    return MovesBack(back, tuple(found))
