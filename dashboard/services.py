"""The composition root: the only module that builds clients and knows connectors.

Pages and commands ask here; nothing heavy is imported until it is needed.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from core.snapshot.store import Shelf

if TYPE_CHECKING:
    import pyarrow as pa

    from connectors.config import ClusterConfig, TrimtabConfig

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
