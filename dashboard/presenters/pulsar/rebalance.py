"""What the Rebalance page says: the answer, the candidates side by side, the way to a verdict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pandas as pd

from core.optimize import Proposal
from core.pulsar.plan.clients import ClientImpact
from core.pulsar.shedding import BrokerTrace, Round
from core.pulsar.shedding.gates import distance_in_words, in_words
from core.simulation import RoundResult, Simulation
from core.units import format_bytes_per_s, format_ratio, pluralize
from dashboard.charts.efficiency import EfficiencyCurve
from dashboard.presenters.pulsar.rebalance_plan import OFF_THE_MEAN, cost

IN_FORCE: Final = "● active"
WHAT_IF: Final = "◇ what if"
MAX_BROKERS: Final = 500
_NOTHING: Final = "Nothing to unload: "
MAX_SENTENCES: Final = 8


@dataclass(frozen=True, kw_only=True)
class Line:
    """One strategy next to the others.

    Attributes:
        name: Class name.
        mark: :data:`IN_FORCE`, :data:`WHAT_IF` or nothing.
        settings: What it goes by, ``key=value``.
        first: Its next round.
        acting: Number of its first round with moves; 0: none was found.
        impact: What that round costs.
        simulated: Its rounds to convergence, the sentence why they cannot be, or ``None``:
            they are not there (yet).
        placement: Class that places what it sheds.
        warning: What an unpaired AvgShedder does; blank: it is paired.
    """

    name: str
    mark: str
    settings: str
    first: Round
    acting: int
    impact: ClientImpact
    simulated: Simulation | str | None
    placement: str = ""
    warning: str = ""


def answer(effective: Line | None, off: Sequence[str], optimal: Proposal | None) -> str:
    """Return what the cluster would do and what the optimal plan would.

    Args:
        effective: The strategy in force; ``None``: it is none that is known here.
        off: Switches of the cluster's own balancer that are off, upstream names.
        optimal: The optimal plan; ``None``: not computed.
    """
    parts = [] if effective is None else [_of_cluster(effective, off)]
    if optimal is not None:
        parts.append(_of_optimal(optimal))
    return "; ".join(parts).rstrip(".") + "." if parts else "Choose how the moves are found."


def _of_cluster(line: Line, off: Sequence[str]) -> str:
    standing = f"active here but switched off ({off[0]} is false)" if off else "active here"
    moves = line.first.moves
    if moves:
        return (
            f"{line.name}, {standing}, would unload {pluralize(len(moves), 'bundle')} now "
            f"({cost(line.impact)})"
        )
    if line.acting:
        bundles = pluralize(line.impact.bundles, "bundle")
        return (
            f"{line.name}, {standing}, would unload nothing now, and {bundles} in round "
            f"{line.acting} if the load stays"
        )
    if line.first.skipped:
        selected = pluralize(len(line.first.skipped), "bundle")
        reason, *others = dict.fromkeys(line.first.skipped.values())
        more = f"; {pluralize(len(others), 'other reason')}" if others else ""
        return (
            f"{line.name}, {standing}, would unload nothing now: "
            f"it selects {selected} and unloads none ({reason}{more})"
        )
    return f"{line.name}, {standing}, would do nothing: {_uncapped(line.first.decision.sentence)}"


def _of_optimal(optimal: Proposal) -> str:
    if optimal.verdict == "nothing_to_do":
        return "no move is needed for the goal of the optimal plan"
    if optimal.verdict == "unknown":
        return "the load is unknown, so there is no smallest plan"
    if not optimal.moves:
        return "no move of ours would help either"
    clients = sum(move.clients or 0 for move in optimal.moves)
    moved = format_bytes_per_s(optimal.moved_bytes_per_s)
    short = "" if optimal.verdict == "reached" else ", short of the goal,"
    moves = pluralize(len(optimal.moves), "move")
    before, after = format_ratio(optimal.deviation_before), format_ratio(optimal.deviation_after)
    if _is_relief(optimal):
        effect = f"to bring the busiest broker from {before} to {after} above the line"
    else:
        line = OFF_THE_MEAN if optimal.measure == "throughput" else "deviation from mean usage"
        effect = f"to bring the farthest broker from {before} to {after} {line}"
    who = pluralize(clients, "client")
    return f"the optimal plan{short} needs {moves} ({moved}, {who}) {effect}"


def _is_relief(optimal: Proposal) -> bool:
    """Brokers are only brought under a line: none has too little."""
    return optimal.low == float("-inf")


def _is_comparable(optimal: Proposal) -> bool:
    """Whether its deviation is that of the other candidates: of traffic, from the mean."""
    return optimal.measure == "throughput" and not _is_relief(optimal)


def _uncapped(sentence: str) -> str:
    """The sentence as the end of another one; names keep their capitals."""
    head, _, rest = sentence.removeprefix(_NOTHING).rstrip(".").partition(" ")
    plain = head.lower() if head.isalpha() and head.istitle() else head
    return f"{plain} {rest}".strip()


def table(
    lines: Sequence[Line], optimal: Proposal | None, optimal_name: str, *, is_simulating: bool
) -> pd.DataFrame:
    """Return one row a candidate; ``None`` where a number is not known."""
    rows = [_row(line, is_simulating=is_simulating) for line in lines]
    rows.append(_optimal_row(optimal, optimal_name))
    return pd.DataFrame(rows)


def _row(line: Line, *, is_simulating: bool) -> dict[str, object]:
    simulated = line.simulated if isinstance(line.simulated, Simulation) else None
    row: dict[str, object] = {
        "candidate": line.name,
        "mark": line.mark,
        "now": len(line.first.moves),
        "moves": None,
        "one": None,
        "converged": None,
        "moved": None,
        "clients": None,
        "rounds": "…" if is_simulating and line.simulated is None else "",
        "flaps": None,
        "verdict": _verdict(line),
        "placement": line.placement,
        "settings": line.settings,
    }
    if simulated is None:
        return row
    done = _shed(simulated)
    return row | {
        "moves": sum(len(one.moves) for one in done),
        "one": _percent(done[0].deviation if done else _start(simulated)),
        "converged": _percent(simulated.deviation_after),
        "moved": sum(one.moved_bytes_per_s for one in done) / 1e6,
        "clients": sum(one.clients for one in done),
        "rounds": (
            f"over {simulated.rounds[-1].number}"
            if simulated.rounds_to_converge is None
            else f"{simulated.rounds_to_converge}"
        ),
        "flaps": len(simulated.flaps),
    }


def _shed(simulated: Simulation) -> list[RoundResult]:
    """The rounds of shedding: what a what-if places again at the start is not the strategy's."""
    return [done for done in simulated.rounds if done.number > 0]


def _start(simulated: Simulation) -> float | None:
    """The deviation before the first round, that of the changed fleet where there is a what-if."""
    first = simulated.rounds[0] if simulated.rounds else None
    return first.deviation if first is not None and not first.number else simulated.deviation_before


def _optimal_row(optimal: Proposal | None, name: str) -> dict[str, object]:
    row: dict[str, object] = {
        "candidate": name,
        "mark": "",
        "now": None,
        "moves": None,
        "one": None,
        "converged": None,
        "moved": None,
        "clients": None,
        "rounds": "",
        "flaps": None,
        "verdict": "Not computed for a fleet of this size: choose it.",
        "placement": "",
        "settings": "",
    }
    if optimal is None:
        return row
    after = _percent(optimal.deviation_after) if _is_comparable(optimal) else None
    return row | {
        "now": len(optimal.moves),
        "moves": len(optimal.moves),
        "one": after,
        "converged": after,
        "moved": optimal.moved_bytes_per_s / 1e6,
        "clients": sum(move.clients or 0 for move in optimal.moves),
        "rounds": "1" if optimal.moves else "0",
        "flaps": 0,
        "verdict": optimal.sentence,
        "settings": optimal.goal,
    }


def _verdict(line: Line) -> str:
    if isinstance(line.simulated, str):
        return line.simulated
    pair = f" Unpaired: {line.warning}" if line.warning else ""
    if line.acting > 1:
        return f"Acts in round {line.acting}. {line.first.decision.sentence}{pair}"
    skipped = len(line.first.skipped)
    tail = f" {pluralize(skipped, 'bundle')} held back by the load manager." if skipped else ""
    return line.first.decision.sentence + tail + pair


def _percent(ratio: float | None) -> float | None:
    return None if ratio is None else ratio * 100


def efficiency_curves(
    lines: Sequence[Line], optimal: Proposal | None, optimal_name: str
) -> list[EfficiencyCurve]:
    """Return what each candidate achieves for the traffic it moves, round by round."""
    found = [
        _curve(line.simulated, f"{line.name}{' (what if)' if line.mark == WHAT_IF else ''}")
        for line in lines
        if isinstance(line.simulated, Simulation)
        and any(one.moves for one in _shed(line.simulated))
    ]
    if optimal is not None and optimal.curve and _is_comparable(optimal):
        found.append(
            EfficiencyCurve(
                name=optimal_name,
                moved=np.array([point.moved_bytes_per_s for point in optimal.curve]),
                deviation=np.array([point.deviation for point in optimal.curve]),
                texts=[pluralize(point.moves, "move") for point in optimal.curve],
                is_ours=True,
            )
        )
    return found


def _curve(done: Simulation, name: str) -> EfficiencyCurve:
    rounds = [one for one in _shed(done) if one.moves]
    start = _start(done)
    before = np.nan if start is None else start
    after = [np.nan if one.deviation is None else one.deviation for one in rounds]
    return EfficiencyCurve(
        name=name,
        moved=np.cumsum([0.0, *(one.moved_bytes_per_s for one in rounds)]),
        deviation=np.array([before, *after]),
        texts=[
            "now",
            *(f"round {one.number}, {pluralize(len(one.moves), 'move')}" for one in rounds),
        ],
    )


# -- why -------------------------------------------------------------------------------------------


def ranked(traces: Sequence[BrokerTrace]) -> list[BrokerTrace]:
    """Return the verdicts: the cluster's, those that shed, those nearest to it, then the rest."""
    return sorted(
        traces,
        key=lambda trace: (
            trace.broker is not None,
            not trace.sheds,
            -len(trace.gates),
            trace.gates[-1].distance if trace.gates else float("inf"),
        ),
    )


def gates_table(traces: Sequence[BrokerTrace]) -> pd.DataFrame:
    """Return the last gate of each broker: measured, threshold, distance, verdict."""
    rows = []
    for trace in traces[:MAX_BROKERS]:
        gate = trace.gates[-1] if trace.gates else None
        rows.append(
            {
                "broker": trace.broker or "the cluster",
                "verdict": _sheds(trace),
                "gate": gate.name.rstrip(":") if gate else "",
                "measured": in_words(gate.measured, gate.unit) if gate else "",
                "threshold": in_words(gate.threshold, gate.unit) if gate else "",
                "distance": _distance(gate.distance, gate.unit) if gate else "",
                "why": trace.sentence,
            }
        )
    return pd.DataFrame(rows)


def trail_table(trace: BrokerTrace) -> pd.DataFrame:
    """Return every gate of one broker, in the order in which they are checked."""
    return pd.DataFrame(
        [
            {
                "gate": gate.name.rstrip(":"),
                "measured": in_words(gate.measured, gate.unit),
                "threshold": in_words(gate.threshold, gate.unit),
                "distance": _distance(gate.distance, gate.unit),
                "state": "✓ open" if gate.is_open else "✕ shut",
                "why": gate.sentence,
            }
            for gate in trace.gates
        ]
    )


def _distance(distance: float, unit: str) -> str:
    if not np.isfinite(distance):
        return "out of reach"
    words = distance_in_words(distance, unit)
    return f"{words} to go" if distance > 0 else f"{words} past"


def _sheds(trace: BrokerTrace) -> str:
    if trace.broker is None:
        return "▶ acts" if trace.sheds else "■ rests"
    return "▶ sheds" if trace.sheds else "■ stays"


def bounds_words(optimal: Proposal) -> list[str]:
    """Return what the plan is measured against, and what keeps it from its goal."""
    words = [f"Goal: {optimal.goal}."]
    if optimal.lower_bound_bytes_per_s is None:
        words.append(
            "It is proven that no plan reaches it; none comes below "
            f"{format_ratio(optimal.deviation_floor)} of the mean."
        )
    elif optimal.ratio is not None:
        words.append(
            f"No plan moves less than {format_bytes_per_s(optimal.lower_bound_bytes_per_s)}; "
            f"this one moves {optimal.ratio:.2f} times that."
        )
    words += [item.sentence for item in optimal.binding[:MAX_SENTENCES]]
    more = len(optimal.binding) - MAX_SENTENCES
    if more > 0:
        verb = "is" if more == 1 else "are"
        words.append(f"{pluralize(more, 'more broker')} {verb} held back likewise.")
    return words
