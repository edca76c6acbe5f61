"""Answers of operations for pages: each once a saved snapshot and request."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextvars import ContextVar
from typing import Any, Final, TypeVar

from core.facts import NOTHING_ASSUMED, Assumed, facts_module, facts_of
from core.operations.operation import Answer, Operation
from core.progress import Deadline, NoProgress, Progress
from core.request import Request
from core.snapshot.store import CachedSnapshot, load_manifest
from dashboard import services
from dashboard.queries.cache import cached
from dashboard.queries.pegasus.snapshots import pegasus_reading
from dashboard.queries.pulsar.snapshots import reading

A = TypeVar("A", bound=Answer)
R = TypeVar("R", bound=Request)
MAX_ANSWERS: Final = 64

_UNTIL_S: ContextVar[float | None] = ContextVar("until_s", default=None)


_Assumed = tuple[tuple[tuple[str, object], ...], str | None]


def facts_of_stored(
    stored: CachedSnapshot, assumed: Assumed, operation: Operation[Any, Any] | None = None
) -> Any:
    """Return the facts of a saved snapshot; without assumptions they are computed once.

    Args:
        stored: The snapshot.
        assumed: Settings and release instead of the cluster's own.
        operation: If given, the facts have the earlier snapshots that it needs.
    """
    kind = load_manifest(stored.path)[1].kind
    facts: Any = reading(stored) if kind == "pulsar" else pegasus_reading(stored).facts
    earlier = earlier_of(stored, kind, operation) if operation else ()
    if assumed.settings or assumed.release or earlier:
        load = facts_module(kind).load
        return facts_of(facts.snapshot, assumed, [load(one.path) for one in earlier])
    return facts


def earlier_of(
    stored: CachedSnapshot, kind: str, operation: Operation[Any, Any]
) -> Sequence[CachedSnapshot]:
    """Return the saved snapshots before one that an operation needs, oldest first.

    Args:
        stored: The snapshot.
        kind: System of its cluster.
        operation: The operation.
    """
    if kind not in operation.reads_earlier:
        return ()
    store = services.snapshot_store(services.page_config())
    cluster = load_manifest(stored.path)[1].cluster
    return store.earlier(cluster, stored.taken_at, operation.reads_earlier[kind])


def _answered(key: tuple[CachedSnapshot, Operation[Any, Any], Request, _Assumed]) -> Any:
    stored, operation, request, (settings, release) = key
    facts = facts_of_stored(stored, Assumed(dict(settings), release), operation)
    until_s = _UNTIL_S.get()
    progress: Progress = NoProgress() if until_s is None else Deadline(until_s)
    return operation.answer(facts, request, progress)


_answers = cached(_answered, max_entries=MAX_ANSWERS)


def answer_of(
    stored: CachedSnapshot,
    operation: Operation[R, A],
    request: R,
    assumed: Assumed = NOTHING_ASSUMED,
    *,
    within_s: float | None = None,
) -> A:
    """Return the answer of a saved snapshot.

    Args:
        stored: The snapshot.
        operation: The operation.
        request: The request; equal requests share an answer.
        assumed: Settings and release instead of the cluster's own.
        within_s: Time for the computation; ``None``: no limit. It ends after the part in progress.
    Raises:
        OpsError: It cannot be answered.
        TooLongError: Not within the time.
    """
    settings = tuple((assumed.settings or {}).items())
    limit = _UNTIL_S.set(None if within_s is None else time.monotonic() + within_s)
    try:
        answer: A = _answers((stored, operation, request, (settings, assumed.release)))
    finally:
        _UNTIL_S.reset(limit)
    return answer
