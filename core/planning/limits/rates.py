"""Rate limits of namespaces and live rates: who must be at a limit, and who cannot be.

Brokers apply the limits of a namespace to each of its topics (subscribe rates: to each consumer;
replicator rates: to each topic and remote cluster), while reports have sums of bundles. So a
namespace is judged by what must be so: a sum within the limit keeps every topic within it, and a
mean at the limit puts one topic there at least.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from core.planning.limits.namespaces import NamespaceUse
from core.pulsar.plan.policy.state import policies_of
from core.pulsar.policy_kinds import policy_kind
from core.snapshot import PulsarSnapshot

Verdict = Literal["at its limit", "may be", "within", "unlimited", "unknown"]
RATE_KINDS: Final = (
    "publish_rate",
    "dispatch_rate",
    "subscription_dispatch_rate",
    "replicator_dispatch_rate",
    "subscribe_rate",
)
_WORST: Final[Mapping[str, int]] = {
    "at its limit": 0,
    "may be": 1,
    "unknown": 2,
    "within": 3,
    "unlimited": 4,
}


_HOLDERS: Final[Mapping[str, str]] = {
    "subscription_dispatch_rate": "subscription",
    "replicator_dispatch_rate": "replicator",
}
_UNSEEN: Final[Mapping[str, str]] = {
    "replicator_dispatch_rate": "snapshots do not contain replication rates",
    "subscribe_rate": "snapshots do not contain subscribe rates",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RateLimit:
    """One rate limit of one namespace, of messages or of bytes.

    Attributes:
        namespace: Name.
        kind: Key of :data:`core.pulsar.policy_kinds.POLICY_KINDS`.
        field: Of its document.
        unit: ``msg/s``, ``bytes/s`` or ``subscribes/s``.
        limit: Per second for each holder; 0 or less: none.
        holder: What the limit is for each of: topic, subscription, replicator (of one topic to one
            remote cluster), consumer.
        live: What the whole namespace carries, per second; ``None`` if not in snapshots.
        max_holders: How many holders can share that; 0: unknown.
        allowance: What holders may carry together above the limit (a limit relative to the
            publish rate), per second.
    """

    namespace: str
    kind: str
    field: str
    unit: str
    limit: float
    holder: str
    live: float | None
    max_holders: int
    allowance: float = 0.0

    @property
    def mean(self) -> float | None:
        """Min mean of the holders, per second."""
        if self.live is None or not self.max_holders:
            return None
        return self.live / self.max_holders

    @property
    def ratio(self) -> float | None:
        """Use as a share of the limit of all holders, or ``None`` if unknown or unlimited."""
        if self.limit <= 0 or self.live is None or not self.max_holders:
            return None
        return self.live / (self.limit * self.max_holders + self.allowance)

    @property
    def verdict(self) -> Verdict:
        """Whether a client is at the limit, based on sums."""
        if self.limit <= 0:
            return "unlimited"
        if self.live is None:
            return "unknown"
        if self.live < self.limit:
            return "within"
        return "at its limit" if self.ratio is not None and self.ratio >= 1 else "may be"

    @property
    def why(self) -> str:
        """The verdict's reason."""
        limits = {
            "at its limit": f"the mean of its {self.holder}s is at the limit, so at least one of "
            "them is",
            "may be": f"their total exceeds the limit of one {self.holder}",
            "within": f"the total of all its {self.holder}s is below the limit of one",
            "unlimited": "brokers treat 0 and less as no limit",
            "unknown": _UNSEEN.get(self.kind, ""),
        }
        return limits[self.verdict]


def rate_limits(snapshot: PulsarSnapshot, use: NamespaceUse) -> list[RateLimit]:
    """Return every rate limit that is set, worst verdict first.

    Args:
        snapshot: The cluster.
        use: Of its namespaces.
    Source:
        Pulsar ``AbstractTopic#updatePublishRateLimiter``, ``DispatchRateLimiter``,
        ``SubscribeRateLimiter``; PIP-3: limits of a namespace hold for each topic in it.
    """
    rows = {name: row for row, name in enumerate(use.namespaces)}
    found = [
        limit
        for kind in RATE_KINDS
        for name, body in policies_of(snapshot, kind).items()
        if name in rows
        for limit in _limits(use, rows[name], kind, body)
    ]
    return sorted(found, key=lambda one: (_WORST[one.verdict], -(one.live or 0.0), one.namespace))


def _limits(use: NamespaceUse, row: int, kind: str, body: str) -> Iterator[RateLimit]:
    try:
        limits = json.loads(body)
    except ValueError:
        return
    if kind == "subscribe_rate":
        yield _subscribing(use, row, limits)
        return
    side, prefix = ("in", "publish") if kind == "publish_rate" else ("out", "dispatch")
    holder = _HOLDERS.get(kind, "topic")
    holders = use.consumers if holder == "subscription" else use.topics
    is_relative = bool(limits.get("relativeToPublishRate"))
    for what, column, unit in (("Msg", "msg_rate", "msg/s"), ("Byte", "msg_throughput", "bytes/s")):
        field = f"{prefix}ThrottlingRateIn{what}"
        published = float(use.rate(f"{column}_in")[row]) if is_relative else 0.0
        yield RateLimit(
            namespace=use.namespaces[row],
            kind=kind,
            field=field,
            unit=unit,
            limit=_per_second(limits, field),
            holder=holder,
            live=None if kind in _UNSEEN else float(use.rate(f"{column}_{side}")[row]),
            max_holders=int(holders[row]),
            allowance=published,
        )


def _subscribing(use: NamespaceUse, row: int, limits: Mapping[str, Any]) -> RateLimit:
    field = next(iter(policy_kind("subscribe_rate").fields))
    return RateLimit(
        namespace=use.namespaces[row],
        kind="subscribe_rate",
        field=field,
        unit="subscribes/s",
        limit=_per_second(limits, field),
        holder="consumer",
        live=None,
        max_holders=int(use.consumers[row]),
    )


def _per_second(limits: Mapping[str, Any], field: str) -> float:
    value, period = limits.get(field), limits.get("ratePeriodInSecond", 1)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return -1.0
    return float(value) / period if isinstance(period, int) and period > 0 else float(value)
