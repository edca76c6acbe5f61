"""Rules about splits: what stops one that is due, and where splits cannot help."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np

from core.arrays import column_values
from core.findings.engine import MAX_OF_ONE_CODE, UnlistedFindings
from core.findings.finding import Finding, Fix, Severity
from core.findings.quantity import Quantity
from core.pulsar.load import weighted_max_usage
from core.pulsar.plausibility import plausible_brokers
from core.pulsar.rules.context import HealthContext
from core.pulsar.split.algorithms import MIB_BYTES, SplitLimits
from core.units import (
    format_bytes_per_s,
    format_msgs_per_s,
    format_ratio,
    same_problem,
)

NEAR_LIMIT_RATIO: Final = 0.9
ONE_TOPIC_RATIO: Final = 0.8
"""A topic with this share of its bundle's traffic carries it."""
SAFE_SPLITS: Final = (2, 8, 2)
"""First release that does not split a bundle of one topic (pull requests 11937 and 12527)."""

_SPLIT: Final = "loadBalancerAutoBundleSplitEnabled"
_MAX_BUNDLES: Final = "loadBalancerNamespaceMaximumBundles"
_MAX_RATE: Final = "loadBalancerNamespaceBundleMaxMsgRate"
_MAX_FLOW: Final = "loadBalancerNamespaceBundleMaxBandwidthMbytes"
_OVERLOADED: Final = "loadBalancerBrokerOverloadedThresholdPercentage"
_ANY_TOPICS: Final = 2**62
_WARNING: Final[Severity] = "warning"
_INFO: Final[Severity] = "info"


def bundle_count_near_limit(context: HealthContext) -> Iterator[Finding | UnlistedFindings]:
    """Namespaces with nearly as many bundles as automatic splitting allows, and what is due.

    A note where nothing is due, or what is due does not make its broker carry more than others.
    """
    limits = SplitLimits.of(context.settings)
    if limits.bundles <= 0:
        return
    busy = _busy_brokers(context)
    # the fullest come first: those over the limit before those near it
    for code, severity, title, least, below in (
        ("bundle_limit_reached", _INFO, "At the maximum bundle count", 1.0, float("inf")),
        ("bundle_limit_near", _INFO, "Near the maximum bundle count", NEAR_LIMIT_RATIO, 1.0),
    ):
        found = context.bundles.near_limit(limits.bundles * least, limits.bundles * below)
        rows = found.rows.to_pylist()
        is_full = code == "bundle_limit_reached" and context.settings.flag(_SPLIT)
        names = [row["namespace"] for row in rows[:MAX_OF_ONE_CODE]]
        due = _due(context, limits, names) if is_full and names else {}
        for row in rows:
            mine = due.get(row["namespace"], [])
            hurts = any(one["owner"] in busy for one in mine)
            yield _crowded(row, limits, (code, _WARNING if hurts else severity, title), mine)
        if found.unlisted:
            yield UnlistedFindings(code, found.unlisted)


def _busy_brokers(context: HealthContext) -> set[str]:
    """Return the brokers over the target band of traffic, or over the overload limit."""
    traffic = context.measures.throughput
    usage = weighted_max_usage(plausible_brokers(context.snapshot.brokers), context.settings)
    over = np.nan_to_num(usage) > context.settings.number(_OVERLOADED) / 100
    if traffic.mean:
        ceiling = traffic.mean * (1 + context.target.bound)
        over |= np.nan_to_num(traffic.values) > ceiling
    return {traffic.brokers[row] for row in np.flatnonzero(over).tolist()}


def _due(
    context: HealthContext, limits: SplitLimits, names: list[str]
) -> Mapping[str, list[dict[str, Any]]]:
    """Return the bundles of full namespaces that would be split, the largest excess first."""
    found: dict[str, list[dict[str, Any]]] = {}
    rows = context.bundles.over(limits, topics=(2, _ANY_TOPICS), namespaces=names).rows
    for row in rows.to_pylist():
        found.setdefault(row["namespace"], []).append(row)
    return found


def _crowded(
    row: Mapping[str, Any],
    limits: SplitLimits,
    verdict: tuple[str, Severity, str],
    due: list[dict[str, Any]],
) -> Finding:
    code, severity, title = verdict
    namespace, count, limit = row["namespace"], row["bundles"], limits.bundles
    sentence = (
        f"{namespace} has {count} bundles, {format_ratio(count / limit)} of the limit of "
        f"automatic splits ({limit})"
    )
    more = f" {same_problem(len(due) - 1, 'more bundle')}." if len(due) > 1 else ""
    raised = max(2 * limit, 2 * count)
    return Finding(
        code=code,
        title=title,
        measured=Quantity(count),
        limit=Quantity(limit),
        severity=severity,
        subject_kind="namespace",
        subject=namespace,
        keys=(_MAX_BUNDLES,),
        servers=tuple(dict.fromkeys(one["owner"] for one in due if one["owner"])),
        sentence=f"{sentence}: {_excess(due[0], limits)} and is not split.{more}"
        if due
        else f"{sentence}.",
        consequence="At this limit no load causes a split: one broker carries all of it."
        if due
        else "",
        hint=f"Raise {_MAX_BUNDLES} to {raised}, or split the bundle manually, which "
        "the limit does not prevent."
        if due
        else "Bundles cannot be merged; check who needs it before you raise the limit.",
        fix=Fix(wanted={_MAX_BUNDLES: raised} if due else {}),
        evidence={
            "bundles": count,
            "limit": limit,
            "setting": _MAX_BUNDLES,
            "due": [one["bundle"] for one in due],
        },
    )


def _excess(row: Mapping[str, Any], limits: SplitLimits) -> str:
    """Return ``B carries 84k msg/s, over 30k msg/s``: the limit that it exceeds."""
    name = row["bundle"]
    if row["rate"] > limits.msgs_per_s:
        return (
            f"{name} carries {format_msgs_per_s(row['rate'])}, over the split "
            f"threshold of {format_msgs_per_s(float(limits.msgs_per_s))},"
        )
    if row["throughput"] > limits.bytes_per_s:
        return (
            f"{name} carries {format_bytes_per_s(row['throughput'])}, over the split "
            f"threshold of {format_bytes_per_s(float(limits.bytes_per_s))},"
        )
    if (row["topic_count"] or 0) > limits.topics:
        return (
            f"{name} has {row['topic_count']:,} topics, over the split threshold of "
            f"{limits.topics:,},"
        )
    return f"{name} has more sessions than the split threshold of {limits.sessions:,}"


def split_storms(context: HealthContext) -> Iterator[Finding | UnlistedFindings]:
    """Namespaces cut into empty halves around one bundle that no cut relieves."""
    limits = SplitLimits.of(context.settings)
    found = context.bundles.storms()
    for row in found.rows.to_pylist():
        raised = _raised(row, limits)
        is_on = context.settings.flag(_SPLIT)
        is_single = row["topic_count"] == 1
        topic = "one topic" if is_single else "few topics"
        calms = " and ".join(f"{key}={value}" for key, value in raised.items())
        yield Finding(
            code="split_storm",
            title="Splits leave empty bundles around a topic",
            measured=Quantity(row["empty"], "bundles"),
            limit=Quantity(row["bundles"], "bundles"),
            severity="warning" if raised else "info",
            subject_kind="bundle",
            subject=row["bundle"],
            keys=(*raised, _SPLIT),
            servers=(row["owner"],) if row["owner"] else (),
            sentence=f"{row['empty']} of {row['bundles']} bundles of {row['namespace']} are empty: "
            f"halves that were cut off {row['bundle']}, whose {topic} "
            f"{'carries' if is_single else 'carry'} {format_msgs_per_s(row['rate'])} "
            f"({format_bytes_per_s(row['throughput'])}).",
            consequence="A split cannot divide a topic: each adds an empty bundle, and the load "
            "stays where it is.",
            hint="Add partitions to the topic, which bundles and brokers can share. "
            "Until then "
            + (f"set {calms}, or {_SPLIT}=false." if raised else "do not split the namespace.")
            + ("" if is_on else " Automatic splits are off already."),
            fix=Fix(wanted=raised if is_on else {}),
            evidence={
                "namespace": row["namespace"],
                "empty": row["empty"],
                "bundles": row["bundles"],
                "rate_msgs_per_s": row["rate"],
                "throughput_bytes_per_s": row["throughput"],
                "topic_count": row["topic_count"],
            },
        )
    if found.unlisted:
        yield UnlistedFindings("split_storm", found.unlisted)


def _raised(row: Mapping[str, Any], limits: SplitLimits) -> dict[str, int]:
    """Return the limits that a bundle exceeds, raised to half as much again as it carries."""
    raised = {}
    if row["rate"] > limits.msgs_per_s:
        raised[_MAX_RATE] = _round(row["rate"] * 1.5)
    if row["throughput"] > limits.bytes_per_s:
        raised[_MAX_FLOW] = _round(row["throughput"] * 1.5 / MIB_BYTES)
    return raised


def _round(value: float) -> int:
    """Return the next number of two digits, which is no smaller."""
    step = 10 ** max(int(np.floor(np.log10(max(value, 1.0)))) - 1, 0)
    return int(np.ceil(value / step) * step)


def topic_carries_bundle(context: HealthContext) -> Iterator[Finding | UnlistedFindings]:
    """Bundles above a limit of splits for one topic, which no split divides."""
    settings = context.settings
    limits = SplitLimits.of(settings)
    storms = set(context.bundles.storms().rows["bundle"].to_pylist())
    is_on = settings.flag(_SPLIT)
    is_modular = context.snapshot.manifest.load_manager != "extensible"
    is_endless = is_on and is_modular and settings.target.number < SAFE_SPLITS
    found = context.bundles.over(limits, topics=(1, 1))
    for row in found.rows.to_pylist():
        if row["bundle"] not in storms:
            yield _carried(row, limits, "", is_vain=is_endless)
    if found.unlisted:
        yield UnlistedFindings("topic_carries_bundle", found.unlisted)
    for name, topic, share in _dominant(context):
        over = context.bundles.over(
            limits, topics=(2, _ANY_TOPICS), namespaces=[name.rpartition("/")[0]]
        ).rows.to_pylist()
        row = next((one for one in over if one["bundle"] == name), None)
        if row is None or row["excess"] * share <= 1 or name in storms:
            continue
        words = f"{topic} causes {format_ratio(share)} of it"
        yield _carried(row, limits, words, is_vain=is_on)


def _dominant(context: HealthContext) -> Iterator[tuple[str, str, float]]:
    """Return bundle, topic and share of those topics that carry their bundle, where they are read.

    Topics are read of few bundles, on demand.
    """
    topics = context.snapshot.topics
    if not topics.num_rows:
        return
    flow = np.nan_to_num(
        column_values(topics, "msg_throughput_in") + column_values(topics, "msg_throughput_out")
    )
    names, codes = np.unique(np.asarray(topics["bundle"]), return_inverse=True)
    total = np.bincount(codes, flow, minlength=names.size)
    count = np.bincount(codes, minlength=names.size)
    with np.errstate(invalid="ignore", divide="ignore"):
        share = flow / total[codes]
    for row in np.flatnonzero((np.nan_to_num(share) >= ONE_TOPIC_RATIO) & (count[codes] > 1)):
        yield str(names[codes[row]]), topics["topic"][int(row)].as_py(), float(share[row])


def _carried(row: Mapping[str, Any], limits: SplitLimits, topic: str, *, is_vain: bool) -> Finding:
    raised = _raised(row, limits)
    return Finding(
        code="topic_carries_bundle",
        title="One topic carries its bundle",
        measured=Quantity(row["rate"], "msg/s"),
        limit=Quantity(float(limits.msgs_per_s), "msg/s"),
        severity="warning" if is_vain else "info",
        subject_kind="bundle",
        subject=row["bundle"],
        keys=(*raised, _SPLIT) if is_vain else (),
        servers=(row["owner"],) if row["owner"] else (),
        sentence=f"{_excess(row, limits).rstrip(',')}; {topic or 'it has one topic'}.",
        consequence="It is split again and again, and the load stays with that topic."
        if is_vain
        else "A split cannot divide it.",
        hint="Add partitions to the topic: those can be spread."
        + (" Until then raise that limit, or switch automatic splits off." if is_vain else ""),
        fix=Fix(wanted=raised if is_vain else {}),
        evidence={
            "rate_msgs_per_s": row["rate"],
            "throughput_bytes_per_s": row["throughput"],
            "topic_count": row["topic_count"],
        },
    )
