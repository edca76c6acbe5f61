"""A worker that kills itself, as ``kill -9`` does, right before or after its n-th call outwards.

Run as a program with a configuration file and a cluster's name; each line on standard input is the
number of the call (-1: none) and a run. A child is forked for each, which begins with nothing but
what is in the journal, and one line of JSON says how it ended, where, and after how many calls.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from connectors.config.model import TrimtabConfig
from connectors.journal.journal import SqlJournal
from connectors.pulsar.acting.cluster import PulsarCluster
from connectors.pulsar.actions.unload import UnloadAction
from connectors.worker.lease import ZooKeeperLease
from connectors.worker.worker import work_on
from core.actions.model import RunId

CALLS: tuple[tuple[type, str], ...] = (
    (SqlJournal, "append"),
    (ZooKeeperLease, "acquire"),
    (ZooKeeperLease, "is_held"),
    (ZooKeeperLease, "release"),
    (PulsarCluster, "snapshot"),
    (PulsarCluster, "dynamic_setting"),
    (PulsarCluster, "set_dynamic_setting"),
    (PulsarCluster, "send"),
    (UnloadAction, "look"),
)


class Fuse:
    """Counts the calls of this process, and ends it at one of them."""

    def __init__(self, moment: int, tell: int) -> None:
        self._moment = moment
        self._tell = tell
        self._lock = threading.Lock()
        self.count = 0

    def cross(self, where: str) -> None:
        with self._lock:
            if self.count == self._moment:
                self.say(where)
                os.kill(os.getpid(), signal.SIGKILL)
            self.count += 1

    def say(self, where: str) -> None:
        os.write(self._tell, json.dumps({"where": where, "calls": self.count}).encode())

    def wire(self, owner: type, name: str) -> None:
        call: Callable[..., Any] = getattr(owner, name)

        def wired(*args: Any, **more: Any) -> Any:
            event = type(args[1].event).__name__ if name == "append" else ""
            where = f"{owner.__name__}.{name} {event}".strip()
            self.cross(f"before {where}")
            found = call(*args, **more)
            self.cross(f"after {where}")
            return found

        setattr(owner, name, wired)


def live(config: TrimtabConfig, cluster: str, moment: int, run_id: str, tell: int) -> None:
    """Be a worker until the run has ended, or the fuse blows."""
    fuse = Fuse(moment, tell)
    for owner, name in CALLS:
        fuse.wire(owner, name)
    said: list[str] = []
    stop = threading.Event()
    work_on(config, config.cluster(cluster), RunId(run_id), stop, lambda one: said.append(str(one)))
    fuse.say("; ".join(said)[-2_000:])


def main() -> None:
    config, cluster = TrimtabConfig.load(Path(sys.argv[1]), ()), sys.argv[2]
    for line in sys.stdin:
        moment, run_id = line.split()
        heard, tell = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                live(config, cluster, int(moment), run_id, tell)
            finally:
                os._exit(0)
        os.close(tell)
        with os.fdopen(heard, "rb") as pipe:
            content = pipe.read()
        _, status = os.waitpid(pid, 0)
        found = json.loads(content or b"{}") | {"killed": os.WIFSIGNALED(status)}
        print(json.dumps(found), flush=True)  # noqa: T201  # its only output


if __name__ == "__main__":
    main()
