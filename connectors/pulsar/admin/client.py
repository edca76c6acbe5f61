"""The admin REST of the brokers: bounded in time, size and number, and trusting no answer.

* Only a GET is ever repeated, once: after a 502, 503 or 504, or a connection that was dropped.
* A redirect is followed by ourselves, with method, body and credentials, to the same path of a
  broker. Credentials go to what the configuration names only (``admin_urls``,
  ``credential_hosts``), and nothing goes to link-local addresses.
* Netrc files, proxies of the environment and cookies are ignored.
"""

from __future__ import annotations

import base64
import logging
import math
import threading
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from dataclasses import dataclass
from time import monotonic
from typing import Any, Final, TypeVar
from urllib.parse import quote, unquote, urljoin, urlsplit

import msgspec
import requests
import urllib3

from connectors.config.credentials import Auth
from connectors.config.model import DECODED, ClusterConfig
from connectors.pulsar.admin.errors import error_of_answer, is_dropped, translate
from connectors.transport import deadline, http
from connectors.transport.addresses import CredentialHosts, address_fault, origin_of
from connectors.transport.redaction import redacted, redacted_text
from core.bounds import json_weight
from core.errors import (
    ConfigError,
    GivenUpError,
    InputError,
    LateError,
    Outcome,
    ProtocolError,
    RemoteError,
    RemoteTimeoutError,
)
from core.ids import path_fault

T = TypeVar("T")
_MAX_REDIRECTS: Final = 5
_REPEATED: Final = (502, 503, 504)
# we report what happens to a connection: the library would write it to the terminal
logging.getLogger("urllib3.connectionpool").setLevel(logging.ERROR)
_NOT_NAMED: Final = "it is not in admin_urls or credential_hosts"
_NAME_IT: Final = (
    "If it is one of your brokers, add it to credential_hosts; `trimtab check` proposes entries."
)
_LARGE: Final = 1024 * 1024
_DECODING: Final = threading.Lock()
"""Large documents are decoded one after the other: objects take many times the memory of a text."""
_UNREADABLE: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


@dataclass(frozen=True, slots=True)
class AdminAnswer:
    """A success.

    Attributes:
        status: 2xx.
        body: Whole.
        url: Who answered in the end, after redirects.
    """

    status: int
    body: bytes
    url: str


@dataclass(frozen=True, slots=True)
class Dialect:
    """HTTP dialect of a server.

    Attributes:
        content_type: Of the bodies that are sent.
        error_of: Makes the error of an answer that is no success.
        repeated: Methods that only read there, so that a request may be sent once more.
    """

    content_type: str = "application/json"
    error_of: Callable[..., RemoteError] = error_of_answer
    repeated: frozenset[str] = frozenset({"GET"})


@dataclass(frozen=True, slots=True)
class _Request:
    """A request, with what bounds its answer, redirects and repetitions included."""

    method: str
    body: bytes | None
    ends_at: float
    max_bytes: int
    operation: str


def _location(headers: Any) -> str | None:
    location = headers.get("Location")
    return None if location is None else redacted_text(location)


class NotRequestedError(RemoteTimeoutError):
    """There was no time left for a request: nothing is known about the broker."""

    code = "not_sent"

    @classmethod
    def at(cls, endpoint: str, operation: str) -> NotRequestedError:
        """Build the error."""
        return cls(
            f"No time was left to query {endpoint} ({operation}).",
            endpoint=endpoint,
            operation=operation,
            outcome="not_sent",
            hint="Raise timeouts.capture_s or rest_fan_out.",
        )


class CredentialsWithheldError(RemoteError):
    """An address that the configuration does not name would have got the credentials."""

    code = "credentials_withheld"

    @classmethod
    def at(cls, endpoint: str, operation: str) -> CredentialsWithheldError:
        """Build the error."""
        return cls(
            f"Credentials were not sent to {endpoint}: {_NOT_NAMED}.",
            endpoint=endpoint,
            operation=operation,
            outcome="not_sent",
            hint=_NAME_IT,
        )


class AdminClient:
    """Talks to the brokers of one cluster; usable from many threads.

    Args:
        config: Admin URLs, credentials, TLS, timeouts, fan-out.
        dialect: Of what answers there, where that is no broker.
    Raises:
        ConfigError: A secret or a certificate file cannot be read.
    """

    def __init__(self, config: ClusterConfig, dialect: Dialect = Dialect()) -> None:
        self.limits = config.read_limits
        self._timeouts = config.timeouts
        self._dialect = dialect
        self._session = _session(config)
        self._auth = config.auth
        self._authorization = _authorization(config.auth)
        self._has_credentials = config.has_credentials
        self._known = {origin_of(url) for url in config.admin_urls}
        self._named = CredentialHosts(config.admin_urls, config.credential_hosts)
        self._ends_at = math.inf

    def trust(self, urls: Iterable[str]) -> None:
        """Count these addresses as brokers of the cluster: redirects to them are followed."""
        self._known |= {origin_of(url) for url in urls if not address_fault(url)}

    def end_by(self, moment: float) -> None:
        """Let no request begin or go on after this moment of the monotonic clock, in seconds."""
        self._ends_at = moment

    def renew_credentials(self) -> None:
        """Read the token or password again, so that a rotated one is picked up.

        Raises:
            ConfigError: Its file cannot be read now; the old one stays in use.
        """
        self._authorization = _authorization(self._auth)

    def close(self) -> None:
        """Close every connection."""
        self._session.close()

    def get(self, base_url: str, path: str, kind: type[T], *, max_bytes: int | None = None) -> T:
        """Return the decoded JSON answer.

        Args:
            base_url: ``http(s)://host:port`` of a broker.
            path: From the root, quoted (see :func:`quoted`).
            kind: What the answer is decoded as.
            max_bytes: Largest answer; ``None`` for ``read_limits.answer_mib``.
        Raises:
            RemoteError: Anything else than a JSON answer of that kind.
        """
        answer = self.request("GET", base_url, path, max_bytes=max_bytes)
        try:
            with _DECODING if len(answer.body) > _LARGE else nullcontext():
                return msgspec.json.decode(answer.body, type=kind)
        except _UNREADABLE as exc:
            raise ProtocolError(
                f"{base_url} returned an unexpected answer to GET {path}: {_fault(exc)}.",
                endpoint=base_url,
                operation=f"GET {path}",
                outcome="refused",
                hint="Check that this is the web address of a Pulsar broker.",
            ) from exc

    def request(
        self,
        method: str,
        base_url: str,
        path: str,
        *,
        body: bytes | None = None,
        max_bytes: int | None = None,
    ) -> AdminAnswer:
        """Send a request and follow the cluster's own redirects.

        Args:
            method: ``GET``, for example.
            base_url: ``http(s)://host:port`` of a broker.
            path: From the root, quoted (see :func:`quoted`).
            body: Of the request.
            max_bytes: Largest answer; ``None`` for ``read_limits.answer_mib``.
        Raises:
            RemoteError: No success; ``outcome`` is whether it may have happened.
        """
        operation = f"{method} {path.partition('?')[0]}"
        if fault := path_fault(path):
            raise ProtocolError(
                f"{ascii(operation)[1:-1]} was not sent to {base_url}: {fault}.",
                endpoint=base_url,
                operation=operation,
                outcome="not_sent",
                hint="Check the name.",
            )
        url = f"{base_url.rstrip('/')}{path}"
        origin = origin_of(url)
        if origin is None or origin not in self._known:
            raise InputError(
                f"{base_url} is not configured and not a broker of the cluster.",
                hint="Add it to admin_urls.",
            )
        if self._has_credentials and not self._named.allows(origin):
            raise CredentialsWithheldError.at(base_url, operation)
        ends_at = min(monotonic() + self._timeouts.answer_s, self._ends_at)
        limit = self.limits.answer_bytes if max_bytes is None else max_bytes
        sent = _Request(method, body, ends_at, limit, operation)
        for _ in range(_MAX_REDIRECTS + 1):
            endpoint = f"{urlsplit(url).scheme}://{urlsplit(url).netloc}"
            status, headers, content = self._request_all(sent, url)
            if 200 <= status < 300:
                if json_weight(content) > DECODED * limit:
                    what = f"{endpoint} exceeded the decoding limit in its answer to"
                    raise _no_whole_answer(what, endpoint, operation, _RAISE)
                return AdminAnswer(status, content, url)
            if not 300 <= status < 400:
                raise self._dialect.error_of(
                    status, content, endpoint=endpoint, operation=operation
                )
            url = self._target(url, status, _location(headers), operation)
        raise ProtocolError(
            f"{base_url} redirects {operation} in circles.",
            endpoint=base_url,
            operation=operation,
            outcome="refused",
            hint="Try again when the bundle or the leader is stable.",
        )

    def _request_all(self, sent: _Request, url: str) -> tuple[int, Any, bytes]:
        """Send a request; a read that came at a bad moment is sent once more.

        Brokers close idle connections, so one that lay between two captures may just be going.
        """
        if sent.method in self._dialect.repeated:
            try:
                answer = self._once(sent, url)
            except RemoteError as exc:
                if not is_dropped(exc.__cause__):
                    raise
            else:
                if answer[0] not in _REPEATED:
                    return answer
        return self._once(sent, url)

    def _once(self, sent: _Request, url: str) -> tuple[int, Any, bytes]:
        endpoint = f"{urlsplit(url).scheme}://{urlsplit(url).netloc}"
        operation = sent.operation
        try:
            with deadline.until(sent.ends_at):
                deadline.next_wait_s()
                deadline.check_begin()
        except deadline.DeadlineError as exc:
            raise NotRequestedError.at(endpoint, operation) from exc
        except deadline.LateError as exc:
            raise LateError.at(endpoint, operation) from exc
        except deadline.GivenUpError as exc:
            raise GivenUpError.at(endpoint, operation, "not_sent") from exc
        headers = {"Accept": "application/json", **self._authorization}
        if sent.body is not None:
            headers["Content-Type"] = self._dialect.content_type
        try:
            answer = http.send(
                self._session,
                sent.method,
                url,
                ends_at=sent.ends_at,
                connect_s=self._timeouts.connect_s,
                read_s=self._timeouts.read_s,
                headers=headers,
                body=sent.body,
                max_bytes=sent.max_bytes,
            )
        except http.FAILURES as exc:
            raise _error_of(exc, sent, endpoint) from exc
        return answer.status, answer.headers, redacted(answer.body)

    def _target(self, url: str, status: int, location: str | None, operation: str) -> str:
        endpoint = f"{urlsplit(url).scheme}://{urlsplit(url).netloc}"
        try:
            target = urljoin(url, location) if location else None
        except ValueError:
            target = "http://["  # no address at all: refused below like any other stranger
        fault = self._redirect_fault(url, status, target, operation)
        if fault or target is None:
            raise ProtocolError(
                f"{endpoint} {fault}",
                endpoint=endpoint,
                operation=operation,
                outcome="refused",
                hint="Credentials are sent to the cluster's own brokers only; see admin_urls.",
            )
        return target

    def _redirect_fault(self, url: str, status: int, target: str | None, operation: str) -> str:
        """Return the reason a redirect is not followed, or ""."""
        if status not in (307, 308) or target is None:
            return f"returned {status} to {operation}; check for a login page in between."
        origin = origin_of(target)
        if origin is None or not (origin in self._known or self._named.allows(origin)):
            return f"redirects {operation} to {_stranger(origin)}."
        place = _place(origin)
        if self._has_credentials and not self._named.allows(origin):
            return f"redirects {operation} to {place}; {_NOT_NAMED}."
        if urlsplit(url).scheme == "https" and origin[0] != "https":
            return f"redirects {operation} from https to http."
        if unquote(urlsplit(target).path) != unquote(urlsplit(url).path):
            return f"redirects {operation} to another path."
        return ""


def quoted(*parts: str) -> str:
    """Return path segments, quoted, each after a slash.

    What may not be sent is refused by :meth:`AdminClient.request`.
    """
    return "".join(f"/{quote(part, safe=':')}" for part in parts)


def _fault(exc: Exception) -> str:
    return "it is nested too deeply" if isinstance(exc, RecursionError) else str(exc)[:150]


def _place(origin: tuple[str, str, int]) -> str:
    """Return scheme, host and port, for a person to read; never the rest."""
    return f"{origin[0]}://{origin[1]}:{origin[2]}"


def _stranger(origin: tuple[str, str, int] | None) -> str:
    if origin is None:
        return "an invalid address"
    return f"{_place(origin)}, which is not a broker of the cluster"


def _error_of(exc: Exception, sent: _Request, endpoint: str) -> RemoteError:
    operation = sent.operation
    if isinstance(exc, deadline.GivenUpError):
        outcome: Outcome = "unknown" if exc.was_connected else "not_sent"
        return GivenUpError.at(endpoint, operation, outcome)
    if isinstance(exc, http.CutOffError):
        return _no_whole_answer(f"{endpoint} cut off its answer to", endpoint, operation)
    if isinstance(exc, deadline.TooManyError):
        what = f"{endpoint} sent too many large answers at once for"
        return _no_whole_answer(what, endpoint, operation, "Lower rest_fan_out.")
    if isinstance(exc, deadline.TooLongError):
        what = f"{endpoint} returned more than {sent.max_bytes // 2**20} MiB to"
        return _no_whole_answer(what, endpoint, operation, _RAISE)
    error = translate(exc, endpoint=endpoint, operation=operation)
    is_late = isinstance(error, RemoteTimeoutError) and monotonic() >= sent.ends_at
    return _too_late(endpoint, operation) if is_late and error.outcome == "unknown" else error


_RAISE: Final = "If the answer is valid, raise answer_mib or bulk_mib under [clusters.read_limits]."


def _no_whole_answer(what: str, endpoint: str, operation: str, hint: str = "") -> ProtocolError:
    what = f"{what} {operation}."
    return ProtocolError(what, endpoint=endpoint, operation=operation, outcome="unknown", hint=hint)


def _too_late(endpoint: str, operation: str) -> RemoteTimeoutError:
    return RemoteTimeoutError(
        f"{endpoint} did not finish its answer to {operation} in time.",
        endpoint=endpoint,
        operation=operation,
        outcome="unknown",
        hint="The broker may be overloaded; raise timeouts.answer_s or timeouts.capture_s.",
    )


def _authorization(auth: Auth) -> dict[str, str]:
    if auth.has_token:
        return {"Authorization": f"Bearer {auth.read_token()}"}
    if auth.username is not None:
        pair = f"{auth.username}:{auth.read_password()}".encode()
        return {"Authorization": f"Basic {base64.b64encode(pair).decode()}"}
    return {}


def _session(config: ClusterConfig) -> requests.Session:
    session = http.session(servers=64, connections=2)
    tls = config.tls
    for path in (tls.ca_file, tls.cert_file, tls.key_file):
        if path is not None and not path.is_file():
            raise ConfigError(
                f"The TLS file {path} of cluster {config.name} is missing.",
                hint="Check its path.",
            )
    session.verify = str(tls.ca_file) if tls.ca_file and tls.verify else tls.verify
    if not tls.verify:  # every snapshot says so; a line a request on the terminal says no more
        urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
    if tls.cert_file is not None:
        session.cert = (str(tls.cert_file), str(tls.key_file))
    return session
