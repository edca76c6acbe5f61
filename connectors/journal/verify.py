"""Checking a journal: is every entry the one that was written, in the place it was written to?"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import Any, Final

from core.actions.describe import describe_forged
from core.actions.events import FIRST_LINK, link
from core.units import datetime_to_ms, pluralize

_NOT_SEALED: Final = (
    "The database no longer protects entries: its triggers were removed or changed. Restore the "
    "journal from a copy."
)
FIRST: Final = (0, FIRST_LINK)
"""Place and hash before the first entry of a journal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One stored entry; field names are the table's columns."""

    seq: int
    run_id: str
    cluster: str
    at_ms: int
    actor: str
    kind: str
    body: str
    previous: str
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """The first entry that is not as it was written.

    Attributes:
        seq: Its place.
        what: What is wrong, one sentence.
    """

    seq: int
    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """Result of a complete verification of the journal.

    Attributes:
        entries: Sound entries from the first one on that is there.
        newest_seq: Place of the last sound entry, 0: none.
        newest_digest: Its hash; whoever keeps it elsewhere will notice a cut end, too.
        damage: The first break of the chain; ``None`` if it has none.
        anchors: Hashes stored elsewhere that these entries have.
        archived: Place of the last entry that is in an archive and was not verified, 0: none.
        forged: Places of entries, up to the damage, that are not signed by this installation, or
            are copies.
        database: What the database's own check reports, sentences; empty: nothing.
        is_sealed: The database refuses changes of entries.
        lost: Which entry the history has recorded and the journal does not have, a sentence; empty:
            none.
        checked: What was checked: nouns.
        skipped: What this database cannot check, with the reason: nouns.
        unchecked: What could not be checked, and why, sentences.
    """

    entries: int
    newest_seq: int
    newest_digest: str
    damage: Damage | None
    anchors: int = 0
    archived: int = 0
    forged: tuple[int, ...] = ()
    database: tuple[str, ...] = ()
    is_sealed: bool = True
    lost: str = ""
    checked: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    unchecked: tuple[str, ...] = ()

    @property
    def is_sound(self) -> bool:
        """Whether the checked parts have no problem."""
        return not self.problems

    @property
    def problems(self) -> tuple[str, ...]:
        """Problems, as sentences."""
        found = [self.lost] if self.lost else []
        if self.damage is not None:
            found.append(
                f"The chain breaks at entry {self.damage.seq:,}: {self.damage.what} The "
                f"{self.entries:,} entries before it are intact."
            )
        if self.forged:
            count = f"Not genuine: {pluralize(len(self.forged), 'entry')} of {self.entries:,}."
            found.append(f"{count} {describe_forged(self.forged)}")
        if not self.is_sealed:
            found.append(_NOT_SEALED)
        return (*found, *self.database)


def verify_rows(
    rows: Iterable[Row],
    expected: str | None = None,
    *,
    after: tuple[int, str] = FIRST,
    anchors: Mapping[int, str] = MappingProxyType({}),
    archived_by: Callable[[Row], tuple[int, str] | None] | None = None,
) -> Verification:
    """Compute the chain again, up to the first damage.

    A changed, missing, added or moved entry breaks the chain where it is. A chain that was made
    again from one entry on, or whose end was cut off, is sound: only hashes stored elsewhere
    (``expected``, ``anchors``) show it. A chain may begin behind entries that were archived, when
    an entry in it records that.

    Args:
        rows: All entries, by place.
        expected: A hash that must be in the chain.
        after: Place and hash of the entry before the first one.
        anchors: By place: hashes that these entries had.
        archived_by: Returns place and hash of the last entry that an entry records as archived;
            ``None`` if it records none.
    """
    begin = seq, digest = after
    met = {FIRST_LINK}
    recorded = {after}
    damage: Damage | None = None
    for row in rows:
        if seq == 0 and row.seq > 1 and archived_by is not None:
            begin = seq, digest = row.seq - 1, row.previous
        damage = _wrong(row, seq, digest) or _not_anchored(row, anchors)
        if damage is not None:
            break
        seq, digest = row.seq, row.digest
        if digest == expected:
            met.add(digest)
        if archived_by is not None and (found := archived_by(row)) is not None:
            recorded.add(found)
    if damage is None and begin not in recorded:
        what = f"Entries up to {begin[0]} are missing, and no genuine entry records an archive."
        damage = Damage(seq=1, what=what)
        begin = seq, digest = after
    if damage is None:
        damage = _not_elsewhere(begin, seq, {*met, begin[1]}, expected, anchors)
    return Verification(
        entries=seq - begin[0],
        newest_seq=seq,
        newest_digest=digest,
        damage=damage,
        anchors=sum(1 for place in anchors if begin[0] <= place <= seq),
        archived=begin[0] - after[0],
    )


def _not_elsewhere(
    begin: tuple[int, str],
    seq: int,
    met: set[str],
    expected: str | None,
    anchors: Mapping[int, str],
) -> Damage | None:
    """Return the contradictions of external hashes with a chain intact from ``begin`` to ``seq``.

    Args:
        begin: Place and hash of the entry before the first one.
        seq: Place of the last entry.
        met: ``expected``, if it is in the chain, and the hashes that it begins with.
        expected: A hash that must be in the chain.
        anchors: By place: hashes that entries had.
    """
    if anchors.get(begin[0], begin[1]) != begin[1]:
        what = "It was archived and differs from its anchor."
        return Damage(seq=begin[0], what=what)
    if anchors and max(anchors) > seq:
        what = f"The journal was truncated: an anchor has entry {max(anchors)}."
        return Damage(seq=seq + 1, what=what)
    if expected is None or expected in met:
        return None
    archived = ", or the entry is in an archive" if begin[0] else ""
    what = (
        f"No entry has the hash {expected}: the journal was truncated, or this is another "
        f"journal{archived}."
    )
    return Damage(seq=seq + 1, what=what)


def _not_anchored(row: Row, anchors: Mapping[int, str]) -> Damage | None:
    if anchors.get(row.seq, row.digest) == row.digest:
        return None
    before = max((seq for seq in anchors if seq < row.seq), default=0)
    return Damage(
        seq=row.seq,
        what=f"It differs from its anchor: the journal was rewritten after entry {before}.",
    )


def _wrong(row: Row, before: int, previous: str) -> Damage | None:
    """Return the problem of an entry after entry ``before``."""
    if row.seq <= before:
        return Damage(seq=row.seq, what="It has an impossible position.")
    if row.seq > before + 1:
        missing = f"Entries up to {row.seq - 1} are missing."
        return Damage(seq=before + 1, what=missing if row.seq > before + 2 else "It is missing.")
    what = content_damage(row, previous)
    return Damage(seq=row.seq, what=what) if what else None


def content_damage(row: Row, previous: str) -> str:
    """Return the reason an entry is not the original after ``previous``, or ""."""
    if row.previous != previous:
        return "It does not follow the previous entry: one of the two was changed or moved."
    try:
        sealed = link(previous, row.seq, row.body)
    except UnicodeEncodeError:
        sealed = ""
    if sealed != row.digest:
        return "Its content does not match its hash."
    return _columns_wrong(row)


def _columns_wrong(row: Row) -> str:
    """The columns only repeat the sealed text; a changed one would lead the queries astray."""
    try:
        said: dict[str, Any] = json.loads(row.body)
        stated = {name: said[name] for name in ("run_id", "cluster", "actor")}
        stated["kind"] = said["event"]["kind"]
        stated["at_ms"] = datetime_to_ms(datetime.fromisoformat(said["at"]))
    except (ValueError, TypeError, KeyError, RecursionError):
        return "Its content is not a record."
    wrong = [name for name, value in stated.items() if getattr(row, name) != value]
    return f"Its column {wrong[0]} does not match its content." if wrong else ""
