"""One listening port that speaks both protocols; the first bytes of a connection choose."""

from __future__ import annotations

import asyncio
import contextlib
import struct
from collections.abc import Awaitable, Callable
from typing import Final

from connectors.pegasus.rpc.frame import (
    HEADER_BYTES,
    MAGIC,
    Reply,
    Request,
    decode_request,
    encode_reply,
)
from connectors.pegasus.rpc.wire import WireError
from connectors.sandbox.pegasus.http import HttpAnswer

_LENGTH_AT: Final = 16
_LONGEST_BODY: Final = 16 * 1024 * 1024
_HTTP_STARTS: Final = (b"GET ", b"POST")
_LONGEST_HEAD: Final = 64 * 1024
Post = Callable[[str, dict[str, str]], Awaitable[HttpAnswer]]


class Server:
    """A server: it may be closed and listen again on the same port.

    Args:
        call: Answers a remote procedure call; a ``WireError`` closes the connection.
        get: Answers a GET.
        post: Answers a POST, given its target and headers; ``None``: as a GET.
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
            self._listening = await asyncio.start_server(
                self._serve, host, port, limit=_LONGEST_HEAD
            )

    async def close(self) -> None:
        """Stop to serve and drop every connection, as a process that was killed."""
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
            with contextlib.suppress(
                OSError, WireError, asyncio.IncompleteReadError, asyncio.LimitOverrunError
            ):
                start = await source.readexactly(4)
                if start == MAGIC:
                    await self._speak_rpc(source, sink)
                elif start in _HTTP_STARTS:
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
            if length > _LONGEST_BODY:
                return
            body = await source.readexactly(length)
            await self._wait_until_thawed()
            reply = self._call(decode_request(head + body))
            sink.write(encode_reply(reply))
            await sink.drain()
            start = await source.readexactly(4)

    async def _speak_http(
        self, start: bytes, source: asyncio.StreamReader, sink: asyncio.StreamWriter
    ) -> None:
        while start in _HTTP_STARTS:
            head = start + await source.readuntil(b"\r\n\r\n")
            first, *lines = head.decode("latin-1").split("\r\n")
            words = first.split(" ")
            headers = dict(_header(line) for line in lines if ":" in line)
            length = headers.get("content-length", "0")
            if len(words) < 3 or not length.isdecimal() or int(length) > _LONGEST_HEAD:
                return
            await source.readexactly(int(length))  # everything that is asked for is in the target
            await self._wait_until_thawed()
            if words[0] == "POST" and self._post is not None:
                answer = await self._post(words[1], headers)
            else:
                answer = self._get(words[1])
            sink.write(answer.encoded())
            await sink.drain()
            start = await source.readexactly(4)


def _header(line: str) -> tuple[str, str]:
    name, _, value = line.partition(":")
    return name.strip().lower(), value.strip()
