"""The composition root's half for Pegasus; see :mod:`dashboard.services`."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Final, Protocol

from core.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from connectors.config.model import TrimtabConfig
    from connectors.sandbox.pegasus.remote import SandboxState

SANDBOX_NAME: Final = "sandbox-pegasus"


class RunningPegasus(Protocol):
    """A running sandbox as commands see it."""

    @property
    def meta_servers(self) -> list[str]:
        """``host:port`` of the meta servers."""

    @property
    def nodes(self) -> list[str]:
        """Registered names of the replica servers."""


def sandbox(
    seed: int, former_nodes: Sequence[str] = (), former_metas: Sequence[str] = ()
) -> AbstractContextManager[RunningPegasus]:
    """Return a local cluster that runs within the ``with`` block.

    Args:
        seed: Of all random draws.
        former_nodes: ``host:port`` of the nodes of an earlier run, taken again if all are free.
        former_metas: The same of the meta servers.
    """
    from connectors.sandbox.pegasus import fleet  # noqa: PLC0415  # commands must start fast

    nodes, metas = (
        tuple(int(one.rpartition(":")[2]) for one in former)
        for former in (former_nodes, former_metas)
    )
    options = fleet.PegasusOptions(
        seed=seed,
        cluster=SANDBOX_NAME,
        is_living=True,
        former_replica_ports=nodes,
        former_meta_ports=metas,
    )
    return fleet.PegasusSandbox(options)


def sandbox_meta_servers(config: TrimtabConfig) -> list[str]:
    """Return the meta servers of the Pegasus sandbox of a configuration.

    Raises:
        ConfigError: It names no Pegasus cluster of a demo.
    """
    for cluster in config.of_kind("pegasus").clusters:
        if cluster.environment == "demo":
            return cluster.meta_servers
    raise ConfigError(
        f"{config.file or 'The configuration'} has no Pegasus sandbox.",
        hint="Specify with --config the file written by `trimtab demo` or `trimtab sandbox --kind "
        "pegasus --write-config FILE`.",
    )


def change_sandbox_node(meta_servers: Sequence[str], node: str, doing: str) -> SandboxState:
    """Break or repair a node of a running sandbox, or ask only how its nodes are.

    Args:
        meta_servers: ``host:port`` of the sandbox's meta servers.
        node: Registered name; empty: nothing is changed.
        doing: ``stop``, ``start``, ``restart``, ``freeze``, ``thaw``, ``mute`` or ``unmute``.
    Raises:
        GuardRefusedError: They are not on loopback, or no sandbox.
        InputError: There is no such node or no such change.
        UnreachableError: None of them answers.
    """
    from connectors.sandbox.pegasus import remote  # noqa: PLC0415  # commands must start fast

    return (
        remote.change_node(meta_servers, node, doing)
        if node
        else remote.sandbox_state(meta_servers)
    )
