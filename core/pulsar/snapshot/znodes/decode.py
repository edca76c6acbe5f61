"""Bytes to records: fast where the JSON is as it should be, field by field where it is not."""

from __future__ import annotations

import types
import typing
from functools import cache
from typing import Any, Final, TypeVar

import msgspec

from core.snapshot.problems import ProblemLog

T = TypeVar("T", bound=msgspec.Struct)
UNREADABLE: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
_LONGEST_SHOWN: Final = 60


@cache
def _decoder(kind: type[T]) -> msgspec.json.Decoder[T]:
    return msgspec.json.Decoder(kind)


def decode_record(kind: type[T], raw: bytes, place: str, problems: ProblemLog) -> T | None:
    """Return the record in ``raw``.

    A field that is not what it should be is ``None`` in the record and a problem in the log; the
    other fields stand.

    Args:
        kind: One of :mod:`core.pulsar.snapshot.znodes.records`.
        raw: JSON.
        place: Path or endpoint, for the problems.
        problems: Where to note what is wrong.
    Returns:
        The record, or ``None`` when ``raw`` is no JSON object at all (a problem then).
    """
    try:
        decoder: msgspec.json.Decoder[T] = _decoder(kind)
        return decoder.decode(raw)
    except UNREADABLE:
        pass
    try:
        value = msgspec.json.decode(raw)
    except UNREADABLE as exc:
        problems.add(
            "malformed",
            place,
            f"It is not JSON: {_reason(exc)}." if raw.strip() else "It is empty.",
            done="All of its content is unknown.",
            severity="error",
        )
        return None
    if not isinstance(value, dict):
        problems.add(
            "malformed",
            place,
            f"It is not a JSON object but {_shown(value)}.",
            done="All of its content is unknown.",
            severity="error",
        )
        return None
    return _salvage(kind, value, place, "", problems)


def _reason(exc: Exception) -> str:
    if isinstance(exc, RecursionError):
        return "it is nested too deeply"
    if isinstance(exc, UnicodeDecodeError):
        return "it is not UTF-8"
    return str(exc).rstrip(".")[:200]


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}..."


def _salvage(
    kind: type[T], value: dict[Any, Any], place: str, within: str, problems: ProblemLog
) -> T:
    """Return the record made of those fields that can be read."""
    hints = _hints(kind)
    decoded = {}
    for field in msgspec.structs.fields(kind):
        if field.encode_name in value:
            subject = f"{within}{field.encode_name}"
            decoded[field.name] = _field(
                hints[field.name], value[field.encode_name], place, subject, problems
            )
    return kind(**decoded)


@cache
def _hints(kind: type[msgspec.Struct]) -> dict[str, Any]:
    return typing.get_type_hints(kind, include_extras=True)


def _field(hint: Any, value: object, place: str, subject: str, problems: ProblemLog) -> Any:
    try:
        return msgspec.convert(value, hint)
    except UNREADABLE:
        pass
    inner = _inner(hint)
    if isinstance(value, dict) and isinstance(inner, type) and issubclass(inner, msgspec.Struct):
        return _salvage(inner, value, place, f"{subject}.", problems)
    if isinstance(value, dict) and typing.get_origin(inner) is dict:
        of = typing.get_args(inner)[1]
        return {
            key: _field(of, each, place, f"{subject}[{key}]", problems)
            for key, each in value.items()
        }
    problems.add(
        "malformed",
        place,
        f"Field {subject} has the value {_shown(value)}.",
        done="That field is unknown.",
        severity="error",
        subject=subject,
    )
    return None


def _inner(hint: Any) -> Any:
    """Return ``X`` of ``X | None``."""
    if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
        return next(each for each in typing.get_args(hint) if each is not type(None))
    return hint


def note_missing(
    record: msgspec.Struct, place: str, problems: ProblemLog, within: str = ""
) -> None:
    """Note each required field of ``record``, and of the records in it, that it does not have."""
    required = getattr(record, "required", ())
    for name, encode_name in _names(type(record)):
        value = getattr(record, name)
        if value is None and encode_name in required:
            problems.add(
                "missing",
                place,
                f"Field {within}{encode_name} is missing.",
                done="That field is unknown.",
                severity="error",
                subject=f"{within}{encode_name}",
            )
        elif isinstance(value, msgspec.Struct):
            note_missing(value, place, problems, f"{within}{encode_name}.")


@cache
def _names(kind: type[msgspec.Struct]) -> tuple[tuple[str, str], ...]:
    """Return each field's name and its JSON name."""
    return tuple((field.name, field.encode_name) for field in msgspec.structs.fields(kind))
