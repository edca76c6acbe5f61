"""``trimtab simulate``: the balancer's rounds simulated on a snapshot. Nothing is changed."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

from core.diagnosis.pulsar.answer import diagnose
from core.diagnosis.pulsar.trials import PLACEMENT, SHEDDING, Change
from core.diagnosis.request import DiagnoseRequest
from core.progress import NoProgress
from core.pulsar.requests import SimulateRequest
from core.pulsar.settings import SHEDDING_SWITCHES
from core.pulsar.shedding.registry import active_shedding_strategy, upstream_class
from core.simulation import RoundResult, Simulation
from core.simulation import simulate as play
from core.simulation.model import run_of
from core.snapshot import PulsarSnapshot
from core.snapshot.store import load_snapshot
from core.units import format_bytes_per_s, format_ratio
from dashboard.cli.output import Answer, emit, print_line, table
from dashboard.cli.pulsar.decisions.shed import KnownBundles, known_bundles, read_bundle_list
from dashboard.cli.pulsar.snapshots import Assumptions

_MOST_SHOWN: Final = 40
_ADVISED_TRIALS: Final = 8
_ADVISED_BUNDLES: Final = 1_000
"""A larger fleet takes long to try other settings on: `trimtab diagnose` does."""


def simulate(
    directory: Path,
    request: SimulateRequest,
    assumptions: Assumptions,
    recently_unloaded: Path | None = None,
    *,
    as_json: bool,
) -> int:
    """``trimtab simulate``: rounds, flaps, and whether it converges."""
    named = read_bundle_list(recently_unloaded)
    snapshot = load_snapshot(directory)
    recent = known_bundles(snapshot, named)
    return print_simulation(
        snapshot, partial(play, snapshot), recent, request, assumptions, as_json=as_json
    )


def print_simulation(
    brokers: PulsarSnapshot,
    simulated: Callable[..., Simulation],
    recent: KnownBundles,
    request: SimulateRequest,
    assumptions: Assumptions,
    *,
    as_json: bool,
) -> int:
    """Simulate a cluster and print the rounds.

    Args:
        brokers: The cluster, with or without its bundles.
        simulated: As :func:`core.simulation.simulate`, without the snapshot.
        recent: Bundles in their grace period.
        request: What is simulated.
        assumptions: Settings to assume.
        as_json: As one object.
    """
    settings = assumptions.settings_of(brokers)
    active = active_shedding_strategy(brokers.manifest.load_manager, settings)
    run = run_of(request, active.name, recent.names)
    started = time.perf_counter()
    done = simulated(
        run,
        placement=request.placement,
        overrides=assumptions.overrides,
        release=assumptions.release,
    )
    elapsed_ms = (time.perf_counter() - started) * 1000
    advice = _advice(brokers, done, request, assumptions)
    body = (
        simulation_json(done)
        | {"advice": advice}
        | {"seed": run.seed, "elapsed_ms": round(elapsed_ms, 3)}
    )
    body |= recent.as_json()

    def show() -> None:
        _show(done)
        if advice is not None:
            print_line(f"{advice['summary']} {advice['sentence']}")

    return emit(Answer(body, show), as_json=as_json)


def _advice(
    snapshot: PulsarSnapshot, done: Simulation, request: SimulateRequest, assumptions: Assumptions
) -> dict[str, Any] | None:
    """Return the setting with which flapping rounds converge; ``None``: none, or none needed.

    Only for a fleet as it is, whose bundles are in this process.
    """
    is_calm = done.ending == "converged" and not done.flaps
    is_other = request.added or request.failed or request.removed or request.failed_domains
    bundles = snapshot.bundles.num_rows
    if is_calm or is_other or not 0 < bundles <= _ADVISED_BUNDLES:
        return None
    named = {SHEDDING: upstream_class(done.shedding), PLACEMENT: done.placement}
    assumed = Change(
        settings={**dict.fromkeys(SHEDDING_SWITCHES, True), **assumptions.overrides, **named},
        release=assumptions.release,
    )
    # counted, not timed: the same answer on a slow machine
    unhurried = DiagnoseRequest(seconds=3_600.0)
    causes = diagnose(snapshot, unhurried, NoProgress(), assumed, _ADVISED_TRIALS).causes
    if not causes or causes[0].effect is None:
        return None
    first, effect = causes[0], causes[0].effect
    return {
        "code": first.code,
        "keys": list(first.keys),
        "summary": first.summary,
        "sentence": first.hint,
        "effect": effect.as_json(),
    }


def simulation_json(done: Simulation) -> dict[str, Any]:
    """The answer as ``--json`` prints it, but for ``seed`` and ``elapsed_ms``."""
    return {
        "answer": done.sentence,
        "shedding": done.shedding,
        "placement": done.placement,
        "interval_minutes": done.interval_minutes,
        "grace_minutes": done.grace_minutes,
        "converged": done.ending == "converged",
        "rounds_to_converge": done.rounds_to_converge,
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
                "return_round": flap.back_round,
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
    print_line(done.sentence)
    print_line(
        f"{done.shedding} with {done.placement}, round interval {done.interval_minutes:g} min, "
        f"grace period {done.grace_minutes:g} min."
    )
    busy = [result for result in done.rounds if result.moves or result.number == 0]
    if busy:
        print_line()
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
            print_line(
                f"... and {len(busy) - _MOST_SHOWN} more rounds with moves; --json lists all."
            )
    for flap in done.flaps[:_MOST_SHOWN]:
        print_line(
            f"Returned: {flap.bundle} to {flap.home} from {flap.away} after "
            f"{flap.dwell_minutes:.0f} min (round {flap.left_round} to {flap.back_round})."
        )
    for text in done.notes:
        print_line(f"Note: {text}")
