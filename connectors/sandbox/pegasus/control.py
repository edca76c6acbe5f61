"""What only the sandbox answers, below ``/sandbox`` of its meta servers: its own nodes, broken.

curl 127.0.0.1:34601/sandbox
curl -X POST -H 'X-Trimtab-Sandbox: 1' '127.0.0.1:34601/sandbox?node=localhost:34803&do=stop'
curl -X POST -H 'X-Trimtab-Sandbox: 1' '127.0.0.1:34601/sandbox?node=leader&do=stop'

A change needs the header: a page of the web that a person has open cannot send it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from connectors.sandbox.pegasus.cluster import Cluster
from connectors.sandbox.pegasus.server import HttpAnswer, split_target
from core.errors import OpsError, UnknownNameError

PATH: Final = "/sandbox"
HEADER: Final = "x-trimtab-sandbox"
_ANSWER_S: Final = 0.1
LEADER: Final = "leader"
"""In the place of a node's name: the leading meta server."""


class Control:
    """Reads and changes what runs.

    Args:
        cluster: The whole sandbox.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._doings: dict[str, Callable[[str], Awaitable[None]]] = {
            "stop": cluster.lose_node,
            "start": cluster.regain_node,
            "restart": cluster.restart_node,
            "mute": self._mute,
            "unmute": self._unmute,
            "freeze": cluster.freeze_node,
            "thaw": cluster.thaw_node,
        }

    def state(self) -> HttpAnswer:
        """Return the running servers, as one JSON object."""
        nodes = {
            node.name: {
                "is_running": node.is_running,
                "is_alive": node.is_alive,
                "is_mute": node.is_mute,
                "is_frozen": node.is_frozen,
            }
            for node in self._cluster.state.nodes.values()
        }
        body = {"leader": self._cluster.leader, "nodes": nodes}
        return HttpAnswer(200, json.dumps(body, separators=(",", ":")) + "\n")

    async def answer(self, target: str, headers: Mapping[str, str]) -> HttpAnswer:
        """Do what a POST of ``/sandbox?node=...&do=...`` requests.

        Args:
            target: Path and query.
            headers: By lower-case name.
        """
        path, parameters = split_target(target)
        if path != PATH.strip("/"):
            return HttpAnswer(404, f'service not found for "{path}"')
        if HEADER not in headers:
            return HttpAnswer(400, f"A change needs the header {HEADER}: 1.")
        node, word = parameters.get("node", ""), parameters.get("do", "")
        try:
            await self._do(node, word)
        except OpsError as exc:
            return HttpAnswer(400, str(exc))
        return self.state()

    async def _do(self, node: str, word: str) -> None:
        if node == LEADER:
            if word != "stop":
                raise UnknownNameError.of("change of the leader", word, ["stop"])
            self._cluster.meta.spawn(self._lose_leader_soon())
            return
        doing = self._doings.get(word)
        if doing is None:
            raise UnknownNameError.of("change of a node", word, list(self._doings))
        await doing(node)

    async def _lose_leader_soon(self) -> None:
        """End it after the answer has gone: the question may have come to itself."""
        await asyncio.sleep(_ANSWER_S)
        await self._cluster.lose_leader()

    async def _mute(self, node: str) -> None:
        await self._cluster.mute_node(node, is_mute=True)

    async def _unmute(self, node: str) -> None:
        await self._cluster.mute_node(node, is_mute=False)
