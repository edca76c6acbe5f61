"""What rules about combinations of settings read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from core.pulsar.catalogue import Value
from core.pulsar.settings import EffectiveSettings
from core.pulsar.shedding.registry import AnyStrategy, known_shedding_strategy
from core.snapshot import LoadManager

IMPL: Final = "org.apache.pulsar.broker.loadbalance.impl."
SHEDDER: Final = "loadBalancerLoadSheddingStrategy"
PLACEMENT: Final = "loadBalancerLoadPlacementStrategy"
INTERVAL: Final = "loadBalancerSheddingIntervalMinutes"


@dataclass(frozen=True)
class Case:
    """The active settings, and under which load manager.

    Attributes:
        settings: Effective ones.
        load_manager: The modular one's rules hold where it is unknown.
    """

    settings: EffectiveSettings
    load_manager: LoadManager

    @property
    def is_extensible(self) -> bool:
        """Whether the extensible manager is active."""
        return self.load_manager == "extensible"

    @property
    def shedder(self) -> str:
        """Class name of the configured shedding strategy."""
        return self.short(SHEDDER)

    @property
    def strategy(self) -> AnyStrategy | None:
        """The configured shedding strategy, or ``None`` if unsupported."""
        return known_shedding_strategy(self.shedder)

    def sheds_by(self, key: str) -> bool:
        """Return whether the active strategy reads a setting of its own."""
        if self.is_extensible or self.strategy is None:
            return False
        return self.strategy.manager == "modular" and key in self.strategy.adjustable

    def short(self, key: str) -> str:
        """Class name without its package."""
        return self.settings.text(key).rpartition(".")[2]

    def number(self, key: str) -> float:
        """An active value."""
        return self.settings.number(key)

    def default(self, key: str) -> Value:
        """Default of the release."""
        return self.settings.default_of(key)

    def is_changed(self, key: str) -> bool:
        """Whether it is known to differ from the default."""
        return self.is_set(key) and self.settings.value(key) != self.default(key)

    def is_set(self, key: str) -> bool:
        """Whether it is known to be set, to the default or another value."""
        return self.settings.origin(key) in ("dynamic", "file", "override")
