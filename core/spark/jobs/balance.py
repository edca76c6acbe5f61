"""Rounds of the Pegasus balancer on many clusters, in its own policy or another one."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

import pyarrow as pa

from core.pegasus.balance.model import BalanceOptions
from core.pegasus.balance.rounds import MOST_ROUNDS, BalanceRound, rounds_until_settled
from core.pegasus.balance.score import count_spread
from core.pegasus.balance.settings import set_options
from core.pegasus.snapshot import PegasusFacts
from core.pegasus.view import ClusterView
from core.spark.fleet import Snapshot
from core.spark.jobs.systems import pegasus_of

BALANCES: Final = pa.schema(
    [
        pa.field("policy", pa.string(), nullable=False),
        pa.field("rounds", pa.int64(), nullable=False),
        pa.field("is_settled", pa.bool_(), nullable=False),
        pa.field("plans", pa.int64(), nullable=False),
        pa.field("primaries_std_before", pa.float64()),
        pa.field("primaries_std_after", pa.float64()),
        pa.field("replicas_std_before", pa.float64()),
        pa.field("replicas_std_after", pa.float64()),
        pa.field("assumed", pa.string(), nullable=False),  # switches the cluster did not tell
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


Play = Callable[[ClusterView, BalanceOptions], Iterator[BalanceRound]]


@dataclass(frozen=True)
class BalanceQuestion:
    """What the meta server would propose, round after round.

    Attributes:
        policy: ``app`` or ``cluster``; ``None``: the cluster's own.
        settings: ``KEY=JSON`` texts of switches to assume.
        rounds: The most.
    """

    policy: Literal["app", "cluster"] | None = None
    settings: tuple[str, ...] = ()
    rounds: int = MOST_ROUNDS

    @property
    def tables(self) -> Mapping[str, pa.Schema]:
        """Schemas of the answer."""
        return {"balances": BALANCES, "plans": PLANS}

    def answer(self, snapshot: Snapshot) -> Mapping[str, pa.Table]:
        """Play the rounds of a cluster.

        Raises:
            InputError: It is no Pegasus cluster, or a switch does not exist.
            IncompleteSnapshotError: Partitions of some table were not read.
        """
        return self.told_by(PegasusFacts(pegasus_of(snapshot, "propose plans")), _decided_here)

    def told_by(self, facts: PegasusFacts, play: Play) -> Mapping[str, pa.Table]:
        """Return the tables of a cluster.

        Args:
            facts: It.
            play: Gives rounds until the cluster is settled.
        """
        told, assumed = facts.options()
        options = set_options(told, self.settings)
        if self.policy is not None:
            options = replace(options, policy=self.policy)
        most = 1 if options.is_check else min(self.rounds, MOST_ROUNDS)
        view = facts.view()
        rounds = list(itertools.islice(play(view, options), most))
        plans = [row for number, one in enumerate(rounds, 1) for row in _plans(number, one)]
        return {
            "balances": pa.Table.from_pylist([_summary(options, rounds, assumed)], schema=BALANCES),
            "plans": pa.Table.from_pylist(plans, schema=PLANS),
        }


def _decided_here(view: ClusterView, options: BalanceOptions) -> Iterator[BalanceRound]:
    return rounds_until_settled(view, options)


def _summary(
    options: BalanceOptions, rounds: list[BalanceRound], assumed: list[str]
) -> dict[str, Any]:
    was, now = count_spread(rounds[0].before), count_spread(rounds[-1].after)
    counts = Counter(plan.kind for one in rounds for plan in one.plans)
    return {
        "policy": options.policy,
        "rounds": len(rounds),
        "is_settled": not rounds[-1].plans,
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
