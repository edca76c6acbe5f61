"""How good a run was, and what really happened, scored by the same rules.

How uneven the nodes were, how many operations there were, and how much was copied.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from core.history.backtest.model import DEVIATION_BOUND
from core.history.backtest.pegasus.engine import OPERATIONS, BacktestStep, SimulatedMinute
from core.history.backtest.pegasus.tape import Floats, PegasusTape
from core.pegasus.view import NO_NODE, Flags, Ints

_PRIMARY_KINDS: Final = ("move_primary", "copy_primary")


@dataclass(frozen=True)
class MinuteScore:
    """One minute.

    Attributes:
        deviation: Max deviation of a live node from the mean traffic, share of the mean;
            ``None`` if no node lives.
        max_deviation_node: The node of ``deviation``, or ``NO_NODE``.
        node_count: Living nodes.
        operations: What the balancer did since the minute before.
        moved_rate: Requests/s of the partitions that it did it with.
    """

    deviation: float | None
    max_deviation_node: int
    node_count: int
    operations: int
    moved_rate: float


@dataclass(frozen=True)
class Evenness:
    """Evenness of replicas over live nodes.

    Attributes:
        primary_stddev: Of primaries by node, all tables together.
        replica_stddev: The same of replicas.
        primary_gap: Most less fewest primaries of a node, in the table where that is largest.
        replica_gap: The same of replicas.
    """

    primary_stddev: float
    replica_stddev: float
    primary_gap: int
    replica_gap: int

    @classmethod
    def of(cls, tape: PegasusTape, members: Ints, number: int) -> Evenness:
        """Measure a minute."""
        alive = tape.is_alive[number]
        led = _counts(tape, members[:, :1])[:, alive]
        held = _counts(tape, members)[:, alive]
        if not led.size:
            return cls(0.0, 0.0, 0, 0)
        return cls(
            primary_stddev=float(led.sum(axis=0).std()),
            replica_stddev=float(held.sum(axis=0).std()),
            primary_gap=int((led.max(axis=1) - led.min(axis=1)).max()),
            replica_gap=int((held.max(axis=1) - held.min(axis=1)).max()),
        )


def _counts(tape: PegasusTape, members: Ints) -> Ints:
    rows, roles = np.nonzero(members != NO_NODE)
    shape = tape.start.table_count, len(tape.start.nodes)
    at = tape.start.table_of_row[rows].astype(np.int64) * shape[1] + members[rows, roles]
    return np.bincount(at, minlength=shape[0] * shape[1]).reshape(shape).astype(np.int32)


@dataclass(frozen=True)
class PegasusScore:
    """A whole run.

    Attributes:
        minutes: One a recorded minute.
        steps: What happened, each with the number of the minute at which it was seen first.
        ping_pongs: Roles that came back to a node that they had left.
        headless_s: Seconds without primary, summed over partitions.
        evenness: Mean over minutes, by the names of :class:`Evenness`.
        evenness_at_end: At the last minute.
    """

    minutes: tuple[MinuteScore, ...]
    steps: tuple[tuple[int, BacktestStep], ...]
    ping_pongs: int
    headless_s: float
    evenness: dict[str, float]
    evenness_at_end: Evenness

    @property
    def deviations(self) -> Floats:
        """Known deviations of the minutes."""
        return np.array([one.deviation for one in self.minutes if one.deviation is not None])

    @property
    def minutes_over(self) -> int:
        """Minutes with a node too far from the mean."""
        return int((self.deviations > DEVIATION_BOUND).sum())

    @property
    def counts(self) -> Counter[str]:
        """Steps by kind."""
        return Counter(step.kind for _, step in self.steps)

    @property
    def operations(self) -> int:
        """Steps of the balancer."""
        return sum(self.counts[kind] for kind in OPERATIONS)

    def copied_mb(self, *, by_balancer: bool) -> float:
        """Return the amount copied by the balancer and by repairs."""
        return math.fsum(
            step.copied_mb for _, step in self.steps if (step.kind in OPERATIONS) is by_balancer
        )


@dataclass
class _Tally:
    """Sums over the minutes."""

    tape: PegasusTape
    minutes: list[MinuteScore] = field(default_factory=list)
    steps: list[tuple[int, BacktestStep]] = field(default_factory=list)
    left: set[tuple[int, bool, int]] = field(default_factory=set)
    ping_pongs: int = 0
    headless_s: float = 0.0
    sums: Counter[str] = field(default_factory=Counter)
    evenness: Evenness = Evenness(0.0, 0.0, 0, 0)
    measured: tuple[int, bytes] | None = None

    def take(self, minute: SimulatedMinute) -> None:
        tape, number = self.tape, minute.number
        alive = tape.is_alive[number]
        rates = tape.node_rates(minute.members, number)
        deviation, node = _max_deviation(rates, alive)
        acts = [step for step in minute.steps if step.kind in OPERATIONS]
        rows = [step.row for step in acts]
        moved = float((tape.reads[number, rows] + tape.writes[number, rows]).sum(dtype=np.float64))
        count = int(alive.sum())
        self.minutes.append(MinuteScore(deviation, node, count, len(acts), moved))
        self.steps += [(number, step) for step in minute.steps]
        self.ping_pongs += sum(map(self._is_back, acts))
        self.headless_s += minute.headless_s
        key = (minute.version, alive.tobytes())
        if key != self.measured:
            self.measured = key
            self.evenness = Evenness.of(tape, minute.members, number)
        for name, value in vars(self.evenness).items():
            self.sums[name] += value

    def _is_back(self, step: BacktestStep) -> bool:
        is_primary = step.kind in _PRIMARY_KINDS
        is_back = (step.row, is_primary, step.target) in self.left
        self.left.discard((step.row, is_primary, step.target))
        self.left.add((step.row, is_primary, step.source))
        return is_back


def score_run(tape: PegasusTape, minutes: Iterable[SimulatedMinute]) -> PegasusScore:
    """Return the score of a run.

    Args:
        tape: The record that it was simulated on.
        minutes: Every minute of it.
    """
    tally = _Tally(tape)
    for minute in minutes:
        tally.take(minute)
    count = max(len(tally.minutes), 1)
    return PegasusScore(
        minutes=tuple(tally.minutes),
        steps=tuple(tally.steps),
        ping_pongs=tally.ping_pongs,
        headless_s=tally.headless_s,
        evenness={name: total / count for name, total in tally.sums.items()},
        evenness_at_end=tally.evenness,
    )


def _max_deviation(
    rates: Floats, alive: np.ndarray[tuple[int], np.dtype[np.bool_]]
) -> tuple[float | None, int]:
    living = np.nonzero(alive)[0]
    if not len(living):
        return None, NO_NODE
    values = rates[living]
    mean = float(values.mean())
    if mean == 0:
        return 0.0, int(living[0])
    distances = np.abs(values - mean) / mean
    worst = int(distances.argmax())
    return float(distances[worst]), int(living[worst])


def recorded_minutes(tape: PegasusTape, *, minute_s: float = 60.0) -> Iterator[SimulatedMinute]:
    """Give the record's own minutes.

    What happened between two minutes is seen by comparing them: a role that changed while both
    nodes live was moved or copied; what a dead node lost, and what an ill partition got, is repair.

    Args:
        tape: The record.
        minute_s: Seconds of the record that count as a minute of the cluster.
    """
    members = tape.start.members.copy()
    version = 0
    yield SimulatedMinute(0, members, version, (), 0.0)
    for number in range(1, tape.minute_count):
        headless = int(((members[:, 0] == NO_NODE) & tape.exists[number - 1]).sum())
        change = tape.changes.get(number)
        steps: tuple[BacktestStep, ...] = ()
        if change is not None:
            before = members[change.rows]
            members = members.copy()
            members[change.rows] = change.members
            version += 1
            steps = tuple(_steps(tape, change.rows, before, change.members, number))
        elapsed_s = float(tape.at_ms[number] - tape.at_ms[number - 1]) / 1000 * 60 / minute_s
        yield SimulatedMinute(number, members, version, steps, headless * elapsed_s)


def _steps(
    tape: PegasusTape, rows: Ints, before: Ints, after: Ints, number: int
) -> Iterator[BacktestStep]:
    alive = tape.is_alive[number]
    there = tape.exists[number] & tape.exists[number - 1]
    for row, was, now in zip(rows.tolist(), before.tolist(), after.tolist(), strict=True):
        if there[row]:
            yield from _steps_of(row, was, now, alive, float(tape.size_mb[row]))


def _steps_of(
    row: int, was: list[int], now: list[int], alive: Flags, size_mb: float
) -> Iterator[BacktestStep]:
    held = {node for node in was if node != NO_NODE}
    holds = {node for node in now if node != NO_NODE}
    gone = [node for node in was if node in held - holds]
    come = [node for node in now if node in holds - held]
    led, leads = was[0], now[0]
    left = [node for node in gone if alive[node]]
    if leads not in (led, NO_NODE):
        if led == NO_NODE or not alive[led]:
            yield BacktestStep(row, "fail_over", NO_NODE, leads)
        elif led in gone and leads in come:
            yield BacktestStep(row, "copy_primary", led, leads, size_mb)
            left.remove(led)
            come.remove(leads)
        else:
            yield BacktestStep(row, "move_primary", led, leads)
    for node in come:
        if left:
            yield BacktestStep(row, "copy_secondary", left.pop(0), node, size_mb)
        else:
            yield BacktestStep(row, "refill", NO_NODE, node, size_mb)
    for node in left:
        yield BacktestStep(row, "trim", node, NO_NODE)
