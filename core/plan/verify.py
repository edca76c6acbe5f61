"""Checking a plan again, on a fresh snapshot: what has changed since it was made?"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from datetime import datetime

from core.errors import InvariantError
from core.plan.checks import Basis, check_bundle, check_cluster, check_destination, check_move
from core.plan.model import (
    Diagnostic,
    Plan,
    SetDynamicSetting,
    SplitBundle,
    Step,
    UnloadBundle,
)
from core.plan.pegasus_verify import recheck_pegasus
from core.plan.policy_checks import check_policy
from core.plan.policy_state import with_policies
from core.plan.setting import check_setting
from core.plan.split import check_split
from core.plan.steps import SetPolicy
from core.pulsar.settings import SETTING_BY_KEY, effective_settings
from core.pulsar.view import LoadView
from core.snapshot import AnySnapshot, PegasusSnapshot, PulsarSnapshot


def recheck(
    snapshot: AnySnapshot,
    plan: Plan,
    exclusions: Collection[str],
    now: datetime,
    *,
    steps: Collection[int] | None = None,
) -> dict[int, Diagnostic]:
    """Return why steps of a plan may not be carried out any more, by place in the plan.

    The same checks as when the plan was made, and that everything is still where it was then.

    Args:
        snapshot: A fresh one.
        plan: What was asked for.
        exclusions: Namespaces that the configuration keeps out of every plan.
        now: The present moment, aware UTC.
        steps: Places to look at; ``None``: all.
    """
    if isinstance(snapshot, PegasusSnapshot):
        return recheck_pegasus(snapshot, plan, steps)
    return _recheck_pulsar(snapshot, plan, frozenset(exclusions), now, steps)


def _recheck_pulsar(
    snapshot: PulsarSnapshot,
    plan: Plan,
    exclusions: frozenset[str],
    now: datetime,
    steps: Collection[int] | None,
) -> dict[int, Diagnostic]:
    settings = effective_settings(snapshot)  # what a plan assumed of settings does not count here
    basis = Basis(
        snapshot=snapshot,
        view=LoadView.of(snapshot, settings),
        settings=settings,
        now=now,
        exclusions=exclusions,
    )
    everywhere = first_refusal(check_cluster(basis))
    grounds = _Grounds(basis)
    coming: list[SetPolicy] = []  # no fresh snapshot can show them yet
    found: dict[int, Diagnostic] = {}
    for index, step in enumerate(plan.steps):
        if steps is not None and index not in steps:
            continue
        if isinstance(step, UnloadBundle):
            grounds.take(tuple(coming))
        refusal = everywhere or _about(
            grounds.basis, step, grounds.destinations, _before(plan, index)
        )
        if refusal is not None:
            found[index] = refusal
        elif isinstance(step, SetPolicy):
            coming.append(step)
    return found


def _before(plan: Plan, index: int) -> list[SetPolicy]:
    """Policies that a step of the plan finds changed already."""
    if not isinstance(plan.steps[index], SetPolicy):
        return []
    return [step for step in plan.steps[:index] if isinstance(step, SetPolicy)]


class _Grounds:
    """What a step will find: the fresh snapshot, with the policies that the plan sets before it."""

    def __init__(self, fresh: Basis) -> None:
        self._fresh = fresh
        self._policies: tuple[SetPolicy, ...] = ()
        self.basis, self.destinations = fresh, _Destinations(fresh)

    def take(self, policies: tuple[SetPolicy, ...]) -> None:
        if policies == self._policies:
            return
        fresh = self._fresh
        snapshot = with_policies(fresh.snapshot, policies) if policies else fresh.snapshot
        view = LoadView.of(snapshot, fresh.settings)
        self._policies, self.basis = policies, replace(fresh, snapshot=snapshot, view=view)
        self.destinations = _Destinations(self.basis)


class _Destinations:
    """What forbids each destination, asked once for all the steps that name it."""

    def __init__(self, basis: Basis) -> None:
        self._basis = basis
        self._known: dict[str, Diagnostic | None] = {}

    def refusal(self, broker: str) -> Diagnostic | None:
        if broker not in self._known:
            self._known[broker] = first_refusal(
                check_destination(self._basis, broker, was_live=True)
            )
        return self._known[broker]


def _about(
    basis: Basis, step: Step, destinations: _Destinations, planned: Sequence[SetPolicy]
) -> Diagnostic | None:
    match step:
        case UnloadBundle():
            refusal = _about_bundle(basis, step)
            if refusal is not None or step.destination is None:
                return refusal
            return destinations.refusal(step.destination) or first_refusal(
                check_move(basis, step.bundle, step.destination)
            )
        case SplitBundle():
            return _about_bundle(basis, step) or first_refusal(check_split(basis, step))
        case SetDynamicSetting():
            # what it is now is looked at right before it is changed
            setting = SETTING_BY_KEY.get(step.key)
            if setting is None:
                return _unknown_setting(step)
            return first_refusal(check_setting(basis, setting, step.value))
        case SetPolicy():
            return first_refusal(check_policy(basis, step, planned))
        case _:
            raise InvariantError(f"A Pulsar cluster has no step of kind {step.kind}.")


def _unknown_setting(step: SetDynamicSetting) -> Diagnostic:
    return Diagnostic(
        severity="error",
        code="setting_unknown",
        sentence=f"{step.key} is no setting of the load balancer.",
        subject=step.key,
        hint="Make the plan anew with the key of a setting that exists.",
    )


def first_refusal(found: Iterable[Diagnostic]) -> Diagnostic | None:
    """Return the first finding that forbids a step.

    Errors do; so does that nobody owns the bundle: there is nothing to unload.
    """
    refusals = (item for item in found if item.severity == "error" or item.code == "not_owned")
    return next(refusals, None)


def moved_meanwhile(bundle: str, owner: str, now_at: str) -> Diagnostic:
    """Return what is said of a bundle that is not where the plan found it."""
    return Diagnostic(
        severity="error",
        code="moved_meanwhile",
        sentence=f"{bundle} was at {owner} when the plan was made, and is at {now_at} now.",
        subject=bundle,
        hint="Look at it again, and make another plan if it still has to move.",
    )


def _about_bundle(basis: Basis, step: UnloadBundle | SplitBundle) -> Diagnostic | None:
    refusal = first_refusal(check_bundle(basis, step.bundle))
    if refusal is not None:
        return refusal
    owner = basis.view.brokers[basis.view.owner[basis.view.bundle_row(step.bundle)]]
    return moved_meanwhile(step.bundle, step.owner, owner) if owner != step.owner else None
