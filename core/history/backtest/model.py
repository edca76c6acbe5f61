"""What a back-test is made of: candidates, windows, targets, and the units of work they make.

A unit is one cluster, one window of its record, one candidate and one seed. Units know nothing of
each other: they run in any order and anywhere, and their tables are put together afterwards.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from core.errors import InputError
from core.units import datetime_to_ms, pluralize

RECORDED: Final = "recorded"
"""In place of a strategy: the one that the record's own settings name."""

NO_SHEDDING: Final = "none"
"""How a grid and the result tables write a candidate that sheds nothing."""

OPTIMIZER: Final = "Optimizer"
"""In place of a strategy: the optimizer's plan, applied whenever a round is due. No setting of a
cluster makes it so: it is never recommended as one."""

AS_RECORDED: Final = "as recorded"
"""Label of what really happened."""

REPLAYED: Final = "recorded settings, replayed"
"""Label of the candidate that others are compared with: model with model, not with reality."""

MOST_UNITS: Final = 100_000
"""More runs than this are refused: their ranking is of no use."""

DEVIATION_BOUND: Final = 0.2
"""Minutes with a node farther than this from the mean traffic are counted in every run."""


MINUTES_PER_DAY: Final = 1440.0

_WITHOUT_SHEDDING: Final = "no shedding"
_SEPARATOR: Final = " · "


def is_without_shedding(label: str) -> bool:
    """Return whether a candidate of this label disables shedding."""
    return label.partition(_SEPARATOR)[0] == _WITHOUT_SHEDDING


def covered_minutes(minutes: NDArray[Any]) -> float:
    """Return the time that the recorded minutes of a window stand for, in minutes.

    Each stands for the time until the next: a record of every other minute covers as much as one
    of every minute. A window has no gap: where the record has one, another window begins.

    Args:
        minutes: Shape ``(T,)``, when, in minutes from any moment, rising.
    """
    if len(minutes) <= 1:
        return float(len(minutes))
    return float(minutes[-1] - minutes[0] + np.median(np.diff(minutes)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Target of a back-test.

    Attributes:
        name: In a word.
        deviation: Farthest distance of a node's traffic from the mean that is allowed, share of the
            mean; held against the 95th percentile of the minutes.
        unloads_per_day: Unloads a day that are allowed, all nodes together.
    """

    name: str
    deviation: float
    unloads_per_day: float


TARGETS: Final[Mapping[str, Target]] = {
    "vivo": Target(name="vivo", deviation=0.2, unloads_per_day=10.0),
    "pegasus": Target(name="pegasus", deviation=0.1, unloads_per_day=100_000.0),
}
"""Targets by name. vivo: what a large operator of Pulsar reported to have reached. pegasus: as
even; a new primary copies nothing, so about one move a second is allowed: evenness decides."""


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """One configuration of the balancer.

    Attributes:
        shedding: Class name, :data:`RECORDED`, or ``None`` if nothing is shed.
        placement: Class name; ``None`` for the recorded one.
        settings: Upstream key to value, on top of the recorded ones.
        policy: Of a Pegasus cluster: ``app`` or ``cluster``; ``None`` if not such a cluster.
        is_record: This is what really happened; everything else is empty then.
    """

    shedding: str | None = RECORDED
    placement: str | None = None
    settings: Mapping[str, object] = field(default_factory=dict)
    policy: str | None = None
    is_record: bool = False

    @property
    def label(self) -> str:
        """The candidate in one line; the same for equal candidates only."""
        if self.is_record:
            return AS_RECORDED
        shedding = _WITHOUT_SHEDDING if self.shedding is None else self.shedding
        parts = [f"{self.policy} policy" if self.policy else shedding.replace(RECORDED, "")]
        if not self.policy:
            parts += [f"placement {self.placement}"] if self.placement else []
        parts += [f"{key}={json.dumps(value)}" for key, value in sorted(self.settings.items())]
        return _SEPARATOR.join(part for part in parts if part) or REPLAYED

    def as_json(self) -> dict[str, object]:
        """Return it as JSON values; :meth:`from_json` reads them."""
        return {
            "shedding": NO_SHEDDING if self.shedding is None else self.shedding,
            "placement": self.placement,
            "settings": {key: _plain(value) for key, value in self.settings.items()},
            "policy": self.policy,
            "is_record": self.is_record,
        }

    @classmethod
    def from_json(cls, values: Mapping[str, object]) -> Candidate:
        """Return the target from :meth:`as_json` output."""
        settings = values.get("settings") or {}
        shedding, placement, policy = (
            values.get(name) for name in ("shedding", "placement", "policy")
        )
        return cls(
            shedding=None if shedding in (None, NO_SHEDDING) else str(shedding),
            placement=None if placement is None else str(placement),
            settings=dict(settings) if isinstance(settings, Mapping) else {},
            policy=None if policy is None else str(policy),
            is_record=bool(values.get("is_record")),
        )


RECORD: Final = Candidate(is_record=True)
"""What really happened, scored like the others."""

AGAIN: Final = Candidate()
"""The recorded settings, replayed: how far it is from the record is how far the model is off."""

Stretch = tuple[datetime, datetime]
"""From the first moment to the first one that belongs no more to it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """A stretch of a record that is simulated in one go.

    Attributes:
        number: From 0, oldest first.
        start: First moment.
        end: Last moment; minutes at this very moment belong to the next window.
    """

    number: int
    start: datetime
    end: datetime


@dataclass(frozen=True, kw_only=True)
class Unit:
    """One run.

    Attributes:
        cluster: Whose record.
        window: Which part of it.
        candidate: What is simulated.
        candidate_number: Its place in the grid; 0: as recorded.
        seed: Everything drawn at random follows from it.
        minute_s: Seconds of the record that count as a minute of the cluster.
    """

    cluster: str
    window: Window
    candidate: Candidate
    candidate_number: int
    seed: int
    minute_s: float = 60.0


@dataclass(frozen=True, kw_only=True)
class Grid:
    """Everything that a back-test tries.

    Attributes:
        clusters: Names; ``None`` for all that are recorded.
        start: First moment of the record that counts; ``None`` for its start.
        end: Last moment; ``None`` for its end.
        shedding: Class names, :data:`RECORDED`, ``None`` if no shedding.
        placement: Class names, ``None`` for the recorded one.
        settings: Values to try by upstream key.
        policies: Of Pegasus clusters.
        switches: Values to try by name, of Pegasus clusters.
        seeds: One run each.
        window_minutes: Length of a window in minutes of the cluster.
        target: What is good enough.
        minute_s: Seconds of the record that count as a minute of the cluster.
    """

    clusters: tuple[str, ...] | None = None
    start: datetime | None = None
    end: datetime | None = None
    shedding: tuple[str | None, ...] = (RECORDED,)
    placement: tuple[str | None, ...] = (None,)
    settings: Mapping[str, tuple[object, ...]] = field(default_factory=dict)
    policies: tuple[str, ...] = ()
    switches: Mapping[str, tuple[object, ...]] = field(default_factory=dict)
    seeds: tuple[int, ...] = (1, 2, 3)
    window_minutes: int = 360
    target: Target = TARGETS["vivo"]
    minute_s: float = 60.0

    def windows(
        self, start: datetime, end: datetime, stretches: Sequence[Stretch] | None = None
    ) -> tuple[Window, ...]:
        """Return the windows of a record, oldest first; the last one may be shorter.

        Args:
            start: First recorded minute.
            end: Last recorded minute.
            stretches: What is simulated without a break, oldest first; ``None`` for all of it.
        """
        length = timedelta(seconds=self.window_minutes * self.minute_s)
        whole = ((start, end + timedelta(seconds=self.minute_s)),)
        windows: list[Window] = []
        for begins, ends in whole if stretches is None else stretches:
            first = max(begins, self.start) if self.start else begins
            last = min(ends, self.end) if self.end else ends
            while first < last:
                until = min(first + length, last)
                windows.append(Window(number=len(windows), start=first, end=until))
                first = until
        return tuple(windows)


def backtest_units(
    grid: Grid,
    spans: Mapping[str, tuple[datetime, datetime]],
    candidates: tuple[Candidate, ...],
    stretches: Mapping[str, Sequence[Stretch]] | None = None,
) -> tuple[Unit, ...]:
    """Return every run of a grid: by cluster, window, candidate and seed, in this order.

    What really happened is one run a window, whatever the seeds.

    Args:
        grid: What is tried.
        spans: First and last recorded minute of each recorded cluster.
        candidates: What really happened first.
        stretches: What is simulated of a cluster without a break; without: all of it.
    Raises:
        InputError: A cluster without a record, no recorded minute in the range, or too many runs.
    """
    units = tuple(_units(grid, spans, candidates, stretches or {}))
    if not units:
        raise InputError(
            "No recorded minute is in the range of the grid.",
            hint="Choose a recorded range, or omit `from` and `to`.",
        )
    if len(units) > MOST_UNITS:
        raise InputError(
            f"The grid has {pluralize(len(units), 'run')}; the maximum is {MOST_UNITS:,}.",
            hint="Use fewer setting values, fewer seeds or longer windows.",
        )
    return units


def _units(
    grid: Grid,
    spans: Mapping[str, tuple[datetime, datetime]],
    candidates: tuple[Candidate, ...],
    stretches: Mapping[str, Sequence[Stretch]],
) -> Iterator[Unit]:
    for cluster in sorted(spans) if grid.clusters is None else grid.clusters:
        if cluster not in spans:
            raise InputError(
                f"No history of cluster {cluster!r} is recorded.",
                hint=f"Recorded: {', '.join(sorted(spans)) or 'none'}.",
            )
        for window in grid.windows(*spans[cluster], stretches.get(cluster)):
            for number, candidate in enumerate(candidates):
                for seed in (0,) if candidate.is_record else grid.seeds:
                    yield Unit(
                        cluster=cluster,
                        window=window,
                        candidate=candidate,
                        candidate_number=number,
                        seed=seed,
                        minute_s=grid.minute_s,
                    )


def window_key(unit: Unit) -> tuple[str, int, int]:
    """Return the key shared by units that use the same recorded rows."""
    window = unit.window
    return unit.cluster, datetime_to_ms(window.start), datetime_to_ms(window.end)


def _plain(value: object) -> object:
    return list(value) if isinstance(value, tuple) else value
