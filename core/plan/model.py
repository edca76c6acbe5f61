"""What a plan is: a frozen, hashed, ordered list of typed steps with what they are expected to do.

Words: *diagnostic*: something a person must know about the plan before it runs; an ``error``
forbids applying it. *complete*: the plan covers everything that was requested. *applyable*: there
is something to do and nothing forbids it. *errored*: look at it, never apply it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import reduce
from typing import Any, Final

import msgspec
from msgspec import UNSET, UnsetType

from core.ids import PlanId, SnapshotId
from core.step import Diagnostic, DiagnosticSeverity, Step
from core.units import format_age, format_ratio, listed

__all__ = [
    "DEFAULT_LIFETIME_S",
    "FORMAT_VERSION",
    "MAX_LIFETIME_S",
    "BrokerExpectation",
    "Diagnostic",
    "DiagnosticSeverity",
    "Expected",
    "NodeExpectation",
    "Plan",
    "PolicyRef",
    "Step",
    "combined",
    "content_hash",
    "sealed",
]

FORMAT_VERSION: Final = 5
"""Format of plan files."""

DEFAULT_LIFETIME_S: Final = 600.0
"""How long a plan may be applied after it was made, unless its maker says otherwise."""

MAX_LIFETIME_S: Final = 3_600.0
"""No plan may be applied for longer after it was made; one that allows itself more is refused."""

_AHEAD_S: Final = 60.0
"""Seconds that the clock of the machine where a plan was made may be ahead."""

_UNSEALED: Final = PlanId("")


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyRef:
    """By which policy the cluster is expected to place what the plan unloads.

    Attributes:
        name: Short class name of the placement strategy.
        settings: Upstream key to value: the settings that were assumed against the cluster's own.
        release: Release line whose rules were used, for example ``4.2``.
        seed: Seed of the sampling of outcomes, used only where there are too many to enumerate.
    """

    name: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    release: str
    seed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerExpectation:
    """One broker that the plan touches, before and after the most likely outcome.

    Attributes:
        broker: Its id.
        usage_before: Weighted usage, 0..1; ``None`` if unknown.
        usage_after: The same afterwards.
        throughput_before: In plus out, bytes/s; ``None`` if unknown.
        throughput_after: The same afterwards.
    """

    broker: str
    usage_before: float | None = None
    usage_after: float | None = None
    throughput_before: float | None = None
    throughput_after: float | None = None

    @property
    def is_lower_bound(self) -> bool:
        """Whether usage is at least this afterwards: reports end at 100%, demand may not."""
        return is_lower_bound(self.usage_before, self.usage_after)

    def describe_usage_after(self) -> str:
        """Return ``54.4%``, ``≥ 54.4%`` of a saturated broker, or ``unknown``."""
        return describe_usage_after(self.usage_before, self.usage_after)


SATURATED: Final = 0.995
"""Usage from which a report says nothing of the demand."""
AT_LEAST: Final = "\N{GREATER-THAN OR EQUAL TO} "


def is_lower_bound(before: float | None, after: float | None) -> bool:
    """Return whether a predicted usage is a lower bound: reports end at 100%, demand may not."""
    return before is not None and after is not None and after < before >= SATURATED


def describe_usage_after(before: float | None, after: float | None) -> str:
    """Return a predicted usage: ``54.4%``, ``≥ 54.4%`` of a saturated broker, ``unknown``."""
    return f"{AT_LEAST if is_lower_bound(before, after) else ''}{format_ratio(after)}"


def lower_bound_note(brokers: Sequence[str]) -> str:
    """Return the note about brokers with a lower bound of the predicted usage; empty: none."""
    if not brokers:
        return ""
    return (
        "Usage was at 100%: demand is unknown, and the predicted usage is a lower bound: "
        f"{listed(list(brokers))}."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeExpectation:
    """One node with replicas that the plan touches, before and after.

    Attributes:
        node: Registered name.
        primaries_before: Partitions that it is the primary of.
        primaries_after: The same afterwards.
        replicas_before: Partitions that it is a member of.
        replicas_after: The same afterwards.
        received_mb: What is copied onto it meanwhile; ``None`` if unknown.
    """

    node: str
    primaries_before: int
    primaries_after: int
    replicas_before: int
    replicas_after: int
    received_mb: float | None = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """Expected effect of a plan in a few numbers; the preview has them per broker.

    Attributes:
        usage_deviation_before: ``(max - mean) / mean`` of the brokers' weighted usage; ``None``:
            unknown.
        usage_deviation_after: The same for the most likely outcome.
        throughput_deviation_before: The same of throughput.
        throughput_deviation_after: The same of throughput for the most likely outcome.
        moved_bytes_per_s: Throughput of the bundles that are unloaded; ``None`` if unknown.
        clients: Producers and consumers that will reconnect; ``None`` if unknown.
        topics: Topics that are closed and opened again; ``None`` if unknown.
        is_exact: Every outcome was enumerated; otherwise they were sampled.
        brokers: The brokers that lose or gain a bundle in the most likely outcome, by name.
        nodes: The nodes that lose or gain a role, by name; of systems with replicas.
        copied_mb: What is copied between nodes; ``None`` if unknown.
        unloaded_by_cluster: Bundles that the cluster unloads by itself because of a step; they are
            no steps. Unset: none. It is left out of plans then, so that those of before it was
            there keep their ids.
        limited_clients: Producers and consumers whose limits change; ``None`` if unknown, unset:
            none, likewise.
    """

    usage_deviation_before: float | None = None
    usage_deviation_after: float | None = None
    throughput_deviation_before: float | None = None
    throughput_deviation_after: float | None = None
    moved_bytes_per_s: float | None = None
    clients: int | None = None
    topics: int | None = None
    is_exact: bool = True
    brokers: tuple[BrokerExpectation, ...] = ()
    nodes: tuple[NodeExpectation, ...] = ()
    copied_mb: float | None = None
    unloaded_by_cluster: int | UnsetType = UNSET
    limited_clients: int | UnsetType | None = UNSET


def combined(one: Expected, other: Expected) -> Expected:
    """Return the combined expectation of two parts of one plan.

    How even the load is afterwards is that of the part that was computed last.
    """
    is_known = other.usage_deviation_after is not None
    brokers = {item.broker: item for item in (*one.brokers, *other.brokers)}
    return replace(
        other if is_known else one,
        moved_bytes_per_s=_sum(one.moved_bytes_per_s, other.moved_bytes_per_s),
        clients=_sum(one.clients, other.clients),
        topics=_sum(one.topics, other.topics),
        is_exact=one.is_exact and other.is_exact,
        brokers=tuple(brokers[name] for name in sorted(brokers)),
        unloaded_by_cluster=_sum_set(one.unloaded_by_cluster, other.unloaded_by_cluster),
        limited_clients=_sum_set(one.limited_clients, other.limited_clients),
    )


def _sum(one: Any, other: Any) -> Any:
    return None if one is None or other is None else one + other


def _sum_set(one: Any, other: Any) -> Any:
    known = [value for value in (one, other) if value is not UNSET]
    return reduce(_sum, known) if known else UNSET


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Exactly what would be done; its id is the hash of all the rest.

    Make one with :func:`sealed`; a plan whose id does not fit its content is never loaded.

    Attributes:
        plan_id: SHA-256 (hex) of the canonical JSON of every other field.
        format_version: Version of the file's form.
        cluster: Trimtab's name of the cluster.
        snapshot_id: The snapshot that the plan was made on.
        taken_at: When that snapshot was taken, aware UTC.
        created_at: When the plan was made, aware UTC.
        expires_at: After this the plan is refused; part of the hash.
        strategy: Placement policy that was assumed.
        steps: In the order in which they run.
        expected: What they are expected to do.
        diagnostics: Errors first, then warnings, then infos.
        reason: Why the person wants it, for the record.
        complete: Everything that was requested has a step.
        applyable: There is a step and no error.
        errored: There is an error: look, never apply.
        undoes: The run that it undoes.
        derived_from: Id of the plan that it was edited from.
    """

    plan_id: PlanId = _UNSEALED
    format_version: int = FORMAT_VERSION
    cluster: str
    snapshot_id: SnapshotId
    taken_at: datetime
    created_at: datetime
    expires_at: datetime
    strategy: PolicyRef
    steps: tuple[Step, ...]
    expected: Expected
    diagnostics: tuple[Diagnostic, ...] = ()
    reason: str = ""
    complete: bool
    applyable: bool
    errored: bool
    undoes: str | None = None
    derived_from: PlanId | None = None

    @property
    def short_id(self) -> str:
        """The first twelve digits of the id, for people."""
        return self.plan_id[:12]

    @property
    def is_placed_by_cluster(self) -> bool:
        """Whether the cluster chooses new owners: then the effect on the load is predicted."""
        return any(step.is_placed_by_cluster for step in self.steps)

    def is_expired(self, now: datetime) -> bool:
        """Return whether ``now`` is past the plan's end."""
        return now >= self.expires_at

    def bad_lifetime(self, now: datetime) -> str:
        """Return the reason its times are invalid, or ""."""
        lifetime_s = (self.expires_at - self.created_at).total_seconds()
        if lifetime_s > MAX_LIFETIME_S:
            return (
                f"Plan {self.short_id} is valid for {format_age(lifetime_s)} (until "
                f"{self.expires_at:%Y-%m-%d %H:%M} UTC); the maximum is "
                f"{format_age(MAX_LIFETIME_S)}."
            )
        if (self.created_at - now).total_seconds() > _AHEAD_S:
            return (
                f"Plan {self.short_id} is dated in the future ({self.created_at:%Y-%m-%d %H:%M} "
                "UTC)."
            )
        return ""

    def by_severity(self, severity: DiagnosticSeverity) -> tuple[Diagnostic, ...]:
        """Return the diagnostics of that severity, in order."""
        return tuple(item for item in self.diagnostics if item.severity == severity)


def content_hash(plan: Plan) -> PlanId:
    """Return the id that ``plan`` must have: SHA-256 of its canonical JSON without the id.

    Canonical: keys sorted, no blanks, ASCII, times in ISO 8601, numbers as the shortest text that
    reads back as the same number.
    """
    content: dict[str, Any] = msgspec.to_builtins(plan)
    content.pop("plan_id")
    text = json.dumps(
        content, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False
    )
    return PlanId(hashlib.sha256(text.encode("ascii")).hexdigest())


def sealed(plan: Plan) -> Plan:
    """Return the plan with the id that its content has."""
    return replace(plan, plan_id=content_hash(plan))
