"""The composition root: the only module that builds clients and knows connectors.

Pages and commands ask here; nothing heavy is imported until it is needed.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from core.snapshot import PulsarSnapshot
from core.snapshot.store import Shelf, Shelved

if TYPE_CHECKING:
    import pyarrow as pa

    from connectors.collect import CheckResult
    from connectors.config import ClusterConfig, TrimtabConfig

    Cluster = ClusterConfig
    Config = TrimtabConfig
    """What the pages call the two; they import nothing of the connectors."""

CONFIG_ENV: Final = "TRIMTAB_CONFIG"
"""Path of the configuration file, set by the command line for the pages."""


def now() -> datetime:
    """Return the present moment, aware UTC: the dashboard's only clock."""
    return datetime.now(UTC)


# -- for the pages ---------------------------------------------------------------------------------


def page_config() -> TrimtabConfig:
    """Return the configuration that the command line named for the pages.

    Raises:
        ConfigError: It cannot be read or is contradictory.
    """
    path = os.environ.get(CONFIG_ENV)
    changed_at = Path(path).stat().st_mtime if path and Path(path).is_file() else 0.0
    return _loaded(path, changed_at)


@lru_cache(maxsize=4)
def _loaded(path: str | None, changed_at: float) -> TrimtabConfig:  # noqa: ARG001  # key of the cache
    from connectors.config import TrimtabConfig  # noqa: PLC0415  # commands must start fast

    return TrimtabConfig.load(Path(path) if path else None)


def shelf(config: TrimtabConfig) -> Shelf:
    """Return the shelf on which the collectors keep the recent snapshots."""
    return Shelf(config.state_dir / "snapshots")


def collector_status_path(config: TrimtabConfig, cluster: str) -> Path:
    """Return where the collector of ``cluster`` writes how it is doing."""
    return config.state_dir / "collectors" / f"{cluster}.json"


def fetch_topics(cluster: ClusterConfig, broker_web_url: str, bundle: str) -> pa.Table:
    """Read the topics of one bundle from its owner: the only cluster access of the pages.

    Raises:
        RemoteError: The broker did not answer as it should.
    """
    from connectors.collect import fetch_topics as fetch  # noqa: PLC0415  # commands start fast

    return fetch(cluster, broker_web_url, bundle)


# -- for the command line --------------------------------------------------------------------------

SANDBOX_NAME: Final = "sandbox"


class RunningFleet(Protocol):
    """What a command needs to know of a running sandbox."""

    @property
    def zookeeper(self) -> str:
        """``host:port``."""
        ...

    @property
    def admin_urls(self) -> list[str]:
        """One address a broker."""
        ...


def config_path(given: Path | None) -> Path | None:
    """Return the configuration file to use, as an absolute path.

    The one given, else what ``TRIMTAB_CONFIG`` names, else ``trimtab.toml`` here, else ``None``.
    """
    from connectors.config import DEFAULT_FILE  # noqa: PLC0415  # commands must start fast

    named = os.environ.get(CONFIG_ENV)
    chosen = given or (Path(named) if named else DEFAULT_FILE if DEFAULT_FILE.is_file() else None)
    return chosen.resolve() if chosen else None


def load_config(path: Path | None) -> TrimtabConfig:
    """Read the configuration.

    Raises:
        ConfigError: It cannot be read or is contradictory.
    """
    from connectors.config import TrimtabConfig  # noqa: PLC0415  # commands must start fast

    return TrimtabConfig.load(path)


def has_snapshots(path: Path) -> bool:
    """Return whether a snapshot is kept for any cluster of that configuration."""
    return bool(shelf(load_config(path)).clusters())


def sandbox(
    brokers: int, bundles: int, seed: int, data_dir: Path | None
) -> AbstractContextManager[RunningFleet]:
    """Return a local fleet that runs within the ``with`` block."""
    from connectors.sandbox.fleet import Sandbox  # noqa: PLC0415  # commands must start fast
    from connectors.sandbox.options import SandboxOptions  # noqa: PLC0415  # the same

    return Sandbox(SandboxOptions(brokers=brokers, bundles=bundles, seed=seed, data_dir=data_dir))


def capture(cluster: ClusterConfig) -> PulsarSnapshot:
    """Take one snapshot.

    Raises:
        RemoteError: Nothing at all could be read.
    """
    from connectors.collect import PulsarCollector  # noqa: PLC0415  # commands must start fast

    collector = PulsarCollector(cluster)
    try:
        return collector.collect()
    finally:
        collector.close()


def keep(config: TrimtabConfig, snapshot: PulsarSnapshot) -> Shelved:
    """Put a snapshot on the shelf."""
    return shelf(config).put(snapshot, config.keep.retention())


def check(cluster: ClusterConfig) -> Sequence[CheckResult]:
    """Try every endpoint of a cluster."""
    from connectors.collect import check_cluster  # noqa: PLC0415  # commands must start fast

    return check_cluster(cluster)


def run_collector(
    config: TrimtabConfig,
    clusters: Sequence[ClusterConfig],
    every_s: float,
    stop: threading.Event,
    tell: Callable[[str], None],
) -> None:
    """Keep snapshots of clusters until ``stop`` is set."""
    from connectors import collector as loops  # noqa: PLC0415  # commands must start fast

    loops.run_collector(config, clusters, every_s, stop, lambda event: tell(str(event)))
