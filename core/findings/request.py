"""The request for the health of clusters."""

from __future__ import annotations

from typing import Annotated, Literal

from core.request import Request, param


class HealthRequest(Request, frozen=True, kw_only=True):
    """Show the findings of a cluster, and how even its load is."""

    target: Annotated[
        Literal["vivo", "tight", "transfer"], param("Definition of balanced of Pulsar clusters")
    ] = "vivo"
