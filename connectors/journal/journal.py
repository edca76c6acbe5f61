"""The journal: entries in a row, each sealed by the hash of the one before."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import chain
from types import MappingProxyType
from typing import Any, Final

import msgspec
import sqlalchemy as sa
from cachetools import LRUCache
from pydantic import SecretStr
from sqlalchemy import exc

from connectors.journal.engine import Database
from connectors.journal.errors import as_remote_error, translated
from connectors.journal.schema import ENTRIES
from connectors.journal.verify import Damage, Row, Verification, content_damage, verify_rows
from core.actions.authority import is_genuine
from core.actions.codec import RecordDecoder
from core.actions.events import (
    FIRST_LINK,
    EntriesArchived,
    Entry,
    EntryFilter,
    Record,
    canonical,
    link,
)
from core.actions.model import RunId
from core.errors import ConflictError, InvariantError, ProtocolError
from core.plan.model import Plan
from core.plan.registry import StepRegistry
from core.systems import STEPS
from core.units import datetime_to_ms, ms_to_datetime, pluralize

_LOG: Final = logging.getLogger("trimtab.journal")

MAX_TRIES: Final = 500
"""How often an append is tried while others are quicker."""

_BATCH: Final = 1000
_CLOCKS_APART: Final = timedelta(hours=1)
"""How far the clocks of those who write to a journal may be apart."""

_ENDS: Final = ("RunEnded", "RunRefused")
_TURNS: Final = ("RunRequested", "RunClaimed", *_ENDS)
_JUDGED: Final = 100_000
"""Entries of which is remembered whether they are forged."""

_EXECUTABLE: Final = timedelta(days=30)
"""Longer ago than this no run was requested that can still be executed: plans expire in minutes."""

_LOST: Final = (
    "entries were lost, or the history belongs to another journal. Restore the journal from a copy."
)
_UNSIGNED: Final = "It does not have this installation's signature."
_COPY: Final = "It is a copy of an earlier entry; a signature is valid once."


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivableEntries:
    """Entries of a journal that can be archived.

    Attributes:
        first: Place of the journal's first entry.
        last: Place of the last entry that can, 0: none.
        newest: Place of the newest entry that was looked at.
        clusters: Those that the old entries are about.
        open_run: A run that has not ended and keeps later entries where they are, if any.
    """

    first: int
    last: int
    newest: int
    clusters: frozenset[str]
    open_run: RunId | None = None


class SqlJournal:
    """A journal in any database that SQLAlchemy knows; see :class:`core.actions.ports.Journal`.

    Args:
        url: ``sqlite:////folder/journal.db``, ``postgresql+psycopg://...``; its tables are made
            on first use.
        steps: The kinds of steps that its plans may hold.
        is_genuine: Returns whether a record has the installation's signature. Entries without it,
            and copies, are forged: they are marked, and neither end runs nor count as moves.
            ``None`` accepts all.
    Raises:
        ConfigError: No such driver, or not a URL.
        RemoteError: The database cannot be opened.
    """

    def __init__(
        self,
        url: SecretStr | str,
        steps: StepRegistry = STEPS,
        is_genuine: Callable[[Record], bool] | None = None,
    ) -> None:
        self.database = Database(url)
        self._decoder = RecordDecoder(steps)
        self._is_genuine = is_genuine
        self._lock = threading.Lock()
        # by cluster: up to which entry, and the open runs with who claimed them last
        self._open: dict[str, tuple[int, dict[str, str]]] = {}
        self._judged: LRUCache[tuple[int, str], bool] = LRUCache(_JUDGED)

    @property
    def place(self) -> str:
        """The database for people, without its password."""
        return self.database.place

    def close(self) -> None:
        """Give back every connection."""
        self.database.close()

    def append(self, record: Record) -> Entry:
        """Add a record and return it in its place; it is durable when this returns.

        Raises:
            RemoteError: ``outcome`` says whether it may have been added all the same.
        """
        return self.append_all([record])[0]

    def append_all(self, records: Sequence[Record]) -> Sequence[Entry]:
        """Add records in one transaction: other processes read all of them or none.

        Raises:
            RemoteError: As :meth:`append`.
        """
        texts = [(record, canonical(record)) for record in records]
        for tries in range(MAX_TRIES):
            sent: list[Entry] = []
            try:
                return self._insert(texts, sent)
            except exc.IntegrityError:  # another writer was faster: that place is taken
                _wait_a_little(tries)
            except exc.SQLAlchemyError as error:
                if len(sent) == len(texts) and self._has_arrived(sent[-1], error):
                    return sent
                raise as_remote_error(error, self.place, "append", "not_sent") from error
        raise ConflictError(
            f"The journal {self.place} has too many concurrent writers: {MAX_TRIES} attempts "
            "failed.",
            endpoint=self.place,
            operation="append",
            outcome="not_sent",
            hint="Try again.",
        )

    def _insert(self, texts: Sequence[tuple[Record, str]], sent: list[Entry]) -> list[Entry]:
        with self.database.writing() as connection:
            for record, text in texts:
                sent.append(_added(connection, record, text))
            # from here on the commit may reach the database unanswered
        for entry in sent:
            _log_entry(entry)
        return sent

    def _has_arrived(self, entry: Entry, error: exc.SQLAlchemyError) -> bool:
        """Look for an entry whose commit failed; its digest identifies it.

        Raises:
            RemoteError: Unknown: the journal does not answer, or may still be writing.
        """
        query = sa.select(ENTRIES.c.seq).where(ENTRIES.c.digest == entry.digest)
        try:
            with self.database.engine.connect() as connection:
                is_there = connection.execute(query).first() is not None
        except exc.SQLAlchemyError:
            raise as_remote_error(error, self.place, "append", "unknown") from error
        if not is_there and isinstance(error, exc.DBAPIError) and error.connection_invalidated:
            raise as_remote_error(error, self.place, "append", "unknown") from error
        return is_there

    def entries(
        self, *, run_id: RunId | None = None, after: int = 0, limit: int | None = None
    ) -> Sequence[Entry]:
        """Return entries with ``seq > after`` in order, of one run or of all.

        Raises:
            RemoteError: The journal cannot be read, or an entry in it is damaged.
        """
        query = sa.select(ENTRIES).where(ENTRIES.c.seq > after).order_by(ENTRIES.c.seq).limit(limit)
        if run_id is not None:
            query = query.where(ENTRIES.c.run_id == run_id)
        with self.database.reading("read entries") as connection:
            rows = connection.execute(query).mappings().all()
        return self._entries([Row(**row) for row in rows])

    def selected(self, wanted: EntryFilter, limit: int | None = None) -> Sequence[Entry]:
        """Return the newest entries that match, the oldest of them first.

        Raises:
            RemoteError: The journal cannot be read, or an entry in it is damaged.
        """
        query = sa.select(ENTRIES).where(*_conditions(wanted))
        query = query.order_by(ENTRIES.c.seq.desc()).limit(limit)
        with self.database.reading("read entries") as connection:
            rows = connection.execute(query).mappings().all()
        return self._entries([Row(**row) for row in reversed(rows)])

    def _entries(self, rows: Sequence[Row]) -> list[Entry]:
        entries = [self._entry(row) for row in rows]
        is_genuine = self._is_genuine
        if is_genuine is None:
            return entries
        forged = {one.seq: _UNSIGNED for one in entries if not is_genuine(one.record)}
        copies = self._copies([one.seq for one in entries if one.seq not in forged])
        forged |= dict.fromkeys(copies, _COPY)
        if not forged:
            return entries
        return [
            msgspec.structs.replace(one, forged=forged[one.seq]) if one.seq in forged else one
            for one in entries
        ]

    def _copies(self, seqs: Sequence[int]) -> set[int]:
        """Return the entries with the content of an earlier one: a signature is valid once.

        Raises:
            RemoteError: The journal cannot be read.
        """
        found: set[int] = set()
        for first in range(0, len(seqs), _BATCH):
            query = _COPIES.where(ENTRIES.c.seq.in_(seqs[first : first + _BATCH]))
            with self.database.reading("look for copies") as connection:
                found.update(connection.execute(query).scalars())
        return found

    def _counting(self, query: sa.Select[Any], operation: str) -> list[Any]:
        """Return the rows of a query whose entries are not forged.

        Args:
            query: Selects ``seq`` and ``digest``, among others.
            operation: What is read, for an error's sentence.
        Raises:
            RemoteError: The journal cannot be read.
        """
        with self.database.reading(operation) as connection:
            rows = connection.execute(query).all()
        return self._not_forged(rows)

    def _not_forged(self, rows: Sequence[Any]) -> list[Any]:
        if self._is_genuine is None:
            return list(rows)
        with self._lock:
            known = {row.seq: self._judged.get((row.seq, row.digest)) for row in rows}
        unknown = [seq for seq, counts in known.items() if counts is None]
        for first in range(0, len(unknown), _BATCH):
            known |= self._judge(unknown[first : first + _BATCH])
        return [row for row in rows if known[row.seq]]

    def _judge(self, seqs: Sequence[int]) -> dict[int, bool]:
        """Return by place whether entries are not forged; what is damaged, or no record, is."""
        query = sa.select(ENTRIES).where(ENTRIES.c.seq.in_(seqs))
        with self.database.reading("verify signatures") as connection:
            rows = [Row(**row) for row in connection.execute(query).mappings()]
        found = dict.fromkeys(seqs, False)
        digests = {row.seq: row.digest for row in rows}
        for entry in self._entries([row for row in rows if self._is_record(row)]):
            found[entry.seq] = not (entry.forged or entry.damage)
        with self._lock:
            self._judged.update({(seq, digests[seq]): found[seq] for seq in digests})
        return found

    def _is_record(self, row: Row) -> bool:
        try:
            self._entry(row)
        except ProtocolError:
            return False
        return True

    def _entry(self, row: Row) -> Entry:
        try:
            record = self._decoder.decode(row.body)
        except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
            raise ProtocolError(
                f"Entry {row.seq} of the journal {self.place} is damaged: {error}.",
                endpoint=self.place,
                operation="read entries",
                outcome="refused",
                hint="Check the journal with `trimtab runs --verify` and restore it from a copy.",
            ) from error
        return Entry(
            seq=row.seq,
            record=record,
            previous=row.previous,
            digest=row.digest,
            damage=content_damage(row, row.previous),
        )

    def open_runs(self, cluster: str) -> Sequence[RunId]:
        """Return the runs of a cluster that have been requested and not ended, oldest first.

        Workers read twice a second for years: only what came since the last time is read, for no
        run ever opens again.

        Raises:
            RemoteError: The journal cannot be read.
        """
        with self._lock:
            seen, workers = self._open.get(cluster, (0, {}))
        query = (
            sa.select(*_OF_RUNS)
            .where(ENTRIES.c.cluster == cluster, ENTRIES.c.seq > seen)
            .where(ENTRIES.c.kind.in_(_TURNS))
            .where((ENTRIES.c.kind != "RunRequested") | ~_IS_REQUESTED_AGAIN)
            .order_by(ENTRIES.c.seq)
        )
        with self.database.reading("list open runs") as connection:
            rows = connection.execute(query).all()
        workers = dict(workers)
        limit = datetime_to_ms(datetime.now(UTC) - _EXECUTABLE)
        # a run of before then is past its plan's time, it cannot be executed again
        old = {row.run_id for row in rows if row.kind == "RunRequested" and row.at_ms < limit}
        forged = self._forged_turns([row for row in rows if row.run_id not in old])
        for row in rows:
            if row.seq not in forged:
                _follow(workers, row.run_id, row.kind, row.actor)
        with self._lock:
            if rows and rows[-1].seq > self._open.get(cluster, (0, {}))[0]:
                self._open[cluster] = (rows[-1].seq, workers)
        return tuple(RunId(run_id) for run_id in workers)

    def _forged_turns(self, rows: Sequence[Any]) -> set[int]:
        """Return the places of forged claims, and of forged ends of runs whose request is genuine.

        No worker obeys a forged claim, and one refuses a run whose request is forged: that end
        counts.
        """
        turns = [row for row in rows if row.kind != "RunRequested"]
        counting = {row.seq for row in self._not_forged(turns)}
        forged = [row for row in turns if row.seq not in counting]
        run_ids = list({row.run_id for row in forged})
        genuine: set[str] = set()
        for first in range(0, len(run_ids), _BATCH):
            query = sa.select(*_OF_RUNS).where(
                ENTRIES.c.kind == "RunRequested",
                ENTRIES.c.run_id.in_(run_ids[first : first + _BATCH]),
            )
            genuine.update(row.run_id for row in self._counting(query, "read requests"))
        return {row.seq for row in forged if row.run_id in genuine or row.kind == "RunClaimed"}

    def run_ids(self, *, cluster: str | None = None, limit: int | None = None) -> Sequence[RunId]:
        """Return the runs that were ever requested, newest first.

        Raises:
            RemoteError: The journal cannot be read.
        """
        query = sa.select(ENTRIES.c.run_id).where(
            ENTRIES.c.kind == "RunRequested", ~_IS_REQUESTED_AGAIN
        )
        if cluster is not None:
            query = query.where(ENTRIES.c.cluster == cluster)
        return self._run_ids(query.order_by(ENTRIES.c.seq.desc()).limit(limit))

    def _run_ids(self, query: sa.Select[Any]) -> list[RunId]:
        with self.database.reading("list runs") as connection:
            return [RunId(run_id) for run_id in connection.execute(query).scalars()]

    def archivable(self, before: datetime) -> ArchivableEntries:
        """Return the number of oldest entries that can be archived: whole ended runs.

        Args:
            before: Every one of them is older, aware UTC.
        Raises:
            RemoteError: The journal cannot be read.
        """
        query = sa.select(*_OF_RUNS, ENTRIES.c.cluster).order_by(ENTRIES.c.seq)
        query = query.execution_options(yield_per=_BATCH)
        limit = datetime_to_ms(before)
        old: list[tuple[int, str]] = []
        clusters: set[str] = set()
        ends: dict[str, int] = {}
        turns: list[Any] = []
        is_old, seq = True, 0
        with self.database.reading("look for old entries") as connection:
            for row in connection.execute(query):
                seq, run_id = row.seq, row.run_id
                is_old = is_old and row.at_ms < limit
                if is_old:
                    old.append((seq, run_id))
                    clusters.add(row.cluster)
                if run_id:
                    ends[run_id] = seq
                if row.kind in _TURNS:
                    turns.append(row)
        workers = self._followed(turns)
        last = reach = 0
        open_run = None
        for place, run_id in old:
            if run_id in workers:
                open_run = RunId(run_id)
                break
            reach = max(reach, ends.get(run_id, place))
            last = place if reach == place else last
        return ArchivableEntries(
            first=old[0][0] if old else 0,
            last=last,
            newest=seq,
            clusters=frozenset(clusters - {""}),
            open_run=open_run,
        )

    def _followed(self, rows: Sequence[Any]) -> dict[str, str]:
        """Return the open runs with who claimed them last, of all that turned in a journal."""
        forged = self._forged_turns(rows)
        workers: dict[str, str] = {}
        requested: set[str] = set()
        for row in rows:
            is_request = row.kind == "RunRequested"
            if row.seq in forged or (is_request and row.run_id in requested):
                continue
            if is_request:
                requested.add(row.run_id)
            _follow(workers, row.run_id, row.kind, row.actor)
        return workers

    def moves_since(self, cluster: str, moment: datetime) -> int:
        """Return the number of moves started on the cluster since ``moment`` (aware UTC).

        Raises:
            RemoteError: The journal cannot be read.
        """
        query = sa.select(ENTRIES.c.seq, ENTRIES.c.digest).where(
            ENTRIES.c.cluster == cluster,
            *_IS_MOVE,
            ENTRIES.c.at_ms >= datetime_to_ms(moment),
        )
        return len(self._counting(query, "count moves"))

    def runs_of_plan(self, plan: Plan) -> Sequence[RunId]:
        """Return the runs that were ever requested with this very plan, oldest first.

        A plan is never requested long before it was made, so earlier entries are skipped.

        Raises:
            RemoteError: The journal cannot be read.
        """
        since = plan.created_at - _CLOCKS_APART
        query = sa.select(*_OF_RUNS).where(
            ENTRIES.c.cluster == plan.cluster,
            ENTRIES.c.kind == "RunRequested",
            ENTRIES.c.at_ms >= datetime_to_ms(since),
            ENTRIES.c.body.contains(f'"plan_id":"{plan.plan_id}"', autoescape=True),
        )
        return self._runs_counting(query)

    def runs_acting(self, cluster: str, since: datetime, until: datetime) -> Sequence[RunId]:
        """Return the runs of a cluster that began a step after ``since`` and up to ``until``.

        Raises:
            RemoteError: The journal cannot be read.
        """
        query = sa.select(*_OF_RUNS).where(
            ENTRIES.c.cluster == cluster,
            _IS_START,
            ENTRIES.c.at_ms > datetime_to_ms(since),
            ENTRIES.c.at_ms <= datetime_to_ms(until),
        )
        return self._runs_counting(query)

    def runs_ended(self, cluster: str, since: datetime) -> Sequence[RunId]:
        """Return the runs of a cluster that ended since a moment (aware UTC), oldest first.

        Raises:
            RemoteError: The journal cannot be read.
        """
        query = sa.select(*_OF_RUNS).where(
            ENTRIES.c.cluster == cluster,
            ENTRIES.c.kind == "RunEnded",
            ENTRIES.c.at_ms >= datetime_to_ms(since),
        )
        return self._runs_counting(query)

    def _runs_counting(self, query: sa.Select[Any]) -> list[RunId]:
        rows = self._counting(query.order_by(ENTRIES.c.seq), "list runs")
        return list(dict.fromkeys(RunId(row.run_id) for row in rows))

    def last_begun(self, cluster: str, since: datetime) -> datetime | None:
        """Return the start time of the cluster's latest move since then, or ``None``.

        The latest by its place: a clock may have been set back since an earlier one.

        Raises:
            RemoteError: The journal cannot be read.
        """
        found = (
            ENTRIES.c.cluster == cluster,
            *_IS_MOVE,
            ENTRIES.c.at_ms >= datetime_to_ms(since),
        )
        query = sa.select(*_OF_RUNS).where(*found).order_by(ENTRIES.c.seq)
        rows = self._counting(query, "find the last move")
        return ms_to_datetime(rows[-1].at_ms) if rows else None

    def newest(self) -> tuple[int, str]:
        """Return place and hash of the last entry; ``(0, FIRST_LINK)`` when there is none.

        Raises:
            RemoteError: The journal cannot be read.
        """
        with self.database.reading("read the end") as connection:
            row = connection.execute(_NEWEST).one_or_none()
        return (row.seq, row.digest) if row else (0, FIRST_LINK)

    def verify(
        self,
        expected: str | None = None,
        anchors: Mapping[int, str] = MappingProxyType({}),
        *,
        key: bytes | None = None,
        archived: Iterable[Row] = (),
        recorded: Mapping[int, str] = MappingProxyType({}),
    ) -> Verification:
        """Compute the whole chain again, check every signature, and have the database check itself.

        Args:
            expected: A hash stored by an earlier check; it must still be in the chain.
            anchors: By place: hashes that entries had, see :mod:`connectors.journal.anchor`.
            key: The installation's key. ``None`` if no signature is checked, and what the chain
                records of archives is believed.
            archived: Entries of archives that precede those of the journal.
            recorded: By place: the runs of entries that the history has recorded.
        Raises:
            RemoteError: The journal cannot be read.
        """
        own = self.database.check()
        is_sealed = True
        noted = _ChainSummary(None if key is None else self._signed_with(key), recorded)
        archives = self._archives(key)
        rows = noted.rows(chain(archived, self.rows()))
        try:
            found = verify_rows(rows, expected, anchors=anchors, archived_by=archives)
            copies = self._all_copies() if key is not None else set()
            is_sealed = self.database.is_sealed()
        except ProtocolError as error:  # pages of the database that cannot be read
            damage = Damage(seq=noted.seq + 1, what=error.message)
            found = Verification(
                entries=noted.count, newest_seq=noted.seq, newest_digest=noted.digest, damage=damage
            )
            copies = set()
        return replace(
            found,
            forged=tuple(sorted(copies.union(noted.forged))),
            database=own.faults,
            is_sealed=is_sealed,
            checked=(*_checked(key, recorded), *own.checked),
            skipped=own.skipped,
            lost=noted.lost(found),
        )

    def _signed_with(self, key: bytes) -> Callable[[Row], bool]:
        def is_signed(row: Row) -> bool:
            try:
                return is_genuine(self._entry(row).record, key)
            except ProtocolError:
                return False

        return is_signed

    def _all_copies(self) -> set[int]:
        with self.database.reading("look for copies") as connection:
            return set(connection.execute(_COPIES).scalars())

    def _archives(self, key: bytes | None) -> Callable[[Row], tuple[int, str] | None]:
        def archived_by(row: Row) -> tuple[int, str] | None:
            if row.kind != EntriesArchived.__name__:
                return None
            try:
                record = self._entry(row).record
            except ProtocolError:  # it is among the entries that are not genuine
                return None
            event = record.event
            if not isinstance(event, EntriesArchived) or not (
                key is None or is_genuine(record, key)
            ):
                return None
            return event.last, event.digest

        return archived_by

    def remove_archived(self, record: Record, seen: int) -> Entry:
        """Delete the entries that are in an archive, and add the record of it, in one transaction.

        Args:
            record: Of :class:`core.actions.events.EntriesArchived`, with ``last`` and its hash.
            seen: Place of the newest entry when the archive was made.
        Raises:
            ConflictError: The journal is not what was archived, or a run in it was written since.
            RemoteError: The journal cannot be written, or its answer to the commit was lost.
        """
        event = record.event
        if not isinstance(event, EntriesArchived):
            raise InvariantError(f"{type(event).__name__} records no archive.")
        with (
            translated(self.place, "remove archived entries", "unknown"),
            self.database.unsealed() as connection,
        ):
            is_old = ENTRIES.c.seq <= event.last
            runs = sa.select(ENTRIES.c.run_id).where(is_old, ENTRIES.c.run_id != "")
            late = sa.select(ENTRIES.c.seq).where(ENTRIES.c.seq > seen, ENTRIES.c.run_id.in_(runs))
            digest = sa.select(ENTRIES.c.digest).where(ENTRIES.c.seq == event.last)
            if (
                connection.execute(digest).scalar_one_or_none() != event.digest
                or connection.execute(late.limit(1)).first() is not None
            ):
                raise ConflictError(
                    f"The journal {self.place} changed during archiving; no entry was removed.",
                    endpoint=self.place,
                    operation="remove archived entries",
                    outcome="not_sent",
                    hint="Remove the file and archive again.",
                )
            entry = _added(connection, record, canonical(record))  # first: it follows on the last
            connection.execute(ENTRIES.delete().where(is_old))
        _log_entry(entry)
        return entry

    def recent_damage(self, limit: int = 2_000) -> Damage | None:
        """Return the first of the last ``limit`` entries that is not as it was written, if any.

        Raises:
            RemoteError: The journal cannot be read.
        """
        query = sa.select(ENTRIES).order_by(ENTRIES.c.seq.desc()).limit(limit)
        with self.database.reading("read the end") as connection:
            rows = connection.execute(query).mappings().all()
        if not rows:
            return None
        first, *others = [Row(**row) for row in reversed(rows)]
        what = content_damage(first, first.previous)
        if what:
            return Damage(seq=first.seq, what=what)
        return verify_rows(others, after=(first.seq, first.digest)).damage

    def rows(self, last: int | None = None) -> Iterator[Row]:
        """Yield the entries as they are stored, by place, up to one of them or all.

        Raises:
            RemoteError: The journal cannot be read.
        """
        after = None
        while True:
            query = sa.select(ENTRIES).order_by(ENTRIES.c.seq).limit(_BATCH)
            if last is not None:
                query = query.where(ENTRIES.c.seq <= last)
            if after is not None:
                query = query.where(ENTRIES.c.seq > after)
            with self.database.reading("verify") as connection:
                rows = connection.execute(query).mappings().all()
            for row in rows:
                yield Row(**row)
            if len(rows) < _BATCH:
                return
            after = rows[-1]["seq"]


_NEWEST: Final = sa.select(ENTRIES.c.seq, ENTRIES.c.digest).order_by(ENTRIES.c.seq.desc()).limit(1)


_OF_RUNS: Final = (
    *(ENTRIES.c.seq, ENTRIES.c.digest, ENTRIES.c.run_id, ENTRIES.c.kind),
    *(ENTRIES.c.actor, ENTRIES.c.at_ms),
)
_EARLIER: Final = ENTRIES.alias("earlier")
_COPIES: Final = sa.select(ENTRIES.c.seq).where(
    sa.exists().where(
        _EARLIER.c.cluster == ENTRIES.c.cluster,
        _EARLIER.c.kind == ENTRIES.c.kind,
        _EARLIER.c.at_ms == ENTRIES.c.at_ms,
        _EARLIER.c.seq < ENTRIES.c.seq,
        _EARLIER.c.body == ENTRIES.c.body,
    )
)
_IS_REQUESTED_AGAIN: Final = sa.exists().where(
    _EARLIER.c.run_id == ENTRIES.c.run_id,
    _EARLIER.c.seq < ENTRIES.c.seq,
    _EARLIER.c.kind == "RunRequested",
)

_IS_START: Final = ENTRIES.c.kind == "StepStarted"

# quotes within a text are escaped in JSON: only the event's own field reads so
_IS_MOVE: Final = (
    _IS_START,
    ~ENTRIES.c.body.contains('"is_paced":false', autoescape=True),
)


def _checked(key: bytes | None, recorded: Mapping[int, str]) -> tuple[str, ...]:
    """Return the checks of :meth:`SqlJournal.verify`, as nouns."""
    history = f"{pluralize(len(recorded), 'entry')} in the history"
    named = {
        "hash chain": True,
        "signatures": key is not None,
        "triggers": True,
        history: bool(recorded),
    }
    return tuple(noun for noun, is_checked in named.items() if is_checked)


class _ChainSummary:
    """Data collected from the rows while their chain is verified.

    Args:
        is_signed: Returns whether an entry is signed; ``None`` if not checked.
        recorded: By place: the runs of entries that the history has recorded.
    """

    def __init__(
        self, is_signed: Callable[[Row], bool] | None, recorded: Mapping[int, str]
    ) -> None:
        self._is_signed, self._recorded = is_signed, recorded
        self.seq, self.digest, self.count = 0, FIRST_LINK, 0
        self.forged: list[int] = []
        self._replaced: tuple[int, str] | None = None

    def rows(self, rows: Iterable[Row]) -> Iterator[Row]:
        """Yield the rows, and note what there is to note."""
        for row in rows:
            self.seq, self.digest, self.count = row.seq, row.digest, self.count + 1
            if self._is_signed is not None and not self._is_signed(row):
                self.forged.append(row.seq)
            run_id = self._recorded.get(row.seq, row.run_id)
            if run_id != row.run_id and self._replaced is None:
                self._replaced = row.seq, run_id
            yield row

    def lost(self, found: Verification) -> str:
        """Return the recorded entry that the journal lacks, a sentence, or ""."""
        last = max(self._recorded, default=0)
        if last > self.seq and found.damage is None:
            is_empty = self.seq == 0
            has = "is empty" if is_empty else f"ends with entry {self.seq:,}"
            return f"The journal {has}, but the history refers to entry {last:,}: {_LOST}"
        if self._replaced is not None:
            seq, run_id = self._replaced
            return f"Entry {seq:,} differs from the entry of run {run_id} in the history: {_LOST}"
        return ""


def _follow(workers: dict[str, str], run_id: str, kind: str, actor: str) -> None:
    """Keep up who has which open run; an end by a worker that had lost the run is none."""
    if kind == "RunRequested":
        workers[run_id] = ""
    elif kind == "RunClaimed" and run_id in workers:
        workers[run_id] = actor
    elif kind in _ENDS and workers.get(run_id) in ("", actor):
        del workers[run_id]


def _added(connection: sa.Connection, record: Record, text: str) -> Entry:
    newest = connection.execute(_NEWEST).one_or_none()
    seq, previous = (newest.seq + 1, newest.digest) if newest else (1, FIRST_LINK)
    entry = Entry(seq=seq, record=record, previous=previous, digest=link(previous, seq, text))
    connection.execute(ENTRIES.insert().values(_values(entry, text)))
    return entry


def _log_entry(entry: Entry) -> None:
    """Let a run be followed through the logs of every process that has to do with it."""
    record = entry.record
    about = {"run": record.run_id, "cluster": record.cluster, "actor": record.actor}
    about["kind"] = type(record.event).__name__
    if (step := getattr(record.event, "step", None)) is not None:
        about["step"] = step  # place in the plan, from 0
    _LOG.info("journal entry %d", entry.seq, extra={**about, "seq": entry.seq})


def _conditions(wanted: EntryFilter) -> list[sa.ColumnElement[bool]]:
    columns = ENTRIES.c
    found = [columns.seq > wanted.after]
    same = ((columns.run_id, wanted.run_id), (columns.cluster, wanted.cluster))
    found += [column == value for column, value in (*same, (columns.actor, wanted.actor)) if value]
    if wanted.kind is not None:
        found.append(columns.kind == wanted.kind)
    if wanted.since is not None:
        found.append(columns.at_ms >= datetime_to_ms(wanted.since))
    if wanted.until is not None:
        found.append(columns.at_ms <= datetime_to_ms(wanted.until))
    return found


def _values(entry: Entry, text: str) -> dict[str, object]:
    record = entry.record
    return {
        "seq": entry.seq,
        "run_id": record.run_id,
        "cluster": record.cluster,
        "at_ms": datetime_to_ms(record.at),
        "actor": record.actor,
        "kind": type(record.event).__name__,
        "body": text,
        "previous": entry.previous,
        "digest": entry.digest,
    }


def _wait_a_little(tries: int) -> None:
    """Step aside for up to a twentieth of a second, so that writers do not march in step."""
    share = (threading.get_native_id() * 7919 + tries * 104729) % 1000 / 1000
    threading.Event().wait(0.05 * share)
