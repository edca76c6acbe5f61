"""Local improvement of a plan that is found: take moves back, or move something smaller instead.

Every change keeps both brokers of the move as they should be, so the goal stays reached; where it
was not reached, no broker gets farther from it.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from core.optimize.balance import Balance, Band

_WORTH_RATIO: Final = 0.99
"""A smaller bundle has to be smaller by one in a hundred to be worth the exchange."""


def improve(balance: Balance, band: Band) -> None:
    """Take back what is not needed, largest first; then move less where less is enough."""
    _take_back(balance, band)
    _move_less(balance, band)
    _take_back(balance, band)


def _largest_first(balance: Balance) -> list[int]:
    return sorted(balance.order, key=lambda bundle: -balance.fleet.bytes_per_s[bundle])


def _take_back(balance: Balance, band: Band) -> None:
    for bundle in _largest_first(balance):
        source = int(balance.fleet.owner[bundle])
        destination = int(balance.destination[bundle])
        one = np.array([bundle])
        if (
            balance.load_with(source, one)[0] <= band.high + band.slack
            and balance.load_without(destination, one)[0] >= band.low - band.slack
        ):
            balance.undo(bundle)


def _move_less(balance: Balance, band: Band) -> None:
    """Replace each moved bundle by the smallest of its broker's that does as well."""
    for bundle in _largest_first(balance):
        source = int(balance.fleet.owner[bundle])
        destination = int(balance.destination[bundle])
        bounds = [
            max(band.slack, float(value))
            for value in band.violation(balance.load[[source, destination]])
        ]
        at, chosen = balance.undo(bundle), bundle
        others = balance.staying(source)
        smaller = (
            balance.fleet.bytes_per_s[others] < _WORTH_RATIO * balance.fleet.bytes_per_s[bundle]
        )
        others = others[smaller]
        fits = balance.may_take(destination, others)
        fits &= band.violation(balance.load_without(source, others)) <= bounds[0]
        fits &= band.violation(balance.load_with(destination, others)) <= bounds[1]
        others = others[fits]
        if others.size:
            chosen = int(others[balance.fleet.bytes_per_s[others].argmin()])
        balance.move(chosen, destination, at=at)
