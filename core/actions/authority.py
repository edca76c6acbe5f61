"""Entries that cannot be forged: each is signed with the installation's key.

A journal is a database that several programs may reach. What people request in it (a run, a
control) carries who requested it and a signature over the whole record; the worker recomputes it
before it obeys. What workers write is signed, too: a run goes on from it, and restores what it says
a setting was. So a row written past the action layer, or under another name, has no effect: neither
does it begin a run, nor does it end one.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Iterable

import msgspec

from core.access import Access, Role, highest
from core.actions.events import (
    ControlRequested,
    EntriesArchived,
    Entry,
    Record,
    RunDecided,
    RunRequested,
    canonical,
)
from core.actions.model import Refusal
from core.plan.model import Plan

Request = RunRequested | ControlRequested | RunDecided
"""What people write into the journal."""


def needed_role(plan: Plan) -> Role:
    """Return the role that a person needs to have a plan executed: the highest of its steps."""
    return highest(step.role for step in plan.steps)


def signed(record: Record, key: bytes) -> Record:
    """Return a record with the signature of its content, made with the installation's key."""
    event = msgspec.structs.replace(record.event, signature=_signature(record, key))
    return msgspec.structs.replace(record, event=event)


def refusal_of(
    record: Record, key: bytes, access: Access, approver: Role = "operator"
) -> Refusal | None:
    """Return why an entry of the journal is not obeyed; ``None``: it is.

    Args:
        record: A person's request, or what a worker wrote: of that only the signature counts.
        key: The installation's key.
        access: Roles as they are now, not as they were when it was requested.
        approver: Role of those who may approve runs of the cluster.
    """
    event = record.event
    if not isinstance(event, Request):
        return None if is_genuine(record, key) else _not_signed("entry", record)
    identity = event.identity
    if identity is None or not is_genuine(record, key):
        return _not_signed("request", record)
    role, action = _needed(event, approver)
    refused = access.refusal(identity, role, record.cluster, action)
    if refused is None:
        return None
    return Refusal(code="forbidden", sentence=refused[0], hint=refused[1])


def _not_signed(what: str, record: Record) -> Refusal:
    return Refusal(
        code="not_signed",
        sentence=f"The {what} of {record.actor} does not have this installation's signature.",
        hint="Request it again with `trimtab` or on the pages. Machines that share a journal "
        "must share key_file under [access].",
    )


def is_genuine(record: Record, key: bytes) -> bool:
    """Return whether a record has this installation's signature, and of a person their own name.

    Args:
        record: Of any event.
        key: The installation's key.
    """
    event = record.event
    if isinstance(event, Request | EntriesArchived) and (
        event.identity is None or event.identity.name != record.actor
    ):
        return False
    # as bytes: texts that are not ASCII cannot be compared
    found = event.signature.encode("utf-8", "surrogatepass")
    return hmac.compare_digest(found, _signature(record, key).encode())


def _needed(event: Request, approver: Role) -> tuple[Role, str]:
    """Return the role that a request needs, and what it asks for."""
    match event:
        case RunRequested():
            return needed_role(event.plan), "apply this plan"
        case ControlRequested():
            return "operator", f"{event.control} runs"
        case RunDecided():
            return approver, "approve runs"


def obeyed(
    entries: Iterable[Entry],
    refusal_of: Callable[[Record], Refusal | None],
    *,
    is_requested: bool = False,
) -> list[Entry]:
    """Return the entries of a run without the forged ones, and without what people may not ask.

    Its request stays: a run that may not be requested is refused, with the reason.

    Args:
        entries: Of the run, in order.
        refusal_of: See :func:`refusal_of`.
        is_requested: The request is among those that were read before.
    """
    found: list[Entry] = []
    for entry in entries:
        is_first = not found and not is_requested
        is_request = is_first and isinstance(entry.record.event, RunRequested)
        if is_request or entry.damage or not (entry.forged or refusal_of(entry.record)):
            found.append(msgspec.structs.replace(entry, forged="") if is_request else entry)
    return found


def _signature(record: Record, key: bytes) -> str:
    event = msgspec.structs.replace(record.event, signature="")
    text = canonical(msgspec.structs.replace(record, event=event))
    return hmac.new(key, b"request\n" + text.encode("ascii"), hashlib.sha256).hexdigest()


def plan_signature(plan: Plan, key: bytes) -> str:
    """Return what a plan file made here carries: its id, sealed with the installation's key."""
    text = b"plan\n" + plan.plan_id.encode("ascii")
    return hmac.new(key, text, hashlib.sha256).hexdigest()
