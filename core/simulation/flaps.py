"""Ping-pong: bundles that come back to a broker that they had left."""

from __future__ import annotations

from collections.abc import Iterable

from core.simulation.model import Flap, RoundResult


def find_flaps(rounds: Iterable[RoundResult], interval_minutes: float) -> tuple[Flap, ...]:
    """Return every A-B-A (or longer way back to A), in the order in which the bundles came back.

    Args:
        rounds: In order.
        interval_minutes: Length of a round.
    """
    left_at: dict[tuple[str, str], int] = {}
    found: list[Flap] = []
    for done in rounds:
        for move in done.moves:
            if move.source is None or move.destination is None:
                continue
            left = left_at.pop((move.bundle, move.destination), None)
            if left is not None:
                found.append(
                    Flap(
                        bundle=move.bundle,
                        home=move.destination,
                        away=move.source,
                        left_round=left,
                        back_round=done.number,
                        dwell_minutes=(done.number - left) * interval_minutes,
                    )
                )
            left_at[move.bundle, move.source] = done.number
    return tuple(found)
