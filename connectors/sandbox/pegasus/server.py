"""One listening port that speaks both protocols; the first bytes of a connection choose."""

from __future__ import annotations

import asyncio
import contextlib
import struct
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from http import HTTPMethod, HTTPStatus
from typing import Final
from urllib.parse import parse_qsl, unquote

import h11

from connectors.pegasus.rpc.frame import (
    HEADER_BYTES,
    MAGIC,
    Reply,
    Request,
    decode_request,
    encode_reply,
)
from connectors.pegasus.rpc.wire import WireError

_LENGTH_AT: Final = 16
_MAX_RPC_BODY: Final = 16 * 1024 * 1024
_MAX_HTTP_BYTES: Final = 64 * 1024
"""Of a request's head, and of its body."""
_LINGER_S: Final = 1.0
_METHODS: Final = (HTTPMethod.GET, HTTPMethod.HEAD, HTTPMethod.POST)


@dataclass(frozen=True)
class HttpAnswer:
    """Status, body, and the address of a redirect."""

    status: int
    body: str = ""
    location: str = ""


@dataclass(frozen=True)
class _HttpRequest:
    method: str
    target: str
    headers: Mapping[str, str]


Post = Callable[[str, Mapping[str, str]], Awaitable[HttpAnswer]]


def split_target(target: str) -> tuple[str, dict[str, str]]:
    """Return path and query of a request; a target that begins with two slashes names no host.

    Empty parts of a path do not count.

    Source:
        Pegasus ``http_request::parse``.
    """
    path, _, query = target.partition("?")
    parts = filter(None, unquote(path).split("/"))
    return "/".join(parts), dict(parse_qsl(query, keep_blank_values=True))


class Server:
    """A server that can be closed and listen again on the same port.

    Args:
        call: Answers a remote procedure call; a ``WireError`` closes the connection.
        get: Answers a GET of a target.
        post: Answers a POST, from its target and its headers by lower-case name; ``None`` if a POST
            is answered as a GET.
    """

    def __init__(
        self,
        call: Callable[[Request], Reply],
        get: Callable[[str], HttpAnswer],
        post: Post | None = None,
    ) -> None:
        self._call = call
        self._get = get
        self._post = post
        self._listening: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()
        self._thawed = asyncio.Event()
        self._thawed.set()
        self.unanswered = 0
        """Connections on which a request waits while the server is frozen."""

    def freeze(self) -> None:
        """Accept connections and answer nothing, as a process that got SIGSTOP."""
        self._thawed.clear()
        self.unanswered = 0

    def thaw(self) -> None:
        """Answer what waits and everything after it."""
        self._thawed.set()

    async def _wait_until_thawed(self) -> None:
        if not self._thawed.is_set():
            self.unanswered += 1
            await self._thawed.wait()

    async def listen(self, host: str, port: int) -> None:
        """Begin to serve."""
        if self._listening is None:
            self._listening = await asyncio.start_server(self._serve, host, port)

    async def close(self) -> None:
        """Stop serving and drop every connection, as a process that was killed."""
        listening, self._listening = self._listening, None
        if listening is None:
            return
        listening.close()
        self.thaw()  # what waits there ends with its connection
        for writer in list(self._open):
            writer.transport.abort()
        await listening.wait_closed()

    async def _serve(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        self._open.add(sink)
        try:
            with contextlib.suppress(OSError, WireError, asyncio.IncompleteReadError):
                start = await source.readexactly(len(MAGIC))
                if start == MAGIC:
                    await self._speak_rpc(source, sink)
                else:
                    await self._speak_http(start, source, sink)
        except asyncio.CancelledError:  # the sandbox ends: this connection with it
            pass
        finally:
            self._open.discard(sink)
            sink.close()

    async def _speak_rpc(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        start = MAGIC
        while True:
            head = start + await source.readexactly(HEADER_BYTES - len(start))
            (length,) = struct.unpack_from(">I", head, _LENGTH_AT)
            if length > _MAX_RPC_BODY:
                return
            body = await source.readexactly(length)
            await self._wait_until_thawed()
            reply = self._call(decode_request(head + body))
            sink.write(encode_reply(reply))
            await sink.drain()
            start = await source.readexactly(len(MAGIC))

    async def _speak_http(
        self, start: bytes, source: asyncio.StreamReader, sink: asyncio.StreamWriter
    ) -> None:
        connection = h11.Connection(h11.SERVER, max_incomplete_event_size=_MAX_HTTP_BYTES)
        connection.receive_data(start)
        try:
            while (request := await _next_request(connection, source, sink)) is not None:
                await self._wait_until_thawed()
                answer = await self._answer(request)
                sink.write(_encoded(connection, answer, is_head=request.method == HTTPMethod.HEAD))
                await sink.drain()
                if connection.our_state is not h11.DONE:
                    return
                connection.start_next_cycle()
        except h11.RemoteProtocolError as exc:
            sink.write(_encoded(connection, HttpAnswer(exc.error_status_hint, f"{exc}\n")))
            sink.write_eof()
            with contextlib.suppress(TimeoutError):  # a reset would overtake the answer
                async with asyncio.timeout(_LINGER_S):
                    while await source.read(_MAX_HTTP_BYTES):
                        pass

    async def _answer(self, request: _HttpRequest) -> HttpAnswer:
        if request.method not in _METHODS:
            return HttpAnswer(HTTPStatus.METHOD_NOT_ALLOWED)
        if request.method == HTTPMethod.POST and self._post is not None:
            return await self._post(request.target, request.headers)
        return self._get(request.target)


async def _next_request(
    connection: h11.Connection, source: asyncio.StreamReader, sink: asyncio.StreamWriter
) -> _HttpRequest | None:
    """Return the next request once its body is read; ``None`` when the client has closed.

    All parameters are in the target, so the body is discarded.

    Raises:
        h11.RemoteProtocolError: The request is malformed or too long.
    """
    request: _HttpRequest | None = None
    body_bytes = 0
    while True:
        match connection.next_event():
            case h11.NEED_DATA:
                if connection.they_are_waiting_for_100_continue:
                    go_on = h11.InformationalResponse(status_code=HTTPStatus.CONTINUE, headers=[])
                    sink.write(connection.send(go_on) or b"")
                connection.receive_data(await source.read(_MAX_HTTP_BYTES))
            case h11.Request() as head:
                headers = {name.decode(): value.decode("latin-1") for name, value in head.headers}
                request = _HttpRequest(head.method.decode(), head.target.decode(), headers)
            case h11.Data() as part:
                body_bytes += len(part.data)
                if body_bytes > _MAX_HTTP_BYTES:
                    raise h11.RemoteProtocolError(
                        "the body is too long", HTTPStatus.REQUEST_ENTITY_TOO_LARGE
                    )
            case h11.EndOfMessage():
                return request
            case _:
                return None


def _encoded(connection: h11.Connection, answer: HttpAnswer, *, is_head: bool = False) -> bytes:
    content = answer.body.encode()
    headers = [("Content-Type", "text/plain"), ("Content-Length", str(len(content)))]
    if answer.location:
        headers.append(("Location", answer.location))
    if answer.status == HTTPStatus.METHOD_NOT_ALLOWED:
        headers.append(("Allow", ", ".join(_METHODS)))
    if connection.their_state is not h11.DONE:  # the rest of this request cannot be understood
        headers.append(("Connection", "close"))
    reason = HTTPStatus(answer.status).phrase.encode()
    head = h11.Response(status_code=answer.status, headers=headers, reason=reason)
    parts = [connection.send(head)]
    if not is_head:
        parts.append(connection.send(h11.Data(data=content)))
    parts.append(connection.send(h11.EndOfMessage()))
    return b"".join(part or b"" for part in parts)
