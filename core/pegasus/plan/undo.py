"""Taking a run on a Pegasus cluster back: the inverse of what was done, last first.

Only what still is where the run left it goes back. Settings that were changed for the time of the
run are back already; what cannot be undone is named.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

from core.actions.describe import why_nothing_lasts
from core.actions.undo import (
    MOVED,
    check_undo,
    left_behind,
    left_unknown,
    reason_of_undo,
)
from core.actions.views import RunView, StepView
from core.errors import InvariantError, NothingToUndoError, OpsError, PlanConflictError
from core.pegasus.plan.draft import Draft
from core.pegasus.plan.moves_back import FormerPartition, add_moves_back, moved_since
from core.pegasus.steps.base import PegasusStep
from core.plan.model import Plan, sealed
from core.plan.options import PlanOptions
from core.snapshot.pegasus import PegasusSnapshot
from core.step import Diagnostic, Inverse

_BY_HAND: Final = "Check it, and move it manually if it still has to be reverted."


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoContext:
    """On what a plan that takes a run back is built.

    Attributes:
        snapshot: A fresh one.
        now: The present moment, aware UTC.
        exclusions: Tables that the configuration keeps out of every plan.
        start: A snapshot of when the run began; ``None`` if there is none.
        max_moves: Most moves back of replicas that no step of the run moved.
    """

    snapshot: PegasusSnapshot
    now: datetime
    exclusions: Collection[str] = field(default_factory=frozenset)
    start: PegasusSnapshot | None = None
    max_moves: int = 0


def undo_plan(view: RunView, context: UndoContext, *, reason: str = "") -> Plan:
    """Return the plan that takes a run back, last step first.

    Args:
        view: The run; it has ended.
        context: A fresh snapshot of its cluster, the moment, the exclusions.
        reason: Why; by default that it undoes the run.
    Raises:
        PlanConflictError: The run has not ended, is of another cluster, or left nothing that
            could be undone.
    """
    check_undo(view, context.snapshot.manifest.cluster)
    reason = reason or reason_of_undo(view)
    undo = _Undo(view, context, reason)
    for step in reversed(view.steps):
        undo.add_inverse(step)
    undo.add_moves_back()
    return undo.seal()


class _Undo:
    def __init__(self, view: RunView, context: UndoContext, reason: str) -> None:
        terms = PlanOptions(
            now=context.now, reason=reason, exclusions=context.exclusions, undoes=view.run_id
        )
        self._view = view
        self._context = context
        self._left: list[Diagnostic] = []
        self._draft = Draft(context.snapshot, terms)
        self._stays: list[tuple[str, str]] = []
        self._needless: list[str] = []
        self._full: list[str] = []
        self._is_level_checked = False

    def add_inverse(self, step: StepView) -> None:
        """Add the inverse of a step, or report why there is none."""
        if step.step.wait is None and step.step.temporary_value is None and self._is_done(step):
            self._inverse(step)

    def add_moves_back(self) -> None:
        """Add what was asked for of the moves back, and report what the undo leaves behind."""
        view, start, draft = self._view, self._context.start, self._draft
        moved: Sequence[FormerPartition] = ()
        if start is None:
            found = list(left_unknown(view))
        else:
            moved = moved_since(view, start, self._context.snapshot)
            if moved and self._context.max_moves:
                self._check_level()
            found = add_moves_back(draft, view, moved, start, self._context.max_moves)
        is_moved_back = bool(moved and self._context.max_moves)
        self._left += [*left_behind(view, is_moved_back=is_moved_back), *found]
        for item in self._left:
            if item.severity == "warning":
                self._stays.append((item.sentence, item.hint))
            draft.note(
                item.severity, item.code, item.sentence, subject=item.subject, hint=item.hint
            )

    def _is_done(self, step: StepView) -> bool:
        """Whether there is something to undo; report the rest."""
        original, result = step.step, step.result
        if step.state == "UNKNOWN":
            sentence = f"The result of {original.subject} is unknown: it is not reverted."
            self._stay("undo_unknown", original.subject, sentence)
            return False
        if step.reopened and isinstance(original, PegasusStep) and original.is_done_in_parts:
            return True  # an earlier attempt was done, in part at least: each partition shows
        if step.state != "FAILED" or step.begun_at is None or result is None:
            return step.state == "DONE"
        if isinstance(original, PegasusStep) and original.is_done_in_parts:
            return True  # done in part, perhaps: each partition shows
        if result.after is not None and step.before is not None and result.after != step.before:
            sentence = f"{original.subject} is not reverted: {result.sentence}"
            self._stay("undo_half_done", original.subject, sentence)
        return False

    def _inverse(self, step: StepView) -> None:
        match step.step:
            case PegasusStep() as original:
                for inverse in original.inverse(step.executed, self._draft):
                    self._add(original, inverse)
            case _:
                raise InvariantError(f"A Pegasus cluster has no step of kind {step.step.kind}.")

    def seal(self) -> Plan:
        """Return the plan; what stays makes it incomplete."""
        draft = self._draft
        if not draft.steps:
            sentence, hint = self._why_not()
            if self._needless and not self._stays:
                raise NothingToUndoError(
                    f"Nothing to undo in run {self._view.run_id}: {sentence}", hint=hint
                )
            raise PlanConflictError(
                f"Run {self._view.run_id} cannot be undone. {sentence}", hint=hint
            )
        plan = draft.seal()
        return sealed(replace(plan, complete=False)) if self._stays else plan

    def _why_not(self) -> tuple[str, str]:
        """Return the reason nothing can be undone, with a hint."""
        if not self._stays:
            nothing = why_nothing_lasts(self._view) or "It changed nothing."
            moved = [item for item in self._left if item.code == MOVED]
            sentences = [next(iter(self._needless), nothing), *(item.sentence for item in moved)]
            return " ".join(sentences), " ".join(item.hint for item in moved)
        sentence, hint = self._stays[0]
        if len(self._full) > 1:  # a drained node: the guardian has put everything elsewhere
            sentence = (
                f"{len(self._full):,} partitions already have their replicas, on other nodes; "
                f"the first: {sentence}"
            )
            hint = "`trimtab pegasus rebalance` moves replicas to a node that has few."
        return sentence, hint

    def _add(self, original: PegasusStep, inverse: Inverse) -> None:
        self._note(inverse.finding)
        if inverse.finding is not None and inverse.is_compensated:
            self._full.append(inverse.finding.subject)
        if isinstance(inverse.step, PegasusStep):
            if inverse.step.is_queued:
                self._check_level()
            try:
                inverse.step.add_to(self._draft)
            except OpsError as exc:
                self._stay("undo_refused", original.subject, exc.message, exc.hint)

    def _note(self, finding: Diagnostic | None) -> None:
        if finding is None:
            return
        if finding.severity == "info":
            self._need_not(finding.subject, finding.sentence)
        else:
            self._stay(finding.code, finding.subject, finding.sentence, finding.hint)

    # -- findings --------------------------------------------------------------------------------

    def _check_level(self) -> None:
        """Once, before the first proposal: by then an inverse step may have set the level."""
        if not self._is_level_checked:
            self._is_level_checked = True
            self._draft.check_level()

    def _stay(self, code: str, subject: str, sentence: str, hint: str = _BY_HAND) -> None:
        self._stays.append((sentence, hint))
        self._draft.note("warning", code, sentence, subject=subject, hint=hint)

    def _need_not(self, subject: str, sentence: str) -> None:
        self._needless.append(sentence)
        self._draft.note("info", "undo_not_needed", sentence, subject=subject)
