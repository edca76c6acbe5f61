"""The request of a Pegasus balance: the meta server's balancer, round by round."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from core.request import Request, param


class BalanceRequest(Request, frozen=True, kw_only=True):
    """Simulate the meta server's balancer, round by round, with reasons."""

    policy: Annotated[
        Literal["app", "cluster"] | None,
        param("Balance by table (app) or over the cluster; default: as the cluster is set"),
    ] = None
    settings: Annotated[
        tuple[str, ...],
        param("Assume another value of a switch", option="--set", metavar="KEY=JSON"),
    ] = ()
    rounds: Annotated[int, param("Number of rounds; 0: until convergence", ge=0, le=1_000_000)] = (
        100
    )
    seed: Annotated[
        Annotated[int, msgspec.Meta(ge=0)] | None,
        param("Seed of the choice among equal disks; default: the first disk"),
    ] = None
