"""Act on a sandbox for hours of its time, with one random fault after the other, and watch memory.

    .venv/bin/python bench/soak.py [--minutes 10] [--hours 24] [--seed N]

A sandbox with a load that changes, a collector, a worker, and a plan to carry out in every round,
each with a fault in its middle that is drawn by lot. The sandbox's workload is moved on so that
``--hours`` of its time pass in ``--minutes``. After every round: every action is in the journal,
none was sent twice, no setting is left changed, every step's result is known, nothing had a
traceback. Memory is that of this process, which has worker, collector and sandbox in it; it may not
grow by more than 10% and 50 MB from the end of the first third to the end. Exit code 1 if any of
this does not hold.
"""

from __future__ import annotations

import argparse
import gc
import logging
import random
import secrets
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from time import monotonic

import psutil

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT / "tests" / "support"), str(ROOT / "tests" / "faults")]

from apply_under_faults import Tally  # noqa: E402  # after their path is known
from fault_scenes import FAULTS, OPTIONS, run_under, scene_of  # noqa: E402  # after their path is known

from connectors.memory import use_few_pools  # noqa: E402  # after their path is known
from connectors.recording.collector import run_collector  # noqa: E402  # after their path is known
from connectors.sandbox.pulsar.fleet import Sandbox  # noqa: E402  # after their path is known

ALLOWED_RATIO = 0.10
ALLOWED_MB = 50.0


class Noted(logging.Handler):
    """Keeps what is logged with a traceback."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.words: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep it."""
        if record.exc_info:
            self.words.append(f"{record.getMessage()} Traceback")

    def taken(self) -> list[str]:
        """Return what came since the last time."""
        words, self.words = self.words, []
        return words


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10.0, help="real time")
    parser.add_argument("--hours", type=float, default=24.0, help="time of the sandbox")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(10**6), help="of the faults")
    given = parser.parse_args()
    use_few_pools()  # as the services do
    print(f"{given.hours:g} h of sandbox time in {given.minutes:g} min, seed {given.seed}")
    with tempfile.TemporaryDirectory(prefix="trimtab-soak-") as folder:
        return soak(Path(folder), given.minutes * 60.0, given.hours * 3600.0, given.seed)


def soak(folder: Path, for_s: float, sandbox_s: float, seed: int) -> int:
    lot = random.Random(seed)  # noqa: S311  # faults are drawn, not secrets
    noted, tally, drawn = Noted(), Tally(), Counter[str]()
    logging.getLogger().addHandler(noted)
    memory: list[tuple[float, float]] = []
    failures = 0
    speed = sandbox_s / for_s
    with Sandbox(replace(OPTIONS, is_steady=False)) as sandbox, collecting(sandbox, folder):
        began_s = monotonic()
        passed_s = 0.0
        while (elapsed_s := monotonic() - began_s) < for_s:
            sandbox.advance(elapsed_s * (speed - 1) - passed_s)
            passed_s = elapsed_s * (speed - 1)
            name = lot.choice(list(FAULTS))
            drawn[name] += 1
            before = tally.row
            with scene_of(sandbox, folder) as scene:
                view = run_under(FAULTS[name], scene, tally, noted.taken)
            gc.collect()
            memory.append((elapsed_s, resident_mb()))
            is_clean = {**tally.row, "runs": 0} == {**before, "runs": 0}
            failures += not is_clean
            print(
                f"{elapsed_s / 60:6.1f} min  {(elapsed_s + passed_s) / 3600:5.1f} h  "
                f"{memory[-1][1]:6.0f} MB  {name}: {view.sentence[:90]}"
                + ("" if is_clean else f"  NOT CLEAN: {tally}"),
                flush=True,
            )
        total_s = monotonic() - began_s
    return report(tally, drawn, memory, total_s * speed, failures)


def report(
    tally: Tally,
    drawn: Counter[str],
    memory: list[tuple[float, float]],
    sandbox_s: float,
    failures: int,
) -> int:
    third = memory[len(memory) // 3][1]
    end = sum(mb for _, mb in memory[-3:]) / len(memory[-3:])
    is_flat = end - third <= max(third * ALLOWED_RATIO, ALLOWED_MB)
    print(f"\n{sandbox_s / 3600:.1f} h of sandbox time; faults drawn: {dict(drawn.most_common())}")
    print(", ".join(f"{name} {figure}" for name, figure in tally.row.items()))
    print(
        f"memory: {memory[0][1]:.0f} MB after the first round, {third:.0f} MB after a third, "
        f"{end:.0f} MB at the end: {'flat' if is_flat else 'GROWN'}"
    )
    return int(bool(failures) or not is_flat or not tally.is_clean)


@contextmanager
def collecting(sandbox: Sandbox, folder: Path) -> Iterator[None]:
    """Record the sandbox's history all the while."""
    with scene_of(sandbox, folder) as scene:
        site = scene.site
    stop = threading.Event()
    cluster = site.cluster.model_copy(update={"zookeeper": sandbox.zookeeper})
    config = site.config.model_copy(update={"clusters": [cluster]})
    thread = threading.Thread(
        target=run_collector, args=(config, [cluster], 2.0, stop, lambda _: None)
    )
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def resident_mb() -> float:
    return psutil.Process().memory_info().rss / 2**20


if __name__ == "__main__":
    sys.exit(main())
