"""How commands answer with a plan: its JSON, its preview, its file, and why there is none."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from core.errors import OpsError, PlanError
from core.plan.describe import tally
from core.plan.model import Diagnostic, Plan
from core.pulsar.plan.clients import ClientImpact
from core.pulsar.plan.preview import OtherPreview, Preview
from core.units import format_bytes_per_s, format_ratio, pluralize
from dashboard.cli.answers import measures
from dashboard.cli.output import Answer, emit, say


def plan(made: Plan) -> dict[str, Any]:
    """The plan exactly as its file holds it."""
    content: dict[str, Any] = json.loads(msgspec.json.encode(made))
    return content


def clients(impact: ClientImpact) -> dict[str, Any]:
    """What an unload costs."""
    return {
        "bundles": impact.bundles,
        "clients": impact.clients,
        "producers": impact.producers,
        "consumers": impact.consumers,
        "topics": impact.topics,
        "cache_bytes": impact.cache_bytes,
        "msg_rate_msgs_per_s": impact.msg_rate_msgs_per_s,
        "throughput_bytes_per_s": impact.throughput_bytes_per_s,
    }


def preview(made: Plan, outcome: Preview) -> dict[str, Any]:
    """What a plan would do; ``before_after`` has a row for every broker."""
    return {
        "plan_id": made.plan_id,
        "cluster": made.cluster,
        "snapshot_id": made.snapshot_id,
        "applyable": made.applyable,
        "diagnostics": plan(made)["diagnostics"],
        "steps": [
            {
                "bundle": item.step.bundle,
                "owner": item.step.owner,
                "destination": item.step.destination,
                "distribution": item.placement.distribution,
                "ruled_out": dict(item.placement.ruled_out),
                "why": item.placement.why,
                "clients": clients(item.clients),
                "command": item.command,
                "rest": item.rest,
                "notes": list(item.placement.notes),
            }
            for item in outcome.steps
        ],
        "other_steps": [other(item) for item in outcome.others],
        "before_after": outcome.before_after.to_pylist(),
        "clients": clients(outcome.clients),
        "measures_before": measures(outcome.measures_before),
        "measures_after": measures(outcome.measures_after),
        "outcomes": len(outcome.scenarios),
        "is_exact": outcome.is_exact,
        "notes": list(outcome.notes),
    }


def other(item: OtherPreview) -> dict[str, Any]:
    """A step that moves no bundle by itself."""
    return {
        "kind": item.step.kind,
        "subject": item.step.subject,
        "sentence": item.sentence,
        "clients": None if item.clients is None else clients(item.clients),
        "command": item.command,
        "rest": item.rest,
    }


def before_after_text(outcome: Preview) -> tuple[Sequence[str], list[list[str]]]:
    """Columns and rows of the brokers that the plan touches, for people."""
    columns = ("broker", "usage", "after", "traffic", "after", "bundles", "after")
    rows = [
        [
            row["broker"],
            format_ratio(row["usage_ratio_before"]),
            _between(row, "usage_ratio", format_ratio),
            format_bytes_per_s(row["throughput_bytes_per_s_before"]),
            _between(row, "throughput_bytes_per_s", format_bytes_per_s),
            _number(row["bundle_count_before"]),
            _between(row, "bundle_count", _number),
        ]
        for row in outcome.before_after.to_pylist()
        if row["is_touched"]
    ]
    return columns, rows


def _between(row: dict[str, Any], name: str, text: Any) -> str:
    """The expected value, with the extremes where they differ visibly."""
    after, low, high = (text(row[f"{name}_{moment}"]) for moment in ("after", "low", "high"))
    return after if low == high else f"{after} ({low} to {high})"


def _number(value: float | None) -> str:
    return "unknown" if value is None else f"{value:,.4g}"


_ERRORS_SHOWN: Final = 3
"""How many reasons against a plan are said in full."""

_DONE_ALREADY: Final = ("nothing_to_do", "already_set")
"""Codes of the diagnostics that explain a plan without steps as done."""


def refusal(errors: Sequence[Diagnostic]) -> OpsError:
    """Return the errors of a plan as one: what the first says, and up to two more."""
    text = " ".join(one.sentence for one in errors[:_ERRORS_SHOWN])
    rest = len(errors) - _ERRORS_SHOWN
    more = f" ({pluralize(rest, 'more error')})" if rest > 0 else ""
    error = PlanError(f"{text}{more}", hint=errors[0].hint)
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


def show_plan_file(plan: Plan, plan_file: Path | None, config_words: str) -> None:
    """Print where a plan is and how it is applied, or that it was not written."""
    if plan_file is None:
        say("Not written: name a file with --plan OUT.")
        return
    say(f"Plan {plan.short_id}, good until {plan.expires_at:%H:%M:%S} UTC: {plan_file}.")
    words = f"apply {plan_file} --cluster {plan.cluster} --reason TEXT{config_words}"
    say(f"Carry it out: trimtab {words}")


def show_plan(plan: Plan) -> None:
    """Print what a plan is, and its diagnostics."""
    say(
        f"Plan {plan.short_id} for {plan.cluster}: {tally(plan.steps)}; good until "
        f"{plan.expires_at:%H:%M:%S} UTC."
    )
    for item in plan.diagnostics:
        say(f"{item.severity}: {item.sentence} {item.hint}".rstrip())
