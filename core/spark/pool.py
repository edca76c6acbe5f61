"""One question to many clusters, answered by the processes of this machine."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from typing import Any, Final

import pyarrow as pa

from core.errors import ComputeError
from core.progress import NoProgress, Progress
from core.spark.fleet import Answers, FleetRequest, Source, answer_here

_POLL_S: Final = 0.5


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
        progress.step(len(done), len(work), "reading clusters")
        is_over = not open_ones or any(one.exception() is not None for one in done)


def _broken(count: int) -> ComputeError:
    return ComputeError(
        f"One of the {count} worker processes ended unexpectedly: it could not "
        "start, or the machine ran out of memory.",
        hint="Use fewer workers or fewer clusters at a time; with one worker no "
        "process is started.",
    )
