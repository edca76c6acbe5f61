"""pulsar-client's exceptions to ours, at the border; by name, for the package is an extra."""

from __future__ import annotations

from typing import Final

from core.errors import (
    AuthError,
    ConflictError,
    NotFoundError,
    ProtocolError,
    RemoteError,
    RemoteTimeoutError,
    ServerError,
    ThrottledError,
    UnreachableError,
)

KINDS: Final[dict[type[RemoteError], frozenset[str]]] = {
    AuthError: frozenset(
        {"AuthenticationError", "AuthorizationError", "ErrorGettingAuthenticationData"}
    ),
    NotFoundError: frozenset(
        {
            *("TopicNotFound", "ConsumerNotFound", "SubscriptionNotFound"),
            *("TransactionNotFound", "TransactionCoordinatorNotFoundError"),
        }
    ),
    ConflictError: frozenset(
        {
            *("ConsumerBusy", "ProducerBusy", "ProducerFenced", "TopicTerminated"),
            *("TransactionConflict", "NotAllowedError", "OperationNotSupported"),
            *("CumulativeAcknowledgementNotAllowedError", "InvalidTxnStatusError"),
        }
    ),
    RemoteTimeoutError: frozenset({"Timeout"}),
    ThrottledError: frozenset(
        {
            *("TooManyLookupRequestException", "ProducerBlockedQuotaExceededError"),
            *("ProducerBlockedQuotaExceededException", "ProducerQueueIsFull", "MemoryBufferIsFull"),
        }
    ),
    UnreachableError: frozenset(
        {
            *("ConnectError", "NotConnected", "AlreadyClosed", "Interrupted", "LookupError"),
            *("ConsumerNotInitialized", "ProducerNotInitialized", "ReadError"),
        }
    ),
    ServerError: frozenset(
        {
            *("BrokerMetadataError", "BrokerPersistenceError", "ServiceUnitNotReady"),
            *("ConsumerAssignError", "UnknownError", "PulsarException"),
        }
    ),
    ProtocolError: frozenset(
        {
            *("ChecksumError", "CryptoError", "IncompatibleSchema", "InvalidConfiguration"),
            *("InvalidMessage", "InvalidTopicName", "InvalidUrl", "MessageTooBig"),
            *("UnsupportedVersionError",),
        }
    ),
}
"""What each of the package's classes is to us."""

_WORDS: Final = {
    AuthError: "does not let us read it",
    NotFoundError: "does not have it",
    RemoteTimeoutError: "did not answer in time",
    UnreachableError: "cannot be reached, or the connection broke",
    ServerError: "failed by itself",
    ThrottledError: "asked to wait",
}
_HINTS: Final = {
    AuthError: "Give Trimtab's role the right to consume from pulsar/system.",
    UnreachableError: "Check that this machine may reach the brokers' service port.",
    RemoteTimeoutError: "Check that this machine may reach the brokers' service port.",
}


def kind_of(exc: BaseException) -> type[RemoteError] | None:
    """Return our class for one of the package's, ``None`` for one that is not in the table."""
    name = type(exc).__name__
    return next((ours for ours, theirs in KINDS.items() if name in theirs), None)


def translate(exc: BaseException, *, endpoint: str, operation: str) -> RemoteError:
    """Return our error for one of the package's; whatever it is, it becomes a RemoteError."""
    kind = kind_of(exc) or ProtocolError
    name = type(exc).__name__
    return kind(
        f"{endpoint} {_WORDS.get(kind, 'answered something else')} ({name}).",
        endpoint=endpoint,
        operation=operation,
        outcome="unknown" if kind in (RemoteTimeoutError, UnreachableError) else "refused",
        hint=_HINTS.get(kind, ""),
    )
