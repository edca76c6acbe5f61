"""Undo of a run: a new plan that brings each bundle to where it was before, and each setting.

What a run did is read from its journal, where the bundles are now from a fresh snapshot. Only what
still is where the run left it is brought back: everything else was changed externally since, for
reasons that a plan does not know. What stays is named in the plan.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce

from core.actions.runs import RunView, StepView
from core.actions.undo import (
    MOVED,
    check_undo,
    left_behind,
    left_unknown,
    reason_of_undo,
)
from core.errors import InvariantError, NothingToUndoError, PlanConflictError
from core.ids import namespace_of
from core.plan.model import (
    Diagnostic,
    Plan,
    combined,
    sealed,
)
from core.plan.options import PlanOptions, in_order
from core.pulsar.plan.after_run import load_after_run
from core.pulsar.plan.build import build_unload_plan
from core.pulsar.plan.checks import Basis
from core.pulsar.plan.edit import PlanContext, with_findings
from core.pulsar.plan.moves_back import moved_since, moves_back
from core.pulsar.plan.policy.build import DesiredPolicy
from core.pulsar.plan.policy.moves import change_policies
from core.pulsar.plan.policy.state import with_policies
from core.pulsar.plan.policy.unload_scope import unloaded_namespaces
from core.pulsar.plan.setting import build_setting_plan
from core.pulsar.plan.verify import SnapshotChecks
from core.pulsar.policy_kinds import PolicyChange
from core.pulsar.settings import effective_settings
from core.pulsar.steps.base import PulsarStep, policy_changes
from core.pulsar.steps.setting import setting_values
from core.pulsar.view import LoadView
from core.snapshot import PulsarSnapshot
from core.step import Inverse


def undo_plan(
    view: RunView,
    context: PlanContext,
    *,
    reason: str = "",
    start: PulsarSnapshot | None = None,
    max_moves: int = 0,
) -> Plan:
    """Return the plan that takes a run back, last step first.

    A step that cannot be undone is a warning and leaves the plan incomplete; one that need not
    be is an info. What an undo does not bring back is an info, too.

    Args:
        view: The run; it has ended.
        context: A fresh snapshot of its cluster, the moment, the exclusions.
        reason: Why; by default that it undoes the run.
        start: A snapshot of when the run began; ``None`` if there is none.
        max_moves: Most bundles that are moved back though no step of the run moved them.
    Raises:
        PlanConflictError: The run has not ended, is of another cluster, or left nothing that
            could be undone.
    """
    check_undo(view, context.snapshot.manifest.cluster)
    reason = reason or reason_of_undo(view)
    load = load_after_run(view, context.snapshot, start)
    context = replace(context, snapshot=load.snapshot)
    settings = effective_settings(context.snapshot)
    basis = Basis(
        snapshot=context.snapshot,
        view=LoadView.of(context.snapshot, settings),
        settings=settings,
        now=context.now,
        exclusions=frozenset(context.exclusions),
    )
    back, found = _sorted_out(basis, view)
    moved = _move_others(back, basis, view, start, max_moves)
    stays = [*left_behind(view, is_moved_back=bool(back.others)), *moved]
    if back.is_empty:
        raise _nothing_left(view, found, stays)
    if back.policies and is_policy_first(view):
        back.bundles, placed = left_to_brokers(basis.view, back.policies, back.bundles)
        found += placed
    plan = _plan_of(back, context, view, reason)
    is_complete = not any(item.severity == "warning" for item in [*found, *stays])
    return with_findings(plan, [*load.findings, *found, *stays], is_complete=is_complete)


def _nothing_left(
    view: RunView, found: Sequence[Diagnostic], stays: Sequence[Diagnostic]
) -> PlanConflictError:
    """Return the error of a run without anything that could be undone."""
    refused = next((item for item in found if item.severity == "warning"), None)
    why = refused or next(iter(found), None)
    more = next((item for item in stays if item.code == MOVED), None)
    sentences = [why.sentence if why else "It moved nothing.", more.sentence if more else ""]
    hints = [why.hint if why else "", more.hint if more else ""]
    kind, start = (
        (PlanConflictError, f"Run {view.run_id} cannot be undone.")
        if why is None or refused is not None
        else (NothingToUndoError, f"Nothing to undo in run {view.run_id}:")
    )
    return kind(" ".join(filter(None, [start, *sentences])), hint=" ".join(filter(None, hints)))


def _move_others(
    back: _RevertedState, basis: Basis, view: RunView, start: PulsarSnapshot | None, max_moves: int
) -> list[Diagnostic]:
    """Add the moves back of what no step of the run moved, and return what stays of it."""
    if start is None:
        return list(left_unknown(view))
    moved = moved_since(view, start, basis.snapshot)
    moved = {name: broker for name, broker in moved.items() if name not in back.bundles}
    after = with_policies(basis.snapshot, back.policies) if back.policies else basis.snapshot
    placed: list[Diagnostic] = []
    if back.policies and max_moves:
        moved, placed = left_to_brokers(basis.view, back.policies, moved)
    checks = SnapshotChecks(
        replace(basis, snapshot=after, view=LoadView.of(after, basis.settings)), was_live=True
    )
    others = moves_back(view, moved, start, basis.snapshot, checks, max_moves)
    back.others = others.destinations
    return [*_placed_by_brokers(len(placed)), *others.findings]


def _placed_by_brokers(count: int) -> list[Diagnostic]:
    """Return the finding about bundles that need no move back: brokers reassign them."""
    if not count:
        return []
    what = "1 moved bundle" if count == 1 else f"{count:,} of the moved bundles"
    return [
        Diagnostic(
            severity="info",
            code="undo_by_brokers",
            sentence=f"When the policy is reverted, brokers unload and reassign {what}.",
        )
    ]


@dataclass
class _RevertedState:
    """Reverted state: owners of bundles, values of settings, policies.

    ``others``: bundles that no step of the run moved; they go last.
    """

    bundles: dict[str, str] = field(default_factory=dict)
    values: dict[str, str | None] = field(default_factory=dict)
    policies: list[PolicyChange] = field(default_factory=list)
    others: dict[str, str] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        return not (self.bundles or self.values or self.policies or self.others)


def _sorted_out(basis: Basis, view: RunView) -> tuple[_RevertedState, list[Diagnostic]]:
    """Return the reverted steps, and the rest."""
    back = _RevertedState()
    found: list[Diagnostic] = []
    fresh = SnapshotChecks(basis)
    placed = SnapshotChecks(_with_policies_back(basis, view, fresh))
    for step in reversed(view.steps):
        # values are compared with what is; bundles go back under the policies of before
        inverse = _inverse(step, placed if step.step.setting is None else fresh)
        if inverse.finding is not None:
            found.append(inverse.finding)
        elif inverse.step is not None and inverse.step.destination is not None:
            back.bundles[inverse.step.subject] = inverse.step.destination
        elif inverse.step is not None:
            back.values |= setting_values([inverse.step])
            back.policies += policy_changes([inverse.step])
    return back, found


def _with_policies_back(basis: Basis, view: RunView, fresh: SnapshotChecks) -> Basis:
    """Return the cluster after policies are reverted first, as the target of moved bundles."""
    if not is_policy_first(view):
        return basis
    inverses = (
        _inverse(step, fresh).step for step in reversed(view.steps) if policy_changes([step.step])
    )
    policies = policy_changes(step for step in inverses if step is not None)
    after = with_policies(basis.snapshot, policies)
    return replace(basis, snapshot=after, view=LoadView.of(after, basis.settings))


def _plan_of(back: _RevertedState, context: PlanContext, view: RunView, reason: str) -> Plan:
    """The last thing done is undone first, so bundles go back under what they left under.

    Unloads that followed policies come after these, all others before.
    """
    terms = PlanOptions(
        now=context.now, reason=reason, exclusions=context.exclusions, undoes=view.run_id
    )
    plans: list[Plan] = []
    is_first = is_policy_first(view)
    desired = [DesiredPolicy(one.policy, one.name, one.value) for one in back.policies]
    if desired and is_first:
        plans.append(change_policies(context.snapshot, desired, terms).plan)
    if back.bundles:
        plans.append(_unloads(context, back.bundles, back.policies if is_first else [], terms))
    if back.values:
        plans.append(build_setting_plan(context.snapshot, back.values, terms))
    if desired and not is_first:
        plans.append(change_policies(context.snapshot, desired, terms).plan)
    if back.others:
        plans.append(_unloads(context, back.others, back.policies, terms))
    return reduce(_joined, plans)


def _unloads(
    context: PlanContext,
    destinations: Mapping[str, str],
    policies: Sequence[PolicyChange],
    terms: PlanOptions,
) -> Plan:
    """Return the unloads of bundles under the policies that are set before them."""
    return build_unload_plan(
        with_policies(context.snapshot, policies) if policies else context.snapshot,
        destinations,
        now=context.now,
        destinations=destinations,
        reason=terms.reason,
        exclusions=context.exclusions,
        undoes=terms.undoes,
    )


def _joined(plan: Plan, more: Plan) -> Plan:
    """Return one plan with the steps of two, and all that both touch."""
    errored = plan.errored or more.errored
    return sealed(
        replace(
            plan,
            steps=(*plan.steps, *more.steps),
            expected=combined(plan.expected, more.expected),
            diagnostics=in_order([*plan.diagnostics, *more.diagnostics]),
            complete=plan.complete and more.complete,
            errored=errored,
            applyable=bool(plan.steps or more.steps) and not errored,
        )
    )


def _inverse(step: StepView, checks: SnapshotChecks) -> Inverse:
    """Return the inverse of a step; empty for one that was not done."""
    if not isinstance(step.step, PulsarStep):
        raise InvariantError(f"A Pulsar cluster has no step of kind {step.step.kind}.")
    return step.step.inverse(step.executed, checks)


def is_policy_first(view: RunView) -> bool:
    """Return whether a run set policies before it unloaded bundles."""
    return bool(policy_changes(step.step for step in view.steps[:1]))


def left_to_brokers(
    view: LoadView, changes: Sequence[PolicyChange], back: Mapping[str, str]
) -> tuple[dict[str, str], list[Diagnostic]]:
    """Leave out bundles that brokers unload by themselves when the policies go back.

    Args:
        view: The cluster now.
        changes: That restore the policies.
        back: Bundle to the broker it came from.
    Returns:
        The others, and the findings about those excluded.
    """
    placed = set(unloaded_namespaces(view, changes))
    left = {bundle: origin for bundle, origin in back.items() if namespace_of(bundle) not in placed}
    found = [
        Diagnostic(
            severity="info",
            code="undo_by_brokers",
            sentence=f"When the policy is reverted, brokers unload and reassign {bundle}.",
            subject=bundle,
        )
        for bundle in back
        if bundle not in left
    ]
    return left, found
