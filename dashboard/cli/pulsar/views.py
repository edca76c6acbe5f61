"""Additions of ``health`` and ``preview`` for a Pulsar cluster, next to findings and steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa

from core.errors import InputError, UnknownNameError
from core.plan.model import Plan
from core.pulsar.plan.answer import plan_sentence
from core.pulsar.plan.preview import OtherPreview, Preview, preview_plan
from core.snapshot import PulsarSnapshot, TableManifest
from core.snapshot.store import load_snapshot
from core.units import format_ratio
from dashboard import services
from dashboard.cli import plan_answers
from dashboard.cli.output import Answer, print_line, table
from dashboard.cli.pulsar import plan_answers as pulsar_plans
from dashboard.services import pulsar


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
