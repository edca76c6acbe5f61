"""Edited plans: always new ones, built and checked like any other, naming what they come from."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from core.errors import InputError, UnknownNameError
from core.plan.describe import tally
from core.plan.model import Diagnostic, Plan, sealed
from core.plan.options import in_order
from core.pulsar.placement import STRATEGY_NAMES
from core.pulsar.plan.build import build_unload_plan
from core.pulsar.steps.unload import UnloadBundle, unloads_of
from core.snapshot import PulsarSnapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanContext:
    """On what an edited plan is built.

    Attributes:
        snapshot: The one the plan was made on, or a newer one.
        now: The present moment, aware UTC.
        exclusions: Namespaces that the configuration excludes from every plan.
    """

    snapshot: PulsarSnapshot
    now: datetime
    exclusions: Collection[str] = field(default_factory=frozenset)


def dropped(plan: Plan, bundles: Iterable[str], context: PlanContext) -> Plan:
    """Return the plan without the steps of some bundles.

    Raises:
        UnknownNameError: The plan has no step for one of them.
        InputError: No step would be left.
    """
    gone = _known(plan, bundles)
    left = [step.bundle for step in _unloads(plan) if step.bundle not in gone]
    if not left:
        raise InputError(
            f"Plan {plan.short_id} would have no step left.", hint="Keep at least one bundle."
        )
    return _built(plan, left, _destinations(plan, left), context)


def retargeted(plan: Plan, destinations: Mapping[str, str | None], context: PlanContext) -> Plan:
    """Return the plan with other destinations.

    Args:
        plan: What is edited.
        destinations: Bundle to broker id, or to ``None`` if the cluster places it.
        context: On what.
    Raises:
        UnknownNameError: The plan has no step for one of the bundles.
    """
    _known(plan, destinations)
    bundles = [step.bundle for step in _unloads(plan)]
    wanted = {**_destinations(plan, bundles), **destinations}
    return _built(
        plan,
        bundles,
        {bundle: broker for bundle, broker in wanted.items() if broker is not None},
        context,
    )


def with_findings(plan: Plan, found: Iterable[Diagnostic], *, is_complete: bool) -> Plan:
    """Return the plan with further diagnostics (no errors), sealed again."""
    diagnostics = in_order([*plan.diagnostics, *found])
    return sealed(replace(plan, diagnostics=diagnostics, complete=plan.complete and is_complete))


def _built(
    plan: Plan, bundles: list[str], destinations: Mapping[str, str], context: PlanContext
) -> Plan:
    policy = plan.strategy
    return build_unload_plan(
        context.snapshot,
        bundles,
        now=context.now,
        destinations=destinations,
        strategy=policy.name if policy.name in STRATEGY_NAMES else None,
        overrides=policy.settings,
        release=policy.release,
        reason=plan.reason,
        lifetime_s=(plan.expires_at - plan.created_at).total_seconds(),
        exclusions=context.exclusions,
        undoes=plan.undoes,
        derived_from=plan.plan_id,
    )


def _destinations(plan: Plan, bundles: Collection[str]) -> dict[str, str]:
    return {
        step.bundle: step.destination
        for step in _unloads(plan)
        if step.destination is not None and step.bundle in bundles
    }


def _unloads(plan: Plan) -> tuple[UnloadBundle, ...]:
    """The plan's steps; one of splits or settings is not edited, it is made again.

    Raises:
        InputError: It has a step that is no unload.
    """
    steps = unloads_of(plan.steps)
    if len(steps) < len(plan.steps):
        raise InputError(
            f"Plan {plan.short_id} does more than unload bundles ({tally(plan.steps)}).",
            hint="Create a new plan instead of editing this one.",
        )
    return steps


def _known(plan: Plan, bundles: Iterable[str]) -> set[str]:
    requested, own = set(bundles), {step.bundle for step in _unloads(plan)}
    if strangers := requested - own:
        raise UnknownNameError.of("step", min(strangers), own, place=f"plan {plan.short_id}")
    return requested
