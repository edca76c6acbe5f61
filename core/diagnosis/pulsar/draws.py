"""Whether a change helps whatever is drawn: placement is random, one lucky run is no proof."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np

from core.diagnosis.model import MIN_GAIN_RATIO, Effect
from core.diagnosis.pulsar.trials import MANY_BUNDLES, Change, Trials

SEEDS: Final = tuple(range(2, 12))
"""Further seeds that a change is simulated with; the search itself has the first one."""

MIN_SEEDS: Final = 4
"""So many are simulated of each change, unless trials stop midway at the end of the time; further
ones while there is time for the search ..."""

_MIN_OF_MANY: Final = 1
"""... of a cluster with more bundles than :data:`MANY_BUNDLES`, so many."""

_OWN_BASELINES: Final = 3
"""So many seeds are compared with the cluster as it is under the same seed, none of a large
cluster; the others with the best of these and the first one."""

_MARGIN: Final = 3.0
"""Standard deviations between the mean outcome and one that is harmful."""


@dataclass(eq=False)
class SeedTrials:
    """Simulations of changes with further seeds.

    Attributes:
        trials: With the first seed; their time limit counts.
    """

    trials: Trials
    _others: dict[int, Trials] = field(default_factory=dict)
    _confirmed: dict[tuple[object, ...], bool] = field(default_factory=dict)
    _hasty: set[tuple[object, ...]] = field(default_factory=set)

    @property
    def refuted(self) -> int:
        """Changes that help with the first seed only."""
        return sum(not is_confirmed for is_confirmed in self._confirmed.values())

    def is_hasty(self, change: Change) -> bool:
        """Return whether the time limit was reached before enough seeds confirmed a change."""
        return change.key in self._hasty

    def _must_stop(self) -> bool:
        return self.trials.stops_midway and self.trials.is_time_over

    @property
    def _is_large(self) -> bool:
        return bool(self.trials.snapshot.bundles.num_rows > MANY_BUNDLES)

    def confirm(self, change: Change) -> bool:
        """Return whether a change that converges with the first seed is no worse with the others.

        Outcomes that scatter so widely that a further seed may end less even count as harmful.
        """
        if change.key not in self._confirmed:
            first = self.trials.effect(change)
            is_drawn = first is None or not first.is_more_complete or first.is_harmful
            # who serves a bundle is no matter of the draws
            self._confirmed[change.key] = self._is_confirmed(change) if is_drawn else True
        return self._confirmed[change.key]

    def _is_confirmed(self, change: Change) -> bool:
        first = self.trials.effect(change)
        if first is None or first.is_harmful:
            return False
        effects = [first]
        required = _MIN_OF_MANY if self._is_large else MIN_SEEDS
        for seed in SEEDS:
            if self.trials.is_search_over and len(effects) > required:
                break
            if self._must_stop():
                break
            others = self._trials_of(seed)
            effect = others.effect(change)
            if not others.known(change):
                break  # the time limit says nothing against the change
            if effect is None or effect.is_worse or others.spoils_traffic(change):
                return False
            effects.append(effect)
        if len(effects) <= required:
            self._hasty.add(change.key)
        return _is_steady(effects)

    def _trials_of(self, seed: int) -> Trials:
        if seed not in self._others:
            own = 0 if self._is_large else _OWN_BASELINES
            compared = None if len(self._others) < own else self._best_baseline()
            self._others[seed] = self.trials.with_seed(seed, compared_with=compared)
        return self._others[seed]

    def _best_baseline(self) -> Trials:
        """Return the trials of the seed under which the unchanged cluster ends best."""
        own = 0 if self._is_large else _OWN_BASELINES
        known = [self.trials, *list(self._others.values())[:own]]
        return min(known, key=_end_of_baseline)


def _end_of_baseline(trials: Trials) -> tuple[bool, float]:
    outcome = trials.baseline.outcome
    return (not outcome.converges, outcome.deviation or 0.0)


def _is_steady(effects: list[Effect]) -> bool:
    """Return whether the margin to harm exceeds the scatter of the outcomes."""
    gains = np.array([one.gain for one in effects])
    return bool(gains.mean() - _MARGIN * gains.std() >= -MIN_GAIN_RATIO)
