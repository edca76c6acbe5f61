"""The leader: who leads and since when, its timers, what it wrote last, which bundles rest.

The leader reports none of this; all is inferred from saved snapshots, and marked so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Final

from core.pulsar.settings import EffectiveSettings
from core.snapshot import LoadManager
from core.units import format_age, pluralize

_GRACE: Final = "loadBalancerSheddingGracePeriodMinutes"
_ROUND: Final = "loadBalancerSheddingIntervalMinutes"
_WRITE: Final = "loadBalancerResourceQuotaUpdateIntervalMinutes"
_OWN_WITHIN: Final = timedelta(minutes=5)
"""A move seen later than this after one of our own is another one: snapshots are a minute apart."""

_NO_SNAPSHOTS: Final = (
    "The extensible load manager has no list of bundles in their grace "
    "period and writes no averages to ZooKeeper: its brokers publish their "
    "loads to system topics."
)


@dataclass(frozen=True, slots=True)
class Sighting:
    """The leader in one saved snapshot.

    Attributes:
        taken_at: When, aware UTC.
        leader: Broker id; ``None`` if none, or unknown.
        stored: Anything that changes when the stored averages change; ``None`` if unknown.
    """

    taken_at: datetime
    leader: str | None
    stored: object = None


@dataclass(frozen=True, slots=True)
class SeenMove:
    """A change of owner between two saved snapshots; ``None`` if no owner.

    Attributes:
        seen_at: When the later snapshot was taken.
        bundle: Name.
        left: Owner before.
        came_to: Owner after.
    """

    seen_at: datetime
    bundle: str
    left: str | None
    came_to: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Timer:
    """Something that the leader does again and again.

    Attributes:
        name: What.
        setting: Upstream key of its period.
        every_s: Its period.
        after: It happened last after this moment; ``None`` if not seen.
        before: And not after this one.
        due_before: It is due again by then; ``None`` if unknown.
        sentence: All of that in words.
    """

    name: str
    setting: str
    every_s: float
    after: datetime | None = None
    before: datetime | None = None
    due_before: datetime | None = None
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RestingBundle:
    """A bundle that shedding leaves alone for a while, were it shed.

    Attributes:
        bundle: Name.
        left: Broker that it left.
        came_to: Broker that has it now.
        seen_at: When the move was seen.
        until: When its rest ends at the latest.
    """

    bundle: str
    left: str | None
    came_to: str | None
    seen_at: datetime
    until: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderFacts:
    """Facts about the leader.

    Attributes:
        leader: Broker id; ``None`` if none, or unknown.
        since: First saved snapshot of its unbroken lead.
        is_longer: It may have led before that: nothing older is saved.
        before: Who led before; ``None`` if none, or unknown.
        timers: Its timers.
        resting: Bundles that may be in their grace period, the one that rests longest first.
        sentence: Who leads, and since when.
        notes: How this is known, and what is not.
    """

    leader: str | None
    since: datetime | None
    is_longer: bool
    before: str | None
    timers: tuple[Timer, ...]
    resting: tuple[RestingBundle, ...]
    sentence: str
    notes: tuple[str, ...] = ()


def leader_facts(
    sightings: Sequence[Sighting],
    moves: Iterable[SeenMove],
    settings: EffectiveSettings,
    *,
    load_manager: LoadManager,
    own_moves: Mapping[str, Sequence[datetime]] | None = None,
) -> LeaderFacts:
    """Return the facts about the leader in saved snapshots.

    Args:
        sightings: Oldest first; the last one is the present.
        moves: Changes of owner that were seen between them.
        load_manager: Which one decides.
        own_moves: Bundles that runs of our own moved, and when: an unload by hand is no shedding,
            and gives no grace period.
    """
    if not sightings:
        return LeaderFacts(
            leader=None,
            since=None,
            is_longer=False,
            before=None,
            timers=(),
            resting=(),
            sentence="There is no saved snapshot, so the leader is unknown.",
        )
    now, leader = sightings[-1].taken_at, sightings[-1].leader
    first = _first_of_lead(sightings)
    since = sightings[first].taken_at if leader else None
    before = sightings[first - 1].leader if first else None
    lead = sightings[first:]
    is_modular = load_manager != "extensible"
    timers = [_shedding(settings, now)]
    if is_modular:
        timers.append(_writing(lead, settings))
    resting = _resting(moves, settings, since, now, own_moves or {}) if is_modular else ()
    return LeaderFacts(
        leader=leader,
        since=since,
        is_longer=first == 0,
        before=before,
        timers=tuple(timers),
        resting=resting,
        sentence=_sentence(leader, since, now, before, is_first=first == 0),
        notes=_notes(is_modular=is_modular, count=len(resting)),
    )


def _first_of_lead(sightings: Sequence[Sighting]) -> int:
    """Return the start of the current leader's uninterrupted lead."""
    leader = sightings[-1].leader
    first = len(sightings) - 1
    while first and sightings[first - 1].leader == leader:
        first -= 1
    return first


def _sentence(
    leader: str | None,
    since: datetime | None,
    now: datetime,
    before: str | None,
    *,
    is_first: bool,
) -> str:
    if leader is None or since is None:
        return "There is no leader, or it is unknown: nothing is shed, split or averaged."
    age = format_age((now - since).total_seconds())
    if is_first:
        return f"{leader} has been the leader for at least {age}, in all saved snapshots."
    after = f", after {before}" if before else ""
    return f"{leader} has been the leader for {age}{after}."


def _shedding(settings: EffectiveSettings, now: datetime) -> Timer:
    every_s = 60.0 * settings.number(_ROUND)
    off = [
        key
        for key in ("loadBalancerEnabled", "loadBalancerSheddingEnabled")
        if not settings.flag(key)
    ]
    if off:
        sentence = f"every {format_age(every_s)}; off: {off[0]} is false"
        return Timer(name="shedding round", setting=_ROUND, every_s=every_s, sentence=sentence)
    return Timer(
        name="shedding round",
        setting=_ROUND,
        every_s=every_s,
        due_before=now + timedelta(seconds=every_s),
        sentence=f"every {format_age(every_s)}, so within the next {format_age(every_s)}",
    )


def _writing(lead: Sequence[Sighting], settings: EffectiveSettings) -> Timer:
    """Find the last write of the averages by the last two snapshots between which they changed."""
    every_s = 60.0 * settings.number(_WRITE)
    words = f"every {format_age(every_s)}"
    changed = [
        (early.taken_at, late.taken_at)
        for early, late in pairwise(lead)
        if early.stored is not None and late.stored is not None and early.stored != late.stored
    ]
    timer = "averages written"
    if not changed:
        span = (lead[-1].taken_at - lead[0].taken_at).total_seconds()
        seen = f"no write in the {format_age(span)} of saved snapshots"
        if len(lead) < 2 or lead[-1].stored is None:
            seen = "its last write is unknown"
        return Timer(name=timer, setting=_WRITE, every_s=every_s, sentence=f"{words}; {seen}")
    after, before = changed[-1]
    due = before + timedelta(seconds=every_s)
    return Timer(
        name=timer,
        setting=_WRITE,
        every_s=every_s,
        after=after,
        before=before,
        due_before=due,
        sentence=f"{words}; last between {after:%H:%M:%S} and {before:%H:%M:%S}, next by "
        f"{due:%H:%M:%S} UTC",
    )


def _resting(
    moves: Iterable[SeenMove],
    settings: EffectiveSettings,
    since: datetime | None,
    now: datetime,
    own_moves: Mapping[str, Sequence[datetime]],
) -> tuple[RestingBundle, ...]:
    """Bundles that changed hands within the grace period, since this leader leads.

    A leader keeps the list in its memory: a new one starts with none.
    """
    rest = timedelta(minutes=settings.number(_GRACE))
    latest: dict[str, SeenMove] = {}
    for move in moves:
        is_own = any(
            timedelta(0) <= move.seen_at - by_hand <= _OWN_WITHIN
            for by_hand in own_moves.get(move.bundle, ())
        )
        is_old = now - move.seen_at > rest or (since is not None and move.seen_at <= since)
        if not is_own and not is_old and move.left and move.came_to:
            latest[move.bundle] = move
    found = [
        RestingBundle(
            bundle=move.bundle,
            left=move.left,
            came_to=move.came_to,
            seen_at=move.seen_at,
            until=move.seen_at + rest,
        )
        for move in latest.values()
    ]
    return tuple(sorted(found, key=lambda one: (one.until, one.bundle), reverse=True))


def _notes(*, is_modular: bool, count: int) -> tuple[str, ...]:
    if not is_modular:
        return (_NO_SNAPSHOTS,)
    notes = ["Inferred from snapshots: the leader does not publish this."]
    if count:
        notes.append(
            f"{pluralize(count, 'recently moved bundle')}: in the grace period only if shedding "
            "moved the bundle. After an unload by an administrator or a broker failure, it can be "
            "shed at once."
        )
    return tuple(notes)
