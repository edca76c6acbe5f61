"""The policy: the cluster policy in circles or stuck, the app policy blind to the whole.

Source: Pegasus ``cluster_balance_policy``, ``app_balance_policy`` (quirks PB-1, PB-3, PB-5, PB-6 of
:mod:`core.pegasus`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from core.diagnosis.model import Cause, Effect
from core.diagnosis.pegasus.context import PegasusDiagnosisContext, Proof
from core.diagnosis.pegasus.trials import Change, TimeUpError, Trial, compared_nodes
from core.findings.finding import Fix
from core.pegasus.snapshot import SWITCHES
from core.units import format_ratio, pluralize

CLUSTER: Final = "balance_cluster"
COUNT: Final = "balance_op_count_per_round"
_COUNTS: Final = (1, 2, 5, 20, 50, 100)
_UNEVEN_RATIO: Final = 0.05
_UNEVEN_COUNT: Final = 3.0

_Option = tuple[dict[str, object], dict[str, str]]
"""Options of the balancer, and the settings that make them."""

_TO_APP: Final[_Option] = ({"policy": "app"}, {CLUSTER: "false"})
_TO_CLUSTER: Final[_Option] = ({"policy": "cluster"}, {CLUSTER: "true"})


def policy_circles(context: PegasusDiagnosisContext) -> Iterator[Cause]:
    """The rounds of the cluster policy lead back to an earlier state, and go on for ever.

    The app policy was never seen to: what it plans makes a table more even.
    """
    if context.options.policy != "cluster":
        return
    try:
        trial = context.trials.trial(context.opened)
    except TimeUpError:
        return
    if trial.converges or trial.missing or not trial.moves:
        return
    best = _best(context, _counts(context, _TO_APP), context.opened)
    if best is None:
        return
    wanted, _, effect = best
    yield Cause(
        code="policy_circles",
        keys=tuple(dict.fromkeys((CLUSTER, *wanted))),
        objects=_circling(trial),
        summary=f"The cluster policy does not converge: {pluralize(trial.moves, 'move')} in "
        f"{pluralize(trial.rounds, 'round')} lead back to an earlier state"
        f"{f'; {trial.returned:,} returned' if trial.returned else ''}.",
        effect=effect,
        fix=Fix(wanted={**wanted, **context.prerequisites}),
        hint="It plans the same copies again and again: change it before the level is "
        "lively again.",
        measured=float(trial.returned),
        threshold=0.0,
        unit="moves back",
    )


def policy_leaves_uneven(context: PegasusDiagnosisContext) -> Iterator[Cause]:
    """The policy converges, and the other one ends more even."""
    try:
        trial = context.trials.trial(_free(context))
    except TimeUpError:
        return
    if not trial.converges or trial.missing:
        return
    if context.options.policy == "cluster":
        yield from _stuck_cluster(context)
    elif _is_uneven(context, trial):
        yield from _per_table(context, trial)


def _per_table(context: PegasusDiagnosisContext, trial: Trial) -> Iterator[Cause]:
    candidates = _counts(context, _TO_CLUSTER) if _may_take_cluster(context) else ()
    best = _best(context, candidates, _free(context))
    if best is None:
        return
    wanted, proof, effect = best
    tables = pluralize(int(context.view.is_balanceable.sum()), "table")
    ignored = context.options.ignored_app_ids
    yield Cause(
        code="policy_per_table",
        keys=(CLUSTER, *(key for key in wanted if key != CLUSTER)),
        summary=f"balance_cluster is false: the balancer balances {tables} separately, and "
        f"nodes remain up to {format_ratio(context.over_nodes(trial.end))} above the "
        "mean over all tables.",
        effect=effect,
        fix=Fix(wanted={**wanted, **context.prerequisites}),
        hint="Set it while you balance; at steady the cluster policy counts no operations."
        + (" It also balances the ignored tables." if ignored else ""),
        measured=proof.effect.before.deviation,
        threshold=proof.effect.after.deviation,
        unit="ratio",
    )


def cluster_policy_barred(context: PegasusDiagnosisContext) -> Iterator[str]:
    """Give a note where a table with one replica rules the cluster policy out."""
    try:
        trial = context.trials.trial(_free(context))
    except TimeUpError:
        return
    if (
        context.options.policy == "cluster"
        or _may_take_cluster(context)
        or not _is_uneven(context, trial)
    ):
        return
    view = context.view
    name = view.app_names[int(np.flatnonzero(view.max_replica_counts <= 1)[0])]
    yield (
        f"balance_cluster was not simulated: {name} has a single replica, and the "
        "cluster policy crashes the leading meta server on such a table."
    )


def _stuck_cluster(context: PegasusDiagnosisContext) -> Iterator[Cause]:
    best = _best(context, _counts(context, _TO_APP), context.opened)
    if best is None:
        return
    wanted, proof, effect = best
    yield Cause(
        code="policy_whole_cluster",
        keys=tuple(dict.fromkeys((CLUSTER, *wanted))),
        objects=(proof.table,) if proof.table else (),
        summary="balance_cluster is true: the balancer balances the sum over all tables and "
        "leaves a deviation of "
        f"{format_ratio(proof.effect.before.deviation)}{proof.scope}.",
        effect=effect,
        fix=Fix(wanted={**wanted, **context.prerequisites}),
        hint="The cluster policy stops when node totals differ by one, even if tables are uneven.",
        measured=proof.effect.before.deviation,
        threshold=proof.effect.after.deviation,
        unit="ratio",
    )


def _counts(context: PegasusDiagnosisContext, other: _Option) -> tuple[_Option, ...]:
    """Return the other policy, and other numbers of copies a round under the cluster policy."""
    options, settings = other if other is _TO_CLUSTER else ({}, {})
    present = context.options.balance_op_count_per_round
    counted: list[_Option] = [
        ({**options, COUNT: number}, {**settings, COUNT: str(number)})
        for number in _COUNTS
        if number != present
    ]
    return (other, *counted)


def _may_take_cluster(context: PegasusDiagnosisContext) -> bool:
    """A table with one replica kills the leading meta server under the cluster policy (PB-3)."""
    return bool((context.view.max_replica_counts > 1).all())


def _best(
    context: PegasusDiagnosisContext, options: tuple[_Option, ...], before: Change
) -> tuple[dict[str, str], Proof, Effect] | None:
    """Return the settings that end most even, of equal ones those with fewest moves."""
    found = []
    for place, (changed, wanted) in enumerate(options):
        change = before.with_options(**changed)
        proof = context.proven(before, change)
        if proof is not None:
            after = proof.effect.after
            rank = (bool(proof.table), round(after.deviation or 0.0, 2), after.moves, place)
            found.append((rank, wanted, proof, change))
    if not found:
        return None
    _, wanted, proof, change = min(found, key=lambda one: one[0])
    return wanted, proof, context.effect_of_fix(proof, change)


def _free(context: PegasusDiagnosisContext) -> Change:
    """Return the balancer at work without the switches that hold it back: they are causes apart."""
    if context.options.policy == "cluster":
        return context.opened
    held = {name: False for name in SWITCHES if getattr(context.options, name)}
    if context.options.ignored_app_ids:
        return context.opened.with_options(**held, ignored_app_ids=frozenset[int]())
    return context.opened.with_options(**held) if held else context.opened


def _is_uneven(context: PegasusDiagnosisContext, trial: Trial) -> bool:
    compared = compared_nodes(trial.end, context.facts.columns.set_aside)
    held = trial.end.replica_counts.sum(axis=0)[compared]
    led = trial.end.primary_counts.sum(axis=0)[compared]
    if not held.sum():
        return False
    off = max(float(np.abs(one - one.mean()).max()) for one in (held, led))
    return (context.over_nodes(trial.end) or 0.0) > _UNEVEN_RATIO and off >= _UNEVEN_COUNT


def _circling(trial: Trial) -> tuple[str, ...]:
    """Return the tables that differ most between start and end."""
    changed = (trial.start.members != trial.end.members).any(axis=1)
    counts = np.bincount(trial.start.table_of_row[changed], minlength=trial.start.table_count)
    at = np.argsort(-counts, kind="stable")
    return tuple(trial.start.app_names[place] for place in at.tolist() if counts[place])[:8]
