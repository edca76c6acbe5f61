"""Write the demo's simulated past, as a child of ``trimtab demo``: the last hours first."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path
from typing import Final

from core.errors import OpsError
from core.snapshot.store import CachedSnapshot
from dashboard import services
from dashboard.cli.config import read_config
from dashboard.cli.output import note
from dashboard.cli.supervisor import end_with_parent
from dashboard.services.sandbox import SandboxRequest, write_past

_NICE: Final = 15
_POLL_S: Final = 0.2
_WITHIN_S: Final = 120.0


def main() -> int:
    """Write the past of every cluster of a configuration.

    The arguments are the configuration, brokers, bundles and the seed.
    """
    end_with_parent()
    os.nice(_NICE)  # what the person sees comes first
    path, brokers, bundles, seed = sys.argv[1:]
    config = read_config(Path(path))
    request = SandboxRequest(brokers=int(brokers), bundles=int(bundles), seed=int(seed))
    writing = {}
    for cluster in config.clusters:
        first = _first_snapshot(config, cluster.name)
        if first is not None:
            writing[cluster.name] = write_past(config, first, request)
    while writing:  # a part of each in turn
        for name in list(writing):
            try:
                count = next(writing[name], None)
            except OpsError as error:
                note(f"{name}: the simulated past was not written: {error}")
                count = None
            if count is None:
                del writing[name]
            else:
                note(f"{name}: {count} simulated minutes")
    return 0


def _first_snapshot(config: services.Config, cluster: str) -> CachedSnapshot | None:
    """Return the first snapshot of a cluster as soon as there is one.

    Where this process begins late, others followed it and are recorded: the past ends before them.
    """
    store, wait = services.snapshot_store(config), threading.Event()
    for _ in range(int(_WITHIN_S / _POLL_S)):
        found = store.entries(cluster)
        if found:
            return found[0]
        wait.wait(_POLL_S)
    return None


if __name__ == "__main__":
    sys.exit(main())
