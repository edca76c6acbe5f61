"""``trimtab simulate``: the balancer's rounds played on a snapshot. Nothing is changed."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from core.errors import UnknownNameError
from core.pulsar.shedding.registry import active_shedding_strategy, find_shedding_strategy
from core.simulation import RoundResult, Run, Simulation, WhatIf
from core.simulation import simulate as play
from core.snapshot import PulsarSnapshot
from core.snapshot.store import load_snapshot
from core.units import format_bytes_per_s, format_ratio
from dashboard.cli.decisions.shed import KnownBundles, known_bundles, read_bundle_list
from dashboard.cli.output import Answer, UsageFaultError, emit, say, table
from dashboard.cli.snapshots import Assumptions

_MOST_SHOWN: Final = 40


@dataclass(frozen=True)
class SimulateWish:
    """What is asked of ``trimtab simulate``; see :class:`core.simulation.Run`."""

    shedding: str | None
    rounds: int
    seed: int
    recently_unloaded: Path | None
    what_if: WhatIf


def simulate(
    directory: Path, wish: SimulateWish, assumptions: Assumptions, *, as_json: bool
) -> int:
    """``trimtab simulate``: rounds, flaps, and when it settles."""
    check(wish)
    named = read_bundle_list(wish.recently_unloaded)
    snapshot = load_snapshot(directory)
    recent = known_bundles(snapshot, named)
    return tell(snapshot, partial(play, snapshot), recent, wish, assumptions, as_json=as_json)


def check(wish: SimulateWish) -> None:
    """Look at what was typed before anything is read.

    Raises:
        UsageFaultError: No such strategy.
    """
    if wish.shedding is not None:
        try:
            find_shedding_strategy(wish.shedding)
        except UnknownNameError as exc:
            raise UsageFaultError(exc.message, hint=exc.hint) from exc


def tell(
    brokers: PulsarSnapshot,
    simulated: Callable[..., Simulation],
    recent: KnownBundles,
    wish: SimulateWish,
    assumptions: Assumptions,
    *,
    as_json: bool,
) -> int:
    """Simulate a cluster and tell how it went.

    Args:
        brokers: The cluster, with or without its bundles.
        simulated: As :func:`core.simulation.simulate`, without the snapshot.
        recent: Bundles in their grace period.
        wish: What was asked.
        assumptions: Settings to assume.
        as_json: As one object.
    """
    settings = assumptions.settings_of(brokers)
    in_force = active_shedding_strategy(brokers.manifest.load_manager, settings)
    run = Run(
        shedding=wish.shedding or in_force.name,
        rounds=wish.rounds,
        seed=wish.seed,
        recently_unloaded=recent.names,
        what_if=wish.what_if,
    )
    started = time.perf_counter()
    done = simulated(
        run,
        placement=assumptions.strategy,
        overrides=assumptions.overrides,
        release=assumptions.release,
    )
    elapsed_ms = (time.perf_counter() - started) * 1000
    body = simulation_json(done) | {"seed": wish.seed, "elapsed_ms": round(elapsed_ms, 3)}
    body |= recent.as_json()
    return emit(Answer(body, lambda: _show(done)), as_json=as_json)


def simulation_json(done: Simulation) -> dict[str, Any]:
    """The answer as ``--json`` prints it, but for ``seed`` and ``elapsed_ms``."""
    return {
        "answer": done.sentence,
        "shedding": done.shedding,
        "placement": done.placement,
        "interval_minutes": done.interval_minutes,
        "grace_minutes": done.grace_minutes,
        "settled": done.ending == "settled",
        "rounds_to_settle": done.rounds_to_settle,
        "rounds": [_round_json(result) for result in done.rounds],
        "deviation_before": done.deviation_before,
        "deviation_after": done.deviation_after,
        "moves": done.move_count,
        "moved_bytes_per_s": done.moved_bytes_per_s,
        "clients": done.clients,
        "flaps": [
            {
                "bundle": flap.bundle,
                "home": flap.home,
                "away": flap.away,
                "left_round": flap.left_round,
                "back_round": flap.back_round,
                "dwell_minutes": flap.dwell_minutes,
            }
            for flap in done.flaps
        ],
        "notes": list(done.notes),
    }


def _round_json(result: RoundResult) -> dict[str, Any]:
    return {
        "round": result.number,
        "minute": result.minute,
        "moves": [
            {"bundle": move.bundle, "from": move.source, "to": move.destination}
            for move in result.moves
        ],
        "skipped": result.skipped,
        "deviation": result.deviation,
        "usage_deviation": result.usage_deviation,
        "moved_bytes_per_s": result.moved_bytes_per_s,
        "clients": result.clients,
        "verdict": result.sentence,
    }


def _show(done: Simulation) -> None:
    say(done.sentence)
    say(
        f"{done.shedding} with {done.placement}, a round every {done.interval_minutes:g} min, "
        f"bundles rest for {done.grace_minutes:g} min."
    )
    busy = [result for result in done.rounds if result.moves or result.number == 0]
    if busy:
        say()
        table(
            ("round", "minute", "moves", "traffic", "clients", "deviation after"),
            [
                (
                    f"{result.number}",
                    f"{result.minute:.0f}",
                    f"{len(result.moves)}",
                    format_bytes_per_s(result.moved_bytes_per_s),
                    f"{result.clients:,}",
                    format_ratio(result.deviation),
                )
                for result in busy[:_MOST_SHOWN]
            ],
        )
        if len(busy) > _MOST_SHOWN:
            say(f"... and {len(busy) - _MOST_SHOWN} more rounds with moves; --json has them all.")
    for flap in done.flaps[:_MOST_SHOWN]:
        say(
            f"Came back: {flap.bundle} to {flap.home} from {flap.away} after "
            f"{flap.dwell_minutes:.0f} min (round {flap.left_round} to {flap.back_round})."
        )
    for text in done.notes:
        say(f"Note: {text}")
