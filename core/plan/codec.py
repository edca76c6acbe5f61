"""Plan files: JSON that reads back as the same plan, with the same id, or is refused."""

from __future__ import annotations

import json
from datetime import UTC
from pathlib import Path
from typing import Any, Final

import msgspec

from core.bounds import TooLargeError, checked_json, read_file
from core.errors import UnusablePlanError
from core.plan.model import FORMAT_VERSION, Plan, content_hash
from core.plan.registry import StepRegistry

_AGAIN = "Create a new plan from a fresh snapshot."


_SIGNATURE: Final = "signature"
"""Key of a plan file that is not part of the plan: who made the file."""


def dump_plan(plan: Plan, signature: str = "") -> bytes:
    """Return the plan as indented JSON, UTF-8, with a line end.

    Args:
        signature: Of the installation that makes the file; see
            :func:`core.actions.authority.plan_signature`.
    """
    content = msgspec.to_builtins(plan) | ({_SIGNATURE: signature} if signature else {})
    return msgspec.json.format(msgspec.json.encode(content), indent=2) + b"\n"


def signature_of(content: bytes) -> str:
    """Return the signature in the content of a plan file that :func:`load_plan` reads, or ""."""
    found = msgspec.json.decode(content).get(_SIGNATURE, "")
    return found if isinstance(found, str) and found.isascii() else ""


def load_plan(source: bytes | Path, steps: StepRegistry, place: str = "") -> Plan:
    """Read a plan.

    Args:
        source: The file's content, or where it is.
        steps: The kinds of steps that it may hold.
        place: What messages name; empty: where it is.
    Raises:
        UnusablePlanError: It cannot be read, is damaged, has another format version, or its id is
            not the hash of its content; the message names it.
    """
    place = place or (str(source) if isinstance(source, Path) else "The plan")
    raw = source if isinstance(source, bytes) else read_plan_file(source)
    try:
        content = msgspec.json.decode(checked_json(raw))
        json.loads(raw, object_pairs_hook=_once)
    except (msgspec.MsgspecError, ValueError, RecursionError) as exc:
        raise UnusablePlanError(f"{place} is not JSON: {exc}.", hint=_AGAIN) from exc
    except _TwiceError as exc:
        raise UnusablePlanError(f"{place} has the key {exc.args[0]!r} twice.", hint=_AGAIN) from exc
    _check_version(content, place)
    content.pop(_SIGNATURE, None)
    try:
        plan = msgspec.convert(content, type=Plan, dec_hook=steps.decode)
    except msgspec.ValidationError as exc:
        raise UnusablePlanError(f"{place} is damaged{_place_and_fault(exc)}.", hint=_AGAIN) from exc
    _check_times(plan, place)
    if msgspec.json.decode(msgspec.json.encode(plan)) != content:
        raise UnusablePlanError(f"{place} has fields that are not part of a plan.", hint=_AGAIN)
    expected = content_hash(plan)
    if plan.plan_id != expected:
        raise UnusablePlanError(
            f"{place} was changed after it was made: its id is {plan.plan_id[:12] or 'empty'}, "
            f"but its content hashes to {expected[:12]}.",
            hint=_AGAIN,
        )
    return plan


def _place_and_fault(exc: msgspec.ValidationError) -> str:
    """Return the path and the fault of an invalid document.

    A step is decoded by itself, so msgspec names a path in two parts, the inner one first.
    """
    fault, *paths = str(exc).split(" - at `$")
    path = "".join(part.rstrip("`") for part in reversed(paths)).removeprefix(".")
    return f"{f' at {path}' if path else ''}: {fault[:1].lower()}{fault[1:]}"


class _TwiceError(Exception):
    """A name that an object has twice."""


def _once(pairs: list[tuple[str, Any]]) -> None:
    """Refuse an object that has a name twice: readers differ in which of the two they believe."""
    seen: set[str] = set()
    for name, _ in pairs:
        if name in seen:
            raise _TwiceError(name)
        seen.add(name)


def read_plan_file(source: Path) -> bytes:
    """Return the content of a plan file; a pipe has it only once.

    Raises:
        UnusablePlanError: It cannot be read, or is too large for a plan.
    """
    try:
        return read_file(source)
    except TooLargeError as exc:
        raise UnusablePlanError(f"{source} is not a plan: {exc}.", hint=_AGAIN) from exc
    except OSError as exc:
        raise UnusablePlanError(
            f"{source} cannot be read: {exc.strerror}.",
            hint="Specify a file written by `trimtab unload ... --plan FILE`.",
        ) from exc


def _check_version(content: Any, place: str) -> None:
    if not isinstance(content, dict) or "plan_id" not in content:
        raise UnusablePlanError(f"{place} is not a Trimtab plan.", hint=_AGAIN)
    version = content.get("format_version")
    if version != FORMAT_VERSION:
        raise UnusablePlanError(
            f"{place} has plan format {version!r}; this version of Trimtab reads format "
            f"{FORMAT_VERSION}.",
            hint="Use the version of Trimtab that made it, or create a new plan.",
        )


def _check_times(plan: Plan, place: str) -> None:
    """Times without a zone would be compared wrongly later: refuse them here."""
    for name in ("taken_at", "created_at", "expires_at"):
        if getattr(plan, name).utcoffset() != UTC.utcoffset(None):
            raise UnusablePlanError(f"{place} is damaged: {name} is not in UTC.", hint=_AGAIN)
