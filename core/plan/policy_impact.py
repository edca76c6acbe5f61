"""What a change of policies does to placement: who may serve what, and what has to move."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from core.plan.clients import ClientImpact, client_impact
from core.plan.policy_state import with_policies
from core.plan.steps import SetPolicy
from core.pulsar.placement.context import PlacementContext
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
        misplaced: Bundles on brokers that may not have them afterwards.
    """

    namespace: str
    before: tuple[str, ...]
    after: tuple[str, ...]
    bundles: int
    misplaced: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class PolicyImpact:
    """What a change of policies does.

    Attributes:
        changes: Namespaces whose candidates change, those without any first.
        unloaded: Bundles that the cluster unloads by itself: of namespaces that an isolation policy
            of the change matches.
        clients: Of those.
        idle_brokers: Brokers that may serve nothing afterwards.
    """

    changes: tuple[NamespaceChange, ...]
    unloaded: tuple[str, ...]
    clients: ClientImpact
    idle_brokers: tuple[str, ...]

    @property
    def without_brokers(self) -> tuple[str, ...]:
        """Namespaces that nobody may serve afterwards."""
        return tuple(change.namespace for change in self.changes if not change.after)

    @property
    def misplaced(self) -> tuple[str, ...]:
        """Bundles that have to move."""
        return tuple(name for change in self.changes for name in change.misplaced)


def policy_impact(
    snapshot: PulsarSnapshot, settings: EffectiveSettings, steps: Sequence[SetPolicy]
) -> PolicyImpact:
    """Return what setting and removing policies does to placement.

    Args:
        snapshot: The cluster.
        settings: What the leader goes by.
        steps: Of one plan.
    """
    after = with_policies(snapshot, steps)
    views = LoadView.of(snapshot, settings), LoadView.of(after, settings)
    masks = [_candidates(view, settings) for view in views]
    view = views[0]
    changes = [
        _change(view, row, masks[0][row], masks[1][row])
        for row in np.flatnonzero((masks[0] != masks[1]).any(axis=1)).tolist()
        if view.namespaces[row] in views[1].namespace_index
    ]
    changes.sort(key=lambda change: (bool(change.after), change.namespace))
    rows = _unloaded_rows(views, steps)
    idle = ~masks[1].any(axis=0) & masks[0].any(axis=0)
    return PolicyImpact(
        changes=tuple(changes),
        unloaded=tuple(view.bundles[rows].tolist()),
        clients=client_impact(snapshot.bundles, rows),
        idle_brokers=tuple(view.brokers[row] for row in np.flatnonzero(idle)),
    )


def _candidates(view: LoadView, settings: EffectiveSettings) -> Flags:
    """Brokers by namespace that isolation lets serve it."""
    return np.asarray(PlacementContext.of(view, settings).allowed[view.namespace_policy], np.bool_)


def _change(view: LoadView, row: int, before: Flags, after: Flags) -> NamespaceChange:
    mine = np.flatnonzero((view.bundle_namespace == row) & ~view.is_broker_bound)
    owners = view.owner[mine]
    astray = mine[(owners >= 0) & ~np.append(after, True)[owners]]
    return NamespaceChange(
        namespace=view.namespaces[row],
        before=_names(view, before),
        after=_names(view, after),
        bundles=int(mine.size),
        misplaced=tuple(view.bundles[astray].tolist()),
    )


def _names(view: LoadView, mask: Flags) -> tuple[str, ...]:
    return tuple(view.brokers[row] for row in np.flatnonzero(mask))


def _unloaded_rows(
    views: tuple[LoadView, LoadView], steps: Sequence[SetPolicy]
) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Bundles of namespaces that a policy which is set matches: brokers unload them at once."""
    named = {step.name for step in steps if step.policy == "isolation" and step.value is not None}
    before, after = views
    rows = [
        before.namespace_index[name]
        for policy in after.policies
        if policy.name in named
        for name in before.namespaces
        if policy.governs(name)
    ]
    meant = np.isin(before.bundle_namespace, rows) & (before.owner >= 0) & ~before.is_broker_bound
    return np.flatnonzero(meant)
