"""The requests of analyses of the recorded history, and which part of it they read."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Final, Literal

from core.request import Request, param

Period = Literal["minute", "hour", "day"]
Subject = Literal["brokers", "bundles", "nodes", "tables"]
SIDE_MINUTES: Final = 10
SETTLE_MINUTES: Final = 5
SUBJECTS: Final[tuple[Subject, ...]] = ("brokers", "bundles", "nodes", "tables")


@dataclass(frozen=True, kw_only=True)
class RecordScope:
    """Part of the history to read.

    Attributes:
        clusters: Names; empty: all that were recorded.
        start: Not before it, UTC; ``None`` for the beginning.
        end: Not after it, UTC; ``None`` for the end.
        minute_s: Seconds of the record that count as a minute: less where time is compressed.
    """

    clusters: tuple[str, ...] = ()
    start: datetime | None = None
    end: datetime | None = None
    minute_s: float = 60.0


class TrendsRequest(Request, frozen=True, kw_only=True):
    """Summarize the load of brokers, bundles, nodes and tables."""

    period: Annotated[
        Period, param("Period: minute, hour or day", option="--by", metavar="PERIOD")
    ] = "hour"
    subjects: Annotated[
        tuple[Subject, ...],
        param("Only brokers, bundles, nodes or tables", option="--subject", min_length=1),
    ] = SUBJECTS


class FlapsRequest(Request, frozen=True, kw_only=True):
    """Find bundles that flapped, and moves without effect."""

    side_minutes: Annotated[
        float,
        param(
            "Window before and after a move (min)", option="--side", metavar="MIN", gt=0, le=1_440
        ),
    ] = float(SIDE_MINUTES)
    settle_minutes: Annotated[
        float,
        param("Excluded time after a move (min)", option="--settle", metavar="MIN", ge=0, le=1_440),
    ] = float(SETTLE_MINUTES)
