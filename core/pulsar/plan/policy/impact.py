"""What a change of policies does to placement: who may serve what, and what has to move."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from core.pulsar.anti_affinity import GroupSpread
from core.pulsar.bundle_counts import Ints
from core.pulsar.plan.clients import ClientImpact, client_impact
from core.pulsar.plan.policy.state import policies_of, with_policies
from core.pulsar.plan.policy.unload_scope import unloaded_namespaces
from core.pulsar.policy_kinds import ATTACHED, PolicyChange, policy_kind
from core.pulsar.serving import Serving
from core.pulsar.settings import EffectiveSettings
from core.pulsar.view import Flags, LoadView
from core.snapshot import PulsarSnapshot


@dataclass(frozen=True, kw_only=True)
class NamespaceChange:
    """A namespace whose candidates change.

    Attributes:
        namespace: Name.
        before: Brokers that may serve it now.
        after: Brokers that may serve it afterwards.
        bundles: It has.
        misplaced: Bundles on brokers that may not have them afterwards: they have to move.
        replaced: How many of the others brokers unload all the same.
    """

    namespace: str
    before: tuple[str, ...]
    after: tuple[str, ...]
    bundles: int
    misplaced: tuple[str, ...]
    replaced: int = 0

    @property
    def staying(self) -> int:
        """Bundles that neither have to move nor are unloaded."""
        return self.bundles - len(self.misplaced) - self.replaced


@dataclass(frozen=True, kw_only=True)
class PolicyImpact:
    """Effect of policy changes.

    Attributes:
        changes: Namespaces whose candidates change, those without any first.
        unloaded: Bundles that the cluster unloads by itself, see
            :func:`core.pulsar.plan.policy.unload_scope.unloaded_namespaces`.
        clients: Of those.
        idle_brokers: Brokers that may serve nothing afterwards.
        short: Policies whose primaries are fewer than their ``min_limit`` afterwards, and were not.
        astray: Bundles on brokers that may not have them afterwards, by isolation or by the groups
            that the change is about, and that are not unloaded: those to be unloaded with it.
        limited: Clients of the namespaces whose limits change.
    """

    changes: tuple[NamespaceChange, ...]
    unloaded: tuple[str, ...]
    clients: ClientImpact
    idle_brokers: tuple[str, ...]
    short: tuple[str, ...] = ()
    astray: tuple[str, ...] = ()
    limited: ClientImpact | None = None

    @property
    def without_brokers(self) -> tuple[str, ...]:
        """Namespaces that no broker may serve afterwards."""
        return tuple(change.namespace for change in self.changes if not change.after)

    @property
    def misplaced(self) -> tuple[str, ...]:
        """Bundles that have to move."""
        return tuple(name for change in self.changes for name in change.misplaced)

    @property
    def staying(self) -> int:
        """Bundles of the namespaces in ``changes`` that keep their brokers."""
        return sum(change.staying for change in self.changes)


def policy_impact(
    snapshot: PulsarSnapshot, settings: EffectiveSettings, changes: Sequence[PolicyChange]
) -> PolicyImpact:
    """Return the effect of setting and removing policies on placement.

    Args:
        snapshot: The cluster.
        settings: The leader's active settings.
        changes: Of one plan.
    """
    after = with_policies(snapshot, changes)
    views = LoadView.of(snapshot, settings), LoadView.of(after, settings)
    servings = Serving.of(views[0], settings), Serving.of(views[1], settings)
    masks = [serving.may[serving.view.namespace_policy] for serving in servings]
    view = views[0]
    rows = _unloaded_rows(view, changes)
    namespaces = [
        _change(view, row, masks[0][row], masks[1][row], rows)
        for row in np.flatnonzero((masks[0] != masks[1]).any(axis=1)).tolist()
        if view.namespaces[row] in views[1].namespace_index
    ]
    namespaces.sort(key=lambda one: (bool(one.after), one.namespace))
    idle = ~masks[1].any(axis=0) & masks[0].any(axis=0)
    return PolicyImpact(
        changes=tuple(namespaces),
        unloaded=tuple(view.bundles[rows].tolist()),
        clients=client_impact(snapshot.bundles, rows),
        idle_brokers=tuple(view.brokers[row] for row in np.flatnonzero(idle)),
        short=_short(servings),
        astray=_astray(servings[1], settings, changes, rows),
        limited=_limited(snapshot, after, view, changes),
    )


def _limited(
    before: PulsarSnapshot, after: PulsarSnapshot, view: LoadView, changes: Sequence[PolicyChange]
) -> ClientImpact | None:
    """Add up the clients whose limits change; ``None`` if no limit changes."""
    limits = [one for one in changes if policy_kind(one.policy).is_limit]
    if not limits:
        return None
    names = {one.name for one in limits if policy_kind(one.policy).scope == "namespace"}
    groups = {one.name for one in limits if policy_kind(one.policy).scope == "group"}
    for snapshot in (before, after):
        attached = policies_of(snapshot, ATTACHED)
        names |= {name for name, group in attached.items() if group in groups}
    known = [view.namespace_index[name] for name in names if name in view.namespace_index]
    return client_impact(before.bundles, np.flatnonzero(np.isin(view.bundle_namespace, known)))


def _short(servings: tuple[Serving, Serving]) -> tuple[str, ...]:
    """Policies that a change leaves with fewer primaries than they require."""
    was, now = (
        {row.policy.name for row in serving.rows if row.policy is not None and row.is_short}
        for serving in servings
    )
    return tuple(sorted(now - was))


def _astray(
    serving: Serving, settings: EffectiveSettings, changes: Sequence[PolicyChange], unloaded: Ints
) -> tuple[str, ...]:
    """Return bundles misplaced by the changes that the cluster does not unload."""
    view = serving.view
    kinds = {change.policy for change in changes}
    names: list[str] = []
    if "isolation" in kinds:
        names += view.bundles[np.setdiff1d(serving.misplaced, unloaded)].tolist()
    groups = {str(change.value).lower() for change in changes if change.policy == "anti_affinity"}
    if "failure_domain" in kinds:
        groups = set(view.groups)
    spread = GroupSpread(view, settings, serving)
    names += [
        name
        for group in groups
        for collision in spread.collisions(group)
        for name in collision.bundles
    ]
    gone = set(view.bundles[unloaded].tolist())
    return tuple(name for name in dict.fromkeys(names) if name not in gone)


def _change(
    view: LoadView, row: int, before: Flags, after: Flags, unloaded: Ints
) -> NamespaceChange:
    mine = np.flatnonzero((view.bundle_namespace == row) & ~view.is_broker_bound)
    owners = view.owner[mine]
    astray = mine[(owners >= 0) & ~np.append(after, True)[owners]]
    return NamespaceChange(
        namespace=view.namespaces[row],
        before=_names(view, before),
        after=_names(view, after),
        bundles=int(mine.size),
        misplaced=tuple(view.bundles[astray].tolist()),
        replaced=int(np.isin(mine, np.setdiff1d(unloaded, astray)).sum()),
    )


def _names(view: LoadView, mask: Flags) -> tuple[str, ...]:
    return tuple(view.brokers[row] for row in np.flatnonzero(mask))


def _unloaded_rows(view: LoadView, changes: Sequence[PolicyChange]) -> Ints:
    """Bundles that brokers unload by themselves when the policies are set."""
    rows = [view.namespace_index[name] for name in unloaded_namespaces(view, changes)]
    meant = np.isin(view.bundle_namespace, rows) & (view.owner >= 0) & ~view.is_broker_bound
    return np.flatnonzero(meant)
