"""Whether anything asks for a bundle: the topics that its owner has loaded, those that exist.

Brokers count at intervals (``statsUpdateFrequencyInSecs``, 60 s by default): a topic that was
loaded or closed since is not in the answer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

import msgspec
import pyarrow.compute as pc

from connectors.pulsar.acting.addresses import Addresses
from connectors.pulsar.admin.capture import ADMIN
from connectors.pulsar.admin.client import AdminClient, quoted
from connectors.pulsar.admin.parse import BrokerTopics, topics_table
from core.errors import NotFoundError, RemoteError
from core.ids import namespace_of
from core.pulsar.snapshot.znodes.records import BundleStats
from core.snapshot import PulsarSnapshot

_REPORT: Final = f"{ADMIN}/broker-stats/load-report"
_TOPICS: Final = f"{ADMIN}/broker-stats/topics"


class LoadedTopics(NamedTuple):
    """Loaded topics of a bundle; ``None`` if unknown.

    Attributes:
        topics: Loaded topics.
        clients: Their producers and consumers.
    """

    topics: int | None = None
    clients: int | None = None


class _TopicsReport(msgspec.Struct, rename="camel"):
    last_stats: dict[str, BundleStats]


class TopicsReader(Protocol):
    """Reads the topics of bundles."""

    def loaded(self, bundle: str, owner: str) -> LoadedTopics:
        """Return the topics that its owner has loaded."""
        ...

    def has_topics(self, bundle: str) -> bool | None:
        """Return whether a topic of the bundle exists, or ``None`` if unknown."""
        ...


class RestTopicsReader:
    """Asks the owner; where it does not answer, the last snapshot's reports count.

    Args:
        client: Sends the requests.
        addresses: Where the brokers are.
        snapshot: Returns the last snapshot.
        body: Returns the body of a ``GET`` of any broker.
    """

    def __init__(
        self,
        client: AdminClient,
        addresses: Addresses,
        snapshot: Callable[[], PulsarSnapshot],
        body: Callable[[str], bytes],
    ) -> None:
        self._client = client
        self._addresses = addresses
        self._snapshot = snapshot
        self._body = body

    def loaded(self, bundle: str, owner: str) -> LoadedTopics:
        """Return the topics that its owner has loaded."""
        url = self._addresses.find(owner)
        try:
            if url is not None:
                return self._asked(bundle, url)
        except RemoteError:
            pass  # the reports of the snapshot are older, and there
        return _reported(self._snapshot(), bundle)

    def _asked(self, bundle: str, url: str) -> LoadedTopics:
        if self._snapshot().manifest.load_manager == "modular":
            stats = self._client.get(url, _REPORT, _TopicsReport).last_stats.get(bundle)
            if stats is None:
                return LoadedTopics(0, 0)
            return LoadedTopics(stats.topics, _sum(stats.producer_count, stats.consumer_count))
        found = self._client.get(
            url, _TOPICS, BrokerTopics, max_bytes=self._client.limits.bulk_bytes
        )
        table = topics_table(found, bundle)
        clients = _sum(*(pc.sum(table[name]).as_py() or 0 for name in _CLIENTS))
        return LoadedTopics(table.num_rows, clients)

    def has_topics(self, bundle: str) -> bool | None:
        """Return whether a persistent topic of the bundle exists, or ``None`` if unknown."""
        path = f"{ADMIN}/persistent{quoted(*namespace_of(bundle).split('/'))}"
        try:
            body = self._body(f"{path}?bundle={bundle.rpartition('/')[2]}")
            return bool(msgspec.json.decode(body, type=list[str]))
        except NotFoundError:
            return False
        except (RemoteError, msgspec.MsgspecError, RecursionError):
            return None


_CLIENTS: Final = ("producer_count", "consumer_count")


def _reported(snapshot: PulsarSnapshot, bundle: str) -> LoadedTopics:
    """Return a bundle's entry in the load reports of a snapshot."""
    table = snapshot.bundles
    row = pc.index(table["bundle"], bundle).as_py()
    if row < 0:
        return LoadedTopics()
    producers, consumers = (table[name][row].as_py() for name in _CLIENTS)
    return LoadedTopics(table["topic_count"][row].as_py(), _sum(producers, consumers))


def _sum(*counts: int | None) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None
