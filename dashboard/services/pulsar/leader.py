"""Access of commands and pages to the connectors for a cluster's leader."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from connectors.config.model import ClusterConfig, TrimtabConfig
    from core.pulsar.leader.prediction import Forecast


def leader_forecast(config: TrimtabConfig, cluster: str) -> Forecast | None:
    """Return the latest forecast that the collector published; ``None`` if there is none."""
    from connectors.pulsar.leader.observer import (  # noqa: PLC0415  # pages load it when shown
        forecast_path,
        read_forecast,
    )

    return read_forecast(forecast_path(config.state_dir / "leader", cluster))


def record_leader(
    cluster: ClusterConfig,
    out: Path,
    stop: threading.Event,
    on_begin: Callable[[int], None],
    for_s: float | None = None,
) -> int:
    """Record the znodes that a cluster's leader works from; return how many events there are.

    Args:
        out: File to create.
        stop: Set it to end.
        on_begin: Called with the number of znodes when watching has begun.
        for_s: Ends it after this time, seconds; ``None``: only ``stop`` does.

    Raises:
        ConfigError: The cluster has no ZooKeeper address.
        InputError: The file exists, or cannot be written.
        RemoteError: ZooKeeper cannot be reached.
    """
    from connectors.pulsar.leader.recording import (  # noqa: PLC0415  # commands must start fast
        LeaderRecording,
    )

    return LeaderRecording(cluster, out, on_begin).run(stop, for_s=for_s)
