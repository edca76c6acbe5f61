"""Taking a run back: a new plan that brings each bundle to where it was before, and each setting.

What a run did is read from its journal, where the bundles are now from a fresh snapshot. Only what
still is where the run left it is brought back: everything else has been moved since by somebody
else, for reasons that a plan does not know. What stays is named in the plan.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import chain

from core.actions.runs import RunView, StepView
from core.actions.undo_pegasus import PegasusGround, undo_pegasus
from core.actions.undo_policy import (
    is_policy_first,
    left_to_brokers,
    policy_hindrance,
    steps_back,
    wish_back,
)
from core.actions.undo_setting import is_set, not_undone, setting_hindrance
from core.errors import InvariantError, PlanConflictError
from core.plan.bare import Terms
from core.plan.build import build_unload_plan, in_order
from core.plan.checks import Basis, check_bundle, check_destination, check_move
from core.plan.edit import Ground, with_findings
from core.plan.model import (
    Diagnostic,
    Plan,
    SetDynamicSetting,
    SplitBundle,
    UnloadBundle,
    sealed,
)
from core.plan.policy import PolicyWish, build_policy_plan
from core.plan.policy_state import with_policies
from core.plan.setting import build_setting_plan
from core.plan.steps import SetPolicy
from core.plan.verify import first_refusal
from core.pulsar.settings import effective_settings
from core.pulsar.view import LoadView


def undo_plan(view: RunView, ground: Ground | PegasusGround, *, reason: str = "") -> Plan:
    """Return the plan that takes a run back, last step first.

    A step that cannot be taken back is a warning and leaves the plan incomplete; one that need not
    be is an info.

    Args:
        view: The run; it has ended.
        ground: A fresh snapshot of its cluster, the moment, the exclusions; which of the two
            types follows from the cluster's system.
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
    reason = reason or f"Undoes run {view.run_id}: {view.reason}"
    if isinstance(ground, PegasusGround):
        return undo_pegasus(view, ground, reason)
    return _undo_pulsar(view, ground, reason)


def _undo_pulsar(view: RunView, ground: Ground, reason: str) -> Plan:
    settings = effective_settings(ground.snapshot)
    basis = Basis(
        snapshot=ground.snapshot,
        view=LoadView.of(ground.snapshot, settings),
        settings=settings,
        now=ground.now,
        exclusions=frozenset(ground.exclusions),
    )
    back, values, wishes, found = _sorted_out(basis, view)
    if not back and not values and not wishes:
        why = next((item for item in found if item.severity == "warning"), None)
        why = why or next(iter(found), None)
        raise PlanConflictError(
            f"Nothing of run {view.run_id} can be taken back. "
            + (why.sentence if why else "It moved nothing."),
            hint=why.hint if why else "",
        )
    if wishes and is_policy_first(view):
        steps = steps_back(ground.snapshot, wishes)
        back, placed = left_to_brokers(basis.view, steps, back)
        found += placed
    plan = _plan_of(_Back(back, values, wishes), ground, view, reason)
    is_complete = not any(item.severity == "warning" for item in found)
    return with_findings(plan, found, is_complete=is_complete)


def _sorted_out(
    basis: Basis, view: RunView
) -> tuple[dict[str, str], dict[str, str | None], list[PolicyWish], list[Diagnostic]]:
    """Bundles with where they go back to, settings with their values, policies, what stays."""
    back: dict[str, str] = {}
    values: dict[str, str | None] = {}
    wishes: list[PolicyWish] = []
    found: list[Diagnostic] = []
    moved = _with_policies_back(basis, view)
    for step in reversed(view.steps):
        hindrance = _hindrance(moved if isinstance(step.step, UnloadBundle) else basis, step)
        if hindrance is not None:
            found.append(hindrance)
        elif isinstance(step.step, SetDynamicSetting):
            if is_set(step) and step.before is not None:
                values[step.step.key] = step.before.value
        elif (wish := wish_back(step)) is not None:
            wishes.append(wish)
        elif (origin := _origin(step)) is not None:
            back[step.step.subject] = origin
    return back, values, wishes, found


def _with_policies_back(basis: Basis, view: RunView) -> Basis:
    """Return what bundles go back to: the cluster with policies put back, if these go first."""
    if not is_policy_first(view):
        return basis
    policies = (step for step in reversed(view.steps) if policy_hindrance(basis, step) is None)
    wishes = [wish for step in policies if (wish := wish_back(step)) is not None]
    after = with_policies(basis.snapshot, steps_back(basis.snapshot, wishes))
    return replace(basis, snapshot=after, view=LoadView.of(after, basis.settings))


@dataclass(frozen=True)
class _Back:
    """What goes back to what it was: bundles to brokers, settings to values, policies."""

    bundles: Mapping[str, str]
    values: Mapping[str, str | None]
    wishes: Sequence[PolicyWish]


def _plan_of(back: _Back, ground: Ground, view: RunView, reason: str) -> Plan:
    """The last thing done is taken back first, so bundles go back under what they left under.

    Unloads that followed policies come after these, all others before.
    """
    terms = Terms(now=ground.now, reason=reason, exclusions=ground.exclusions, undoes=view.run_id)
    plans: list[Plan] = []
    is_first = is_policy_first(view)
    if back.wishes and is_first:
        plans.append(build_policy_plan(ground.snapshot, back.wishes, terms))
    if back.bundles:
        steps = steps_back(ground.snapshot, back.wishes) if is_first else ()
        unloads = build_unload_plan(
            with_policies(ground.snapshot, steps) if steps else ground.snapshot,
            back.bundles,
            now=ground.now,
            destinations=back.bundles,
            reason=reason,
            exclusions=ground.exclusions,
            undoes=view.run_id,
        )
        plans.append(unloads)
    if back.values:
        plans.append(build_setting_plan(ground.snapshot, back.values, terms))
    if back.wishes and not is_first:
        plans.append(build_policy_plan(ground.snapshot, back.wishes, terms))
    return reduce(_joined, plans)


def _joined(plan: Plan, more: Plan) -> Plan:
    """Return one plan with the steps of two."""
    errored = plan.errored or more.errored
    return sealed(
        replace(
            plan,
            steps=(*plan.steps, *more.steps),
            diagnostics=in_order([*plan.diagnostics, *more.diagnostics]),
            complete=plan.complete and more.complete,
            errored=errored,
            applyable=bool(plan.steps or more.steps) and not errored,
        )
    )


def _origin(step: StepView) -> str | None:
    """Who had the bundle before a step that was done; ``None``: nothing was done."""
    return step.before.holder if step.state == "DONE" and step.before is not None else None


def _hindrance(basis: Basis, step: StepView) -> Diagnostic | None:
    """Return why a step is not taken back; nothing for one that never happened."""
    match step.step:
        case SetDynamicSetting():
            return setting_hindrance(basis, step)
        case SetPolicy():
            return policy_hindrance(basis, step)
        case SplitBundle():
            return _split_hindrance(step)
        case UnloadBundle():
            return _unload_hindrance(basis, step, step.step.bundle)
        case _:
            raise InvariantError(f"A Pulsar cluster has no step of kind {step.step.kind}.")


def _split_hindrance(step: StepView) -> Diagnostic | None:
    if step.state not in ("DONE", "UNKNOWN"):
        return None
    return not_undone(
        step,
        "undo_split",
        f"The split of {step.step.subject} cannot be taken back: bundles are never merged again.",
        "Unload the parts to one broker, if they belong together.",
    )


def _unload_hindrance(basis: Basis, step: StepView, bundle: str) -> Diagnostic | None:
    if step.state == "UNKNOWN":
        return not_undone(
            step,
            "undo_unknown",
            f"What became of {bundle} is unknown: it is left where it is.",
            "Look at its owner, and move it by hand if need be.",
        )
    origin = _origin(step)
    if origin is None:
        return None
    refusal = first_refusal(check_bundle(basis, bundle))
    if refusal is not None:
        sentence = f"{bundle} cannot be brought back: {refusal.sentence}"
        return not_undone(step, "undo_refused", sentence, refusal.hint)
    stays = _stays(basis, step, origin)
    if stays is not None:
        return stays
    # one after the other: a move to a broker that is gone cannot be checked
    refusal = first_refusal(
        chain(check_destination(basis, origin), check_move(basis, bundle, origin))
    )
    if refusal is None:
        return None
    code = "undo_owner_gone" if refusal.code == "destination_unknown" else "undo_refused"
    sentence = f"{bundle} cannot go back to {origin}: {refusal.sentence}"
    return not_undone(step, code, sentence, refusal.hint)


def _stays(basis: Basis, step: StepView, origin: str) -> Diagnostic | None:
    """Compare where the bundle is with where it was and where the run left it."""
    bundle = step.step.subject
    owner = basis.view.brokers[basis.view.owner[basis.view.bundle_row(bundle)]]
    if owner == origin:
        return Diagnostic(
            severity="info",
            code="undo_not_needed",
            sentence=f"{bundle} is at {origin} already, where it was.",
            subject=bundle,
        )
    after = step.ending.after if step.ending else None
    if after is not None and after.holder in (None, owner):
        return None  # left with nobody, a lookup has given it to this owner since
    left_at = after.holder if after else "an unknown place"
    return not_undone(
        step,
        "undo_moved_since",
        f"{bundle} is at {owner} now; the run left it at {left_at}: somebody moved it since.",
        "Ask who did, and move it by hand if it still has to go back.",
    )
