"""The admin REST interface of the simulated brokers: what only reads.

Every broker answers for itself: which one is addressed follows from the address of the socket.
Status codes and bodies are those recorded on Pulsar 4.2.4.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import numpy as np
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from connectors.sandbox.pulsar import documents
from connectors.sandbox.pulsar.documents import topic_document
from connectors.sandbox.pulsar.rest.answers import (
    RefusalError,
    as_json,
    as_text,
    container_page,
    redirect,
)
from connectors.sandbox.pulsar.rest.answers import stack_trace as _trace
from connectors.sandbox.pulsar.state import NO_BROKER, Broker
from connectors.sandbox.pulsar.workload import CPU_LIMIT, NIC_LIMIT_KBIT_S
from core.errors import InputError
from core.ids import parse_range
from core.pulsar.ring import topic_hash

if TYPE_CHECKING:
    from connectors.sandbox.pulsar.engine import Engine
    from connectors.sandbox.pulsar.ownership import OwnershipChanges

_OWNED: Final = {"broker_assignment": "shared", "is_controlled": False, "is_active": True}
_CLOSING: Final = {**_OWNED, "is_active": False}
_WRAPPER: Final = "org.apache.pulsar.broker.loadbalance.impl.ModularLoadManagerWrapper"


def addressed_broker(request: Request) -> Broker:
    """Return the broker whose socket the request came in at."""
    broker: Broker = request.scope["broker"]
    return broker


class Rest:
    """Base of the handlers: the engine, and how names in a path are understood.

    Args:
        engine: The running cluster.
        ownership: What changes owners.
    """

    def __init__(self, engine: Engine, ownership: OwnershipChanges) -> None:
        self.engine, self.ownership = engine, ownership
        self.state = engine.state

    def to_owner(self, request: Request, owner: Broker, query: str = "") -> Response:
        """Return the redirect to a bundle's owner: authoritative when it is the leader who says so.

        Source:
            Pulsar ``PulsarWebResource#validateNamespaceBundleOwnership``.
        """
        said = str(addressed_broker(request).row == self.engine.leader).lower()
        return redirect(owner, request.url.path, f"authoritative={said}&{query}".rstrip("&"))

    def namespace_row(self, request: Request, reason: str = "Namespace does not exist") -> int:
        """Return the row of the path's namespace, or refuse with 404."""
        path = request.path_params
        row = self.state.namespace_row.get(f"{path['tenant']}/{path['namespace']}")
        if row is None:
            raise RefusalError(404, reason)
        return row

    def bundle_row(self, request: Request) -> int:
        """Return the row of the path's bundle, or refuse as the real broker does."""
        namespace = self.namespace_row(request, "Namespace not found")
        text = request.path_params["bundle"]
        name = f"{self.state.namespaces[namespace]}/{text}"
        try:
            lower = parse_range(text)[0]
        except InputError:
            raise _trace("Invalid bundle range", "java.lang.IllegalArgumentException") from None
        row = self.state.live_row(name)
        if row is not None:
            return row
        bounds = self.state.boundaries[namespace]
        index = int(np.searchsorted(bounds, lower))
        if index >= len(bounds) - 1 or int(bounds[index]) != lower:
            raise RefusalError(412, f"Cannot find bundle {name} in the bundles list")
        expected = self.state.names[int(self.state.bundles_of[namespace][index])]
        raise RefusalError(
            412,
            f"Invalid upper boundary for bundle {name}. Expected upper boundary of {expected}",
        )

    def owner_of(self, row: int) -> Broker | None:
        """Return the owner of a bundle."""
        owner = int(self.state.owner[row])
        return None if owner == NO_BROKER else self.state.brokers[owner]

    def need_cluster(self, request: Request) -> None:
        """Refuse with 412 when the path names another cluster."""
        cluster = request.path_params["cluster"]
        if cluster != self.engine.options.cluster:
            raise RefusalError(412, f"Cluster {cluster} does not exist.")


class Reads(Rest):
    """Brokers, their statistics, namespaces, lookups."""

    def routes(self) -> list[Route]:
        """Return the routes of everything here."""
        admin = "/admin/v2"
        space = f"{admin}/namespaces/{{tenant}}/{{namespace}}"
        topic = "/lookup/v2/topic/{domain}/{tenant}/{namespace}/{topic}"
        return [
            Route(f"{admin}/brokers", self.brokers),
            Route(f"{admin}/brokers/leaderBroker", self.leader),
            Route(f"{admin}/brokers/internal-configuration", self.internal_configuration),
            Route(f"{admin}/brokers/health", self.health),
            Route(f"{admin}/brokers/ready", self.ready),
            Route(f"{admin}/brokers/version", self.version),
            Route(f"{admin}/brokers/configuration", self.dynamic_names),
            Route(f"{admin}/brokers/configuration/values", self.dynamic_values),
            Route(f"{admin}/brokers/configuration/runtime", self.runtime_values),
            Route(f"{admin}/brokers/{{cluster}}", self.brokers),
            Route(f"{admin}/brokers/{{cluster}}/{{broker}}/ownedNamespaces", self.owned),
            Route(f"{admin}/broker-stats/load-report", self.load_report),
            Route(f"{admin}/broker-stats/topics", self.topics),
            Route(f"{admin}/broker-stats/metrics", self.metrics),
            Route(
                f"{admin}/broker-stats/broker-resource-availability/{{tenant}}/{{namespace}}",
                self.availability,
            ),
            Route(f"{admin}/tenants", self.tenants),
            Route(f"{admin}/tenants/{{tenant}}", self.tenant),
            Route(f"{admin}/namespaces/{{tenant}}", self.namespaces),
            Route(space, self.namespace),
            Route(f"{space}/bundles", self.bundles),
            Route(f"{space}/topics", self.topic_names),
            Route(f"{space}/{{bundle}}/topicHashPositions", self.hash_positions),
            Route(f"{admin}/persistent/{{tenant}}/{{namespace}}", self.topic_names),
            Route(f"{admin}/persistent/{{tenant}}/{{namespace}}/partitioned", self.partitioned),
            Route(topic, self.lookup),
            Route(f"{topic}/bundle", self.bundle_of_topic),
        ]

    async def brokers(self, _: Request) -> Response:
        """Active brokers, whatever cluster is named."""
        return as_json([broker.broker_id for broker in self.state.brokers if broker.is_up])

    async def leader(self, _: Request) -> Response:
        """The leader."""
        if self.engine.leader == NO_BROKER:
            raise RefusalError(404, "Couldn't find leader broker")
        broker = self.state.brokers[self.engine.leader]
        return as_json({"serviceUrl": broker.web_url, "brokerId": broker.broker_id})

    async def internal_configuration(self, _: Request) -> Response:
        """Location of the metadata."""
        store = self.engine.policies.file_values["metadataStoreUrl"]
        names = (
            "zookeeperServers",
            "configurationStoreServers",
            "metadataStoreUrl",
            "configurationMetadataStoreUrl",
        )
        return as_json({**dict.fromkeys(names, store), "ledgersRootPath": "/ledgers"})

    async def health(self, request: Request) -> Response:
        """Healthy, or a hint at the broker that was meant."""
        wanted = request.query_params.get("brokerId")
        if wanted is not None and wanted != addressed_broker(request).broker_id:
            other = self._broker(wanted)
            if other is None:
                raise RefusalError(404, "Broker not found")
            query = "&".join(f"{k}={quote(v, safe='')}" for k, v in request.query_params.items())
            return redirect(other, request.url.path, query)
        return as_text("ok")

    async def ready(self, _: Request) -> Response:
        """Ready."""
        return as_text("ok")

    async def version(self, _: Request) -> Response:
        """Version of the broker."""
        return as_text(self.engine.options.release)

    async def dynamic_names(self, _: Request) -> Response:
        """Settings that can be changed while the broker runs."""
        return as_json(self.engine.policies.dynamic_names)

    async def dynamic_values(self, _: Request) -> Response:
        """Dynamic settings that are set."""
        return as_json(self.engine.policies.dynamic)

    async def runtime_values(self, request: Request) -> Response:
        """Every setting as it runs in this broker."""
        broker = addressed_broker(request)
        return as_json(
            {
                **self.engine.policies.running_values(),
                "advertisedAddress": broker.host,
                "bindAddress": broker.host,
                "webServicePort": f"Optional[{broker.web_port}]",
                "brokerServicePort": f"Optional[{broker.service_port}]",
            }
        )

    async def owned(self, request: Request) -> Response:
        """Bundles that a broker owns; only that broker answers."""
        wanted = request.path_params["broker"]
        here = addressed_broker(request)
        if wanted != here.broker_id:
            other = self._broker(wanted)
            if other is None:
                raise RefusalError(404, "Broker not found")
            return redirect(other, request.url.path)
        owned = {here.heartbeat_bundle: _OWNED}
        for row in self.state.owned_rows(here.row).tolist():
            is_closing = row in self.ownership.closing
            owned[self.state.names[row]] = _CLOSING if is_closing else _OWNED
        return as_json(owned)

    async def load_report(self, request: Request) -> Response:
        """Current load of the answering broker."""
        broker = addressed_broker(request)
        written = self.engine.written_ms(broker)
        return as_json(documents.load_report(self.state, broker, written))

    async def topics(self, request: Request) -> Response:
        """Statistics of the answering broker's topics: namespace, bundle, domain, topic."""
        state, broker = self.state, addressed_broker(request)
        answer: dict[str, Any] = {}
        mine = np.flatnonzero(state.owner[state.topic_bundle] == broker.row)
        for topic in mine.tolist():
            namespace, _, bundle = state.names[int(state.topic_bundle[topic])].rpartition("/")
            spot = answer.setdefault(namespace, {}).setdefault(bundle, {})
            document = topic_document(state, topic)
            spot.setdefault("persistent", {})[state.layout.topics.names[topic]] = document
        return as_json(answer)

    async def metrics(self, request: Request) -> Response:
        """Load metrics of the answering broker."""
        row, usage = addressed_broker(request).row, self.state.usage
        ratios = {
            "brk_lb_cpu_usage": usage.cpu[row] / CPU_LIMIT,
            "brk_lb_bandwidth_in_usage": usage.bandwidth_in_kbit_s[row] / NIC_LIMIT_KBIT_S,
            "brk_lb_bandwidth_out_usage": usage.bandwidth_out_kbit_s[row] / NIC_LIMIT_KBIT_S,
        }
        values = {name: 100 * float(ratio) for name, ratio in ratios.items()}
        dimensions = {"broker": addressed_broker(request).host, "metric": "loadBalancing"}
        return as_json([{"metrics": values, "dimensions": dimensions}])

    async def availability(self, _: Request) -> Response:
        """Refused by the modular load manager."""
        raise RefusalError(409, f"{_WRAPPER} does not support this operation")

    async def tenants(self, _: Request) -> Response:
        """All tenants."""
        return as_json(sorted(self._tenants() | {"public", "pulsar"}))

    async def tenant(self, request: Request) -> Response:
        """Admin roles of a tenant."""
        if request.path_params["tenant"] not in self._tenants() | {"public", "pulsar"}:
            raise RefusalError(404, "Tenant does not exist")
        cluster = self.engine.options.cluster
        return as_json({"adminRoles": ["admin"], "allowedClusters": [cluster]})

    async def namespaces(self, request: Request) -> Response:
        """Namespaces of a tenant."""
        tenant = request.path_params["tenant"]
        system = {"public": ["public/default"], "pulsar": ["pulsar/system"]}.get(tenant, [])
        names = [name for name in self.state.namespaces if name.startswith(f"{tenant}/")] + system
        if not names:
            raise RefusalError(404, "Tenant not found")
        return as_json(sorted(names))

    async def namespace(self, request: Request) -> Response:
        """Policies of a namespace."""
        row = self.namespace_row(request)
        name, bounds = self.state.namespaces[row], self.state.boundaries[row]
        whole = self.engine.policies.document(name, bounds, self.engine.options.cluster)
        return as_json(documents.returned_policies(whole))

    async def bundles(self, request: Request) -> Response:
        """Bundle boundaries of a namespace."""
        return as_json(documents.bundles(self.state.boundaries[self.namespace_row(request)]))

    async def topic_names(self, request: Request) -> Response:
        """Topics of a namespace, or of one of its bundles."""
        namespace = self.namespace_row(request)
        topics = self.state.topics_of(namespace)
        names = self.state.layout.topics.names[topics]
        wanted = request.query_params.get("bundle")
        if wanted is None:
            return as_json(sorted(names))
        row = self.state.live_row(f"{self.state.namespaces[namespace]}/{wanted}")
        inside = self.state.topic_bundle[topics] == row
        return as_json(sorted(name for name, is_in in zip(names, inside, strict=True) if is_in))

    async def partitioned(self, request: Request) -> Response:
        """Partitioned topics of a namespace."""
        name = self.state.namespaces[self.namespace_row(request)]
        known = self.state.layout.partitions
        return as_json([f"persistent://{topic}" for topic in known if topic.startswith(f"{name}/")])

    async def hash_positions(self, request: Request) -> Response:
        """Topics of a bundle and where they are on the ring; only the owner answers."""
        row = self.bundle_row(request)
        owner = self.owner_of(row)
        if owner is None:
            name = self.state.names[row]
            raise RefusalError(412, f"Failed to find ownership for ServiceUnit:{name}")
        if owner is not addressed_broker(request):
            return self.to_owner(request, owner, request.url.query)
        inside = np.flatnonzero(self.state.topic_bundle == row).tolist()
        topics = self.state.layout.topics
        wanted = set(request.query_params.getlist("topics"))
        namespace, _, bundle = self.state.names[row].rpartition("/")
        positions = {
            topics.names[topic]: int(topics.hashes[topic])
            for topic in inside
            if not wanted or topics.names[topic] in wanted
        }
        return as_json({"namespace": namespace, "bundle": bundle, "topicHashPositions": positions})

    async def lookup(self, request: Request) -> Response:
        """Owner of a topic; an unassigned bundle is assigned."""
        row = self._bundle_of_topic(request)
        if row is None:
            raise RefusalError(404, "Namespace not found")
        owner = await self.ownership.assign(row)
        if owner == NO_BROKER:
            return container_page(request.url.path, 503)
        broker = self.state.brokers[owner]
        return as_json(
            {
                "brokerUrl": broker.service_url,
                "httpUrl": broker.web_url,
                "nativeUrl": broker.service_url,
                "brokerUrlSsl": "",
            }
        )

    async def bundle_of_topic(self, request: Request) -> Response:
        """Bundle of a topic; an unknown namespace has one whole bundle."""
        row = self._bundle_of_topic(request)
        if row is None:
            return as_text("0x00000000_0xffffffff")
        return as_text(self.state.names[row].rpartition("/")[2])

    def _bundle_of_topic(self, request: Request) -> int | None:
        path = request.path_params
        namespace = f"{path['tenant']}/{path['namespace']}"
        name = f"{path['domain']}://{namespace}/{path['topic']}"
        return self.state.find(namespace, topic_hash(name))

    def _broker(self, broker_id: str) -> Broker | None:
        for broker in self.state.brokers:
            if broker.broker_id == broker_id and broker.is_up:
                return broker
        return None

    def _tenants(self) -> set[str]:
        return {name.partition("/")[0] for name in self.state.namespaces}
