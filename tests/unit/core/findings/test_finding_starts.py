"""Since when a finding holds: over snapshots, over gaps, by the history, and at a past moment."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec

from connectors.config.model import TrimtabConfig
from connectors.recording.finding_spans import read_spans, spans_path, write_spans
from core.findings.finding import Finding
from core.findings.starts import (
    ENDED_FOR,
    MAX_GAP,
    Spans,
    carried_on,
    looked_back,
    with_history,
    with_starts,
)

NOON = datetime(2026, 11, 28, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def finding(code: str, subject: str = "", since: datetime | None = None) -> Finding:
    return Finding(
        code=code, severity="warning", subject=subject, title="t", sentence="s", since=since
    )


def after(*looks: tuple[str, ...]) -> Spans:
    """Return the spans after looks of a minute each, with the codes found in each."""
    spans = None
    for minute, codes in enumerate(looks):
        spans = carried_on(spans, [finding(one) for one in codes], NOON + minute * MINUTE)
    assert spans is not None
    return spans


def starts(spans: Spans | None, codes: str, moment: datetime) -> dict[str, datetime | None]:
    found = with_starts([finding(one) for one in codes], spans, moment)
    return {one.code: one.since for one in found}


def test_a_finding_holds_since_the_first_snapshot_of_an_unbroken_span() -> None:
    spans = after(("a",), ("a", "b"), ("b",), ("a", "b"))
    now = NOON + 3 * MINUTE
    assert starts(spans, "ab", now) == {"a": now, "b": NOON + MINUTE}


def test_a_past_moment_has_its_own_starts() -> None:
    spans = after(("a",), ("a", "b"), ("b",), ("a", "b"))
    assert starts(spans, "ab", NOON + MINUTE) == {"a": NOON, "b": NOON + MINUTE}
    assert starts(spans, "ab", NOON - MINUTE) == {"a": None, "b": None}, "before the record"


def test_a_finding_new_in_the_next_snapshot_starts_with_it_and_after_a_gap_is_unknown() -> None:
    spans = after(("a",))
    assert starts(spans, "ab", NOON + MINUTE) == {"a": NOON, "b": NOON + MINUTE}
    later = NOON + MAX_GAP + MINUTE
    assert starts(spans, "ab", later) == {"a": NOON, "b": None}
    assert starts(None, "a", NOON) == {"a": None}


def test_a_start_that_the_snapshot_has_is_the_start() -> None:
    own = NOON - timedelta(hours=5)
    spans = carried_on(None, [finding("a", since=own)], NOON)
    assert starts(spans, "a", NOON) == {"a": own}
    (shown,) = with_starts([finding("a", since=own)], after(("a",)), NOON)
    assert shown.since == own


def test_the_same_snapshot_twice_changes_nothing_and_old_ends_are_dropped() -> None:
    spans = after(("a",), ())
    assert carried_on(spans, [finding("x")], NOON + MINUTE) is spans
    assert len(spans.spans) == 1
    assert carried_on(spans, [], NOON + ENDED_FOR + 2 * MINUTE).spans == ()


def test_subjects_are_apart() -> None:
    spans = carried_on(None, [finding("a", "n1")], NOON)
    spans = carried_on(spans, [finding("a", "n1"), finding("a", "n2")], NOON + MINUTE)
    found = with_starts([finding("a", "n1"), finding("a", "n2")], spans, NOON + MINUTE)
    assert [one.since for one in found] == [NOON, NOON + MINUTE]


def test_the_history_moves_starts_back_as_far_as_a_finding_is_unbroken() -> None:
    spans = after(("a", "b", "c"))
    first = NOON - timedelta(hours=2)

    def findings_at(moment: datetime) -> tuple[datetime, list[Finding]]:
        age = NOON - moment
        codes = ["a"] + (["b"] if age <= 5 * MINUTE else []) + (["c"] if age >= 5 * MINUTE else [])
        return moment, [finding(one) for one in codes]

    open_ = [(one.code, one.subject) for one in spans.spans]
    found = with_history(spans, looked_back(open_, first, NOON, findings_at), first)
    assert starts(found, "abc", NOON) == {
        "a": NOON - 90 * MINUTE,
        "b": NOON - 5 * MINUTE,
        "c": NOON,
    }
    assert looked_back(open_, NOON, NOON, findings_at) == {}, "no older minute"


def test_spans_are_stored_and_a_damaged_file_is_none(tmp_path: Path) -> None:
    config = TrimtabConfig.model_validate(
        {"clusters": [{"name": "c", "zookeeper": "z:1"}], "state_dir": tmp_path}
    )
    assert read_spans(config, "c") is None
    spans = after(("a",), ("b",))
    write_spans(config, "c", spans)
    assert read_spans(config, "c") == spans
    assert spans_path(config, "c").stat().st_mode & 0o077 == 0
    for damaged in (b"{", b"[1]", msgspec.json.encode({"spans": 3})):
        spans_path(config, "c").write_bytes(damaged)
        assert read_spans(config, "c") is None
