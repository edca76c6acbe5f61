"""Planning questions to many clusters: what-ifs and failure drills, a cluster a task."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from typing import Any, Final

import pyarrow as pa

from core.errors import ComputeError
from core.pegasus.snapshot import PegasusFacts
from core.planning.drill.pegasus import NODE_FAILURES, drill_pegasus
from core.planning.drill.pulsar import Drill, drill
from core.planning.drill.request import DrillRequest
from core.planning.drill.tables import TABLES
from core.planning.what_if.compare import PAIRS, compare
from core.planning.what_if.request import WhatIfRequest
from core.progress import NoProgress, Progress
from core.pulsar.settings import effective_settings
from core.snapshot.pegasus import PegasusSnapshot
from core.spark.fleet import (
    PROBLEMS,
    Answers,
    FleetRequest,
    Operation,
    Snapshot,
    Source,
    answer_here,
    problems_of,
)
from core.spark.jobs.systems import pulsar_of

_POLL_S: Final = 0.5


def compare_cluster(snapshot: Snapshot, request: WhatIfRequest) -> Mapping[str, pa.Table]:
    """Simulate the pairs on a cluster.

    Raises:
        InputError: It is no Pulsar cluster, or cannot be simulated.
    """
    return {"pairs": compare(pulsar_of(snapshot, "shed bundles"), request)}


def drill_cluster(snapshot: Snapshot, request: DrillRequest) -> Mapping[str, pa.Table]:
    """Drill a cluster of either system.

    Raises:
        InputError: It cannot be computed.
        IncompleteSnapshotError: Its snapshot lacks what that needs.
    """
    if isinstance(snapshot, PegasusSnapshot):
        facts = PegasusFacts(snapshot)
        return {"nodes": drill_pegasus(facts, NoProgress(), only=request.only).failures}
    snapshot.require("brokers", "bundles")
    return drill_tables(drill(snapshot, effective_settings(snapshot), request, NoProgress()))


def drill_tables(done: Drill) -> Mapping[str, pa.Table]:
    """Return the tables of a Pulsar cluster; what was left out is a problem of it."""
    tables = {"failures": done.failures, "hot": done.hot, "groups": done.groups}
    return {**tables, PROBLEMS: problems_of(done.skipped)} if done.skipped else tables


WHAT_IF: Final = Operation(compare_cluster, {"pairs": PAIRS})
"""Every shedding strategy with every placement strategy."""

DRILL: Final = Operation(drill_cluster, {**TABLES, "nodes": NODE_FAILURES})
"""Each broker or node, and each failure domain, lost in turn."""


def answer_in_pool(
    sources: Mapping[str, Source], request: FleetRequest[Any], progress: Progress, workers: int = 0
) -> Answers:
    """Answer for all clusters in processes of this machine, a cluster at a time each.

    Args:
        sources: By cluster name.
        request: The request; sent to every process.
        progress: Called after each cluster, and twice a second.
        workers: Processes; 0: as many as there are processors.
    Raises:
        JobStoppedError: A person stopped it; the processes are ended.
        ComputeError: A process could not start, or died.
    """
    count = min(workers or os.cpu_count() or 1, len(sources))
    if count < 2:
        return answer_here(sources, request, progress)
    # not forked: a process with threads would hand its locks on
    spawned = multiprocessing.get_context("spawn")
    others = set(multiprocessing.active_children())
    with ProcessPoolExecutor(count, spawned) as pool:
        work = [
            pool.submit(answer_here, {name: source}, request, NoProgress())
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
    """Report how many are done until all are, or one failed."""
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
        "started in addition to this process.",
    )
