"""Numbers and texts of the calculators: bundles, lookups, partitions, producers, storage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from core.ids import range_text
from core.planning.advisors.bundle_reasons import Action, BundleAdvice, BundleRecommendation
from core.planning.advisors.client_queue import Batch, ProducerLoad
from core.planning.advisors.ledger import (
    Rollover,
    RolloverRule,
    next_rollover,
)
from core.planning.advisors.lookups import UnloadPressure
from core.planning.advisors.partitions import CountAdvice, PartitionSpread
from core.planning.advisors.retention import (
    CompactionRule,
    Phase,
    RetentionRule,
    fate_of_log,
)
from core.planning.advisors.split_plan import PartitionNeed, SplitPlan
from core.planning.advisors.stalls import RoutedStall
from core.units import (
    UNKNOWN,
    format_age,
    format_bytes,
    format_bytes_per_s,
    format_ratio,
    pluralize,
)
from dashboard.app_pages.pulsar.advisors.charts import CompactionCurve, Filling, Tally, span
from dashboard.charts.ring import RingData
from dashboard.presenters.figures import KeyFigure
from dashboard.presenters.pulsar.advisors_inputs import BOUNDS, Number

# -- bundles, lookups, partitions ------------------------------------------------------------------

Floats = NDArray[np.float64]

_PERCENT: Final = 100.0
EXAMPLE: Final[Mapping[str, int]] = {"partitions": 30, "even": 180, "each": 1}
EXAMPLE_TOPIC: Final = "persistent://acme/orders/search-raw"
"""A name whose partitions fall as those of the hot topic in the vivo report did."""

EXAMPLE_WORDS: Final = (
    "vivo reported a hot topic of 30 partitions over 180 bundles: 4 partitions fell into one "
    "bundle, and balancing moved approx. 200 bundles per day. With 120 partitions, approx. 10."
)


# -- how many bundles ------------------------------------------------------------------------------


_CHANGES: Final[Mapping[Action, str]] = {"keep": "no change", "create": "for a new namespace"}


def bundles_figures(
    advice: BundleAdvice, recommendation: BundleRecommendation, *, present: int, over: int
) -> list[KeyFigure]:
    """Return the recommended, the present and the required number of bundles.

    Args:
        advice: How many the namespace needs, with the deciding reason.
        recommendation: What to do with those that it has.
        present: How many it has; 0: unknown.
        over: How many of them are over a limit of automatic splits.
    """
    missing = advice.bundles - present
    state = (
        f"{missing:,} too few" if missing > 0 else f"{over:,} over a limit" if over else "enough"
    )
    bounds = [(reason.bundles, reason.name) for reason in advice.reasons if reason.bound == "least"]
    deciding = max(((count, name) for count, name in bounds if count is not None), default=None)
    more = recommendation.bundles - present
    return [
        KeyFigure(
            label="Recommended",
            value=pluralize(recommendation.bundles, "bundle"),
            note=_CHANGES.get(recommendation.action) or f"{more:,} more by {_splits(more)}",
            status="ok" if recommendation.action == "keep" else "",
        ),
        KeyFigure(
            label="Current",
            value=pluralize(present, "bundle") if present else UNKNOWN,
            note=state if present else "",
            status="" if not present else "ok" if state == "enough" else "warning",
        ),
        KeyFigure(
            label="Required" if advice.is_even else "Maximum",
            value=pluralize(advice.bundles, "bundle"),
            note=("" if deciding is None else f"by {deciding[1]}")
            if advice.is_even
            else "even load not achievable",
            status="" if advice.is_even else "warning",
            help="Minimum for even load and for the limits of automatic splits.",
        ),
    ]


def _splits(count: int) -> str:
    return "a split" if count == 1 else "splits"


def reasons_table(advice: BundleAdvice) -> pd.DataFrame:
    """Return one row a reason."""
    return pd.DataFrame(
        [
            {
                "name": reason.name,
                "bound": BOUNDS[reason.bound],
                "bundles": reason.bundles,
                "formula": reason.formula,
            }
            for reason in advice.reasons
        ]
    )


def basis_words(advice: BundleAdvice, topics: int | None) -> str:
    """Return the source of the topics that the curve is computed from."""
    if advice.is_assumed:
        return (
            "Assumption: uniform, randomly placed topics. Fetch the topics to use their "
            "actual hashes and loads."
        )
    return f"Calculated from the hashes and loads of {pluralize(topics or 0, 'topic')}."


# -- partitions over bundles -----------------------------------------------------------------------


def spread_answer(split_plan: SplitPlan, expected: float, partitions: int) -> str:
    """Return the distribution of the partitions, as one sentence."""
    before = split_plan.before
    bundles = before.boundaries.size - 1
    share = before.worst / partitions
    luck = (
        "as expected for a random name"
        if before.worst <= np.ceil(expected)
        else "worse than expected"
    )
    return (
        f"{pluralize(partitions, 'partition')} over {pluralize(bundles, 'bundle')}: fullest "
        f"bundle {before.worst} partitions, {format_ratio(share)} of the topic's traffic, "
        f"{share * bundles:.1f} times the mean bundle; {luck} ({expected:.1f} expected)."
    )


def spread_figures(split_plan: SplitPlan, expected: float, partitions: int) -> list[KeyFigure]:
    """Return the fullest bundle, its share of the traffic, and the splits that would help."""
    worst = split_plan.before.worst
    share = worst / partitions
    return [
        KeyFigure(
            label="Fullest bundle",
            value=pluralize(worst, "partition"),
            note=f"{expected:.1f} expected",
            status="ok" if worst <= np.ceil(expected) else "warning",
        ),
        KeyFigure(label="Traffic share", value=format_ratio(share), note="of the topic"),
        KeyFigure(
            label="Times mean",
            value=f"{share * (split_plan.before.boundaries.size - 1):.1f}",
            note=f"of {pluralize(split_plan.before.boundaries.size - 1, 'bundle')}",
        ),
        KeyFigure(
            label="Splits",
            value=f"{len(split_plan.cuts):,}",
            note=f"max {split_plan.after.worst} after",
        ),
    ]


def tally(split_plan: SplitPlan, partitions: int) -> Tally:
    """Return the distribution of partitions per bundle, next to that of balls thrown into bins."""
    before, bundles = split_plan.before, split_plan.before.boundaries.size - 1
    size = max(before.worst, split_plan.after.worst) + 2
    held = np.arange(size)
    return Tally(
        held=held.tolist(),
        bundles=_filled(before, size),
        random=bundles * _binomial(partitions, bundles, size),
        after=_filled(split_plan.after, size) if split_plan.cuts else (),
    )


def _filled(spread: PartitionSpread, size: int) -> list[int]:
    counts: list[int] = np.bincount(spread.per_bundle, minlength=size).tolist()
    return counts


def _binomial(balls: int, bins: int, size: int) -> Floats:
    """Chance that one of ``bins`` holds 0, 1 ... of ``balls``, exactly."""
    held = np.arange(size)
    if bins == 1:
        return np.asarray(held == balls, np.float64)
    ratios = np.zeros(size)
    ratios[0] = balls * np.log1p(-1 / bins)
    with np.errstate(divide="ignore"):  # more than there are: a chance of 0
        steps = np.log(np.maximum(balls - held[:-1], 0)) - np.log(held[1:]) - np.log(bins - 1)
    ratios[1:] = ratios[0] + np.cumsum(steps)
    return np.asarray(np.exp(ratios), np.float64)


def counts_table(counts: Sequence[CountAdvice], partitions: int) -> pd.DataFrame:
    """Return one row a number of partitions."""
    return pd.DataFrame(
        [
            {
                "partitions": count.partitions,
                "mark": "◆ selected" if count.partitions == partitions else "",
                "worst": count.worst,
                "expected": count.expected_worst,
                "share": count.bundle_share * _PERCENT,
                "unevenness": count.unevenness,
            }
            for count in counts
        ]
    )


def owners_words(owners: Mapping[str, int]) -> str:
    """Return the brokers that would serve most of the partitions with the present owners."""
    if not owners:
        return ""
    name, highest = next(iter(owners.items()))
    total = sum(owners.values())
    return (
        f"Current owners: {name} serves the most partitions ({highest} of {total}); brokers "
        f"with partitions: {len(owners)}."
    )


def need_words(need: PartitionNeed, partitions: int) -> str:
    """Return whether splits can help at all; empty where the traffic is not given."""
    if need.bytes_per_s <= 0:
        return ""
    each, limit = format_bytes_per_s(need.bytes_per_s), format_bytes_per_s(need.limit_bytes_per_s)
    if need.is_enough:
        return f"Traffic per partition: {each}, below the bundle limit {limit}. Splits can help."
    return (
        f"Traffic per partition: {each}, above the bundle limit {limit}. Splits do not help. "
        f"The topic needs {pluralize(need.least, 'partition')} or more, not {partitions}."
    )


def cuts_table(split_plan: SplitPlan) -> pd.DataFrame:
    """Return one row a cut."""
    return pd.DataFrame(
        [
            {
                "range": range_text(cut.lower, cut.upper),
                "at": f"0x{cut.position:08x}",
                "held": cut.partitions_before,
                "left": cut.partitions_left,
                "right": cut.partitions_before - cut.partitions_left,
            }
            for cut in split_plan.cuts
        ],
        columns=["range", "at", "held", "left", "right"],
    )


def spread_ring(spread: PartitionSpread, *, wanted: int) -> RingData:
    """Return a ring with bundles sized by their partitions, each of these a tick.

    Args:
        spread: Partitions over bundles.
        wanted: Partitions of a bundle that are wanted: those with more are coloured apart.
    """
    per_bundle = spread.per_bundle
    owners = np.where(
        per_bundle > wanted, f"more than {wanted}", np.where(per_bundle > 0, "within", "none")
    )
    return RingData(
        lower=spread.boundaries[:-1],
        upper=spread.boundaries[1:],
        owners=owners.tolist(),
        values=per_bundle.astype(np.float64),
        unit="count",
        topic_hashes=spread.hashes[:2_000].tolist(),
    )


def thin_ring(data: RingData, limit: int = 1_024) -> RingData:
    """Return the ring with at most ``limit`` bundles: only those that hold something beyond it."""
    if data.lower.size <= limit:
        return data
    rows = np.argsort(-data.values, kind="stable")[:limit]
    rows.sort()
    return replace(
        data,
        lower=data.lower[rows],
        upper=data.upper[rows],
        owners=[data.owners[row] for row in rows.tolist()],
        values=data.values[rows],
    )


# -- lookups ---------------------------------------------------------------------------------------


def lookups_figures(pressure: UnloadPressure) -> list[KeyFigure]:
    """Return the lookups of an unload at once, and bundle by bundle."""
    return [
        KeyFigure(label="At once", value=f"{pressure.at_once:,}", note="concurrent lookups"),
        KeyFigure(
            label="One by one",
            value=f"{pressure.worst_clients:,}",
            note="max concurrent",
        ),
        KeyFigure(label="Mean rate", value=f"{pressure.per_s:,.1f}/s", note="lookups"),
        KeyFigure(
            label="Duration",
            value=seconds(pressure.minutes * 60),
            note=pluralize(pressure.bundles, "bundle"),
        ),
    ]


def pressure_words(pressure: UnloadPressure) -> list[str]:
    """Return the arithmetic behind the sentence."""
    per_bundle = pressure.clients / pressure.bundles if pressure.bundles else 0.0
    worst = pressure.worst_bundle.rpartition("/")[2]
    remarks_found = [
        (
            f"At once: {pluralize(pressure.bundles, 'bundle')}, {pressure.at_once:,} concurrent "
            f"lookups."
        ),
        f"One by one: {per_bundle:,.0f} clients per bundle, {pressure.worst_clients:,} in {worst}.",
        (
            f"Then {pressure.clients:,} / ({pressure.minutes:,.1f} min x 60) = "
            f"{pressure.per_s:,.1f}/s."
        ),
    ]
    if pressure.unknown_bundles:
        unknown = pluralize(pressure.unknown_bundles, "bundle")
        remarks_found.append(f"Unknown clients of {unknown} are not included.")
    return remarks_found


# -- producers -------------------------------------------------------------------------------------

VIVO: Final[Mapping[str, Number]] = {
    "maxPendingMessages": 2000,
    "maxPendingMessagesAcrossPartitions": 40_000,
    "memoryLimitBytes": 200.0,
    "batchingMaxPublishDelay": 0.05,
    "batchingMaxMessages": 2000,
    "batchingMaxBytes": 5120.0,
}
"""What the vivo report set, in the units of the inputs."""

CURVE: Final = tuple(sorted({*range(1, 33), *np.geomspace(33, 1000, 40).astype(int).tolist()}))
_CLOSES: Final = {
    "delay": "delay reached",
    "messages": "max messages reached",
    "bytes": "max size reached",
}


def load_of(given: Mapping[str, Number]) -> ProducerLoad:
    """Return the producer that the inputs describe.

    Raises:
        InputError: It cannot be.
    """
    return ProducerLoad(
        msgs_per_s=float(given["rate"]),
        message_bytes=float(given["message"]),
        partitions=int(given["partitions"]),
        max_pending=int(given["maxPendingMessages"]),
        max_pending_across=int(given["maxPendingMessagesAcrossPartitions"]),
        memory_limit_bytes=int(given["memoryLimitBytes"] * 1024**2),
        batch_messages=int(given["batchingMaxMessages"]),
        batch_bytes=int(given["batchingMaxBytes"] * 1024),
        batch_delay_s=given["batchingMaxPublishDelay"] / 1000,
        send_timeout_s=float(given["sendTimeout"]),
    )


def answer(load: ProducerLoad, stall: RoutedStall) -> str:
    """Return the limit of pending messages and the effect of a bad broker, in one sentence."""
    queue = (
        f"{load.queue:,} pending messages for each of "
        f"{pluralize(load.partitions, 'partition')}, {seconds(buffered_s(load))} of its traffic"
        if load.queue
        else f"pending messages of {load.partitions:,} partitions limited by client memory only"
    )
    return f"{queue[0].upper()}{queue[1:]}; {_stall_words(stall)}."


def producer_figures(load: ProducerLoad, batch: Batch, stall: RoutedStall) -> list[KeyFigure]:
    """Return the queue, the batch, and the effect of a bad broker."""
    after = stall.stall.blocked_after_s
    return [
        KeyFigure(
            label="Queue per partition",
            value=f"{load.queue:,}" if load.queue else "no limit",
            note=f"lasts {seconds(buffered_s(load))}" if load.queue else "except memory",
        ),
        KeyFigure(
            label="Batch",
            value=f"{batch.messages:,.1f}",
            note=f"messages, {batch.per_s:,.0f}/s",
            status="warning" if batch.messages < 2 else "",
        ),
        KeyFigure(
            label="Blocked after",
            value="never" if after is None else seconds(after),
            note="by a bad broker",
        ),
        KeyFigure(label="Producers", value=format_ratio(stall.hit_ratio), note="blocked"),
    ]


def buffered_s(load: ProducerLoad) -> float:
    """Return the time to fill a partition's queue without acknowledgements, seconds."""
    return load.queue / load.msgs_per_partition_s


def seconds(value: float) -> str:
    """Return a span from microseconds to hours.

    Example:
        >>> seconds(0.00005), seconds(0.25), seconds(4.0), seconds(5400)
        ('50 µs', '250 ms', '4.0 s', '90 min')
    """
    for below, factor, text in ((1e-3, 1e6, "{:.0f} µs"), (1.0, 1e3, "{:.0f} ms")):
        if value < below:
            return text.format(value * factor)
    return f"{value:,.1f} s" if value < 120 else f"{value / 60:,.0f} min"


def _stall_words(routed_stall: RoutedStall) -> str:
    stall = routed_stall.stall
    broker = f"a bad broker with {pluralize(routed_stall.silent, 'partition')}"
    if stall.blocked_after_s is None:
        return f"{broker} never fills a queue, but its messages fail or wait"
    full = "queue" if stall.by == "queue" else "client memory"
    return (
        f"{broker} blocks {format_ratio(routed_stall.hit_ratio)} of producers after "
        f"{seconds(stall.blocked_after_s)} ({full} full)"
    )


def results_table(load: ProducerLoad, batch: Batch, routed_stall: RoutedStall) -> pd.DataFrame:
    """Return the computed numbers, each with its formula."""
    stall = routed_stall.stall
    across, own = load.max_pending_across, load.max_pending
    queue_formula = (
        f"min({own or 'no limit'}, {across:,} / {load.partitions})"
        if across
        else f"{own or 'no limit'}"
    )
    rows = [
        (
            "Queue per partition",
            f"{load.queue:,} messages" if load.queue else "no limit",
            queue_formula,
        ),
        (
            "Time to full queue",
            seconds(buffered_s(load)) if load.queue else "until memory is full",
            f"{load.queue:,} / ({load.msgs_per_s:,.0f} / {load.partitions} msg/s)",
        ),
        (
            "Batch size",
            f"{batch.messages:,.1f} messages",
            f"sent when {_CLOSES[batch.closes_by]}, after {seconds(batch.wait_s)}",
        ),
        (
            "Batch rate",
            f"{batch.per_s:,.0f} a second",
            f"{load.msgs_per_s:,.0f} / {batch.messages:,.1f}",
        ),
        *_stall_rows(load, routed_stall),
    ]
    if stall.timeouts_before:
        rows.append(("Send timeout", seconds(load.send_timeout_s), "sendTimeout"))
    return pd.DataFrame(rows, columns=["what", "value", "formula"])


def _stall_rows(load: ProducerLoad, routed_stall: RoutedStall) -> list[tuple[str, str, str]]:
    stall = routed_stall.stall
    if stall.blocked_after_s is None:
        return [("Blocked after", "never", "no queue and no memory limit")]
    megabytes = stall.waiting_bytes / 1024**2
    return [
        (
            "Blocked after",
            seconds(stall.blocked_after_s),
            f"{stall.waiting_messages:,.0f} pending messages, {megabytes:,.1f} MiB",
        ),
        (
            "Remaining throughput",
            format_ratio(stall.left_ratio),
            f"round-robin: one full queue of {load.partitions} blocks the others"
            if routed_stall.hit_ratio == 1
            else "producers with their partition on it",
        ),
    ]


def remarks(load: ProducerLoad, batch: Batch) -> list[str]:
    """Return the conflicts between the settings."""
    remarks_found = []
    if load.queue and batch.messages >= load.queue:
        remarks_found.append(
            f"A batch may hold {load.batch_messages:,} messages, but the queue per partition "
            f"is {load.queue:,}. Increase the pending messages, or reduce batchingMaxMessages."
        )
    if load.max_pending_across and load.max_pending and load.queue < load.max_pending:
        remarks_found.append(
            f"maxPendingMessages is {load.max_pending:,}, but the limit across partitions "
            f"leaves {load.queue:,} per partition. More partitions shorten every queue. A "
            "change requires a client restart."
        )
    if load.queue and load.memory_limit_bytes:
        whole = load.queue * load.partitions * load.message_bytes
        if whole > load.memory_limit_bytes:
            remarks_found.append(
                f"All queues together: {whole / 1024**2:,.0f} MiB, the client's memory limit "
                f"is {load.memory_limit_bytes / 1024**2:,.0f} MiB, which may be reached first."
            )
    if batch.messages < 2:
        remarks_found.append(
            "Batches have one message, because the delay is too short for the rate of one "
            "partition. Each message is one entry."
        )
    return remarks_found


# -- ledgers, disks, retention ---------------------------------------------------------------------

_MIB_BYTES: Final = 1024**2
_CAUSES: Final = {"entries": "entries", "size": "size", "age": "age"}
_POINTS: Final = 81


# -- rollover --------------------------------------------------------------------------------------


def rule_of(given: Mapping[str, Number]) -> RolloverRule:
    """Return the rule that the inputs describe.

    Raises:
        InputError: It cannot be.
    """
    prefix = "managedLedger"
    return RolloverRule(
        min_minutes=float(given[f"{prefix}MinLedgerRolloverTimeMinutes"]),
        max_minutes=float(given[f"{prefix}MaxLedgerRolloverTimeMinutes"]),
        max_entries=int(given[f"{prefix}MaxEntriesPerLedger"]),
        max_megabytes=int(given[f"{prefix}MaxSizePerLedgerMbytes"]),
    )


def rollover_of(rule: RolloverRule, given: Mapping[str, Number]) -> Rollover | None:
    """Return the next rollover of the ledger, its content computed from its age and the rates.

    Raises:
        InputError: A negative number.
    """
    entries_per_s, bytes_per_s = float(given["entries"]), given["written"] * 1e6
    age_s = given["age"] * 60
    return next_rollover(
        rule,
        entries_per_s=entries_per_s,
        bytes_per_s=bytes_per_s,
        age_minutes=float(given["age"]),
        entries=entries_per_s * age_s,
        size_bytes=bytes_per_s * age_s,
    )


def rollover_answer(rollover: Rollover | None) -> str:
    """Return the time of the next rollover, in one sentence."""
    if rollover is None:
        return "Never: no writes, and an empty ledger is not rolled over."
    held = ""
    if rollover.held_by_minimum:
        held = "; other bounds are reached earlier, but the min age keeps the ledger open"
    late = ""
    if rollover.latest_minutes > rollover.age_minutes:
        late = f" (up to {rollover.latest_minutes:,.0f} min with the timer tolerance of 5%)"
    return (
        f"Next rollover in {rollover.in_minutes:,.1f} min, at an age of "
        f"{rollover.age_minutes:,.1f} "
        f"min{late}, by {_CAUSES[rollover.cause]}: {rollover.entries:,.0f} entries and "
        f"{rollover.size_bytes / _MIB_BYTES:,.0f} MiB{held}."
    )


def ledger_figures(
    rule: RolloverRule, rollover: Rollover | None, compaction: CompactionRule
) -> list[KeyFigure]:
    """Return the next rollover, the ledger's content then, and the compacted rest."""
    dead = KeyFigure(
        label="Dead data",
        value=format_ratio(1 - compaction.major_threshold),
        note="max share of the disk",
    )
    if rollover is None:
        return [KeyFigure(label="Next ledger", value="never", note="no writes"), dead]
    return [
        KeyFigure(
            label="Next ledger",
            value=span(rollover.in_minutes),
            note=f"by {_CAUSES[rollover.cause]}",
        ),
        KeyFigure(
            label="Age at rollover",
            value=span(rollover.age_minutes),
            note="delayed by min age"
            if rollover.held_by_minimum
            else f"of {span(rule.max_minutes)}",
            status="warning" if rollover.held_by_minimum else "",
        ),
        KeyFigure(
            label="Size at rollover",
            value=f"{rollover.size_bytes / _MIB_BYTES:,.0f} MiB",
            note=f"{rollover.entries:,.0f} entries",
        ),
        dead,
    ]


def bounds_table(
    rule: RolloverRule, rollover: Rollover, given: Mapping[str, Number]
) -> pd.DataFrame:
    """Return one row a bound: the time to reach it, and its fill level at the rollover."""
    minutes = {
        "entries": _until(rule.max_entries, float(given["entries"])),
        "size": _until(rule.max_megabytes * _MIB_BYTES, given["written"] * 1e6),
        "age": rule.max_minutes,
    }
    max_bytes = rule.max_megabytes * _MIB_BYTES
    full = {
        "entries": rollover.entries / rule.max_entries,
        "size": rollover.size_bytes / max_bytes,
        "age": rollover.age_minutes / rule.max_minutes,
    }
    formulas = {
        "entries": f"{rule.max_entries:,} / {given['entries']:,g} entries/s",
        "size": f"{rule.max_megabytes:,} MiB / {given['written']:,g} MB/s",
        "age": f"{rule.max_minutes:g} min",
    }
    return pd.DataFrame(
        [
            {
                "bound": name,
                "mark": "◆ first" if name == rollover.cause else "",
                "minutes": minutes[name] if np.isfinite(minutes[name]) else None,
                "full": full[name] * 100,
                "formula": formulas[name],
            }
            for name in minutes
        ]
    )


def _until(bound: float, per_s: float) -> float:
    return bound / per_s / 60 if per_s > 0 else np.inf


def filling(rule: RolloverRule, rollover: Rollover, given: Mapping[str, Number]) -> Filling:
    """Return the fill level of a ledger over time, until shortly after its end."""
    minutes = np.linspace(0, max(rollover.age_minutes, rule.min_minutes) * 1.15, _POINTS)
    entries, size = float(given["entries"]) * minutes * 60, given["written"] * 1e6 * minutes * 60
    return Filling(
        minutes=minutes,
        shares={
            "entries": entries / rule.max_entries * 100,
            "size": size / (rule.max_megabytes * _MIB_BYTES) * 100,
            "age": minutes / rule.max_minutes * 100,
        },
        least_minutes=rule.min_minutes,
        ends_at=rollover.age_minutes,
        now=float(given["age"]),
    )


# -- compaction ------------------------------------------------------------------------------------


def compaction_of(given: Mapping[str, Number]) -> CompactionRule:
    """Return the rule that the inputs describe.

    Raises:
        InputError: It cannot be.
    """
    return CompactionRule(
        minor_threshold=float(given["minorCompactionThreshold"]),
        minor_interval_s=float(given["minorCompactionInterval"]),
        major_threshold=float(given["majorCompactionThreshold"]),
        major_interval_s=float(given["majorCompactionInterval"]),
    )


def compaction_words(rule: CompactionRule, live_ratio: float) -> str:
    """Return the compaction of a log with this share of live data, and the dead data that remain.

    Raises:
        InputError: A share outside 0..1.
    """
    fate = fate_of_log(rule, live_ratio)
    stays = (
        f"Logs with {format_ratio(rule.major_threshold)} live data or more are never "
        f"rewritten, so up to {format_ratio(1 - rule.major_threshold)} of the disk may be dead "
        "data."
    )
    if fate.within_s is None:
        return f"A log with {format_ratio(live_ratio)} of live data is not rewritten. {stays}"
    when = format_age(fate.within_s)
    if fate.action == "deleted":
        return f"A log without live data is deleted, within {when}. {stays}"
    return (
        f"A log with {format_ratio(live_ratio)} of live data is rewritten by {fate.action} "
        f"compaction within {when}: {format_ratio(fate.freed_ratio)} freed, "
        f"{format_ratio(fate.rewritten_ratio)} rewritten. {stays}"
    )


def compaction_curve(rule: CompactionRule, live_ratio: float) -> CompactionCurve:
    """Return the retention time of dead data for every share of live data."""
    live = np.linspace(0, 1, 101)
    waits = [fate_of_log(rule, share).within_s for share in live.tolist()]
    return CompactionCurve(
        live=live * 100,
        dead=(1 - live) * 100,
        wait_s=np.array([np.nan if wait is None else wait for wait in waits], np.float64),
        thresholds=(rule.minor_threshold * 100, rule.major_threshold * 100),
        marked=live_ratio * 100,
    )


# -- retention -------------------------------------------------------------------------------------


def retention_of(given: Mapping[str, Number]) -> RetentionRule:
    """Return the rule that the inputs describe.

    Raises:
        InputError: It cannot be.
    """
    return RetentionRule(
        retention_minutes=float(given["defaultRetentionTimeInMinutes"]),
        retention_megabytes=float(given["defaultRetentionSizeInMB"]),
        ttl_s=float(given["ttlDurationDefaultInSeconds"]),
        rollover_minutes=float(given["managedLedgerMaxLedgerRolloverTimeMinutes"]),
        expiry_check_s=float(given["messageExpiryCheckIntervalInMinutes"]) * 60,
        retention_check_s=float(given["retentionCheckIntervalInSeconds"]),
        copies=int(given["managedLedgerDefaultWriteQuorum"]),
    )


def consumed_after(given: Mapping[str, Number]) -> float | None:
    """Return the time until all subscriptions have consumed a message, minutes; ``None``: never."""
    return None if given["consumed"] == -1 else float(given["consumed"])


def retention_answer(phases: Sequence[Phase], held: str) -> str:
    """Return the lifetime of a message and its disk space, in one sentence.

    Args:
        phases: Of its life.
        held: By :func:`core.planning.advisors.retention.held_words`.
    """
    last = phases[-1]
    if last.ends is None:
        if last.name == "kept":
            return f"Messages are never deleted: {last.why}."
        return f"Messages stay in the backlog: {last.why}."
    first = phases[0].ends or 0.0
    return (
        f"Messages are backlog for {span(first)} and are deleted after {span(last.ends)} at the "
        f"latest; until then {held}."
    )


def retention_figures(
    phases: Sequence[Phase], rule: RetentionRule, bytes_per_s: float
) -> list[KeyFigure]:
    """Return the backlog time, the deletion time and the disk space of a message."""
    first, last = phases[0].ends, phases[-1].ends
    size = None if last is None else last * 60 * bytes_per_s
    return [
        KeyFigure(label="Backlog for", value="unlimited" if first is None else span(first)),
        KeyFigure(
            label="Deleted after",
            value="never" if last is None else span(last),
            note="max",
            status="warning" if last is None else "",
        ),
        KeyFigure(
            label="Topic size",
            value="unlimited" if size is None else format_bytes(size),
            note="max",
        ),
        KeyFigure(
            label="On the bookies",
            value="unlimited" if size is None else format_bytes(size * rule.copies),
            note=pluralize(rule.copies, "copy"),
        ),
    ]


def phases_table(phases: Sequence[Phase]) -> pd.DataFrame:
    """Return one row a phase."""
    return pd.DataFrame(
        [
            {
                "phase": phase.name,
                "from": span(phase.begins),
                "until": "unlimited" if phase.ends is None else span(phase.ends),
            }
            for phase in phases
        ]
    )
