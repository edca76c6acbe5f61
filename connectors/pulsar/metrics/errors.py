"""What a Prometheus server says when it refuses, as our errors."""

from __future__ import annotations

from typing import Final

import msgspec

from connectors.pulsar.admin.errors import reason_of
from core.errors import (
    AuthError,
    NotFoundError,
    ProtocolError,
    RemoteError,
    RemoteTimeoutError,
    ServerError,
    ThrottledError,
    UnreachableError,
)

_KINDS: Final[dict[int, type[RemoteError]]] = {
    401: AuthError,
    403: AuthError,
    404: NotFoundError,
    429: ThrottledError,
}
HINTS: Final[dict[type[RemoteError], str]] = {
    AuthError: "Check [clusters.prometheus.auth] of the configuration.",
    NotFoundError: "Check that this is the address of a Prometheus server, including its path "
    "prefix.",
    ProtocolError: "Check that this is the address of a Prometheus server, including its path "
    "prefix.",
    RemoteTimeoutError: "Raise timeout_s of [clusters.prometheus], or check why the server is "
    "slow.",
    ServerError: "See the server's log.",
    UnreachableError: "Check that the server runs and is reachable from this machine.",
}


class MetricsRefusal(msgspec.Struct):
    """The body of an answer that is no success."""

    error: str
    errorType: str = ""  # noqa: N815  # as the server writes it


def error_of_answer(status: int, body: bytes, *, endpoint: str, operation: str) -> RemoteError:
    """Return the error for an answer that is no success.

    Source:
        Prometheus HTTP API: 400 and 422 mean the expression, 503 that it took too long.
    """
    kind = _KINDS.get(status) or (ServerError if status >= 500 else ProtocolError)
    said = reason(body)
    return kind(
        f"{endpoint} returned {status} to {operation}{': ' if said else ''}{said}.",
        endpoint=endpoint,
        operation=operation,
        outcome="unknown" if kind is ServerError else "refused",
        hint=HINTS.get(kind, ""),
        status=status,
    )


def reason(body: bytes) -> str:
    """Return the server's error message, else its proxy's."""
    try:
        text = msgspec.json.decode(body, type=MetricsRefusal).error
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return reason_of(body)
    return " ".join(text.split())[:300].rstrip(".")


def hinted(error: RemoteError) -> RemoteError:
    """Return the error with what to do about it here: others speak of brokers."""
    for kind, hint in HINTS.items():
        if isinstance(error, kind):
            error.hint = hint
    return error
