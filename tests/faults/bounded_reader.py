"""A process that reads what it is pointed to, as the product does, and reports what that took.

One JSON object a line comes in: ``{"kind", "place"}``; one goes out: ``{"error", "peak_mib",
"seconds"}``, where ``error`` is the code of an error of ours, ``""`` for none, and ``BUG ...`` for
anything else. Beyond ``LIMIT_MIB`` the system gives it no memory at all.
"""

from __future__ import annotations

import json
import resource
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic

import psutil
from bounded import CAPTURE_S, LIMITS, peak_mib

import core.bounds
from connectors.alerts.targets import send
from connectors.config.alerts import TargetConfig
from connectors.config.model import ClusterConfig, TrimtabConfig
from connectors.pegasus.collect import PegasusCollector
from connectors.pegasus.http.client import HttpClient
from connectors.pegasus.rpc.client import MetaClient
from connectors.pulsar.admin.client import AdminClient
from connectors.pulsar.admin.parse import BrokerTopics
from connectors.pulsar.collect import PulsarCollector
from connectors.pulsar.metrics.capture import MetricsReader
from core.errors import OpsError
from core.history.store.store import HistoryLocation, HistoryStore
from core.pegasus.system import PEGASUS
from core.plan.codec import load_plan
from core.pulsar.snapshot import zkdump
from core.pulsar.system import PULSAR
from core.snapshot.problems import ProblemLog
from core.snapshot.store import load_snapshot
from core.systems import steps_of

LIMIT_MIB = 1_024
"""Memory that this process may take in addition to what it has when everything is imported."""
ANSWER_S = 0.4
TIMEOUTS = {
    "connect_s": ANSWER_S,
    "read_s": ANSWER_S,
    "answer_s": ANSWER_S,
    "zookeeper_s": ANSWER_S,
    "session_s": 2.0,
    "capture_s": CAPTURE_S,
}
MIB = 2**20
FILE_LIMITS = {"MAX_FILE_BYTES": MIB, "MAX_LINE_BYTES": MIB, "MAX_DECODED_BYTES": 8 * MIB}
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def cluster(**settings: object) -> ClusterConfig:
    return ClusterConfig(name="hostile", timeouts=TIMEOUTS, read_limits=LIMITS, **settings)


def _collect(collector: PulsarCollector | PegasusCollector) -> None:
    try:
        collector.collect()
    finally:
        collector.close()


def zookeeper(address: str) -> None:
    _collect(PulsarCollector(cluster(zookeeper=address)))


def admin(address: str) -> None:
    url = f"http://{address}"
    config = cluster(admin_urls=[url])
    client = AdminClient(config)
    try:
        limit = config.read_limits.bulk_bytes
        client.get(url, "/admin/v2/broker-stats/topics", BrokerTopics, max_bytes=limit)
    finally:
        client.close()
        _collect(PulsarCollector(config))


def _metrics(address: str, **source: object) -> None:
    url = f"http://{address}"
    reader = MetricsReader(cluster(admin_urls=[url], prometheus=source))
    try:
        reader.read(["a:1", "b:1"], dict.fromkeys(["a:1", "b:1"], url), ProblemLog())
    finally:
        reader.close()


def scrape(address: str) -> None:
    _metrics(address, scrape=True, sample_s=0.1)


def prometheus(address: str) -> None:
    _metrics(address, url=f"http://{address}", timeout_s=ANSWER_S)


def rpc(address: str) -> None:
    config = cluster(kind="pegasus", meta_servers=[address])
    try:
        _collect(PegasusCollector(config))
    except OpsError:
        limit = config.read_limits.answer_bytes
        meta = MetaClient([address], timeout_s=ANSWER_S, max_bytes=limit)
        try:
            meta.send_command("x")
        finally:
            meta.close()


def meta_http(address: str) -> None:
    limit = cluster(kind="pegasus", meta_servers=[address]).read_limits.answer_bytes
    client = HttpClient(address, timeout_s=ANSWER_S, max_bytes=limit)
    failure: OpsError | None = None
    try:
        for fetch in (client.fetch_nodes, client.fetch_metrics, client.fetch_flags):
            try:
                fetch()
            except OpsError as exc:
                failure = exc
    finally:
        client.close()
    if failure is not None:
        raise failure


def webhook(address: str) -> None:
    send(TargetConfig(name="hook", url=f"json://{address}/"), "title", "text")


def plan(path: str) -> None:
    load_plan(Path(path), steps_of((PULSAR, PEGASUS)))


def toml(path: str) -> None:
    TrimtabConfig.load(Path(path), ())


def dump(path: str) -> None:
    zkdump.import_zk_dump(Path(path), "x", NOW)


def snapshot(path: str) -> None:
    load_snapshot(Path(path))


def history(path: str) -> None:
    HistoryStore(HistoryLocation(path)).clusters()


READERS: dict[str, Callable[[str], None]] = {
    one.__name__: one
    for one in (
        zookeeper,
        admin,
        scrape,
        prometheus,
        rpc,
        meta_http,
        webhook,
        plan,
        toml,
        dump,
        snapshot,
        history,
    )
}


def read(kind: str, place: str) -> dict[str, object]:
    error = ""
    began = monotonic()
    with peak_mib() as peak:
        try:
            READERS[kind](place)
        except OpsError as exc:
            error = exc.code
        except BaseException as exc:  # noqa: BLE001  # it is what the test is about
            error = f"BUG {type(exc).__name__}: {str(exc)[:300]}"
    return {"error": error, "peak_mib": peak(), "seconds": monotonic() - began}


def main() -> None:
    for name, limit in FILE_LIMITS.items():
        setattr(core.bounds, name, limit)
    zkdump.MAX_LINE_BYTES = MIB
    read("admin", "127.0.0.1:1")  # whatever is imported late
    taken = psutil.Process().memory_info().data
    resource.setrlimit(resource.RLIMIT_DATA, (taken + LIMIT_MIB * MIB,) * 2)
    for line in sys.stdin:
        sys.stdout.write(f"{json.dumps(read(**json.loads(line)))}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
