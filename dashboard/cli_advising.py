"""``trimtab advise``: what it computes and how it answers."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.errors import IncompleteSnapshotError, UnknownNameError
from core.ids import range_text
from core.planning.advisors.client_queue import ProducerLoad, batch_of
from core.planning.advisors.ledger import Rollover
from core.planning.advisors.lookups import unload_pressure
from core.planning.advisors.partitions import (
    by_partition_count,
    partition_hashes,
)
from core.planning.advisors.retention import Phase
from core.planning.advisors.stalls import ROUTINGS, routed_stall
from core.planning.advisors.surgery import Surgery, plan_cuts
from core.pulsar.lookup import parse_topic_name
from core.pulsar.ring import initial_boundaries
from core.snapshot.store import load_snapshot
from core.units import format_ratio
from dashboard.cli_output import Answer, UsageFaultError, emit, say, table


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


def ledger(found: Rollover | None, *, as_json: bool) -> int:
    """``trimtab advise ledger``: the next rollover."""
    body: dict[str, Any] = {"rollover": dataclasses.asdict(found) if found else None}

    def show() -> None:
        if found is None:
            say("Never: nothing is written, and an empty ledger is not rolled over.")
            return
        held = " (full earlier; the least age keeps it open)" if found.held_by_minimum else ""
        say(
            f"In {found.in_minutes:,.1f} min by {found.cause}{held}, with {found.entries:,.0f} "
            f"entries and {found.size_bytes / 1024**2:,.0f} MiB."
        )

    return emit(Answer(body, show), as_json=as_json)


def retention(phases: Sequence[Phase], told: Sequence[str], *, as_json: bool) -> int:
    """``trimtab advise retention``: the life of a message."""
    body = {
        "phases": [dataclasses.asdict(phase) for phase in phases],
        "contradictions": list(told),
    }

    def show() -> None:
        rows = [
            (
                phase.name,
                f"{phase.begins:,.1f} min",
                "without end" if phase.ends is None else f"{phase.ends:,.1f} min",
                phase.why,
            )
            for phase in phases
        ]
        table(("phase", "from", "until at the latest", "why"), rows)
        for sentence in told:
            say(f"warning: {sentence}")

    return emit(Answer(body, show), as_json=as_json)


@dataclass(frozen=True)
class SpreadWish:
    """What is asked of ``trimtab advise partitions``."""

    topic: str
    counts: tuple[int, ...]
    bundles: int | None
    snapshot: str | None
    wanted: int
    max_bundles: int


def partitions(wish: SpreadWish, *, as_json: bool) -> int:
    """``trimtab advise partitions``: the spread for each number, and splits for the first."""
    topic = str(parse_topic_name(wish.topic))
    boundaries = _boundaries(wish)
    advice = by_partition_count(topic, boundaries, wish.counts)
    surgery = plan_cuts(
        boundaries,
        partition_hashes(topic, wish.counts[0]),
        wanted=wish.wanted,
        max_bundles=wish.max_bundles,
    )
    body = {
        "topic": topic,
        "bundles": len(boundaries) - 1,
        "counts": [dataclasses.asdict(one) for one in advice],
        "splits": _splits(surgery),
        "verdict": surgery.verdict,
    }

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
        say(f"For {wish.counts[0]} partitions: {surgery.verdict}")
        table(
            ("split", "at"),
            [(range_text(cut.lower, cut.upper), f"0x{cut.position:08x}") for cut in surgery.cuts],
        )

    return emit(Answer(body, show), as_json=as_json)


def _splits(surgery: Surgery) -> list[dict[str, object]]:
    return [
        {"range": range_text(cut.lower, cut.upper), "position": cut.position}
        for cut in surgery.cuts
    ]


def _boundaries(wish: SpreadWish) -> Sequence[int]:
    """Take the namespace's own boundaries, or as many even bundles as were asked for."""
    if (wish.bundles is None) == (wish.snapshot is None):
        raise UsageFaultError(
            "The bundles are those of a snapshot, or so many even ones.",
            hint="Give --snapshot or --bundles, one of the two.",
        )
    if wish.bundles is not None:
        return initial_boundaries(wish.bundles)
    snapshot = load_snapshot(Path(str(wish.snapshot)))
    namespace = parse_topic_name(wish.topic).namespace
    known = {row["namespace"]: row["boundaries"] for row in snapshot.namespaces.to_pylist()}
    if namespace not in known:
        raise UnknownNameError.of("namespace", namespace, known, place=str(wish.snapshot))
    if not known[namespace]:
        raise IncompleteSnapshotError(
            f"The boundaries of {namespace} are unknown in {wish.snapshot}.",
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
