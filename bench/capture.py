"""Capture of 1,000 brokers and 100,000 bundles from a real ZooKeeper: seconds, ratio, memory.

    .venv/bin/python bench/capture.py [--brokers N] [--bundles N] [--json]

It starts a ZooKeeper, writes the znodes, then measures in the same run:

* broker znodes to tables: listing, reading, decoding and assembling the reports of all brokers;
* all bundle averages our way, and with one kazoo client that lists and gets them level by level;
* a whole capture, and the one after it (owners of unchanged namespaces are not read again).
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from time import perf_counter, process_time
from typing import TypeVar

from kazoo.client import KazooClient

from connectors.config.model import ClusterConfig
from connectors.pulsar.znodes import ZooKeeperCapture
from connectors.sandbox.zookeeper import ZooKeeperProcess
from connectors.zookeeper.client import ZooKeeperReader
from connectors.zookeeper.multi_read import GET_CHILDREN, GET_DATA, ReadOperation
from core.pulsar.snapshot.znodes import Readings, assemble
from core.pulsar.snapshot.znodes import readings as roots
from core.snapshot.problems import ProblemLog

T = TypeVar("T")
NAMESPACES_OF_A_TENANT = 20
BUNDLES_OF_A_NAMESPACE = 128
WRITES_IN_FLIGHT = 2_000


def bundle_names(count: int) -> list[str]:
    names = []
    step = (1 << 32) // BUNDLES_OF_A_NAMESPACE
    for index in range(count):
        space, part = divmod(index, BUNDLES_OF_A_NAMESPACE)
        tenant, local = divmod(space, NAMESPACES_OF_A_TENANT)
        low, high = part * step, min((part + 1) * step, 0xFFFFFFFF)
        names.append(f"tenant-{tenant:03d}/space-{local:02d}/0x{low:08x}_0x{high:08x}")
    return names


def rates(seed: int) -> dict[str, float]:
    base = 13.7 + seed % 997
    return {
        "msgThroughputIn": base * 1017.3,
        "msgThroughputOut": base * 2031.7,
        "msgRateIn": base * 1.01,
        "msgRateOut": base * 2.03,
    }


def usage(used: float, limit: float) -> dict[str, float]:
    return {"usage": used, "limit": limit}


def report(index: int, host: str, bundles: list[str]) -> bytes:
    stats = {
        name: {
            **rates(index * 131 + place),
            "consumerCount": 4,
            "producerCount": 2,
            "topics": 9,
            "cacheSize": 1_234_567,
        }
        for place, name in enumerate(bundles)
    }
    body = {
        "webServiceUrl": f"http://{host}",
        "pulsarServiceUrl": f"pulsar://{host.partition(':')[0]}:6650",
        "persistentTopicsEnabled": True,
        "nonPersistentTopicsEnabled": True,
        "cpu": usage(312.5 + index % 300, 800.0),
        "memory": usage(2_000.5, 16_384.0),
        "directMemory": usage(3_000.0, 32_768.0),
        "bandwidthIn": usage(400_000.25, 10_000_000.0),
        "bandwidthOut": usage(800_000.25, 10_000_000.0),
        **rates(index),
        "lastUpdate": 1_795_268_604_008,
        "lastStats": stats,
        "numTopics": 9 * len(bundles),
        "numBundles": len(bundles),
        "numConsumers": 4 * len(bundles),
        "numProducers": 2 * len(bundles),
        "bundles": bundles,
        "lastBundleGains": [],
        "lastBundleLosses": [],
        "brokerVersionString": "4.2.4",
        "protocols": {},
        "advertisedListeners": {},
        "loadManagerClassName": (
            "org.apache.pulsar.broker.loadbalance.impl.ModularLoadManagerImpl"
        ),
        "startTimestamp": 1_795_268_483_935,
        "maxResourceUsage": 0.5,
        "loadReportType": "LocalBrokerData",
    }
    return json.dumps(body, separators=(",", ":")).encode()


def znodes(brokers: int, bundles: int) -> Iterator[tuple[str, bytes]]:
    names = bundle_names(bundles)
    hosts = [f"10.{index >> 8}.{index & 255}.1:8080" for index in range(brokers)]
    for index, host in enumerate(hosts):
        yield f"{roots.BROKERS}/{host}", report(index, host, names[index::brokers])
        yield (
            f"{roots.BROKER_AVERAGES}/{host}",
            json.dumps(
                {
                    f"{term}TermMsg{name}": 1.5
                    for term in ("short", "long")
                    for name in ("RateIn", "RateOut", "ThroughputIn", "ThroughputOut")
                }
            ).encode(),
        )
    texts = [f"0x{part:08x}" for part in range(0, 1 << 32, (1 << 32) // BUNDLES_OF_A_NAMESPACE)]
    local = json.dumps({"bundles": {"boundaries": [*texts, "0xffffffff"]}}).encode()
    for namespace in dict.fromkeys(name.rpartition("/")[0] for name in names):
        yield f"{roots.LOCAL_POLICIES}/{namespace}", local
    for index, name in enumerate(names):
        term = {"maxSamples": 1000, "numSamples": 900, **rates(index)}
        data = {"shortTermData": term, "longTermData": term, "topics": 9}
        yield f"{roots.BUNDLE_DATA}/{name}", json.dumps(data, separators=(",", ":")).encode()
        host = hosts[index % brokers]
        owner = {
            "nativeUrl": f"pulsar://{host.partition(':')[0]}:6650",
            "httpUrl": f"http://{host}",
            "disabled": False,
            "advertisedListeners": {},
        }
        yield f"{roots.OWNERSHIP}/{name}", json.dumps(owner, separators=(",", ":")).encode()


def write(client: KazooClient, brokers: int, bundles: int) -> int:
    folders: set[str] = set()
    flying = []
    count = 0
    for path, value in znodes(brokers, bundles):
        folder = path.rpartition("/")[0]
        if folder not in folders:
            client.ensure_path(folder)
            folders.add(folder)
        flying.append(client.create_async(path, value))
        count += 1
        if len(flying) >= WRITES_IN_FLIGHT:
            for each in flying:
                each.get()
            flying = []
    for each in flying:
        each.get()
    return count


def level_by_level(client: KazooClient) -> tuple[dict[str, bytes], float, float]:
    """List and get all averages the plain way; return them and the seconds of both parts."""
    began = perf_counter()
    paths = [
        f"{roots.BUNDLE_DATA}/{tenant}/{space}/{bundle}"
        for tenant in client.get_children(roots.BUNDLE_DATA)
        for space in client.get_children(f"{roots.BUNDLE_DATA}/{tenant}")
        for bundle in client.get_children(f"{roots.BUNDLE_DATA}/{tenant}/{space}")
    ]
    listed = perf_counter()
    found = {path: client.get(path)[0] for path in paths}
    return found, listed - began, perf_counter() - listed


def our_averages(reader: ZooKeeperReader, names: list[str]) -> dict[str, bytes]:
    reads = [ReadOperation(GET_DATA, f"{roots.BUNDLE_DATA}/{name}") for name in names]
    answers = reader.read(reads, expected_bytes=420)
    return {read.path: answer.value for read, answer in zip(reads, answers, strict=True)}


def brokers_to_tables(reader: ZooKeeperReader) -> tuple[int, int]:
    (listing,) = reader.read([ReadOperation(GET_CHILDREN, roots.BROKERS)])
    names = sorted(listing.value)
    answers = reader.read(
        [ReadOperation(GET_DATA, f"{roots.BROKERS}/{name}") for name in names],
        expected_bytes=30_000,
    )
    values = {name: answer.value for name, answer in zip(names, answers, strict=True)}
    made = assemble(Readings(brokers=values), ProblemLog())
    return made.tables["brokers"].num_rows, made.tables["bundles"].num_rows


def timed(what: str, results: dict[str, float], call: Callable[[], T]) -> T:
    began, worked = perf_counter(), process_time()
    value = call()
    results[what] = round(perf_counter() - began, 3)
    own = round(process_time() - worked, 3)  # what a busy machine does not stretch
    results[f"{what} (own CPU)"] = own
    print(f"{what}: {results[what]} s, own CPU {own} s", file=sys.stderr)
    return value


def whole_capture(capture: ZooKeeperCapture, reader: ZooKeeperReader) -> int:
    reader.begin(10_000_000, 600)
    problems = ProblemLog()
    readings, policies = capture.read(problems)
    policies.finish(readings, "bench", problems)
    made = assemble(readings, problems)
    require(len(problems) == 0, f"problems: {problems.named()[:3]}")
    return made.tables["bundles"].num_rows


def measure(brokers: int, bundles: int) -> dict[str, float]:
    results: dict[str, float] = {"brokers": brokers, "bundles": bundles}
    with (
        tempfile.TemporaryDirectory() as folder,
        ZooKeeperProcess(Path(folder) / "zk", heap_mb=1024) as zookeeper,
    ):
        client = KazooClient(hosts=zookeeper.address, timeout=60)
        client.start()
        results["znodes"] = timed("write", results, lambda: write(client, brokers, bundles))
        config = ClusterConfig(name="bench", zookeeper=zookeeper.address)
        reader = ZooKeeperReader(config)
        reader.begin(10_000_000, 600)
        names = bundle_names(bundles)
        for _ in range(2):
            rows = timed("broker znodes to tables", results, lambda: brokers_to_tables(reader))
        require(rows == (brokers, bundles), f"rows: {rows}")
        ours = timed("bundle averages, ours", results, lambda: our_averages(reader, names))
        results["peak MiB before the plain way"] = peak_mib()
        theirs, listing, getting = timed(
            "bundle averages, level by level", results, lambda: level_by_level(client)
        )
        results["of it listing"], results["of it getting"] = round(listing, 3), round(getting, 3)
        require(ours == theirs, "both ways read the same")
        results["ratio"] = round(
            results["bundle averages, level by level"] / results["bundle averages, ours"], 1
        )
        del ours, theirs
        capture = ZooKeeperCapture(reader)
        timed("whole capture, first", results, lambda: whole_capture(capture, reader))
        timed("whole capture, second", results, lambda: whole_capture(capture, reader))
        results["peak MiB"] = peak_mib()
        reader.close()
        client.stop()
        client.close()
    return results


def require(holds: bool, what: str) -> None:  # noqa: FBT001  # reads as a statement
    if not holds:
        raise SystemExit(f"The measurement is worth nothing: {what}")


def peak_mib() -> float:
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1)


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure a large capture.")
    parser.add_argument("--brokers", type=int, default=1_000)
    parser.add_argument("--bundles", type=int, default=100_000)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    results = measure(arguments.brokers, arguments.bundles)
    if arguments.json:
        print(json.dumps(results))
        return
    for name, value in results.items():
        print(f"{name:44} {value:>12,}")


if __name__ == "__main__":
    main()
