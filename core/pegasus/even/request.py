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
        Annotated[float, msgspec.Meta(ge=0)] | None,
        param(
            "Max deviation from the mean (%); default: the cluster's target",
            option="--within",
            metavar="PERCENT",
        ),
    ] = None
    max_moves: Annotated[
        Annotated[int, msgspec.Meta(ge=1)] | None, param("Max moves", option="--moves")
    ] = None
    copy: Annotated[bool, param("Copy replicas too; without, only primaries move")] = True
    all_moves: Annotated[bool, param("Keep moves that do not lower the max deviation further")] = (
        False
    )

    def goal_ratio(self, target_ratio: float) -> float:
        """Return the max deviation: its own, or the cluster's target."""
        return target_ratio if self.within_percent is None else self.within_percent / 100
