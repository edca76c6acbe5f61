"""Policies and filters that leave a bundle no broker, or too few."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from core.diagnosis.pulsar.context import Candidate, DiagnosisContext
from core.diagnosis.pulsar.trials import Change
from core.pulsar.isolation import IsolationPolicy, matcher_differences
from core.simulation.averages import set_column
from core.snapshot import PulsarSnapshot
from core.units import pluralize

_MAX_TRIED: Final = 4


def isolation(context: DiagnosisContext) -> Iterator[Candidate]:
    """Isolation policies that name a port, match no broker, or keep load on a few."""
    view = context.view
    if not view.policies:
        return
    governed = view.namespace_policy[view.bundle_namespace]
    traffic = np.bincount(
        governed[governed >= 0],
        weights=np.nan_to_num(view.bundle_short_throughput)[governed >= 0],
        minlength=len(view.policies),
    )
    lost = {
        item.policy
        for item in matcher_differences(view.policies, view.brokers, context.settings.release)
        if item.placement_role == "none"
    }
    order = sorted(range(len(view.policies)), key=lambda at: -traffic[at])
    for index in order[:_MAX_TRIED]:
        policy = view.policies[index]
        allowed = [
            broker
            for broker in view.brokers
            if policy.placement_role_of(broker, context.settings.release) != "none"
        ]
        if len(allowed) == len(view.brokers):
            continue
        yield Candidate(
            code=_code(policy, allowed, lost),
            objects=(policy.name, *allowed[:3]),
            summary=_summary(policy, allowed, len(view.brokers), lost),
            changes=(
                context.base.also(
                    Change(data=f"without policy {policy.name}", edit=_without(policy.name))
                ),
            ),
            hint=f"Change isolation policy {policy.name}: write expressions for hosts alone, "
            "without a port, that match enough brokers.",
            measured=float(len(allowed)),
            threshold=float(len(view.brokers)),
            unit="brokers",
        )


def _code(policy: IsolationPolicy, allowed: list[str], lost: set[str]) -> str:
    if policy.name in lost:
        return "policy_names_port"
    return "policy_too_narrow" if allowed else "policy_matches_no_broker"


def _summary(policy: IsolationPolicy, allowed: list[str], count: int, lost: set[str]) -> str:
    if policy.name in lost:
        return (
            f"Isolation policy {policy.name} has a port in its expression "
            f"({policy.primary[0] if policy.primary else ''}): placement compares hosts alone, so "
            f"it matches {len(allowed)} of {count} brokers."
        )
    if not allowed:
        return f"Isolation policy {policy.name} matches none of the {count} brokers."
    return (
        f"Isolation policy {policy.name} allows {len(allowed)} of {count} brokers: its namespaces "
        "cannot use the others."
    )


def _without(name: str) -> Callable[[PulsarSnapshot], PulsarSnapshot]:
    def edit(snapshot: PulsarSnapshot) -> PulsarSnapshot:
        others = snapshot.policies.filter(pc.not_equal(snapshot.policies["name"], name))
        return PulsarSnapshot.build(snapshot.manifest, {**snapshot.tables, "policies": others})

    return edit


def anti_affinity(context: DiagnosisContext) -> Iterator[Candidate]:
    """Anti-affinity groups hold bundles where they are."""
    groups = context.view.groups
    if not groups:
        return
    yield Candidate(
        code="anti_affinity",
        objects=tuple(groups[:3]),
        summary=f"{pluralize(len(groups), 'anti-affinity group')} "
        f"({', '.join(groups[:3])}) decide where namespaces may go.",
        changes=(
            context.base.also(Change(data="without anti-affinity groups", edit=_without_groups)),
        ),
        hint="Take namespaces out of the group, or give the group more brokers.",
        measured=float(len(groups)),
        threshold=0.0,
        unit="groups",
        tier=1,
    )


def _without_groups(snapshot: PulsarSnapshot) -> PulsarSnapshot:
    spaces = snapshot.namespaces
    none = pa.nulls(spaces.num_rows, pa.string())
    spaces = set_column(spaces, "anti_affinity_group", none)
    return PulsarSnapshot.build(snapshot.manifest, {**snapshot.tables, "namespaces": spaces})


def other_load_manager(context: DiagnosisContext) -> Iterator[Candidate]:
    """Brokers with another load manager class, which the leader does not choose."""
    brokers = context.snapshot.brokers
    own = context.view.own_class
    classes = brokers["load_manager"].to_pylist()
    names = brokers["broker"].to_pylist()
    others = [names[row] for row, name in enumerate(classes) if name and own and name != own]
    if not others:
        return
    yield Candidate(
        code="load_managers_differ",
        keys=("loadManagerClassName",),
        objects=tuple(others),
        summary=f"{pluralize(len(others), 'broker')} run another load manager than the leader "
        f"({str(own).rpartition('.')[2]}): no bundle is placed on them.",
        changes=(
            context.base.also(
                Change(
                    data="one load manager", edit=lambda snapshot: _one_class(snapshot, str(own))
                )
            ),
        ),
        hint="Set loadManagerClassName alike on all brokers, and restart those that differ.",
        lines=(f"loadManagerClassName={own}",),
        measured=float(len(others)),
        threshold=0.0,
        unit="brokers",
    )


def _one_class(snapshot: PulsarSnapshot, name: str) -> PulsarSnapshot:
    brokers = snapshot.brokers
    alike = pa.array([name] * brokers.num_rows, pa.string())
    brokers = set_column(brokers, "load_manager", alike)
    return PulsarSnapshot.build(snapshot.manifest, {**snapshot.tables, "brokers": brokers})
