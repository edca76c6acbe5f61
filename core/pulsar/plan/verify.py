"""Checking a plan again, on a fresh snapshot: what has changed since it was made?"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import chain, takewhile

from core.errors import InvariantError
from core.plan.model import (
    Diagnostic,
    Plan,
    Step,
)
from core.pulsar.plan.checks import (
    Basis,
    check_bundle,
    check_cluster,
    check_destination,
    check_move,
    check_placement,
)
from core.pulsar.plan.policy.checks import check_policy
from core.pulsar.plan.policy.state import stored_policy, with_policies
from core.pulsar.plan.setting import check_setting, stored_settings
from core.pulsar.plan.split import check_split
from core.pulsar.policy_kinds import PolicyChange
from core.pulsar.settings import SETTING_BY_KEY, effective_settings
from core.pulsar.steps.base import PulsarStep, policy_changes
from core.pulsar.view import LoadView
from core.snapshot import PulsarSnapshot


def recheck(
    snapshot: PulsarSnapshot,
    plan: Plan,
    exclusions: Collection[str],
    now: datetime,
    *,
    steps: Collection[int] | None = None,
) -> dict[int, Diagnostic]:
    """Return the refusals of pending plan steps, by position in the plan.

    The same checks as when the plan was made, and that everything is still where it was then.

    Args:
        snapshot: A fresh one.
        plan: The requested one.
        exclusions: Namespaces that the configuration excludes from every plan.
        now: The present moment, aware UTC.
        steps: Places to look at; ``None`` for all.
    """
    settings = effective_settings(snapshot)  # what a plan assumed of settings does not count here
    basis = Basis(
        snapshot=snapshot,
        view=LoadView.of(snapshot, settings),
        settings=settings,
        now=now,
        exclusions=frozenset(exclusions),
    )
    everywhere = first_refusal(check_cluster(basis))
    conditions = _Conditions(basis, plan.steps)
    coming: list[PolicyChange] = []  # no fresh snapshot can show them yet
    found: dict[int, Diagnostic] = {}
    for index, step in enumerate(plan.steps):
        if steps is not None and index not in steps:
            continue
        if step.is_placed_by_cluster:  # under the policies that are set before it
            conditions.take(tuple(coming))
        refusal = everywhere or _about(conditions, step)
        if refusal is not None:
            found[index] = refusal
        else:
            coming += policy_changes([step])
    return found


class _Conditions:
    """State before a step: the fresh snapshot, with the policies that the plan sets before it."""

    def __init__(self, fresh: Basis, planned: Sequence[Step]) -> None:
        self._fresh = fresh
        self._planned = planned
        self._policies: tuple[PolicyChange, ...] = ()
        self.basis = fresh
        self.checks = SnapshotChecks(fresh, planned, was_live=True)

    def take(self, policies: tuple[PolicyChange, ...]) -> None:
        if policies == self._policies:
            return
        fresh = self._fresh
        snapshot = with_policies(fresh.snapshot, policies) if policies else fresh.snapshot
        view = LoadView.of(snapshot, fresh.settings)
        self._policies, self.basis = policies, replace(fresh, snapshot=snapshot, view=view)
        self.checks = SnapshotChecks(self.basis, self._planned, was_live=True)


class SnapshotChecks:
    """Snapshot checks of steps (:class:`core.pulsar.steps.base.Checks`).

    Args:
        basis: The snapshot, laid out.
        planned: Steps of the plan.
        was_live: Destinations were brokers when they were chosen.
    """

    def __init__(
        self, basis: Basis, planned: Sequence[Step] = (), *, was_live: bool = False
    ) -> None:
        self._basis = basis
        self._planned = planned
        self._was_live = was_live
        self._destinations: dict[str, Diagnostic | None] = {}

    def bundle(self, bundle: str) -> Diagnostic | None:
        """Return the reason a bundle cannot be moved."""
        return first_refusal(check_bundle(self._basis, bundle))

    def destination(self, broker: str) -> Diagnostic | None:
        """Return the refusal of a destination; checked once for all steps that use it."""
        if broker not in self._destinations:
            found = check_destination(self._basis, broker, was_live=self._was_live)
            self._destinations[broker] = first_refusal(found)
        return self._destinations[broker]

    def move(self, bundle: str, broker: str) -> Diagnostic | None:
        """Return the refusal of this bundle on that broker."""
        return first_refusal(check_move(self._basis, bundle, broker))

    def placement(self, bundle: str) -> Diagnostic | None:
        """Return the reason the cluster must not place a bundle now."""
        return first_refusal(check_placement(self._basis, bundle))

    def split(self, bundle: str, algorithm: str, positions: Sequence[int]) -> Diagnostic | None:
        """Return the reason a split would be refused or useless."""
        return first_refusal(check_split(self._basis, bundle, algorithm, positions))

    def owner(self, bundle: str) -> str:
        """Return the owner of a bundle."""
        view = self._basis.view
        return str(view.brokers[view.owner[view.bundle_row(bundle)]])

    def setting(self, key: str, value: str | None) -> Diagnostic | None:
        """Return the validation error for a dynamic setting."""
        return first_refusal(check_setting(self._basis, SETTING_BY_KEY[key], value))

    def policy(self, step: PulsarStep) -> Diagnostic | None:
        """Return the validation error for a policy, given those that the plan sets before it."""
        planned = policy_changes(takewhile(lambda one: one is not step, self._planned))
        found = (check_policy(self._basis, one, planned) for one in policy_changes([step]))
        return first_refusal(chain.from_iterable(found))

    def stored_policy(self, policy: str, name: str) -> str | None:
        """Return the current policy."""
        return stored_policy(self._basis.snapshot, policy, name)

    def stored_setting(self, key: str) -> str | None:
        """Return the dynamic value of a setting."""
        return stored_settings(self._basis.snapshot).get(key)


def _about(conditions: _Conditions, step: Step) -> Diagnostic | None:
    if not isinstance(step, PulsarStep):
        raise InvariantError(f"A Pulsar cluster has no step of kind {step.kind}.")
    return step.check(conditions.checks)


def first_refusal(found: Iterable[Diagnostic]) -> Diagnostic | None:
    """Return the first finding that forbids a step.

    Errors do; so does an unassigned bundle: there is nothing to unload.
    """
    refusals = (item for item in found if item.severity == "error" or item.code == "not_owned")
    return next(refusals, None)
