"""Planning questions to many clusters: what-ifs and failure drills, a cluster a task."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

from core.errors import ComputeError
from core.pegasus.snapshot import PegasusFacts
from core.planning.drill import Drill, DrillWish, drill
from core.planning.drill_pegasus import NODE_FAILURES, drill_pegasus
from core.planning.drill_tables import TABLES
from core.planning.what_if import PAIRS, WhatIfWish, compare
from core.progress import Progress, Untold
from core.pulsar.settings import effective_settings
from core.snapshot.pegasus import PegasusSnapshot
from core.spark.fleet import (
    PROBLEMS,
    Answers,
    Question,
    Snapshot,
    Source,
    ask_here,
    problems_of,
)
from core.spark.jobs.systems import pulsar_of

_POLL_S: Final = 0.5


@dataclass(frozen=True)
class WhatIfQuestion:
    """Every shedding strategy with every placement strategy.

    Attributes:
        wish: What is played.
    """

    wish: WhatIfWish = field(default_factory=WhatIfWish)

    @property
    def tables(self) -> Mapping[str, pa.Schema]:
        """Schemas of the answer."""
        return {"pairs": PAIRS}

    def answer(self, snapshot: Snapshot) -> Mapping[str, pa.Table]:
        """Play the pairs on a cluster.

        Raises:
            InputError: It is no Pulsar cluster, or cannot be played.
        """
        return {"pairs": compare(pulsar_of(snapshot, "shed bundles"), self.wish)}


@dataclass(frozen=True)
class DrillQuestion:
    """Each broker or node, and each failure domain, lost in turn.

    Attributes:
        wish: What is played on a Pulsar cluster.
    """

    wish: DrillWish = field(default_factory=DrillWish)

    @property
    def tables(self) -> Mapping[str, pa.Schema]:
        """Schemas of the answer."""
        return {**TABLES, "nodes": NODE_FAILURES}

    def answer(self, snapshot: Snapshot) -> Mapping[str, pa.Table]:
        """Play the failures of a cluster of either kind.

        Raises:
            InputError: It cannot be played.
            IncompleteSnapshotError: Its snapshot lacks what that needs.
        """
        if isinstance(snapshot, PegasusSnapshot):
            return {"nodes": drill_pegasus(PegasusFacts(snapshot), Untold()).failures}
        snapshot.require("brokers", "bundles")
        return self.told_of(drill(snapshot, effective_settings(snapshot), self.wish, Untold()))

    def told_of(self, done: Drill) -> Mapping[str, pa.Table]:
        """Return the tables of a Pulsar cluster; what was left out is a problem of it."""
        told = {"failures": done.failures, "hot": done.hot, "groups": done.groups}
        return {**told, PROBLEMS: problems_of(done.left_out)} if done.left_out else told


def ask_in_pool(
    sources: Mapping[str, Source], question: Question, progress: Progress, workers: int = 0
) -> Answers:
    """Ask all clusters in processes of this machine, a cluster at a time each.

    Args:
        sources: By the name under which each is told.
        question: What is asked; sent to every process.
        progress: Told after each cluster, and twice a second.
        workers: Processes; 0: as many as there are processors.
    Raises:
        JobStoppedError: A person stopped it; the processes are ended.
        ComputeError: A process could not start, or died.
    """
    count = min(workers or os.cpu_count() or 1, len(sources))
    if count < 2:
        return ask_here(sources, question, progress)
    # not forked: a process with threads would hand its locks on
    spawned = multiprocessing.get_context("spawn")
    others = set(multiprocessing.active_children())
    with ProcessPoolExecutor(count, spawned) as pool:
        work = [
            pool.submit(ask_here, {name: source}, question, Untold())
            for name, source in sorted(sources.items())
        ]
        try:
            _follow(work, progress)
            found = [one.result() for one in work]
        except BrokenProcessPool as exc:
            raise _broken(count) from exc
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for child in set(multiprocessing.active_children()) - others:
                child.terminate()
            raise
    return {name: pa.concat_tables([one[name] for one in found]) for name in found[0]}


def _follow(work: Sequence[Future[Answers]], progress: Progress) -> None:
    """Tell how many are done until all are, or one failed."""
    is_over = False
    while not is_over:
        done, open_ones = wait(work, _POLL_S, FIRST_EXCEPTION)
        progress.step(len(done), len(work), "asking clusters")
        is_over = not open_ones or any(one.exception() is not None for one in done)


def _broken(count: int) -> ComputeError:
    return ComputeError(
        f"One of the {count} processes that were asking clusters ended by itself: it could not "
        "start, or the machine had no memory left for it.",
        hint="Ask with fewer workers, or of fewer clusters at a time; with one worker nothing is "
        "started beside this process.",
    )
