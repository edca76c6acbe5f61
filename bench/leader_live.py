"""Follow the leader of a large cluster through a real ZooKeeper: share of a core and memory.

    .venv/bin/python bench/leader_live.py [--brokers 1000] [--bundles 100000] [--seconds 120]

A ZooKeeper on loopback holds the ownership of all bundles; every broker's report is written every
10 s with new statistics. The leader observer runs alone in a process of its own, as in the
collector: watches, reads, decoding, rounds of ThresholdShedder each minute and the predictions at
all lead times. Its processor time comes from ``getrusage``, so that other work on the machine does
not count. The target is 10% of one core and 200 MB on top of what a collector's libraries take.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Final

from kazoo.client import KazooClient
from leader import EVERY_S, SETTINGS, TARGET_MB, TARGET_SHARE, Cluster, peak_mb

from connectors.config.model import ClusterConfig
from connectors.pulsar.leader.observer import LeaderObserver, forecast_path, read_forecast
from connectors.sandbox.zookeeper import ZooKeeperProcess
from core.pulsar.leader.extensible import ExtensibleReplay

VARIANTS: Final = 3
AT_ONCE: Final = 2_000
WAIT_S: Final = 300.0


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--brokers", type=int, default=1000)
    arguments.add_argument("--bundles", type=int, default=100_000)
    arguments.add_argument("--seconds", type=int, default=120)
    arguments.add_argument("--observe", metavar="ADDRESS", help=argparse.SUPPRESS)
    options = arguments.parse_args()
    if options.observe:
        observe(options.observe, options.seconds)
        return
    with (
        tempfile.TemporaryDirectory() as folder,
        ZooKeeperProcess(Path(folder) / "data") as server,
    ):
        measure(server.address, options)


def measure(address: str, options: argparse.Namespace) -> None:
    """Fill ZooKeeper, write reports, and print what the observer's process used."""
    cluster = Cluster(options.brokers, options.bundles)
    client = KazooClient(address, timeout=60.0)
    client.start(WAIT_S)
    fill(client, cluster)
    stop = threading.Event()
    command = [sys.executable, __file__, "--observe", address, "--seconds", str(options.seconds)]
    written = [0]
    writer = threading.Thread(target=write, args=(client, cluster, stop, written))
    writer.start()
    try:
        text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    finally:
        stop.set()
        writer.join()
        client.stop()
        client.close()
    found = json.loads(text)
    print(f"{options.brokers:,} brokers, {options.bundles:,} bundles")
    print(f"  reports      {written[0] / found['whole_s']:.0f}/s written")
    print(f"  all          {found['share']:.2%} of a core (target {TARGET_SHARE:.0%})")
    print(f"  predictions  {found['predictions']} in {found['seconds']:.0f} s")
    grown = found["mb"] - found["bare_mb"]
    print(f"  memory       {grown:.0f} MB at most (target {TARGET_MB:.0f} MB), on top of the")
    print(f"               {found['bare_mb']:.0f} MB that a collector's libraries take")
    print(f"  to begin     {found['begin_s']:.1f} CPU s")
    print(f"  status       {found['status']}")


def fill(client: KazooClient, cluster: Cluster) -> None:
    """Create all znodes."""
    client.ensure_path("/loadbalance/brokers")
    client.ensure_path("/admin")
    settings = {key: str(value) for key, value in SETTINGS.items()}
    client.create("/admin/configuration", json.dumps(settings).encode())
    folders: set[str] = set()
    pending = []
    for event in cluster.begin():
        folder = event.path.rpartition("/")[0]
        if folder not in folders:
            client.ensure_path(folder)
            folders.add(folder)
        pending.append(client.create_async(event.path, (event.value or "").encode()))
        if len(pending) >= AT_ONCE:
            for one in pending:
                one.get(WAIT_S)
            pending.clear()
    for one in pending:
        one.get(WAIT_S)


def write(client: KazooClient, cluster: Cluster, stop: threading.Event, written: list[int]) -> None:
    """Write every report every 10 s; a few versions of each are made beforehand."""
    texts = [
        [(cluster.report(row, 1, 0.0).value or "").encode() for row in range(len(cluster.brokers))]
        for _ in range(VARIANTS)
    ]
    pause_s = EVERY_S / len(cluster.brokers)
    number, started = 0, time.monotonic()
    while not stop.is_set():
        turn, row = divmod(number, len(cluster.brokers))
        path = f"/loadbalance/brokers/{cluster.brokers[row]}"
        client.set_async(path, texts[turn % VARIANTS][row])
        written[0] = number = number + 1
        stop.wait(max(0.0, started + number * pause_s - time.monotonic()))


def observe(address: str, seconds: int) -> None:
    """Run the observer, and print its processor time and memory as JSON."""
    import_module("pandas")  # which Arrow loads with the first table, in every collector
    model = ExtensibleReplay()
    snapshot = model._snapshot(0.0)  # noqa: SLF001  # an empty one: no file names a setting
    snapshot = replace(snapshot, manifest=replace(snapshot.manifest, load_manager="modular"))
    bare, began = peak_mb(), time.monotonic()
    pause = threading.Event()
    with tempfile.TemporaryDirectory() as folder:
        observer = LeaderObserver(ClusterConfig(name="bench", zookeeper=address), Path(folder))
        observer.put(snapshot)
        while observer.status.state != "watching" and time.monotonic() < began + WAIT_S:
            pause.wait(0.2)
        pause.wait(EVERY_S)
        before, started = cpu_s(), time.monotonic()
        predictions, made_s = 0, 0.0
        while time.monotonic() < started + seconds:
            pause.wait(5.0)  # reading it takes processor time as well
            forecast = read_forecast(forecast_path(Path(folder), "bench"))
            one = forecast.next_round if forecast is not None else None
            if one is not None and one.made_at_s != made_s:
                predictions, made_s = predictions + 1, one.made_at_s
        spent, took = cpu_s() - before, time.monotonic() - started
        found = {
            "share": spent / took,
            "seconds": took,
            "whole_s": time.monotonic() - began,
            "begin_s": before,
            "predictions": predictions,
            "mb": peak_mb(),
            "bare_mb": bare,
            "status": f"{observer.status.state} {observer.status.detail} "
            f"gaps {observer.status.gaps} judged {observer.status.judged}",
        }
        observer.close()
    print(json.dumps(found))


def cpu_s() -> float:
    """Return the processor time of this process, user and system, seconds."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
