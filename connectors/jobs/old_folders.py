"""Reader of the queue's old form: a folder per job, with JSON files in it.

``<state_dir>/jobs/<id>/``: ``request.json``, ``status.json``, ``stop`` (an empty file: its end was
requested), ``answer.json`` and ``result/``. The queue imports them once and leaves the files alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from connectors.jobs.record import Answer, JobRequest, State, Status

Old = TypeVar("Old", bound=msgspec.Struct)
_ID: Final = re.compile(r"\d{8}T\d{9}-[0-9a-f]{6}\Z")


class _OldRequest(msgspec.Struct, kw_only=True):
    kind: str
    asked: dict[str, Any]
    actor: str
    asked_at: str


class _OldStatus(msgspec.Struct, kw_only=True):
    state: State = "queued"
    done: int = 0
    total: int = 0
    words: str = ""
    started_at: str = ""
    updated_at: str = ""
    ended_at: str | None = None
    rate_per_s: float | None = None
    eta_s: float | None = None
    error: dict[str, str] | None = None


def old_rows(home: Path) -> Iterator[dict[str, Any]]:
    """Yield a row for :data:`connectors.jobs.queue.JOBS` for each job in the old form.

    What is damaged is yielded as it is: readers of the row report it.

    Args:
        home: ``<state_dir>/jobs``.
    """
    try:
        names = sorted(path.name for path in home.iterdir() if path.is_dir())
    except OSError:  # there is no queue yet
        return
    for name in names:
        if _ID.match(name):
            yield _row(home / name)


def _row(folder: Path) -> dict[str, Any]:
    status_text = _text(folder / "status.json")
    is_stopping = (folder / "stop").exists()
    state: State
    if status_text is None:
        state = "stopped" if is_stopping else "queued"
        status_text = _encoded(Status(state=state))
    else:
        status = _decoded(status_text, _OldStatus)
        state = status.state if status else "failed"
        status_text = _converted(status_text, _OldStatus, _new_status)
    return {
        "id": folder.name,
        "state": state,
        "request": _converted(_text(folder / "request.json") or "", _OldRequest, _new_request),
        "status": status_text,
        "answer": _converted(text, Answer, lambda found: found)
        if (text := _text(folder / "answer.json")) is not None
        else None,
        "is_stopping": is_stopping,
    }


def _new_request(old: _OldRequest) -> JobRequest:
    return JobRequest(
        kind=old.kind, parameters=old.asked, actor=old.actor, requested_at=old.asked_at
    )


def _new_status(old: _OldStatus) -> Status:
    fields = msgspec.structs.asdict(old)
    return Status(activity=fields.pop("words"), **fields)


def _text(path: Path) -> str | None:
    try:
        return path.read_bytes().decode(errors="replace").replace("\0", "\N{REPLACEMENT CHARACTER}")
    except FileNotFoundError:
        return None
    except OSError as exc:
        return f"{path} cannot be read: {exc.strerror or exc}."


def _converted(text: str, kind: type[Old], new: Callable[[Old], msgspec.Struct]) -> str:
    old = _decoded(text, kind)
    return text if old is None else _encoded(new(old))


def _decoded(text: str, kind: type[Old]) -> Old | None:
    try:
        return msgspec.json.decode(text, type=kind)
    except (msgspec.MsgspecError, RecursionError):
        return None


def _encoded(value: msgspec.Struct) -> str:
    return msgspec.json.encode(value).decode()
