"""The whole answer about one split: when, where, its effect, what it costs, and whether."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import numpy as np
import pyarrow.compute as pc

from core.errors import UnknownNameError
from core.ids import FULL_UPPER
from core.pulsar.quotas import long_averages
from core.pulsar.settings import EffectiveSettings
from core.pulsar.split.algorithms import (
    BY_FLOW,
    BY_HAND,
    BY_RANGE,
    Positions,
    SplitLimits,
    TopicLoads,
    default_algorithm,
    default_positions,
    most_even_position,
    refusal,
    split_positions,
)
from core.pulsar.split.conditions import CUT, is_due, split_conditions
from core.pulsar.split.model import (
    SplitCondition,
    SplitCost,
    SplitPart,
    SplitSubject,
    SplitVerdict,
    SplitWhatIf,
)
from core.snapshot import PulsarSnapshot
from core.units import format_bytes_per_s, format_msgs_per_s, format_ratio, pluralize

DOMINANT_RATIO: Final = 2 / 3
"""A topic with this share of the load or more makes a split pointless: its part keeps it all."""

_USELESS_RATIO: Final = 0.9
_CLEARLY_RATIO: Final = 0.05
_TABLE_VIEW_IN_STORE: Final = "ServiceUnitStateMetadataStoreTableViewImpl"


@dataclass(frozen=True, kw_only=True)
class _SplitCase:
    """One question with everything that its answer needs."""

    subject: SplitSubject
    algorithm: str
    positions: Positions
    topics: TopicLoads | None
    limits: SplitLimits
    settings: EffectiveSettings
    is_extensible: bool


def explain_split(
    snapshot: PulsarSnapshot,
    settings: EffectiveSettings,
    bundle: str,
    *,
    algorithm: str | None = None,
    positions: Sequence[int] = (),
) -> SplitWhatIf:
    """Return the effect of a split.

    Args:
        snapshot: Its ``topics`` table holds the bundle's topics if they were requested.
        bundle: Name.
        algorithm: ``None`` for the cluster's default, or ``range_equally_divide`` where that is no
            algorithm (as brokers take it) or one that needs positions by hand.
        positions: For ``specified_positions_divide``.
    Raises:
        UnknownNameError: No such bundle or algorithm.
        InputError: Positions are needed and none is given.
    """
    subject = split_subject(snapshot, bundle)
    topics = TopicLoads.of(snapshot.topics, bundle)
    limits = SplitLimits.of(settings)
    default = default_algorithm(settings)
    name = algorithm or (BY_RANGE if default == BY_HAND else default)
    bounds = (subject.lower, subject.upper)
    where = split_positions(name, bounds, topics, limits=limits, given=positions)
    case = _SplitCase(
        subject=subject,
        algorithm=name,
        positions=where,
        topics=topics,
        limits=limits,
        settings=settings,
        is_extensible=snapshot.manifest.load_manager == "extensible",
    )
    conditions = split_conditions(
        subject,
        settings,
        is_extensible=case.is_extensible,
        by_default=default_positions(settings, bounds, topics),
    )
    parts = split_parts(subject, where.values, topics)
    due = is_due(conditions)
    return SplitWhatIf(
        subject=subject,
        algorithm=name,
        positions=where.values,
        parts=parts,
        verdict=_verdict(case, parts, conditions),
        conditions=conditions,
        is_due=due,
        when=_when(case, conditions, due=due),
        cost=_cost(case),
        notes=_notes(case, parts),
    )


def _verdict(
    case: _SplitCase, parts: tuple[SplitPart, ...], conditions: tuple[SplitCondition, ...]
) -> SplitVerdict:
    refused = _refused(case)
    if refused is not None:
        return refused
    if not case.positions.is_known:
        hint = "Open the bundle, or capture it with its topics, and try again."
        return SplitVerdict(code="unknown", sentence=case.positions.why, hint=hint)
    single = case.subject.topic_count is not None and case.subject.topic_count < 2
    if single or (case.topics is not None and case.topics.hashes.size < 2):
        return SplitVerdict(
            code="cannot_help",
            sentence="A split cannot help: the bundle does not have two topics, and a topic "
            "is never divided between bundles.",
            hint="Add partitions to the topic if it carries too much.",
        )
    dominant = _dominant(case, conditions)
    if dominant is not None:
        return dominant
    if not case.positions.values:
        return SplitVerdict(
            code="no_change",
            sentence=f"No split would happen, although the request succeeds. {case.positions.why}",
        )
    return _helps(case, parts)


def _refused(case: _SplitCase) -> SplitVerdict | None:
    """Return the error that the brokers return, if any."""
    supported = case.settings.names("supportedNamespaceBundleSplitAlgorithms")
    if case.algorithm not in supported:
        return SplitVerdict(
            code="refused",
            sentence=f"The brokers refuse {case.algorithm}: it is not among "
            "supportedNamespaceBundleSplitAlgorithms.",
            hint=f"Supported: {', '.join(supported)}.",
        )
    default = case.settings.text("defaultNamespaceBundleSplitAlgorithm")
    if case.algorithm == BY_FLOW and default != BY_FLOW:
        by_hand = (
            f"Request {BY_HAND} at the positions shown, or set" if case.positions.values else "Set"
        )
        return SplitVerdict(
            code="refused",
            sentence=f"The brokers return an error (500) for {BY_FLOW} while "
            f"defaultNamespaceBundleSplitAlgorithm is {default}.",
            hint=f"{by_hand} the default to {BY_FLOW}.",
            better=case.positions.values,
        )
    why = refusal((case.subject.lower, case.subject.upper), case.positions.values)
    if why:
        return SplitVerdict(code="refused", sentence=f"The brokers refuse to split there: {why}")
    return None


def _dominant(case: _SplitCase, conditions: tuple[SplitCondition, ...]) -> SplitVerdict | None:
    """Return a note when one topic is most of what is too much."""
    topics = case.topics
    over = {item.unit for item in conditions if item.kind == "trigger" and item.is_met}
    if topics is None or over & {"topics", "producers + consumers"}:
        return None
    by_rate = "msg/s" in over and "bytes/s" not in over
    measure = topics.msg_rate if by_rate or not topics.throughput.sum() else topics.throughput
    total = float(measure.sum())
    if total <= 0:
        return None
    top = int(measure.argmax())
    share = float(measure[top]) / total
    if share < DOMINANT_RATIO:
        return None
    text = format_bytes_per_s if measure is topics.throughput else format_msgs_per_s
    return SplitVerdict(
        code="cannot_help",
        sentence=f"A split cannot help: one topic, {topics.names[top]}, carries "
        f"{format_ratio(share)} of the load ({text(float(measure[top]))} of {text(total)}), and a "
        "topic is never divided between bundles.",
        hint="Add partitions to that topic: each one has its own hash.",
    )


def _helps(case: _SplitCase, parts: tuple[SplitPart, ...]) -> SplitVerdict:
    shares = [part.share for part in parts if part.share is not None]
    if case.topics is None:
        return _assumed(len(parts), shares)
    if len(shares) < len(parts):
        return SplitVerdict(
            code="helps",
            sentence=f"It is split into {len(parts)} parts; their load is unknown.",
        )
    largest = max(shares)
    is_useless = largest >= _USELESS_RATIO
    start = "A split there cannot help: it makes" if is_useless else "It is split into"
    better = _better_cut(case, largest)
    return SplitVerdict(
        code="cannot_help" if is_useless else "helps",
        sentence=f"{start} {len(parts)} parts; the largest has {format_ratio(largest)} "
        "of the load.",
        hint=""
        if better is None
        else f"{BY_HAND} at 0x{better[0]:08x} would leave the largest part with "
        f"{format_ratio(better[1])}.",
        better=() if better is None else better[:1],
    )


def _assumed(count: int, shares: Sequence[float]) -> SplitVerdict:
    """Return the boundaries without a promise: one topic may carry all of the load."""
    spread = (
        f"the largest has {format_ratio(max(shares))} of the hash range"
        if len(shares) == count
        else "their load is unknown"
    )
    return SplitVerdict(
        code="assumed",
        sentence=f"The bundle is split into {count} parts; {spread}.",
        hint="Assumption: load is proportional to the hash range. Fetch the topics for an exact "
        "result.",
    )


def _better_cut(case: _SplitCase, largest: float) -> tuple[int, float] | None:
    """Return the position that halves the load best, and the share of its largest part.

    ``None`` if it is not clearly better than the cut in question.
    """
    best = None if case.topics is None else most_even_position(case.topics)
    return None if best is None or largest - best[1] < _CLEARLY_RATIO else best


def _when(case: _SplitCase, conditions: tuple[SplitCondition, ...], *, due: bool | None) -> str:
    who = "its owner" if case.is_extensible else "the leader"
    met = [item.sentence for item in conditions if item.kind == "trigger" and item.is_met]
    if due:
        again = ", after enough consecutive checks" if case.is_extensible else " at its next check"
        return f"Without a request, {who} splits it{again}: {met[0]}"
    may_be_over = any(item.is_met is not False for item in conditions if item.kind == "trigger")
    blocking = [
        item.sentence
        for item in conditions
        if item.kind in ("switch", "guard")
        and item.is_met is False
        and (may_be_over or item.name != CUT)  # nothing is cut before a limit is exceeded
    ]
    if blocking:
        return f"It is not split automatically: {blocking[0]}"
    unknown = [item.sentence for item in conditions if item.is_met is None]
    if due is None:
        return f"Whether {who} splits it is unknown: {unknown[0]}"
    return f"It is not split automatically: no limit is exceeded. {_nearest(conditions)}"


def _nearest(conditions: tuple[SplitCondition, ...]) -> str:
    """Name the limit that is nearest to being exceeded."""
    known = [
        (item.measured / item.threshold, item.sentence)
        for item in conditions
        if item.kind == "trigger" and item.measured is not None and item.threshold
    ]
    return f"Nearest: {max(known)[1]}" if known else ""


def _cost(case: _SplitCase) -> SplitCost:
    subject, more = case.subject, len(case.positions.values)
    before = pluralize(subject.bundles_in_namespace, "bundle")
    if not more:
        return _no_cost(case, before)
    view = case.settings.text("loadManagerServiceUnitStateTableViewClassName")
    in_store = view.rpartition(".")[2] == _TABLE_VIEW_IN_STORE
    # modular: an ownership node and, once written, an averages node for each bundle
    znodes = more * (int(in_store) if case.is_extensible else 2)
    return cost_of(
        subject.namespace,
        (subject.bundles_in_namespace, subject.bundles_in_namespace + more),
        maximum=case.limits.bundles,
        znodes=znodes,
    )


def cost_of(namespace: str, bundles: tuple[int, int], *, maximum: int, znodes: int) -> SplitCost:
    """Return the total cost of one namespace's splits.

    Args:
        namespace: Its name.
        bundles: Before and after.
        maximum: ``loadBalancerNamespaceMaximumBundles``.
        znodes: ZooKeeper nodes more.
    """
    before, after = bundles
    over = (
        f"; that is more than {maximum} (loadBalancerNamespaceMaximumBundles): "
        "automatic splits of the namespace stop"
        if after > maximum
        else ""
    )
    return SplitCost(
        bundles_before=before,
        bundles_after=after,
        maximum_bundles=maximum,
        znodes_added=znodes,
        sentence=f"{namespace} changes from {pluralize(before, 'bundle')} to {after:,} and adds "
        f"{pluralize(znodes, 'ZooKeeper node')}{over}. Bundles cannot be merged again.",
    )


def _no_cost(case: _SplitCase, before: str) -> SplitCost:
    """Return that nothing is added, or that the amount is unknown."""
    subject = case.subject
    known = case.positions.is_known
    return SplitCost(
        bundles_before=subject.bundles_in_namespace,
        bundles_after=subject.bundles_in_namespace if known else None,
        maximum_bundles=case.limits.bundles,
        znodes_added=0 if known else None,
        sentence=f"{subject.namespace} stays at {before}."
        if known
        else f"{subject.namespace} has {before}; the number of new bundles depends "
        "on topics that were not read. Bundles cannot be merged again.",
    )


def _notes(case: _SplitCase, parts: tuple[SplitPart, ...]) -> tuple[str, ...]:
    notes = []
    if len(parts) > 1:
        notes.append(_note_on_owners(case))
    if case.topics is None:
        notes.append(
            "The bundle's topics were not read: the load of the parts is assumed "
            "in proportion to the width of their ranges."
        )
    elif case.subject.topic_count not in (None, case.topics.hashes.size):
        notes.append(
            "The report counts "
            f"{pluralize(case.subject.topic_count or 0, 'topic')}, "
            f"{case.topics.hashes.size} were read: topics were added or removed in "
            "between."
        )
    if case.algorithm == BY_HAND and case.topics is None:
        notes.append(
            "A bundle with fewer than two loaded topics is not split at specified positions."
        )
    if not case.is_extensible:
        notes.append(
            "An accepted request does not prove a split: Trimtab reads the "
            "boundaries again afterwards."
        )
    return tuple(notes)


def _note_on_owners(case: _SplitCase) -> str:
    if case.is_extensible:
        return "The parts stay with the owner; this manager ignores the option to unload them."
    unloads = case.settings.flag("loadBalancerAutoUnloadSplitBundlesEnabled")
    automatic = "unloads the parts" if unloads else "leaves the parts where they are"
    return (
        "Unless they are unloaded, the parts stay with the owner; otherwise each is placed again "
        f"and its clients reconnect. An automatic split {automatic}."
    )


def split_parts(
    subject: SplitSubject, positions: Sequence[int], topics: TopicLoads | None
) -> tuple[SplitPart, ...]:
    """Return the parts in ring order; they tile the bundle's range.

    Each topic goes where its hash falls. Where the topics were not read, the load is distributed by
    the width of the parts, and each part says so.

    Args:
        subject: The bundle.
        positions: Inner boundaries, ascending.
        topics: Its topics; ``None`` if not read.
    """
    bounds = (subject.lower, *positions, subject.upper)
    if topics is None:
        width = max(subject.upper - subject.lower, 1)
        return tuple(
            _by_width(subject, lower, upper, (upper - lower) / width)
            for lower, upper in pairwise(bounds)
        )
    # only the ring's very last bound belongs to the part below it
    edges = np.array([*bounds[1:-1], bounds[-1] + (bounds[-1] == FULL_UPPER)], np.int64)
    part = np.searchsorted(edges, topics.hashes, side="right")
    inside = part < len(edges)
    flow = _per_part(part, topics.throughput, inside, len(edges))
    rate = _per_part(part, topics.msg_rate, inside, len(edges))
    sessions = _per_part(part, topics.sessions.astype(np.float64), inside, len(edges))
    count = np.bincount(part[inside], minlength=len(edges))
    measure = flow if flow.sum() > 0 else rate
    total = measure.sum()
    return tuple(
        SplitPart(
            lower=lower,
            upper=upper,
            topic_count=int(count[index]),
            msg_rate=float(rate[index]),
            throughput=float(flow[index]),
            sessions=int(sessions[index]),
            share=float(measure[index] / total) if total > 0 else None,
            is_assumed=False,
        )
        for index, (lower, upper) in enumerate(pairwise(bounds))
    )


def _per_part(part: np.ndarray, values: np.ndarray, inside: np.ndarray, count: int) -> np.ndarray:
    return np.bincount(part[inside], weights=values[inside], minlength=count)


def _by_width(subject: SplitSubject, lower: int, upper: int, share: float) -> SplitPart:
    return SplitPart(
        lower=lower,
        upper=upper,
        topic_count=None,
        msg_rate=_dealt(subject.msg_rate, share),
        throughput=_dealt(subject.throughput, share),
        sessions=None,
        share=share,
        is_assumed=True,
    )


def _dealt(total: float | None, share: float) -> float | None:
    return None if total is None else total * share


def split_subject(snapshot: PulsarSnapshot, bundle: str) -> SplitSubject:
    """Return the facts about a bundle.

    Raises:
        UnknownNameError: The snapshot has no such bundle.
    """
    bundles = snapshot.bundles
    at = pc.index(bundles.column("bundle"), bundle).as_py()
    if at < 0:
        known = bundles.column("bundle").to_pylist()
        place = f"the snapshot of {snapshot.manifest.cluster}"
        raise UnknownNameError.of("bundle", bundle, known, place=place)
    row = bundles.slice(at, 1).to_pylist()[0]
    long_msgs_per_s, long_bytes_per_s = (_known(rates[at]) for rates in long_averages(snapshot))
    is_stored = _total(row, "long_msg_rate_in", "long_msg_rate_out") is not None
    return SplitSubject(
        bundle=bundle,
        namespace=row["namespace"],
        lower=row["lower"],
        upper=row["upper"],
        owner=row["owner"],
        reporter=row["reported_by"],
        is_broker_bound=row["is_broker_bound"],
        topic_count=row["topic_count"],
        sessions=_total(row, "producer_count", "consumer_count"),
        msg_rate=_total(row, "msg_rate_in", "msg_rate_out"),
        throughput=_total(row, "msg_throughput_in", "msg_throughput_out"),
        long_msg_rate=long_msgs_per_s,
        long_throughput=long_bytes_per_s,
        bundles_in_namespace=_bundle_count(snapshot, row["namespace"]),
        brokers=snapshot.brokers.num_rows,
        is_from_quota=long_msgs_per_s is not None and not is_stored,
    )


def _known(value: float) -> float | None:
    return None if math.isnan(value) else float(value)


def _total(row: Mapping[str, Any], *names: str) -> Any:
    """Sum of what is known; ``None`` when nothing is."""
    known = [row[name] for name in names if row[name] is not None]
    return sum(known) if known else None


def _bundle_count(snapshot: PulsarSnapshot, namespace: str) -> int:
    """By the boundaries, where they are known; a report names loaded bundles only."""
    spaces = snapshot.namespaces
    at = pc.index(spaces.column("namespace"), namespace).as_py()
    boundaries = spaces.column("boundaries")[at].as_py() if at >= 0 else None
    if boundaries:
        return len(boundaries) - 1
    seen = pc.equal(snapshot.bundles.column("namespace"), namespace)
    return int(pc.sum(seen).as_py() or 0)
