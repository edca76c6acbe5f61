"""The request for the health of clusters."""

from __future__ import annotations

from typing import Annotated, Literal

from core.request import Request, param


class HealthRequest(Request, frozen=True, kw_only=True):
    """Show the findings of a cluster, and how even its load is."""

    target: Annotated[
        Literal["cluster", "vivo", "tight", "transfer"],
        param("Temporary target; cluster: target_percent of the configuration"),
    ] = "cluster"
