"""The JSON of runs and of the journal: of commands and of the HTTP interface."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from core.actions.describe import describe_forged
from core.actions.undo import not_brought_back
from core.systems import purpose_of
from trimtab.bodies import (
    DryRunJson,
    RunJson,
    StepJson,
    SummaryJson,
    VerifiedJson,
    WholeJson,
)

if TYPE_CHECKING:
    from core.actions.dry_run import Rehearsal
    from core.actions.events import Entry
    from core.actions.views import RunView, StepView
    from core.plan.model import Plan
    from dashboard import services


def summary(view: RunView) -> SummaryJson:
    """Return one run, as in the list."""
    return {
        "run_id": view.run_id,
        "cluster": view.cluster,
        "state": view.state,
        "sentence": view.sentence,
        "plan_id": view.plan.plan_id,
        "undoes": view.undoes,
        "not_brought_back": not_brought_back(view.plan),
        "reason": view.reason,
        "requested_by": view.requested_by,
        "requested_at": _plain(view.requested_at),
        "started_at": _plain(view.started_at),
        "ended_at": _plain(view.ended_at),
        "worker": view.worker or None,
        "steps": len(view.steps),
        "counts": dict(view.counts),
        "damage": view.damage or None,
    }


def of_run(view: RunView, entries: Sequence[Entry]) -> WholeJson:
    """Return one run with its entries."""
    return {
        "run": run(view),
        "entries": [entry(one) for one in entries],
        "unsigned": list(view.forged),
    }


def verified(found: services.Verified) -> VerifiedJson:
    """Return the result of a verification of the journal."""
    damage = found.damage
    return {
        "is_sound": found.is_sound,
        "entries": found.entries,
        "newest": {"seq": found.newest_seq, "digest": found.newest_digest},
        "anchors": found.anchors,
        "archived": found.archived,
        "damage": None if damage is None else {"seq": damage.seq, "what": damage.what},
        "unsigned": list(found.forged),
        "checked": list(found.checked),
        "not_checked": list(found.skipped),
        "problems": [*found.problems, *found.unchecked],
    }


def dry_run(plan: Plan, rehearsal: Rehearsal) -> DryRunJson:
    """Return the result of a dry run."""
    return {
        "dry_run": {
            "plan_id": plan.plan_id,
            "state": rehearsal.state,
            "sentence": rehearsal.sentence,
            "refusal": msgspec.to_builtins(rehearsal.refusal),
            "requests": rehearsal.requests,
            "steps": [
                {
                    "index": item.index,
                    "kind": item.step.kind,
                    "subject": item.step.subject,
                    "would_send": item.would_send,
                    "code": item.code,
                    "sentence": item.sentence,
                    "hint": item.hint,
                    "after_s": round(item.after_s, 3),
                }
                for item in rehearsal.steps
            ],
            "settings": [{"key": key, "value": value} for key, value in rehearsal.settings],
        }
    }


def problems(journal: services.Journal, views: Sequence[RunView]) -> list[str]:
    """Return the damage and forgeries of these runs, and the damage at the journal's end."""
    found = [f"Run {view.run_id} is damaged: {view.damage}" for view in views if view.damage]
    found += [
        f"Run {view.run_id}: {describe_forged(view.forged, is_run_forged=view.is_request_forged)}"
        for view in views
        if view.forged
    ]
    damage = journal.recent_damage()
    if damage is not None and not any(f"Entry {damage.seq} " in one for one in found):
        found.append(
            f"Entry {damage.seq} of the journal {journal.place} was altered: {damage.what} Check "
            "it with `trimtab runs --verify` and restore it from a copy."
        )
    return found


def run(view: RunView) -> RunJson:
    """Return one run with its steps, its settings, and predicted and measured values."""
    return {
        **summary(view),
        "options": _plain(view.options),
        "lease": view.lease or None,
        "takeovers": view.takeovers,
        "refusal": _plain(view.refusal),
        "control": _plain(view.control),
        "is_control_pending": view.is_control_pending,
        "purpose": _purpose_json(view),
        "steps": [_step_json(item) for item in view.steps],
        "settings": _plain(view.settings),
        "external_changes": _plain(view.external_changes),
        "next_moves": _plain(view.next_moves),
        "unassigned": list(view.unassigned),
        "expected": _plain(view.plan.expected),
        "measured": _plain(view.measured),
        "disregarded": list(view.disregarded),
    }


def _purpose_json(view: RunView) -> dict[str, Any] | None:
    """Return the purpose of the run and whether it holds; unknown before the end."""
    checked = view.purpose
    if checked is not None:
        return {"what": checked.purpose, "holds": checked.holds, "sentence": checked.sentence}
    purpose = purpose_of(view.plan)
    return {"what": purpose, "holds": None, "sentence": ""} if purpose else None


def _step_json(view: StepView) -> StepJson:
    """Return one step: former, requested and current owner of the bundle."""
    after = view.result.after if view.result else None
    return {
        "index": view.index,
        "kind": view.step.kind,
        "subject": view.step.subject,
        "bundle": None if view.step.namespace is None else view.step.subject,
        "what": view.step.describe(),
        "owner": view.step.owner,
        "destination": view.step.destination,
        "predicted": dict(view.step.predicted),
        "state": view.state,
        "code": view.result.code if view.result else None,
        "sentence": view.result.sentence if view.result else None,
        "hint": view.result.hint if view.result else None,
        "before": _plain(view.before),
        "after": _plain(after),
        "begun_at": _plain(view.begun_at),
        "ended_at": _plain(view.ended_at),
        "took_ms": view.took_ms,
        "is_reconciled": view.is_reconciled,
        "attempt": view.attempt,
    }


def entry(item: Entry) -> dict[str, Any]:
    """Return an entry of the journal exactly as it is sealed; the form of ``--export``, too."""
    body: dict[str, Any] = _plain(item)
    return body


def _plain(value: object) -> Any:
    return msgspec.to_builtins(value)
