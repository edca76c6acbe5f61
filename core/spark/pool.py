"""A function of many items, computed by the processes of this machine."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Mapping, Sequence, Sized
from concurrent.futures import FIRST_EXCEPTION, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from typing import Any, Final, TypeVar

from core.errors import ComputeError
from core.progress import Progress

T = TypeVar("T")
V = TypeVar("V")
_POLL_S: Final = 0.5


def _count(workers: int, items: Sized) -> int:
    return min(workers or os.cpu_count() or 1, len(items))


def in_pool(
    call: Callable[[T], V], items: Mapping[str, T], progress: Progress, workers: int
) -> dict[str, V]:
    """Return a function's result for each item; with one worker, computed in this process.

    Args:
        call: Picklable.
        items: By name.
        progress: Called after each, and twice a second.
        workers: Processes; 0: as many as there are processors.
    Raises:
        JobStoppedError: A person stopped it; the processes are ended.
        ComputeError: A process could not start, or died.
    """
    count = _count(workers, items)
    if count < 2:
        here = {}
        for done, (name, item) in enumerate(items.items()):
            progress.step(done, len(items), name)
            here[name] = call(item)
        progress.step(len(items), len(items), "done")
        return here
    # not forked: a process with threads would hand its locks on
    spawned = multiprocessing.get_context("spawn")
    others = set(multiprocessing.active_children())
    with ProcessPoolExecutor(count, spawned) as pool:
        work = [pool.submit(call, item) for item in items.values()]
        try:
            _follow(work, progress)
            return dict(zip(items, [one.result() for one in work], strict=True))
        except BrokenProcessPool as exc:
            raise _broken(count) from exc
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for child in set(multiprocessing.active_children()) - others:
                child.terminate()
            raise


def _follow(work: Sequence[Future[Any]], progress: Progress) -> None:
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
