"""Bounded memory of results that take seconds: computed in the background, one after the other."""

from __future__ import annotations

import multiprocessing
import os
from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Condition, Thread
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from core.errors import InvariantError, OpsError

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from core.progress import Progress

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

_NICENESS: Final = 5
"""Pages come before what is computed for them."""


class BackgroundResults(Generic[K, V]):
    """Results by key, the least recently used dropped first; a call never waits.

    One thread computes, what was requested last first: the rest may not be needed any more. It
    ends when nothing waits, and does not keep the process alive. A key that is pushed out of the
    queue is put in again when it is requested again. A key whose computation failed stays failed:
    its input is the same.

    Args:
        compute: Called with the key, in the thread.
        max_entries: How many results are stored, and how many failures.
        max_waiting: How many keys wait; the one requested longest ago is pushed out.
    """

    def __init__(
        self, compute: Callable[[K], V], *, max_entries: int = 64, max_waiting: int = 8
    ) -> None:
        self._compute = compute
        self._max_entries = max_entries
        self._max_waiting = max_waiting
        self._results: OrderedDict[K, V] = OrderedDict()
        self._failed: OrderedDict[K, OpsError] = OrderedDict()
        self._waiting: OrderedDict[K, None] = OrderedDict()
        self._busy: K | None = None
        self._is_running = False
        self._changed = Condition()

    def __call__(self, key: K) -> V | None:
        """Return the result for ``key``, ``None`` while there is none yet.

        Raises:
            OpsError: That with which computing it failed; an :class:`InvariantError` where that
                was none of ours, and the log has it.
        """
        with self._changed:
            if key in self._results:
                self._results.move_to_end(key)
                return self._results[key]
            if key in self._failed:
                raise self._failed[key].with_traceback(None)
            if key != self._busy:
                self._enqueue(key)
            return None

    def known(self, key: K) -> V | None:
        """Return the result for ``key`` if it is there; request nothing."""
        with self._changed:
            return self._results.get(key)

    def wait(self, key: K, timeout_s: float) -> V | None:
        """Return the result for ``key`` as soon as it is there, ``None`` when time is up.

        Raises:
            OpsError: Computing it failed.
        """
        with self._changed:
            if key not in self._results and key not in self._failed and key != self._busy:
                self._enqueue(key)
            self._changed.wait_for(lambda: key in self._results or key in self._failed, timeout_s)
        return self(key)

    def _enqueue(self, key: K) -> None:
        self._waiting[key] = None
        self._waiting.move_to_end(key)
        while len(self._waiting) > self._max_waiting:
            self._waiting.popitem(last=False)
        if not self._is_running:
            self._is_running = True
            Thread(target=self._work, name="background results", daemon=True).start()

    def _work(self) -> None:
        while self._take_one():
            pass

    def _take_one(self) -> bool:
        with self._changed:
            if not self._waiting:
                self._is_running = False
                return False
            key, _ = self._waiting.popitem()
            self._busy = key
        try:
            value = self._compute(key)
        except BaseException as error:  # the log has it; the next request starts another thread
            with self._changed:
                self._failed[key] = (
                    error
                    if isinstance(error, OpsError)
                    else InvariantError("A background task failed. See the log for details.")
                )
                while len(self._failed) > self._max_entries:
                    self._failed.popitem(last=False)
                self._busy = None
                self._is_running = False
                self._changed.notify_all()
            raise
        with self._changed:
            self._busy = None
            self._results[key] = value
            while len(self._results) > self._max_entries:
                self._results.popitem(last=False)
            self._changed.notify_all()
        return True


def in_own_process(call: Callable[[Any, Progress], V], argument: Any, progress: Progress) -> V:
    """Return a function's result, computed in a process of its own.

    A computation of many seconds in a thread slows down every page: threads share one interpreter.

    Args:
        call: Picklable, with the argument and its progress; the process imports its module only.
        argument: Picklable.
        progress: Where the steps go that the function reports.
    Raises:
        InvariantError: The process ended without a result; the log has its error.
    """
    # not forked: a process with threads would hand its locks on
    spawned = multiprocessing.get_context("spawn")
    messages, sender = spawned.Pipe(duplex=False)
    process = spawned.Process(target=_send_result, args=(sender, call, argument), daemon=True)
    try:
        process.start()
        sender.close()  # or the end of the process would not be seen
        while True:
            is_result, message = messages.recv()
            if is_result:
                value: V = message
                return value
            progress.step(*message)
    except EOFError as exc:
        raise InvariantError("A background process failed. See the log for details.") from exc
    finally:
        messages.close()
        process.terminate()
        process.join()


class _SentProgress:
    """Progress that goes to another process."""

    def __init__(self, sender: Connection) -> None:
        self._sender = sender

    def step(self, done: int, total: int, words: str) -> None:
        self._sender.send((False, (done, total, words)))


def _send_result(
    sender: Connection, call: Callable[[Any, Progress], object], argument: object
) -> None:
    os.nice(_NICENESS)
    sender.send((True, call(argument, _SentProgress(sender))))
