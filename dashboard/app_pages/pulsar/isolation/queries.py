"""Isolation, anti-affinity and failure domains for the pages: each answer computed once."""

from __future__ import annotations

from dataclasses import dataclass

from core.plan.options import PlanOptions
from core.planning.isolation_fixes import FixFinder
from core.pulsar.anti_affinity import Collision, GroupSpread
from core.pulsar.isolation import failure_domains
from core.pulsar.plan.policy.build import DesiredPolicy
from core.pulsar.plan.policy.moves import PolicyOutlook, change_policies
from core.pulsar.plan.preview import Preview, preview_plan
from core.pulsar.serving import Serving
from core.snapshot.store import CachedSnapshot
from dashboard import services
from dashboard.presenters.pulsar.isolation_words import Violation, violations
from dashboard.queries.cache import cached
from dashboard.queries.pulsar.snapshots import reading

_RENEW_AFTER_S = 300


@dataclass(frozen=True, eq=False)
class Isolation:
    """Isolation of a cluster: policies, groups and domains.

    Attributes:
        serving: Who may serve what.
        spread: Anti-affinity groups.
        collisions: Where members of one share a place without need.
        domains: Failure domain to its brokers, as stored.
        wrong: What is wrong now, each with what would fix it.
    """

    serving: Serving
    spread: GroupSpread
    collisions: tuple[Collision, ...]
    domains: dict[str, tuple[str, ...]]
    wrong: tuple[Violation, ...]


def _isolation(stored: CachedSnapshot) -> Isolation:
    one = reading(stored)
    serving = Serving.of(one.view, one.settings)
    spread = GroupSpread(one.view, one.settings, serving)
    collisions = tuple(crowd for group in one.view.groups for crowd in spread.collisions(group))
    wrong = tuple(violations(one.findings, FixFinder(one.snapshot, serving), collisions))
    return Isolation(serving, spread, collisions, failure_domains(one.snapshot.policies), wrong)


isolation_of = cached(_isolation, max_entries=4)
"""The isolation of a saved snapshot."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeRequest:
    """Policies to change; equal requests on the same snapshot have the same answer.

    Attributes:
        stored: The snapshot.
        desired: In their order.
        with_unloads: Whether what would lie wrong is unloaded too.
        exclusions: Namespaces that the configuration keeps out of plans.
    """

    stored: CachedSnapshot
    desired: tuple[DesiredPolicy, ...]
    with_unloads: bool = False
    exclusions: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class ChangeAnswer:
    """A change of policies, seen through.

    Attributes:
        change: The plan, who may serve what, where bundles are expected.
        preview: Of the plan itself.
    """

    change: PolicyOutlook
    preview: Preview


def change_of(request: ChangeRequest) -> ChangeAnswer:
    """Return the plan that changes policies, seen through; made again before it expires.

    Raises:
        InputError: Nothing was named, or a value that is no document of its kind.
        UnknownNameError: A kind or a field that there is not.
    """
    return _changes((request, int(services.now().timestamp()) // _RENEW_AFTER_S))


def _changed(key: tuple[ChangeRequest, int]) -> ChangeAnswer:
    request, _ = key
    snapshot = reading(request.stored).snapshot
    terms = PlanOptions(now=services.now(), exclusions=frozenset(request.exclusions))
    change = change_policies(snapshot, request.desired, terms, with_unloads=request.with_unloads)
    return ChangeAnswer(change, preview_plan(snapshot, change.plan))


_changes = cached(_changed, max_entries=16)
