"""Follow the leader of a large cluster by events: share of a core and memory.

    .venv/bin/python bench/leader.py [--brokers 1000] [--bundles 100000] [--seconds 120]

1. Every broker writes a report every 10 s, with all of its bundles and new statistics: the JSON is
   decoded and applied, rounds of ThresholdShedder are held every minute, and the next round is
   predicted with its shares every 10 s. CPU seconds are given per second of the cluster. Making
   the reports is not counted.
2. In the same run the rival: the loop over every bundle that ``updateBundleData`` is, in NumPy, for
   every report.

The target is 10% of one core and 200 MB for the whole observer.
"""

from __future__ import annotations

import argparse
import gc
import json
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib import import_module
from typing import Final

import numpy as np

from core.pulsar.leader.events import ZnodeEvent
from core.pulsar.leader.replay import LeaderReplay

EVERY_S: Final = 10.0
START_S: Final = 1_700_000_000.0
TARGET_SHARE: Final = 0.10
TARGET_MB: Final = 200.0
SETTINGS: Final = {
    "loadBalancerBrokerThresholdShedderPercentage": 10,
    "loadBalancerBundleUnloadMinThroughputThreshold": 0.01,
}


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--brokers", type=int, default=1000)
    arguments.add_argument("--bundles", type=int, default=100_000)
    arguments.add_argument("--seconds", type=int, default=120, help="Of the cluster's time.")
    arguments.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    options = arguments.parse_args()
    if options.measure:
        print(json.dumps(measured(options.brokers, options.bundles, options.seconds)))
        return
    command = [sys.executable, __file__, "--measure", *sys.argv[1:]]
    found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    rival = rival_s(options.bundles)
    reports = options.brokers / EVERY_S
    print(f"{options.brokers:,} brokers, {options.bundles:,} bundles, {reports:g} reports/s")
    for name in ("reports", "rounds", "predictions"):
        print(f"  {name:12} {found[name]:7.2%} of a core")
    share = found["reports"] + found["rounds"] + found["predictions"]
    print(f"  all          {share:7.2%} of a core (target {TARGET_SHARE:.0%})")
    print(f"  one report   {found['report_ms']:.3f} ms; {found['per_round']:.1f} bundles a round")
    grown = found["mb"] - found["bare_mb"]
    print(f"  memory       {grown:.0f} MB at most (target {TARGET_MB:.0f} MB), on top of the")
    print(f"               {found['bare_mb']:.0f} MB that a collector's libraries take")
    print(
        f"rival: the loop over all bundles for each report {1000 * rival:.1f} ms, "
        f"{reports * rival:.0%} of a core; ratio {rival * 1000 / found['report_ms']:.1f}"
    )


def measured(brokers: int, bundles: int, seconds: int) -> dict[str, float]:
    """CPU shares and memory of this process."""
    import_module("pandas")  # which Arrow loads with the first table, in every collector
    bare = peak_mb()
    cluster = Cluster(brokers, bundles)
    model = LeaderReplay("ThresholdShedder", configured=SETTINGS)
    for event in cluster.begin():
        model.apply(event)
    model.advance(START_S)
    spent = {"reports": 0.0, "rounds": 0.0, "predictions": 0.0}
    count = selected = rounds = 0
    for tick in range(seconds * 10):
        now = START_S + tick / 10
        events = list(cluster.reports(now, tick))
        started = time.process_time()
        held = model.advance(now)
        spent["rounds"] += time.process_time() - started
        rounds += len(held)
        selected += sum(len(one.selected) for one in held)
        started = time.process_time()
        for event in events:
            model.apply(event)
        spent["reports"] += time.process_time() - started
        count += len(events)
        if tick % 100 == 50:
            started = time.process_time()
            model.predict(now)
            spent["predictions"] += time.process_time() - started
        del events
    gc.collect()
    return {name: value / seconds for name, value in spent.items()} | {
        "report_ms": 1000 * spent["reports"] / max(count, 1),
        "per_round": selected / max(rounds, 1),
        "mb": peak_mb(),
        "bare_mb": bare,
    }


class Cluster:
    """Makes events; keeps no texts."""

    def __init__(self, brokers: int, bundles: int) -> None:
        self.brokers = [f"10.{n // 65536}.{n // 256 % 256}.{n % 256}:8080" for n in range(brokers)]
        self.each = bundles // brokers
        rng = np.random.default_rng(1)
        self.rate = rng.lognormal(3.0, 1.0, (brokers, self.each)).astype(np.float32)
        self.rng = rng

    def name(self, broker: int, at: int) -> str:
        """Return a bundle of a broker."""
        number = broker * self.each + at
        return f"tenant-{number % 40}/space-{number % 400}/0x{number:08x}_0x{number + 1:08x}"

    def begin(self) -> Iterator[ZnodeEvent]:
        """Yield the state when watching begins."""
        leader = json.dumps({"brokerId": self.brokers[0]})
        yield znode("/loadbalance/leader", leader, 0, START_S - 5)
        for row in range(len(self.brokers)):
            yield self.report(row, 0, START_S - 5)
        for row, broker in enumerate(self.brokers):
            owner = json.dumps({"httpUrl": f"http://{broker}"})
            for at in range(self.each):
                yield znode(f"/namespace/{self.name(row, at)}", owner, 0, START_S - 5)

    def reports(self, now: float, tick: int) -> Iterator[ZnodeEvent]:
        """Yield the reports of a tenth of a second."""
        period = round(EVERY_S * 10)
        for row in range(tick % period, len(self.brokers), period):
            yield self.report(row, 1 + tick // period, now)

    def report(self, row: int, version: int, now: float) -> ZnodeEvent:
        """Return one report with new statistics of all bundles."""
        rates = self.rate[row] * self.rng.lognormal(0.0, 0.1, self.each)
        stats = {
            self.name(row, at): {
                "msgRateIn": rate,
                "msgThroughputIn": rate * 1000.5,
                "msgRateOut": rate * 2,
                "msgThroughputOut": rate * 2001.0,
                "consumerCount": 5,
                "producerCount": 3,
                "topics": 3,
                "cacheSize": 26478,
            }
            for at, rate in enumerate(rates.tolist())
        }
        total = float(rates.sum())
        broker = self.brokers[row]
        value = {
            "webServiceUrl": f"http://{broker}",
            "cpu": {"usage": min(total / 40, 100.0), "limit": 100.0},
            "msgRateIn": total,
            "msgRateOut": 2 * total,
            "msgThroughputIn": 1000.5 * total,
            "msgThroughputOut": 2001.0 * total,
            "lastStats": stats,
            "bundles": list(stats),
            "numBundles": self.each,
            "numTopics": 3 * self.each,
            "brokerVersionString": "4.2.4",
            "loadManagerClassName": "org.apache.pulsar.broker.loadbalance.impl."
            "ModularLoadManagerImpl",
            "loadReportType": "LocalBrokerData",
        }
        return znode(f"/loadbalance/brokers/{broker}", json.dumps(value), version, now)


def znode(path: str, value: str, version: int, now: float) -> ZnodeEvent:
    return ZnodeEvent(
        kind="mod" if version else "init",
        path=path,
        value=value,
        version=version,
        mzxid=round(now * 1000),
        czxid=1,
        mtime_ms=round(now * 1000),
        received_at_s=now,
    )


def rival_s(bundles: int) -> float:
    """CPU seconds of one ``updateBundleData``: a sample for every bundle, as the loop adds it."""
    values, counts = np.zeros((2, 4, bundles)), np.zeros((2, bundles))
    caps, last = np.array([[10.0], [1000.0]]), np.random.default_rng(1).random((4, bundles))
    started, times = time.process_time(), 20
    for _ in range(times):
        counts = np.minimum(counts + 1, caps)
        values = ((counts[:, None] - 1) * values + last) / counts[:, None]
    return (time.process_time() - started) / times


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main()
