"""One partition: what is wrong with it, and why the balancer moves it or leaves it where it is.

The patterns name causes; here is what the answer about a partition says in addition.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from core.diagnosis.pegasus.context import PegasusDiagnosisContext
from core.diagnosis.pegasus.trials import TimeUpError
from core.pegasus.view import NO_NODE
from core.units import pluralize


def partition_problem(context: PegasusDiagnosisContext, row: int) -> str:
    """Return the problem of a partition, or ""."""
    view, gpid = context.view, context.view.gpid_text(row)
    wanted = int(view.max_replica_counts[view.table_of_row[row]])
    held = int((view.members[row] != NO_NODE).sum())
    if row in view.children:
        return f"{gpid} is a child of a partition split: its parent serves it until it registers."
    if row not in context.unhealthy:
        return ""
    if not held:
        return f"{gpid} has no replica; its target is {wanted}."
    led = "" if view.members[row, 0] != NO_NODE else " and no primary"
    return f"{gpid} has {held} of {pluralize(wanted, 'replica')}{led}."


def partition_notes(context: PegasusDiagnosisContext, row: int) -> Iterator[str]:
    """Give where a partition is, what the balancer does with it, and why not more."""
    view, gpid = context.view, context.view.gpid_text(row)
    nodes = [view.nodes[node] for node in view.members[row].tolist() if node != NO_NODE]
    if nodes:
        yield f"{gpid} is on {', '.join(nodes)} (primary first)."
    baseline = context.baseline
    if baseline.moved_in[row]:
        state = baseline.end
        ends = ", ".join(state.nodes[node] for node in state.members[row] if node != NO_NODE)
        yield f"Round {baseline.moved_in[row]} of the balancer moves it to {ends}."
        return
    yield from _left_alone(context, row)


def _left_alone(context: PegasusDiagnosisContext, row: int) -> Iterator[str]:
    view = context.view
    table = int(view.table_of_row[row])
    name = view.app_names[table]
    if row in context.unhealthy:
        gpid = view.gpid(row)
        known = (one for one in context.outlooks if (one.config.app_id, one.config.index) == gpid)
        yield from (one.cure.reason for one in known)
        return
    if context.blockers:
        yield f"Balancing is blocked: {', '.join(context.blockers)}."
    if not view.is_balanceable[table]:
        why = "being split" if name in view.splitting_tables else "in a bulk load"
        yield f"{name} is {why}: the balancer skips it."
    ignored = int(view.app_ids[table]) in context.options.ignored_app_ids
    if ignored and context.options.policy == "app":
        yield f"{name} is on ignored_app_list: the balancer skips it."
    if int(view.max_replica_counts[table]) == 1:
        yield f"{name} has a single replica: its primaries can only be copied."
    try:
        trial = context.trials.trial(context.opened)
    except TimeUpError:
        return
    if not trial.moved_in[row]:
        yield _share(context, row, table)


def _share(context: PegasusDiagnosisContext, row: int, table: int) -> str:
    view = context.view
    led = view.primary_counts[table]
    low, high = int(led.sum()) // len(led), -(-int(led.sum()) // len(led))
    node = int(view.members[row, 0])
    even = f"{low:,}" if low == high else f"{low:,} to {high:,}"
    others = int(np.abs(led - led.mean()).argmax())
    far = "" if others == node else f"; max: {view.nodes[others]} with {led[others]:,}"
    return (
        f"{view.nodes[node]} has {led[node]:,} primaries of the table; an even share "
        f"is {even}{far}. No balancer round at level lively moves this partition."
    )
