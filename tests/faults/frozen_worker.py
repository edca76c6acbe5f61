"""A worker that freezes itself, as a paused machine does, right before its first request goes out.

Run as a program with a configuration file and a cluster's name; whoever wants it to go on sends it
SIGCONT. It is a worker like any other from then on.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

from connectors.config.model import TrimtabConfig
from connectors.pulsar.acting.cluster import PulsarCluster
from connectors.worker.worker import run_worker
from dashboard.cli.supervisor import shutting_down


def main() -> None:
    config = TrimtabConfig.load(Path(sys.argv[1]), ())
    send, frozen = PulsarCluster.send, threading.Event()

    def frozen_first(*given: Any, **more: Any) -> Any:
        if not frozen.is_set():
            frozen.set()
            os.kill(os.getpid(), signal.SIGSTOP)
        return send(*given, **more)

    PulsarCluster.send = frozen_first  # type: ignore[method-assign]  # this process' own
    with shutting_down(threading.Event()) as stop:
        run_worker(config, [config.cluster(sys.argv[2])], stop, lambda _: None)


if __name__ == "__main__":
    main()
