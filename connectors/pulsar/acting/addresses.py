"""Where the brokers of a cluster are, and which broker an address belongs to."""

from __future__ import annotations

from collections.abc import Iterable

from connectors.config.model import ClusterConfig
from connectors.pulsar.admin.client import AdminClient
from core.pulsar.snapshot.znodes.brokers import BrokerNames, Registry
from core.pulsar.snapshot.znodes.records import BrokerReport, Ownership
from core.snapshot import PulsarSnapshot


class Addresses:
    """Addresses of the live brokers, as of the last snapshot and what was learnt since.

    Args:
        config: Names the addresses of a broker that may be contacted.
        client: Follows redirects to them.
    """

    def __init__(self, config: ClusterConfig, client: AdminClient) -> None:
        self._config = config
        self._client = client
        self._urls: dict[str, str] = {}
        self._names = BrokerNames(Registry([], [], []))

    def take(self, snapshot: PulsarSnapshot) -> None:
        """Take the brokers of a fresh snapshot."""
        columns = ("broker", "web_url", "web_url_tls", "service_url", "service_url_tls")
        rows = snapshot.brokers.select(columns).to_pylist()
        reports = [
            BrokerReport(
                web_service_url=row["web_url"],
                web_service_url_tls=row["web_url_tls"],
                pulsar_service_url=row["service_url"],
                pulsar_service_url_tls=row["service_url_tls"],
            )
            for row in rows
        ]
        self._names = BrokerNames(Registry([row["broker"] for row in rows], reports, []))
        found = {
            row["broker"]: self._config.web_address(row["web_url"], row["web_url_tls"])
            for row in rows
        }
        self._urls = {name: url for name, url in found.items() if url}
        self._client.trust(self._urls.values())

    def learn(self, brokers: Iterable[str]) -> None:
        """Note live brokers by their ids: an id names host and port, we know the scheme."""
        scheme = "https" if self._config.admin_urls[0].startswith("https:") else "http"
        listed = list(brokers)
        known = {name: self._urls.get(name, f"{scheme}://{name}") for name in listed}
        self._urls = known
        self._client.trust(known.values())

    def brokers(self) -> list[str]:
        """Return the ids of brokers that may be contacted."""
        return sorted(self._urls)

    def find(self, broker: str) -> str | None:
        """Return a broker's web address, ``None`` when none is known that may be contacted."""
        return self._urls.get(broker)

    def owner(self, record: Ownership) -> str | None:
        """Return the broker id that an ownership znode means; its addresses become known."""
        name = self._names.find(
            (record.http_url, record.http_url_tls, record.native_url, record.native_url_tls)
        )
        if name is not None and name not in self._urls:  # it came after the last snapshot
            url = self._config.web_address(record.http_url, record.http_url_tls)
            if url:
                self._urls[name] = url
                self._client.trust([url])
        return name
