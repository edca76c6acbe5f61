"""Answers and exceptions of the admin REST to our errors, each with one clean sentence."""

from __future__ import annotations

import html
import re
from http.client import HTTPException, RemoteDisconnected
from typing import Final

import msgspec
import requests.exceptions as http
import urllib3.exceptions as wire

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
    UntrustedError,
)

_LONGEST: Final = 300
_MESSAGE: Final = re.compile(r"^Message:[ \t]*(?!null\b)(\S.*)$", re.MULTILINE)
_EXCEPTION: Final = re.compile(
    r"^[ \t]*(?:Caused by:[ \t]*)?(?:[\w$]+\.)+([A-Z][\w$]*(?::.*)?)\s*$", re.MULTILINE
)
_TITLE: Final = re.compile(r"<title>([^<]*)</title>", re.IGNORECASE)
_MAX_TEXT: Final = 8_000
"""Characters that are searched: what a server sends may be made to take long."""
_HINT_AUTH: Final = (
    "Check [clusters.auth] and the rights of its role; `trimtab check` lists missing rights."
)
_HINT_REACH: Final = "Check that the broker runs and is reachable from this machine."
# TLS 1.3 refuses a client after the handshake: its alert may be lost with the connection
_HINT_HUNG_UP: Final = "The server may require a client certificate; check cert_file and key_file."
_KINDS: Final[dict[int, type[RemoteError]]] = {
    401: AuthError,
    403: AuthError,
    404: NotFoundError,
    408: RemoteTimeoutError,
    409: ConflictError,
    412: ConflictError,
    429: ThrottledError,
}


class _Body(msgspec.Struct):
    reason: str


def reason_of(body: bytes) -> str:
    """Return the one sentence of an error body: JSON ``{"reason"}``, HTML of the container, text.

    A stack trace is cut to its message, else to its exception's name.
    """
    try:
        text = msgspec.json.decode(body, type=_Body).reason[:_MAX_TEXT]
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        text = body[:_MAX_TEXT].decode("utf-8", "replace")
    title = _TITLE.search(text)
    if title:
        text = html.unescape(title[1])
    elif "\tat " in text or "Stacktrace:" in text:
        found = _MESSAGE.search(text) or _EXCEPTION.search(text)
        text = found[1] if found else "it failed with a stack trace"
    elif "<html" in text.lower():
        text = "it returned a web page"
    text = " ".join(text.split()).rstrip(".")
    text = "".join(letter for letter in text if letter.isprintable())
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def error_of_answer(status: int, body: bytes, *, endpoint: str, operation: str) -> RemoteError:
    """Return the error for an answer that is no success."""
    kind = _KINDS.get(status) or (ServerError if status >= 500 else ProtocolError)
    reason = reason_of(body)
    hints = {AuthError: _HINT_AUTH, ServerError: "See that broker's log."}
    return kind(
        f"{endpoint} returned {status} to {operation}{': ' if reason else ''}{reason}.",
        endpoint=endpoint,
        operation=operation,
        outcome="unknown" if kind in (ServerError, RemoteTimeoutError) else "refused",
        hint=hints.get(kind, ""),
        status=status,
    )


KINDS: Final[tuple[tuple[type[RemoteError], Outcome, str, tuple[type[Exception], ...]], ...]] = (
    (UntrustedError, "not_sent", "", (http.SSLError, wire.SSLError)),
    (
        RemoteTimeoutError,
        "not_sent",
        "did not accept the connection in time",
        (http.ConnectTimeout, wire.ConnectTimeoutError),
    ),
    (
        RemoteTimeoutError,
        "unknown",
        "did not respond in time",
        (http.Timeout, wire.TimeoutError, TimeoutError),
    ),
    (
        ProtocolError,
        "unknown",
        "did not return valid HTTP, or cut off its answer",
        (
            http.ChunkedEncodingError,
            http.ContentDecodingError,
            http.InvalidHeader,
            http.InvalidJSONError,
            http.StreamConsumedError,
            http.RetryError,
            http.TooManyRedirects,
            http.UnrewindableBodyError,
            wire.ProtocolError,
            wire.DecodeError,
            wire.ResponseError,
            wire.BodyNotHttplibCompatible,
            wire.HeaderParsingError,
        ),
    ),
    (
        ProtocolError,
        "not_sent",
        "is not a usable address",
        (
            http.URLRequired,
            http.MissingSchema,
            http.InvalidSchema,
            http.InvalidURL,
            http.InvalidProxyURL,
            wire.LocationValueError,
            wire.URLSchemeUnknown,
            wire.ProxySchemeUnsupported,
            UnicodeError,
        ),
    ),
    (
        # a number with thousands of digits, for example: it is read from an answer
        ProtocolError,
        "unknown",
        "did not return valid HTTP, or cut off its answer",
        (ValueError,),
    ),
    (
        UnreachableError,
        "unknown",
        "cannot be reached",
        (http.ConnectionError, http.RequestException, wire.HTTPError, OSError),
    ),
)
"""Ours, whether the request went out, what is said, theirs; the first that fits holds."""


def translate(exc: Exception, *, endpoint: str, operation: str) -> RemoteError:
    """Return our error for an exception of the HTTP libraries."""
    cause = _innermost(exc)
    kind, outcome, what = _kind_of(exc, cause)
    if kind is UntrustedError:
        return _untrusted(exc, endpoint, operation)
    hints = {
        UnreachableError: _HINT_REACH,
        RemoteTimeoutError: _HINT_REACH,
    }
    is_tls = endpoint.startswith("https://")
    return kind(
        f"{endpoint} {what} ({operation}).",
        endpoint=endpoint,
        operation=operation,
        outcome=outcome,
        hint=_HINT_HUNG_UP if is_dropped(exc) and is_tls else hints.get(kind, ""),
    )


def _untrusted(exc: Exception, endpoint: str, operation: str) -> UntrustedError:
    """Return the TLS end that does not trust the other, and the setting that fixes it."""
    said = str(exc).lower()
    what, hint = next((what, hint) for sign, what, hint in _TLS if sign in said)
    return UntrustedError(
        f"{endpoint} {what} ({operation}).",
        endpoint=endpoint,
        operation=operation,
        outcome="not_sent",
        hint=hint,
    )


_TLS: Final = (
    (
        "hostname mismatch",
        "has a certificate for another host name",
        "Use the host name of its certificate in admin_urls.",
    ),
    (
        "ip address mismatch",
        "has a certificate for another address",
        "Use the host name of its certificate in admin_urls.",
    ),
    (
        "certificate has expired",
        "has an expired certificate",
        "Renew the certificate of the broker.",
    ),
    (
        "certificate verify failed",
        "has a certificate of an untrusted authority",
        "Set ca_file under [clusters.tls] to the authority's certificate.",
    ),
    (
        "wrong version number",
        "does not use TLS on that port",
        "Use http:// instead of https://, or the TLS port.",
    ),
    (
        "",
        "does not trust Trimtab, or refuses its TLS",
        "Check cert_file and key_file under [clusters.tls]: the server may require them.",
    ),
)
"""Sign in the library's message, what it is, what to do; the last one holds for all others."""


def _kind_of(exc: Exception, cause: BaseException) -> tuple[type[RemoteError], Outcome, str]:
    # requests wraps a broken answer as ConnectionError: what it wraps decides
    if isinstance(exc, http.ConnectionError) and isinstance(cause, wire.ProtocolError):
        if not is_dropped(exc):
            return ProtocolError, "unknown", "did not return valid HTTP, or cut off its answer"
        return ProtocolError, "unknown", "closed the connection without an answer"
    if isinstance(exc, http.ConnectionError) and isinstance(cause, wire.ReadTimeoutError):
        return RemoteTimeoutError, "unknown", "did not respond in time"
    if isinstance(exc, http.ConnectionError) and isinstance(cause, wire.NewConnectionError):
        return UnreachableError, "not_sent", "refuses connections or cannot be found"
    for ours, outcome, what, theirs in KINDS:
        if isinstance(exc, theirs):
            return ours, outcome, what
    return ProtocolError, "unknown", "failed for an unknown reason"


def is_dropped(exc: BaseException | None) -> bool:
    """Return whether an exception means that the connection closed before any answer."""
    cause = _innermost(exc) if isinstance(exc, http.ConnectionError) else None
    if not isinstance(cause, wire.ProtocolError):
        return False
    inner = cause.args[-1]
    if isinstance(inner, HTTPException) and not isinstance(inner, RemoteDisconnected):
        return False  # it answered, and not in HTTP
    said = str(cause)
    return "Connection aborted" in said or "reset" in said.lower()


def _innermost(exc: BaseException) -> BaseException:
    inner = exc.args[0] if exc.args else None
    reason = getattr(inner, "reason", inner)
    return reason if isinstance(reason, BaseException) else exc
