"""The commands on plans: make one, look at one. Nothing of a cluster is touched."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from core.errors import OpsError, PlanError
from core.plan.codec import dump_plan, load_plan
from core.plan.describe import tally
from core.plan.model import Diagnostic, Plan
from core.pulsar.plan.answer import plan_sentence
from core.pulsar.plan.build import build_unload_plan
from core.pulsar.plan.preview import OtherPreview, preview_plan
from core.snapshot.pegasus import KIND as PEGASUS
from core.snapshot.store import load_manifest, load_snapshot
from core.systems import STEPS
from core.units import format_ratio, pluralize
from dashboard.cli.output import Answer, emit, say, table
from dashboard.cli.pegasus.preview import preview_of_pegasus
from dashboard.cli.plans import answers
from dashboard.cli.snapshots import Assumptions

_ERRORS_TOLD: Final = 3
"""How many reasons against a plan are said in full."""

_DONE_ALREADY: Final = ("nothing_to_do", "already_set")
"""Codes of the diagnostics that explain a plan without steps as done."""


def unload(
    directory: Path,
    bundles: Sequence[str],
    assumptions: Assumptions,
    *,
    plan_file: Path | None,
    destination: str | None,
    reason: str,
    as_json: bool,
) -> int:
    """``trimtab unload``: a plan file, or the first reason why there cannot be one."""
    snapshot = load_snapshot(directory)
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
        write_plan(plan_file, dump_plan(plan))

    def show() -> None:
        _show_plan(plan)
        if plan_file is None:
            say("Not written: name a file with --plan OUT.")
        else:
            say(f"Written to {plan_file}.")
            say(f"See `trimtab preview {plan_file} --snapshot {directory}`.")

    body = {
        "plan": answers.plan(plan),
        "path": str(plan_file) if plan_file else None,
    }
    return emit(Answer(body, show), as_json=as_json)


def preview(plan_file: Path, directory: Path, *, as_json: bool) -> int:
    """``trimtab preview``."""
    plan = load_plan(plan_file, STEPS)
    if load_manifest(directory)[1].kind == PEGASUS:
        return preview_of_pegasus(plan, directory, as_json=as_json)
    return _preview_of_pulsar(plan, directory, as_json=as_json)


def _preview_of_pulsar(plan: Plan, directory: Path, *, as_json: bool) -> int:
    outcome = preview_plan(load_snapshot(directory), plan)
    body = answers.preview(plan, outcome)
    body["expired"] = plan.is_expired(datetime.now(tz=UTC))

    body["answer"] = plan_sentence(outcome)

    def show() -> None:
        say(body["answer"])
        _show_plan(plan)
        for item in outcome.steps:
            say()
            say(f"{item.step.bundle} leaves {item.step.owner}; {item.clients.sentence()}")
            for broker, p in sorted(item.placement.distribution.items(), key=lambda pair: -pair[1]):
                say(f"  {format_ratio(p):>8}  {broker}")
            if not item.placement.distribution:
                say(f"  to nobody: {item.placement.why}")
            say(f"  {item.command}")
            say(f"  {item.rest}")
        _show_others(outcome.others)
        if outcome.steps:
            say()
            table(*answers.before_after_text(outcome))
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


def _show_plan(plan: Plan) -> None:
    say(
        f"Plan {plan.short_id} for {plan.cluster}: {tally(plan.steps)}; good until "
        f"{plan.expires_at:%H:%M:%S} UTC."
    )
    for item in plan.diagnostics:
        say(f"{item.severity}: {item.sentence} {item.hint}".rstrip())


def refusal(errors: Sequence[Diagnostic]) -> OpsError:
    """Return the errors of a plan as one: what the first says, and up to two more."""
    told = " ".join(one.sentence for one in errors[:_ERRORS_TOLD])
    rest = len(errors) - _ERRORS_TOLD
    more = f" ({pluralize(rest, 'more error')})" if rest > 0 else ""
    error = PlanError(f"{told}{more}", hint=errors[0].hint)
    error.code = errors[0].code  # type: ignore[misc]  # the diagnostic's own code tells more
    return error


def nothing_to_do(diagnostics: Sequence[Diagnostic], *, as_json: bool) -> int:
    """Print the verdict of a plan without steps, and return the exit code: that is done.

    No plan file is written.

    Raises:
        PlanError: The plan has no steps for another reason than that nothing is left to do.
    """
    reasons = [one for one in diagnostics if one.code in _DONE_ALREADY]
    if not reasons:
        if diagnostics:
            raise refusal(diagnostics)
        raise PlanError("The plan has no steps.", hint="Name what is to change.")
    body = {
        "verdict": "nothing_to_do",
        "answer": " ".join(one.sentence for one in reasons),
        "plan": None,
        "preview": None,
        "path": None,
    }

    def show() -> None:
        for one in reasons:
            say(f"{one.sentence} {one.hint}".rstrip())
        say("Nothing to plan, so no file is written and nothing is sent.")

    return emit(Answer(body, show), as_json=as_json)


def write_plan(path: Path, content: bytes) -> None:
    """Write a plan file.

    Raises:
        PlanError: It cannot be written.
    """
    try:
        path.write_bytes(content)
    except OSError as exc:
        raise PlanError(
            f"{path} cannot be written: {exc.strerror}.", hint="Name another file."
        ) from exc


def tell_plan_file(plan: Plan, plan_file: Path | None, config_words: str) -> None:
    """Say where a plan is and how it is carried out, or that it was not written."""
    if plan_file is None:
        say("Not written: name a file with --plan OUT.")
        return
    say(f"Plan {plan.short_id}, good until {plan.expires_at:%H:%M:%S} UTC: {plan_file}.")
    words = f"apply {plan_file} --cluster {plan.cluster} --reason TEXT{config_words}"
    say(f"Carry it out: trimtab {words}")
