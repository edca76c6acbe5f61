"""What a combination of settings is, and what its rules look at."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from core.pulsar.catalogue import Value
from core.pulsar.settings import EffectiveSettings
from core.snapshot import LoadManager

Weight = Literal["warning", "info"]

IMPL: Final = "org.apache.pulsar.broker.loadbalance.impl."
SHEDDER: Final = "loadBalancerLoadSheddingStrategy"
PLACEMENT: Final = "loadBalancerLoadPlacementStrategy"
INTERVAL: Final = "loadBalancerSheddingIntervalMinutes"


@dataclass(frozen=True, slots=True, kw_only=True)
class Combination:
    """Settings that do harm together, or do nothing.

    Attributes:
        code: Stable word.
        weight: ``warning``: the balance suffers; ``info``: worth knowing.
        keys: The settings.
        evidence: What is set, with the values; whole sentences.
        consequence: The effect; whole sentences.
        hint: What to do.
        wanted: Values that fix it, by key; empty where the user has to choose.
    """

    code: str
    weight: Weight
    keys: tuple[str, ...]
    evidence: str
    consequence: str
    hint: str = ""
    wanted: Mapping[str, Value] = field(default_factory=dict)

    @property
    def sentence(self) -> str:
        """Evidence and consequence."""
        return f"{self.evidence} {self.consequence}"


@dataclass(frozen=True)
class Case:
    """The active settings, and under which load manager.

    Attributes:
        settings: In force.
        load_manager: The modular one's rules hold where it is unknown.
    """

    settings: EffectiveSettings
    load_manager: LoadManager

    @property
    def is_extensible(self) -> bool:
        """Whether the extensible manager decides."""
        return self.load_manager == "extensible"

    @property
    def shedder(self) -> str:
        """Class name of the configured shedding strategy."""
        return self.short(SHEDDER)

    def short(self, key: str) -> str:
        """Class name without its package."""
        return self.settings.text(key).rpartition(".")[2]

    def number(self, key: str) -> float:
        """An active value."""
        return self.settings.number(key)

    def default(self, key: str) -> Value:
        """What the release has."""
        return self.settings.default_of(key)

    def is_changed(self, key: str) -> bool:
        """Whether it is known to be set to something else than the default."""
        is_set = self.settings.origin(key) in ("dynamic", "file", "override")
        return is_set and self.settings.value(key) != self.default(key)


CombinationRule = Callable[[Case], Iterator[Combination]]
