"""Whether a broker that sheds picks one certain bundle: the last gate, with its numbers.

The same arithmetic as :mod:`core.pulsar.shedding.selection`, up to the turn of that bundle.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from core.pulsar.bundle_counts import Ints
from core.pulsar.shedding.basis import SheddingBasis
from core.pulsar.shedding.gates import in_words
from core.pulsar.shedding.model import Gate
from core.pulsar.shedding.selection import Spend, candidates_of, pick_within
from core.pulsar.view import Flags, Floats

_NAME: Final = "picked"
UNBOUNDED: Final = "the usage of both brokers is 0, so nothing limits the amount to shed"
"""Why all bundles go where the amount is NaN."""


@dataclass(frozen=True, eq=False)
class BundleRank:
    """Rank of one bundle among those of its broker.

    Attributes:
        ordered: Keys of all of them, falling.
        place: Its position.
        unit: Of the keys.
    """

    ordered: Floats
    place: int
    unit: str

    @classmethod
    def of(
        cls, basis: SheddingBasis, row: int, keyed: tuple[Ints, Floats], unit: str
    ) -> BundleRank | None:
        """Return its rank, or ``None`` if it is not a candidate.

        Args:
            basis: For the order of equal bundles.
            row: Of the bundle.
            keyed: Rows of the candidates, and their keys.
            unit: Of the keys.
        """
        rows, keys = keyed
        order = basis.falling(rows, keys)
        found = np.flatnonzero(rows[order] == row)
        return cls(keys[order], int(found[0]), unit) if found.size else None

    @property
    def key(self) -> float:
        """Load of the bundle itself."""
        return float(self.ordered[self.place])

    def until(self, needed: float) -> Gate:
        """Return the gate where the biggest go until an amount is reached, one at least."""
        before = float(np.cumsum(self.ordered)[self.place - 1]) if self.place else 0.0
        is_open = not self.place or before < needed
        amount, carried = in_words(needed, self.unit), in_words(before, self.unit)
        if not self.place:
            sentence = f"larger bundles go first, and {amount} is to be shed"
        elif is_open:
            sentence = f"larger bundles carry {carried}, and {amount} is to be shed"
        else:
            sentence = f"larger bundles already carry {carried}, and {amount} is to be shed"
        return _gate(needed, before, self.unit, sentence, is_open=is_open)

    def within(self, room: float, spend: Spend, *, limit: int, slack: float) -> Gate:
        """Return the gate where each that fits into what is left goes, biggest first."""
        picked = pick_within(self.ordered[: self.place], room, spend, limit=limit, slack=slack)
        for position in picked:
            room = spend(room, float(self.ordered[position]))
        if len(picked) >= limit:
            sentence = f"a round unloads at most {limit:,} bundles, and at least as many are larger"
            return _gate(0.0, 1.0, "bundles", sentence, is_open=False)
        left, own = in_words(room, self.unit), in_words(self.key, self.unit)
        return _gate(
            room + slack,
            self.key,
            self.unit,
            f"{left} is left to shed at its turn, and it carries {own}",
            is_open=self.key <= room + slack,
        )


def fact(sentence: str, *, is_open: bool = False) -> Gate:
    """Return a gate without numbers."""
    return _gate(math.nan, math.nan, "", sentence, is_open=is_open)


def fit(room: float, own: float, *, is_open: bool) -> Gate:
    """Return the gate of TransferShedder: what fits goes, and what a swap makes up for.

    Args:
        room: bytes/s still to go when its turn comes; NaN: no limit.
        own: bytes/s that the bundle carries.
        is_open: Whether it goes.
    """
    if math.isnan(room):
        return fact(UNBOUNDED, is_open=is_open)
    left, carried = in_words(room, "bytes/s"), in_words(own, "bytes/s")
    is_swapped = is_open and own > room
    sentence = f"{left} is left to shed at its turn, and it carries {carried}"
    sentence += ", and a swap compensates for it" * is_swapped
    return _gate(room, own, "bytes/s", sentence, is_open=is_open)


def without_traffic(unit: str) -> Gate:
    """Return the gate that is shut for a bundle without traffic."""
    return _gate(0.0, 0.0, unit, "it has no traffic", is_open=False)


def biggest_gate(
    basis: SheddingBasis, row: int, recent: Flags | None, needed: float
) -> Gate | None:
    """Return whether the largest bundles that make up an amount include one of them."""
    view = basis.view
    rows = candidates_of(basis, int(view.reporter[row]), recent)
    turn = BundleRank.of(basis, row, (rows, view.bundle_short_throughput[rows]), "bytes/s")
    return None if turn is None else turn.until(needed)


def _gate(measured: float, threshold: float, unit: str, sentence: str, *, is_open: bool) -> Gate:
    return Gate(
        name=_NAME,
        measured=measured,
        threshold=threshold,
        unit=unit,
        is_open=is_open,
        distance=threshold - measured,
        sentence=sentence,
    )
