"""What the failure drill takes."""

from __future__ import annotations

from typing import Annotated, Final

from core.request import Request, param

HOT_LINE: Final = 0.85
"""Usage from which a broker is hot: Pulsar's ``loadBalancerBrokerOverloadedThresholdPercentage`` as
shipped."""


class DrillRequest(Request, frozen=True, kw_only=True):
    """Lose each broker, failure domain or node in turn."""

    only: Annotated[tuple[str, ...], param("Only this broker, domain or node", metavar="NAME")] = ()
    brokers: Annotated[bool, param("Lose each broker")] = True
    domains: Annotated[bool, param("Lose each failure domain as a whole")] = True
    hot_line: Annotated[
        float,
        param(
            "Usage from which a broker is hot",
            option="--hot",
            metavar="USAGE",
            label="Hot from",
            unit="ratio",
            gt=0,
        ),
    ] = HOT_LINE
    seed: Annotated[int, param("Everything random follows from it", ge=0)] = 1
