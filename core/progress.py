"""How far a long computation is, and how a person stops it."""

from __future__ import annotations

import time
from typing import Final, Protocol

from core.errors import ComputeError


class JobStoppedError(ComputeError):
    """The computation was stopped before it was done."""

    code = "stopped"


class TooLongError(JobStoppedError):
    """An answer was not computed within its time."""

    code = "too_long"


class Progress(Protocol):
    """Progress of a long computation."""

    def step(self, done: int, total: int, words: str) -> None:
        """Report the progress; called often, so it must be cheap.

        Args:
            done: Parts that are done.
            total: Parts in all; 0: unknown.
            words: What is being done, in a few words.
        Raises:
            JobStoppedError: It was stopped.
        """
        ...


class NoProgress:
    """No-op progress."""

    def step(self, done: int, total: int, words: str) -> None:
        """Say nothing."""


class Deadline:
    """Progress that ends a computation at a moment of the monotonic clock."""

    def __init__(self, until_s: float) -> None:
        self._until_s = until_s

    def step(self, done: int, total: int, words: str) -> None:  # noqa: ARG002  # of the protocol
        """Check the time.

        Raises:
            TooLongError: It is over.
        """
        if time.monotonic() > self._until_s:
            raise TooLongError(
                "The answer was not computed in time.",
                hint="Let a job compute it, or request fewer rounds or clusters.",
            )


NO_PROGRESS: Final = NoProgress()
