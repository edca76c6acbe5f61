"""What ``health`` and ``preview`` show of a Pulsar cluster beyond findings and steps."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from core.errors import UnknownNameError
from core.findings.finding import Finding, findings_sentence, overall_state
from core.plan.model import Plan
from core.pulsar.measures import TARGETS, Measures, Target, balance_sentence, measure
from core.pulsar.plan.answer import plan_sentence
from core.pulsar.plan.preview import OtherPreview, preview_plan
from core.pulsar.rules.registry import assess
from core.snapshot import Manifest
from core.snapshot.store import load_snapshot
from core.units import format_ago, format_ratio
from dashboard.cli import answers, plan_answers
from dashboard.cli.output import Answer, UsageFaultError, emit, say, table
from dashboard.cli.source import active_settings


def health(directory: Path, target_code: str, *, as_json: bool) -> int:
    """Show how even the load is, and the findings."""
    target = target_of(target_code)
    snapshot = load_snapshot(directory)
    settings = active_settings(snapshot)
    measures = measure(snapshot, settings)
    findings = assess(snapshot, settings, target=target)
    identity = (snapshot.snapshot_id, snapshot.manifest)
    return show_health(identity, measures, findings, target, as_json=as_json)


def show_health(
    identity: tuple[str, Manifest],
    measures: Measures,
    findings: tuple[Finding, ...],
    target: Target,
    *,
    as_json: bool,
) -> int:
    """Print what is known of a cluster's health, whoever judged it."""
    snapshot_id, manifest = identity
    body = {
        "cluster": manifest.cluster,
        "snapshot_id": snapshot_id,
        "taken_at": manifest.taken_at.isoformat(),
        "answer": balance_sentence(measures, target),
        "state": overall_state(findings),
        "target": target.code,
        "measures": answers.measures(measures),
        "findings": [answers.finding(item) for item in findings],
        "problems": [answers.problem(item) for item in manifest.problems],
    }

    def show() -> None:
        say(body["answer"])  # type: ignore[arg-type]  # a sentence
        say(f"{manifest.cluster}, {_age(manifest)}: {findings_sentence(findings)}.")
        say()
        table(
            ("measure", "mean", "maximum", "over the mean", "spread / mean", "worst broker"),
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
        for item in findings:
            say()
            say(f"{item.severity.upper():8}{item.sentence}")
            if item.hint:
                say(f"{'':8}{item.hint}")

    return emit(Answer(body, show), as_json=as_json)


def target_of(code: str) -> Target:
    """Return a target by its code.

    Raises:
        UsageFaultError: There is none of that name.
    """
    for target in TARGETS:
        if target.code == code:
            return target
    unknown = UnknownNameError.of("target", code, [target.code for target in TARGETS])
    raise UsageFaultError(unknown.message, hint=unknown.hint)


def _age(manifest: Manifest) -> str:
    age_s = (datetime.now(tz=UTC) - manifest.taken_at).total_seconds()
    return f"taken {format_ago(age_s)}" if age_s >= 0 else format_ago(age_s)


def preview(directory: Path, plan: Plan, *, as_json: bool) -> int:
    """Show destinations, load before and after, clients and commands."""
    outcome = preview_plan(load_snapshot(directory), plan)
    body = plan_answers.preview(plan, outcome)
    body["expired"] = plan.is_expired(datetime.now(tz=UTC))

    body["answer"] = plan_sentence(outcome)

    def show() -> None:
        say(body["answer"])
        plan_answers.show_plan(plan)
        for item in outcome.steps:
            say()
            say(f"{item.step.bundle} leaves {item.step.owner}; {item.clients.sentence()}")
            for broker, p in sorted(item.placement.distribution.items(), key=lambda pair: -pair[1]):
                say(f"  {format_ratio(p):>8}  {broker}")
            if not item.placement.distribution:
                say(f"  no destination: {item.placement.why}")
            say(f"  {item.command}")
            say(f"  {item.rest}")
        _show_others(outcome.others)
        if outcome.steps:
            say()
            table(*plan_answers.before_after_text(outcome))
            say()
            say(f"In all {outcome.clients.sentence()}")
            for text in outcome.notes:
                say(f"Note: {text}")
        if body["expired"]:
            say(f"The plan expired at {plan.expires_at.isoformat()}: it can be read, not applied.")

    return emit(Answer(body, show), as_json=as_json)


def _show_others(others: Sequence[OtherPreview]) -> None:
    for other in others:
        say()
        say(other.sentence + (f" {other.clients.sentence()}" if other.clients else ""))
        say(f"  {other.command}")
        say(f"  {other.rest}")
