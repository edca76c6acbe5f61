"""Answers of commands with a plan: its JSON, its preview, its file, or why there is none."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from core.errors import OpsError, PlanError
from core.files import write_whole
from core.plan.describe import tally
from core.plan.model import Diagnostic, Plan
from core.units import pluralize, severity_label
from dashboard import services
from dashboard.cli.config import current_config
from dashboard.cli.output import Answer, emit, print_line
from dashboard.cli.source import is_path
from dashboard.services import access


def plan(made: Plan) -> dict[str, Any]:
    """The plan exactly as its file holds it."""
    content: dict[str, Any] = json.loads(msgspec.json.encode(made))
    return content


_ERRORS_SHOWN: Final = 3
"""How many reasons against a plan are said in full."""

_DONE_ALREADY: Final = ("nothing_to_do", "already_set")
"""Codes of the diagnostics that explain a plan without steps as done."""


def refusal(errors: Sequence[Diagnostic], shown: int = _ERRORS_SHOWN) -> OpsError:
    """Return the errors of a plan as one: the texts of the first ones, and how many more."""
    text = " ".join(one.sentence for one in errors[:shown])
    rest = len(errors) - shown
    more = f" ({pluralize(rest, 'more error')})" if rest > 0 else ""
    error = PlanError(f"{text}{more}", hint=errors[0].hint)
    error.code = errors[0].code  # type: ignore[misc]  # the diagnostic's own code tells more
    return error


def done_already(diagnostics: Sequence[Diagnostic]) -> list[Diagnostic]:
    """Return the diagnostics that explain a plan without steps as done.

    Raises:
        PlanError: The plan has no steps for another reason than that nothing is left to do.
    """
    reasons = [diagnostic for diagnostic in diagnostics if diagnostic.code in _DONE_ALREADY]
    if reasons:
        return reasons
    if diagnostics:
        raise refusal(diagnostics)
    raise PlanError("The plan has no steps.", hint="Specify at least one change.")


def nothing_to_do(diagnostics: Sequence[Diagnostic], *, as_json: bool) -> int:
    """Print the verdict of a plan without steps, and return the exit code: that is done.

    No plan file is written.

    Raises:
        PlanError: The plan has no steps for another reason than that nothing is left to do.
    """
    reasons = done_already(diagnostics)
    body = {
        "verdict": "nothing_to_do",
        "answer": " ".join(reason.sentence for reason in reasons),
        "plan": None,
        "preview": None,
        "path": None,
    }

    def show() -> None:
        for one in reasons:
            print_line(f"{one.sentence} {one.hint}".rstrip())
        print_line("Nothing to plan: no file is written, nothing is sent.")

    return emit(Answer(body, show), as_json=as_json)


def write_plan(path: Path, plan: Plan) -> None:
    """Write a plan file, signed with the key of this installation.

    Raises:
        PlanError: It cannot be written.
        ConfigError: The key cannot be used.
    """
    try:
        write_whole(path, access.plan_file(current_config(), plan))
    except OSError as exc:
        raise PlanError(
            f"{path} cannot be written: {exc.strerror}.", hint="Specify another file."
        ) from exc


def show_plan_file(plan: Plan, plan_file: Path | None) -> None:
    """Print the path of a plan and the command that applies it, or that it was not written."""
    if plan_file is None:
        print_line("Not written. Pass --plan OUT to write it.")
        return
    print_line(f"Plan {plan.short_id}, valid until {plan.expires_at:%H:%M:%S} UTC: {plan_file}.")
    more = services.config_option(current_config())
    print_line(f"To apply it: trimtab apply {shlex.quote(str(plan_file))} --reason TEXT{more}")


def show_preview_command(plan_file: Path, source: Path | str) -> None:
    """Print the command that previews a plan on what it was made of."""
    place = f" --snapshot {shlex.quote(str(source))}" if is_path(str(source)) else ""
    more = services.config_option(current_config())
    print_line(f"See `trimtab preview {shlex.quote(str(plan_file))}{place}{more}`.")


def show_plan(plan: Plan) -> None:
    """Print the summary of a plan, and its diagnostics."""
    print_line(
        f"Plan {plan.short_id} for {plan.cluster}: {tally(plan.steps)}; valid until "
        f"{plan.expires_at:%H:%M:%S} UTC."
    )
    sentences = (
        f"{severity_label(item.severity)}: {item.sentence} {item.hint}" for item in plan.diagnostics
    )
    for text in dict.fromkeys(sentences):  # what is so for every step is a sentence once
        print_line(text.rstrip())
