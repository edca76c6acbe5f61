"""Who may serve what: isolation policies against brokers, and misplaced bundles.

Namespaces that one policy governs are one row, brokers that are the same to every policy one
column, so that three brokers and three hundred fit in the same few cells.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final, Self

import numpy as np

from core.pulsar.bundle_counts import Codes, Ints
from core.pulsar.isolation import IsolationPolicy
from core.pulsar.placement.context import PlacementContext
from core.pulsar.settings import EffectiveSettings
from core.pulsar.view import Flags, LoadView

ROLES: Final = ("none", "primary", "secondary", "standby", "shared", "silent")
"""What a broker is to a row. ``secondary`` steps in now, ``standby`` would if primaries were
fewer than ``min_limit``; ``shared`` serves namespaces without a policy; ``silent`` would serve,
but its load report is not known, and placement passes such a broker over."""

_NONE, _PRIMARY, _SECONDARY, _STANDBY, _SHARED, _SILENT = range(len(ROLES))


@dataclass(frozen=True, kw_only=True)
class ServingRow:
    """Namespaces that the same brokers may serve.

    Attributes:
        policy: That governs them; ``None`` for those without a policy.
        namespaces: Names, in order.
        bundles: That can move.
        misplaced: Of those, on brokers that may not serve them.
        primaries: Brokers that are primary and report.
        is_short: Primaries are fewer than the policy's ``min_limit``.
    """

    policy: IsolationPolicy | None
    namespaces: tuple[str, ...]
    bundles: int
    misplaced: int
    primaries: int
    is_short: bool


@dataclass(frozen=True, eq=False)
class Serving:
    """Eligible brokers in one view.

    Attributes:
        view: The cluster.
        roles: Index into :data:`ROLES`, ``(n_policies + 1, n_brokers)``; last row: no policy.
    """

    view: LoadView
    roles: Codes

    @classmethod
    def of(cls, view: LoadView, settings: EffectiveSettings) -> Self:
        """Apply placement's own rule.

        Source:
            Pulsar ``LoadManagerShared#applyNamespacePolicies``.
        """
        context = PlacementContext.of(view, settings)
        may = np.delete(context.allowed, -2, axis=0)  # of bundles with non-persistent topics
        roles = np.full(may.shape, _NONE, np.int32)
        roles[:-1][view.is_secondary] = _STANDBY
        roles[:-1][view.is_secondary & may[:-1]] = _SECONDARY
        roles[:-1][view.is_primary] = _PRIMARY
        shared = ~view.is_primary.any(axis=0) & view.serves_persistent
        roles[-1][shared] = _SHARED
        roles[(roles != _NONE) & ~context.usable[None, :]] = _SILENT
        return cls(view, roles)

    @cached_property
    def may(self) -> Flags:
        """Eligible brokers now, in the shape of the roles."""
        return np.isin(self.roles, (_PRIMARY, _SECONDARY, _SHARED))

    @cached_property
    def misplaced(self) -> Ints:
        """Rows of the bundles whose owner may not serve them; of silent owners nothing is said."""
        view = self.view
        fits = self.may | (self.roles == _SILENT)
        owned = np.flatnonzero((view.owner >= 0) & ~view.is_broker_bound)
        policy = view.namespace_policy[view.bundle_namespace[owned]]
        serves = ~view.is_primary.any(axis=0) & view.serves_non_persistent
        by_kind = view.is_non_persistent[owned] & (policy < 0)
        owner = view.owner[owned]
        is_right = np.where(by_kind, serves[owner], fits[policy, owner])
        return np.asarray(owned[~is_right], np.int64)

    @cached_property
    def rows(self) -> tuple[ServingRow, ...]:
        """One row a policy, in stored order, and one for namespaces without any."""
        view = self.view
        by_policy = view.namespace_policy
        movable = np.bincount(
            view.bundle_namespace[~view.is_broker_bound], minlength=len(view.namespaces)
        )
        wrong = np.bincount(view.bundle_namespace[self.misplaced], minlength=len(view.namespaces))
        rows = []
        for row, policy in enumerate((*view.policies, None)):
            number = -1 if policy is None else row
            mine = np.flatnonzero((by_policy == number) & ((movable > 0) | (number >= 0)))
            primaries = int((self.roles[row] == _PRIMARY).sum())
            rows.append(
                ServingRow(
                    policy=policy,
                    namespaces=tuple(view.namespaces[at] for at in mine.tolist()),
                    bundles=int(movable[mine].sum()),
                    misplaced=int(wrong[mine].sum()),
                    primaries=primaries,
                    is_short=policy is not None and primaries < policy.min_limit,
                )
            )
        return tuple(rows)

    @cached_property
    def broker_classes(self) -> tuple[Ints, ...]:
        """Rows of brokers that are the same to every policy, in the order of their first."""
        if not self.roles.shape[1]:
            return ()
        _, first, which = np.unique(self.roles, axis=1, return_index=True, return_inverse=True)
        order = np.argsort(first, kind="stable")
        return tuple(np.flatnonzero(which.ravel() == number) for number in order.tolist())

    def role(self, row: int, broker: int) -> str:
        """Return the role of a broker in a row: a word of :data:`ROLES`."""
        return ROLES[int(self.roles[row, broker])]

    def brokers_of(self, namespace: str) -> tuple[str, ...]:
        """Return the brokers that may serve a namespace, in row order."""
        at = self.view.namespace_index[namespace]
        may = self.may[self.view.namespace_policy[at]]
        return tuple(self.view.brokers[row] for row in np.flatnonzero(may).tolist())
