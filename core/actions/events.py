"""What a journal holds: one entry an event, in order, each sealed by the hash of all before it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal

import msgspec

from core.access import Identity
from core.actions.model import Control, Observation, RunId, RunOptions, RunState, StepResult
from core.plan.model import Plan

FIRST_LINK: Final = "0" * 64
"""What the first entry of a journal names as the hash before it."""

RestoreResult = Literal["restored", "not_restored", "changed_by_others", "failed"]

RECORD_VERSION: Final = 2
"""Format of the records."""


class _Event(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag=True):
    """Base of all events; ``kind`` in JSON is the class name.

    ``signature``: see :mod:`core.actions.authority`; empty: it was not signed.
    """

    signature: str = ""


class RunRequested(_Event, frozen=True, kw_only=True):
    """A person requested that a plan is executed; ``undoes``: the run that it undoes.

    ``identity``: who, and how that was verified.
    """

    plan: Plan
    options: RunOptions
    reason: str
    undoes: RunId | None = None
    identity: Identity | None = None


class ControlRequested(_Event, frozen=True, kw_only=True):
    """A person requested to pause, resume or stop a run.

    ``identity``: who, and how that was verified.
    """

    control: Control
    reason: str = ""
    identity: Identity | None = None


class RunDecided(_Event, frozen=True, kw_only=True):
    """Another person approved or rejected a run that needs approval.

    ``identity``: who, and how that was verified.
    """

    is_approved: bool
    comment: str = ""
    identity: Identity | None = None


class RunClaimed(_Event, frozen=True, kw_only=True):
    """A worker took the run up, for the first time or after another one was lost."""

    worker: str
    lease: str
    is_takeover: bool = False


class RunRefused(_Event, frozen=True, kw_only=True):
    """A run that never began."""

    code: str
    sentence: str
    hint: str = ""


class RunPaused(_Event, frozen=True, kw_only=True):
    """No further step is begun until it is resumed."""

    sentence: str


class RunResumed(_Event, frozen=True, kw_only=True):
    """Steps are begun again."""

    sentence: str


class StepStarted(_Event, frozen=True, kw_only=True):
    """The intent: written before anything is sent. ``step``: place in the plan, from 0.

    ``is_paced``: it counts as a move, for the pace and for the moves of the day.
    """

    step: int
    observed: Observation
    is_paced: bool = True


class StepWaiting(_Event, frozen=True, kw_only=True):
    """A step whose turn it is waits for its precondition; ``sentence``: how far it is."""

    step: int
    sentence: str


class StepEnded(_Event, frozen=True, kw_only=True):
    """The result of a step. ``is_reconciled``: observed later, after UNKNOWN or a crash.

    ``took_ms``: from the intent to the visible effect.
    """

    step: int
    result: StepResult
    is_reconciled: bool = False
    took_ms: float | None = None


class StepReopened(_Event, frozen=True, kw_only=True):
    """A step that had ended is pending again: its effect is gone, or its request was lost.

    ``sentence``: why. What follows is another attempt with its own intent and result.
    """

    step: int
    sentence: str


class SettingSaved(_Event, frozen=True, kw_only=True):
    """The intent to change a setting for the run; ``before`` is ``None`` without a dynamic value.

    Saved again while it is outstanding, it keeps its first value. ``sentence``: why again.
    """

    key: str
    before: str | None
    during: str
    sentence: str = ""


class SettingChanged(_Event, frozen=True, kw_only=True):
    """The setting has been changed."""

    key: str


class SettingRestored(_Event, frozen=True, kw_only=True):
    """Final value of a temporary setting; the next worker retries ``failed``.

    ``not_restored``: on purpose, because restoring it would freeze the cluster.
    """

    key: str
    result: RestoreResult
    sentence: str


class ExternalMove(_Event, frozen=True, kw_only=True):
    """An external change: a bundle, or a partition, moved during the run, and not by it.

    ``subject``: the bundle, or the partition's gpid. For a partition, ``source`` and
    ``destination`` are the nodes between which its primary moved; otherwise the node that left it
    and the node that joined it.
    """

    subject: str
    source: str | None
    destination: str | None
    sentence: str


class PurposeChecked(_Event, frozen=True, kw_only=True):
    """Result of the purpose check, read from the cluster after the last step.

    Attributes:
        purpose: The clause that is to hold: ``n1:34801 holds no replicas``.
        holds: ``None`` if the cluster could not be read.
        sentence: What does not hold, or why that is unknown; empty: it holds.
    """

    purpose: str
    holds: bool | None
    sentence: str = ""


class RunEnded(_Event, frozen=True, kw_only=True):
    """The end: ``DONE``, ``STOPPED`` or ``FAILED``."""

    state: RunState
    sentence: str


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """One broker after a run: usage 0..1 and throughput in bytes/s; ``None`` if unknown."""

    broker: str
    usage_ratio: float | None
    throughput_bytes_per_s: float | None


class MeasuredNode(msgspec.Struct, frozen=True, kw_only=True):
    """One node with replicas after a run: partitions that it leads, and that it serves."""

    node: str
    primaries: int
    replicas: int


class RunMeasured(_Event, frozen=True, kw_only=True):
    """The result, read from a snapshot some time after the end.

    ``usage_deviation``, ``throughput_deviation``: ``(max - mean) / mean`` over the brokers;
    ``nodes`` instead where there are replicas.
    ``disturbed_by``: another run that began a step between the end and the snapshot: what is
    measured is not this run's doing alone.
    ``unassigned``: bundles with topics that the run took from their owners and that no broker
    owns; ``None`` if the snapshot does not show it.
    """

    snapshot_id: str
    taken_at: datetime
    usage_deviation: float | None
    throughput_deviation: float | None
    brokers: tuple[Measured, ...] = ()
    disturbed_by: RunId | None = None
    nodes: tuple[MeasuredNode, ...] = ()
    unassigned: tuple[str, ...] | None = None


class EntriesArchived(_Event, frozen=True, kw_only=True):
    """An admin moved the oldest entries, whole runs, from the journal to a file.

    It is of no run and of no cluster: both are empty in its record. The journal begins behind
    entry ``last``, whose hash is ``digest``.

    Attributes:
        first: Place of the first entry that was moved.
        last: Place of the last one.
        digest: Its hash.
        file: Name of the file, without its folder.
        sha256: Of the file's content, hexadecimal.
        reason: Why.
        identity: See :mod:`core.actions.authority`.
    """

    first: int
    last: int
    digest: str
    file: str
    sha256: str
    reason: str = ""
    identity: Identity | None = None


Event = (
    RunRequested
    | ControlRequested
    | RunDecided
    | RunClaimed
    | RunRefused
    | RunPaused
    | RunResumed
    | StepWaiting
    | StepStarted
    | StepEnded
    | StepReopened
    | SettingSaved
    | SettingChanged
    | SettingRestored
    | ExternalMove
    | PurposeChecked
    | RunEnded
    | RunMeasured
    | EntriesArchived
)
"""Every event there is."""


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """An event with who, where and when; ``at`` aware UTC. ``actor``: a person or a worker."""

    format_version: int = RECORD_VERSION

    run_id: RunId
    cluster: str
    at: datetime
    actor: str
    event: Event


class Entry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A record in its place in the journal.

    Attributes:
        seq: From 1, without gaps.
        record: What happened.
        previous: Hash of the entry before.
        digest: Hash of this entry: SHA-256 over the previous hash and the record's canonical JSON.
        damage: Why it is not the entry that was written; empty: it is.
        forged: Why it has no effect on a run whose request is genuine; empty: it has.
    """

    seq: int
    record: Record
    previous: str
    digest: str
    damage: str = ""
    forged: str = ""


_SEEN_LATER: Final = {"topics": None, "clients": None}
_ADDED_LATER: Final[Mapping[tuple[str, ...], Mapping[str, Any]]] = {
    (): {"unassigned": None},
    ("identity",): {"subject": ""},
    ("options",): {"max_unassigned": 1},
    ("observed",): _SEEN_LATER,
    ("result", "after"): _SEEN_LATER,
}
"""Fields of events, by where they are, that came after format 2, with what older records mean."""


def canonical(record: Record) -> str:
    """Return the record as the JSON that is hashed and stored: sorted keys, no blanks, ASCII.

    A field that came later is left out while it has the value that older records mean, so that
    these keep their text, and with it their signature.
    """
    content: dict[str, Any] = msgspec.to_builtins(record)
    for place, defaults in _ADDED_LATER.items():
        part: Any = content["event"]
        for name in place:
            part = part.get(name) if isinstance(part, dict) else None
        if isinstance(part, dict):
            for name, default in defaults.items():
                if part.get(name, default) == default:
                    part.pop(name, None)
    return json.dumps(
        content, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False
    )


def link(previous: str, seq: int, text: str) -> str:
    """Return the hash that seals entry ``seq`` with canonical JSON ``text`` after ``previous``."""
    return hashlib.sha256(f"{previous}\n{seq}\n{text}".encode("ascii")).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryFilter:
    """Filter of journal entries; an omitted field matches everything.

    Attributes:
        run_id: Of one run.
        cluster: Name.
        actor: Who wrote it: a person as signed in, or a worker.
        kind: Name of an event, see :data:`core.actions.describe.KINDS`.
        since: Not before this, aware UTC.
        until: Not after this, aware UTC.
        after: Only entries behind this place.
    """

    run_id: str | None = None
    cluster: str | None = None
    actor: str | None = None
    kind: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    after: int = 0
