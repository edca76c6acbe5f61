"""Permitted actions and the run in progress of a cluster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

ACTS: Final = "may act"
"""A worker is there, and the configuration allows changes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionStatus:
    """Permitted actions on a cluster, and the run in progress.

    Attributes:
        access: ``read-only``, :data:`ACTS`, or why nothing can be applied all the same.
        run: The run that has not ended, in a few words; empty: there is none.
    """

    access: str
    run: str
