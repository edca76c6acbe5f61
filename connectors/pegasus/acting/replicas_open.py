"""How many replicas a server has open, by its own count."""

from __future__ import annotations

from typing import Final

from connectors.pegasus.http.client import HttpClient
from core.errors import ProtocolError, UnreachableError
from core.pegasus.answers import NodeEntry

_COUNTS: Final = ("total_replicas", "opening_replicas", "closing_replicas")


class ReplicasOpen:
    """Asks servers for their metrics.

    Args:
        timeout_s: For connecting, and for each wait for bytes.
    """

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s

    def of(self, node: NodeEntry) -> int:
        """Return how many replicas a node serves, opens or closes.

        Asked by its name, else by its address.

        Raises:
            RemoteError: It cannot be reached, or does not report.
        """
        addresses = [node.name, *([node.address] if node.address else [])]
        for address in addresses[:-1]:
            try:
                return self._at(address)
            except UnreachableError:
                continue
        return self._at(addresses[-1])

    def _at(self, address: str) -> int:
        client = HttpClient(address, timeout_s=self._timeout_s)
        try:
            sample = client.fetch_metrics(types=("server",), metrics=_COUNTS)
        finally:
            client.close()
        found = [
            values[name] for values in sample.values.values() for name in _COUNTS if name in values
        ]
        if len(found) < len(_COUNTS):
            raise ProtocolError(
                f"{address} does not count its replicas in /metrics.",
                endpoint=address,
                operation="GET /metrics",
                outcome="refused",
                hint="Its version may be too old: look at its own pages.",
            )
        return int(sum(found))
