"""Pegasus clusters whose processes a test may end, freeze and start: the sandbox, and a real one.

A real one is named by ``TRIMTAB_PEGASUS_META`` (``host:port`` of its meta servers, with commas) and
``TRIMTAB_PEGASUS_CONTROL``: a program that takes ``kill-node N``, ``start-node N`` and ``pid N``,
where N is the place of a replica server (1, 2, ...) in the order of ports, or ``meta1``, ``meta2``.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

import pytest
from pegasus_site import PegasusSite, wait_until
from signed_requests import as_requested

from connectors.sandbox.pegasus.fleet import PegasusOptions, PegasusSandbox
from connectors.worker.worker import run_worker
from core.actions.events import ControlRequested, Record
from core.actions.model import RunId
from core.actions.runs import RunView
from core.pegasus.levels import FunctionLevel
from core.pegasus.steps.level import LEVEL_KEY
from core.plan.model import Plan

META_ENV = "TRIMTAB_PEGASUS_META"
CONTROL_ENV = "TRIMTAB_PEGASUS_CONTROL"
FAST = PegasusOptions(tick_s=0.2, learn_mb_per_s=20_000, grace_s=0.3, failover_s=0.3)
KINDS = ["sandbox", *(["real"] if {META_ENV, CONTROL_ENV} <= os.environ.keys() else [])]
SETTINGS = (
    LEVEL_KEY,
    "meta.lb.assign_delay_ms",
    "meta.lb.assign_secondary_black_list",
    "meta.lb.add_secondary_enable_flow_control",
    "meta.lb.add_secondary_max_count_for_one_node",
    "meta.lb.only_move_primary",
    "nfs.max_copy_rate_megabytes_per_disk@*",
    "nfs.max_send_rate_megabytes_per_disk@*",
)


class Ground(ABC):
    """A cluster, and its processes."""

    within_s: float

    def __init__(self, site: PegasusSite) -> None:
        self.site = site

    @property
    def nodes(self) -> list[str]:
        return sorted(node.name for node in self.site.client.fetch_nodes())

    @property
    def fullest(self) -> str:
        """The living node with most replicas."""
        held = [name for _, config in self.site.every() for name in config.members]
        return max(sorted(set(held)), key=held.count)

    @abstractmethod
    def kill(self, node: str) -> None: ...

    @abstractmethod
    def start(self, node: str) -> None: ...

    @abstractmethod
    def kill_leader(self) -> Callable[[], None]:
        """End the leading meta server; return what starts it again."""

    @abstractmethod
    def freeze(self, node: str) -> None: ...

    @abstractmethod
    def thaw(self, node: str) -> None: ...

    def restart(self, node: str) -> None:
        self.kill(node)
        threading.Event().wait(1.2)  # a server reports its start in whole seconds
        self.start(node)

    def settings(self) -> dict[str, str | None]:
        return {name: self.site.cluster.dynamic_setting(name) for name in SETTINGS}

    def is_whole(self) -> bool:
        return all(one.primary and one.replica_count == 3 for _, one in self.site.every())

    def await_whole(self) -> None:
        wait_until(self.is_whole, "every partition healthy", self.within_s, every_s=0.25)


class SandboxGround(Ground):
    """The sandbox."""

    within_s = 100.0

    def __init__(self, sandbox: PegasusSandbox, site: PegasusSite) -> None:
        super().__init__(site)
        self.sandbox = sandbox

    def kill(self, node: str) -> None:
        self.sandbox.lose_node(node)

    def start(self, node: str) -> None:
        self.sandbox.regain_node(node)

    def kill_leader(self) -> Callable[[], None]:
        self.sandbox.lose_leader()
        return lambda: None

    def freeze(self, node: str) -> None:
        self.sandbox.freeze_node(node)

    def thaw(self, node: str) -> None:
        self.sandbox.thaw_node(node)


class RealGround(Ground):
    """A real cluster on this machine."""

    within_s = 240.0

    def kill(self, node: str) -> None:
        self._ask("kill-node", self._place(node))

    def start(self, node: str) -> None:
        self._ask("start-node", self._place(node))

    def kill_leader(self) -> Callable[[], None]:
        leader = self.site.client.fetch_cluster_info().leader
        name = f"meta{os.environ[META_ENV].split(',').index(leader) + 1}"
        self._ask("kill-node", name)
        return lambda: self._ask("start-node", name)

    def freeze(self, node: str) -> None:
        os.kill(int(self._ask("pid", self._place(node))), signal.SIGSTOP)

    def thaw(self, node: str) -> None:
        os.kill(int(self._ask("pid", self._place(node))), signal.SIGCONT)

    def _place(self, node: str) -> str:
        return str(self.nodes.index(node) + 1)

    @staticmethod
    def _ask(*words: str) -> str:
        # a file, no pipe: the servers that are started hold what they inherit open
        with (Path(os.environ[CONTROL_ENV]).parent / "control.out").open("w+") as out:
            command = [os.environ[CONTROL_ENV], *words]
            subprocess.run(  # the program that the tester names
                command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, timeout=60, check=True
            )
            out.seek(0)
            return out.read().strip()


@contextmanager
def ground_of(kind: str) -> Iterator[Ground]:
    """Return a cluster at steady with every partition healthy."""
    if kind == "real":
        site = PegasusSite.of(os.environ[META_ENV].split(","))
        real = RealGround(site)
        site.client.apply_level(FunctionLevel.STEADY)
        real.await_whole()
        yield real
        site.close()
        return
    with PegasusSandbox(FAST) as sandbox:
        site = PegasusSite.of(sandbox.meta_servers)
        yield SandboxGround(sandbox, site)
        site.close()


@pytest.fixture(params=KINDS)
def ground(request: pytest.FixtureRequest) -> Iterator[Ground]:
    with ground_of(request.param) as one:
        yield one


class Run:
    """A run of a plan with a worker beside it, until the end of the block."""

    def __init__(self, site: PegasusSite, folder: Path, plan: Plan) -> None:
        assert plan.applyable, plan.diagnostics
        self._site, self._folder = site, folder
        self._stop = threading.Event()
        config = site.trimtab(folder)
        self._thread = threading.Thread(
            target=run_worker, args=(config, config.clusters, self._stop, lambda _: None)
        )
        self.run_id: RunId = site.ask(folder, plan)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    @property
    def view(self) -> RunView:
        return self._site.view(self._folder, self.run_id)

    def waits(self, part: str) -> bool:
        """Return whether a step that is pending says that it waits for this."""
        steps = self.view.steps
        return any(part in step.waiting for step in steps if step.state == "PENDING")

    def wait(self, is_true: Callable[[], object], what: str, within_s: float = 100.0) -> None:
        wait_until(is_true, what, within_s, every_s=0.25)

    def ended(self, within_s: float = 180.0) -> RunView:
        wait_until(lambda: self.view.is_ended, "the end of the run", within_s, every_s=0.25)
        return self.view

    def ask_to_stop(self) -> None:
        event = ControlRequested(control="stop", reason="a test")
        record = Record(
            run_id=self.run_id,
            cluster=self._site.config.name,
            at=datetime.now(UTC),
            actor="tester",
            event=event,
        )
        journal = self._site.journal(self._folder)
        try:
            journal.append(as_requested(record))
        finally:
            journal.close()


class Lacking:
    """Counts how many partitions lack a replica, until the end of the block."""

    def __init__(self, site: PegasusSite) -> None:
        self._own = PegasusSite.of(site.config.meta_servers)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._count, daemon=True)
        self.most_lacking = 0

    def _count(self) -> None:
        while not self._ended.wait(0.1):
            every = [config for _, config in self._own.every()]
            self.most_lacking = max(self.most_lacking, sum(one.replica_count < 3 for one in every))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        self._own.close()
