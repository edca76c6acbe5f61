"""The history of leadership: who led from when to when, how often it changes, what a change costs.

Source:
    Pulsar ``LeaderElectionService`` (an ephemeral znode), ``ModularLoadManagerImpl``
    (``recentlyUnloadedBundles``, timers), ``ThresholdShedder`` (``brokerAvgResourceUsage``),
    ``UniformLoadShedder``, ``AvgShedder`` (hit counts), ``UnloadScheduler``; all of it memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from core.pulsar.settings import EffectiveSettings
from core.pulsar.shedding import known_shedding_strategy
from core.snapshot import LoadManager
from core.units import format_age, pluralize

_DAY_S: Final = 86_400.0
_OFTEN_PER_DAY: Final = 3.0


@dataclass(frozen=True, slots=True)
class LeaderChange:
    """A change that was recorded.

    Attributes:
        at: When it was seen, aware UTC: the later of two minutes.
        before: Who led; ``None`` if none, or unknown.
        after: Who leads from then; ``None`` if none, or unknown.
    """

    at: datetime
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True)
class Lead:
    """A stretch of time with one leader.

    Attributes:
        broker: Who; ``None`` if none, or unknown.
        since: When it began; ``None`` if before what is recorded.
        until: When it ended; ``None`` if it lasts.
    """

    broker: str | None
    since: datetime | None
    until: datetime | None


@dataclass(frozen=True, kw_only=True)
class LeaderHistory:
    """Recorded leadership.

    Attributes:
        leader: Now; ``None`` if none, or unknown.
        since: When its znode was created, else when it was first seen; ``None`` if unknown.
        leads: The newest first.
        changes: How many were recorded.
        per_day: Changes a day of what is recorded; ``None`` if under an hour is.
        sentence: In words.
    """

    leader: str | None
    since: datetime | None
    leads: tuple[Lead, ...]
    changes: int
    per_day: float | None
    sentence: str


def leader_history(
    leader: str | None,
    created_at: datetime | None,
    changes: Sequence[LeaderChange],
    span: tuple[datetime, datetime] | None,
) -> LeaderHistory:
    """Return the history of leaders.

    Args:
        leader: Who leads in the snapshot that is shown.
        created_at: When the leader's znode was created; ``None`` if unknown.
        changes: Recorded ones up to that snapshot, in any order.
        span: First and last recorded minute; ``None`` if nothing is recorded.
    """
    ordered = sorted(changes, key=lambda one: one.at)
    leads = _leads(leader, created_at, ordered)
    since = created_at or (leads[0].since if leads and leads[0].broker == leader else None)
    days = (span[1] - span[0]).total_seconds() / _DAY_S if span else 0.0
    per_day = len(ordered) / days if days * 24 >= 1 else None
    return LeaderHistory(
        leader=leader,
        since=since,
        leads=leads,
        changes=len(ordered),
        per_day=per_day,
        sentence=_sentence(leader, since, len(ordered), span, per_day),
    )


def _leads(
    leader: str | None, created_at: datetime | None, changes: Sequence[LeaderChange]
) -> tuple[Lead, ...]:
    if not changes:
        return (Lead(leader, created_at, None),) if leader else ()
    leads = [Lead(changes[0].before, None, changes[0].at)]
    ends = [one.at for one in changes[1:]]
    for change, until in zip(changes, [*ends, None], strict=True):
        leads.append(Lead(change.after, change.at, until))
    last = leads[-1]
    if last.broker == leader and created_at is not None:
        leads[-1] = Lead(leader, created_at, None)
    elif last.broker != leader:  # a change that is not recorded yet
        leads[-1] = Lead(last.broker, last.since, created_at)
        leads.append(Lead(leader, created_at, None))
    return tuple(reversed(leads))


def _sentence(
    leader: str | None,
    since: datetime | None,
    count: int,
    span: tuple[datetime, datetime] | None,
    per_day: float | None,
) -> str:
    head = "There is no leader, or it is unknown."
    if leader is not None:
        head = f"{leader} is the leader."
        if since:
            head = f"{leader} has been the leader since {since:%Y-%m-%d %H:%M:%S} UTC."
    if span is None:
        return f"{head} Earlier leaders are not recorded."
    length = format_age((span[1] - span[0]).total_seconds())
    seen = f"{pluralize(count, 'change')} in the recorded {length}"
    if not count:
        return f"{head} No change in the recorded {length}."
    rate = f", {per_day:.1f} a day" if per_day is not None and span[1] != span[0] else ""
    often = ""
    if per_day is not None and per_day > _OFTEN_PER_DAY:
        often = (
            " That is frequent: check for brokers whose sessions expire (long GC "
            "pauses, a slow ZooKeeper disk)."
        )
    return f"{head} {seen}{rate}.{often}"


def change_costs(settings: EffectiveSettings, load_manager: LoadManager) -> tuple[str, ...]:
    """Return the cost of a leader change under these settings, a sentence each."""
    if load_manager == "extensible":
        return (
            (
                "The new leader (the owner of the channel's topic) starts "
                "UnloadScheduler and SplitScheduler again: counts of overloaded rounds "
                "and times of the last transfers are reset."
            ),
            "Owners stay: the channel keeps them, and every broker answers lookups.",
        )
    grace = settings.number("loadBalancerSheddingGracePeriodMinutes")
    written = settings.number("loadBalancerResourceQuotaUpdateIntervalMinutes")
    shedding = settings.number("loadBalancerSheddingIntervalMinutes")
    return (
        (
            "The list of bundles in their grace period is lost: recently shed "
            f"bundles may be shed again within the {grace:g} min of "
            "loadBalancerSheddingGracePeriodMinutes."
        ),
        _strategy_memory(settings),
        (
            "Averages in ZooKeeper are rewritten only when the new leader's timer "
            f"fires, up to {written:g} min later "
            "(loadBalancerResourceQuotaUpdateIntervalMinutes); its in-memory copy "
            "is as good as the old leader's, unless it started recently."
        ),
        (
            "Assignments of the old leader that are not reported yet are lost: two "
            "consecutive bundles may be placed on the same broker."
        ),
        (
            "The next shedding round is one loadBalancerSheddingIntervalMinutes "
            f"({shedding:g} min) after the election; until the old session ends, no "
            "broker sheds."
        ),
    )


def _strategy_memory(settings: EffectiveSettings) -> str:
    name = settings.text("loadBalancerLoadSheddingStrategy").rpartition(".")[2]
    strategy = known_shedding_strategy(name)
    if strategy is not None and strategy.memory:
        return strategy.memory
    return f"{name} keeps no state between rounds, so no strategy state is lost."
