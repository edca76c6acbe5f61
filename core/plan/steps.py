"""The steps that a plan is made of: everything that Trimtab can do to a cluster.

Pulsar's are here, Pegasus' in :mod:`core.plan.pegasus_steps`. Whoever only tells or counts steps
reads what all of them have (:class:`StepBase`) and the sentences of :mod:`core.plan.words`; only a
cluster's port and the checks know one kind from another.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from core.ids import namespace_of
from core.plan.pegasus_steps import (
    AwaitState,
    ChangeReplica,
    CloseReplicas,
    MoveReplica,
    ProposeMany,
    SetMetaLevel,
    SetServerSetting,
)
from core.plan.policy_kinds import DEFAULT_QUOTA_NAME, policy_kind
from core.plan.step_base import StepBase

LEAST_FORESEEN: Final = 0.01
"""Destinations less likely than this are not written into a plan."""


class UnloadBundle(StepBase, frozen=True, kw_only=True, tag="unload_bundle"):
    """Take a bundle from its owner; the cluster (or ``destination``) takes it up again.

    Attributes:
        bundle: Name, ``tenant/namespace/0xL_0xU``.
        owner: Broker id of the owner when the plan was made: the step's precondition.
        destination: Broker id that is asked to take it, or ``None``: the cluster places it.
        foreseen: Broker id to probability, at least :data:`LEAST_FORESEEN`: where it is expected
            to land; empty: unknown. A journal sorts its keys: :attr:`likely` has the order.
    """

    bundle: str
    owner: str
    destination: str | None = None
    foreseen: Mapping[str, float] = msgspec.field(default_factory=dict)

    def __hash__(self) -> int:
        """Leave out what cannot be hashed."""
        return hash((self.bundle, self.owner, self.destination, self.reason))

    @property
    def subject(self) -> str:
        """The bundle."""
        return self.bundle

    @property
    def namespace(self) -> str | None:
        """The bundle's namespace."""
        return namespace_of(self.bundle)


class SplitBundle(StepBase, frozen=True, kw_only=True, tag="split_bundle"):
    """Cut a bundle into parts; they can never be merged again.

    Attributes:
        bundle: Name, ``tenant/namespace/0xL_0xU``.
        owner: Broker id of the owner when the plan was made: the step's precondition.
        algorithm: What the brokers are asked to cut by, for example ``range_equally_divide``.
        positions: Inner boundaries that they are told, ascending; only for
            ``specified_positions_divide``.
        boundaries: Inner boundaries that are expected, ascending; empty: the brokers find them.
        is_unloaded: Whether the parts are unloaded too, and so placed anew.
    """

    bundle: str
    owner: str
    algorithm: str
    positions: tuple[int, ...] = ()
    boundaries: tuple[int, ...] = ()
    is_unloaded: bool = False

    @property
    def subject(self) -> str:
        """The bundle."""
        return self.bundle

    @property
    def namespace(self) -> str | None:
        """The bundle's namespace."""
        return namespace_of(self.bundle)


class SetDynamicSetting(StepBase, frozen=True, kw_only=True, tag="set_dynamic_setting"):
    """Set a dynamic setting of all brokers, or take it away so that their own files count again.

    Attributes:
        key: Upstream key.
        before: Its dynamic value when the plan was made, ``None``: it had none. The precondition.
        value: What it shall be, as the brokers write it; ``None``: taken away.
    """

    key: str
    before: str | None = None
    value: str | None = None

    @property
    def subject(self) -> str:
        """The key."""
        return self.key


class SetPolicy(StepBase, frozen=True, kw_only=True, tag="set_policy"):
    """Set a policy of the cluster or of a namespace, or remove it.

    Attributes:
        policy: Its kind, a key of :data:`core.plan.policy_kinds.POLICY_KINDS`.
        name: Of the policy, or of the namespace or bundle whose it is.
        before: What it was when the plan was made, ``None``: it was not set. The precondition.
        value: What it shall be, a JSON document or a plain text; ``None``: removed.
        cluster: The cluster's own name, part of some addresses.
    """

    policy: str
    name: str
    before: str | None = None
    value: str | None = None
    cluster: str = ""

    @property
    def subject(self) -> str:
        """Kind and name."""
        return f"{policy_kind(self.policy).title} {self.name}"

    @property
    def namespace(self) -> str | None:
        """The namespace whose it is."""
        scope = policy_kind(self.policy).scope
        if scope == "namespace":
            return self.name
        is_bundle = scope == "bundle" and self.name != DEFAULT_QUOTA_NAME
        return namespace_of(self.name) if is_bundle else None


PulsarStep = UnloadBundle | SplitBundle | SetDynamicSetting | SetPolicy
"""Every step type for a Pulsar cluster."""

PegasusStep = (
    SetMetaLevel
    | MoveReplica
    | ChangeReplica
    | ProposeMany
    | CloseReplicas
    | SetServerSetting
    | AwaitState
)
"""Every step type for a Pegasus cluster."""

# written out: msgspec takes the union of its members, not of unions' names
Step = (
    UnloadBundle
    | SplitBundle
    | SetDynamicSetting
    | SetPolicy
    | SetMetaLevel
    | MoveReplica
    | ChangeReplica
    | ProposeMany
    | CloseReplicas
    | SetServerSetting
    | AwaitState
)
"""Every step type there is."""
