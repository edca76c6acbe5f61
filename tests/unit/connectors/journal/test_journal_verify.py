"""Each kind of tampering is found at the first entry that it touched."""

from __future__ import annotations

from dataclasses import replace

import pytest
from journal_entries import ONE_OF_EACH, chain_of

from connectors.journal.verify import Row, verify_rows
from core.actions.events import FIRST_LINK, canonical, link
from core.units import datetime_to_ms


def rows_of_a_journal() -> list[Row]:
    return [
        Row(
            seq=entry.seq,
            run_id=entry.record.run_id,
            cluster=entry.record.cluster,
            at_ms=datetime_to_ms(entry.record.at),
            actor=entry.record.actor,
            kind=type(entry.record.event).__name__,
            body=canonical(entry.record),
            previous=entry.previous,
            digest=entry.digest,
        )
        for entry in chain_of(ONE_OF_EACH)
    ]


ROWS = rows_of_a_journal()
LAST = len(ROWS)


def changed(rows: list[Row], seq: int, **fields) -> list[Row]:
    return [replace(row, **fields) if row.seq == seq else row for row in rows]


def sealed_again(rows: list[Row], seq: int, body: str) -> list[Row]:
    """As a forger would: the hash of the changed entry fits its new content."""
    previous = rows[seq - 2].digest
    return changed(rows, seq, body=body, digest=link(previous, seq, body))


def swapped(rows: list[Row], a: int, b: int) -> list[Row]:
    places = {a: rows[b - 1], b: rows[a - 1]}
    return [replace(places.get(row.seq, row), seq=row.seq) for row in rows]


def test_an_untouched_journal_is_sound() -> None:
    found = verify_rows(ROWS)
    assert found.is_sound
    assert (found.entries, found.newest_seq) == (LAST, LAST)
    assert found.newest_digest == ROWS[-1].digest


def test_an_empty_journal_is_sound() -> None:
    found = verify_rows([])
    assert found.is_sound
    assert (found.newest_seq, found.newest_digest) == (0, FIRST_LINK)


@pytest.mark.parametrize(
    ("rows", "seq", "words"),
    [
        (changed(ROWS, 5, body=ROWS[4].body.replace('"Paused."', '"Going."')), 5, "content"),
        (changed(ROWS, 5, body=ROWS[4].body + " "), 5, "content"),
        (changed(ROWS, 5, body="é"), 5, "content"),
        (changed(ROWS, 5, body=""), 5, "content"),
        (changed(ROWS, 5, digest="0" * 64), 5, "content"),
        (changed(ROWS, 5, previous="0" * 64), 5, "does not follow"),
        (
            sealed_again(ROWS, 5, ROWS[4].body.replace('"Paused."', '"Going."')),
            6,
            "does not follow",
        ),
        ([row for row in ROWS if row.seq != 5], 5, "It is missing."),
        ([row for row in ROWS if row.seq not in (5, 6, 7)], 5, "Entries up to 7"),
        ([row for row in ROWS if row.seq != 1], 1, "It is missing."),
        (
            [replace(row, seq=row.seq - (row.seq > 5)) for row in ROWS if row.seq != 5],
            5,
            "does not follow",
        ),
        (swapped(ROWS, 5, 6), 5, "does not follow"),
        ([replace(ROWS[0], seq=0), *ROWS], 0, "an impossible position"),
        ([*ROWS, replace(ROWS[-1], seq=LAST + 1)], LAST + 1, "does not follow"),
        (changed(ROWS, 5, run_id="another"), 5, "column run_id"),
        (changed(ROWS, 5, cluster="another"), 5, "column cluster"),
        (changed(ROWS, 5, actor="another"), 5, "column actor"),
        (changed(ROWS, 5, kind="RunEnded"), 5, "column kind"),
        (changed(ROWS, 5, at_ms=0), 5, "column at_ms"),
    ],
)
def test_tampering_is_found_where_it_was_done(rows, seq, words) -> None:
    found = verify_rows(rows)
    assert found.damage is not None
    assert found.damage.seq == seq
    assert words in found.damage.what
    assert found.newest_seq == found.entries == max(seq - 1, 0)


def test_a_body_that_is_sealed_but_no_record_is_found() -> None:
    for body in ("no json", "[]", '{"at": 5}', '{"at":"x","run_id":1,"cluster":2,"actor":3}'):
        rows = sealed_again(ROWS[:5], 5, body)
        found = verify_rows(rows)
        assert found.damage is not None
        assert found.damage.seq == 5


def test_a_cut_end_is_noticed_only_with_a_hash_kept_elsewhere() -> None:
    cut = ROWS[:-3]
    assert verify_rows(cut).is_sound
    found = verify_rows(cut, expected=ROWS[-1].digest)
    assert found.damage is not None
    assert found.damage.seq == len(cut) + 1
    assert "truncated" in found.damage.what
    assert verify_rows(ROWS, expected=ROWS[3].digest).is_sound
    assert verify_rows(ROWS, expected=FIRST_LINK).is_sound
