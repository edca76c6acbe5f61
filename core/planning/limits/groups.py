"""Resource groups, what their namespaces use now, and each broker's share of a limit."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from core.errors import UnknownNameError
from core.planning.advisors.shares import shares
from core.planning.limits.namespaces import Floats, NamespaceUse, use_by_broker
from core.pulsar.plan.policy.state import policies_of
from core.pulsar.settings import EffectiveSettings
from core.snapshot import PulsarSnapshot

TRANSPORT: Final = "resourceUsageTransportClassName"
PERIOD: Final = "resourceUsageTransportPublishIntervalInSecs"


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitedQuantity:
    """One of the four limits of a resource group.

    Attributes:
        name: Word in addresses.
        title: For people.
        field: Of the group's document.
        column: Of the bundles, what is measured against it.
        unit: Of both.
        is_enforced: Whether brokers act on it.
    """

    name: str
    title: str
    field: str
    column: str
    unit: str
    is_enforced: bool


QUANTITIES: Final[Mapping[str, LimitedQuantity]] = {
    one.name: one
    for one in (
        LimitedQuantity(
            name="publish_msgs",
            title="publish messages",
            field="publishRateInMsgs",
            column="msg_rate_in",
            unit="msg/s",
            is_enforced=True,
        ),
        LimitedQuantity(
            name="publish_bytes",
            title="publish bytes",
            field="publishRateInBytes",
            column="msg_throughput_in",
            unit="bytes/s",
            is_enforced=True,
        ),
        LimitedQuantity(
            name="dispatch_msgs",
            title="dispatch messages",
            field="dispatchRateInMsgs",
            column="msg_rate_out",
            unit="msg/s",
            is_enforced=False,
        ),
        LimitedQuantity(
            name="dispatch_bytes",
            title="dispatch bytes",
            field="dispatchRateInBytes",
            column="msg_throughput_out",
            unit="bytes/s",
            is_enforced=False,
        ),
    )
}
"""By name. Brokers compute the share of dispatch as well and throw it away
(``ResourceGroup#updateLocalQuota``)."""


@dataclass(frozen=True, kw_only=True)
class GroupUse:
    """One resource group.

    Attributes:
        name: Name.
        limits: By name of quantity, per second over the whole cluster; -1: none.
        used: The same of what its namespaces carry now.
        namespaces: Attached to it.
        is_defined: ``False``: namespaces name it, and the cluster has no such group.
    """

    name: str
    limits: Mapping[str, int]
    used: Mapping[str, float]
    namespaces: tuple[str, ...]
    is_defined: bool

    def ratio(self, quantity: str) -> float | None:
        """Return the use as a share of the limit, ``None`` without a limit."""
        limit = self.limits[quantity]
        return self.used[quantity] / limit if limit > 0 else None


def group_uses(snapshot: PulsarSnapshot, use: NamespaceUse) -> list[GroupUse]:
    """Return every resource group by name, also those that only namespaces name.

    Args:
        snapshot: The cluster.
        use: Of its namespaces.
    """
    defined = policies_of(snapshot, "resource_group")
    members: dict[str, list[int]] = {name: [] for name in defined}
    for row, group in enumerate(use.groups):
        if group is not None:
            members.setdefault(group, []).append(row)
    return [
        GroupUse(
            name=name,
            limits=_limits(defined.get(name)),
            used={key: float(use.rate(one.column)[rows].sum()) for key, one in QUANTITIES.items()},
            namespaces=tuple(use.namespaces[row] for row in rows),
            is_defined=name in defined,
        )
        for name, rows in sorted(members.items())
    ]


def find_group(groups: list[GroupUse], name: str, place: str = "") -> GroupUse:
    """Return a group by its name.

    Raises:
        UnknownNameError: There is none.
    """
    for group in groups:
        if group.name == name:
            return group
    raise UnknownNameError.of("resource group", name, [one.name for one in groups], place=place)


def _limits(body: str | None) -> dict[str, int]:
    fields = {} if body is None else _object(body)
    found = {}
    for key, one in QUANTITIES.items():
        value = fields.get(one.field)
        found[key] = value if isinstance(value, int) and not isinstance(value, bool) else -1
    return found


def _object(body: str) -> Mapping[str, object]:
    try:
        value = json.loads(body)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


@dataclass(frozen=True, eq=False)
class SharedLimit:
    """Shares of a limit by broker, in the order of ``brokers``.

    Attributes:
        quantity: Which limit.
        limit: Of the whole cluster, per second; -1: none.
        brokers: Ids.
        used: What each carries now for the group, per second.
        upstream: What the real class would let each have, per second; -1: no limit.
        published: The same by the published design.
    """

    quantity: LimitedQuantity
    limit: int
    brokers: tuple[str, ...]
    used: Floats
    upstream: Floats
    published: Floats

    @property
    def is_over(self) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """Brokers that carry more than the real class would let them."""
        return (self.upstream >= 0) & (np.floor(self.used) > self.upstream)


def shared_limit(
    snapshot: PulsarSnapshot, group: GroupUse, quantity: str, *, period_s: int
) -> SharedLimit:
    """Return each broker's share of a group's limit, as if every broker reported its use now.

    Brokers report whole messages or bytes of a period; a share depends on proportions alone.

    Args:
        snapshot: The cluster.
        quantity: Key of :data:`QUANTITIES`.
        period_s: ``resourceUsageTransportPublishIntervalInSecs``.
    """
    kind = QUANTITIES[quantity]
    used = use_by_broker(snapshot, group.namespaces, kind.column)
    limit = group.limits[quantity]
    whole = np.floor(used * period_s).tolist()
    return SharedLimit(
        kind,
        limit,
        tuple(snapshot.brokers["broker"].to_pylist()),
        used,
        np.array(shares(limit, whole) if whole else [], np.float64),
        np.array(shares(limit, used.tolist(), "published") if whole else [], np.float64),
    )


def period_of(settings: EffectiveSettings) -> int:
    """Return the interval of broker reports and shares, s."""
    return max(1, int(settings.number(PERIOD)))


def enforcement_words(settings: EffectiveSettings) -> tuple[bool, str]:
    """Return whether limits of groups have an effect, and the sentence about it."""
    if settings.text(TRANSPORT):
        name = settings.text(TRANSPORT).rpartition(".")[2]
        return True, (
            f"Brokers exchange usage every {period_of(settings)} s ({TRANSPORT} is "
            f"{name}): publish limits of groups apply, dispatch limits are computed "
            "but not applied."
        )
    if settings.origin(TRANSPORT) == "assumed":
        return False, (
            f"The snapshot does not contain {TRANSPORT}; its default is empty, and then limits of "
            "groups have no effect."
        )
    return False, (
        f"{TRANSPORT} is empty on these brokers: they do not exchange usage, "
        "and limits of groups have no effect. Set it in broker.conf to "
        "org.apache.pulsar.broker.resourcegroup.ResourceUsageTopicTransportManager "
        "and restart."
    )
