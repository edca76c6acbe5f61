"""Requests that cannot be forged: each is signed with the installation's key.

A journal is a database that several programs may reach. What people request in it (a run, a
control) carries who requested it and a signature over the whole record; the worker recomputes it
before it obeys, so that a row written past the action layer, or under another name, has no effect.
"""

from __future__ import annotations

import hashlib
import hmac

import msgspec

from core.access import Access, Role, highest
from core.actions.events import ControlRequested, Record, RunRequested, canonical
from core.actions.model import Refusal
from core.errors import InvariantError
from core.plan.model import Plan


def needed_role(plan: Plan) -> Role:
    """Return the role that a person needs to have a plan executed: the highest of its steps."""
    return highest(step.role for step in plan.steps)


def signed(record: Record, key: bytes) -> Record:
    """Return a request with the signature of its content.

    Args:
        record: Of a ``RunRequested`` or ``ControlRequested``.
        key: The installation's key.
    """
    event = msgspec.structs.replace(record.event, signature=_signature(record, key))
    return msgspec.structs.replace(record, event=event)


def refusal_of(record: Record, key: bytes, access: Access) -> Refusal | None:
    """Return why a request in the journal is not obeyed; ``None``: it is.

    Args:
        record: Of a ``RunRequested`` or ``ControlRequested``.
        key: The installation's key.
        access: Roles as they are now, not as they were when it was requested.
    """
    event = record.event
    if not isinstance(event, RunRequested | ControlRequested):
        raise InvariantError(f"{type(event).__name__} is no request of a person.")
    identity = event.identity
    is_genuine = hmac.compare_digest(event.signature, _signature(record, key))
    if identity is None or identity.name != record.actor or not is_genuine:
        return Refusal(
            code="not_signed",
            sentence=f"The request of {record.actor} does not have this installation's signature.",
            hint="Request it again with `trimtab` or on the pages. Machines that share a journal "
            "need one key: key_file under [access].",
        )
    if isinstance(event, RunRequested):
        role, action = needed_role(event.plan), "apply this plan"
    else:
        role, action = "operator", f"{event.control} runs"
    refused = access.refusal(identity, role, record.cluster, action)
    if refused is None:
        return None
    return Refusal(code="forbidden", sentence=refused[0], hint=refused[1])


def _signature(record: Record, key: bytes) -> str:
    event = msgspec.structs.replace(record.event, signature="")
    text = canonical(msgspec.structs.replace(record, event=event))
    return hmac.new(key, b"request\n" + text.encode("ascii"), hashlib.sha256).hexdigest()


def plan_signature(plan: Plan, key: bytes) -> str:
    """Return what a plan file made here carries: its id, sealed with the installation's key."""
    text = b"plan\n" + plan.plan_id.encode("ascii")
    return hmac.new(key, text, hashlib.sha256).hexdigest()
