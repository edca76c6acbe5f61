"""How far a long computation is, and how a person stops it."""

from __future__ import annotations

from typing import Final, Protocol

from core.errors import ComputeError


class JobStoppedError(ComputeError):
    """The computation was stopped before it was done."""

    code = "stopped"


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


NO_PROGRESS: Final = NoProgress()
