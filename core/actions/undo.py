"""Taking a run back: a new plan that brings each bundle to where it was before.

What a run did is read from its journal, where the bundles are now from a fresh snapshot. Only what
still is where the run left it is brought back: everything else has been moved since by somebody
else, for reasons that a plan does not know. What stays is named in the plan.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from core.actions.runs import RunView, StepView
from core.errors import PlanConflictError
from core.plan.build import build_unload_plan
from core.plan.checks import Basis, check_bundle, check_destination, check_move
from core.plan.edit import Ground, with_findings
from core.plan.model import Diagnostic, DiagnosticSeverity, Plan
from core.pulsar.settings import effective_settings
from core.pulsar.view import LoadView


def undo_plan(view: RunView, ground: Ground, *, reason: str = "") -> Plan:
    """Return the plan that takes a run back, last step first.

    A step that cannot be taken back is a warning and leaves the plan incomplete; one that need not
    be is an info.

    Args:
        view: The run; it has ended.
        ground: A fresh snapshot of its cluster, the moment, the exclusions.
        reason: Why; by default that it undoes the run.
    Raises:
        PlanConflictError: The run has not ended, is of another cluster, or left nothing that
            could be taken back.
    """
    cluster = ground.snapshot.manifest.cluster
    if cluster != view.cluster:
        raise PlanConflictError(
            f"Run {view.run_id} was on {view.cluster}; the snapshot is of {cluster}.",
            hint=f"Take a snapshot of {view.cluster}.",
        )
    if not view.is_ended:
        raise PlanConflictError(
            f"Run {view.run_id} is {view.state}: it cannot be taken back before it has ended.",
            hint="Stop it first.",
        )
    settings = effective_settings(ground.snapshot)
    basis = Basis(
        snapshot=ground.snapshot,
        view=LoadView.of(ground.snapshot, settings),
        settings=settings,
        now=ground.now,
        exclusions=frozenset(ground.exclusions),
    )
    back: dict[str, str] = {}
    found: list[Diagnostic] = []
    for step in reversed(view.steps):
        hindrance = next(_hindrances(basis, step), None)
        if hindrance is not None:
            found.append(hindrance)
        elif (origin := _origin(step)) is not None:
            back[step.step.bundle] = origin
    if not back:
        why = next((item for item in found if item.severity == "warning"), None)
        why = why or next(iter(found), None)
        raise PlanConflictError(
            f"Nothing of run {view.run_id} can be taken back. "
            + (why.sentence if why else "It moved nothing."),
            hint=why.hint if why else "",
        )
    plan = build_unload_plan(
        ground.snapshot,
        back,
        now=ground.now,
        destinations=back,
        reason=reason or f"Undoes run {view.run_id}: {view.reason}",
        exclusions=ground.exclusions,
        undoes=view.run_id,
    )
    is_complete = not any(item.severity == "warning" for item in found)
    return with_findings(plan, found, is_complete=is_complete)


def _origin(step: StepView) -> str | None:
    """Who had the bundle before a step that was done; ``None``: nothing was done."""
    return step.before.holder if step.state == "DONE" and step.before is not None else None


def _hindrances(basis: Basis, step: StepView) -> Iterator[Diagnostic]:
    """Say why a step is not taken back; nothing for one that never happened."""
    if step.state == "UNKNOWN":
        yield _not_undone(
            step,
            "warning",
            "undo_unknown",
            f"What became of {step.step.bundle} is unknown: it is left where it is.",
            "Look at its owner, and move it by hand if need be.",
        )
    origin = _origin(step)
    if origin is None or step.ending is None:
        return
    yield from _about_place(basis, step, origin)
    # one after the other: a move to a broker that is gone cannot be checked
    for item in chain(
        check_destination(basis, origin), check_move(basis, step.step.bundle, origin)
    ):
        if item.severity == "error":
            code = "undo_owner_gone" if item.code == "destination_unknown" else "undo_refused"
            sentence = f"{step.step.bundle} cannot go back to {origin}: {item.sentence}"
            yield _not_undone(step, "warning", code, sentence, item.hint)


def _about_place(basis: Basis, step: StepView, origin: str) -> Iterator[Diagnostic]:
    """Compare where the bundle is with where it was and where the run left it."""
    bundle = step.step.bundle
    for item in check_bundle(basis, bundle):
        if item.severity == "error" or item.code == "not_owned":
            sentence = f"{bundle} cannot be brought back: {item.sentence}"
            yield _not_undone(step, "warning", "undo_refused", sentence, item.hint)
    row = basis.view.bundle_index.get(bundle)
    if row is None or basis.view.owner[row] < 0:
        return
    owner = basis.view.brokers[basis.view.owner[row]]
    if owner == origin:
        yield _not_undone(
            step, "info", "undo_not_needed", f"{bundle} is at {origin} already, where it was.", ""
        )
        return
    after = step.ending.after if step.ending else None
    if after is not None and after.holder is None:
        return  # the run left it with nobody, and a lookup has given it to this owner since
    left_at = after.holder if after else "an unknown place"
    if owner != left_at:
        yield _not_undone(
            step,
            "warning",
            "undo_moved_since",
            f"{bundle} is at {owner} now; the run left it at {left_at}: somebody moved it since.",
            "Ask who did, and move it by hand if it still has to go back.",
        )


def _not_undone(
    step: StepView, severity: DiagnosticSeverity, code: str, sentence: str, hint: str
) -> Diagnostic:
    return Diagnostic(
        severity=severity, code=code, sentence=sentence, subject=step.step.bundle, hint=hint
    )
