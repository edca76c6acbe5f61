"""The request of our own Pegasus planner: few moves that even out one measure."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from core.request import Request, param

EvenMeasure = Literal["primaries", "count", "disk", "qps", "cu"]
"""Primaries alone, all replicas, megabytes, requests/s and capacity units/s of primaries."""


class EvenRequest(Request, frozen=True, kw_only=True):
    """Balance a cluster by one measure with few moves."""

    measure: Annotated[
        EvenMeasure,
        param("Measure: primaries, count, disk, qps or cu", option="--by"),
    ] = "count"
    within_percent: Annotated[
        float,
        param("Max deviation from the mean (%)", option="--within", metavar="PERCENT", ge=0),
    ] = 5.0
    max_moves: Annotated[
        Annotated[int, msgspec.Meta(ge=1)] | None, param("Max moves", option="--moves")
    ] = None
    copy: Annotated[bool, param("Copy replicas too; without, only primaries move")] = True
    all_moves: Annotated[
        bool, param("Keep moves that do not lower the max deviation any further")
    ] = False
