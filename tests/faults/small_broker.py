"""A small real HTTP server that answers what a test tells it to, rightly or wrongly."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self

Answer = tuple[int, dict[str, str], bytes]
JSON = {"Content-Type": "application/json"}


def said(value: object, status: int = 200) -> Answer:
    """Return an answer with a JSON body."""
    return status, JSON, json.dumps(value).encode()


class SmallBroker:
    """Answers by path; unknown paths get the container's HTML 404."""

    def __init__(self, host: str = "127.0.0.1") -> None:
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def _any(self) -> None:
                size = int(self.headers.get("Content-Length", 0))
                body = self.rfile.read(size)
                outer.requests.append((self.command, self.path, dict(self.headers), body))
                raw = outer.raw.get(self.path.partition("?")[0])
                if raw is not None:
                    self.close_connection = True
                    raw(self.connection)
                    return
                answer = outer.answers.get(self.path.partition("?")[0])
                if callable(answer):
                    answer = answer()
                status, headers, content = answer or (404, {}, outer.not_found)
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            do_GET = do_PUT = do_POST = do_DELETE = _any  # noqa: N815  # http.server's names

            def log_message(self, *args: object) -> None:
                pass

        self.answers: dict[str, Answer | Callable[[], Answer]] = {}
        self.raw: dict[str, Callable[[socket.socket], None]] = {}
        self.requests: list[tuple[str, str, dict[str, str], bytes]] = []
        self.not_found = b"<html><head><title>Error 404 Not Found</title></head></html>"
        self._server = ThreadingHTTPServer((host, 0), Handler)
        self._server.daemon_threads = True
        self._server.block_on_close = False
        self.name = f"{host}:{self._server.server_port}"
        self.url = f"http://{self.name}"
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


class HungPort:
    """Takes connections and never answers."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.name = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.url = f"http://{self.name}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()


def report_of(name: str, bundles: dict[str, float] | None = None) -> dict[str, object]:
    """Return a load report."""
    usage = {"usage": 10.0, "limit": 100.0}
    stats = {
        bundle: {
            "msgRateIn": rate,
            "msgRateOut": rate,
            "msgThroughputIn": rate * 100,
            "msgThroughputOut": rate * 100,
            "consumerCount": 1,
            "producerCount": 1,
            "topics": 1,
            "cacheSize": 0,
        }
        for bundle, rate in (bundles or {}).items()
    }
    return {
        "webServiceUrl": f"http://{name}",
        "pulsarServiceUrl": f"pulsar://{name.partition(':')[0]}:6650",
        "persistentTopicsEnabled": True,
        "nonPersistentTopicsEnabled": True,
        **dict.fromkeys(("cpu", "memory", "directMemory", "bandwidthIn", "bandwidthOut"), usage),
        **dict.fromkeys(("msgRateIn", "msgRateOut", "msgThroughputIn", "msgThroughputOut"), 5.0),
        "lastUpdate": 1_795_268_604_008,
        "lastStats": stats,
        "bundles": list(stats),
        "lastBundleGains": [],
        "lastBundleLosses": [],
        **dict.fromkeys(("numTopics", "numBundles", "numConsumers", "numProducers"), 1),
        "brokerVersionString": "4.2.4",
        "loadManagerClassName": "org.apache.pulsar.broker.loadbalance.impl.ModularLoadManagerImpl",
        "startTimestamp": 1_795_268_000_000,
        "loadReportType": "LocalBrokerData",
    }


BUNDLE = "acme/orders/0x00000000_0xffffffff"


def serve_cluster(broker: SmallBroker, others: tuple[str, ...] = ()) -> None:
    """Have the broker answer everything that a capture asks."""
    root = "/admin/v2"
    broker.answers |= {
        f"{root}/brokers": said([broker.name, *others]),
        f"{root}/brokers/version": (200, {"Content-Type": "text/plain"}, b"4.2.4"),
        f"{root}/brokers/leaderBroker": said({"brokerId": broker.name, "serviceUrl": broker.url}),
        f"{root}/brokers/configuration/runtime": said(
            {
                "clusterName": "test",
                "loadBalancerEnabled": "true",
                "loadBalancerSheddingIntervalMinutes": "1",
                "brokerVersion": "4.2.4",
                "loadManagerClassName": "x.ModularLoadManagerImpl",
            }
        ),
        f"{root}/brokers/configuration/values": said({}),
        f"{root}/broker-stats/load-report": said(report_of(broker.name, {BUNDLE: 5.0})),
        f"{root}/brokers/test/{broker.name}/ownedNamespaces": said(
            {BUNDLE: {"broker_assignment": "shared", "is_controlled": False, "is_active": True}}
        ),
        f"{root}/clusters/test/namespaceIsolationPolicies": said({"reason": "none yet"}, 404),
        f"{root}/clusters/test/failureDomains": said({}),
        f"{root}/tenants": said(["acme"]),
        f"{root}/namespaces/acme": said(["acme/orders"]),
        f"{root}/namespaces/acme/orders/bundles": said(
            {"boundaries": ["0x00000000", "0xffffffff"], "numBundles": 1}
        ),
    }
