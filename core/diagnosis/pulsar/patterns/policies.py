"""Policies and filters that leave a bundle no broker, or too few."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from core.arrays import Floats, column_values
from core.diagnosis.pulsar.context import Candidate, DiagnosisContext
from core.diagnosis.pulsar.trials import Change
from core.pulsar.averages import set_column
from core.pulsar.isolation import IsolationPolicy, matcher_differences
from core.pulsar.plan.outcomes import Scenario
from core.pulsar.plan.project import project_scenario
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
        if len(allowed) == len(view.brokers) or policy.name in context.trials.pools.policies:
            continue  # it separates nothing, or separates as it is meant to
        yield Candidate(
            code=_code(policy, allowed, lost),
            objects=(policy.name, *allowed[:3]),
            summary=_summary(policy, allowed, len(view.brokers), lost),
            changes=(
                context.base.also(
                    Change(data=f"without policy {policy.name}", edit=_without(policy.name))
                ),
            ),
            hint=f"Change isolation policy {policy.name}: match host names without a port, and "
            "enough brokers.",
            measured=float(len(allowed)),
            threshold=float(len(view.brokers)),
            unit="brokers",
        )


def not_applied(context: DiagnosisContext) -> Iterator[Candidate]:
    """Bundles are on brokers that their policy excludes: policies apply to new assignments only."""
    view = context.view
    if not view.policies:
        return
    governed = view.namespace_policy[view.bundle_namespace]
    allowed = np.logical_or(view.is_primary, view.is_secondary)
    owned = (governed >= 0) & (view.owner >= 0) & ~view.is_broker_bound
    has_broker = np.asarray(view.is_primary.any(axis=1))
    outside = owned & ~allowed[governed, view.owner] & has_broker[governed]
    for index in np.unique(governed[outside]).tolist():
        policy = view.policies[index]
        rows = np.flatnonzero(outside & (governed == index))
        places = [view.brokers[row] for row in np.flatnonzero(view.is_primary[index])]
        holders = sorted({view.brokers[row] for row in view.owner[rows].tolist()})
        spaces = sorted({view.namespaces[row] for row in view.bundle_namespace[rows].tolist()})
        yield Candidate(
            code="policy_not_applied",
            objects=(policy.name, *holders[:3], *spaces[:3]),
            summary=f"{pluralize(rows.size, 'bundle')} of {', '.join(spaces[:3])} "
            f"on {', '.join(holders[:3])}, which "
            f"isolation policy {policy.name} excludes. Policies apply only to new "
            "assignments.",
            changes=(
                context.base.also(
                    Change(
                        data=f"policy {policy.name} applied",
                        edit=partial(_moved_to, rows=rows, places=tuple(places)),
                    )
                ),
            ),
            hint=f"Unload them: pulsar-admin namespaces unload {spaces[0]}.",
            measured=float(rows.size),
            threshold=0.0,
            unit="bundles",
        )


def _moved_to(
    snapshot: PulsarSnapshot, rows: NDArray[np.int64], places: tuple[str, ...]
) -> PulsarSnapshot:
    """Return the snapshot with bundles on these brokers, each on the one with the least traffic."""
    names = snapshot.brokers["broker"].to_pylist()
    traffic = _traffic(snapshot.brokers)
    load = {name: float(traffic[names.index(name)]) for name in places}
    carried = _traffic(snapshot.bundles)[rows]
    ends: list[str | None] = [None] * rows.size
    for at in np.argsort(-carried, kind="stable").tolist():
        place = min(places, key=lambda name: load[name])
        load[place] += float(carried[at])
        ends[at] = place
    return project_scenario(snapshot, rows, Scenario(1.0, tuple(ends)))


def _traffic(table: pa.Table) -> Floats:
    both = column_values(table, "msg_throughput_in") + column_values(table, "msg_throughput_out")
    return np.nan_to_num(both)


def _code(policy: IsolationPolicy, allowed: list[str], lost: set[str]) -> str:
    if policy.name in lost:
        return "policy_names_port"
    return "policy_too_narrow" if allowed else "policy_matches_no_broker"


def _summary(policy: IsolationPolicy, allowed: list[str], count: int, lost: set[str]) -> str:
    if policy.name in lost:
        return (
            f"Isolation policy {policy.name} has a port in its expression "
            f"({policy.primary[0] if policy.primary else ''}): placement compares host names only, "
            f"so it matches {len(allowed)} of {count} brokers."
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
        summary=f"{pluralize(len(groups), 'anti-affinity group')} ({', '.join(groups[:3])}) "
        "restrict the placement of namespaces.",
        changes=(
            context.base.also(Change(data="without anti-affinity groups", edit=_without_groups)),
        ),
        hint="Remove namespaces from the group, or add brokers.",
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
        f"({str(own).rpartition('.')[2]}) and receive no bundles.",
        changes=(
            context.base.also(
                Change(
                    data="one load manager", edit=lambda snapshot: _one_class(snapshot, str(own))
                )
            ),
        ),
        hint="Set the same loadManagerClassName on all brokers, and restart those that differ.",
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
