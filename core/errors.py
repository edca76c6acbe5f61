"""The one error tree of Trimtab: every error that a person may see starts here.

An error names the thing, the place and the remedy: ``message`` is one sentence that says what is
wrong and where, ``hint`` is one sentence that says how to fix it. ``code`` is stable, for scripts.

    OpsError
    |- InputError       the caller's fault: never retry
    |    ConfigError, SchemaError, UnknownNameError, ForbiddenError
    |- SnapshotError    the data's fault
    |    IncompleteSnapshotError
    |- PlanError        the plan's fault
    |    UnusablePlanError, PlanConflictError, GuardRefusedError
    |- RemoteError      an endpoint, an operation on it, and whether the operation may have happened
    |    UnreachableError, RemoteTimeoutError, GivenUpError, AuthError, NotFoundError,
    |    ConflictError, ThrottledError, ServerError, ProtocolError
    |- ComputeError     a job failed
    `- InvariantError   our own bug
"""

from __future__ import annotations

import bisect
import difflib
from collections.abc import Iterable
from typing import ClassVar, Literal

_NEIGHBOURS = 500
"""Names before and after the wanted one, in order, among which near ones are sought."""
_NEAR = 0.5

Outcome = Literal["not_sent", "refused", "unknown"]


class OpsError(Exception):
    """Base of every error of ours.

    Args:
        message: One sentence: what is wrong, and where.
        hint: One sentence: what to do about it; empty when there is nothing to do.
        context: Structured facts for logs; never a secret.
    """

    code: ClassVar[str] = "error"

    def __init__(self, message: str, *, hint: str = "", **context: object) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.context = context

    def __str__(self) -> str:
        return f"{self.message} {self.hint}".strip()

    def as_json(self) -> dict[str, str]:
        """Return ``{"code", "message", "hint"}``, what ``--json`` prints on failure."""
        return {"code": self.code, "message": self.message, "hint": self.hint}


class InputError(OpsError):
    """The request cannot be fulfilled; the same request again changes nothing."""

    code = "input"


class ConfigError(InputError):
    """The configuration is missing, unreadable or contradictory."""

    code = "config"


class SchemaError(InputError):
    """A table or a file does not have the declared form."""

    code = "schema"


class UnknownNameError(InputError):
    """A name that nothing has; the hint offers the nearest names there are."""

    code = "unknown_name"

    @classmethod
    def of(cls, kind: str, name: str, known: Iterable[str], *, place: str = "") -> UnknownNameError:
        """Build the error for ``name``, offering up to three near names out of ``known``."""
        choices = sorted(set(known))
        # comparing with 100,000 bundle names would take seconds: look among the neighbours
        at = bisect.bisect(choices, name)
        pool = choices[max(at - _NEIGHBOURS, 0) : at + _NEIGHBOURS]
        near = [
            one
            for one in difflib.get_close_matches(name, pool, n=3, cutoff=0.5)
            if is_near(*own_parts(name, one))
        ]
        if near:
            hint = f"Did you mean {' or '.join(near)}?"
        elif choices and len(choices) <= 12:
            hint = f"Available: {', '.join(choices)}."
        else:
            hint = "No similar name." if choices else ""
        where = f" in {place}" if place else ""
        return cls(f"No {kind} named {name!r}{where}.", hint=hint, kind=kind, name=name)


def own_parts(name: str, other: str) -> tuple[str, str]:
    """Return both names without what they share up to a slash: a common parent is not likeness."""
    slash = name.rfind("/") + 1
    while slash and not other.startswith(name[:slash]):
        slash = name.rfind("/", 0, slash - 1) + 1
    return name[slash:], other[slash:]


def is_near(name: str, other: str) -> bool:
    """Return whether a name may be a typo of the other."""
    return difflib.SequenceMatcher(None, name, other).ratio() > _NEAR


class ForbiddenError(InputError):
    """The person lacks the role that the action needs, or is not signed in."""

    code = "forbidden"


class SnapshotError(OpsError):
    """A snapshot that cannot answer the question."""

    code = "snapshot"


class IncompleteSnapshotError(SnapshotError):
    """The snapshot lacks a table or rows that the question needs."""

    code = "incomplete_snapshot"


class PlanError(OpsError):
    """A plan that cannot be used."""

    code = "plan"


class UnusablePlanError(PlanError):
    """The plan file is damaged, of another format version, or its hash does not fit."""

    code = "unusable_plan"


class PlanConflictError(PlanError):
    """The state that the plan was made on has moved."""

    code = "plan_conflict"


class NothingToUndoError(PlanConflictError):
    """Everything that a run changed is as before the run."""


class AlreadyAppliedError(PlanConflictError):
    """Another run carries this very plan out, or has done so."""

    code = "already_applied"


class GuardRefusedError(PlanError):
    """A guard forbids the step; the message names the limit, the value and the bound."""

    code = "guard_refused"


class RemoteError(OpsError):
    """Something at the other end of a connection went wrong.

    Args:
        message: One sentence.
        endpoint: Where: URL without credentials, or ``zookeeper host:port``.
        operation: The request, for example ``GET /admin/v2/brokers`` or ``read /loadbalance``.
        outcome: ``not_sent`` (safe to repeat), ``refused`` (it answered no), ``unknown`` (it may
        have
            happened).
        hint: One sentence.
    """

    code = "remote"

    def __init__(
        self,
        message: str,
        *,
        endpoint: str,
        operation: str,
        outcome: Outcome,
        hint: str = "",
        **context: object,
    ) -> None:
        super().__init__(message, hint=hint, endpoint=endpoint, operation=operation, **context)
        self.endpoint = endpoint
        self.operation = operation
        self.outcome: Outcome = outcome


class UnreachableError(RemoteError):
    """No connection could be made, or it broke."""

    code = "unreachable"


class UntrustedError(UnreachableError):
    """A TLS connection that one end does not trust: whoever answers there lives."""

    code = "tls"


class RemoteTimeoutError(RemoteError):
    """No answer in time."""

    code = "timeout"


class LateError(RemoteError):
    """A request was not sent: meanwhile another worker may have taken the cluster over."""

    code = "not_sent"

    @classmethod
    def at(cls, endpoint: str, operation: str) -> LateError:
        """Build the error."""
        return cls(
            f"{operation} was not sent to {endpoint}: this process was suspended, and another "
            "worker may have taken over.",
            endpoint=endpoint,
            operation=operation,
            outcome="not_sent",
            hint="Check the load of the machine that runs the worker.",
        )


class GivenUpError(RemoteError):
    """The answer was not waited for any more: the run was stopped, or this process ends."""

    code = "given_up"

    @classmethod
    def at(cls, endpoint: str, operation: str, outcome: Outcome = "unknown") -> GivenUpError:
        """Build the error."""
        return cls(
            f"{endpoint} did not finish {operation}: the wait was cancelled.",
            endpoint=endpoint,
            operation=operation,
            outcome=outcome,
        )


class AuthError(RemoteError):
    """Not authenticated, or not allowed."""

    code = "auth"


class NotFoundError(RemoteError):
    """The endpoint answered that the thing is not there."""

    code = "not_found"


class ConflictError(RemoteError):
    """The endpoint refused because of the state it is in."""

    code = "conflict"


class ThrottledError(RemoteError):
    """The endpoint throttles requests for a while."""

    code = "throttled"


class ServerError(RemoteError):
    """The endpoint failed by itself."""

    code = "server"


class ProtocolError(RemoteError):
    """The endpoint answered something that is not in its protocol."""

    code = "protocol"


class ComputeError(OpsError):
    """A job failed."""

    code = "compute"


class InvariantError(OpsError):
    """A bug of ours: caught only at the page boundary and shown with a report id."""

    code = "invariant"
