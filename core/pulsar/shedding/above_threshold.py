"""What OverloadShedder and ThresholdShedder share: brokers above a threshold give traffic away.

A broker at or above the threshold gives away its own throughput times its distance to it plus a
margin; its biggest bundles go first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from core.pulsar.bundle_counts import Ints
from core.pulsar.java.maps import hash_map_order
from core.pulsar.shedding.basis import SheddingBasis
from core.pulsar.shedding.gates import at_least, distance_in_words, missing_reports
from core.pulsar.shedding.model import BrokerTrace, Decision, Gate, Move, Reason
from core.pulsar.shedding.picking import biggest_gate
from core.pulsar.shedding.selection import candidates_of, pick_until
from core.pulsar.view import Flags, Floats
from core.units import format_bytes_per_s, format_ratio, pluralize

EXTRA_MARGIN_RATIO: Final = 0.05
"""Unloaded beyond the threshold, so that the broker does not end exactly on it."""


def throughput_to_shed(
    usage: Floats, throughput: Floats, *, threshold: float, slack: float
) -> Floats:
    """Return the amount that each broker would shed if it were above the threshold.

    Args:
        usage: Shape ``(n_brokers,)``, ratio.
        throughput: Same shape, bytes/s, in + out.
        threshold: Average or limit, ratio.
        slack: Added to the threshold, ratio; taken off in a step of its own, as upstream does.
    Returns:
        Shape ``(n_brokers,)``, bytes/s; below zero for brokers far below the threshold.
    Source:
        Pulsar ``ThresholdShedder``, ``OverloadShedder``: ``percentOfTrafficToOffload``.
    """
    return throughput * (usage - threshold - slack + EXTRA_MARGIN_RATIO)


@dataclass(frozen=True, eq=False)
class ThresholdTrial:
    """One round of brokers against a threshold; arrays are in the order of ``basis.brokers``.

    Attributes:
        basis: The cluster.
        recent: Bundles in their grace period, per row; ``None`` if none.
        usage: Ratio, compared with the threshold.
        threshold: Ratio; a broker exactly on it sheds.
        threshold_label: What the threshold is.
        needed: bytes/s to give away.
        minimum: bytes/s, less is not worth an unload; minus infinity: no such bound.
        max_sources: Brokers that shed at once in any round before: Java's map does not shrink.
    """

    basis: SheddingBasis
    recent: Flags | None
    usage: Floats
    threshold: float
    threshold_label: str
    needed: Floats
    minimum: float
    max_sources: int = 0

    @property
    def is_over(self) -> Flags:
        """Brokers at or above the threshold."""
        return self.usage >= self.threshold

    @property
    def is_enough(self) -> Flags:
        """Brokers whose amount is worth an unload."""
        return ~(self.needed < self.minimum)

    def rows_of(self, position: int) -> Ints:
        """Return the bundles that a broker gives away, in picking order."""
        broker = int(self.basis.brokers[position])
        return pick_biggest(self.basis, broker, self.recent, float(self.needed[position]))

    def moves(self) -> tuple[Move, ...]:
        """Return all moves, brokers in the order of the real class's answer."""
        counts = self.basis.bundle_counts[self.basis.brokers]
        wanted = np.flatnonzero(self.is_over & self.is_enough & (counts > 1))
        picked = {int(position): self.rows_of(int(position)) for position in wanted}
        return moves_of(self.basis, picked, max_sources=self.max_sources)

    def pick(self, bundle: str) -> Gate | None:
        """Return whether a bundle is selected on its broker."""
        row = self.basis.view.bundle_row(bundle)
        at = np.flatnonzero(self.basis.brokers == self.basis.view.reporter[row])
        if not at.size:
            return None
        return biggest_gate(self.basis, row, self.recent, float(self.needed[at[0]]))

    def decision(self, name: str, moves: tuple[Move, ...]) -> Decision:
        """Return the decision with its reason."""
        return Decision(
            label="success" if moves else "skip",
            reason="overloaded" if moves else self._reason(),
            moves=moves,
            sentence=self._sentence(name, moves),
            explain=self.trace,
            pick=self.pick,
            notes=missing_reports(self.basis),
        )

    def _reason(self) -> Reason:
        if not self.basis.brokers.size:
            return "no_load_data"
        if not self.is_over.any():
            return "balanced"
        return "no_bundles" if (self.is_over & self.is_enough).any() else "too_small"

    def _sentence(self, name: str, moves: tuple[Move, ...]) -> str:
        if moves:
            sources = source_count(moves)
            return (
                f"{name} unloads {pluralize(len(moves), 'bundle')} from "
                f"{pluralize(sources, 'broker')} over {self.threshold_label}."
            )
        if not self.basis.brokers.size:
            return "Nothing to unload: the load of every broker is unknown."
        top = int(np.argmax(self.usage))
        busiest = self.basis.view.brokers[self.basis.brokers[top]]
        head = f"Nothing to unload: the busiest broker {busiest} is at"
        gap = distance_in_words(self.threshold - self.usage[top], "ratio")
        if not self.is_over.any():
            return f"{head} {format_ratio(self.usage[top])}, {gap} below {self.threshold_label}."
        over = int(np.count_nonzero(self.is_over))
        which = f"{pluralize(over, 'broker')} above {self.threshold_label}"
        head = f"Nothing to unload: {which};"
        if self._reason() == "no_bundles":
            return f"{head} they have no bundle to shed."
        largest = format_bytes_per_s(float(self.needed[self.is_over].max()))
        least = format_bytes_per_s(self.minimum)
        return f"{head} their max amount is {largest}, the minimum is {least}."

    def trace(self) -> tuple[BrokerTrace, ...]:
        """Return the gates of every broker."""
        return tuple(self._broker_trace(position) for position in range(self.basis.brokers.size))

    def _broker_trace(self, position: int) -> BrokerTrace:
        broker = int(self.basis.brokers[position])
        name = self.basis.view.brokers[broker]
        gates = self._gates(position, broker)
        if not gates[-1].is_open:
            return BrokerTrace(broker=name, sheds=False, gates=gates, sentence=gates[-1].sentence)
        rows = self.rows_of(position)
        given = float(self.basis.view.bundle_short_throughput[rows].sum())
        return BrokerTrace(
            broker=name,
            sheds=True,
            gates=gates,
            sentence=(
                f"sheds {pluralize(rows.size, 'bundle')} of {format_bytes_per_s(given)} "
                f"(needed: {format_bytes_per_s(float(self.needed[position]))})"
            ),
        )

    def _gates(self, position: int, broker: int) -> tuple[Gate, ...]:
        gates = [at_least("usage", float(self.usage[position]), self.threshold, "ratio")]
        if gates[-1].is_open and np.isfinite(self.minimum):
            needed = float(self.needed[position])
            gates.append(at_least("amount to shed", needed, self.minimum, "bytes/s"))
        if gates[-1].is_open:
            gates.extend(bundle_gates(self.basis, broker, self.recent))
        return tuple(gates)


def source_count(moves: tuple[Move, ...]) -> int:
    """Return from how many brokers the moves are."""
    return len({move.broker for move in moves})


def bundle_gates(basis: SheddingBasis, broker: int, recent: Flags | None) -> list[Gate]:
    """Return the gates on what a broker has to give: more than one bundle, one of them free."""
    gates = [at_least("reported", float(basis.bundle_counts[broker]), 2.0, "bundles")]
    if gates[-1].is_open:
        free = candidates_of(basis, broker, recent).size
        gates.append(at_least("movable and not recently unloaded:", float(free), 1.0, "bundles"))
    return gates


def pick_biggest(basis: SheddingBasis, broker: int, recent: Flags | None, needed: float) -> Ints:
    """Return the bundles of a broker that together carry ``needed`` bytes/s, biggest first."""
    rows = candidates_of(basis, broker, recent)
    return pick_until(basis, rows, basis.view.bundle_short_throughput[rows], needed)


def moves_of(
    basis: SheddingBasis,
    picked: dict[int, Ints],
    destinations: dict[int, int] | None = None,
    *,
    max_sources: int = 0,
) -> tuple[Move, ...]:
    """Return the moves of ``{position in basis.brokers: bundle rows}``.

    Args:
        basis: The cluster.
        picked: Bundles of each shedding broker, in picking order.
        destinations: Position to position, where the strategy itself names one.
        max_sources: See :attr:`LineTrial.max_sources`.

    Source:
        Guava ``ArrayListMultimap``, the real classes' answer: brokers come in hash order.
    """
    positions = np.array([position for position, rows in picked.items() if rows.size], np.int64)
    ordered = positions[hash_map_order(basis.broker_spread[positions], max_sources)].tolist()
    view = basis.view
    moves: list[Move] = []
    for position in ordered:
        broker = view.brokers[basis.brokers[position]]
        to = destinations.get(position) if destinations else None
        destination = None if to is None else view.brokers[basis.brokers[to]]
        names = view.bundles[picked[position]].tolist()
        moves.extend(Move(broker, name, destination) for name in names)
    return tuple(moves)
