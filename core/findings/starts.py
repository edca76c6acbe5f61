"""Since when findings hold: spans of unbroken presence, carried on from snapshot to snapshot."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

import msgspec

from core.findings.finding import Finding
from core.units import datetime_to_ms, ms_to_datetime

Identity = tuple[str, str]
"""Code and subject: what stays the same from one snapshot to the next."""
Starts = Mapping[Identity, datetime]
"""By finding, since when it holds."""

MAX_GAP: Final = timedelta(minutes=15)
"""A finding that is new in a snapshot starts with it if the one before is not older than this."""
ENDED_FOR: Final = timedelta(hours=24)
"""How long the span of a finding that no longer holds is stored."""
MAX_SPANS: Final = 5_000
LOOK_BACK: Final = tuple(
    timedelta(minutes=one) for one in (1, 2, 5, 10, 20, 40, 90, 180, 360, 720, 1_440)
)
"""Ages of the recorded minutes that are examined where no spans are stored yet."""


class Span(msgspec.Struct, frozen=True, array_like=True):
    """Unbroken presence of a finding.

    Attributes:
        code: Of the finding.
        subject: Of the finding.
        start_ms: First snapshot with it.
        end_ms: First snapshot without it; ``None`` while it holds.
    """

    code: str
    subject: str
    start_ms: int
    end_ms: int | None = None


class Spans(msgspec.Struct, frozen=True):
    """Spans of the findings of a cluster.

    Attributes:
        looked_at_ms: Time of the newest examined snapshot.
        spans: Those that hold, and those that ended lately.
        history_from_ms: First recorded minute when the history was last examined for starts;
            ``None`` if it had none.
    """

    looked_at_ms: int
    spans: tuple[Span, ...] = ()
    history_from_ms: int | None = None

    def starts(self, moment: datetime) -> Starts:
        """Return since when each finding holds that held at a moment."""
        at = datetime_to_ms(moment)
        return {
            (one.code, one.subject): ms_to_datetime(one.start_ms)
            for one in self.spans
            if one.start_ms <= at and (one.end_ms is None or at < one.end_ms)
        }

    def is_before(self, moment: datetime) -> bool:
        """Return whether a snapshot is the next one, or one of the next few."""
        newest = ms_to_datetime(self.looked_at_ms)
        return newest < moment <= newest + MAX_GAP


def identity_of(finding: Finding) -> Identity:
    """Return the part of a finding that stays the same between snapshots."""
    return finding.code, finding.subject


def with_starts(
    findings: Iterable[Finding], spans: Spans | None, moment: datetime
) -> tuple[Finding, ...]:
    """Return findings with the time since when each holds; ``None`` stays where it is unknown.

    Args:
        findings: Of a snapshot; a start that the snapshot itself has is kept.
        spans: Stored spans of the cluster, if any.
        moment: Time of the snapshot.
    """
    if spans is None:
        return tuple(findings)
    known = spans.starts(moment)
    new = moment if spans.is_before(moment) else None
    return tuple(
        replace(one, since=one.since or known.get(identity_of(one), new)) for one in findings
    )


def carried_on(before: Spans | None, findings: Sequence[Finding], moment: datetime) -> Spans:
    """Return the spans after a snapshot.

    Args:
        before: The spans so far; ``None``: there are none.
        findings: Of the snapshot.
        moment: Time of the snapshot.
    """
    at = datetime_to_ms(moment)
    if before is None:
        before = Spans(at - 1)
    if before.looked_at_ms >= at:
        return before
    shown = {identity_of(one): one.since for one in findings}
    spans = [
        msgspec.structs.replace(one, end_ms=at)
        if one.end_ms is None and _key(one) not in shown
        else one
        for one in before.spans
    ]
    held = {_key(one) for one in spans if one.end_ms is None}
    spans += [
        Span(*key, at if since is None else datetime_to_ms(since))
        for key, since in shown.items()
        if key not in held
    ]
    oldest = at - int(ENDED_FOR.total_seconds() * 1000)
    recent = [one for one in spans if one.end_ms is None or one.end_ms >= oldest]
    return msgspec.structs.replace(before, looked_at_ms=at, spans=tuple(recent[-MAX_SPANS:]))


def with_history(spans: Spans, starts: Starts, history_from: datetime) -> Spans:
    """Return the spans that hold with the starts by the history, where those are earlier.

    Args:
        spans: The spans.
        starts: By finding, of :func:`looked_back`.
        history_from: First recorded minute.
    """
    known = {key: datetime_to_ms(start) for key, start in starts.items()}
    earlier = tuple(
        msgspec.structs.replace(one, start_ms=min(one.start_ms, known.get(_key(one), one.start_ms)))
        if one.end_ms is None
        else one
        for one in spans.spans
    )
    from_ms = datetime_to_ms(history_from)
    return msgspec.structs.replace(spans, spans=earlier, history_from_ms=from_ms)


def _key(span: Span) -> Identity:
    return span.code, span.subject


def looked_back(
    identities: Iterable[Identity],
    first: datetime,
    moment: datetime,
    findings_at: Callable[[datetime], tuple[datetime, Iterable[Finding]]],
) -> Starts:
    """Return the starts of findings by the history, to the resolution of :data:`LOOK_BACK`.

    Args:
        identities: Findings of the snapshot of the moment.
        first: First recorded minute.
        moment: Time of the snapshot.
        findings_at: Returns the recorded minute at or before a moment, with its findings.
    """
    going = set(identities)
    starts: dict[Identity, datetime] = {}
    for age in LOOK_BACK:
        if not going or moment - age < first:
            break
        at, held = findings_at(moment - age)
        going &= {identity_of(one) for one in held}
        starts.update(dict.fromkeys(going, at))
    return starts
