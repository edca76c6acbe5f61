"""Write the demo's simulated past, as a child of ``trimtab demo``: the last hours first."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from core.errors import OpsError
from dashboard import services
from dashboard.cli.config import read_config
from dashboard.cli.output import note
from dashboard.cli.supervisor import READY_S, end_with_parent
from dashboard.services.sandbox import SandboxRequest, write_past

_NICE: Final = 15
_POLL_S: Final = 0.2


def main() -> int:
    """Write the past of every cluster of a configuration.

    The arguments are the configuration, brokers, bundles and the seed.
    """
    end_with_parent()
    os.nice(_NICE)  # what the person sees comes first
    path, brokers, bundles, seed = sys.argv[1:]
    config = read_config(Path(path))
    request = SandboxRequest(brokers=int(brokers), bundles=int(bundles), seed=int(seed))
    write(config, request, within_s=READY_S)
    return 0


def write(config: services.Config, request: SandboxRequest, *, within_s: float) -> None:
    """Write the past of each cluster from its first snapshot on, a part of each in turn.

    Where this process begins late, others followed it and are recorded: the past ends before them.

    Args:
        config: Its clusters.
        request: Of the sandboxes.
        within_s: A cluster without a snapshot by then has no past.
    """
    store, wait = services.snapshot_store(config), threading.Event()
    deadline = time.monotonic() + within_s
    waiting = [cluster.name for cluster in config.clusters]
    writing: dict[str, Iterator[int]] = {}
    while waiting or writing:
        for name in list(waiting):
            entries = store.entries(name)
            if entries:
                waiting.remove(name)
                writing[name] = write_past(config, entries[0], request)
        for name in list(writing):
            if not _write_part(name, writing[name]):
                del writing[name]
        if not writing:
            if time.monotonic() >= deadline:
                return
            wait.wait(_POLL_S)


def _write_part(cluster: str, parts: Iterator[int]) -> bool:
    """Write the next part; return whether there was one."""
    try:
        count = next(parts, None)
    except OpsError as error:
        note(f"{cluster}: the simulated past was not written: {error}")
        return False
    if count is not None:
        note(f"{cluster}: {count} simulated minutes")
    return count is not None


if __name__ == "__main__":
    sys.exit(main())
