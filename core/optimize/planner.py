"""The optimizer: from a request to the moves, their bounds, and why a goal is not reached."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final

import numpy as np

from core.optimize.balance import Balance, Band
from core.optimize.curve import best_order, deviation, efficiency
from core.optimize.fleet import HELD, HELD_WORDS, FleetColumns, lay_out, lay_out_view
from core.optimize.model import SAME, Binding, PlannedMove, Proposal, Verdict
from core.optimize.request import OptimizeRequest
from core.optimize.solve import SolverOutcome, solve
from core.pulsar.measures import cluster_target
from core.pulsar.settings import EffectiveSettings, effective_settings
from core.pulsar.view import LoadView
from core.snapshot import PulsarSnapshot
from core.units import format_band, format_bytes_per_s, format_ratio, listed, pluralize

MAX_BINDINGS: Final = 20
_WORTH_A_WORD_BYTES_PER_S: Final = 1_000.0


def optimize(
    snapshot: PulsarSnapshot, request: OptimizeRequest, *, settings: EffectiveSettings | None = None
) -> Proposal:
    """Return the fewest moves, with the least traffic, that bring every broker into its band.

    Every constraint is hard: isolation policies, anti-affinity groups with failure domains,
    versions, load-manager class, topic limit, exclusions, bundles bound to their broker or moved a
    moment ago, the move budget. A bundle moves once at the most.

    Args:
        snapshot: The cluster.
        request: What is wanted.
        settings: Effective ones; by default those of the snapshot.
    Cost:
        O(bundles) to lay out, then a few NumPy steps over one broker's bundles for each move.
    """
    chosen = effective_settings(snapshot) if settings is None else settings
    request = request.for_target(cluster_target(snapshot.manifest).bound)
    fleet = lay_out(snapshot, chosen, request)
    if not fleet.known.any():
        return _unknown(fleet, request)
    return _proposal(solve(fleet, request), request)


def optimize_view(
    view: LoadView, request: OptimizeRequest, settings: EffectiveSettings
) -> Proposal:
    """Return the smallest set of moves for the load as a leader has it, by throughput."""
    fleet = lay_out_view(view, settings, request)
    if not fleet.known.any():
        return _unknown(fleet, request)
    return _proposal(solve(fleet, request), request)


def _proposal(outcome: SolverOutcome, request: OptimizeRequest) -> Proposal:
    balance, band = outcome.balance, outcome.band
    fleet = balance.fleet
    binding = what_binds(balance, band, request.max_moves if outcome.is_spent else None)
    order = best_order(balance)
    before = deviation(fleet, fleet.load, request.relief)
    after = deviation(fleet, balance.load, request.relief)
    verdict: Verdict = "best_effort" if binding else "reached" if order else "nothing_to_do"
    moves = _moves(balance, order)
    proposal = Proposal(
        verdict=verdict,
        sentence=_sentence(fleet, request, moves, (before, after), verdict),
        measure=fleet.measure,
        goal=_goal(fleet, request, band),
        low=band.low,
        high=band.high,
        moves=moves,
        deviation_before=before,
        deviation_after=after,
        lower_bound_bytes_per_s=outcome.bounds.least_bytes_per_s,
        deviation_floor=outcome.bounds.deviation_floor,
        curve=efficiency(balance, order, request.relief),
        binding=binding,
        notes=_notes(fleet),
    )
    if verdict != "best_effort":
        return proposal
    return replace(proposal, sentence=proposal.sentence + _enough(proposal, request.relief))


def _moves(balance: Balance, order: list[int]) -> tuple[PlannedMove, ...]:
    fleet = balance.fleet
    in_namespace = np.bincount(fleet.namespace[order], minlength=len(fleet.view.namespaces))
    names = fleet.view.brokers
    return tuple(
        PlannedMove(
            bundle=str(fleet.view.bundles[fleet.rows[bundle]]),
            source=names[fleet.owner[bundle]],
            destination=names[balance.destination[bundle]],
            bytes_per_s=float(fleet.bytes_per_s[bundle]),
            clients=(int(fleet.clients[bundle]) if np.isfinite(fleet.clients[bundle]) else None),
            topics=int(fleet.topics[bundle]),
            msgs_per_s=float(fleet.view.bundle_msg_rate[fleet.rows[bundle]]),
            disruption=round(float(fleet.points[bundle]), 3),
            co_moves=int(in_namespace[fleet.namespace[bundle]]) - 1,
        )
        for bundle in order
    )


def _goal(fleet: FleetColumns, request: OptimizeRequest, band: Band) -> str:
    if request.relief is not None:
        return f"no broker's usage above {format_ratio(request.relief)}"
    word = "traffic" if fleet.measure == "throughput" else "usage"
    return (
        f"every broker's {word} within {format_ratio(request.within)} of the mean, from "
        f"{load_text(fleet, band.low)} to {load_text(fleet, band.high)}"
    )


def _sentence(
    fleet: FleetColumns,
    request: OptimizeRequest,
    moves: tuple[PlannedMove, ...],
    deviations: tuple[float, float],
    verdict: Verdict,
) -> str:
    if request.relief is not None:
        return _of_relief(request.relief, moves, deviations, verdict)
    band = f"deviation band of {'traffic' if fleet.measure == 'throughput' else 'usage'}"
    before, after = (format_band(value) for value in deviations)
    if verdict == "nothing_to_do":
        return f"Nothing to do: {band} {before}."
    if not moves:
        return f"No possible move: {band} {before}."
    return f"{_start(moves, verdict)} {band} from {before} to {after}."


def _of_relief(
    relief: float, moves: tuple[PlannedMove, ...], deviations: tuple[float, float], verdict: Verdict
) -> str:
    """Describe a relief by the usage of the busiest broker: a distance to the limit says less."""
    limit = format_ratio(relief)
    before, after = (format_ratio(relief * (1 + value)) for value in deviations)
    if verdict == "nothing_to_do":
        return f"Nothing to do: no broker's usage is above {limit}."
    if not moves:
        return f"No possible move: the busiest broker is at {before}, above {limit}."
    reached = after if verdict == "best_effort" else f"{limit} or less"
    return f"{_start(moves, verdict)} max usage from {before} to {reached}."


def _start(moves: tuple[PlannedMove, ...], verdict: Verdict) -> str:
    moved = format_bytes_per_s(sum(move.bytes_per_s for move in moves))
    clients = sum(move.clients or 0 for move in moves)
    start = "Goal reached" if verdict == "reached" else "Goal not reached"
    return f"{start}: {pluralize(len(moves), 'move')} ({moved}, {pluralize(clients, 'client')}),"


def _enough(proposal: Proposal, relief: float | None) -> str:
    """Describe how many of the moves bring the worst broker as near as all of them do."""
    after, needed = proposal.curve[-1].deviation, proposal.needed
    is_useless = math.isclose(proposal.curve[0].deviation, after, abs_tol=SAME)
    if is_useless and proposal.moves:
        measure = "narrows the deviation band" if relief is None else "lowers the max usage"
        return f" No move {measure}; the moves balance the other brokers."
    if not proposal.rest_gain:
        return ""
    value = format_band(after) if relief is None else format_ratio(relief * (1 + after))
    return f" Needed for {value}: the first {needed:,}. {proposal.rest_gain}"


def _notes(fleet: FleetColumns) -> tuple[str, ...]:
    notes = list(fleet.view.notes)
    if fleet.excluded:
        notes.append(f"Excluded as source and destination: {fleet.excluded}.")
    silent = int(np.isnan(fleet.clients).sum())
    if silent:
        notes.append(f"The clients of {pluralize(silent, 'bundle')} are unknown and count as 0.")
    return tuple(notes)


def _unknown(fleet: FleetColumns, request: OptimizeRequest) -> Proposal:
    return Proposal(
        verdict="unknown",
        sentence="The load of every broker is unknown.",
        measure=fleet.measure,
        goal=_goal(fleet, request, Band(0.0, 0.0)),
        low=0.0,
        high=0.0,
        notes=_notes(fleet),
    )


def what_binds(balance: Balance, band: Band, max_moves: int | None) -> tuple[Binding, ...]:
    """Return the constraints of brokers outside the goal, worst first; empty if reached.

    Args:
        balance: After the moves.
        band: The goal.
        max_moves: The budget that does not suffice; ``None`` if there is none, or it does.
    """
    fleet = balance.fleet
    violation = np.where(fleet.known, band.violation(balance.load), 0.0)
    outside = np.flatnonzero(violation > band.slack)
    outside = outside[np.argsort(-violation[outside], kind="stable")]
    if not outside.size:
        return ()
    found: list[Binding] = []
    if max_moves is not None:
        more = pluralize(outside.size, "broker")
        found.append(
            Binding(
                code="move_budget",
                subject="",
                sentence=f"The budget of {pluralize(max_moves, 'move')} is too small: {more} "
                f"{'stays' if outside.size == 1 else 'stay'} outside the goal.",
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


def load_text(fleet: FleetColumns, value: float) -> str:
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
            code="fixed_load", subject=name, sentence=f"{where}: no movable bundles{held}."
        )
    others = fleet.known.copy()
    others[broker] = False
    allowed = fleet.where.allowed[fleet.kind[staying]][:, others].any(axis=1)
    if not allowed.any():
        return Binding(
            code="no_destination",
            subject=name,
            sentence=f"{where}: isolation policies, anti-affinity, versions or load managers allow "
            f"no other broker for its {pluralize(staying.size, 'movable bundle')}.",
        )
    return Binding(
        code="no_room",
        subject=name,
        sentence=f"{where}: no eligible destination can take {_one_of(staying.size)} and stay "
        f"below {load_text(fleet, band.high)}{_held_text(fleet, broker)}.",
    )


def _one_of(count: int) -> str:
    return "its only movable bundle" if count == 1 else f"one of its {count:,} movable bundles"


def _too_large(fleet: FleetColumns, name: str, where: str, bundle: int) -> Binding:
    return Binding(
        code="bundle_too_large",
        subject=name,
        sentence=f"{where}: {fleet.view.bundles[fleet.rows[bundle]]} alone carries "
        f"{format_bytes_per_s(fleet.bytes_per_s[bundle])}, more than the limit of a "
        "broker. Split it, or add partitions.",
    )


def _under(balance: Balance, band: Band, broker: int) -> Binding:
    fleet = balance.fleet
    name = fleet.view.brokers[broker]
    where = f"{name} stays at {load_text(fleet, balance.load[broker])}"
    if not fleet.where.can_receive[broker]:
        return Binding(
            code="cannot_receive",
            subject=name,
            sentence=f"{where}: it is excluded from placement (load report, load-manager class or "
            "version).",
        )
    if not fleet.where.allowed[np.unique(fleet.kind), broker].any():
        return Binding(
            code="no_destination",
            subject=name,
            sentence=f"{where}: isolation policies or anti-affinity exclude it for every movable "
            "bundle.",
        )
    admitted = _admitted(fleet, broker)
    here = np.where(balance.destination >= 0, balance.destination, fleet.owner)
    elsewhere = fleet.where.allowed[fleet.kind, broker] & (here != broker)
    if not elsewhere.any():
        why = f"{admitted}all eligible bundles are on it already"
    elif (balance.load[here[elsewhere]] < band.low).all():
        why = f"{admitted}the other brokers with eligible bundles are below the target as well"
    else:
        why = (
            f"{admitted}every eligible bundle elsewhere would exceed "
            f"{load_text(fleet, band.high)} there or is needed on its broker"
        )
    return Binding(code="no_bundle_for_it", subject=name, sentence=f"{where}: {why}.")


def _admitted(fleet: FleetColumns, broker: int) -> str:
    """Return the namespaces that the isolation policy of a broker admits, a clause; "" if none."""
    view = fleet.view
    policies = np.flatnonzero(view.is_primary[:, broker])
    if not policies.size:
        return ""
    rows = np.unique(fleet.namespace[fleet.where.allowed[fleet.kind, broker]])
    names = listed([str(view.namespaces[row]) for row in rows])
    return f"isolation policy {view.policies[int(policies[0])].name} admits only {names}; "


def _held_text(fleet: FleetColumns, broker: int) -> str:
    parts = [
        f"{format_bytes_per_s(value)} {HELD_WORDS[reason]}"
        for reason, value in zip(HELD, fleet.held_bytes[broker].tolist(), strict=True)
        if value >= _WORTH_A_WORD_BYTES_PER_S
    ]
    return f" ({'; '.join(parts)})" if parts else ""
