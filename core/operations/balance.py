"""Rounds of the meta server's balancer, as tables: for jobs."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from core.operations.operation import Job, JobSummary, Operation, Rows, Tables, counted_summary
from core.pegasus.balance.model import BalanceOptions, Pick
from core.pegasus.balance.request import BalanceRequest
from core.pegasus.balance.rounds import (
    MAX_ROUNDS,
    BalanceRound,
    pick_by_seed,
    pick_first,
    rounds_until_converged,
)
from core.pegasus.balance.score import count_spread
from core.pegasus.balance.settings import set_options
from core.pegasus.snapshot import PegasusFacts
from core.pegasus.view import ClusterView
from core.progress import Progress
from core.units import pluralize

BALANCES: Final = pa.schema(
    [
        pa.field("policy", pa.string(), nullable=False),
        pa.field("rounds", pa.int64(), nullable=False),
        pa.field("is_converged", pa.bool_(), nullable=False),
        pa.field("plans", pa.int64(), nullable=False),
        pa.field("primaries_std_before", pa.float64()),
        pa.field("primaries_std_after", pa.float64()),
        pa.field("replicas_std_before", pa.float64()),
        pa.field("replicas_std_after", pa.float64()),
        pa.field("assumed", pa.string(), nullable=False),  # switches the cluster did not report
    ]
)
"""One row a cluster."""

PLANS: Final = pa.schema(
    [
        pa.field("round", pa.int64(), nullable=False),
        pa.field("gpid", pa.string(), nullable=False),
        pa.field("kind", pa.string(), nullable=False),
        pa.field("source", pa.string(), nullable=False),
        pa.field("target", pa.string(), nullable=False),
    ]
)
"""One row a partition that changes, in the order of the plans."""


Rounds = Callable[[ClusterView, BalanceOptions, Pick], Iterator[BalanceRound]]


def balance_rounds(facts: PegasusFacts, request: BalanceRequest, _: Progress) -> Rows:
    """Simulate the rounds of a cluster.

    Raises:
        InputError: A switch does not exist.
        IncompleteSnapshotError: Partitions of some table were not read.
    """
    return balance_tables(facts, request, rounds_until_converged)


def balance_tables(facts: PegasusFacts, request: BalanceRequest, rounds_of: Rounds) -> Rows:
    """Return the tables of a cluster.

    Args:
        facts: It.
        request: What is simulated.
        rounds_of: Gives rounds until the cluster converges.
    """
    stored, assumed = facts.options()
    options = set_options(stored, request.settings)
    if request.policy is not None:
        options = replace(options, policy=request.policy)
    limit = 1 if options.is_check else min(request.rounds or MAX_ROUNDS, MAX_ROUNDS)
    pick = pick_first if request.seed is None else pick_by_seed(request.seed)
    rounds = list(itertools.islice(rounds_of(facts.view(), options, pick), limit))
    plans = [row for number, one in enumerate(rounds, 1) for row in _plans(number, one)]
    balance = _balance(options, rounds, assumed)
    return Rows(
        {
            "balances": pa.Table.from_pylist([balance], schema=BALANCES),
            "plans": pa.Table.from_pylist(plans, schema=PLANS),
        }
    )


def _balance(
    options: BalanceOptions, rounds: list[BalanceRound], assumed: list[str]
) -> dict[str, Any]:
    was, now = count_spread(rounds[0].before), count_spread(rounds[-1].after)
    counts = Counter(plan.kind for one in rounds for plan in one.plans)
    return {
        "policy": options.policy,
        "rounds": len(rounds),
        "is_converged": not rounds[-1].plans,
        "plans": counts.total(),
        "primaries_std_before": was.primary_stddev,
        "primaries_std_after": now.primary_stddev,
        "replicas_std_before": was.replica_stddev,
        "replicas_std_after": now.replica_stddev,
        "assumed": ", ".join(assumed),
    }


def _plans(number: int, done: BalanceRound) -> list[dict[str, Any]]:
    view = done.before
    return [
        {
            "round": number,
            "gpid": view.gpid_text(plan.row),
            "kind": plan.kind.word,
            "source": view.nodes[plan.source],
            "target": view.nodes[plan.target],
        }
        for plan in done.plans
    ]


def _summary(found: Tables) -> JobSummary:
    """Return the number of plans."""
    plans = pc.sum(found["balances"]["plans"]).as_py() or 0
    words = f"the meta servers would execute {pluralize(plans, 'plan')}."
    return counted_summary(found, "balances", words)


OPERATION: Final = Operation(
    name="balance",
    module=__name__,
    help="""Simulate the meta server's balancer, round by round.""",
    request=BalanceRequest,
    answers={"pegasus": balance_rounds},
    spread={"pegasus": "core.spark.pegasus.large:spread_balance"},
    job=Job(
        title="What the Pegasus balancers would propose",
        question="Which replicas would move in each Pegasus cluster, round by round?",
        tables={
            "balances": "Rounds and plans of each cluster, and the spread before and after.",
            "plans": "Every partition that changes, round by round.",
        },
        summary=_summary,
        schemas={"balances": BALANCES, "plans": PLANS},
    ),
)
