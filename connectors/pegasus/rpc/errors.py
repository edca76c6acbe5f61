"""Pegasus' error names to our errors."""

from __future__ import annotations

from typing import Final

from core.errors import (
    AuthError,
    ConflictError,
    NotFoundError,
    Outcome,
    ProtocolError,
    RemoteError,
    RemoteTimeoutError,
    ServerError,
    ThrottledError,
    UnreachableError,
)

OK: Final = "ERR_OK"
FORWARD: Final = "ERR_FORWARD_TO_OTHERS"
_Kind = tuple[type[RemoteError], Outcome, str]

_WAIT: Final = "Try again later."
_NAME: Final = "Check the name, and that the table was not dropped."
_STATE: Final = "Check the state, then decide again."
_KINDS: Final[dict[str, _Kind]] = {
    FORWARD: (UnreachableError, "refused", "No leading meta server; try again."),
    "ERR_OBJECT_NOT_FOUND": (NotFoundError, "refused", _NAME),
    "ERR_APP_NOT_EXIST": (NotFoundError, "refused", _NAME),
    "ERR_APP_DROPPED": (NotFoundError, "refused", _NAME),
    "ERR_PATH_NOT_FOUND": (NotFoundError, "refused", _NAME),
    "ERR_SERVICE_NOT_FOUND": (NotFoundError, "refused", _NAME),
    "ERR_CLUSTER_NOT_FOUND": (NotFoundError, "refused", _NAME),
    "ERR_LEARNER_NOT_FOUND": (NotFoundError, "refused", _STATE),
    "ERR_STATE_FREEZED": (
        ConflictError,
        "refused",
        "The function level does not allow it; raise the level.",
    ),
    "ERR_INVALID_PARAMETERS": (
        ConflictError,
        "refused",
        "The values do not match the partition, or a proposal for it is still pending.",
    ),
    "ERR_INVALID_STATE": (ConflictError, "refused", _STATE),
    "ERR_INVALID_VERSION": (ConflictError, "refused", _STATE),
    "ERR_INACTIVE_STATE": (ConflictError, "refused", _STATE),
    "ERR_INCONSISTENT_STATE": (ConflictError, "refused", _STATE),
    "ERR_NOT_ENOUGH_MEMBER": (ConflictError, "refused", "Too few replicas are alive."),
    "ERR_APP_EXIST": (ConflictError, "refused", "A table of that name exists."),
    "ERR_NODE_ALREADY_EXIST": (ConflictError, "refused", _STATE),
    "ERR_SERVICE_ALREADY_EXIST": (ConflictError, "refused", _STATE),
    "ERR_SERVICE_ALREADY_RUNNING": (ConflictError, "refused", _STATE),
    "ERR_PATH_ALREADY_EXIST": (ConflictError, "refused", _STATE),
    "ERR_UNDER_RECOVERY": (ConflictError, "refused", "The cluster is being recovered."),
    "ERR_SPLITTING": (ConflictError, "refused", "The table is being split; wait."),
    "ERR_OPERATION_DISABLED": (ConflictError, "refused", "It is disabled on that server."),
    "ERR_NO_NEED_OPERATE": (ConflictError, "refused", _STATE),
    "ERR_WRONG_TIMING": (ConflictError, "refused", _STATE),
    "ERR_EXPIRED": (ConflictError, "refused", _STATE),
    "ERR_BUSY": (ThrottledError, "refused", _WAIT),
    "ERR_BUSY_CREATING": (ThrottledError, "refused", _WAIT),
    "ERR_BUSY_DROPPING": (ThrottledError, "refused", _WAIT),
    "ERR_CAPACITY_EXCEEDED": (ThrottledError, "refused", _WAIT),
    "ERR_TRY_AGAIN": (ThrottledError, "refused", _WAIT),
    "ERR_DISK_INSUFFICIENT": (ConflictError, "refused", "The disk is full."),
    "ERR_TIMEOUT": (
        RemoteTimeoutError,
        "unknown",
        "Check whether it took effect before you repeat it.",
    ),
    "ERR_RETRY_EXHAUSTED": (RemoteTimeoutError, "unknown", "Check whether it took effect."),
    "ERR_NETWORK_FAILURE": (UnreachableError, "unknown", "Check whether it took effect."),
    "ERR_SERVICE_NOT_ACTIVE": (UnreachableError, "refused", "The server is still starting."),
    "ERR_ACL_DENY": (AuthError, "refused", "Trimtab's user lacks the right."),
    "ERR_UNAUTHENTICATED": (AuthError, "refused", "The cluster requires authentication."),
    "ERR_SASL_INTERNAL": (AuthError, "refused", "The cluster requires authentication."),
    "ERR_SASL_INCOMPLETE": (AuthError, "refused", "The cluster requires authentication."),
    "ERR_KRB5_INTERNAL": (AuthError, "refused", "The cluster requires authentication."),
    "ERR_HANDLER_NOT_FOUND": (
        ProtocolError,
        "refused",
        "That server does not support the call; check whether it is a meta or a replica server.",
    ),
    "ERR_NOT_IMPLEMENTED": (
        ProtocolError,
        "refused",
        "The server version does not support the call.",
    ),
}
SERVER_FAULTS: Final = frozenset(
    {
        "ERR_UNKNOWN",
        "ERR_IO_PENDING",
        "ERR_NETWORK_INIT_FAILED",
        "ERR_LEARN_FILE_FAILED",
        "ERR_GET_LEARN_STATE_FAILED",
        "ERR_FILE_OPERATION_FAILED",
        "ERR_HANDLE_EOF",
        "ERR_WRONG_CHECKSUM",
        "ERR_INVALID_DATA",
        "ERR_INVALID_HANDLE",
        "ERR_INCOMPLETE_DATA",
        "ERR_VERSION_OUTDATED",
        "ERR_ADDRESS_ALREADY_USED",
        "ERR_LOCAL_APP_FAILURE",
        "ERR_BIND_IOCP_FAILED",
        "ERR_NETWORK_START_FAILED",
        "ERR_CHECKPOINT_FAILED",
        "ERR_CORRUPTION",
        "ERR_CLUSTER_ALREADY_EXIST",
        "ERR_INJECTED",
        "ERR_REPLICATION_FAILURE",
        "ERR_LOCK_ALREADY_EXIST",
        "ERR_HOLD_BY_OTHERS",
        "ERR_RECURSIVE_LOCK",
        "ERR_NO_OWNER",
        "ERR_ARRAY_INDEX_OUT_OF_RANGE",
        "ERR_DIR_NOT_EMPTY",
        "ERR_FS_INTERNAL",
        "ERR_IGNORE_BAD_DATA",
        "ERR_MOCK_INTERNAL",
        "ERR_ZOOKEEPER_OPERATION",
        "ERR_CHILD_REGISTERED",
        "ERR_INGESTION_FAILED",
        "ERR_PARENT_PARTITION_MISUSED",
        "ERR_CHILD_NOT_READY",
        "ERR_SYNC_RANGER_POLICIES_FAILED",
        "ERR_RANGER_PARSE_ACL",
        "ERR_RANGER_POLICIES_NO_NEED_UPDATE",
    }
)
"""What remains of the names: a server failed by itself, and nothing can be said of the outcome."""
KNOWN_NAMES: Final = frozenset(_KINDS) | SERVER_FAULTS | {OK}
_ELSE: Final[_Kind] = (ServerError, "unknown", "See the log of that server.")


def error_of(name: str, *, endpoint: str, operation: str, detail: str = "") -> RemoteError:
    """Return our error for one of Pegasus' names; a name that is not known is a server's failure.

    Args:
        name: For example ``ERR_BUSY``.
        endpoint: ``pegasus host:port``.
        operation: The call's code.
        detail: What the server added.
    """
    kind, outcome, hint = _KINDS.get(name, _ELSE)
    added = f" ({detail})" if detail else ""
    return kind(
        f"{endpoint} returned {name} to {operation}{added}.",
        endpoint=endpoint,
        operation=operation,
        outcome=outcome,
        hint=hint,
        pegasus_error=name,
    )
