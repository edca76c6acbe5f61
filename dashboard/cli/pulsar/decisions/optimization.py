"""``trimtab optimize``: the smallest set of moves. Nothing of a cluster is touched."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
import typer

from core.optimize import Proposal, optimize
from core.optimize.request import OptimizeRequest
from core.plan.model import Plan
from core.pulsar.plan.build import build_unload_plan
from core.pulsar.recent import recent_bundles
from core.snapshot import PulsarSnapshot
from core.snapshot.store import load_snapshot
from core.units import format_band, format_bytes_per_s, format_ratio, pluralize, severity_label
from dashboard.cli import plan_answers
from dashboard.cli.options import Config, Json, PlanFile, PlanReason, Release, Settings
from dashboard.cli.output import Answer, emit, note, print_line, table
from dashboard.cli.plan_answers import refusal, write_plan
from dashboard.cli.pulsar.snapshots import Assumptions
from dashboard.cli.pulsar.source import Snapshot, pulsar_directory
from dashboard.cli.requests import read_list, takes

_MOST_SHOWN: Final = 40
_CURVE_SHOWN: Final = 10
_BINDINGS_SHOWN: Final = 6


app = typer.Typer()


@app.command("optimize")
@takes(OptimizeRequest, skip=("recently_moved",))
def run_optimize(
    request: OptimizeRequest,
    directory: Snapshot,
    recently_unloaded: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="JSON list of bundles in their grace period."),
    ] = None,
    plan_file: PlanFile = None,
    all_moves: Annotated[
        bool,
        typer.Option(
            "--all-moves", help="Also plan moves that do not narrow the deviation band any further."
        ),
    ] = False,
    settings: Settings = None,
    release: Release = None,
    reason: PlanReason = "",
    config: Config = None,
    as_json: Json = False,
) -> int:
    """Find the fewest moves that balance the cluster.

    Brings every broker near the mean and shows a lower bound of the moves.
    """
    assumptions = Assumptions.of(None, settings, release)
    bundles = read_list(recently_unloaded)
    snapshot = load_snapshot(pulsar_directory(directory, config))
    recent = recent_bundles(snapshot.bundles, bundles)
    for line in recent.notices:
        note(line)
    request = msgspec.structs.replace(request, recently_moved=tuple(recent.names))
    effective = assumptions.settings_of(snapshot)
    started = time.perf_counter()
    proposal = optimize(snapshot, request, settings=effective)
    elapsed_ms = (time.perf_counter() - started) * 1000
    plan = None
    if plan_file is not None and proposal.moves:
        planned = proposal if all_moves else proposal.first(proposal.needed)
        plan = _plan(snapshot, planned, request, assumptions, reason)
        write_plan(plan_file, plan)
    body = proposal_json(proposal) | {"elapsed_ms": round(elapsed_ms, 3)} | recent.as_json()
    if plan_file is not None:
        body["plan"] = plan_answers.plan(plan) if plan else None
        body["path"] = str(plan_file) if plan else None

    def show() -> None:
        _show(proposal)
        if plan is not None and plan_file is not None:
            print_line()
            print_line(f"Plan {plan.short_id}: {pluralize(len(plan.steps), 'unload')}.")
            for text in dict.fromkeys(
                f"{severity_label(item.severity)}: {item.sentence} {item.hint}".rstrip()
                for item in plan.diagnostics
            ):
                print_line(text)
            print_line(f"Written to {plan_file}.")
            plan_answers.show_preview_command(plan_file, directory)
        elif plan_file is not None:
            print_line("Nothing to plan: no file is written.")

    return emit(Answer(body, show), as_json=as_json)


def proposal_json(proposal: Proposal) -> dict[str, Any]:
    """The answer as ``--json`` prints it, but for ``elapsed_ms``."""
    return {
        "verdict": proposal.verdict,
        "answer": proposal.sentence,
        "measure": proposal.measure,
        "goal": proposal.goal,
        "moves": [
            {
                "bundle": move.bundle,
                "from": move.source,
                "to": move.destination,
                "bytes_per_s": move.bytes_per_s,
                "clients": move.clients,
                "topics": move.topics,
                "msgs_per_s": move.msgs_per_s,
                "disruption": move.disruption,
                "co_moves": move.co_moves,
            }
            for move in proposal.moves
        ],
        "needed_moves": proposal.needed,
        "deviation_before": proposal.deviation_before,
        "deviation_after": proposal.deviation_after,
        "deviation_floor": proposal.deviation_floor,
        "moved_bytes_per_s": proposal.moved_bytes_per_s,
        "lower_bound_bytes_per_s": proposal.lower_bound_bytes_per_s,
        "ratio": proposal.ratio,
        "curve": [
            {
                "moves": point.moves,
                "deviation": point.deviation,
                "moved_bytes_per_s": point.moved_bytes_per_s,
                "clients": point.clients,
            }
            for point in proposal.curve
        ],
        "binding": [
            {"code": item.code, "subject": item.subject, "sentence": item.sentence}
            for item in proposal.binding
        ],
        "notes": list(proposal.notes),
    }


def _plan(
    snapshot: PulsarSnapshot,
    proposal: Proposal,
    request: OptimizeRequest,
    assumptions: Assumptions,
    reason: str,
) -> Plan:
    destinations = proposal.destinations
    plan = build_unload_plan(
        snapshot,
        destinations,
        destinations=destinations,
        overrides=assumptions.overrides,
        release=assumptions.release,
        now=datetime.now(tz=UTC),
        reason=reason or f"optimize: {proposal.goal}",
        exclusions=request.exclusions,
    )
    errors = plan.by_severity("error")
    if errors:
        raise refusal(errors)
    return plan


def _show(proposal: Proposal) -> None:
    print_line(proposal.sentence)
    print_line(f"Target: {proposal.goal}.")
    for item in proposal.binding[:_BINDINGS_SHOWN]:
        print_line(f"Binding: {item.sentence}")
    if len(proposal.binding) > _BINDINGS_SHOWN:
        print_line(f"... and {len(proposal.binding) - _BINDINGS_SHOWN} more; --json lists all.")
    if proposal.lower_bound_bytes_per_s is None:
        print_line(
            "Target not reachable. Lower bound of the deviation band: "
            f"{format_band(proposal.deviation_floor)}."
        )
    elif proposal.ratio is not None:
        print_line(
            "Lower bound of the moved traffic: "
            f"{format_bytes_per_s(proposal.lower_bound_bytes_per_s)}; this plan: "
            f"{proposal.ratio:.3f} times that."
        )
    if proposal.moves:
        _show_moves(proposal)
        _show_curve(proposal)
    for text in proposal.notes:
        print_line(f"Note: {text}")


def _show_moves(proposal: Proposal) -> None:
    print_line()
    table(
        ("bundle", "from", "to", "traffic", "clients", "disruption"),
        [
            (
                move.bundle,
                move.source,
                move.destination,
                format_bytes_per_s(move.bytes_per_s),
                "unknown" if move.clients is None else f"{move.clients:,}",
                f"{move.disruption:,.1f}",
            )
            for move in proposal.moves[:_MOST_SHOWN]
        ],
    )
    if len(proposal.moves) > _MOST_SHOWN:
        print_line(f"... and {len(proposal.moves) - _MOST_SHOWN} more; --json lists all.")


def _show_curve(proposal: Proposal) -> None:
    """Show a handful of points, the first and the last among them."""
    last = len(proposal.curve) - 1
    steps = min(_CURVE_SHOWN, last)
    points = [proposal.curve[round(number * last / steps)] for number in range(steps + 1)]
    print_line()
    table(
        ("after moves", "deviation", "moved", "clients"),
        [
            (
                f"{point.moves:,}",
                format_ratio(point.deviation),
                format_bytes_per_s(point.moved_bytes_per_s),
                f"{point.clients:,}",
            )
            for point in points
        ],
    )
