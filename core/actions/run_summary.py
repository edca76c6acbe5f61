"""How a run ended, from its steps: its state and its headline."""

from __future__ import annotations

from typing import Final

from core.actions.events import RunEnded
from core.actions.model import RunState
from core.actions.views import RunView, StepView
from core.units import format_age, pluralize

CUT_SHORT: Final = frozenset(
    {
        "cluster_unreadable",
        "balancer_not_paused",
        "max_failures",
        "moves_per_day",
        "plan_expired",
        "plan_lifetime",
        "read_only",
        "setting_changed",
        "setting_not_reapplied",
        "setting_not_set",
        "result_unknown",
    }
)
"""Codes of what ends a run before all of its steps had their turn, besides a person's stop."""


def closing(view: RunView, ended_after_s: float) -> RunEnded:
    """Return the end of a run none of whose steps is pending or under way.

    ``DONE``: every step was done or found needless, and one at least was done or all were needless
    because all was as asked already. ``STOPPED``: a person's stop left steps undone. ``FAILED``:
    all else.
    """
    return RunEnded(state=_state(view), sentence=_sentence(view, ended_after_s))


def _state(view: RunView) -> RunState:
    codes = {step.result.code for step in _in(view, "SKIPPED") if step.result}
    if "stopped" in codes:
        return "STOPPED"
    if _is_needless(view):
        return "DONE"
    if _in(view, "FAILED") or _in(view, "UNKNOWN") or codes & CUT_SHORT or not _in(view, "DONE"):
        return "FAILED"
    return "DONE"


def _is_needless(view: RunView) -> bool:
    """Whether all was as asked before anything was done."""
    return all(
        step.state == "SKIPPED" and step.step.flags_of(_code(step)).is_needless
        for step in view.steps
    )


def _sentence(view: RunView, ended_after_s: float) -> str:
    if _is_needless(view):
        first = view.steps[0].result
        others = len(view.steps) - 1
        more = f" So it is with {pluralize(others, 'more step')}." if others else ""
        return f"Nothing had to be done: {first.sentence if first else ''}{more}"
    done, total = len(_in(view, "DONE")), len(view.steps)
    parts = [f"{done:,} of {pluralize(total, 'step')} done within {format_age(ended_after_s)}"]
    elsewhere = sum(step.step.flags_of(_code(step)).is_elsewhere for step in _in(view, "DONE"))
    if elsewhere:
        parts.append(f"{elsewhere:,} landed elsewhere than asked")
    for state, word in (("FAILED", "failed"), ("UNKNOWN", "unknown"), ("SKIPPED", "skipped")):
        found = _in(view, state)
        if found:
            parts.append(f"{len(found):,} {word} ({_reasons(found)})")
    return "; ".join(parts) + "." + _first_trouble(view)


def _first_trouble(view: RunView) -> str:
    """The first thing that went wrong, in its own words: one sentence more."""
    for state in ("UNKNOWN", "FAILED", "SKIPPED"):
        found = _in(view, state)
        if found and (result := found[0].result) is not None:
            return f" First: {result.sentence}"
    return ""


def _reasons(steps: list[StepView]) -> str:
    codes = [_code(step) for step in steps]
    return ", ".join(dict.fromkeys(code.replace("_", " ") for code in codes if code))


def _code(step: StepView) -> str:
    return step.result.code if step.result else ""


def _in(view: RunView, state: str) -> list[StepView]:
    return [step for step in view.steps if step.state == state]
