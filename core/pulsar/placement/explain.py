"""The words of a placement: why each broker that gets nothing gets nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Final

import numpy as np

from core.ids import host_of
from core.pulsar.bundle_counts import Ints
from core.pulsar.placement.context import PlacementContext
from core.pulsar.placement.filters import (
    ANTI_AFFINITY,
    ANTI_AFFINITY_FILTER,
    CLASS,
    ISOLATION_FILTER,
    MAX_SERVING,
    MAX_TOPICS,
    POLICIES,
    TOPIC_COUNT,
    VERSION,
    Filtered,
)
from core.pulsar.placement.model import Placement, PlacementMemory, Reasons
from core.pulsar.placement.selectors import (
    ROUND_ROBIN,
    AvgShedder,
    LeastLongTermMessageRate,
    LeastResourceUsageWithWeight,
    ReasonOf,
    RoundRobinBrokerSelector,
    Selector,
)
from core.pulsar.view import Flags, Floats
from core.units import pluralize

_CLOSE_RATIO: Final = 0.05
_NAMED: Final = 3


def explain(
    context: PlacementContext,
    strategy: Selector,
    namespaces: Ints,
    filtered: Filtered,
    chances: Floats,
) -> Placement:
    """Return a placement (its bundle left blank) of one row of probabilities, with all reasons."""
    names = context.view.brokers
    namespace = int(namespaces[0])
    candidates = filtered.candidates[0]
    excluded = namespace in context.excluded_namespaces and bool(filtered.stages)
    asked = ROUND_ROBIN if excluded else strategy
    scores = asked.scores(context)
    eligible = np.flatnonzero(candidates)
    eligible_names = [names[row] for row in eligible.tolist()]
    distribution = {names[row]: float(chances[row]) for row in np.flatnonzero(chances)}
    return Placement(
        bundle="",
        strategy=asked.name,
        distribution=distribution,
        ruled_out=Reasons(partial(_ruled_out, context, asked, namespace, filtered, chances)),
        why=_why(context, asked, len(distribution), eligible.size),
        notes=(
            *_notes(context, asked, filtered),
            *_close_calls(context, asked, candidates, chances),
        ),
        scores=_finite_scores(eligible_names, scores[eligible]) if asked.score_label else {},
        score_label=asked.score_label,
        candidates=tuple(eligible_names),
    )


def _finite_scores(names: list[str], scores: Floats) -> dict[str, float]:
    if not np.isfinite(scores).all():
        known = np.isfinite(scores)
        names = [name for name, is_known in zip(names, known.tolist(), strict=True) if is_known]
        scores = scores[known]
    return dict(zip(names, scores.tolist(), strict=True))


def _why(context: PlacementContext, asked: Selector, winners: int, candidates: int) -> str:
    if not winners:
        return "No broker is eligible: " + (
            "the policies allow none of them."
            if context.usable.any()
            else "of none of them a load report is known."
        )
    if candidates == winners == 1:
        return "There is one candidate."
    share = "one broker wins" if winners == 1 else f"one of {winners} brokers at random"
    if winners > candidates:
        return f"{asked.name}: {share}, {candidates} candidates and those of the retry."
    return f"{asked.name}: {share}, out of {candidates} candidates."


def _ruled_out(
    context: PlacementContext,
    asked: Selector,
    namespace: int,
    filtered: Filtered,
    chances: Floats,
) -> dict[str, str]:
    names = context.view.brokers
    candidates = filtered.candidates[0]
    reasons: dict[str, str] = {}
    for row in np.flatnonzero(~context.usable):
        reasons[names[row]] = (
            "candidates: not among those given"
            if not context.available[row]
            else f"{POLICIES}: its load report is unknown"
        )
    before = context.usable
    for name, stage in filtered.stages:
        gone = np.flatnonzero(before & ~stage[0] & ~candidates & (chances == 0))
        if gone.size:
            reason_of = _REASONS[name](context, namespace, before)
            reasons.update({names[row]: f"{name}: {reason_of(int(row))}" for row in gone})
        before = stage[0]
    lost = np.flatnonzero(candidates & (chances == 0))
    if lost.size:
        loss_of = asked.losses(context, filtered.candidates)
        reasons.update({names[row]: f"{asked.name}: {loss_of(int(row))}" for row in lost})
    return {name: reasons[name] for name in names if name in reasons}


def _policy_reason(context: PlacementContext, namespace: int, _before: Flags) -> ReasonOf:
    view = context.view
    governing = int(view.namespace_policy[namespace])
    name = view.namespaces[namespace]
    if governing >= 0:
        policy = view.policies[governing]
        primaries = int((view.is_primary[governing] & context.available).sum())
        there = "1 primary" if primaries == 1 else f"{primaries} primaries"

        def governed(row: int) -> str:
            host = host_of(view.brokers[row])
            if view.is_secondary[governing, row]:
                return (
                    f"secondary of isolation policy {policy.name!r}, which has {there} and needs "
                    f"{policy.min_limit}"
                )
            return f"isolation policy {policy.name!r} of {name} does not name host {host}"

        return governed

    def shared(row: int) -> str:
        if context.is_non_persistent and not view.serves_non_persistent[row]:
            return "serves no non-persistent topics"
        if not context.is_non_persistent and not view.serves_persistent[row]:
            return "serves no persistent topics"
        owners = np.flatnonzero(view.is_primary[:, row])
        policy = view.policies[int(owners[0])]
        return f"primary of isolation policy {policy.name!r}, which does not hold {name}"

    return shared


def _topic_reason(context: PlacementContext, _namespace: int, _before: Flags) -> ReasonOf:
    bound = context.settings.number("loadBalancerBrokerMaxTopics")
    return lambda row: f"{context.topics[row]:,} topics, the most allowed is {bound:,.0f}"


def _group_reason(context: PlacementContext, namespace: int, before: Flags) -> ReasonOf:
    view = context.view
    group = int(view.namespace_group[namespace])
    counts = context.group_counts[group]
    least = int(counts[before].min())
    domains = view.failure_domains

    def reason(row: int) -> str:
        held = pluralize(counts[row], context.group_unit)
        words = f"{held} of anti-affinity group {view.groups[group]!r}"
        if context.domains is None:
            return f"{words}, the least is {least}"
        return f"{words} on it; failure domain {domains[row] or 'default'!r} or it has too many"

    return reason


def _serving_reason(context: PlacementContext, namespace: int, before: Flags) -> ReasonOf:
    counts = context.range_counts(np.array([namespace]))[0]
    least = int(counts[before].min())
    name = context.view.namespaces[namespace]
    return lambda row: f"{pluralize(counts[row], 'bundle')} of {name}, the least is {least}"


def _class_reason(context: PlacementContext, _namespace: int, _before: Flags) -> ReasonOf:
    classes = context.view.load_manager_classes
    own = (context.view.own_class or "").rpartition(".")[2]
    return lambda row: f"runs {(classes[row] or 'unknown').rpartition('.')[2]}, the leader {own}"


def _version_reason(context: PlacementContext, _namespace: int, before: Flags) -> ReasonOf:
    ranks = np.where(before, context.version_ranks, -1)
    latest = context.view.versions[int(ranks.argmax())]
    return lambda row: f"version {context.view.versions[row]}, the latest is {latest}"


_REASONS: dict[str, Callable[[PlacementContext, int, Flags], ReasonOf]] = {
    POLICIES: _policy_reason,
    TOPIC_COUNT: _topic_reason,
    ANTI_AFFINITY: _group_reason,
    MAX_SERVING: _serving_reason,
    CLASS: _class_reason,
    VERSION: _version_reason,
    MAX_TOPICS: _topic_reason,
    ANTI_AFFINITY_FILTER: _group_reason,
    ISOLATION_FILTER: _policy_reason,
}


def _notes(context: PlacementContext, asked: Selector, filtered: Filtered) -> tuple[str, ...]:
    view = context.view
    notes = list(view.notes)
    if filtered.version_failed[0]:
        notes.append(
            "A broker without a valid version, or no broker left to compare, switched "
            "BrokerVersionFilter off: everything that the policies allow is a candidate again."
        )
    if filtered.restored[0]:
        notes.append(
            "The filters left no broker: everything that the policies allow is a candidate again."
        )
    notes.extend(_unknown_memory(context, asked))
    if (view.serves_persistent != view.serves_non_persistent)[context.usable].any():
        notes.append(
            "Some brokers serve one kind of topics only; this bundle is placed as one with "
            f"{'non-persistent' if context.is_non_persistent else 'persistent'} topics."
        )
    unknown = int((context.usable & ~view.usage_known).sum())
    if not view.has_report.any() and view.load_manager != "extensible":
        notes.append("No load report of any broker is known: all candidates count as equal.")
    elif unknown:
        notes.append(f"{unknown} brokers report no usage; it counts as 0, as the leader counts it.")
    return tuple(notes)


def _unknown_memory(context: PlacementContext, asked: Selector) -> list[str]:
    """Return what only the leader remembers."""
    memory = context.memory
    notes = []
    if isinstance(asked, LeastResourceUsageWithWeight) and not memory.smoothed_usage:
        notes.append("Usage is taken as it is now: the leader's own smoothed usage is unknown.")
    if isinstance(asked, RoundRobinBrokerSelector) and memory.round_robin_count is None:
        notes.append("The leader's counter is unknown: every candidate is equally likely.")
    if isinstance(asked, AvgShedder) and context.planned < 0:
        notes.append(
            "No destination is planned for the bundle: every candidate is equally likely. What "
            "AvgShedder plans is in the leader's memory only."
        )
    if isinstance(asked, LeastLongTermMessageRate) and context.long_doubt.any():
        notes.append(
            "Bundles moved since the leader last wrote its averages: brokers that may have the "
            "least long-term rate as far as these show share the chance."
        )
    return notes


def _close_calls(
    context: PlacementContext, asked: Selector, candidates: Flags, chances: Floats
) -> tuple[str, ...]:
    """Name losers so near that the age of the averages may turn the order."""
    if not isinstance(asked, LeastLongTermMessageRate):
        return ()
    scores = asked.scores(context)
    picked = scores[candidates & (chances > 0)]
    if not picked.size or not np.isfinite(picked.min()):
        return ()
    near = candidates & (chances == 0) & (scores <= picked.min() * (1 + _CLOSE_RATIO))
    if not near.any():
        return ()
    names = [context.view.brokers[row] for row in np.flatnonzero(near)[:_NAMED]]
    more = int(near.sum()) - len(names)
    listed = ", ".join(names) + (f" and {more} more" if more else "")
    age = "The averages are as old as the leader's last write"
    text = f"Within {_CLOSE_RATIO:.0%} of the least rate: {listed}. {age}: one may be first by now."
    return (text,)


def after_pick(
    context: PlacementContext, strategy: Selector, filtered: Filtered, retry: float
) -> PlacementMemory:
    """Return what the leader remembers after the question; a retry counts when it is certain."""
    memory = replace(context.memory, plans_picks=False)
    if isinstance(strategy, LeastResourceUsageWithWeight):
        asked = filtered.candidates[0]
        usage = strategy.scores(context)
        if retry >= 1.0:
            usage = np.where(asked, strategy.smooth(context, usage), usage)
            asked = asked | filtered.allowed[0]
        names = context.view.brokers
        new = {names[row]: float(usage[row]) for row in np.flatnonzero(asked)}
        return replace(memory, smoothed_usage={**memory.smoothed_usage, **new})
    if isinstance(strategy, RoundRobinBrokerSelector) and memory.round_robin_count is not None:
        return replace(memory, round_robin_count=memory.round_robin_count + 1 + (retry >= 1.0))
    return memory


def with_plan(
    context: PlacementContext,
    strategy: Selector,
    bundle: str,
    distribution: Mapping[str, float],
    memory: PlacementMemory,
) -> PlacementMemory:
    """Return the memory with AvgShedder's new plan, or ready to take it once a broker is drawn.

    Source:
        Pulsar ``AvgShedder#selectBroker`` up to 4.2; 5.0 keeps plans for one shedding round only.
    """
    if not isinstance(strategy, AvgShedder) or context.view.release >= "5.0" or not distribution:
        return memory
    ready = replace(memory, plans_picks=True)
    return ready.with_picked(bundle, next(iter(distribution))) if len(distribution) == 1 else ready
