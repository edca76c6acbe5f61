"""What a collector takes by the number of brokers: processor, memory, disk and requests.

Starts the embedded Pulsar fleet of each size (a real ZooKeeper, brokers that answer over HTTP) in
processes of its own, and collects it in this one as ``trimtab collect`` does, with the history,
the leader's observer and metrics of the brokers. Printed is the table of ``docs/scaling.md``, for
one capture a minute. A day of history is 24 whole minutes and the changes of all others, before
small files are put together.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from typing import Any

import psutil
from kazoo.client import KazooClient

from connectors.config.model import TrimtabConfig
from connectors.memory import keep_giving_back, use_few_pools
from connectors.recording.collector import CollectorEvent, run_collector
from connectors.transport import http

ROOT = Path(__file__).parents[1]
MINUTES_A_DAY = 24 * 60
START_S = 600.0


@dataclass
class Collected:
    """What the captures of one fleet took.

    Attributes:
        times: When each was stored, on the monotonic clock.
        cpu_s: Processor seconds of this process at each of them.
        requests: Sent so far at each of them, by server.
        bytes: Of the history at each of them.
        problems: What the collector reported besides.
    """

    times: list[float] = field(default_factory=list)
    cpu_s: list[float] = field(default_factory=list)
    requests: list[Counter[str]] = field(default_factory=list)
    bytes: list[int] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def counted(owner: Any, name: str, what: str, counts: Counter[str]) -> None:
    """Count the calls of a function of a module or class."""
    call: Callable[..., Any] = getattr(owner, name)

    @wraps(call)
    def counting(*given: Any, **more: Any) -> Any:
        counts[what] += 1
        return call(*given, **more)

    setattr(owner, name, counting)


def size_of(folder: Path) -> int:
    """Return the bytes of all files below a folder."""
    return sum(one.stat().st_size for one in folder.rglob("*") if one.is_file())


def collect(config_file: Path, captures: int, every_s: float) -> Collected:
    """Collect the fleet of a configuration so many times."""
    use_few_pools()
    keep_giving_back()
    counts: Counter[str] = Counter()
    counted(http, "send", "brokers", counts)
    counted(KazooClient, "_call", "zookeeper", counts)
    config = TrimtabConfig.load(config_file, ())
    found, stop = Collected(), threading.Event()

    def note(event: CollectorEvent) -> None:
        if event.kind != "collected":
            found.problems.append(str(event))
            return
        found.times.append(time.monotonic())
        found.cpu_s.append(time.process_time())
        found.requests.append(Counter(counts))
        found.bytes.append(size_of(config.state_dir / "history"))
        if len(found.times) >= captures:
            stop.set()

    run_collector(config, config.clusters, every_s, stop, note)
    return found


def measure(brokers: int, bundles: int, captures: int, every_s: float) -> None:
    """Print the line of one fleet; called in a process of its own, for its memory."""
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "trimtab.toml"
        fleet = subprocess.Popen(
            [
                *(sys.executable, "-m", "dashboard.cli", "sandbox", "--write-config", str(config)),
                *("--brokers", str(brokers), "--bundles", str(bundles)),
            ],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            until = time.monotonic() + START_S
            while not config.is_file():
                if fleet.poll() is not None or time.monotonic() > until:
                    raise SystemExit("the fleet did not start")
                threading.Event().wait(0.5)
            found = collect(config, captures, every_s)
            state = next(one.parent for one in Path(folder).rglob("snapshots"))
            print(line(brokers, bundles, found, state), flush=True)
            for problem in found.problems:
                print(f"  {problem}", file=sys.stderr)
        finally:
            fleet.send_signal(signal.SIGINT)
            fleet.wait()


def line(brokers: int, bundles: int, found: Collected, state: Path) -> str:
    """Return the line of the table."""
    # the first capture reads everything, opens connections and begins the history
    number = len(found.times) - 1
    cpu_s = (found.cpu_s[-1] - found.cpu_s[0]) / (found.times[-1] - found.times[0]) * 60
    sent = found.requests[-1] - found.requests[0]
    whole = found.bytes[1]
    change = (found.bytes[-1] - whole) / max(1, number - 1)
    day = 24 * whole + (MINUTES_A_DAY - 24) * change
    minutes = (found.times[-1] - found.times[0]) / 60
    snapshot = max(size_of(one) for one in (state / "snapshots").glob("*/*"))
    process = psutil.Process()
    full, peak = process.memory_full_info(), peak_mb()
    cells = (
        f"{brokers:,} x {bundles:,}",
        f"{cpu_s:.2f} s ({cpu_s / 60:.1%})",
        f"{full.pss / 1e6:.0f} MB ({peak:.0f} MB)",
        f"{snapshot / 1e6:.2f} MB",
        f"{day / 1e9:.2f} GB",
        f"{sent['zookeeper'] / minutes:,.0f}",
        f"{sent['brokers'] / minutes:,.0f}",
    )
    return f"| {' | '.join(cells)} |"


def peak_mb() -> float:
    """Return the most memory that this process had at a time, resident, MB."""
    status = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(int(one.split()[1]) for one in status if one.startswith("VmHWM")) * 1024 / 1e6


def main() -> None:
    """Read the arguments, and measure each size in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--sizes", nargs="+", default=["12x600", "100x10000", "1000x100000"], metavar="AxB"
    )
    parser.add_argument("--captures", type=int, default=4)
    parser.add_argument("--every", type=float, default=60.0, help="seconds between captures")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.one:
        brokers, bundles = map(int, chosen.sizes[0].split("x"))
        measure(brokers, bundles, max(3, chosen.captures), chosen.every)
        return
    heads = ("brokers x bundles", "processor a minute (share of a core)", "memory, PSS (peak RSS)")
    more = ("a snapshot", "history a day", "requests a minute to ZooKeeper", "to brokers")
    print(f"| {' | '.join((*heads, *more))} |\n|{' --- |' * 7}", flush=True)
    for size in chosen.sizes:
        options = ("--captures", str(chosen.captures), "--every", str(chosen.every))
        subprocess.run(
            [sys.executable, __file__, "--one", "--sizes", size, *options],
            env={**os.environ, "PYTHONPATH": str(ROOT), "ARROW_DEFAULT_MEMORY_POOL": "system"},
            check=True,
        )
    print(f"\n{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
