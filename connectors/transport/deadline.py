"""How long servers are waited for: a limit for all that a block of code does, in one place.

A limit holds for everything in its block, whatever is connected, sent and received meanwhile, and
in the threads of a :class:`Pool` that the block starts; of nested limits the earliest holds. What
waits for a server asks for the length of its next wait again and again (:func:`next_wait_s`), so a
wait ends at most :data:`SLICE_S` after its time is up, or after it is given up (:func:`unless`): a
run is stopped, a process ends.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from contextvars import ContextVar, copy_context
from dataclasses import dataclass, replace
from time import monotonic
from typing import Final, ParamSpec, Self, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

SLICE_S: Final = 0.2
"""Longest wait without a look at whether it is to go on, s."""


class DeadlineError(TimeoutError):
    """The time for what is waited for is up."""


class LateError(Exception):
    """A request may no longer be sent: the right to write may be lost."""


class GivenUpError(Exception):
    """The wait is obsolete: its run is stopped, or this process ends.

    Attributes:
        was_connected: Whether something may have been sent.
    """

    was_connected = True


class TooLongError(Exception):
    """An answer is longer than it may be."""


class TooManyError(TooLongError):
    """It is not too long by itself: too many long ones are read at the same time."""


@dataclass(slots=True)
class _Meter:
    """Remaining bytes that a block may receive."""

    left: int


@dataclass(frozen=True, slots=True)
class _Limits:
    until_s: float = math.inf
    begun_by_s: float = math.inf
    given_up: tuple[Callable[[], bool], ...] = ()
    meter: _Meter | None = None


_NONE: Final = _Limits()
_limits: ContextVar[_Limits] = ContextVar("limits")


@contextmanager
def until(moment_s: float, *, max_bytes: int | None = None) -> Iterator[None]:
    """Bound what the block waits for, and what it receives.

    Args:
        moment_s: When its time is up, on the monotonic clock, s.
        max_bytes: What it may receive; ``None`` for the limit of the outer block.
    """
    now = _limits.get(_NONE)
    changed = replace(now, until_s=min(now.until_s, moment_s))
    if max_bytes is not None:
        changed = replace(changed, meter=_Meter(max_bytes))
    token = _limits.set(changed)
    try:
        yield
    finally:
        _limits.reset(token)


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Bound what the block waits for, from now on."""
    with until(monotonic() + seconds):
        yield


@contextmanager
def begun_within(seconds: float) -> Iterator[None]:
    """Bound when the block may still send a request that changes something, from now on.

    A process that was frozen meanwhile wakes with the right to write that it had before, while
    another one has taken it over. It is the begin that is bound, not the wait for the answer.
    """
    now = _limits.get(_NONE)
    token = _limits.set(replace(now, begun_by_s=min(now.begun_by_s, monotonic() + seconds)))
    try:
        yield
    finally:
        _limits.reset(token)


def check_begin() -> None:
    """Check that a request may still be sent.

    Raises:
        LateError: The time in which it may be begun is up.
    """
    if monotonic() > _limits.get(_NONE).begun_by_s:
        raise LateError


@contextmanager
def unless(is_given_up: Callable[[], bool]) -> Iterator[None]:
    """End the waits of the block when ``is_given_up`` returns true.

    It is called often, and from any thread of the block.
    """
    now = _limits.get(_NONE)
    token = _limits.set(replace(now, given_up=(*now.given_up, is_given_up)))
    try:
        yield
    finally:
        _limits.reset(token)


def left_s() -> float:
    """Return the remaining time, s; infinite without a limit, negative when it is up."""
    return _limits.get(_NONE).until_s - monotonic()


def next_wait_s() -> float:
    """Return the time until the next attempt, more than 0 s.

    Raises:
        DeadlineError: The time is up.
        GivenUpError: It is not waited for any more.
    """
    if is_given_up():
        raise GivenUpError
    left = left_s()
    if left <= 0:
        raise DeadlineError("the answer timed out")
    return min(left, SLICE_S)


def is_given_up() -> bool:
    """Return whether the wait of the block is obsolete."""
    return any(is_given_up() for is_given_up in _limits.get(_NONE).given_up)


def received(count: int) -> None:
    """Count received bytes.

    Raises:
        TooLongError: There are more than the block may receive.
    """
    meter = _limits.get(_NONE).meter
    if meter is not None:
        meter.left -= count
        if meter.left < 0:
            raise TooLongError


def awaited(wait: Callable[[float], object], seconds: float) -> bool:
    """Wait in slices; return whether it came.

    Args:
        wait: Waits for so many seconds and returns something true when it came.
        seconds: How long to wait.
    Raises:
        DeadlineError: The time of the block is up.
        GivenUpError: It is not waited for any more.
    """
    ends_s = monotonic() + seconds
    while (rest_s := ends_s - monotonic()) > 0:
        if wait(min(next_wait_s(), rest_s)):
            return True
    return bool(wait(0.0))


def pause(seconds: float) -> None:
    """Do nothing for so long, or until the limits of the block end."""
    with suppress(DeadlineError, GivenUpError):
        awaited(threading.Event().wait, seconds)


class Pool(ThreadPoolExecutor):
    """Threads for which the limits of the block hold that hands them work.

    A block that is left by an exception gives up what its threads still wait for.
    """

    def __init__(self, size: int, name: str = "trimtab-wait") -> None:
        super().__init__(size, thread_name_prefix=name)
        self._is_given_up = threading.Event()

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Hand work to a thread, with the limits of this moment."""

        def call() -> T:
            with unless(self._is_given_up.is_set):
                return fn(*args, **kwargs)

        return super().submit(copy_context().run, call)

    def give_up(self) -> None:
        """End the waits of all threads, which end soon after; returns at once."""
        self._is_given_up.set()
        self.shutdown(wait=False, cancel_futures=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        if kind is not None:
            self.give_up()
        try:
            self.shutdown(wait=True)
        except BaseException:  # Ctrl-C in this very wait: Python's exit would wait for the threads
            self.give_up()
            raise
