"""The settings of a shedding strategy that a form offers, each as a slider or a switch."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from core.pulsar.settings import EffectiveSettings, Setting, known_setting
from core.pulsar.shedding import SHEDDING_STRATEGIES

Number = bool | int | float


@dataclass(frozen=True, eq=False)
class Slider:
    """One setting in a form.

    Attributes:
        setting: What it sets; its key is also the name of the query parameter.
    """

    setting: Setting

    @property
    def key(self) -> str:
        """Upstream key."""
        return self.setting.key

    @property
    def label(self) -> str:
        """A few words with the unit."""
        return self.setting.label or self.setting.key

    @property
    def low(self) -> float:
        """Smallest value worth trying."""
        return self.setting.range.min if self.setting.range else 0.0

    @property
    def high(self) -> float:
        """Largest value worth trying; 0: no limit is known."""
        return self.setting.range.max if self.setting.range else 0.0

    @property
    def step(self) -> float:
        """Distance of values."""
        return self.setting.range.step if self.setting.range else 1.0

    @property
    def is_switch(self) -> bool:
        """Whether it is on or off."""
        return self.setting.kind == "bool"

    @property
    def help(self) -> str:
        """The meaning and effect of the setting, with its upstream name and unit."""
        unit = f" Unit: {self.setting.unit}." if self.setting.unit else ""
        return f"{self.key}: {self.setting.meaning} {self.setting.effect}".strip() + unit

    def number(self, value: float) -> Number:
        """Return a value in the setting's own type."""
        return int(value) if self.setting.kind == "int" else float(value)

    def present(self, settings: EffectiveSettings) -> Number:
        """Return the cluster's value; the default where it is unset."""
        if self.is_switch:
            return settings.flag(self.key)
        value, default = settings.number(self.key), self.setting.default
        known = value if math.isfinite(value) else default if isinstance(default, float) else 0.0
        return self.number(known)

    def span(self, present: Number) -> tuple[Number, Number]:
        """Return the ends of the slider, the present value within."""
        return self.number(min(self.low, present)), self.number(max(self.high, present))


_BY_STRATEGY: Final = {
    strategy.name: tuple(Slider(known_setting(key)) for key in strategy.adjustable)
    for strategy in SHEDDING_STRATEGIES
}


def sliders(strategy: str) -> tuple[Slider, ...]:
    """Return the sliders of a strategy, the most important first; none if it is unknown."""
    return _BY_STRATEGY.get(strategy, ())
