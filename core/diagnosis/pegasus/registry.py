"""The diagnosis of a Pegasus cluster: every pattern on one context, the best cause first."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

import numpy as np

from core.diagnosis.facts import ExplainedFindings, headline, with_facts
from core.diagnosis.model import MIN_GAIN_RATIO, Cause, Diagnosis, one_per_fix
from core.diagnosis.pegasus.context import PegasusDiagnosisContext
from core.diagnosis.pegasus.partition import partition_notes, partition_problem
from core.diagnosis.pegasus.patterns.disks import disks_uneven, tags_decide
from core.diagnosis.pegasus.patterns.health import (
    adds_blocked,
    black_list_blocks_repair,
    lost_partitions,
    too_few_nodes,
    under_repair,
)
from core.diagnosis.pegasus.patterns.holds import balancer_on_hold
from core.diagnosis.pegasus.patterns.level import level_holds
from core.diagnosis.pegasus.patterns.nodes import black_listed, dead_node, full_nodes
from core.diagnosis.pegasus.patterns.policy import (
    cluster_policy_barred,
    policy_circles,
    policy_leaves_uneven,
)
from core.diagnosis.pegasus.patterns.switches import switches_hold
from core.diagnosis.pegasus.patterns.tables import bulk_loading, too_few_partitions
from core.diagnosis.pegasus.trials import compared_nodes
from core.errors import IncompleteSnapshotError, UnknownNameError
from core.pegasus.rules.registry import pegasus_verdict
from core.pegasus.snapshot import PegasusFacts
from core.snapshot.pegasus import PegasusSnapshot
from core.units import format_ratio, pluralize

Pattern = Callable[[PegasusDiagnosisContext], Iterator[Cause]]
"""A pattern: reads the context, yields the causes that it has proven."""

PATTERNS: Final[tuple[Pattern, ...]] = (
    level_holds,
    lost_partitions,
    adds_blocked,
    black_list_blocks_repair,
    too_few_nodes,
    under_repair,
    balancer_on_hold,
    dead_node,
    full_nodes,
    policy_circles,
    switches_hold,
    bulk_loading,
    too_few_partitions,
    policy_leaves_uneven,
    tags_decide,
    disks_uneven,
)
"""What opens the balancer first: of equal effects the earlier one is listed first."""

OF_DISKS: Final = (disks_uneven,)
"""Patterns that say nothing of one partition."""

EXPLAINED: Final = ExplainedFindings(
    symptoms=("not_balanced", "node_deviation", "node_drained", "node_excluded"),
    by_cause={
        "level_freezed_by_nodes": ("level_low", "node_dead"),
        "level_freezed": ("level_low",),
        "level_too_low": ("level_low",),
        "node_disks_full": ("disk_short", "disk_scarce"),
    },
    by_completion=(
        *("partitions_dead", "partitions_unreadable", "partitions_unwritable", "partitions_ill"),
        *("partition_lost", "node_dead"),
    ),
    unit="partition",
)
"""What is the unevenness itself, and what a proven cause says already."""

UNEVEN_COUNT: Final = 2.0
"""Replicas above or below the mean, at the node of max deviation, from which a deviation above the
target is a problem even where nothing that was tried makes it smaller."""


def diagnose(
    snapshot: PegasusSnapshot,
    *,
    node: str | None = None,
    partition: str | None = None,
    earlier: Sequence[PegasusSnapshot] = (),
    budget_s: float = 2.0,
) -> Diagnosis:
    """Return the causes of an uneven, unhealthy or flapping cluster.

    Each cause is proven on this snapshot: the meta server's own balancer is simulated round by
    round without the fix and with it. What the deviation counts says
    :mod:`core.diagnosis.pegasus.trials`. A cluster that does not balance now (level, unhealthy
    partitions) is simulated as it stays: nothing moves. Switches of the balancer are judged as if
    it did, and their fix sets the level as well.

    Args:
        snapshot: The cluster.
        node: Ask about this node: its distance from the mean is what counts.
        partition: Ask about this partition, ``app.index``: causes are what keeps it where it is.
        earlier: Older snapshots, oldest first: who reset the level is read from them.
        budget_s: Seconds for trials.

    Raises:
        UnknownNameError: There is no node, or no partition, of that name.
    """
    facts = PegasusFacts(snapshot)
    names = [one.name for one in facts.nodes]
    if node is not None and node not in names:
        raise UnknownNameError.of("node", node, names)
    context = PegasusDiagnosisContext(facts, tuple(earlier), node, partition, budget_s)
    try:
        context.view, context.row  # noqa: B018 - one may be incomplete, the other unknown
    except IncompleteSnapshotError as exc:
        verdict = pegasus_verdict(facts, context.earlier)
        known = with_facts((), verdict, EXPLAINED)
        return Diagnosis(
            causes=known,
            problem=headline(known, str(exc)),
            notes=("Nothing was simulated.",),
            target_ratio=facts.target_ratio,
            verdict=verdict,
        )
    proven = one_per_fix(sorted(_found(context), key=lambda cause: _rank(context, cause)))
    trials = context.trials
    problem = _problem(context, has_causes=bool(proven))
    verdict = pegasus_verdict(facts, context.earlier)
    causes = proven
    if partition is None:
        causes = with_facts(proven, verdict, EXPLAINED)
        causes = tuple(one for one in causes if one.effect or node in (None, *one.objects))
    problem = headline(causes, problem)
    subject = _worst_deviation(context) if context.node in context.view.nodes else ""
    return Diagnosis(
        target_ratio=facts.target_ratio,
        causes=causes,
        problem=problem,
        subject="" if subject and subject in problem else subject,
        tried=trials.count,
        untried=trials.untried,
        notes=tuple(_notes(context)),
        verdict=verdict,
        seconds=budget_s,
    )


def _found(context: PegasusDiagnosisContext) -> Iterator[Cause]:
    for pattern in PATTERNS:
        if context.row is None or pattern not in OF_DISKS:
            yield from pattern(context)


def _rank(context: PegasusDiagnosisContext, cause: Cause) -> tuple[float, ...]:
    if cause.effect is None:
        return ()
    effect = context.own_part(cause.effect)
    is_stopped = effect.after.converges and not effect.before.converges
    completed = float(effect.after.missing - effect.before.missing)
    gained = -round(effect.gain, 6)
    # of a node it counts first what it gets, of a cluster that every partition is whole
    first = (completed, -float(is_stopped), gained)
    if context.node is not None:
        first = (gained, completed, -float(is_stopped))
    return (*first, effect.after.moves)


def _problem(context: PegasusDiagnosisContext, *, has_causes: bool) -> str:
    """Return the problem, worst first, or ""."""
    if context.row is not None:
        return partition_problem(context, context.row)
    if context.node in context.dead:
        return f"{context.node} is dead: it receives no replicas."
    unhealthy, total = len(context.unhealthy), context.view.partition_count
    if unhealthy:
        is_lost = len(context.lost) == unhealthy
        word = "without any replica" if is_lost else "under-replicated"
        return f"{unhealthy:,} of {pluralize(total, 'partition')} {word}."
    baseline = context.baseline
    if not baseline.converges and not baseline.moves:
        return "The balancer plans the same copies in every round, and none is executed."
    if not baseline.converges:
        return (
            f"The balancer does not converge: {pluralize(baseline.moves, 'move')} in "
            f"{pluralize(baseline.rounds, 'round')}, {baseline.returned:,} returned."
        )
    return _uneven_words(context, has_causes=has_causes)


def _uneven_words(context: PegasusDiagnosisContext, *, has_causes: bool) -> str:
    """Return the deviation of a cluster that converges, as text, or ""."""
    if not has_causes:
        return _worst_deviation(context) if _is_uneven(context) else ""
    baseline = context.baseline
    start, end = (context.over_nodes(one) or 0.0 for one in (baseline.start, baseline.end))
    if context.node is not None or start > context.facts.target_ratio:
        return _worst_deviation(context)
    if end > start + MIN_GAIN_RATIO:
        return (
            f"The balancer increases the deviation: {format_ratio(start)} now, "
            f"{format_ratio(end)} after {pluralize(baseline.moves, 'move')}."
        )
    return "Replicas are balanced over the nodes, but not within tables, disks or primaries."


def _is_uneven(context: PegasusDiagnosisContext) -> bool:
    end = context.baseline.end
    deviation = context.measure(end) or 0.0
    held = end.replica_counts.sum(axis=0)[compared_nodes(end, context.facts.columns.set_aside)]
    off = float(np.abs(held - held.mean()).max()) if held.size else 0.0
    return deviation > context.facts.target_ratio and off >= UNEVEN_COUNT


def _worst_deviation(context: PegasusDiagnosisContext) -> str:
    """Return the worse of both counts, for the requested node or the max deviation."""
    view = context.view
    set_aside = context.facts.columns.set_aside
    if context.node in set_aside:
        return ""  # empty on purpose; a note names it
    compared = compared_nodes(view, set_aside)
    found: list[tuple[float, str]] = []
    for counts, what in ((view.replica_counts, "replicas"), (view.primary_counts, "primaries")):
        held = counts.sum(axis=0)
        average = float(held[compared].mean())
        if not average:
            continue
        shares = np.abs(held - average) / average
        at = int(np.where(compared, shares, -1.0).argmax())
        if context.node in view.nodes:
            at = view.nodes.index(context.node)
        mean = f"the mean of {average:,.1f} over {pluralize(int(compared.sum()), 'node')}"
        far = format_ratio(float(shares[at]))
        found.append(
            (float(shares[at]), f"{view.nodes[at]} has {held[at]:,} {what}, {far} from {mean}.")
        )
    return max(found, key=lambda one: one[0])[1] if found else ""


def _notes(context: PegasusDiagnosisContext) -> Iterator[str]:
    yield from context.notes
    if names := context.facts.columns.nodes_with("drained"):
        yield f"Drained: {', '.join(names)}. Level lively fills drained nodes again."
    yield from black_listed(context)
    if len(context.blockers) > 1:
        yield (
            f"Balancing is blocked by: {', '.join(context.blockers)}. Each effect is the "
            "marginal effect of one fix, given all other fixes."
        )
    if context.row is not None:
        yield from partition_notes(context, context.row)
        return
    baseline = context.baseline
    before, after = context.over_nodes(baseline.start), context.over_nodes(baseline.end)
    if baseline.moves and baseline.converges:
        yield (
            f"The balancer is active: {pluralize(baseline.moves, 'move')} in "
            f"{pluralize(baseline.rounds, 'round')} pending, deviation from "
            f"{format_ratio(before)} to {format_ratio(after)}."
        )
    yield from cluster_policy_barred(context)
