"""The request of a what-if: every shedding strategy with every placement strategy."""

from __future__ import annotations

from typing import Annotated, Any, Self

import msgspec

from core.request import Request, param


class WhatIfRequest(Request, frozen=True, kw_only=True):
    """Simulate every pair of strategies, and compare what each achieves."""

    shedding: Annotated[
        tuple[str, ...], param("Shedding strategies; default: all", metavar="CLASS")
    ] = ()
    placement: Annotated[
        tuple[str, ...], param("Placement strategies; default: all", metavar="CLASS")
    ] = ()
    rounds: Annotated[int, param("Max shedding rounds for each pair", ge=1, le=10_000)] = 60
    seed: Annotated[int, param("Seed of all random draws", ge=0)] = 1
    target: Annotated[
        Annotated[float, msgspec.Meta(gt=0)] | None,
        param(
            "Max deviation of the busiest broker (ratio); default: each cluster's target",
            unit="ratio",
        ),
    ] = None
    settings: Annotated[
        dict[str, Any],
        param(
            "Temporary broker.conf settings, as JSON: "
            '{"loadBalancerSheddingEnabled": true}; default: each cluster\'s own'
        ),
    ] = msgspec.field(default_factory=dict)

    def checked(self) -> Self:
        """Return it with every name as Pulsar spells it.

        Raises:
            UnknownNameError: A strategy or a setting that Pulsar does not have.
        """
        from core.pulsar.placement import find_strategy  # noqa: PLC0415  # heavy: not at start
        from core.pulsar.settings import known_setting  # noqa: PLC0415  # heavy: not at start
        from core.pulsar.shedding import find_shedding_strategy  # noqa: PLC0415  # heavy: not at start

        return msgspec.structs.replace(
            self,
            shedding=tuple(find_shedding_strategy(name).name for name in self.shedding),
            placement=tuple(find_strategy(name).name for name in self.placement),
            settings={known_setting(key).key: value for key, value in self.settings.items()},
        )
