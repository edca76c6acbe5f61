"""The web sockets of the simulated brokers: one listening socket each, one application for all."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from collections.abc import AsyncIterator, Iterable, Sequence
from functools import partial
from http import HTTPMethod
from typing import Any, Final

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from connectors.sandbox.pulsar.engine import Engine
from connectors.sandbox.pulsar.faults import changed
from connectors.sandbox.pulsar.ownership import OwnershipChanges
from connectors.sandbox.pulsar.rest.actions import LOSE_ANSWER, ActionRest
from connectors.sandbox.pulsar.rest.answers import (
    JSON_TYPE,
    RefusalError,
    as_json,
    on_container_error,
    on_lost_store,
    on_refusal,
    stack_trace,
)
from connectors.sandbox.pulsar.rest.limits import LimitRest
from connectors.sandbox.pulsar.rest.metrics import MetricsRest
from connectors.sandbox.pulsar.rest.policies import PolicyRest
from connectors.sandbox.pulsar.rest.reads import Reads, Rest
from connectors.sandbox.pulsar.state import Broker, Trouble
from core.errors import ConfigError, InputError, RemoteError

_SHARED_HOST: Final = "127.0.0.1"
_HOSTS_PER_NET: Final = 250
_SERVICE_PORT: Final = 6650
_PREFERRED_PORT: Final = 8080
_TRIES: Final = 20
_BACKLOG: Final = 128
SLOW_S: Final = 4.0
_HANG_UP_S: Final = 0.05
_CHUNK: Final = 256 * 1024


def distinct_host(row: int) -> str:
    """Return the loopback address of a broker: 127.0.1.1, 127.0.1.2 ..."""
    net, host = divmod(row, _HOSTS_PER_NET)
    return f"127.0.{net + 1}.{host + 1}"


Address = tuple[str, int]
"""Host and port."""


def listen(brokers: int, port: int, former: Sequence[Address] = ()) -> list[socket.socket]:
    """Bind one socket a broker: distinct hosts and one port where the machine allows, else ports.

    Args:
        brokers: How many.
        port: The common port, or the first one; 0 takes Pulsar's usual one where it is free, so
            that brokers keep their names from run to run, else picks free ones.
        former: Addresses of an earlier run, taken first with port 0: brokers keep their names.

    Raises:
        ConfigError: The port is taken.
    """
    if port == 0 and former:
        sockets = _listen_again(brokers, former)
        if sockets is not None:
            return sockets
    for wanted in (_PREFERRED_PORT, *[0] * _TRIES) if port == 0 else (port,):
        sockets = _listen_on_hosts(brokers, wanted)
        if sockets is not None:
            return sockets
    return _listen_on_ports(brokers, port)


def _listen_again(brokers: int, former: Sequence[Address]) -> list[socket.socket] | None:
    """Return sockets at the addresses of an earlier run; ``None`` if one is taken or too few."""
    first_host, port = former[0]
    if first_host == distinct_host(0):  # that run may have had fewer brokers
        return _listen_on_hosts(brokers, port)
    return None if len(former) < brokers else _listen_at(former[:brokers])


def _listen_on_hosts(brokers: int, port: int) -> list[socket.socket] | None:
    return _listen_at([(distinct_host(row), port) for row in range(brokers)])


def _listen_at(addresses: Iterable[Address]) -> list[socket.socket] | None:
    """Return sockets at addresses; port 0 is that of the address before."""
    sockets: list[socket.socket] = []
    last_port = 0
    try:
        for host, port in addresses:
            sockets.append(_bound(host, port or last_port))
            last_port = int(sockets[-1].getsockname()[1])
    except OSError as exc:
        for bound in sockets:
            bound.close()
        if exc.errno in (errno.EADDRINUSE, errno.EADDRNOTAVAIL):
            return None
        raise
    return sockets


def _listen_on_ports(brokers: int, port: int) -> list[socket.socket]:
    try:
        return [_bound(_SHARED_HOST, port + row if port else 0) for row in range(brokers)]
    except OSError as exc:
        raise ConfigError(
            f"The web ports {port}..{port + brokers - 1} of {_SHARED_HOST} are not all free.",
            hint="Use another web port, or 0 for free ports.",
        ) from exc


def _bound(host: str, port: int) -> socket.socket:
    listener = socket.socket()
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(_BACKLOG)
    except OSError:
        listener.close()
        raise
    return listener


def brokers_at(sockets: list[socket.socket]) -> list[Broker]:
    """Return the brokers that will listen on these sockets."""
    return [
        Broker(row, host, port, _SERVICE_PORT + (row if host == _SHARED_HOST else 0))
        for row, (host, port) in enumerate(sock.getsockname()[:2] for sock in sockets)
    ]


class WebServers:
    """Starts and ends the web servers of single brokers.

    Args:
        engine: The running cluster.
        ownership: What changes owners.
    """

    def __init__(self, engine: Engine, ownership: OwnershipChanges) -> None:
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
        parts = (PolicyRest, Reads, MetricsRest, ActionRest, SandboxRest, LimitRest)
        app = Starlette(
            routes=[route for part in parts for route in part(engine, ownership).routes()],
            exception_handlers={
                RefusalError: on_refusal,
                RemoteError: on_lost_store,
                HTTPException: on_container_error,
            },
        )
        app.router.redirect_slashes = False
        self._app = app
        self._engine = engine
        self._servers: dict[int, tuple[asyncio.Server, ServerState]] = {}
        self._released = asyncio.Event()

    async def serve(self, broker: Broker, sock: socket.socket | None = None) -> None:
        """Listen for a broker, on its bound socket or on a new one."""
        sock = sock or _bound(broker.host, broker.web_port)
        sock.setblocking(False)  # noqa: FBT003 - the standard library names no keyword
        state = ServerState()
        config = Config(
            self._for(broker),
            log_config=None,
            access_log=False,
            lifespan="off",
            ws="none",
            server_header=False,
            timeout_keep_alive=30,
        )
        config.load()
        loop = asyncio.get_running_loop()
        server = await loop.create_server(partial(H11Protocol, config, state, {}), sock=sock)
        self._servers[broker.row] = (server, state)

    def close(self, broker: Broker) -> None:
        """Close a broker's socket and cut its connections."""
        server, state = self._servers.pop(broker.row, (None, None))
        if server is not None and state is not None:
            server.close()
            _cut(state)

    def cut(self, broker: Broker) -> None:
        """Cut a broker's open connections; it keeps listening."""
        if broker.row in self._servers:
            _cut(self._servers[broker.row][1])

    async def _hang_up(self, broker: Broker, client: tuple[str, int]) -> None:
        """Cut one client's connection."""
        state = self._servers[broker.row][1] if broker.row in self._servers else None
        for connection in list(state.connections if state else ()):
            if getattr(connection, "client", None) == tuple(client):
                getattr(connection, "transport").abort()  # noqa: B009 - of two kinds of connections
        await asyncio.sleep(_HANG_UP_S)  # the server would answer 500 to one that is still there

    def close_all(self) -> None:
        """Close everything, hung requests included."""
        self._released.set()
        for row in list(self._servers):
            self.close(self._engine.state.brokers[row])

    def _for(self, broker: Broker) -> ASGIApp:
        async def app(scope: Scope, receive: Receive, plainly: Send) -> None:
            async def send(message: Message) -> None:
                if scope.get(LOSE_ANSWER):
                    await self._hang_up(broker, scope["client"])
                else:
                    await plainly(message)

            scope["broker"] = broker
            if broker.trouble == "hung":
                await self._released.wait()
            elif broker.trouble == "resetting":
                await self._hang_up(broker, scope["client"])
            elif broker.trouble in ("failing", "garbled", "endless"):
                await _troubled(broker.trouble)(scope, receive, send)
            else:
                if broker.trouble == "slow":
                    await asyncio.sleep(SLOW_S)
                await self._app(scope, receive, send)

        return app


def _troubled(trouble: Trouble) -> ASGIApp:
    if trouble == "endless":
        return StreamingResponse(_without_end(), media_type=JSON_TYPE)
    if trouble == "garbled":
        return Response(b'{"lastUpdate": 17, "lastStats": {"acme/', media_type=JSON_TYPE)
    refusal = stack_trace("No heap is left", "java.lang.OutOfMemoryError")
    return as_json({"reason": refusal.reason}, refusal.status)


async def _without_end() -> AsyncIterator[bytes]:
    yield b"["
    while True:  # until the client hangs up
        yield b" " * _CHUNK
        await asyncio.sleep(0)


def _cut(state: ServerState) -> None:
    for connection in list(state.connections):
        transport: Any = getattr(connection, "transport", None)
        if transport is not None:
            transport.abort()
    for task in list(state.tasks):
        task.cancel()


class SandboxRest(Rest):
    """Handlers of the sandbox's own switches."""

    def routes(self) -> list[Route]:
        """Return the routes of everything here."""
        return [
            Route("/sandbox/faults", self.faults),
            Route("/sandbox/faults", self.set_faults, methods=[HTTPMethod.PUT]),
            Route("/sandbox/unloads", self.unloads),
        ]

    async def faults(self, _: Request) -> Response:
        """Current faults of unloads."""
        return as_json(self.engine.faults)

    async def set_faults(self, request: Request) -> Response:
        """Switch the faults that are named; the others stay as they are."""
        try:
            changes = msgspec.json.decode(await request.body(), type=dict[str, object])
            self.engine.faults = changed(self.engine.faults, changes)
        except (msgspec.MsgspecError, InputError) as exc:
            raise RefusalError(400, str(exc)) from exc
        return as_json(self.engine.faults)

    async def unloads(self, _: Request) -> Response:
        """Every request to unload a bundle since the start."""
        return as_json(self.engine.unloads)
