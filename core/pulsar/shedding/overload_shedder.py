"""OverloadShedder: brokers over a fixed limit give away what is over it.

Source: Pulsar ``broker.loadbalance.impl.OverloadShedder``.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import ClassVar, Self

from core.pulsar.settings import EffectiveSettings
from core.pulsar.shedding.above_threshold import ThresholdTrial, source_count, throughput_to_shed
from core.pulsar.shedding.basis import SheddingBasis
from core.pulsar.shedding.model import USAGE, Decision, ModularStrategy
from core.pulsar.view import LoadView
from core.snapshot import LoadManager
from core.units import format_ratio


@dataclass(frozen=True, slots=True, kw_only=True)
class OverloadConfig:
    """Settings of OverloadShedder.

    Attributes:
        limit_ratio: ``loadBalancerBrokerOverloadedThresholdPercentage`` / 100.
    """

    limit_ratio: float

    @classmethod
    def from_settings(cls, settings: EffectiveSettings) -> Self:
        """Read it from the active settings."""
        key = "loadBalancerBrokerOverloadedThresholdPercentage"
        return cls(limit_ratio=settings.number(key) / 100.0)


@dataclass(frozen=True, slots=True)
class OverloadState:
    """OverloadShedder's memory: how large its answer has been, which decides the order of it.

    Attributes:
        max_sources: Brokers that shed at once at most.
    """

    max_sources: int = 0


@dataclass(frozen=True, slots=True)
class OverloadShedder(ModularStrategy[OverloadState]):
    """Brokers at the limit or over it give away their biggest bundles.

    Source:
        Pulsar ``OverloadShedder#findBundlesForUnloading``, 2.8 to 5.0.
    Parity:
        Move for move, but for SHED-1 (order within a hash bucket).
    """

    name: ClassVar[str] = "OverloadShedder"
    summary: ClassVar[str] = "Relieves brokers above a fixed limit, regardless of the others."
    package: ClassVar[str] = "org.apache.pulsar.broker.loadbalance.impl"
    manager: ClassVar[LoadManager] = "modular"
    measure: ClassVar[str] = USAGE
    fitting_placement: ClassVar[str] = "LeastResourceUsageWithWeight"
    memory: ClassVar[str] = ""
    adjustable: ClassVar[tuple[str, ...]] = ("loadBalancerBrokerOverloadedThresholdPercentage",)
    evens_load: ClassVar[bool] = False
    deciding: ClassVar[tuple[str, ...]] = ("loadBalancerBrokerOverloadedThresholdPercentage",)

    def config(self, settings: EffectiveSettings) -> OverloadConfig:
        """Return its settings."""
        return OverloadConfig.from_settings(settings)

    def initial_state(self) -> OverloadState:
        """Return its empty memory."""
        return OverloadState()

    def decide(
        self,
        view: LoadView,
        config: OverloadConfig,
        state: OverloadState,
        recently_unloaded: AbstractSet[str] = frozenset(),
        /,
    ) -> tuple[Decision, OverloadState]:
        """Return this round's unloads."""
        basis = SheddingBasis.of(view)
        usage = view.overload_usage[basis.brokers]
        throughput = view.broker_throughput[basis.brokers]
        limit = config.limit_ratio
        trial = ThresholdTrial(
            basis=basis,
            recent=basis.recent(recently_unloaded),
            usage=usage,
            threshold=limit,
            threshold_label=f"the limit of {format_ratio(limit)}",
            needed=throughput_to_shed(usage, throughput, threshold=limit, slack=0.0),
            minimum=float("-inf"),
            max_sources=state.max_sources,
        )
        moves = trial.moves()
        after = OverloadState(max(state.max_sources, source_count(moves)))
        return trial.decision(self.name, moves), after
