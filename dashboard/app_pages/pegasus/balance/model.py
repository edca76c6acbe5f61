"""Texts and rows of the Balance page: the next round, obstacles, results of the candidates."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np
import pandas as pd

from core.pegasus.balance.model import BalanceOptions, BalancePlan, PlanKind
from core.pegasus.balance.node_order import LikelyPlan
from core.pegasus.balance.preconditions import disk_doubts
from core.pegasus.balance.rounds import BalanceRound
from core.pegasus.balance.score import count_spread
from core.pegasus.even.planner import EvenPlan, signed_deviation
from core.pegasus.even.request import EvenRequest
from core.pegasus.even.weights import node_loads
from core.pegasus.levels import FunctionLevel
from core.pegasus.plan.build import RequestedMove
from core.pegasus.snapshot import PegasusFacts
from core.pegasus.view import ClusterView
from core.plan.options import CopyRate
from core.units import format_band, format_deviation, format_mb, pluralize
from dashboard.presenters.pegasus.copies import time_words, total_cost
from dashboard.queries.pegasus.balance import BalanceBasis, Measure, PolicyRounds

KIND_WORDS: Final = {
    PlanKind.MOVE_PRIMARY: "role change",
    PlanKind.COPY_PRIMARY: "primary copied",
    PlanKind.COPY_SECONDARY: "secondary copied",
}
NO_CHANGE: Final = "no change"
POLICY_NAMES: Final = {"app": "App policy", "cluster": "Cluster policy"}
_ORDER_WORDS: Final = (
    "Between equal nodes, upstream takes the first in the order of its hash map. That order "
    "is not readable, so single choices may differ from the actual ones; counts and final "
    "state hardly differ."
)


def order_words() -> str:
    """Return the help text for the order of nodes."""
    return _ORDER_WORDS


def changes_words(plans: Sequence[BalancePlan]) -> str:
    """Return the kinds of plans, without counts: ``role changes and copies``."""
    kinds = {plan.kind is PlanKind.MOVE_PRIMARY for plan in plans}
    if kinds == {True, False}:
        return "role changes and copies"
    return "role changes only" if True in kinds else "copies only"


def recommended(rows: Sequence[CandidateRow], target_ratio: float) -> str:
    """Return the name of the candidate that reaches the target with the least copied data.

    Returns:
        Of equal ones that with the fewest changes; empty while one is not computed, or if no
        change is needed, or none reaches the target.
    """
    known = [one for one in rows if one.off is not None]
    if len(known) < len(rows) or (rows and abs(rows[0].off or 0.0) <= target_ratio):
        return ""
    even = [one for one in known if abs(one.off or 0.0) <= target_ratio]
    best = min(even, key=lambda one: (one.copy_mb or 0.0, one.changes or 0), default=None)
    return "" if best is None else best.name


# -- the answer --------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class CandidateEffect:
    """The effect of one candidate at its end.

    Attributes:
        measure: What is compared.
        before: Max deviation of a node, share of the mean, signed; ``None``: nothing is known.
        after: The same at the end; ``None``: not computed.
        copied_mb: Copied data; ``None``: not computed, or unknown.
    """

    measure: Measure
    before: float | None
    after: float | None
    copied_mb: float | None

    def describe(self, target_ratio: float) -> str:
        """Return ``max deviation of primaries +107% → +9.4%, within target ±10%; no data copied``.

        Args:
            target_ratio: Half width of the target band.
        """
        is_within = self.after is not None and abs(self.after) <= target_ratio
        copied = format_mb(self.copied_mb) if self.copied_mb else "no data"
        return (
            f"max deviation of {self.measure} {format_deviation(self.before)} → "
            f"{format_deviation(self.after)}, {'within' if is_within else 'outside'} target "
            f"{format_band(target_ratio)}; {copied} copied"
        )


def answer(
    facts: PegasusFacts,
    basis: BalanceBasis,
    first: BalanceRound,
    run: PolicyRounds | None,
    effect: CandidateEffect,
    policy: str,
) -> str:
    """Return the sentence about a policy of the cluster's balancer.

    Args:
        facts: The snapshot.
        basis: The same, as the policies take it.
        first: Its next round.
        run: Its rounds to the end; ``None``: not known yet.
        effect: Of these rounds.
        policy: ``app`` or ``cluster``.
    """
    level = facts.effective_level
    name = POLICY_NAMES[policy].lower()
    head = f"Level {level.word if level else 'unknown'}"
    if basis.obstacles:
        columns = facts.columns
        waits = not columns.is_guardian_healthy.all() or columns.is_child.any()
        why = facts.verdict().sentence if waits else basis.obstacles[0]
        return f"{head}; the {name} waits. {why}"
    if not first.plans:
        return f"{head}; {name}: no changes."
    who = f"{name[0].upper()}{name[1:]}" if level is FunctionLevel.LIVELY else f"At lively, {name}"
    if run is None:
        return f"{head}. {who}: {changes_words(first.plans)}."
    end = "" if run.is_converged else "; does not converge"
    return f"{head}. {who}: {effect.describe(facts.target_ratio)}{end}."


def even_answer(plan: EvenPlan | None, effect: CandidateEffect, target_ratio: float) -> str:
    """Return the sentence about the plan of our own planner.

    Args:
        plan: ``None`` while it is computed.
        effect: Of the plan.
        target_ratio: Half width of the target band.
    """
    if plan is None:
        return "Optimizer: computing."
    if not plan.steps:
        return f"Optimizer: {verdict_words(plan)}, no changes."
    return f"Optimizer: {effect.describe(target_ratio)}."


def why_not(
    facts: PegasusFacts, basis: BalanceBasis, first: BalanceRound, options: BalanceOptions
) -> list[str]:
    """Return the reasons why the balancer is idle, one sentence each; empty if it is active."""
    found = [*basis.obstacles, *disk_doubts(basis.view, options.policy)]
    level = facts.effective_level
    if level is None:
        found.append("The effective level is unknown; the balancer acts at lively only.")
    elif level is FunctionLevel.STEADY:
        found.append("At level steady the balancer counts changes and executes none.")
    elif level < FunctionLevel.LIVELY:
        found.append(f"At level {level.word} the balancer is off.")
    if not first.plans:
        found += nothing_words(basis.view, options)
    return found


def nothing_here(basis: BalanceBasis) -> str:
    """Return the text for a candidate without changes."""
    return (
        "Planning is not possible in this state."
        if basis.obstacles
        else "No changes by this candidate."
    )


def nothing_words(view: ClusterView, options: BalanceOptions) -> list[str]:
    """Return the reasons why a round is empty although the state permits balancing."""
    found = []
    resting = int((~view.is_balanceable).sum())
    if resting:
        found.append(f"{pluralize(resting, 'table')} in a bulk load or a split skipped.")
    if options.policy == "cluster":
        totals = view.replica_counts.sum(axis=0)
        gap = int(totals.max() - totals.min()) if len(totals) else 0
        found.append(
            f"Replica gap between nodes: {gap:,}. At 1 or less, the cluster policy makes no "
            "changes, even if single tables are unbalanced."
            if gap <= 1
            else f"Replica gap between nodes: {gap:,}; no allowed copy reduces it."
        )
        return found
    if options.ignored_app_ids:
        found.append(f"{pluralize(len(options.ignored_app_ids), 'table')} ignored by the settings.")
    uneven = uneven_tables(view)
    if not uneven:
        found.append(
            "Every table is balanced within ±1 replica per node, which is enough for the app "
            "policy: it ignores traffic and size."
        )
    elif options.only_move_primary or options.only_primary_balancer:
        switches = " and ".join(
            name
            for name in ("only_primary_balancer", "only_move_primary")
            if getattr(options, name)
        )
        found.append(f"{pluralize(uneven, 'table')} unbalanced, but {switches} allows no move.")
    return found


def uneven_tables(view: ClusterView) -> int:
    """Return the number of tables with a node off its fair share of primaries or replicas."""
    nodes = max(len(view.nodes), 1)
    uneven = np.zeros(view.table_count, dtype=np.bool_)
    totals = view.primary_counts.sum(axis=1), view.replica_counts.sum(axis=1)
    for counts, total in zip((view.primary_counts, view.replica_counts), totals, strict=True):
        low, high = total // nodes, -(-total // nodes)
        uneven |= (counts < low[:, None]).any(axis=1) | (counts > high[:, None]).any(axis=1)
    return int(uneven.sum())


# -- quirks ------------------------------------------------------------------------------------


def quirks(
    options: BalanceOptions,
    view: ClusterView,
    run: PolicyRounds | None,
    plans: Sequence[BalancePlan],
) -> list[str]:
    """Return the known quirks of the policy that apply here."""
    found = []
    kinds = {plan.kind for plan in plans}
    if options.policy == "cluster":
        found.append("The policy starts each table with a skew of 1 and processes tables by ID.")
        if options.ignored_app_ids:
            found.append(
                "The policy does not read the list of ignored tables and moves them as well."
            )
        if (view.max_replica_counts == 1).any():
            found.append(
                "A table has a single replica. A meta server may crash on it under this "
                "policy; the simulation excludes the table."
            )
    if kinds - {PlanKind.MOVE_PRIMARY}:
        found.append(
            "Disk loads are not updated during planning: several copies may leave the same disk."
        )
    if any(
        plan.kind is PlanKind.COPY_PRIMARY and plan.target in view.members[plan.row].tolist()
        for plan in plans
    ):
        found.append(
            "The destination of a primary copy already serves the partition; the guardian "
            "discards the copy."
        )
    if run is not None and not run.is_converged:
        found.append(
            f"No convergence after {pluralize(len(run.rounds), 'round')}: the policy loops or "
            "the simulation was stopped."
        )
    return found


def without_switches(options: BalanceOptions) -> BalanceOptions:
    """Return the same policy with everything on that switches keep it from."""
    return replace(
        options,
        only_move_primary=False,
        only_primary_balancer=False,
        balancer_in_turn=False,
        ignored_app_ids=frozenset(),
    )


@dataclass(frozen=True, kw_only=True)
class CandidateRow:
    """Results of one candidate; ``None`` if not computed yet or not applicable.

    Attributes:
        name: Of the candidate.
        mark: ``in force`` where the cluster goes by it.
        next_changes: Changes of its next round, or of all for the planner.
        changes: Changes until it is done.
        rounds: Rounds until it is done.
        copies: Replicas copied.
        copy_mb: Megabytes of them.
        least: What no plan that reaches the goal undercuts.
        takes: How long the copies take.
        primary_stddev: Of primaries at the end.
        replica_stddev: Of replicas at the end.
        off: Max deviation of a node from the mean of the chosen measure at the end, share of the
            mean, with its sign.
        note: What else is to be said.
    """

    name: str
    mark: str = ""
    next_changes: int | None = None
    changes: int | None = None
    rounds: int | None = None
    copies: int | None = None
    copy_mb: float | None = None
    least: str = ""
    takes: str = ""
    primary_stddev: float | None = None
    replica_stddev: float | None = None
    off: float | None = None
    note: str = ""


def off_mean(view: ClusterView, basis: BalanceBasis, measure: Measure) -> float | None:
    """Return the max deviation of a node, share of the mean, signed; ``None``: nothing is known."""
    weights = basis.weights(measure, view)
    return signed_deviation(node_loads(view, weights)) if weights.is_known.any() else None


def as_it_is(basis: BalanceBasis, measure: Measure) -> CandidateRow:
    """Return the row of doing nothing."""
    spread = count_spread(basis.view)
    return CandidateRow(
        name=NO_CHANGE,
        primary_stddev=spread.primary_stddev,
        replica_stddev=spread.replica_stddev,
        off=off_mean(basis.view, basis, measure),
    )


def policy_row(
    row: CandidateRow,
    basis: BalanceBasis,
    run: PolicyRounds | None,
    *,
    measure: Measure,
    rate: CopyRate,
) -> CandidateRow:
    """Return the row of a policy, filled with the results of its rounds.

    Args:
        row: Name, mark, next changes, and what to say while its end is not known.
        basis: The snapshot.
        run: Its rounds; ``None``: not known yet.
        measure: What the candidates are compared by.
    """
    if run is None:
        return row
    cost = total_cost(run.costs, len(run.before.nodes))
    spread = run.spreads[-1] if run.spreads else count_spread(run.after)
    return replace(
        row,
        changes=len(run.plans),
        rounds=len(run.rounds),
        copies=cost.copy_count,
        copy_mb=cost.copy_mb,
        takes=time_words(cost, basis, rate),
        primary_stddev=spread.primary_stddev,
        replica_stddev=spread.replica_stddev,
        off=off_mean(run.after, basis, measure),
        note="converges" if run.is_converged else "does not converge",
    )


def even_row(
    row: CandidateRow,
    basis: BalanceBasis,
    plan: EvenPlan | None,
    *,
    measure: Measure,
    rate: CopyRate,
) -> CandidateRow:
    """Return the row of our own planner, filled with its results."""
    if plan is None:
        return replace(row, note="computing")
    spread = count_spread(plan.end)
    return replace(
        row,
        next_changes=len(plan.steps),
        changes=len(plan.steps),
        rounds=1 if plan.steps else 0,
        copies=plan.cost.copy_count,
        copy_mb=plan.cost.copy_mb,
        least=pluralize(plan.bound.step_count, "change"),
        takes=time_words(plan.cost, basis, rate),
        primary_stddev=spread.primary_stddev,
        replica_stddev=spread.replica_stddev,
        off=off_mean(plan.end, basis, measure),
        note=verdict_words(plan),
    )


def verdict_words(plan: EvenPlan) -> str:
    """Return the verdict of the search."""
    said = {
        "nothing_to_do": "already within target",
        "reached": "reaches target",
        "best_effort": "best achievable",
        "unknown": "measure unknown",
    }[plan.verdict]
    return f"{said}; {plan.unknown_count:,} unknown" if plan.unknown_count else said


def rows_frame(rows: Sequence[CandidateRow]) -> pd.DataFrame:
    """Return one row a candidate."""
    return pd.DataFrame(
        {
            "candidate": [row.name for row in rows],
            "mark": [row.mark for row in rows],
            "next": _column(row.next_changes for row in rows),
            "changes": _column(row.changes for row in rows),
            "rounds": _column(row.rounds for row in rows),
            "copies": _column(row.copies for row in rows),
            "copy_mb": _column(row.copy_mb for row in rows),
            "takes": [row.takes for row in rows],
            "least": [row.least for row in rows],
            "off": _column(None if row.off is None else row.off * 100 for row in rows),
            "primary_stddev": _column(row.primary_stddev for row in rows),
            "replica_stddev": _column(row.replica_stddev for row in rows),
            "note": [row.note for row in rows],
        }
    )


def _column(values: Iterable[float | None]) -> pd.Series[float]:
    return pd.Series(list(values), dtype="float64")


def ties_frame(plans: Sequence[LikelyPlan]) -> pd.DataFrame:
    """Return the changes that depend on the node order, the most likely first."""
    tied = sorted((plan for plan in plans if plan.share < 1), key=lambda one: -one.share)
    return pd.DataFrame(
        {
            "partition": [one.gpid for one in tied],
            "change": [KIND_WORDS[one.kind] for one in tied],
            "source": [one.source for one in tied],
            "target": [one.target for one in tied],
            "share_pct": [one.share * 100 for one in tied],
        }
    )


_SWITCHES: Final = (
    "only_move_primary",
    "only_primary_balancer",
    "balancer_in_turn",
    "intended_skew",
    "balance_op_count_per_round",
)


def policy_command(snapshot: Path, options: BalanceOptions, here: BalanceOptions) -> str:
    """Return the line that shows a policy's rounds to the end.

    Args:
        snapshot: The directory of the saved snapshot.
        options: The policy with its switches.
        here: The cluster's own.
    """
    line = ["trimtab", "pegasus", "balance", str(snapshot), "--rounds", "0"]
    if options.policy != here.policy:
        line += ["--policy", options.policy]
    for name in _SWITCHES:
        value = getattr(options, name)
        if value != getattr(here, name):
            line += ["--set", f"{name}={json.dumps(value)}"]
    if options.ignored_app_ids != here.ignored_app_ids:
        ids = json.dumps(sorted(options.ignored_app_ids), separators=(",", ":"))
        line += ["--set", f"ignored_app_list={ids}"]
    return shlex.join(line)


def even_command(cluster: str, request: EvenRequest) -> str:
    """Return the line that prepares the plan of our own planner."""
    line = ["trimtab", "pegasus", "even", cluster, "--by", request.measure]
    if request.within_percent is not None:
        line += ["--within", f"{request.within_percent:g}"]
    if request.max_moves is not None:
        line += ["--moves", str(request.max_moves)]
    line += [] if request.copy else ["--no-copy"]
    return shlex.join([*line, "--all-moves"] if request.all_moves else line)


def move_command(cluster: str, move: RequestedMove, *, is_held: bool) -> str:
    """Return the line that prepares one move by hand."""
    line = ["trimtab", "pegasus", "move", cluster, move.gpid, move.move]
    line += ["--from", move.source, "--to", move.target]
    return shlex.join([*line, "--steady"] if is_held else line)
