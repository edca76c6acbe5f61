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

from core.access import Access, Identity, Role, highest
from core.actions.events import (
    ControlRequested,
    EntriesArchived,
    Entry,
    Record,
    RunDecided,
    RunRequested,
    canonical,
)
from core.actions.model import Refusal, RunId
from core.errors import ForbiddenError
from core.plan.model import Plan

Request = RunRequested | ControlRequested | RunDecided
"""What people write into the journal."""


def needed_role(plan: Plan) -> Role:
    """Return the role that a person needs to have a plan executed: the highest of its steps."""
    return highest(step.role for step in plan.steps)


def needed_roles(plan: Plan, *, is_balancer_paused: bool = False) -> dict[str | None, Role]:
    """Return the role that each part of a cluster needs to have a plan executed.

    Args:
        plan: Of which every step counts that changes something.
        is_balancer_paused: The run pauses the cluster's own balancer.
    Returns:
        By namespace or table; ``None`` for the whole cluster, for steps that belong to neither.
    """
    found: dict[str | None, Role] = {None: "operator"} if is_balancer_paused else {}
    for step in plan.steps:
        if step.wait is None:
            for name in step.scopes or (None,):
                found[name] = highest((step.role, found.get(name, "viewer")))
    return found or {None: needed_role(plan)}


def plan_refusal(
    access: Access,
    identity: Identity,
    plan: Plan,
    cluster: str,
    action: str = "apply this plan",
    *,
    role: Role | None = None,
    is_balancer_paused: bool = False,
) -> tuple[str, str] | None:
    """Return the refusal of an execution and its hint, or ``None`` if the person is allowed.

    Args:
        access: The roles.
        identity: The person.
        plan: Every namespace and table that it changes must be in the scope of the role.
        cluster: Where it is executed.
        action: What is refused.
        role: Role that the action needs for every change; ``None`` for the role of the steps.
        is_balancer_paused: The run pauses the cluster's own balancer.
    """
    needed = needed_roles(plan, is_balancer_paused=is_balancer_paused)
    refusals = (
        access.refusal(identity, role or each, cluster, action, name)
        for name, each in needed.items()
    )
    return next((one for one in refusals if one is not None), None)


def check_plan(
    access: Access,
    identity: Identity,
    plan: Plan,
    cluster: str,
    action: str = "apply this plan",
    *,
    role: Role | None = None,
    is_balancer_paused: bool = False,
) -> None:
    """Check that a person may have a plan executed; see :func:`plan_refusal`.

    Raises:
        ForbiddenError: The person may not.
    """
    refused = plan_refusal(
        access, identity, plan, cluster, action, role=role, is_balancer_paused=is_balancer_paused
    )
    if refused is not None:
        raise ForbiddenError(refused[0], hint=refused[1])


def signed(record: Record, key: bytes) -> Record:
    """Return a record with the signature of its content, made with the installation's key."""
    event = msgspec.structs.replace(record.event, signature=_signature(record, key))
    return msgspec.structs.replace(record, event=event)


def refusal_of(
    record: Record,
    key: bytes,
    access: Access,
    approver: Role = "operator",
    plan_of: Callable[[RunId], Plan | None] = lambda _: None,
) -> Refusal | None:
    """Return the refusal of a journal entry, or ``None`` if it is valid.

    Args:
        record: A person's request, or what a worker wrote: of that only the signature counts.
        key: The installation's key.
        access: Roles as they are now, not as they were when it was requested.
        approver: Role of those who may approve runs of the cluster.
        plan_of: Returns the plan of a run, for requests that refer to one; ``None`` if unknown, and
            the role must be for the whole cluster.
    """
    event = record.event
    if not isinstance(event, Request):
        return None if is_genuine(record, key) else _not_signed("entry", record)
    identity = event.identity
    if identity is None or not is_genuine(record, key):
        return _not_signed("request", record)
    if isinstance(event, RunRequested):
        refused = plan_refusal(
            access,
            identity,
            event.plan,
            record.cluster,
            is_balancer_paused=event.options.pause_balancer,
        )
    else:
        role, action = _needed(event, approver)
        refused = access.refusal(identity, role, record.cluster, action)
        if refused is not None and access.has_scopes:
            plan = plan_of(record.run_id)
            if plan is not None:
                refused = plan_refusal(access, identity, plan, record.cluster, action, role=role)
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


def _needed(event: ControlRequested | RunDecided, approver: Role) -> tuple[Role, str]:
    """Return the role that a request needs, and what it asks for."""
    match event:
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
    """Return the signature of a plan file made here: its id, sealed with the installation's key."""
    text = b"plan\n" + plan.plan_id.encode("ascii")
    return hmac.new(key, text, hashlib.sha256).hexdigest()
