"""``trimtab advise``: bundles of a namespace, partitions of a topic, lookups of an unload."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import pyarrow.compute as pc
import typer

from core.errors import IncompleteSnapshotError, InputError, UnknownNameError
from core.ids import range_text
from core.plan.model import Plan
from core.plan.options import PlanOptions
from core.planning.advisors.bundle_reasons import BundleLimits, Demand, advise_bundles, recommend
from core.planning.advisors.lookups import unload_pressure
from core.planning.advisors.partitions import (
    by_partition_count,
    even_boundaries,
    partition_hashes,
)
from core.planning.advisors.split_plan import SplitPlan, plan_cuts
from core.pulsar.lookup import parse_topic_name
from core.pulsar.plan.split import build_cuts_plan
from core.pulsar.settings import EffectiveSettings
from core.pulsar.split.watch import OverLimit, over_limit
from core.snapshot.store import load_snapshot
from core.units import format_ratio, severity_label
from dashboard.cli import plan_answers
from dashboard.cli.options import Config, Json, PlanReason
from dashboard.cli.output import Answer, UsageFaultError, emit, print_line, table
from dashboard.cli.plan_answers import refusal, show_plan_file, write_plan
from dashboard.cli.pulsar.source import Snapshot, active_settings, pulsar_directory
from dashboard.presenters.pulsar.advisors_facts import NamespaceFacts, namespace_facts
from dashboard.presenters.pulsar.advisors_inputs import BOUNDS

_MAX_SHOWN = 16


app = typer.Typer()


@app.command()
def bundles(
    brokers: Annotated[
        int | None, typer.Option(help="Number of brokers; default: the live brokers.")
    ] = None,
    topics: Annotated[
        int | None, typer.Option(help="Number of topics; each partition counts as one.")
    ] = None,
    clients: Annotated[int | None, typer.Option(help="Number of producers and consumers.")] = None,
    rate: Annotated[
        float | None, typer.Option(metavar="MSG/S", help="Message rate, in plus out (msg/s).")
    ] = None,
    throughput: Annotated[
        float | None, typer.Option(metavar="BYTES/S", help="Traffic, in plus out (bytes/s).")
    ] = None,
    within: Annotated[
        float, typer.Option(metavar="SHARE", help="Max deviation above the mean (ratio).")
    ] = 0.2,
    max_bundles: Annotated[
        int | None, typer.Option(help="loadBalancerNamespaceMaximumBundles.")
    ] = None,
    snapshot: Annotated[
        str | None, typer.Option(metavar="SNAPSHOT", help="Snapshot that supplies missing values.")
    ] = None,
    namespace: Annotated[
        str | None, typer.Option(metavar="NS", help="Namespace of the snapshot.")
    ] = None,
    as_json: Json = False,
) -> int:
    """Compute how many bundles a namespace needs.

    Shows every reason.
    """
    facts, settings, over = _live(snapshot, namespace, has_size=None not in (brokers, topics))
    limits = BundleLimits.of(settings)
    if max_bundles is not None:
        limits = dataclasses.replace(limits, maximum=max_bundles)
    given = {
        "brokers": brokers,
        "topics": topics,
        "clients": clients,
        "rate": rate,
        "throughput": throughput,
    }
    present = len(facts.bundles) if facts else 0
    advice = advise_bundles(_demand(given, facts, within), limits, present=present)
    recommendation = recommend(advice, present=present, over=over)
    body = {
        "bundles": advice.bundles,
        "present": present or None,
        "recommended": recommendation.bundles,
        "action": recommendation.action,
        "over_limit": [*over.splittable, *over.single],
        "is_even": advice.is_even,
        "reasons": [dataclasses.asdict(reason) for reason in advice.reasons],
        "tried": [dataclasses.asdict(one) for one in advice.tried],
        "sentence": recommendation.sentence,
    }

    def show() -> None:
        print_line(recommendation.sentence)
        for name in over.splittable[:_MAX_SHOWN]:
            print_line(f"  trimtab split {snapshot} --bundle {name}")
        table(
            ("reason", "bound", "bundles", "arithmetic"),
            [
                (
                    reason.name,
                    BOUNDS[reason.bound],
                    "" if reason.bundles is None else str(reason.bundles),
                    reason.formula,
                )
                for reason in advice.reasons
            ],
        )
        table(
            ("bundles", "per broker", "change per move", "min deviation of the busiest"),
            [
                (
                    str(one.bundles),
                    f"{one.per_broker:.1f}",
                    format_ratio(one.step_ratio),
                    format_ratio(one.reachable_ratio),
                )
                for one in advice.tried[-_MAX_SHOWN:]
            ],
        )
        print_line("Topics are assumed uniform and random.")

    return emit(Answer(body, show), as_json=as_json)


def _live(
    directory: str | None, namespace: str | None, *, has_size: bool
) -> tuple[NamespaceFacts | None, EffectiveSettings, OverLimit]:
    """Return the namespace, the settings and the bundles over a limit; else defaults."""
    if (directory is None) != (namespace is None):
        raise UsageFaultError(
            "--namespace needs a snapshot.", hint="Pass --snapshot and --namespace together."
        )
    if directory is None or namespace is None:
        if not has_size:
            raise UsageFaultError(
                "The number of brokers and topics is missing.",
                hint="Pass --brokers and --topics, or --snapshot and --namespace.",
            )
        return None, EffectiveSettings.defaults(), OverLimit()
    snapshot = load_snapshot(Path(directory))
    facts = namespace_facts(snapshot.bundles, namespace, snapshot.brokers.num_rows)
    if not facts.bundles:
        known = pc.unique(snapshot.bundles["namespace"]).to_pylist()
        raise UnknownNameError.of("namespace", namespace, known, place=directory)
    settings = active_settings(snapshot)
    return facts, settings, over_limit(snapshot, settings, namespace)


def _demand(
    given: Mapping[str, float | None], facts: NamespaceFacts | None, within: float
) -> Demand:
    """Return the demand: given values, else those of the snapshot, else nothing."""
    shown: dict[str, float] = {}
    if facts is not None:
        shown = {
            "brokers": facts.brokers,
            "topics": facts.topics or 0,
            "clients": facts.clients or 0,
            "rate": (facts.msgs_in or 0.0) + (facts.msgs_out or 0.0),
            "throughput": (facts.bytes_in or 0.0) + (facts.bytes_out or 0.0),
        }
    held = shown | {name: value for name, value in given.items() if value is not None}
    return Demand(
        brokers=int(held["brokers"]),
        topics=int(held["topics"]),
        clients=int(held.get("clients", 0)),
        msg_rate=held.get("rate", 0.0),
        bytes_per_s=held.get("throughput", 0.0),
        within=within,
    )


@app.command()
def partitions(
    name: Annotated[str, typer.Argument(help="Topic without -partition-N.", metavar="TOPIC")],
    counts: Annotated[
        list[int],
        typer.Option("--partitions", min=1, max=100_000, help="Number of partitions."),
    ],
    bundle_count: Annotated[
        int | None,
        typer.Option(
            "--bundles",
            min=1,
            max=1_000_000,
            help="Number of equal bundles; default: the snapshot's.",
        ),
    ] = None,
    directory: Annotated[
        str | None,
        typer.Option("--snapshot", metavar="SNAPSHOT", help="Snapshot with the topic's namespace."),
    ] = None,
    wanted: Annotated[
        int, typer.Option(min=1, help="Max partitions per bundle; finds the splits.")
    ] = 1,
    max_bundles: Annotated[int, typer.Option(help="loadBalancerNamespaceMaximumBundles.")] = 128,
    plan_file: Annotated[
        Path | None,
        typer.Option(
            "--plan",
            metavar="OUT",
            help="Write a plan of the splits; the snapshot must include the topic.",
        ),
    ] = None,
    reason: PlanReason = "",
    as_json: Json = False,
) -> int:
    """Show the distribution of a topic's partitions over bundles.

    Also plans splits that spread them.
    """
    topic = str(parse_topic_name(name))
    boundaries = _boundaries(name, bundle_count, directory)
    advice = by_partition_count(topic, boundaries, counts)
    split_plan = plan_cuts(
        boundaries,
        partition_hashes(topic, counts[0]),
        wanted=wanted,
        max_bundles=max_bundles,
    )
    body = {
        "topic": topic,
        "bundles": len(boundaries) - 1,
        "counts": [dataclasses.asdict(one) for one in advice],
        "splits": _splits(split_plan),
        "verdict": split_plan.verdict,
    }
    plan = _plan(topic, split_plan, directory, plan_file, reason)
    if plan is not None:
        body |= {"plan": plan_answers.plan(plan), "path": str(plan_file)}

    def show() -> None:
        table(
            ("partitions", "max per bundle", "random names", "traffic share"),
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
        print_line(f"For {counts[0]} partitions: {split_plan.verdict}")
        table(
            ("split", "at"),
            [
                (range_text(cut.lower, cut.upper), f"0x{cut.position:08x}")
                for cut in split_plan.cuts
            ],
        )
        if plan is not None:
            for item in plan.diagnostics:
                print_line(f"{severity_label(item.severity)}: {item.sentence} {item.hint}".rstrip())
            show_plan_file(plan, plan_file)

    return emit(Answer(body, show), as_json=as_json)


def _plan(
    topic: str, split_plan: SplitPlan, directory: str | None, plan_file: Path | None, reason: str
) -> Plan | None:
    """Make the plan of the cuts, and write it: only for a topic that is on the cluster.

    Raises:
        UsageFaultError: The bundles are not those of a snapshot.
        IncompleteSnapshotError: The snapshot does not hold the topic.
        InputError: There is nothing to cut.
        PlanError: A check forbids it.
    """
    if plan_file is None:
        return None
    if directory is None:
        raise UsageFaultError(
            "A plan needs the bundles of a snapshot; --bundles assumes even bundles.",
            hint="Pass --snapshot instead of --bundles.",
        )
    snapshot = load_snapshot(Path(directory))
    held = snapshot.topics["topic"].to_pylist()
    if not any(name.startswith(f"{topic}-partition-") for name in held):
        raise IncompleteSnapshotError(
            f"No partition of {topic} is in {directory}: the split cannot be verified, and a split "
            "cannot be undone.",
            hint="Capture with --topics-of for its bundles, or fetch the topics on the "
            "Calculators page.",
        )
    if not split_plan.cuts:
        raise InputError(f"Nothing to plan: {split_plan.verdict}")
    namespace = parse_topic_name(topic).namespace
    cuts = {f"{namespace}/{name}": where for name, where in split_plan.positions.items()}
    options = PlanOptions(now=datetime.now(tz=UTC), reason=reason)
    plan = build_cuts_plan(snapshot, cuts, options)
    if errors := plan.by_severity("error"):
        raise refusal(errors)
    write_plan(plan_file, plan)
    return plan


def _splits(split_plan: SplitPlan) -> list[dict[str, object]]:
    return [
        {"range": range_text(cut.lower, cut.upper), "position": cut.position}
        for cut in split_plan.cuts
    ]


def _boundaries(topic: str, bundle_count: int | None, directory: str | None) -> Sequence[int]:
    """Return the boundaries of the namespace, or of equal bundles."""
    if (bundle_count is None) == (directory is None):
        raise UsageFaultError(
            "The bundles are unknown.",
            hint="Pass either --snapshot or --bundles.",
        )
    if bundle_count is not None:
        return even_boundaries(bundle_count)
    snapshot = load_snapshot(Path(str(directory)))
    namespace = parse_topic_name(topic).namespace
    known = {row["namespace"]: row["boundaries"] for row in snapshot.namespaces.to_pylist()}
    if namespace not in known:
        raise UnknownNameError.of("namespace", namespace, known, place=str(directory))
    if not known[namespace]:
        raise IncompleteSnapshotError(
            f"The boundaries of {namespace} are unknown in {directory}.",
            hint="Pass --bundles, or capture the cluster with ZooKeeper configured.",
        )
    found: list[int] = known[namespace]
    return found


@app.command()
def lookups(
    directory: Snapshot,
    namespace: Annotated[str, typer.Option(metavar="NS", help="Namespace, tenant/namespace.")],
    pace_per_min: Annotated[
        float, typer.Option("--pace", metavar="BUNDLES/min", help="Unload rate (bundles/min).")
    ] = 10.0,
    config: Config = None,
    as_json: Json = False,
) -> int:
    """Compute the lookups that unloading a namespace causes.

    Compares unloading at once and bundle by bundle.
    """
    snapshot = load_snapshot(pulsar_directory(directory, config))
    found = unload_pressure(snapshot, namespace, pace_per_min=pace_per_min)

    def show() -> None:
        print_line(found.sentence)
        if found.unknown_bundles:
            print_line(
                f"The clients of {found.unknown_bundles} bundles are unknown and not counted."
            )

    return emit(Answer(dataclasses.asdict(found), show), as_json=as_json)
