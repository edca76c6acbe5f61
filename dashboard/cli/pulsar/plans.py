"""Commands that make a plan: ``unload`` and ``set``. They change no cluster."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Final

import typer

from core.plan.model import Plan
from core.plan.options import PlanOptions
from core.pulsar.plan.answer import plan_sentence
from core.pulsar.plan.build import build_unload_plan
from core.pulsar.plan.preview import OtherPreview, preview_plan
from core.pulsar.plan.setting import build_setting_plan
from core.snapshot.store import load_snapshot
from core.units import severity_label
from dashboard import services
from dashboard.cli import plan_answers
from dashboard.cli.config import configured
from dashboard.cli.options import (
    Bundles,
    Config,
    Json,
    PlanFile,
    PlanReason,
    Release,
    Settings,
    Strategy,
)
from dashboard.cli.output import Answer, UsageFaultError, emit, print_line
from dashboard.cli.plan_answers import nothing_to_do, refusal, show_plan_file, write_plan
from dashboard.cli.pulsar import plan_answers as pulsar_plans
from dashboard.cli.pulsar.snapshots import Assumptions
from dashboard.cli.pulsar.source import Snapshot, pulsar_cluster, pulsar_directory
from dashboard.cli.source import current_snapshot
from dashboard.services import pulsar

_MAX_STEPS_SHOWN: Final = 10

app = typer.Typer()


@app.command()
def unload(
    directory: Snapshot,
    bundles: Bundles,
    plan_file: PlanFile = None,
    destination: Annotated[
        str | None, typer.Option("--to", metavar="BROKER", help="Destination broker.")
    ] = None,
    strategy: Strategy = None,
    settings: Settings = None,
    release: Release = None,
    reason: PlanReason = "",
    config: Config = None,
    as_json: Json = False,
) -> int:
    """Plan an unload of bundles; nothing is sent."""
    assumptions = Assumptions.of(strategy, settings, release)
    snapshot = load_snapshot(pulsar_directory(directory, config))
    assumptions.settings_of(snapshot)  # warns of what the release does not have
    plan = build_unload_plan(
        snapshot,
        bundles,
        destination=destination,
        strategy=assumptions.strategy,
        overrides=assumptions.overrides,
        release=assumptions.release,
        now=datetime.now(tz=UTC),
        reason=reason,
    )
    errors = plan.by_severity("error")
    if errors:
        raise refusal(errors)
    if plan_file is not None:
        write_plan(plan_file, plan)
    effect = plan_sentence(preview_plan(snapshot, plan))

    def show() -> None:
        print_line(effect)
        for step in plan.steps[:_MAX_STEPS_SHOWN]:
            print_line(f"  {step.describe_prediction()}")
        if len(plan.steps) > _MAX_STEPS_SHOWN:
            print_line(f"  ... and {len(plan.steps) - _MAX_STEPS_SHOWN} more; --json lists all.")
        plan_answers.show_plan(plan)
        if plan_file is None:
            print_line("Not written. Pass --plan OUT to write it.")
        else:
            print_line(f"Written to {plan_file}.")
            plan_answers.show_preview_command(plan_file, directory)

    body = {
        "answer": effect,
        "plan": plan_answers.plan(plan),
        "path": str(plan_file) if plan_file else None,
    }
    return emit(Answer(body, show), as_json=as_json)


def _requested(changes: Sequence[str], unset: Sequence[str]) -> dict[str, str | None]:
    """Return key to value, in the order given.

    Raises:
        UsageFaultError: No ``=``, a key named twice, or nothing at all.
    """
    pairs: list[tuple[str, str | None]] = []
    for change in changes:
        key, sign, value = change.partition("=")
        if not sign:
            raise UsageFaultError(
                f"{change!r} has no value.", hint="Use KEY=VALUE, or --unset KEY."
            )
        pairs.append((key.strip(), value))
    pairs += [(key.strip(), None) for key in unset]
    found = dict(pairs)
    if not found:
        raise UsageFaultError("No setting was specified.", hint="Use KEY=VALUE, or --unset KEY.")
    if len(found) < len(pairs):
        names = [key for key, _ in pairs]
        twice = next(key for key in names if names.count(key) > 1)
        raise UsageFaultError(f"{twice} is listed twice.", hint="List each setting once.")
    return found


@app.command("set")
def set_settings(
    name: Annotated[
        str, typer.Argument(metavar="CLUSTER", help="Cluster name in the configuration.")
    ],
    changes: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="KEY=VALUE...", help="Dynamic settings, with values as in broker.conf."
        ),
    ] = None,
    unset: Annotated[
        list[str] | None,
        typer.Option("--unset", metavar="KEY", help="Setting whose dynamic value to remove."),
    ] = None,
    plan_file: PlanFile = None,
    reason: PlanReason = "",
    config_file: Config = None,
    as_json: Json = False,
) -> int:
    """Plan a change of dynamic settings.

    Every value is validated; run the plan with `apply`.
    """
    wanted = _requested(changes or (), unset or ())
    config = configured(config_file)
    cluster = pulsar_cluster(config, name)
    snapshot = current_snapshot(config, cluster, pulsar.capture)
    options = PlanOptions(
        now=services.now(), reason=reason, exclusions=frozenset(cluster.exclusions)
    )
    plan = build_setting_plan(snapshot, wanted, options)
    if errors := plan.by_severity("error"):
        raise refusal(errors)
    if not plan.steps:
        return nothing_to_do(plan.diagnostics, as_json=as_json)
    if plan_file is not None:
        write_plan(plan_file, plan)
    others = preview_plan(snapshot, plan).others
    body = {
        "plan": plan_answers.plan(plan),
        "steps": [pulsar_plans.other(item) for item in others],
        "path": str(plan_file) if plan_file else None,
    }
    return emit(Answer(body, lambda: _show_setting_plan(plan, others, plan_file)), as_json=as_json)


def _show_setting_plan(plan: Plan, others: Sequence[OtherPreview], plan_file: Path | None) -> None:
    for other in others:
        print_line(other.sentence)
        print_line(f"  {other.command}")
        print_line(f"  {other.rest}")
    for item in plan.diagnostics:
        print_line(f"{severity_label(item.severity)}: {item.sentence} {item.hint}".rstrip())
    show_plan_file(plan, plan_file)
