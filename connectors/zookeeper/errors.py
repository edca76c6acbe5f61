"""kazoo's exceptions to ours, at the border."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from kazoo import exceptions as kazoo
from kazoo.handlers.threading import KazooTimeoutError

from connectors.transport import deadline
from core.errors import (
    AuthError,
    ConflictError,
    GivenUpError,
    NotFoundError,
    ProtocolError,
    RemoteError,
    RemoteTimeoutError,
    ServerError,
    ThrottledError,
    UnreachableError,
)

_HINT_CONNECTION: Final = "Check that ZooKeeper runs and is reachable from this machine."
_HINT_AUTH: Final = "Set zookeeper_auth in the configuration, or grant Trimtab read access."

KINDS: Final[dict[type[RemoteError], tuple[type[BaseException], ...]]] = {
    AuthError: (
        kazoo.NoAuthError,
        kazoo.AuthFailedError,
        kazoo.InvalidACLError,
        kazoo.SessionClosedRequireSaslError,
    ),
    NotFoundError: (kazoo.NoNodeError, kazoo.NoWatcherError),
    ConflictError: (
        kazoo.NodeExistsError,
        kazoo.BadVersionError,
        kazoo.NotEmptyError,
        kazoo.NoChildrenForEphemeralsError,
        kazoo.RolledBackError,
        kazoo.ReconfigInProcessError,
        kazoo.ReconfigDisabledError,
        kazoo.NewConfigNoQuorumError,
        kazoo.EphemeralOnLocalSessionError,
        kazoo.QuotaExceededError,
        kazoo.NotReadOnlyCallError,
    ),
    RemoteTimeoutError: (
        KazooTimeoutError,
        kazoo.OperationTimeoutError,
        kazoo.RequestTimeoutError,
    ),
    ThrottledError: (kazoo.ThrottledOpError,),
    UnreachableError: (
        kazoo.ConnectionLoss,
        kazoo.ConnectionClosedError,
        kazoo.SessionExpiredError,
        kazoo.SessionMovedError,
        kazoo.UnknownSessionError,
        kazoo.CancelledError,
        kazoo.ZookeeperStoppedError,
        OSError,
    ),
    ProtocolError: (
        kazoo.MarshallingError,
        kazoo.UnimplementedError,
        kazoo.BadArgumentsError,
        kazoo.InvalidCallbackError,
        kazoo.APIError,
        ValueError,
    ),
    ServerError: (
        kazoo.SystemZookeeperError,
        kazoo.RuntimeInconsistency,
        kazoo.DataInconsistency,
    ),
}
"""What each class of kazoo that a server's answer can become is to us."""


ENDED: Final = (kazoo.KazooException, KazooTimeoutError, deadline.GivenUpError)
"""What a wait for an answer ends with, when it does not come."""
_OF_FAULTS: Final = (UnreachableError, RemoteTimeoutError, ProtocolError)


def kind_of(exc: BaseException) -> type[RemoteError] | None:
    """Return our class for one of kazoo's, ``None`` for one that is not in the table."""
    return next((ours for ours, theirs in KINDS.items() if isinstance(exc, theirs)), None)


@dataclass(frozen=True, slots=True)
class Fault:
    """Protocol fault of a server.

    Attributes:
        what: The rest of a sentence that begins with the server.
        hint: One sentence.
    """

    what: str
    hint: str = "Check that a ZooKeeper server listens there."

    def error(self, endpoint: str, operation: str) -> ProtocolError:
        """Return the error that names it."""
        return ProtocolError(
            f"{endpoint} {self.what}.",
            endpoint=endpoint,
            operation=operation,
            outcome="unknown",
            hint=self.hint,
        )


def translate(
    exc: BaseException, *, endpoint: str, operation: str, fault: Fault | None = None
) -> RemoteError:
    """Return our error for one of kazoo's; whatever it is, it becomes a :class:`RemoteError`.

    Args:
        endpoint: ZooKeeper.
        operation: What was requested.
        fault: What the server did before: a broken connection comes of it, then.
    """
    if isinstance(exc, deadline.GivenUpError):
        return GivenUpError.at(endpoint, operation)
    kind = kind_of(exc) or ProtocolError
    if fault is not None and kind in _OF_FAULTS:
        return fault.error(endpoint, operation)
    words = {
        AuthError: "denies access",
        NotFoundError: "does not have this znode",
        ConflictError: "refused the request in its current state",
        RemoteTimeoutError: "did not respond in time",
        UnreachableError: "cannot be reached, or the connection broke",
        ServerError: "failed with an internal error",
        ThrottledError: "is throttling",
    }
    name = type(exc).__name__
    what = words.get(kind, f"returned {name}")
    hints = {
        AuthError: _HINT_AUTH,
        UnreachableError: _HINT_CONNECTION,
        RemoteTimeoutError: _HINT_CONNECTION,
    }
    return kind(
        f"{endpoint} {what} ({name}).",
        endpoint=endpoint,
        operation=operation,
        outcome="unknown" if kind in (RemoteTimeoutError, UnreachableError) else "refused",
        hint=hints.get(kind, ""),
    )
