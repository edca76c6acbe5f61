"""The request of a failure drill."""

from __future__ import annotations

from typing import Annotated, Final

from core.request import Request, param

HOT_THRESHOLD: Final = 0.85
"""Usage from which a broker is hot: Pulsar's ``loadBalancerBrokerOverloadedThresholdPercentage`` as
shipped."""


class DrillRequest(Request, frozen=True, kw_only=True):
    """Simulate the failure of each broker, failure domain or node in turn."""

    only: Annotated[tuple[str, ...], param("Only this broker, domain or node", metavar="NAME")] = ()
    brokers: Annotated[bool, param("Simulate the failure of each broker")] = True
    domains: Annotated[bool, param("Simulate the failure of each domain")] = True
    hot_threshold: Annotated[
        float,
        param(
            "Usage above which a broker is hot (ratio)",
            option="--hot",
            metavar="USAGE",
            label="Hot threshold",
            unit="ratio",
            gt=0,
        ),
    ] = HOT_THRESHOLD
    seed: Annotated[int, param("Seed of all random draws", ge=0)] = 1
