"""What the recorded history of a cluster adds to one snapshot: peaks, and the leader's counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Peak:
    """The largest that was recorded.

    Attributes:
        value: In the measure's unit.
        at: When.
    """

    value: float
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderCount:
    """One leader's unload count in its metrics, and the recorded count of the same time.

    Attributes:
        broker: The leader.
        start: First reading of the count by that process.
        end: Last one.
        unloads: Counted in between by its own balancer.
        seen: Bundles recorded in between as leaving an owner, but for those that a run of ours
            moved and those off a broker that went.
    """

    broker: str
    start: datetime
    end: datetime
    unloads: int
    seen: int


@dataclass(frozen=True, kw_only=True)
class RecordedPast:
    """A stretch of a cluster's history.

    Attributes:
        start: First recorded minute of it.
        end: Last one.
        traffic: Broker to the peak of its messages, bytes/s, by ``in`` and ``out``.
        counted: By the leader that counted most; ``None`` if no count was recorded twice.
    """

    start: datetime
    end: datetime
    traffic: Mapping[str, Mapping[str, Peak]] = field(default_factory=dict)
    counted: LeaderCount | None = None
