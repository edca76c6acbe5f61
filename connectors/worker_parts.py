"""What a worker tells, and how it treats runs that Trimtab itself cannot carry out."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Final

from core.errors import InvariantError, OpsError

SOONEST_AGAIN_S: Final = 1.0
_LATEST_MEND_S: Final = 60.0
_log = logging.getLogger("trimtab.worker")


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerEvent:
    """Something a person at the terminal wants to know.

    Attributes:
        cluster: Name.
        kind: ``ready``, ``working``, ``ended``, ``standby``, ``failed`` or ``stopped``.
        sentence: What happened.
    """

    cluster: str
    kind: str
    sentence: str

    def __str__(self) -> str:
        return f"{self.cluster}: {self.sentence}"


@dataclass(slots=True)
class Broken:
    """A run that Trimtab itself cannot carry out; what it has changed is put back all the same.

    Attributes:
        bug: Why.
        again_at_s: When it is tried again, on the monotonic clock.
        wait_s: How long the next wait is.
    """

    bug: OpsError
    again_at_s: float = 0.0
    wait_s: float = SOONEST_AGAIN_S

    def wait(self, now_s: float) -> None:
        """Let it rest; longer and longer."""
        self.again_at_s = now_s + self.wait_s
        self.wait_s = min(2 * self.wait_s, _LATEST_MEND_S)


def as_bug(exc: Exception) -> InvariantError:
    """Return what a person sees of an exception that should not be; the log gets the rest."""
    if isinstance(exc, InvariantError):
        return exc
    _log.error("a run was carried out in a way that it never should", exc_info=exc)
    return InvariantError(
        f"The run failed by a fault of Trimtab itself ({type(exc).__name__}).",
        hint="It is tried again; please report it with the worker's log.",
    )
