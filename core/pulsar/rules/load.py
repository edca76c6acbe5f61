"""Rules about the load itself: who carries too much, too little, or what cannot be moved away."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

import numpy as np

from core.arrays import column_values
from core.findings.engine import UnlistedFindings
from core.findings.finding import Finding, Fix
from core.findings.measures import Spread
from core.findings.quantity import Quantity
from core.pulsar.load import limiting_resource, resource_weights, weighted_max_usage
from core.pulsar.plausibility import plausible_brokers
from core.pulsar.rules.context import HealthContext
from core.pulsar.rules.measurements import off_traffic
from core.units import (
    datetime_to_ms,
    format_age,
    format_bytes_per_s,
    format_msgs_per_s,
    format_ratio,
)

SINGLE_BUNDLE_SHARE: Final = 0.25
"""A namespace in one bundle is worth a word from this share of the mean broker's traffic on."""

_OVERLOADED: Final = "loadBalancerBrokerOverloadedThresholdPercentage"
_PLACEMENT: Final = "loadBalancerLoadPlacementStrategy"
_DIFFERENCE: Final = "loadBalancerAverageResourceUsageDifferenceThresholdPercentage"


def overloaded_brokers(context: HealthContext) -> Iterator[Finding]:
    """Brokers above the overload limit; at exactly the limit placement still takes them.

    Usage that cannot be true is none: :func:`core.pulsar.rules.measurements.impossible_cpu` names
    it.
    """
    limit = context.settings.number(_OVERLOADED) / 100.0
    brokers = plausible_brokers(context.snapshot.brokers)
    usage = weighted_max_usage(brokers, context.settings)
    resources = limiting_resource(brokers, context.settings)
    weights = resource_weights(context.settings)
    spread = Spread("usage", "usage", "ratio", context.measures.brokers, usage)
    stays, _ = off_traffic(context)
    for row in spread.ranked:
        value = float(spread.values[row])
        if value <= limit:
            return
        broker, resource = spread.brokers[row], resources[row] or "unknown"
        is_foreign = resource == "cpu" and bool(stays[row])
        # with a weight it is no share of the resource any more
        by = "of its" if weights.get(resource, 1.0) == 1.0 else "by its weighted"
        yield Finding(
            code="broker_overloaded",
            title=f"{_TITLES.get(resource, _resource_text(resource))} over the overload limit",
            measured=Quantity(value, "ratio"),
            limit=Quantity(limit, "ratio"),
            severity="error",
            subject_kind="broker",
            subject=broker,
            sentence=(
                f"{broker} is at {format_ratio(value)} {by} {_resource_text(resource)}, "
                f"over the overload limit of {format_ratio(limit)}."
            ),
            evidence={"usage_ratio": value, "limit_ratio": limit, "resource": resource},
            hint="Its CPU does not follow its traffic and stays when bundles leave: "
            "check the processes on its host."
            if is_foreign
            else "Unload some of its hottest bundles; preview their destinations first.",
        )


def traffic_deviation(context: HealthContext) -> Iterator[Finding]:
    """The fleet misses the target, or that is unknown."""
    target, spread = context.target, context.measures.of(context.target.measure)
    verdict = context.measures.verdict(target)
    if verdict == "balanced":
        return
    value = context.measures.statistic(target)
    evidence = {
        "statistic": value,
        "bound": target.bound,
        "target": target.code,
        "mean": spread.mean,
        "max": spread.maximum,
        "known_brokers": spread.known_count,
        "brokers": len(spread.brokers),
    }
    missing = {
        name
        for name, is_known in zip(spread.brokers, np.isfinite(spread.values), strict=True)
        if not is_known
    }
    if verdict == "unknown" and missing and missing <= context.liveness.dead.keys():
        return  # those that live are balanced, and the others have findings of their own
    if verdict == "unknown":
        yield Finding(
            code="balance_unknown",
            title="Balance is unknown",
            measured=Quantity(spread.known_count, "brokers"),
            limit=Quantity(len(spread.brokers)),
            severity="unknown",
            subject_kind="cluster",
            subject="",
            sentence=(
                f"Whether the {spread.label} is balanced is unknown: "
                f"{spread.known_count} of {len(spread.brokers)} brokers report it."
            ),
            evidence=evidence,
            hint="Check what could not be read.",
        )
        return
    is_deviation = target.statistic == "max_deviation"
    over = [row for row in spread.ranked if spread.deviations[row] > target.bound]
    for row in over if is_deviation else spread.ranked[:1]:
        broker, off = spread.brokers[row], float(spread.deviations[row])
        yield Finding(
            code="traffic_deviation" if is_deviation else "usage_spread",
            title="Traffic above the target band"
            if is_deviation
            else "Usage spread above the target",
            measured=Quantity(off if is_deviation else value, "deviation" if is_deviation else ""),
            limit=Quantity(target.bound, "band" if is_deviation else ""),
            severity="warning",
            subject_kind="broker",
            subject=broker,
            sentence=(
                f"{broker} carries {spread.text_of(float(spread.values[row]))}, "
                f"{format_ratio(off)} above the mean of "
                f"{spread.text_of(spread.mean)}; the target is {target.label}."
            ),
            evidence=evidence if row == spread.ranked[0] else {"deviation": off},
            hint="Preview an unload of one of its bundles.",
        )


def placement_without_candidate(context: HealthContext) -> Iterator[Finding]:
    """No broker is far enough below the mean, so placement takes any, the busiest among them.

    Source:
        Pulsar ``LeastResourceUsageWithWeight#selectBroker``: candidates are the brokers at least
        ``loadBalancerAverageResourceUsageDifferenceThresholdPercentage`` points below the mean;
        without one, all of them. PIP-364 describes what follows.
    """
    placement = context.settings.text(_PLACEMENT).rpartition(".")[2]
    if placement != "LeastResourceUsageWithWeight":
        return
    if context.snapshot.manifest.load_manager == "extensible":
        return  # its shedder names the destination
    usage = context.measures.usage
    mean, lowest = usage.mean, usage.minimum
    margin = context.settings.number(_DIFFERENCE) / 100.0
    if mean is None or lowest is None or usage.unknown_count:
        return
    busy = [usage.brokers[row] for row in usage.ranked if usage.values[row] > mean + margin]
    if lowest <= mean - margin or not busy:
        return
    enough = math.floor(round((mean - lowest) * 100.0, 6))
    yield Finding(
        code="placement_without_candidate",
        title="Placement may choose an overloaded broker",
        measured=Quantity(lowest, "ratio"),
        limit=Quantity(mean - margin, "ratio"),
        severity="warning",
        subject_kind="setting",
        subject=_DIFFERENCE,
        servers=tuple(busy),
        sentence=(
            f"No broker is {margin * 100:g} points below the mean usage of "
            f"{format_ratio(mean)}: an unloaded bundle is placed on any of "
            f"{len(usage.brokers)} brokers, including {len(busy)} above "
            f"{format_ratio(mean + margin)}."
        ),
        keys=(_DIFFERENCE, _PLACEMENT),
        evidence={"mean": mean, "lowest": lowest, "margin": margin, "above": busy},
        fix=Fix(wanted={_DIFFERENCE: str(enough)}) if enough >= 1 else Fix(),
        hint="Lower the difference so that the least used brokers are candidates, or use "
        "AvgShedder, which sheds and places as a pair.",
    )


def idle_brokers(context: HealthContext) -> Iterator[Finding]:
    """Brokers that own nothing movable while the others do: a new or restarted broker stays so."""
    counts = context.measures.bundle_count
    if not counts.total or counts.total < len(counts.brokers):
        return
    started = column_values(context.snapshot.brokers, "started_at")
    now_ms = datetime_to_ms(context.snapshot.manifest.taken_at)
    aside = (
        np.zeros(len(counts.brokers), np.bool_) if counts.set_aside is None else counts.set_aside
    )
    idle = np.flatnonzero((counts.values == 0) & ~aside)
    mean = counts.mean or 0.0
    for row in np.flatnonzero(aside):
        broker = counts.brokers[row]
        yield Finding(
            code="broker_drained",
            title="Broker is drained",
            measured=Quantity(0, "bundles"),
            severity="info",
            subject_kind="broker",
            subject=broker,
            sentence=f"{broker} owns no bundle: it was drained. It is not compared with the other "
            "brokers.",
            hint="The next unload may place bundles on it; an isolation policy prevents that.",
        )
    for row in idle:
        broker = counts.brokers[row]
        if broker in context.liveness.dead:
            continue
        age_s = float(now_ms - started[row]) / 1000 if np.isfinite(started[row]) else None
        since = "" if age_s is None else f"; it started {format_age(age_s)} ago"
        yield Finding(
            code="idle_broker",
            title="Broker owns no bundles",
            measured=Quantity(0),
            limit=Quantity(mean, "mean"),
            severity="warning",
            subject_kind="broker",
            subject=broker,
            sentence=(
                f"{broker} owns no bundle; the mean of the brokers is {mean:,.0f} bundles{since}."
            ),
            evidence={
                "mean_bundles": mean,
                "started_seconds_ago": age_s,
            },
            hint="A new or restarted broker receives bundles only when some are unloaded.",
        )


def hot_bundles(context: HealthContext) -> Iterator[Finding | UnlistedFindings]:
    """Bundles that are too big for any broker: moving one only moves the hot spot."""
    mean = _mean_traffic(context)
    if not mean:
        return
    ceiling = mean * (1 + context.target.bound)
    hot = context.bundles.hot(ceiling)
    for row in hot.rows.to_pylist():
        name, topics = row["bundle"], row["topic_count"]
        hint = (
            "It has one topic, so a split cannot help: add partitions to the topic."
            if topics == 1
            else "Split it; if one topic carries the load, add partitions to that topic."
        )
        yield Finding(
            code="hot_bundle",
            title="Bundle is too hot for any broker",
            measured=Quantity(row["throughput"], "bytes/s"),
            limit=Quantity(ceiling, "bytes/s"),
            severity="warning",
            subject_kind="bundle",
            subject=name,
            sentence=(
                f"{name} alone carries {format_bytes_per_s(row['throughput'])}, more "
                f"than the limit of a broker ({format_bytes_per_s(ceiling)}): moving it "
                "only moves the hot spot."
            ),
            evidence={
                "throughput_bytes_per_s": row["throughput"],
                "ceiling_bytes_per_s": ceiling,
                "owner": row["owner"],
                "topic_count": topics,
            },
            hint=hint,
        )
    if hot.unlisted:
        yield UnlistedFindings("hot_bundle", hot.unlisted)


def _mean_traffic(context: HealthContext) -> float | None:
    """Return the mean traffic of a broker, bytes/s; ``None`` if most that live report none."""
    traffic = context.measures.throughput
    alive = len(set(traffic.brokers) - context.liveness.dead.keys())
    return traffic.mean if 2 * traffic.known_count >= alive else None


def single_bundle_namespaces(context: HealthContext) -> Iterator[Finding | UnlistedFindings]:
    """Namespaces whose whole traffic is in one bundle, so that one broker must carry all of it."""
    mean = _mean_traffic(context)
    if not mean:
        return
    floor = mean * SINGLE_BUNDLE_SHARE
    alone = context.bundles.alone(floor)
    for row in alone.rows.to_pylist():
        yield Finding(
            code="single_bundle_namespace",
            title="Namespace has only one bundle",
            measured=Quantity(row["throughput"], "bytes/s"),
            limit=Quantity(floor, "bytes/s"),
            severity="warning",
            subject_kind="namespace",
            subject=row["namespace"],
            sentence=(
                f"{row['namespace']} has one bundle with "
                f"{format_bytes_per_s(row['throughput'])} "
                f"({format_msgs_per_s(row['rate'])}): one broker must carry all of it."
            ),
            evidence={
                "throughput_bytes_per_s": row["throughput"],
                "floor_bytes_per_s": floor,
            },
            hint="Split the bundle, so that its topics can be spread.",
        )
    if alone.unlisted:
        yield UnlistedFindings("single_bundle_namespace", alone.unlisted)


_TITLES: Final = {"bandwidth_in": "NIC in", "bandwidth_out": "NIC out", "memory": "Heap"}


def _resource_text(name: str) -> str:
    return {
        "cpu": "CPU",
        "bandwidth_in": "inbound bandwidth",
        "bandwidth_out": "outbound bandwidth",
    }.get(name, name.replace("_", " "))
