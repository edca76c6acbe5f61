"""What every pattern reads of a cluster, and the candidates that it yields."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from core.arrays import Floats, column_values
from core.diagnosis.model import Outcome
from core.diagnosis.pulsar.trials import NOTHING, Change, Trials
from core.findings.measures import Spread
from core.pulsar.explain import Explanation
from core.pulsar.load import percent_usage, usage_sources
from core.pulsar.measures import cluster_target, measure
from core.pulsar.owners import unserved_rows
from core.pulsar.plausibility import plausible_brokers
from core.pulsar.settings import EffectiveSettings, effective_settings
from core.pulsar.shedding.registry import AnyStrategy, active_shedding_strategy
from core.pulsar.view import LoadView
from core.snapshot import PulsarSnapshot

IDLE_RATIO: Final = 0.1
"""A broker with less than this share of the mean traffic counts as idle."""

MIN_USAGE_GAP_POINTS: Final = 10.0
"""Below this distance between the busiest and the idlest broker, uneven traffic does no harm."""

SPOILED_RATIO: Final = 0.1
"""By so much of the mean moves have to raise the deviation: less is chance."""

FOLLOWS_LOAD: Final = ("cpu", "bandwidth_in", "bandwidth_out")
"""Resources whose use rises and falls with the traffic of a broker."""


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A possible cause: what speaks for it, and the changes that would prove it.

    Attributes:
        code: Stable word of the pattern.
        keys: Settings concerned, the deciding one first.
        objects: Brokers, bundles or policies concerned.
        summary: The cause in one short sentence, with the numbers that speak for it.
        changes: Each by itself would remove it; the nearest to the present first.
        hint: What to do, where a change of data stands for it; blank: set what the change sets.
        lines: Configuration lines that do what a change of data stands for.
        measured: The value that decides; ``None`` if no number does.
        threshold: What it is compared with.
        unit: Of both.
        tier: 0 where the snapshot shows it at work; higher: only its trial speaks for it; lower:
            without its change no other has an effect.
        calm_suffices: It helps where the cluster converges, even or not.
    """

    code: str
    keys: tuple[str, ...] = ()
    objects: tuple[str, ...] = ()
    summary: str
    changes: tuple[Change, ...]
    hint: str = ""
    lines: tuple[str, ...] = ()
    measured: float | None = None
    threshold: float | None = None
    unit: str = ""
    tier: int = 0
    calm_suffices: bool = False


@dataclass(frozen=True, eq=False)
class DiagnosisContext:
    """One cluster, read once.

    Attributes:
        trials: Simulations of changes, the cluster as it is among them.
    """

    trials: Trials

    @property
    def snapshot(self) -> PulsarSnapshot:
        """The cluster."""
        return self.trials.snapshot

    @property
    def settings(self) -> EffectiveSettings:
        """The active settings."""
        return self.trials.settings

    @property
    def target_ratio(self) -> float:
        """Deviation from the mean that is even enough, of this cluster."""
        return cluster_target(self.snapshot.manifest).bound

    @cached_property
    def strategy(self) -> AnyStrategy:
        """The active shedding strategy."""
        return active_shedding_strategy(self.snapshot.manifest.load_manager, self.settings)

    @cached_property
    def view(self) -> LoadView:
        """The load as kernels see it."""
        return LoadView.of(self.snapshot, self.settings)

    @cached_property
    def explanation(self) -> Explanation:
        """The next round, explained."""
        return Explanation(
            self.view,
            self.settings,
            lambda assumed: effective_settings(self.snapshot, overrides=assumed),
        )

    @cached_property
    def base(self) -> Change:
        """Switches that must be enabled before any other change has an effect."""
        off = self.settings.shedding_off
        return Change(settings=dict.fromkeys(off, True)) if off else NOTHING

    @cached_property
    def end(self) -> Outcome:
        """End state of the balancer with shedding enabled."""
        trial = None if self.base is NOTHING else self.trials.trial(self.base)
        return (trial or self.trials.baseline).outcome

    def reads(self) -> frozenset[str]:
        """Return the settings that decide anything on this cluster, shedding switched on."""
        trial = self.trials.trial(self.base) if self.base is not NOTHING else self.trials.baseline
        return trial.reads if trial is not None else frozenset()

    @property
    def is_idle(self) -> bool:
        """Whether the balancer makes no moves."""
        return not self.end.moves

    @cached_property
    def load(self) -> Spread:
        """Current load measure."""
        return measure(self.snapshot, self.settings).of(self.trials.judged_by)

    @cached_property
    def end_load(self) -> Spread:
        """Load measure after balancing."""
        done = self.trials.baseline.simulation
        return (
            self.load
            if done is None
            else measure(done.final, self.settings).of(self.trials.judged_by)
        )

    @cached_property
    def idle_brokers(self) -> tuple[str, ...]:
        """Brokers that carry next to nothing when the balancer is done."""
        spread = self.end_load
        mean = spread.mean
        if not mean:
            return ()
        rows = np.flatnonzero(spread.known & (spread.values < IDLE_RATIO * mean))
        return tuple(spread.brokers[row] for row in rows)

    @cached_property
    def busiest(self) -> str:
        """The broker with the most load; blank: none is known."""
        values = np.where(self.load.known, self.load.values, -np.inf)
        return self.load.brokers[int(values.argmax())] if values.size else ""

    def usage_source(self, broker: str) -> str:
        """Return the resource, weight and value behind the usage of a broker; blank: unknown."""
        brokers = self.snapshot.brokers
        row: int = brokers["broker"].to_pylist().index(broker)
        return usage_sources(brokers, self.settings)[row]

    def percent(self, resource: str) -> Floats:
        """Return the usage of one resource by broker, percent; NaN where unknown."""
        return _percent(self.snapshot.brokers, resource)

    @cached_property
    def real_usage(self) -> Floats:
        """The largest usage of a resource that follows the load, by broker, percent."""
        return _real_usage(self.snapshot)

    @cached_property
    def real_usage_at_end(self) -> Floats:
        """The same when the balancer is done."""
        done = self.trials.baseline.simulation
        return self.real_usage if done is None else _real_usage(done.final)

    @cached_property
    def network_is_measured(self) -> bool:
        """Whether any broker reports its network limit."""
        limits = column_values(self.snapshot.brokers, "bandwidth_out_limit")
        return bool((np.nan_to_num(limits) > 0).any())

    def unserved_rows(self, state: str) -> NDArray[np.int64]:
        """Return the rows of the bundles in one state of ownership."""
        return unserved_rows(self.snapshot, self.settings, (state,))

    @cached_property
    def spoils(self) -> bool:
        """Whether the moves of the balancer increase the deviation."""
        baseline = self.trials.baseline
        now, end = self.trials.pools.deviation(self.load), baseline.outcome.deviation
        if not baseline.outcome.moves or baseline.is_cut_short or now is None or end is None:
            return False
        return end > now + SPOILED_RATIO

    @cached_property
    def hurts(self) -> bool:
        """Whether usage differs enough between brokers to matter, now or at the end.

        Without a limit of the network its usage is unknown, and uneven traffic may matter.
        """
        if not self.network_is_measured:
            return True
        return any(_gap(usage) >= MIN_USAGE_GAP_POINTS for usage in self._usages())

    def _usages(self) -> Iterator[Floats]:
        yield self.real_usage
        yield self.real_usage_at_end


def _gap(usage: Floats) -> float:
    known = usage[np.isfinite(usage)]
    return float(known.max() - known.min()) if known.size > 1 else 0.0


def _percent(brokers: pa.Table, resource: str) -> Floats:
    usage = column_values(brokers, f"{resource}_usage")
    limit = column_values(brokers, f"{resource}_limit")
    return np.where(np.isfinite(usage), percent_usage(usage, limit).astype(np.float64), np.nan)


def _real_usage(snapshot: PulsarSnapshot) -> Floats:
    brokers = plausible_brokers(snapshot.brokers)
    columns = np.stack([_percent(brokers, name) for name in FOLLOWS_LOAD])
    known = np.isfinite(columns).any(axis=0)
    return np.where(known, np.nan_to_num(columns, nan=-1.0).max(axis=0), np.nan)


Pattern = Callable[[DiagnosisContext], Iterator[Candidate]]
"""Reads the cluster, and yields what may be its trouble."""


def with_setting(context: DiagnosisContext, key: str, *values: object) -> tuple[Change, ...]:
    """Return the changes of one setting to some values."""
    return tuple(context.base.also(Change(settings={key: value})) for value in values)
