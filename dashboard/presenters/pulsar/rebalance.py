"""Data of the Rebalance page: the candidates, their results, the gates to a verdict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pandas as pd

from core.optimize import Proposal
from core.pulsar.plan.clients import ClientImpact
from core.pulsar.shedding import BrokerTrace, Gate, Round
from core.pulsar.shedding.gates import distance_in_words, in_words
from core.simulation import RoundResult, Simulation
from core.units import format_band, format_bytes_per_s, format_ratio, pluralize
from dashboard.charts.efficiency import EfficiencyCurve

IN_FORCE: Final = "● active"
SWITCHED_OFF: Final = "configured, off"
WHAT_IF: Final = "◇ what if"
MAX_BROKERS: Final = 500
MAX_SENTENCES: Final = 8
MAX_REACHED: Final = 2.0
"""Times its threshold that fill the bar of a gate."""


@dataclass(frozen=True, kw_only=True)
class StrategyRow:
    """One row of the table of strategies.

    Attributes:
        name: Class name.
        mark: :data:`IN_FORCE`, :data:`SWITCHED_OFF`, :data:`WHAT_IF` or nothing.
        settings: What it goes by, ``key=value``.
        first: Its next round; ``None``: it is being computed, or that failed.
        acting: Number of its first round with moves; 0: none was found.
        impact: What that round costs; ``None`` where there is no next round.
        simulated: Its rounds to convergence, the sentence why they cannot be, or ``None``:
            they are not there (yet).
        placement: Class that places what it sheds.
        warning: What an unpaired AvgShedder does; blank: it is paired.
        failure: The sentence why its rounds cannot be computed; blank: they can.
    """

    name: str
    mark: str
    settings: str
    first: Round | None
    acting: int
    impact: ClientImpact | None
    simulated: Simulation | str | None
    placement: str = ""
    warning: str = ""
    failure: str = ""

    @property
    def is_pending(self) -> bool:
        """Whether its next round is being computed."""
        return self.first is None and not self.failure


def _is_relief(optimal: Proposal) -> bool:
    """Brokers are only brought under a line: none has too little."""
    return optimal.low == float("-inf")


def _is_comparable(optimal: Proposal) -> bool:
    """Whether its deviation is that of the other candidates: of traffic, from the mean."""
    return optimal.measure == "throughput" and not _is_relief(optimal)


def table(
    lines: Sequence[StrategyRow], optimal: Proposal | None, optimal_name: str
) -> pd.DataFrame:
    """Return one row a candidate, the optimal plan first; ``None`` where a number is not known.

    Where the rounds are not simulated, moves and their cost are those of the first round that
    moves something, and what comes of it is not known.
    """
    return pd.DataFrame([_optimal_row(optimal, optimal_name), *(_row(line) for line in lines)])


def _row(line: StrategyRow) -> dict[str, object]:
    simulated = line.simulated if isinstance(line.simulated, Simulation) else None
    row: dict[str, object] = {
        "candidate": line.name,
        "mark": line.mark,
        "now": None,
        "moves": None,
        "one": None,
        "after": None,
        "moved": None,
        "clients": None,
        "rounds": "",
        "flaps": None,
        "placement": line.placement,
        "pair": "unpaired" if line.warning else "",
        "settings": line.settings,
    }
    if line.first is not None and line.impact is not None:
        row |= {
            "now": len(line.first.moves),
            "moves": line.impact.bundles,
            "moved": _megabytes(line.impact.throughput_bytes_per_s),
            "clients": line.impact.clients,
            "rounds": f"{line.acting}",
        }
    if simulated is None:
        return row
    done = _shed(simulated)
    return row | {
        "moves": sum(len(one.moves) for one in done),
        "one": _percent(done[0].deviation if done else _start(simulated)),
        "after": _percent(simulated.deviation_after),
        "moved": sum(one.moved_bytes_per_s for one in done) / 1e6,
        "clients": sum(one.clients for one in done),
        "rounds": (
            f"{simulated.rounds[-1].number}+"
            if simulated.rounds_to_converge is None
            else f"{simulated.rounds_to_converge}"
        ),
        "flaps": len(simulated.flaps),
    }


def _megabytes(bytes_per_s: float | None) -> float | None:
    return None if bytes_per_s is None else bytes_per_s / 1e6


def _shed(simulated: Simulation) -> list[RoundResult]:
    """Return the rounds of shedding, without the placements at the start of a what-if."""
    return [done for done in simulated.rounds if done.number > 0]


def _start(simulated: Simulation) -> float | None:
    """Return the deviation before the first round; with a what-if, of the changed fleet."""
    first = simulated.rounds[0] if simulated.rounds else None
    return first.deviation if first is not None and not first.number else simulated.deviation_before


def _optimal_row(optimal: Proposal | None, name: str) -> dict[str, object]:
    row: dict[str, object] = {
        "candidate": name,
        "mark": "",
        "now": None,
        "moves": None,
        "one": None,
        "after": None,
        "moved": None,
        "clients": None,
        "rounds": "",
        "flaps": None,
        "placement": "",
        "pair": "",
        "settings": "",
    }
    if optimal is None:
        return row
    after = _percent(optimal.deviation_after) if _is_comparable(optimal) else None
    return row | {
        "now": len(optimal.moves),
        "moves": len(optimal.moves),
        "one": after,
        "after": after,
        "moved": optimal.moved_bytes_per_s / 1e6,
        "clients": sum(move.clients or 0 for move in optimal.moves),
        "rounds": "1" if optimal.moves else "0",
        "flaps": 0,
        "settings": optimal.goal,
    }


def _percent(ratio: float | None) -> float | None:
    return None if ratio is None else ratio * 100


def efficiency_curves(
    lines: Sequence[StrategyRow], optimal: Proposal | None, optimal_name: str
) -> list[EfficiencyCurve]:
    """Return deviation and moved traffic of each candidate by round."""
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
    """Return the last gate of each broker: measured against threshold, distance, verdict."""
    rows = []
    for trace in traces[:MAX_BROKERS]:
        gate = trace.gates[-1] if trace.gates else None
        rows.append(
            {"broker": trace.broker or "the cluster", "verdict": _sheds(trace)}
            | ({"gate": ""} | dict.fromkeys(_GATE, None) if gate is None else _gate(gate))
        )
    return pd.DataFrame(rows)


_GATE: Final = ("reached", "measured", "threshold", "distance")


def trail_table(trace: BrokerTrace) -> pd.DataFrame:
    """Return every gate of one broker, in the order in which they are checked."""
    return pd.DataFrame(
        [_gate(gate) | {"state": "✓ met" if gate.is_open else "✕ not met"} for gate in trace.gates]
    )


def _gate(gate: Gate) -> dict[str, object]:
    return {
        "gate": gate.name.rstrip(":"),
        "reached": _reached(gate),
        "measured": in_words(gate.measured, gate.unit),
        "threshold": in_words(gate.threshold, gate.unit),
        "distance": _distance(gate.distance, gate.unit),
    }


def _reached(gate: Gate) -> float | None:
    """Return the measured value in percent of its threshold, for a bar."""
    if not np.isfinite(gate.measured) or not gate.threshold > 0 or np.isinf(gate.threshold):
        return None
    return float(max(gate.measured / gate.threshold, 0.0) * 100)


def _distance(distance: float, unit: str) -> str:
    if not np.isfinite(distance):
        return "not reachable"
    words = distance_in_words(distance, unit)
    return f"{words} to threshold" if distance > 0 else f"{words} past threshold"


def _sheds(trace: BrokerTrace) -> str:
    return "▶ sheds" if trace.sheds else "■ no move"


def missed_target(optimal: Proposal, target_ratio: float) -> str:
    """Return the target that the optimal plan misses, in a few words; empty: it reaches it.

    Args:
        optimal: The plan.
        target_ratio: Half width of the target band; a relief has its own limit.
    """
    if optimal.verdict != "best_effort":
        return ""
    target = f"max usage {format_ratio(optimal.high)}" if _is_relief(optimal) else None
    is_proven = optimal.lower_bound_bytes_per_s is None
    outcome = "not reachable" if is_proven else "not reached"
    return f"Target {target or format_band(target_ratio)} {outcome}"


def missed_target_sentence(optimal: Proposal, target_ratio: float) -> str:
    """Return :func:`missed_target` with what the plan reaches, and what none can undercut."""
    missed = missed_target(optimal, target_ratio)
    if not missed or optimal.deviation_after is None:
        return missed and f"{missed}."
    parts = [f"best plan: {_extreme(optimal, optimal.deviation_after)}"]
    if optimal.lower_bound_bytes_per_s is None:
        parts.append(f"lower bound: {_extreme(optimal, optimal.deviation_floor)}")
    return f"{missed}; {', '.join(parts)}. Reasons: tab Why."


def _extreme(optimal: Proposal, ratio: float) -> str:
    """Return a deviation band, or with a relief the usage of the busiest broker."""
    if _is_relief(optimal):
        return f"max usage {format_ratio(optimal.high * (1 + ratio))}"
    return format_band(ratio)


def bounds_words(optimal: Proposal) -> list[str]:
    """Return the target of the plan and the reasons why it is not reached."""
    words = [f"Target: {optimal.goal}."]
    if optimal.lower_bound_bytes_per_s is None:
        words.append(f"Not reachable. Lower bound: {_extreme(optimal, optimal.deviation_floor)}.")
    elif optimal.ratio is not None:
        words.append(
            f"Lower bound of the moved traffic: "
            f"{format_bytes_per_s(optimal.lower_bound_bytes_per_s)}; this plan: "
            f"{optimal.ratio:.2f} times that."
        )
    words += [item.sentence for item in optimal.binding[:MAX_SENTENCES]]
    more = len(optimal.binding) - MAX_SENTENCES
    if more > 0:
        words.append(f"{pluralize(more, 'more broker')} with the same verdict.")
    return words
