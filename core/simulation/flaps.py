"""Ping-pong: bundles that come back to a broker that they had left."""

from __future__ import annotations

from collections.abc import Iterable

from core.simulation.model import Flap, RoundResult


def find_flaps(rounds: Iterable[RoundResult]) -> tuple[Flap, ...]:
    """Return every A-B-A (or longer way back to A), in the order in which the bundles came back.

    Args:
        rounds: In order.
    """
    left_at: dict[tuple[str, str], RoundResult] = {}
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
                        left_round=left.number,
                        back_round=done.number,
                        dwell_minutes=done.minute - left.minute,
                    )
                )
            left_at[move.bundle, move.source] = done
    return tuple(found)
