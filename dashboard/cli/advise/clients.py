"""``trimtab advise``: what it computes and how it answers."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from core.errors import IncompleteSnapshotError, InputError, UnknownNameError
from core.ids import range_text
from core.plan.codec import dump_plan
from core.plan.model import Plan
from core.plan.options import PlanOptions
from core.planning.advisors.client_queue import ProducerLoad, batch_of
from core.planning.advisors.lookups import unload_pressure
from core.planning.advisors.partitions import (
    by_partition_count,
    even_boundaries,
    partition_hashes,
)
from core.planning.advisors.stalls import ROUTINGS, routed_stall
from core.planning.advisors.surgery import Surgery, plan_cuts
from core.pulsar.lookup import parse_topic_name
from core.pulsar.plan.split import build_cuts_plan
from core.snapshot.store import load_snapshot
from core.units import format_ratio
from dashboard.cli import plan_answers
from dashboard.cli.output import Answer, UsageFaultError, emit, say, table
from dashboard.cli.plan_answers import refusal, tell_plan_file, write_plan


def queue(
    load: ProducerLoad, silent: int, slow_ratio: float, *, routing: str, as_json: bool
) -> int:
    """``trimtab advise queue``: pending messages, batches, and a broker that does not answer."""
    if routing not in ROUTINGS:
        unknown = UnknownNameError.of("routing mode", routing, ROUTINGS)
        raise UsageFaultError(unknown.message, hint=unknown.hint)
    batch = batch_of(load)
    found = routed_stall(load, silent, routing=routing, slow_ratio=slow_ratio)
    stall = found.stall
    body = {
        "queue_per_partition": load.queue,
        "batch": dataclasses.asdict(batch),
        "routing": routing,
        "hit_ratio": found.hit_ratio,
        "stall": dataclasses.asdict(stall),
    }

    def show() -> None:
        most = f"{load.queue:,} messages" if load.queue else "as many as memory allows"
        say(f"Queue of each partition: {most}.")
        say(
            f"A batch closes by {batch.closes_by} after {batch.wait_s * 1000:.2f} ms with "
            f"{batch.messages:,.1f} messages; {batch.per_s:,.0f} a second over all partitions."
        )
        say(_stall_words(silent, stall.blocked_after_s, stall.by, slow_ratio))
        if found.hit_ratio < 1:
            say(f"That is so for {format_ratio(found.hit_ratio)} of the producers.")
        if stall.timeouts_before:
            say(f"Messages fail before that, after {load.send_timeout_s:g} s (sendTimeout).")

    return emit(Answer(body, show), as_json=as_json)


def _stall_words(silent: int, after_s: float | None, by: str, slow_ratio: float) -> str:
    who = f"{silent} partition{'s' if silent != 1 else ''} on a broker that "
    who += f"takes {format_ratio(slow_ratio)} of its traffic" if slow_ratio else "does not answer"
    if after_s is None:
        return f"With {who} the producer is not held up."
    full = "their queue is" if by == "queue" else "the client's memory is"
    return f"With {who} the whole producer stops after {after_s:,.2f} s: {full} full."


@dataclass(frozen=True)
class PartitionSpreadRequest:
    """What is asked of ``trimtab advise partitions``."""

    topic: str
    counts: tuple[int, ...]
    bundles: int | None
    snapshot: str | None
    wanted: int
    max_bundles: int
    plan_file: Path | None = None
    reason: str = ""


def partitions(request: PartitionSpreadRequest, *, as_json: bool) -> int:
    """``trimtab advise partitions``: the spread for each number, and splits for the first."""
    topic = str(parse_topic_name(request.topic))
    boundaries = _boundaries(request)
    advice = by_partition_count(topic, boundaries, request.counts)
    surgery = plan_cuts(
        boundaries,
        partition_hashes(topic, request.counts[0]),
        wanted=request.wanted,
        max_bundles=request.max_bundles,
    )
    body = {
        "topic": topic,
        "bundles": len(boundaries) - 1,
        "counts": [dataclasses.asdict(one) for one in advice],
        "splits": _splits(surgery),
        "verdict": surgery.verdict,
    }
    plan = _plan(request, topic, surgery)
    if plan is not None:
        body |= {"plan": plan_answers.plan(plan), "path": str(request.plan_file)}

    def show() -> None:
        table(
            ("partitions", "most in a bundle", "random names", "share of the traffic"),
            [
                (
                    str(one.partitions),
                    str(one.worst),
                    f"{one.expected_worst:.1f}",
                    format_ratio(one.bundle_share),
                )
                for one in advice
            ],
        )
        say(f"For {request.counts[0]} partitions: {surgery.verdict}")
        table(
            ("split", "at"),
            [(range_text(cut.lower, cut.upper), f"0x{cut.position:08x}") for cut in surgery.cuts],
        )
        if plan is not None:
            for item in plan.diagnostics:
                say(f"{item.severity}: {item.sentence} {item.hint}".rstrip())
            tell_plan_file(plan, request.plan_file, "")

    return emit(Answer(body, show), as_json=as_json)


def _plan(request: PartitionSpreadRequest, topic: str, surgery: Surgery) -> Plan | None:
    """Make the plan of the cuts, and write it: only for a topic that is on the cluster.

    Raises:
        UsageFaultError: The bundles are not those of a snapshot.
        IncompleteSnapshotError: The snapshot does not hold the topic.
        InputError: There is nothing to cut.
        PlanError: A check forbids it.
    """
    if request.plan_file is None:
        return None
    if request.snapshot is None:
        raise UsageFaultError(
            "Even bundles are assumed: there is nothing to plan on a cluster.",
            hint="Give --snapshot instead of --bundles.",
        )
    snapshot = load_snapshot(Path(request.snapshot))
    held = snapshot.topics["topic"].to_pylist()
    if not any(name.startswith(f"{topic}-partition-") for name in held):
        raise IncompleteSnapshotError(
            f"No partition of {topic} is in {request.snapshot}, and a split cannot be taken back.",
            hint="Capture with --topics-of its bundles, or fetch the topics on the page Advisors.",
        )
    if not surgery.cuts:
        raise InputError(f"There is nothing to plan: {surgery.verdict}")
    namespace = parse_topic_name(topic).namespace
    cuts = {f"{namespace}/{name}": where for name, where in surgery.positions.items()}
    terms = PlanOptions(now=datetime.now(tz=UTC), reason=request.reason)
    plan = build_cuts_plan(snapshot, cuts, terms)
    if errors := plan.by_severity("error"):
        raise refusal(errors)
    write_plan(request.plan_file, dump_plan(plan))
    return plan


def _splits(surgery: Surgery) -> list[dict[str, object]]:
    return [
        {"range": range_text(cut.lower, cut.upper), "position": cut.position}
        for cut in surgery.cuts
    ]


def _boundaries(request: PartitionSpreadRequest) -> Sequence[int]:
    """Take the namespace's own boundaries, or as many even bundles as were asked for."""
    if (request.bundles is None) == (request.snapshot is None):
        raise UsageFaultError(
            "The bundles are those of a snapshot, or so many even ones.",
            hint="Give --snapshot or --bundles, one of the two.",
        )
    if request.bundles is not None:
        return even_boundaries(request.bundles)
    snapshot = load_snapshot(Path(str(request.snapshot)))
    namespace = parse_topic_name(request.topic).namespace
    known = {row["namespace"]: row["boundaries"] for row in snapshot.namespaces.to_pylist()}
    if namespace not in known:
        raise UnknownNameError.of("namespace", namespace, known, place=str(request.snapshot))
    if not known[namespace]:
        raise IncompleteSnapshotError(
            f"The boundaries of {namespace} are unknown in {request.snapshot}.",
            hint="Give --bundles, or capture the cluster with its ZooKeeper.",
        )
    found: list[int] = known[namespace]
    return found


def lookups(directory: Path, namespace: str, pace_per_min: float, *, as_json: bool) -> int:
    """``trimtab advise lookups``: a namespace-wide unload beside one bundle by bundle."""
    found = unload_pressure(load_snapshot(directory), namespace, pace_per_min=pace_per_min)

    def show() -> None:
        say(found.sentence)
        if found.unknown_bundles:
            say(f"The clients of {found.unknown_bundles} bundles are unknown and not counted.")

    return emit(Answer(dataclasses.asdict(found), show), as_json=as_json)
