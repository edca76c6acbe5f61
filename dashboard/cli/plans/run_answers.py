"""The JSON objects of ``trimtab runs``: stable shapes that people script against."""

from __future__ import annotations

from typing import Any

import msgspec

from core.actions.events import Entry
from core.actions.views import RunView, StepView


def summary(view: RunView) -> dict[str, Any]:
    """One run, as it stands in the list."""
    return {
        "run_id": view.run_id,
        "cluster": view.cluster,
        "state": view.state,
        "sentence": view.sentence,
        "plan_id": view.plan.plan_id,
        "undoes": view.undoes,
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


def whole(view: RunView) -> dict[str, Any]:
    """One run with its steps, its settings, and what was predicted against what was measured."""
    return {
        **summary(view),
        "options": _plain(view.options),
        "lease": view.lease or None,
        "takeovers": view.takeovers,
        "refusal": _plain(view.refusal),
        "control": _plain(view.control),
        "is_control_pending": view.is_control_pending,
        "steps": [step(item) for item in view.steps],
        "settings": _plain(view.settings),
        "external_changes": _plain(view.external_changes),
        "next_moves": _plain(view.next_moves),
        "expected": _plain(view.plan.expected),
        "measured": _plain(view.measured),
        "disregarded": list(view.disregarded),
    }


def step(view: StepView) -> dict[str, Any]:
    """One step: who had the bundle, who should get it, who has it."""
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
    }


def entry(item: Entry) -> dict[str, Any]:
    """One entry of the journal exactly as it is sealed; the form of ``--export``, too."""
    body: dict[str, Any] = _plain(item)
    return body


def _plain(value: object) -> Any:
    return msgspec.to_builtins(value)
