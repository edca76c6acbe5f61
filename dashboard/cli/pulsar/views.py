"""Additions of ``health`` and ``preview`` for a Pulsar cluster, next to findings and steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from core.errors import InputError, UnknownNameError
from core.findings.finding import Fix
from core.findings.verdict import Verdict
from core.plan.model import Plan
from core.progress import Progress
from core.pulsar.load import usage_sources
from core.pulsar.measures import (
    TARGETS,
    Measures,
    Target,
    balance_sentence,
    cluster_target,
    measure,
)
from core.pulsar.plan.answer import plan_sentence
from core.pulsar.plan.preview import OtherPreview, Preview, preview_plan
from core.pulsar.presets import set_command
from core.pulsar.rules.verdict import verdict_of
from core.pulsar.settings import EffectiveSettings
from core.snapshot import Manifest, PulsarSnapshot, TableManifest
from core.snapshot.store import load_manifest, load_snapshot
from core.spark.size import is_large
from core.units import format_ago, format_ratio
from dashboard import services
from dashboard.cli import answers, plan_answers
from dashboard.cli.output import Answer, UsageFaultError, emit, print_line, table
from dashboard.cli.pulsar import answers as pulsar_answers
from dashboard.cli.pulsar import plan_answers as pulsar_plans
from dashboard.cli.pulsar.source import active_settings
from dashboard.services import pulsar

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from core.spark.pulsar.large.cluster import LargeCluster


def health(directory: Path, target_code: str, *, as_json: bool) -> int:
    """Print the balance and the findings."""
    snapshot = load_snapshot(directory)
    target = target_of(target_code, snapshot.manifest)
    settings = active_settings(snapshot)
    measures = measure(snapshot, settings)
    verdict = verdict_of(snapshot, settings, target=target)
    identity = (snapshot.snapshot_id, snapshot.manifest)
    source = _source_of_worst(snapshot, measures, settings)
    return show_health(identity, measures, verdict, target, source, as_json=as_json)


def _source_of_worst(
    snapshot: PulsarSnapshot, measures: Measures, settings: EffectiveSettings
) -> str:
    """Return the source of the busiest broker's usage; empty if the usage is unknown."""
    worst = measures.usage.worst
    if worst is None:
        return ""
    row = measures.brokers.index(worst)
    return usage_sources(snapshot.brokers.slice(row, 1), settings)[0]


def large_health(
    spark: SparkSession, directory: Path, progress: Progress, *, target_code: str
) -> Callable[..., int] | None:
    """Return the ``trimtab health`` of a large cluster; ``None`` if one task can hold it."""
    if not is_large(directory):
        return None
    from core.spark.pulsar.large.cluster import LargeCluster  # noqa: PLC0415  # commands start fast

    return partial(_large_health, LargeCluster.of(spark, directory, progress), target_code)


def _large_health(
    cluster: LargeCluster, target_code: str, directory: Path, *, as_json: bool
) -> int:
    from core.spark.pulsar.large import health as kernel  # noqa: PLC0415  # commands start fast

    target = target_of(target_code, cluster.manifest)
    found = kernel.large_health(cluster, target)
    identity = load_manifest(directory)
    source = _source_of_worst(cluster.skeleton, found.measures, cluster.settings())
    return show_health(identity, found.measures, found.verdict, target, source, as_json=as_json)


def show_health(
    identity: tuple[str, Manifest],
    measures: Measures,
    verdict: Verdict,
    target: Target,
    source: str,
    *,
    as_json: bool,
) -> int:
    """Print the health of a cluster from any verdict.

    Args:
        identity: Snapshot id and manifest.
        measures: Of the snapshot.
        verdict: On the cluster.
        target: What is even enough.
        source: What makes the usage of the busiest broker; empty: it is not known.
        as_json: Print JSON.
    """
    snapshot_id, manifest = identity
    body = {
        "cluster": manifest.cluster,
        "snapshot_id": snapshot_id,
        "taken_at": manifest.taken_at.isoformat(),
        "answer": balance_sentence(measures, target),
        **answers.verdict(verdict),
        "target": target.code,
        "target_percent": _percent(target, measures),
        "measures": pulsar_answers.measures(measures),
        "usage_source": source or None,
        "problems": [answers.problem(item) for item in manifest.problems],
    }

    def show() -> None:
        print_line(body["answer"])
        if target.code != measures.target.code:
            print_line(
                f"Target of this request: {target.code} ({target.label}); "
                f"configured target of the cluster: {measures.target.label}."
            )
        print_line(f"{manifest.cluster}, {_age(manifest)}: {verdict.sentence}")
        print_line()
        table(
            ("measure", "mean", "maximum", "above mean", "spread / mean", "worst broker"),
            [
                (
                    spread.label,
                    spread.text_of(spread.mean),
                    spread.text_of(spread.maximum),
                    format_ratio(spread.max_deviation_ratio),
                    format_ratio(spread.coefficient_ratio),
                    spread.worst or "unknown",
                )
                for spread in measures
            ],
        )
        if source:
            print_line(f"Usage of {measures.usage.worst}: {source}.")
        for item in verdict.findings:
            print_line()
            print_line(f"{item.severity.upper():8}{item.sentence}")
            if item.hint:
                print_line(f"{'':8}{item.hint}")

    return emit(Answer(body, show), as_json=as_json)


def _percent(target: Target, measures: Measures) -> float | None:
    """Return the allowed deviation from the mean, percent; ``None``: the target is another one."""
    is_share = target.statistic == measures.target.statistic
    return round(target.bound * 100, 3) if is_share else None


def target_of(code: str, manifest: Manifest) -> Target:
    """Return a target by its code: the cluster's own, or another for this question.

    Raises:
        UsageFaultError: There is none of that name.
    """
    known = (cluster_target(manifest), *TARGETS)
    for target in known:
        if target.code == code:
            return target
    unknown = UnknownNameError.of("target", code, [target.code for target in known])
    raise UsageFaultError(unknown.message, hint=unknown.hint)


def _age(manifest: Manifest) -> str:
    age_s = (datetime.now(tz=UTC) - manifest.taken_at).total_seconds()
    return f"taken {format_ago(age_s)}" if age_s >= 0 else format_ago(age_s)


def preview(directory: Path, plan: Plan) -> Answer:
    """Return destinations, load before and after, clients and commands."""
    outcome = preview_plan(load_snapshot(directory), plan)
    body = pulsar_plans.preview(plan, outcome)
    body["expired"] = plan.is_expired(datetime.now(tz=UTC))

    body["answer"] = plan_sentence(outcome)

    def show() -> None:
        print_line(body["answer"])
        plan_answers.show_plan(plan)
        for item in outcome.steps:
            print_line()
            print_line(f"{item.step.bundle} leaves {item.step.owner}; {item.clients.sentence()}")
            for broker, p in sorted(item.placement.distribution.items(), key=lambda pair: -pair[1]):
                print_line(f"  {format_ratio(p):>8}  {broker}")
            if not item.placement.distribution:
                print_line(f"  no destination: {item.placement.why}")
            print_line(f"  {item.command}")
            print_line(f"  {item.rest}")
        _show_others(outcome.others)
        if outcome.steps:
            _show_totals(outcome)
        if body["expired"]:
            print_line(
                f"The plan expired at {plan.expires_at.isoformat()}: it can be previewed but not "
                "applied."
            )

    return Answer(body, show)


def _show_totals(outcome: Preview) -> None:
    print_line()
    table(*pulsar_plans.before_after_text(outcome))
    print_line()
    print_line(f"In total {outcome.clients.sentence()}")
    for text in outcome.overloads:
        print_line(f"Warning: {text}")
    for text in outcome.notes:
        print_line(f"Note: {text}")


def _show_others(others: Sequence[OtherPreview]) -> None:
    for other in others:
        print_line()
        print_line(other.sentence + (f" {other.clients.sentence()}" if other.clients else ""))
        print_line(f"  {other.command}")
        print_line(f"  {other.rest}")


def with_topics(
    cluster: services.Cluster, snapshot: PulsarSnapshot, bundles: Sequence[str]
) -> PulsarSnapshot:
    """Return the snapshot with the topics of some bundles, read from their owners right now.

    Raises:
        UnknownNameError: The cluster has no such bundle.
        InputError: The bundle has no owner, so no broker has its topics loaded.
        RemoteError: The owner did not answer as it should.
    """
    if not bundles:
        return snapshot
    names = snapshot.bundles.column("bundle").to_pylist()
    address = {
        row["broker"]: cluster.web_address(row["web_url"], row["web_url_tls"])
        for row in snapshot.brokers.select(["broker", "web_url", "web_url_tls"]).to_pylist()
    }
    found = []
    for bundle in dict.fromkeys(bundles):
        if bundle not in names:
            raise UnknownNameError.of("bundle", bundle, names, place=cluster.name)
        owner = snapshot.bundles.column("owner")[names.index(bundle)].as_py()
        url = address.get(owner or "")
        if not url:
            raise InputError(
                f"No reachable broker owns {bundle}; its topics are not loaded.",
                hint="Capture without --topics-of, or look up one of its topics with a client.",
            )
        found.append(pulsar.fetch_topics(cluster, url, bundle))
    topics = pa.concat_tables(found).sort_by("hash")
    entry = TableManifest(source="rest", rows=topics.num_rows)
    manifest = replace(snapshot.manifest, tables={**snapshot.manifest.tables, "topics": entry})
    return PulsarSnapshot.build(manifest, {**snapshot.tables, "topics": topics})


def fix_command(fix: Fix, cluster: str, more: str = "") -> str:
    """Return the ``trimtab set`` that makes a plan of a fix; blank where it has no dynamic part.

    Args:
        fix: The fix.
        cluster: Name of the cluster.
        more: Further words of the command, such as the configuration.
    """
    return set_command(fix.wanted, cluster, more)
