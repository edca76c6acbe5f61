"""Checking a journal: is every entry the one that was written, in the place it was written to?"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import Any

from core.actions.events import FIRST_LINK, link
from core.units import datetime_to_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One entry as it is stored; the names are those of the table's columns."""

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
    """What a check of the whole journal found.

    Attributes:
        entries: Sound entries from the first one on.
        newest_seq: Place of the last sound entry, 0: none.
        newest_digest: Its hash; whoever keeps it elsewhere will notice a cut end, too.
        damage: The first thing that is wrong; ``None``: all is sound.
        anchors: Hashes stored elsewhere that these entries have.
    """

    entries: int
    newest_seq: int
    newest_digest: str
    damage: Damage | None
    anchors: int = 0

    @property
    def is_sound(self) -> bool:
        """Whether nothing is wrong."""
        return self.damage is None


def verify_rows(
    rows: Iterable[Row],
    expected: str | None = None,
    *,
    after: tuple[int, str] = (0, FIRST_LINK),
    anchors: Mapping[int, str] = MappingProxyType({}),
) -> Verification:
    """Compute the chain again, up to the first damage.

    A changed, missing, added or moved entry breaks the chain where it is. A chain that was made
    again from one entry on, or whose end was cut off, is sound: only hashes stored elsewhere
    (``expected``, ``anchors``) show it.

    Args:
        rows: All entries, by place.
        expected: A hash that must be in the chain.
        after: Place and hash of the entry before the first one.
        anchors: By place: hashes that these entries had.
    """
    seq, digest = after
    is_met = expected is None or expected == FIRST_LINK
    damage: Damage | None = None
    for row in rows:
        damage = _wrong(row, seq, digest) or _not_anchored(row, anchors)
        if damage is not None:
            break
        seq, digest = row.seq, row.digest
        is_met = is_met or digest == expected
    if damage is None and anchors and max(anchors) > seq:
        what = f"The end was cut off: an anchor holds entry {max(anchors)}."
        damage = Damage(seq=seq + 1, what=what)
    if damage is None and not is_met:
        damage = Damage(
            seq=seq + 1,
            what=f"No entry has the hash {expected}: the end was cut off, or this is another one.",
        )
    met = sum(1 for place in anchors if place <= seq)
    return Verification(
        entries=seq, newest_seq=seq, newest_digest=digest, damage=damage, anchors=met
    )


def _not_anchored(row: Row, anchors: Mapping[int, str]) -> Damage | None:
    if anchors.get(row.seq, row.digest) == row.digest:
        return None
    before = max((seq for seq in anchors if seq < row.seq), default=0)
    return Damage(
        seq=row.seq,
        what="It is not the entry of its anchor: the journal was written again from an entry after "
        f"{before} on.",
    )


def _wrong(row: Row, before: int, previous: str) -> Damage | None:
    """Return what is wrong with an entry after entry ``before``."""
    if row.seq <= before:
        return Damage(seq=row.seq, what="It stands where none can be.")
    if row.seq > before + 1:
        missing = f"It is missing, up to entry {row.seq - 1}."
        return Damage(seq=before + 1, what=missing if row.seq > before + 2 else "It is missing.")
    what = content_damage(row, previous)
    return Damage(seq=row.seq, what=what) if what else None


def content_damage(row: Row, previous: str) -> str:
    """Return why an entry is not the one that was written after ``previous``; empty: it is."""
    if row.previous != previous:
        return "It does not follow on the entry before it: one of the two was changed or moved."
    try:
        sealed = link(previous, row.seq, row.body)
    except UnicodeEncodeError:
        sealed = ""
    if sealed != row.digest:
        return "Its content is not what its hash was made of."
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
    return f"Its column {wrong[0]} does not say what its content says." if wrong else ""
