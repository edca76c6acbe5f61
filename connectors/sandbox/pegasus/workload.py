"""What clients do to the sandbox over time: a wave a table, and bursts now and then.

Counters of real servers only grow, so the traffic since a moment is the integral of the rate, in
closed form: nothing has to be kept between two questions.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import cos, pi
from typing import Final

import numpy as np

_DEPTH: Final = (0.15, 0.45)
_WAVE_S: Final = 900.0
_BURST_FACTOR: Final = 1.5
_BURST_S: Final = 75.0
_BURST_EVERY_S: Final = (420.0, 900.0)


@dataclass(frozen=True, slots=True)
class Rhythm:
    """How the traffic of one table goes up and down around its mean.

    Attributes:
        depth: Of the wave, 0..1; 0: always the mean.
        phase: Of the wave, radians.
        burst: How much more there is during a burst, in means; 0: none.
        burst_every_s: Seconds from one burst to the next.
        burst_phase_s: Seconds from the sandbox's start to the end of a whole period.
    """

    depth: float = 0.0
    phase: float = 0.0
    burst: float = 0.0
    burst_every_s: float = 1.0
    burst_phase_s: float = 0.0

    def until(self, seconds: float) -> float:
        """Return the traffic from the sandbox's start on, in seconds of the mean.

        Args:
            seconds: Since the sandbox's start; negative before it, when there was the wave too.
        """
        angle = 2 * pi * seconds / _WAVE_S + self.phase
        wave = self.depth * _WAVE_S / (2 * pi) * (cos(self.phase) - cos(angle))
        return seconds + wave + self._bursts(seconds) - self._bursts(0.0)

    def _bursts(self, seconds: float) -> float:
        whole, part = divmod(seconds + self.burst_phase_s, self.burst_every_s)
        return self.burst * (whole * _BURST_S + min(part, _BURST_S))


STEADY: Final = Rhythm()


def rhythms(tables: int, seed: int) -> tuple[Rhythm, ...]:
    """Return one rhythm a table; every third one has bursts."""
    rng = np.random.default_rng([seed, 1])
    found = []
    for table in range(tables):
        every_s = float(rng.uniform(*_BURST_EVERY_S))
        found.append(
            Rhythm(
                depth=float(rng.uniform(*_DEPTH)),
                phase=float(rng.uniform(0, 2 * pi)),
                burst=_BURST_FACTOR if table % 3 == 0 else 0.0,
                burst_every_s=every_s,
                burst_phase_s=float(rng.uniform(_BURST_S, every_s)),
            )
        )
    return tuple(found)
