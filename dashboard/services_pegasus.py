"""The composition root's half for Pegasus; see :mod:`dashboard.services`."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from connectors.config import ClusterConfig
    from core.snapshot.pegasus import PegasusSnapshot

SANDBOX_NAME: Final = "sandbox-pegasus"


class RunningPegasus(Protocol):
    """What a command needs to know of a running sandbox."""

    @property
    def meta_servers(self) -> list[str]:
        """``host:port`` of the meta servers."""

    @property
    def nodes(self) -> list[str]:
        """Registered names of the replica servers."""


def capture(cluster: ClusterConfig) -> PegasusSnapshot:
    """Take one snapshot.

    Raises:
        RemoteError: The leading meta server was not found, or tells no nodes or tables.
    """
    from connectors.pegasus.collect import PegasusCollector  # noqa: PLC0415  # commands start fast

    collector = PegasusCollector(cluster)
    try:
        return collector.collect()
    finally:
        collector.close()


def sandbox(seed: int) -> AbstractContextManager[RunningPegasus]:
    """Return a local cluster that runs within the ``with`` block."""
    from connectors.sandbox.pegasus import fleet  # noqa: PLC0415  # commands must start fast

    return fleet.PegasusSandbox(fleet.PegasusOptions(seed=seed, cluster=SANDBOX_NAME))
