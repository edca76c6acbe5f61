"""``trimtab optimize``: the smallest set of moves. Nothing of a cluster is touched."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, cast

from core.errors import InputError
from core.optimize import LoadMeasure, Proposal, Wish
from core.optimize import optimize as find_moves
from core.plan.codec import dump_plan
from core.plan.model import Plan
from core.pulsar.plan.build import build_unload_plan
from core.snapshot import PulsarSnapshot
from core.snapshot.store import load_snapshot
from core.units import format_bytes_per_s, format_ratio, pluralize
from dashboard.cli import plan_answers
from dashboard.cli.decisions.shed import known_bundles, read_bundle_list
from dashboard.cli.output import Answer, UsageFaultError, emit, say, table
from dashboard.cli.plan_answers import refusal, write_plan
from dashboard.cli.snapshots import Assumptions

_MOST_SHOWN: Final = 40
_CURVE_SHOWN: Final = 10
_BINDINGS_SHOWN: Final = 6


@dataclass(frozen=True)
class OptimizeWish:
    """What is asked of ``trimtab optimize``; see :class:`core.optimize.Wish`."""

    within: float
    max_moves: int | None
    relief: float | None
    measure: str | None
    exclude: tuple[str, ...]
    recently_unloaded: Path | None
    plan_file: Path | None
    reason: str

    def wish(self) -> Wish:
        """Return it checked.

        Raises:
            UsageFaultError: A value that cannot be, or two that contradict.
        """
        if self.relief is not None and self.measure not in (None, "usage"):
            raise UsageFaultError(
                "--relief goes by usage, not by throughput.", hint="Leave --measure out."
            )
        default = "throughput" if self.relief is None else "usage"
        try:
            return Wish(
                within=self.within,
                measure=cast("LoadMeasure", self.measure or default),
                relief=self.relief,
                max_moves=self.max_moves,
                exclusions=self.exclude,
                recently_moved=read_bundle_list(self.recently_unloaded),
            )
        except InputError as exc:
            raise UsageFaultError(exc.message, hint=exc.hint) from exc


def optimize(
    directory: Path, asked: OptimizeWish, assumptions: Assumptions, *, as_json: bool
) -> int:
    """``trimtab optimize``: moves, bounds, the efficiency curve, and a plan file if wanted."""
    wish = asked.wish()
    snapshot = load_snapshot(directory)
    recent = known_bundles(snapshot, tuple(wish.recently_moved))
    wish = replace(wish, recently_moved=recent.names)
    settings = assumptions.settings_of(snapshot)
    started = time.perf_counter()
    proposal = find_moves(snapshot, wish, settings=settings)
    elapsed_ms = (time.perf_counter() - started) * 1000
    plan = None
    if asked.plan_file is not None and proposal.moves:
        plan = _plan(snapshot, proposal, asked, assumptions)
        write_plan(asked.plan_file, dump_plan(plan))
    body = proposal_json(proposal) | {"elapsed_ms": round(elapsed_ms, 3)} | recent.as_json()
    if asked.plan_file is not None:
        body["plan"] = plan_answers.plan(plan) if plan else None
        body["path"] = str(asked.plan_file) if plan else None

    def show() -> None:
        _show(proposal)
        if plan is not None:
            say()
            say(f"Plan {plan.short_id}: {pluralize(len(plan.steps), 'unload')}.")
            for text in dict.fromkeys(
                f"{item.severity}: {item.sentence} {item.hint}".rstrip()
                for item in plan.diagnostics
            ):
                say(text)
            say(f"Written to {asked.plan_file}.")
            say(f"See `trimtab preview {asked.plan_file} --snapshot {directory}`.")
        elif asked.plan_file is not None:
            say("Nothing to plan, so no file is written.")

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
    snapshot: PulsarSnapshot, proposal: Proposal, asked: OptimizeWish, assumptions: Assumptions
) -> Plan:
    destinations = proposal.destinations
    plan = build_unload_plan(
        snapshot,
        destinations,
        destinations=destinations,
        overrides=assumptions.overrides,
        release=assumptions.release,
        now=datetime.now(tz=UTC),
        reason=asked.reason or f"optimize: {proposal.goal}",
        exclusions=asked.exclude,
    )
    errors = plan.by_severity("error")
    if errors:
        raise refusal(errors)
    return plan


def _show(proposal: Proposal) -> None:
    say(proposal.sentence)
    say(f"Goal: {proposal.goal}.")
    for item in proposal.binding[:_BINDINGS_SHOWN]:
        say(f"Binding: {item.sentence}")
    if len(proposal.binding) > _BINDINGS_SHOWN:
        say(f"... and {len(proposal.binding) - _BINDINGS_SHOWN} more; --json has them all.")
    if proposal.lower_bound_bytes_per_s is None:
        say(
            "It is proven that no plan reaches the goal; none comes below "
            f"{format_ratio(proposal.deviation_floor)} of the mean."
        )
    elif proposal.ratio is not None:
        say(
            f"No plan moves less than {format_bytes_per_s(proposal.lower_bound_bytes_per_s)}; this "
            f"one moves {proposal.ratio:.3f} times that."
        )
    if proposal.moves:
        _show_moves(proposal)
        _show_curve(proposal)
    for text in proposal.notes:
        say(f"Note: {text}")


def _show_moves(proposal: Proposal) -> None:
    say()
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
        say(f"... and {len(proposal.moves) - _MOST_SHOWN} more; --json has them all.")


def _show_curve(proposal: Proposal) -> None:
    """Show a handful of points, the first and the last among them."""
    last = len(proposal.curve) - 1
    steps = min(_CURVE_SHOWN, last)
    points = [proposal.curve[round(number * last / steps)] for number in range(steps + 1)]
    say()
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
