"""Injects and ends faults of a running Pegasus sandbox: for the command line and for tests."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from typing import Final
from urllib.parse import urlencode

import msgspec

from connectors.sandbox.pegasus.control import HEADER, LEADER, PATH
from core.errors import GuardRefusedError, InputError, UnreachableError

_TIMEOUT_S: Final = 10.0
_TAKEOVER_S: Final = 20.0
_LOOK_EVERY_S: Final = 0.1
_LOOPBACK: Final = ("localhost", "127.0.0.1", "[::1]")


@dataclass(frozen=True)
class NodeState:
    """A replica server of the sandbox.

    Attributes:
        is_running: The process is there.
        is_alive: The failure detector's word.
        is_mute: It answers no remote command.
        is_frozen: It accepts connections and answers nothing.
    """

    is_running: bool
    is_alive: bool
    is_mute: bool
    is_frozen: bool = False


@dataclass(frozen=True)
class SandboxState:
    """Running servers.

    Attributes:
        leader: The leading meta server; ``None`` if none leads right now.
        nodes: By registered name.
    """

    leader: str | None
    nodes: dict[str, NodeState]


def sandbox_state(meta_servers: Sequence[str]) -> SandboxState:
    """Return the running servers.

    Raises:
        GuardRefusedError: They are not on loopback, or no sandbox.
        UnreachableError: None of them answers.
    """
    return _ask(meta_servers, "GET", PATH)


def change_node(meta_servers: Sequence[str], node: str, doing: str) -> SandboxState:
    """Inject or end a fault of a node.

    Args:
        meta_servers: ``host:port`` of the sandbox's meta servers.
        node: Registered name; ``leader``: the leading meta server.
        doing: ``stop``, ``start``, ``restart``, ``freeze``, ``thaw``, ``mute`` or ``unmute``.
    Raises:
        GuardRefusedError: They are not on loopback, or no sandbox.
        InputError: There is no such node or no such change.
        UnreachableError: None of them answers.
    """
    query = urlencode({"node": node, "do": doing})
    found = _ask(meta_servers, "POST", f"{PATH}?{query}")
    others = [server for server in meta_servers if server != found.leader]
    return _after(others, found.leader) if node == LEADER and others else found


def _after(meta_servers: Sequence[str], former: str | None) -> SandboxState:
    """Return the state with another leader: the old leader answers first, then ends.

    Args:
        meta_servers: All but the former leader.
        former: It.
    """
    pause = threading.Event()
    deadline_s = time.monotonic() + _TAKEOVER_S
    while True:
        found = sandbox_state(meta_servers)
        if found.leader not in (None, former) or time.monotonic() > deadline_s:
            return found
        pause.wait(_LOOK_EVERY_S)


def _ask(meta_servers: Sequence[str], method: str, target: str) -> SandboxState:
    for server in meta_servers:
        host = server.rpartition(":")[0]
        if host not in _LOOPBACK:
            raise GuardRefusedError(
                f"{server} is not on this machine; faults can be injected only into sandbox nodes.",
                hint="Use the cluster of `trimtab demo` or `trimtab sandbox --kind pegasus`.",
            )
    for server in meta_servers:
        found = _answer(server, method, target)
        if found is not None:
            return _judged(server, *found)
    raise UnreachableError(
        f"No meta server of {', '.join(meta_servers)} responds.",
        endpoint=meta_servers[0],
        operation=f"{method} {PATH}",
        outcome="not_sent",
        hint="Start `trimtab demo` or `trimtab sandbox --kind pegasus`.",
    )


def _answer(server: str, method: str, target: str) -> tuple[int, bytes] | None:
    """Status and body; ``None`` if the server is not there."""
    connection = HTTPConnection(server, timeout=_TIMEOUT_S)
    try:
        connection.request(method, target, headers={HEADER: "1"})
        answer = connection.getresponse()
        return answer.status, answer.read()
    except (OSError, HTTPException):
        return None
    finally:
        connection.close()


def _judged(server: str, status: int, body: bytes) -> SandboxState:
    if status == 400:
        raise InputError(body.decode(errors="replace"))
    try:
        return msgspec.json.decode(body, type=SandboxState)
    except (msgspec.MsgspecError, UnicodeDecodeError) as exc:
        raise GuardRefusedError(
            f"{server} is not a sandbox (it returned {status}); nothing was changed.",
            hint="Faults can be injected only into sandbox nodes.",
        ) from exc
