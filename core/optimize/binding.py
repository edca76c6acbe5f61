"""Why a goal is not reached: what binds each of the brokers that are still outside the band."""

from __future__ import annotations

from typing import Final

import numpy as np

from core.optimize.balance import Balance, Band
from core.optimize.fleet import HELD, HELD_WORDS, Fleet
from core.optimize.model import Binding
from core.units import format_bytes_per_s, format_ratio, pluralize

MAX_BINDINGS: Final = 20
_WORTH_A_WORD_BYTES_PER_S: Final = 1_000.0


def what_binds(balance: Balance, band: Band, max_moves: int | None) -> tuple[Binding, ...]:
    """Return what keeps the brokers from the goal, the worst broker first; none: all is well."""
    fleet = balance.fleet
    violation = np.where(fleet.known, band.violation(balance.load), 0.0)
    outside = np.flatnonzero(violation > band.slack)
    outside = outside[np.argsort(-violation[outside], kind="stable")]
    if not outside.size:
        return ()
    found: list[Binding] = []
    if max_moves is not None and len(balance.order) >= max_moves:
        more = pluralize(outside.size, "broker")
        found.append(
            Binding(
                code="move_budget",
                subject="",
                sentence=f"The budget of {pluralize(max_moves, 'move')} is used up; {more} "
                "would need more.",
            )
        )
        return tuple(found)
    found += [
        _over(balance, band, broker)
        if balance.load[broker] > band.high
        else _under(balance, band, broker)
        for broker in outside[:MAX_BINDINGS].tolist()
    ]
    return tuple(found)


def load_text(fleet: Fleet, value: float) -> str:
    """Return a load for people."""
    return format_ratio(value) if fleet.measure == "usage" else format_bytes_per_s(value)


def _over(balance: Balance, band: Band, broker: int) -> Binding:
    fleet = balance.fleet
    name = fleet.view.brokers[broker]
    where = f"{name} stays at {load_text(fleet, balance.load[broker])}"
    staying = balance.staying(broker)
    if staying.size and fleet.measure == "throughput":
        heaviest = int(staying[0])
        if fleet.bytes_per_s[heaviest] > band.high:
            return _too_large(fleet, name, where, heaviest)
    if not staying.size:
        held = _held_text(fleet, broker)
        return Binding(
            code="fixed_load", subject=name, sentence=f"{where}: nothing on it may move{held}."
        )
    others = fleet.known.copy()
    others[broker] = False
    allowed = fleet.where.allowed[fleet.kind[staying]][:, others].any(axis=1)
    if not allowed.any():
        return Binding(
            code="no_destination",
            subject=name,
            sentence=f"{where}: isolation policies, anti-affinity, versions or load managers "
            f"leave no other broker for its {pluralize(staying.size, 'movable bundle')}.",
        )
    return Binding(
        code="no_room",
        subject=name,
        sentence=f"{where}: no broker that may take "
        f"{_one_of(staying.size)} has room for it under "
        f"{load_text(fleet, band.high)}{_held_text(fleet, broker)}.",
    )


def _one_of(count: int) -> str:
    return "its one movable bundle" if count == 1 else f"one of its {count:,} movable bundles"


def _too_large(fleet: Fleet, name: str, where: str, bundle: int) -> Binding:
    return Binding(
        code="bundle_too_large",
        subject=name,
        sentence=f"{where}: {fleet.view.bundles[fleet.rows[bundle]]} alone carries "
        f"{format_bytes_per_s(fleet.bytes_per_s[bundle])}, more than any broker should. Split it, "
        "or add partitions.",
    )


def _under(balance: Balance, band: Band, broker: int) -> Binding:
    fleet = balance.fleet
    name = fleet.view.brokers[broker]
    where = f"{name} stays at {load_text(fleet, balance.load[broker])}"
    if not fleet.where.can_receive[broker]:
        return Binding(
            code="cannot_receive",
            subject=name,
            sentence=f"{where}: it takes no part in placement (load report, load-manager class or "
            "version).",
        )
    if not fleet.where.allowed[np.unique(fleet.kind), broker].any():
        return Binding(
            code="no_destination",
            subject=name,
            sentence=f"{where}: isolation policies or anti-affinity allow it none of the bundles "
            "that may move.",
        )
    return Binding(
        code="no_bundle_for_it",
        subject=name,
        sentence=f"{where}: no bundle that it may take fits under {load_text(fleet, band.high)} "
        "and can be spared where it is.",
    )


def _held_text(fleet: Fleet, broker: int) -> str:
    parts = [
        f"{format_bytes_per_s(value)} {HELD_WORDS[reason]}"
        for reason, value in zip(HELD, fleet.held_bytes[broker].tolist(), strict=True)
        if value >= _WORTH_A_WORD_BYTES_PER_S
    ]
    return f" ({'; '.join(parts)})" if parts else ""
