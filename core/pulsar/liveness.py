"""Which brokers are alive: one verdict a broker, from everything a snapshot has about it.

A registration that lives with a session proves its broker: ZooKeeper removes it when the session
ends. One without a session proves nothing, and releases are known that leave such ones behind; then
the newest sign of life decides: a load report, or an ownership znode that the broker created. Ages
of reports are compared with each other where all of them are old: a dump that is read later, or
clocks that differ, kill no broker.

Source:
    Pulsar ``ModularLoadManagerImpl#writeBrokerDataOnZooKeeper`` and ``BrokerLoadDataReporter`` of
    the extensible manager: a broker reports at least every
    ``loadBalancerReportUpdateMaxIntervalMinutes``; ``BrokerRegistryImpl`` and
    ``ZKMetadataStore`` (registrations are ephemeral); ZooKeeper ``Stat.ephemeralOwner``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Final, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from core.arrays import Floats, column_values
from core.pulsar.owner_sessions import session_text
from core.pulsar.settings import EffectiveSettings, effective_settings
from core.schemas.pulsar import RATES, RESOURCES
from core.snapshot import Problem, PulsarSnapshot
from core.units import datetime_to_ms, format_age, same_problem

State = Literal[
    "alive", "alive, not registered", "alive, reports stopped", "suspected dead", "dead", "unknown"
]

ALIVE: Final = "alive"
UNREGISTERED: Final = "alive, not registered"
STOPPED: Final = "alive, reports stopped"
SUSPECTED: Final = "suspected dead"
DEAD: Final = "dead"
UNKNOWN: Final = "unknown"

STATES: Final = (DEAD, SUSPECTED, UNREGISTERED, STOPPED, UNKNOWN, ALIVE)
"""Worst first."""

NEVER_DESTINATION: Final = (DEAD, SUSPECTED)
"""States in which a broker is given no bundle."""

MISSED_INTERVALS: Final = 2
"""A report older than so many of the longest intervals is late: one may be under way."""

CLEARLY_MISSED: Final = 8
"""So many intervals without any sign of life are clear even where sessions are unknown: 2 h at
the default of 15 min, longer than a clock is usually wrong or an upgrade takes."""

REPORT_INTERVAL: Final = "loadBalancerReportUpdateMaxIntervalMinutes"

SILENT: Final = {"unreachable": "refuses connections", "timeout": "does not answer in time"}
"""Codes of problems of the reading that mean that an address gave no answer, in words."""

_NAMED: Final = 3
_ADDRESS: Final = re.compile(r"https?://[^/]+/?\Z")  # not one answer of it, which has a path


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerLiveness:
    """Liveness of one broker, with the reason.

    Attributes:
        broker: Its id.
        state: One of :data:`STATES`.
        is_registered: Whether the registry lists it.
        session_id: ZooKeeper session of its registration, else of its bundles; 0: none, the znodes
            are no ephemerals; ``None`` if unknown.
        reported_at: When it last reported, ms since the epoch.
        report_age_s: How old that is, compared with the newest report where all are old.
        entry_at: When the newest znode was created that it created, ms since the epoch.
        probe: What its address did, words of :data:`SILENT`; empty: it answered, or was not asked.
        leads: Whether the leader's znode names it.
        bundles: Bundles that it is said to own, those bound to a broker excluded.
        topics: Topics in them.
        connections: Producers and consumers in them.
        why: A clause for lists: ``no session, report 5 h old``; empty where it is alive.
    """

    broker: str
    state: State
    is_registered: bool
    session_id: int | None
    reported_at: int | None
    report_age_s: float | None
    entry_at: int | None
    probe: str
    leads: bool
    bundles: int
    topics: int
    connections: int
    why: str

    @property
    def is_ephemeral(self) -> bool | None:
        """Whether its registration ends with its session, or ``None`` if unknown."""
        return None if self.session_id is None else self.session_id != 0

    @property
    def since(self) -> int | None:
        """Its last sign of life, ms since the epoch; ``None`` where it is alive, or unknown."""
        if self.state in (ALIVE, UNREGISTERED):
            return None
        return max((at for at in (self.reported_at, self.entry_at) if at is not None), default=None)

    @property
    def reason(self) -> str:
        """Reason it is no destination: ``dead: no session, report 5 h old``."""
        return f"{self.state}: {self.why}" if self.why else self.state

    @property
    def sentence(self) -> str:
        """The verdict in one sentence."""
        return f"{self.broker} is {self.reason}."

    def evidence(self) -> dict[str, Any]:
        """Return the facts behind it, ready for JSON."""
        return {
            "state": self.state,
            "registered": self.is_registered,
            "session": session_text(self.session_id),
            "ephemeral": self.is_ephemeral,
            "report_age_s": self.report_age_s,
            "newest_entry_at": self.entry_at,
            "probe": self.probe or None,
            "leader": self.leads,
            "bundles": self.bundles,
        }


@dataclass(frozen=True)
class Liveness:
    """The verdicts on all brokers of a snapshot.

    Attributes:
        rows: One a broker that is registered, owns a bundle or is named as the leader; sorted by
            name.
        interval_s: Longest interval at which a broker must report, seconds.
        late_s: Age above which a report is late, seconds.
        all_old_s: Age of the newest report where every one is late, seconds; ``None`` if not so.
        silent: What the addresses of registered brokers did that gave no answer, by broker.
        silent_fleet: Whether none of several registered brokers gave one, so that it says nothing
            about each of them.
        unexamined: Why only ages were judged; blank: sessions or answers were, too.
    """

    rows: tuple[BrokerLiveness, ...]
    interval_s: float
    late_s: float
    all_old_s: float | None
    silent: Mapping[str, str]
    silent_fleet: bool
    unexamined: str

    @cached_property
    def by_broker(self) -> Mapping[str, BrokerLiveness]:
        """The verdict on each broker."""
        return {row.broker: row for row in self.rows}

    @cached_property
    def dead(self) -> Mapping[str, str]:
        """Reasons for brokers that must receive no bundle (dead or suspected), by broker."""
        return {row.broker: row.reason for row in self.rows if row.state in NEVER_DESTINATION}

    @cached_property
    def unreported(self) -> Mapping[str, str]:
        """Reasons a broker's report is not its load (dead, suspected or stopped), by broker."""
        lost = (*NEVER_DESTINATION, STOPPED)
        return {row.broker: row.reason for row in self.rows if row.state in lost}

    @property
    def notes(self) -> tuple[str, ...]:
        """Consequences for advice; empty if all brokers are alive."""
        stopped = [row for row in self.rows if row.state == STOPPED and row.is_registered]
        dead = [row for row in self.rows if row.broker in self.dead and row.is_registered]
        notes = [
            f"{row.sentence} Its usage is unknown; its traffic is the sum over its bundles."
            for row in stopped[:_NAMED]
        ]
        notes += [
            f"{row.sentence} It is excluded here; the cluster's leader may still "
            "choose it while it is registered."
            for row in dead[:_NAMED]
        ]
        more = len(stopped) + len(dead) - len(notes)
        return (*notes, f"{same_problem(more, 'more broker')}.") if more else tuple(notes)

    def state_of(self, broker: str) -> State:
        """Return the state of a broker; ``unknown`` for one that nothing names."""
        row = self.by_broker.get(broker)
        return UNKNOWN if row is None else row.state


def liveness_of(snapshot: PulsarSnapshot, settings: EffectiveSettings) -> Liveness:
    """Return the verdict on every broker; cached with the snapshot.

    Args:
        snapshot: Any; without claims (REST alone, or a dump without sessions) only ages and
            addresses decide.
        settings: Effective ones, for the interval of reports.
    Cost:
        O(bundles + claims), in columns.
    """
    interval_s = settings.number(REPORT_INTERVAL) * 60
    made: Liveness = snapshot.derived.get(
        _key(settings), lambda: _Facts(snapshot, interval_s).liveness()
    )
    return made


def loads_of(snapshot: PulsarSnapshot) -> pa.Table:
    """Return the brokers with the load that can be believed; cached with the snapshot.

    Of a broker that is dead or suspected nothing is known. Where reports stopped, usage is unknown,
    and rates and counts are the sums over the bundles that the broker owns: their short-term
    averages, else what was measured last.

    Args:
        snapshot: Any; its own interval of reports counts.
    Returns:
        Table of :data:`core.schemas.pulsar.BROKERS`; the snapshot's own where all are alive.
    """
    made: pa.Table = snapshot.derived.get("loads of brokers", lambda: _loads(snapshot))
    return made


def _loads(snapshot: PulsarSnapshot) -> pa.Table:
    lost, stopped = unreported_brokers(snapshot)
    brokers, bundles = snapshot.brokers, snapshot.bundles
    if not lost.size:
        return brokers
    names = brokers["broker"].combine_chunks().take(pa.array(stopped))
    rows = pc.index_in(bundles["owner"], value_set=names)
    held = bundles.filter(pc.is_valid(rows))
    owner = pc.drop_null(rows).to_numpy()
    sums = owned_sums(partial(column_values, held), owner, stopped.size)
    place = np.full(brokers.num_rows, -1)
    place[stopped] = np.arange(stopped.size)
    is_lost = np.zeros(brokers.num_rows, np.bool_)
    is_lost[lost] = True
    at = pa.array(place, mask=place < 0)
    for name in _LOADS:
        field = brokers.schema.field(name)
        known = pa.nulls(len(at), field.type)
        if name in sums:
            known = pa.array(sums[name]).cast(field.type).take(at)
        column = pc.if_else(is_lost, known, brokers[name])
        brokers = brokers.set_column(brokers.schema.get_field_index(name), field, column)
    return brokers


def unreported_brokers(snapshot: PulsarSnapshot) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the rows of the brokers that do not report, and of those among them that are alive."""
    liveness = liveness_of(snapshot, effective_settings(snapshot))
    rows = {name: row for row, name in enumerate(snapshot.brokers["broker"].to_pylist())}
    lost = [name for name in liveness.unreported if name in rows]
    alive = [name for name in lost if name not in liveness.dead]
    return (
        np.array([rows[name] for name in lost], np.int64),
        np.array([rows[name] for name in alive], np.int64),
    )


_COUNTS: Final = ("topic_count", "producer_count", "consumer_count")
_AVERAGES: Final = tuple(f"{term}_{name}" for term in ("short", "long") for name in RATES)
_LOADS: Final = (
    *(f"{name}_{part}" for name in RESOURCES for part in ("usage", "ratio")),
    *RATES,
    *_COUNTS,
    "bundle_count",
    *_AVERAGES,
)
"""Columns of the brokers that a report or the leader's averages of it fill."""


def owned_sums(
    bundles: Callable[[str], Floats], owner: NDArray[np.int64], owners: int
) -> dict[str, Floats]:
    """Return sums over the bundles of some owners, in their order, by column of the brokers.

    Args:
        bundles: Columns of their bundles by name; NaN where unknown.
        owner: Of each bundle, ``0..owners - 1``.
        owners: Number of them.
    """

    def total(values: Floats | None) -> Floats:
        weights = None if values is None else np.nan_to_num(values)
        return np.asarray(np.bincount(owner, weights, owners), np.float64)

    rates = {}
    for name in RATES:
        short, last = bundles(f"short_{name}"), bundles(name)
        rates[name] = total(np.where(np.isnan(short), last, short))
    own = {name: total(bundles(name)) for name in (*_COUNTS, *_AVERAGES)}
    return {**rates, **own, "bundle_count": total(None)}


def share_liveness(before: PulsarSnapshot, after: PulsarSnapshot) -> None:
    """Give a snapshot of a simulation the verdicts of the one that it began with."""
    settings = effective_settings(before)
    verdicts = liveness_of(before, settings)
    after.derived.get(_key(settings), lambda: verdicts)


def _key(settings: EffectiveSettings) -> tuple[str, float]:
    return "liveness", settings.number(REPORT_INTERVAL)


class _Facts:
    """Facts of a snapshot about its brokers, by broker."""

    def __init__(self, snapshot: PulsarSnapshot, interval_s: float) -> None:
        self.snapshot = snapshot
        self.interval_s = interval_s
        self.late_s = MISSED_INTERVALS * interval_s
        self.taken_ms = datetime_to_ms(snapshot.manifest.taken_at)
        self.registered = tuple(snapshot.brokers["broker"].to_pylist())
        self.reported = _reported(snapshot)
        self.owned = _owned(snapshot)
        self.sessions, self.entries = _claimed(snapshot)
        self.leader = snapshot.manifest.leader
        newest = max(self.reported.values(), default=None)
        is_late = newest is not None and self.taken_ms - newest > self.late_s * 1000
        self.all_old_s = (self.taken_ms - newest) / 1000 if is_late and newest else None
        self.now_ms = newest if is_late and newest else self.taken_ms
        self.probes = silent_addresses(snapshot)
        asked = [name for name in self.registered if name in self.probes]
        self.silent_fleet = len(asked) == len(self.registered) > 1
        ages = [self._age_s(name) for name in self.registered]
        late = sum(age is not None and age > self.late_s for age in ages)
        fresh = sum(age is not None and age <= self.late_s for age in ages)
        self.may_judge_ages = fresh > 1 or late <= fresh  # else one clock may be ahead of all

    def _age_s(self, broker: str) -> float | None:
        """Return the age of a broker's report, s, or ``None`` if it has none."""
        at = self.reported.get(broker)
        return None if at is None else max(self.now_ms - at, 0) / 1000

    def liveness(self) -> Liveness:
        """Judge every broker."""
        named = {*self.registered, *self.owned, *((self.leader,) if self.leader else ())}
        registered = set(self.registered)
        brokers = self.snapshot.manifest.tables.get("brokers")
        is_probed = brokers is not None and "rest" in brokers.source
        is_judged = is_probed or any(one is not None for one in self.sessions.values())
        return Liveness(
            rows=tuple(self._row(name, is_registered=name in registered) for name in sorted(named)),
            interval_s=self.interval_s,
            late_s=self.late_s,
            all_old_s=self.all_old_s,
            silent={name: self.probes[name] for name in self.registered if name in self.probes},
            silent_fleet=self.silent_fleet,
            unexamined="" if is_judged or not named else self._without_sessions,
        )

    def _row(self, broker: str, *, is_registered: bool) -> BrokerLiveness:
        session = self.sessions.get(broker)
        age = self._age_s(broker)
        silent_s = self._silent_for_s(broker, age)
        is_late = age is not None and age > self.late_s
        signs = _Signs(
            session=session,
            is_late=is_late,
            is_gone=is_late and silent_s is not None and silent_s > self.late_s,
            silent_s=silent_s,
            probe="" if self.silent_fleet and is_registered else self.probes.get(broker, ""),
        )
        state = self._registered(signs) if is_registered else self._unregistered(signs)
        bundles, topics, connections = self.owned.get(broker, (0, 0, 0))
        return BrokerLiveness(
            broker=broker,
            state=state,
            is_registered=is_registered,
            session_id=session,
            reported_at=self.reported.get(broker),
            report_age_s=age,
            entry_at=self.entries.get(broker),
            probe=self.probes.get(broker, ""),
            leads=broker == self.leader,
            bundles=bundles,
            topics=topics,
            connections=connections,
            why="; ".join(self._why(broker, signs, state, is_registered=is_registered)),
        )

    @property
    def _without_sessions(self) -> str:
        is_dump = any(one.source == "dump" for one in self.snapshot.manifest.tables.values())
        return f"sessions are not in this {'dump' if is_dump else 'snapshot'}"

    def _silent_for_s(self, broker: str, age: float | None) -> float | None:
        """Return the time since its last activity, s, or ``None`` without any."""
        entry = self.entries.get(broker)
        spans = [] if age is None else [age]
        if entry is not None:
            spans.append((max(self.now_ms, *self.entries.values()) - entry) / 1000)
        return min(spans, default=None)

    def _registered(self, signs: _Signs) -> State:
        if signs.session or not signs.is_gone:
            return _by_signs(signs)
        if signs.session == 0 or signs.probe:
            return DEAD
        if not self.may_judge_ages:
            return UNKNOWN
        return DEAD if signs.is_silent_for(CLEARLY_MISSED * self.interval_s) else SUSPECTED

    def _unregistered(self, signs: _Signs) -> State:
        if signs.session:
            return SUSPECTED if signs.probe else UNREGISTERED
        if signs.session == 0 or signs.probe:
            return DEAD
        if self.snapshot.manifest.load_manager != "extensible":
            return UNKNOWN
        is_unheard = signs.silent_s is None or signs.is_silent_for(self.late_s)
        return SUSPECTED if is_unheard else UNREGISTERED

    def _why(
        self, broker: str, signs: _Signs, state: State, *, is_registered: bool
    ) -> Iterator[str]:
        """Return the facts that decided, in words."""
        if state == ALIVE:
            return
        facts = {
            "not registered": not is_registered and state != UNREGISTERED,
            "no session": signs.session == 0,
            "its session is valid": bool(signs.session) and state == STOPPED,
            f"report {format_age(self._age_s(broker))} old": signs.is_late,
        }
        if any(facts.values()):
            yield ", ".join(words for words, is_so in facts.items() if is_so)
        entry = self.entries.get(broker)
        is_sign = state == UNREGISTERED or (state == STOPPED and not signs.is_gone)
        if entry is not None and is_sign:
            leads_only = broker == self.leader and broker not in self.owned
            took = format_age(max(self.taken_ms - entry, 0) / 1000)
            event = "became the leader" if leads_only else "took a bundle"
            yield f"its session {event} {took} ago"
        if signs.probe:
            yield f"it {signs.probe}"
        if state == UNKNOWN:
            yield f"{_UNJUDGED if is_registered else ''}{self._without_sessions}"


_UNJUDGED: Final = "the clock of one broker may be ahead, and "


@dataclass(frozen=True, slots=True, kw_only=True)
class _Signs:
    """Signs of life of one broker.

    Attributes:
        session: As :attr:`BrokerLiveness.session_id`.
        is_late: Whether its report is late.
        is_gone: Whether nothing else is newer either.
        silent_s: Since its last sign of life, seconds; ``None`` if there is none.
        probe: What its address did.
    """

    session: int | None
    is_late: bool
    is_gone: bool
    silent_s: float | None
    probe: str

    def is_silent_for(self, seconds: float) -> bool:
        """Return whether the last activity is older than that."""
        return self.silent_s is not None and self.silent_s > seconds


def _by_signs(signs: _Signs) -> State:
    """Return the state of a registered broker with a session, or a recent sign of life."""
    if signs.probe:
        is_over = signs.session == 0 and signs.probe == SILENT["unreachable"]
        return DEAD if is_over else SUSPECTED
    return STOPPED if signs.is_late else ALIVE


def silent_addresses(snapshot: PulsarSnapshot) -> dict[str, str]:
    """Return the failure of each silent broker's address, one of :data:`SILENT`, by broker id.

    A broker's id is taken for its web address where it never reported one.
    """
    silent = {
        problem.place.rstrip("/"): SILENT[problem.code]
        for problem in snapshot.manifest.problems
        if problem.code in SILENT and _ADDRESS.match(problem.place)
    }
    if not silent:
        return {}
    columns = snapshot.brokers.select(["broker", "web_url", "web_url_tls"])
    found = {url.partition("://")[2]: words for url, words in silent.items()}
    for row in columns.to_pylist():
        for url in (row["web_url"], row["web_url_tls"]):
            if url and (words := silent.get(url.rstrip("/"))):
                found[row["broker"]] = words
    return found


def addresses_of_none(snapshot: PulsarSnapshot) -> Iterator[Problem]:
    """Yield the problems of silent addresses at which no broker is registered."""
    columns = snapshot.brokers.select(["broker", "web_url", "web_url_tls"])
    known = {
        url.rstrip("/").partition("://")[2]
        for row in columns.to_pylist()
        for url in (f"http://{row['broker']}", row["web_url"], row["web_url_tls"])
        if url
    }
    for problem in snapshot.manifest.problems:
        is_silent = problem.code in SILENT and _ADDRESS.match(problem.place)
        if is_silent and problem.place.rstrip("/").partition("://")[2] not in known:
            yield problem


def _reported(snapshot: PulsarSnapshot) -> dict[str, int]:
    """Return the last report time of each broker, ms since the epoch; absent if unknown.

    A report of the modular manager is written into the registration: ZooKeeper's clock has its
    time for all brokers, so it comes before the broker's own. A registration of the extensible
    manager is written once, when the broker starts.
    """
    brokers, loads, claims = snapshot.brokers, snapshot.broker_loads, snapshot.claims
    pairs = [
        *zip(brokers["broker"].to_pylist(), brokers["reported_at"].to_pylist(), strict=True),
        *zip(loads["broker"].to_pylist(), loads["updated_at"].to_pylist(), strict=True),
    ]
    reported = {broker: at for broker, at in pairs if at}
    if snapshot.manifest.load_manager == "extensible":
        return reported
    own = claims.filter(pc.equal(claims["subject_kind"], "broker"))
    written = zip(own["subject"].to_pylist(), own["modified_at"].to_pylist(), strict=True)
    return reported | {broker: at for broker, at in written if at and broker in reported}


def _owned(snapshot: PulsarSnapshot) -> dict[str, tuple[int, int, int]]:
    """Return bundles, topics and connections that each owner has, bound bundles counted as none."""
    bundles = snapshot.bundles
    connections = pc.add(
        pc.fill_null(bundles["producer_count"], 0), pc.fill_null(bundles["consumer_count"], 0)
    )
    columns = (
        pc.cast(pc.invert(bundles["is_broker_bound"]), pa.int64()),
        pc.fill_null(bundles["topic_count"], 0),
        connections,
    )
    owners, codes = _coded(bundles["owner"])
    is_held = codes >= 0
    sums = (
        np.bincount(codes[is_held], column.to_numpy()[is_held], minlength=len(owners))
        for column in columns
    )
    numbers = zip(*(one.astype(np.int64).tolist() for one in sums), strict=True)
    return dict(zip(owners, numbers, strict=True))


def _coded(names: pa.ChunkedArray) -> tuple[list[str], NDArray[np.int64]]:
    """Return the distinct names, and the place of each value in them; -1 where it is null.

    ``Table.group_by`` would do, and imports what takes a command half a second to start with.
    """
    coded = names.combine_chunks().dictionary_encode()
    return coded.dictionary.to_pylist(), pc.fill_null(coded.indices, -1).to_numpy().astype(np.int64)


def _claimed(snapshot: PulsarSnapshot) -> tuple[dict[str, int | None], dict[str, int]]:
    """Return each broker's session, and when the newest znode was created that it created.

    The session is that of the registration, else that of its bundles or of its leadership: a
    registration without one may be what an earlier process left, and an ephemeral znode that is
    there proves its process.
    """
    claims = snapshot.claims
    znodes = claims.filter(
        pc.and_(pc.equal(claims["source"], "znode"), pc.is_valid(claims["broker"]))
    )
    own = znodes.filter(pc.equal(znodes["subject_kind"], "broker"))
    bundles = znodes.filter(pc.not_equal(znodes["subject_kind"], "broker"))
    names, codes = _coded(bundles["broker"])
    # a session id may be negative as a signed number: any that is not 0 is one of a session
    held = pc.fill_null(bundles["session_id"], 0).to_numpy()
    found = np.zeros(len(names), np.int64)
    found[codes[held != 0]] = held[held != 0]
    is_known = np.zeros(len(names), np.bool_)
    is_known[codes[pc.is_valid(bundles["session_id"]).to_numpy()]] = True
    sessions: dict[str, int | None] = {
        name: session if known else None
        for name, session, known in zip(names, found.tolist(), is_known.tolist(), strict=True)
    }
    newest = np.full(len(names), -1, np.int64)
    np.maximum.at(newest, codes, pc.fill_null(bundles["created_at"], -1).to_numpy())
    for broker, session in zip(
        own["broker"].to_pylist(), own["session_id"].to_pylist(), strict=True
    ):
        sessions[broker] = session or sessions.get(broker) or session
    entries = zip(names, newest.tolist(), strict=True)
    return sessions, {broker: at for broker, at in entries if at >= 0}
