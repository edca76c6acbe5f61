"""Which broker gets this bundle, or each of them, and why every other broker does not."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import numpy as np

from core.ids import host_of
from core.pulsar.bundle_counts import Ints
from core.pulsar.placement.context import PlacementContext
from core.pulsar.placement.distribution import distribute
from core.pulsar.placement.extensible import (
    NO_LOADS,
    ExtensibleContext,
    ExtensibleLeastResourceUsage,
    extensible_filters,
)
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
    FilterResult,
    run_filters,
)
from core.pulsar.placement.masks import uniform
from core.pulsar.placement.model import Placement, PlacementMemory, PlacementTable, Reasons
from core.pulsar.placement.pair import describe_unpaired
from core.pulsar.placement.selectors import (
    PAIRED_NAMES,
    ROUND_ROBIN,
    STRATEGY_NAMES,
    ReasonOf,
    Selector,
    find_strategy,
)
from core.pulsar.settings import EffectiveSettings
from core.pulsar.view import Flags, Floats, LoadView
from core.units import pluralize

_ROWS_AT_ONCE: Final = 256
"""Namespaces computed together: masks of 1,000 brokers then stay in the processor's cache."""

_SIMPLE: Final = "The brokers run the legacy SimpleLoadManagerImpl, which Trimtab does not support."
_ONE_STRATEGY: Final = (
    "The extensible manager supports only LeastResourceUsageWithWeight for placement."
)

_BY_CLASS: Final = {
    "ExtensibleLoadManagerImpl": "extensible",
    "SimpleLoadManagerImpl": "simple",
}

_CLOSE_RATIO: Final = 0.05
_NAMED: Final = 3


@dataclass(frozen=True, slots=True)
class _StrategyChoice:
    """The strategy to use, or why there is none; its name either way, and what is to be said."""

    name: str
    strategy: Selector | None
    why: str = ""
    notes: tuple[str, ...] = ()

    @property
    def is_extensible(self) -> bool:
        """Whether the extensible manager's filters apply."""
        return isinstance(self.strategy, ExtensibleLeastResourceUsage)

    def context(
        self,
        view: LoadView,
        settings: EffectiveSettings,
        memory: PlacementMemory | None = None,
        candidates: Iterable[str] | None = None,
        bundle: int = -1,
        *,
        non_persistent: bool | None = None,
    ) -> PlacementContext:
        """Return the question's surroundings, as the deciding manager sees them."""
        kind = ExtensibleContext if self.is_extensible else PlacementContext
        return kind.of(view, settings, memory, candidates, bundle, non_persistent=non_persistent)


def _filtered(context: PlacementContext, namespaces: Ints) -> FilterResult:
    """Run the deciding manager's chain."""
    if isinstance(context, ExtensibleContext):
        return extensible_filters(context, namespaces)
    return run_filters(context, namespaces)


def place_bundle(  # the signature is the contract of the `place` command
    view: LoadView,
    bundle: str,
    settings: EffectiveSettings,
    *,
    strategy: str | None = None,
    candidates: Iterable[str] | None = None,
    with_filters: bool = True,
    memory: PlacementMemory | None = None,
    non_persistent: bool | None = None,
) -> Placement:
    """Return the destination distribution of the next lookup of a bundle.

    Args:
        view: Load of the cluster.
        bundle: Name.
        settings: The leader's active settings.
        strategy: Class name; ``None`` for the configured one.
        candidates: Only these brokers take part; ``None`` for all.
        with_filters: False: the strategy alone, over all candidates and without the retry.
        memory: What the leader remembers; ``None`` if it just started.
        non_persistent: Whether the bundle holds non-persistent topics, which only some brokers may
            serve; ``None`` to derive it from the topics.
    Raises:
        UnknownNameError: No such bundle, broker or strategy.
    Source:
        Pulsar ``ModularLoadManagerImpl#selectBrokerForAssignment``.
    Cost:
        O(n_brokers); an explanation for each of them.
    """
    row = view.bundle_row(bundle)
    chosen = _choose(view, settings, strategy)
    context = chosen.context(view, settings, memory, candidates, row, non_persistent=non_persistent)
    decided = _without_strategy(context, row, chosen, with_filters=with_filters)
    if decided is not None:
        return decided
    if chosen.strategy is None:
        return replace(_answer(view, row, chosen, {}, chosen.why), is_known=False)
    namespaces = np.array([view.bundle_namespace[row]], np.int64)
    if not with_filters:
        alone = _selector_alone(context, bundle, chosen.strategy, namespaces)
        return replace(alone, notes=alone.notes + chosen.notes)
    filtered = _filtered(context, namespaces)
    chances, retry = distribute(context, chosen.strategy, namespaces, filtered)
    answer = explain(context, chosen.strategy, namespaces, filtered, chances[0])
    excluded = int(namespaces[0]) in context.excluded_namespaces
    selector = ROUND_ROBIN if excluded else chosen.strategy  # the retry has no turn of its own
    after = after_pick(context, selector, filtered, 0.0 if excluded else float(retry[0]))
    if not excluded or retry[0] >= 1.0:  # the strategy itself draws, at first or in the retry
        after = with_plan(context, chosen.strategy, bundle, answer.distribution, after)
    notes = answer.notes + chosen.notes
    if retry[0] > 0:
        again = "then another broker is selected among all that the policies allow"
        notes += (f"With probability {retry[0]:.3g} the first selection is overloaded; {again}.",)
    return replace(answer, bundle=bundle, notes=notes, after=after)


def chances_of(
    view: LoadView, bundle: str, settings: EffectiveSettings
) -> tuple[dict[str, float], tuple[str, ...]] | None:
    """Return the distribution over brokers of :func:`place_bundle`, and its candidates.

    Args:
        view: Load of the cluster.
        bundle: Name.
        settings: The leader's active settings.
    Returns:
        ``None`` where no broker is drawn: :func:`place_bundle` has the reason.
    """
    row = view.bundle_row(bundle)
    chosen = _choose(view, settings, None)
    if chosen.strategy is None or view.is_broker_bound[row]:
        return None
    context = chosen.context(view, settings, None, None, row)
    namespaces = np.array([view.bundle_namespace[row]], np.int64)
    filtered = _filtered(context, namespaces)
    chances, _ = distribute(context, chosen.strategy, namespaces, filtered)
    drawn = np.flatnonzero(chances[0])
    if not drawn.size:
        return None
    names = view.brokers
    distribution = {names[at]: float(chances[0, at]) for at in drawn.tolist()}
    return distribution, tuple(names[at] for at in np.flatnonzero(filtered.candidates[0]).tolist())


def _selector_alone(
    context: PlacementContext, bundle: str, strategy: Selector, namespaces: Ints
) -> Placement:
    mask = context.usable[None, :]
    none_restored = np.zeros(1, np.bool_)
    filtered = FilterResult((), mask, mask, none_restored, none_restored)
    chances = uniform(strategy.picks(context, mask, None))
    answer = explain(context, strategy, namespaces, filtered, chances[0])
    after = after_pick(context, strategy, filtered, 0.0)
    after = with_plan(context, strategy, bundle, answer.distribution, after)
    return replace(answer, bundle=bundle, after=after)


def placement_name(settings: EffectiveSettings) -> str:
    """Return the short name of the active placement strategy."""
    simple = settings.text("loadBalancerLoadPlacementStrategy").rpartition(".")[2]
    shedder = settings.text("loadBalancerLoadSheddingStrategy").rpartition(".")[2]
    if simple in PAIRED_NAMES and shedder != simple:
        return "LeastLongTermMessageRate"  # what 5.0 does when only one of the pair is set
    return simple


def active_placement(settings: EffectiveSettings, load_manager: str) -> str:
    """Return the short name of the class that a load manager places by."""
    if load_manager == "extensible":
        return ExtensibleLeastResourceUsage.name
    return placement_name(settings)


def _unpaired(settings: EffectiveSettings) -> tuple[str, ...]:
    """Return the placement if only one strategy of a pair is configured."""
    placement = settings.text("loadBalancerLoadPlacementStrategy").rpartition(".")[2]
    found = describe_unpaired(settings)
    if placement not in PAIRED_NAMES or not found:
        return ()
    rest = " LeastLongTermMessageRate is shown instead, as release 5.0 uses it."
    return (found + (rest if settings.release < "5.0" else ""),)


def _choose(view: LoadView, settings: EffectiveSettings, wanted: str | None) -> _StrategyChoice:
    """Find the strategy: an unknown name is an error only when it was requested."""
    simple = placement_name(settings) if wanted is None else find_strategy(wanted).name
    manager = _deciding_manager(view)
    if manager == "simple":
        return _StrategyChoice(simple, None, _SIMPLE)
    if manager == "extensible":
        return _extensible(view, wanted and simple)
    if simple not in STRATEGY_NAMES:
        return _StrategyChoice(simple, None, f"Placement by {simple} is not available yet.")
    notes = _unpaired(settings) if wanted is None else ()
    return _StrategyChoice(simple, find_strategy(simple), notes=notes)


def _extensible(view: LoadView, wanted: str | None) -> _StrategyChoice:
    """Return the extensible manager's one strategy, or why it cannot be used."""
    strategy = ExtensibleLeastResourceUsage()
    if view.extensible is None:
        return _StrategyChoice(strategy.name, None, NO_LOADS)
    if wanted not in (None, strategy.name):
        return _StrategyChoice(str(wanted), None, _ONE_STRATEGY)
    return _StrategyChoice(strategy.name, strategy)


def _deciding_manager(view: LoadView) -> str:
    """Return the load manager that decides: the leader's, where brokers run several."""
    own = (view.own_class or "").rpartition(".")[2]
    if view.load_manager == "mixed":
        return _BY_CLASS.get(own, "modular")
    return view.load_manager


def _without_strategy(
    context: PlacementContext, row: int, chosen: _StrategyChoice, *, with_filters: bool
) -> Placement | None:
    """Answer for bundles whose broker is known without any strategy."""
    view, bundle = context.view, str(context.view.bundles[row])
    if view.is_broker_bound[row]:
        own = bundle.rpartition("/")[0].rpartition("/")[2]
        if own not in view.broker_index:
            why = f"This namespace is bound to {own}, which does not exist."
            return _answer(view, row, chosen, {}, why)
        others = dict.fromkeys(view.brokers, f"NamespaceService: the bundle is bound to {own}")
        others.pop(own)
        why = f"This namespace is bound to {own} and is never moved."
        return replace(_answer(view, row, chosen, {own: 1.0}, why), ruled_out=others)
    held = context.memory.preallocated.get(bundle)
    if held is None or not with_filters or chosen.strategy is None:
        return None
    reason = f"selectBrokerForAssignment: {held} was selected before and has not reported yet"
    others = {name: reason for name in view.brokers if name != held}
    answer = _answer(view, row, chosen, {held: 1.0}, f"{held} was selected recently.")
    return replace(answer, ruled_out=others, after=context.memory)


def _answer(
    view: LoadView, row: int, chosen: _StrategyChoice, distribution: dict[str, float], why: str
) -> Placement:
    return Placement(
        bundle=str(view.bundles[row]),
        strategy=chosen.name,
        distribution=distribution,
        ruled_out={},
        why=why,
        notes=view.notes,
    )


def place_all(
    view: LoadView, settings: EffectiveSettings, *, strategy: str | None = None
) -> PlacementTable:
    """Return the destination of each bundle, as if it were the only move.

    Args:
        view: Load of the cluster.
        settings: The leader's active settings.
        strategy: Class name; ``None`` for the configured one.
    Raises:
        UnknownNameError: No such strategy.
    Cost:
        O(n_namespaces * n_brokers); a namespace is computed once for all of its bundles.
    """
    everything = np.arange(len(view.namespaces))
    return place_namespaces(view, settings, everything, bound_namespaces(view), strategy=strategy)


def place_namespaces(
    view: LoadView,
    settings: EffectiveSettings,
    namespaces: Ints,
    bound: Mapping[int, int],
    *,
    strategy: str | None = None,
    non_persistent: bool = False,
) -> PlacementTable:
    """Return the destinations of some namespaces' bundles; the others are left empty.

    Args:
        view: Load of the cluster.
        settings: The leader's active settings.
        namespaces: Their rows, rising.
        bound: ``{namespace row: row of its own broker, or -1}`` of broker-bound namespaces.
        strategy: Class name; ``None`` for the configured one.
        non_persistent: Whether all of them count as bundles with non-persistent topics; else such
            bundles have a table of their own in the answer.
    Raises:
        UnknownNameError: No such strategy.
    """
    chosen = _choose(view, settings, strategy)
    n_groups = len(view.namespaces)
    if chosen.strategy is None:
        nothing = np.zeros(0, np.int32), np.zeros(0)
        offsets = np.zeros(n_groups + 1, np.int64)
        return PlacementTable(
            view=view,
            strategy=chosen.name,
            bundle_group=view.bundle_namespace,
            offsets=offsets,
            broker=nothing[0],
            probability=nothing[1],
            why=chosen.why,
            notes=view.notes,
        )
    context = chosen.context(view, settings, non_persistent=non_persistent)
    parts = [
        _place_rows(context, chosen.strategy, namespaces[start : start + _ROWS_AT_ONCE], bound)
        for start in range(0, namespaces.size, _ROWS_AT_ONCE)
    ]
    sizes = np.zeros(n_groups + 1, np.int64)
    sizes[namespaces + 1] = np.concatenate([np.zeros(0, np.int64), *(part[0] for part in parts)])
    others = None
    if not non_persistent and view.is_non_persistent.any():
        such = np.unique(view.bundle_namespace[view.is_non_persistent]).astype(np.int64)
        such = np.intersect1d(such, namespaces)
        others = place_namespaces(
            view, settings, such, bound, strategy=strategy, non_persistent=True
        )
    return PlacementTable(
        view=view,
        strategy=chosen.name,
        bundle_group=view.bundle_namespace,
        non_persistent=others,
        offsets=np.cumsum(sizes),
        broker=np.concatenate([np.zeros(0, np.int32), *(part[1] for part in parts)]),
        probability=np.concatenate([np.zeros(0), *(part[2] for part in parts)]),
        notes=view.notes + chosen.notes,
    )


def bound_namespaces(view: LoadView) -> dict[int, int]:
    """Return ``{namespace row: row of its own broker, or -1}`` of broker-bound namespaces."""
    return view.bound_namespaces


def bound_brokers(view: LoadView, namespaces: Ints) -> dict[int, int]:
    """Return the row of the broker that each broker-bound namespace belongs to; -1: not there."""
    index = view.broker_index
    return {
        row: index.get(view.namespaces[row].rpartition("/")[2], -1) for row in namespaces.tolist()
    }


def _place_rows(
    context: PlacementContext, strategy: Selector, namespaces: Ints, bound: Mapping[int, int]
) -> tuple[Ints, np.ndarray, np.ndarray]:
    """Return sizes, broker rows and probabilities of some namespaces."""
    filtered = _filtered(context, namespaces)
    chances, _ = distribute(context, strategy, namespaces, filtered)
    for row, namespace in enumerate(namespaces.tolist()):
        if namespace in bound:
            chances[row] = 0.0
            if bound[namespace] >= 0:
                chances[row, bound[namespace]] = 1.0
    rows, brokers = np.nonzero(chances)
    sizes = np.bincount(rows, minlength=namespaces.size)
    return sizes, brokers.astype(np.int32), chances[rows, brokers]


def explain(
    context: PlacementContext,
    strategy: Selector,
    namespaces: Ints,
    filtered: FilterResult,
    chances: Floats,
) -> Placement:
    """Return a placement (its bundle left blank) of one row of probabilities, with all reasons."""
    names = context.view.brokers
    namespace = int(namespaces[0])
    candidates = filtered.candidates[0]
    excluded = namespace in context.excluded_namespaces and bool(filtered.stages)
    selector = ROUND_ROBIN if excluded else strategy
    scores = selector.scores(context)
    eligible = np.flatnonzero(candidates)
    eligible_names = [names[row] for row in eligible.tolist()]
    distribution = {names[row]: float(chances[row]) for row in np.flatnonzero(chances)}
    return Placement(
        bundle="",
        strategy=selector.name,
        distribution=distribution,
        ruled_out=Reasons(partial(_ruled_out, context, selector, namespace, filtered, chances)),
        why=_why(context, selector, len(distribution), eligible.size),
        notes=(
            *_notes(
                context, selector, filtered, is_certain=eligible.size == len(distribution) == 1
            ),
            *_close_calls(context, selector, candidates, chances),
        ),
        scores=_finite_scores(eligible_names, scores[eligible]) if selector.score_label else {},
        score_label=selector.score_label,
        candidates=tuple(eligible_names),
    )


def _finite_scores(names: list[str], scores: Floats) -> dict[str, float]:
    if not np.isfinite(scores).all():
        known = np.isfinite(scores)
        names = [name for name, is_known in zip(names, known.tolist(), strict=True) if is_known]
        scores = scores[known]
    return dict(zip(names, scores.tolist(), strict=True))


def _why(context: PlacementContext, selector: Selector, winners: int, candidates: int) -> str:
    if not winners:
        return "No broker is eligible: " + (
            "the policies exclude all brokers."
            if context.usable.any()
            else "no broker has a known load report."
        )
    if candidates == winners == 1:
        return "Only one candidate."
    share = "one broker qualifies" if winners == 1 else f"one of {winners} brokers at random"
    if winners > candidates:
        return f"{selector.name}: {share}, {candidates} candidates and those of the retry."
    return f"{selector.name}: {share}, out of {candidates} candidates."


def _ruled_out(
    context: PlacementContext,
    selector: Selector,
    namespace: int,
    filtered: FilterResult,
    chances: Floats,
    broker: str | None = None,
) -> dict[str, str]:
    """Return the reasons of excluded brokers: all of them, or the specified one."""
    names = context.view.brokers
    candidates = filtered.candidates[0]
    asked = np.full(len(names), broker is None)
    if broker in context.view.broker_index:
        asked[context.view.broker_index[broker]] = True
    reasons: dict[str, str] = {}
    for row in np.flatnonzero(asked & ~context.usable):
        if known := context.view.unreported.get(names[row]):
            reasons[names[row]] = known
        elif not context.available[row]:
            reasons[names[row]] = "candidates: not among those specified"
        else:
            reasons[names[row]] = f"{POLICIES}: its load report is unknown"
    before = context.usable
    for name, stage in filtered.stages:
        gone = np.flatnonzero(asked & before & ~stage[0] & ~candidates & (chances == 0))
        if gone.size:
            reason_of = _REASONS[name](context, namespace, before)
            reasons.update({names[row]: f"{name}: {reason_of(int(row))}" for row in gone})
        before = stage[0]
    lost = np.flatnonzero(asked & candidates & (chances == 0))
    if lost.size:
        loss_of = selector.losses(context, filtered.candidates)
        reasons.update({names[row]: f"{selector.name}: {loss_of(int(row))}" for row in lost})
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
            return f"isolation policy {policy.name!r} of {name} does not match host {host}"

        return governed

    def shared(row: int) -> str:
        if context.is_non_persistent and not view.serves_non_persistent[row]:
            return "serves no non-persistent topics"
        if not context.is_non_persistent and not view.serves_persistent[row]:
            return "serves no persistent topics"
        owners = np.flatnonzero(view.is_primary[:, row])
        policy = view.policies[int(owners[0])]
        return f"primary of isolation policy {policy.name!r}, which does not match {name}"

    return shared


def _topic_reason(context: PlacementContext, _namespace: int, _before: Flags) -> ReasonOf:
    bound = context.settings.number("loadBalancerBrokerMaxTopics")
    return lambda row: f"{context.topics[row]:,} topics, the maximum is {bound:,.0f}"


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
            return f"{words}, the minimum is {least}"
        return f"{words} on it; failure domain {domains[row] or 'default'!r} or it has too many"

    return reason


def _serving_reason(context: PlacementContext, namespace: int, before: Flags) -> ReasonOf:
    counts = context.range_counts(np.array([namespace]))[0]
    least = int(counts[before].min())
    name = context.view.namespaces[namespace]
    return lambda row: f"{pluralize(counts[row], 'bundle')} of {name}, the minimum is {least}"


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


def _notes(
    context: PlacementContext, selector: Selector, filtered: FilterResult, *, is_certain: bool
) -> tuple[str, ...]:
    view = context.view
    notes = list(view.notes)
    if filtered.version_failed[0]:
        notes.append(
            "A broker without a valid version, or no broker left to compare, "
            "disabled BrokerVersionFilter: all brokers that the policies allow are "
            "candidates again."
        )
    if filtered.restored[0]:
        notes.append(
            "No broker passed the filters: all brokers that the policies allow are "
            "candidates again."
        )
    memory = selector.unknown_memory(context)
    if memory and not is_certain:  # a single candidate needs no rates
        notes.append(memory)
    if (view.serves_persistent != view.serves_non_persistent)[context.usable].any():
        notes.append(
            "Some brokers serve only one kind of topic; this bundle is placed as "
            "one with "
            f"{'non-persistent' if context.is_non_persistent else 'persistent'} "
            "topics."
        )
    unknown = int((context.usable & ~view.usage_known).sum())
    if not view.has_report.any() and view.load_manager != "extensible":
        notes.append("No load report of any broker is known: all candidates count as equal.")
    elif unknown:
        notes.append(f"{unknown} brokers report no usage; it counts as 0, as in the leader.")
    return tuple(notes)


def _close_calls(
    context: PlacementContext, selector: Selector, candidates: Flags, chances: Floats
) -> tuple[str, ...]:
    """Name losers so near that the age of the averages may turn the order."""
    if not selector.is_by_averages:
        return ()
    scores = selector.scores(context)
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
    text = (
        f"Within {_CLOSE_RATIO:.0%} of the min rate: {listed}. {age}: the order may have changed."
    )
    return (text,)


def after_pick(
    context: PlacementContext, strategy: Selector, filtered: FilterResult, retry: float
) -> PlacementMemory:
    """Return the leader's memory afterwards; a retry counts if it is certain."""
    memory = replace(context.memory, plans_picks=False)
    return strategy.after_pick(context, filtered, retry, memory)


def with_plan(
    context: PlacementContext,
    strategy: Selector,
    bundle: str,
    distribution: Mapping[str, float],
    memory: PlacementMemory,
) -> PlacementMemory:
    """Return the memory with the pick as a plan, or ready to take it once a broker is drawn.

    Source:
        Pulsar ``AvgShedder#selectBroker`` up to 4.2; 5.0 keeps plans for one shedding round only.
    """
    if not strategy.plans_picks(context) or not distribution:
        return memory
    ready = replace(memory, plans_picks=True)
    return ready.with_picked(bundle, next(iter(distribution))) if len(distribution) == 1 else ready
