"""How bundles change hands: unload, split, and the end of a broker."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from connectors.sandbox.pulsar import documents
from connectors.sandbox.pulsar.bootstrap import encode
from connectors.sandbox.pulsar.engine import AVERAGES_PATH, BROKERS_PATH, LEADER_PATH, Engine
from connectors.sandbox.pulsar.state import NO_BROKER, Broker
from connectors.sandbox.pulsar.zksession import NodeExistsError
from core.errors import RemoteError

_CLOSE_TOPICS_S: Final = (0.02, 0.09)
_CLIENTS_RETURN_S: Final = (0.08, 0.22)
_AFTER_A_CRASH_S: Final = (0.1, 0.9)
_ELECTION_S: Final = 0.5
_RETRY_S: Final = 1.0
_DYING_S: Final = 0.5
_GUARD_S: Final = 0.1


class OwnershipChanges:
    """Takes bundles from brokers and gives them to others.

    Args:
        engine: The running cluster.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._state = engine.state
        self._rng = np.random.default_rng([engine.options.seed, 4])
        self._arriving: dict[int, asyncio.Future[int]] = {}
        self.hints: dict[str, int] = {}
        self.closing: set[int] = set()
        self.kill: Callable[[Broker], Coroutine[Any, Any, None]] = self.crash

    async def guard(self) -> None:
        """Look after lost connections and brokers whose node went away; runs until cancelled."""
        engine = self._engine
        while True:
            await asyncio.sleep(_GUARD_S)
            try:
                await engine.reconnect()
                present = set(await engine.admin.children(BROKERS_PATH))
                for broker in self._state.brokers:
                    if broker.is_registered and broker.broker_id not in present:
                        await (engine.register(broker) if broker.is_up else self.bury(broker))
            except RemoteError:  # ZooKeeper is away: look again
                continue

    async def unload(self, row: int) -> None:
        """Close a bundle on its owner; it comes back wherever it is placed, moments later."""
        owner = int(self._state.owner[row])
        if owner == NO_BROKER or row in self.closing:
            return
        self.closing.add(row)
        try:
            await self._close_topics(owner)
            await self._release(row, owner)
        finally:
            self.closing.discard(row)
            self._engine.spawn(self._return(row, self._rng.uniform(*_CLIENTS_RETURN_S)))

    async def _close_topics(self, owner: int) -> None:
        """Take the time that closing topics takes; accidents happen in the middle of it."""
        faults = self._engine.faults
        slow_s = faults.slow_s if faults.concerns(owner) else 0.0
        await asyncio.sleep(slow_s or self._rng.uniform(*_CLOSE_TOPICS_S))
        accident = faults.accident
        if accident:
            self._engine.faults = replace(self._engine.faults, accident="")
        if accident == "owner_dies":
            # in the background of this request, which ends with the broker that it came in at
            self._engine.spawn(self.kill(self._state.brokers[owner]))
            await asyncio.sleep(_DYING_S)
        elif accident == "leader_change":
            await self.depose()

    async def depose(self) -> None:
        """Depose the leader, with what it remembers; another one follows."""
        engine, old = self._engine, self._engine.leader
        session = engine.sessions[old] if old != NO_BROKER else None
        if session is None:
            return
        self._forget_leader()
        await session.remove(LEADER_PATH)
        engine.spawn(self._elect(without=old))

    def hint(self, bundle: str, broker: int) -> None:
        """Remember the destination for the next lookup of a bundle; the leader uses it once."""
        if self._rng.random() >= self._engine.faults.hint_loss_ratio:
            self.hints[bundle] = broker

    async def assign(self, row: int) -> int:
        """Return the owner of a bundle; an unassigned one is placed first.

        Returns:
            Row of the broker, ``NO_BROKER`` when none is eligible.
        """
        owner = int(self._state.owner[row])
        if owner != NO_BROKER:
            return owner
        running = self._arriving.get(row)
        if running is None:
            running = asyncio.ensure_future(self._place(row))
            self._arriving[row] = running
            running.add_done_callback(lambda _: self._arriving.pop(row, None))
        return await asyncio.shield(running)

    async def split(self, row: int, inner: Sequence[int], *, unload: bool) -> None:
        """Cut a bundle at the given bounds; the parts stay with its owner, then go if requested."""
        engine, state = self._engine, self._state
        owner = int(state.owner[row])
        broker = state.brokers[owner]
        namespace = int(state.namespace[row])
        name = state.namespaces[namespace]
        parts = state.split(row, inner)
        await engine.own(broker, np.array(parts))
        bounds = state.boundaries[namespace]
        local = documents.local_policies(bounds, engine.policies.groups.get(name))
        await engine.admin.put(f"/admin/local-policies/{name}", encode(local))
        whole = engine.policies.document(name, bounds, engine.options.cluster)
        await engine.admin.put(f"/admin/policies/{name}", encode(whole))
        session = engine.sessions[owner]
        if session is not None:
            await session.remove(f"/namespace/{state.names[row]}")
        await engine.drop_averages(np.array([row]))
        if unload:
            for part in parts:
                engine.spawn(self.unload(part))

    async def retire(self, broker: Broker) -> None:
        """Stop a broker in good order: its node goes first, then its bundles, then the session."""
        engine, state = self._engine, self._state
        session = engine.sessions[broker.row]
        broker.is_up = False
        if session is None:
            return
        await session.remove(f"/namespace/{broker.heartbeat_bundle}")
        await session.remove(f"{BROKERS_PATH}/{broker.broker_id}")
        names = [state.names[row] for row in state.owned_rows(broker.row).tolist()]
        await asyncio.gather(*(session.remove(f"/namespace/{name}") for name in names))
        await session.close()
        await self.bury(broker)

    async def crash(self, broker: Broker) -> None:
        """Let a broker vanish: nodes stay until its session runs out."""
        session = self._engine.sessions[broker.row]
        broker.is_up = False
        if session is not None:
            await session.abandon()

    async def bury(self, broker: Broker) -> None:
        """Do what the others do when a broker is gone: elect, clean up, place its bundles."""
        engine, state = self._engine, self._state
        engine.sessions[broker.row] = None
        broker.is_registered = False
        state.forget_reports(broker.row)
        lost = state.owned_rows(broker.row)
        state.owner[lost] = NO_BROKER
        if engine.leader == broker.row:
            self._forget_leader()
            engine.spawn(self._elect())
        for row in lost.tolist():
            engine.spawn(self._return(row, self._rng.uniform(*_AFTER_A_CRASH_S)))
        await engine.admin.remove(f"{AVERAGES_PATH}/{broker.broker_id}")
        await engine.update_all(runs=2)

    def _forget_leader(self) -> None:
        self._engine.leader = NO_BROKER
        self.hints.clear()
        self._engine.load_manager.depose()

    async def _elect(self, *, without: int = NO_BROKER) -> None:
        """Elect the first running broker; ``without``: only when no other broker runs."""
        engine = self._engine
        while engine.leader == NO_BROKER:
            await asyncio.sleep(_ELECTION_S)
            candidates = sorted(self._state.brokers, key=lambda broker: broker.row == without)
            for broker in candidates:
                if broker.is_up and engine.sessions[broker.row] is not None:
                    with contextlib.suppress(RemoteError):  # the old leader's node is still there
                        await engine.lead(broker.row)
                    break

    async def _release(self, row: int, owner: int) -> None:
        session = self._engine.sessions[owner]
        is_up = self._state.brokers[owner].is_up
        if session is not None and is_up and int(self._state.owner[row]) == owner:
            self._state.owner[row] = NO_BROKER
            await session.remove(f"/namespace/{self._state.names[row]}")

    async def _return(self, row: int, after_s: float) -> None:
        """Let the clients of a bundle look it up until it has an owner; without topics none do."""
        faults = self._engine.faults
        share = faults.clients_gone_ratio
        if not self._has_topics(row) or (share and self._rng.random() < share):
            return
        await asyncio.sleep(faults.clients_return_s or after_s)
        while self._state.is_live[row]:
            with contextlib.suppress(RemoteError):
                if await self.assign(row) != NO_BROKER:
                    return
            await asyncio.sleep(_RETRY_S)

    def _has_topics(self, row: int) -> bool:
        topics = self._state.topics_of(int(self._state.namespace[row]))
        return bool((self._state.topic_bundle[topics] == row).any())

    def _astray(self, target: int) -> int:
        """Return another running broker than the chosen one, where that fault is on."""
        if target == NO_BROKER or self._rng.random() >= self._engine.faults.elsewhere_ratio:
            return target
        others = [broker.row for broker in self._state.brokers if broker.is_up]
        others = [row for row in others if row != target]
        return int(self._rng.choice(others)) if others else target

    async def _place(self, row: int) -> int:
        engine, state = self._engine, self._state
        if engine.leader == NO_BROKER:
            return NO_BROKER
        name = state.names[row]
        target = self.hints.pop(name, NO_BROKER)
        if target == NO_BROKER or not state.brokers[target].is_up:
            target = engine.load_manager.choose(row)
        target = self._astray(target)
        session = engine.sessions[target] if target != NO_BROKER else None
        if session is None or not state.brokers[target].is_up:
            return NO_BROKER
        value = encode(documents.ownership(state.brokers[target]))
        try:
            await session.create(f"/namespace/{name}", value, ephemeral=True)
        except NodeExistsError:  # left behind when the connection broke in the middle of an unload
            await engine.admin.remove(f"/namespace/{name}")
            return NO_BROKER
        except RemoteError:
            return NO_BROKER
        state.owner[row] = target
        return target
