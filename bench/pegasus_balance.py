"""How fast a round of Pegasus' balancer is, and its search beside other makes of maximum flow.

    .venv/bin/python bench/pegasus_balance.py [--tables 1000] [--partitions 64] [--nodes 100]
        [--no-spark]

Prints milliseconds for one round of each policy on an uneven cluster (the real C++ policies were
measured at 70 ms for 1,075 plans on such a one, the app policy), seconds to convergence, the same
rounds on Spark with its tables spread over local[2], and the
search for augmenting paths beside scipy's and networkx's maximum flow on the same graphs, in one
run. Those two answer another question, the whole flow instead of its widest path: they are what
could stand in its place. networkx is asked for a sample only.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import networkx as nx
import numpy as np
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import maximum_flow

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "support"))

from pegasus_builder import make_view

from connectors.sandbox.java import find_java
from core.pegasus.balance.max_flow import Imbalance, capacities, widest_paths
from core.pegasus.balance.model import BalanceOptions
from core.pegasus.balance.rounds import (
    balance_round,
    balance_until_done,
    rounds_until_converged,
)
from core.pegasus.balance.score import count_spread
from core.pegasus.even.planner import EvenGoal, even_out
from core.pegasus.even.weights import primary_weights, replica_weights
from core.pegasus.view import ClusterView
from core.spark.pegasus.balance import SparkRounds
from core.spark.session import SparkOptions, end_session, session

TARGET_ROUND_MS: Final = 350.0
REPEATS: Final = 5
SAMPLE: Final = 40


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--tables", type=int, default=1_000)
    arguments.add_argument("--partitions", type=int, default=64)
    arguments.add_argument("--nodes", type=int, default=100)
    arguments.add_argument("--no-spark", action="store_true")
    options = arguments.parse_args()
    view = make_view(options.tables, options.partitions, options.nodes)
    print(
        f"{options.tables:,} tables x {options.partitions} partitions x {options.nodes} nodes, "
        "three replicas, uneven"
    )
    _round(view)
    _convergence(view)
    _even(view)
    _searches(view)
    if not options.no_spark:
        _spark(view)


def _fresh(view: ClusterView) -> ClusterView:
    """Return the same state without anything counted yet."""
    return view.with_members(view.members, view.member_disks)


def _round(view: ClusterView) -> None:
    for policy in ("app", "cluster"):
        options = BalanceOptions(policy=policy)
        plans = balance_round(_fresh(view), options)
        taken = [_ms(lambda o=options: balance_round(_fresh(view), o)) for _ in range(REPEATS)]
        median = statistics.median(taken)
        verdict = (
            ""
            if policy != "app"
            else f"; target {TARGET_ROUND_MS:.0f} ms, "
            + ("held" if median <= TARGET_ROUND_MS else "MISSED")
        )
        print(
            f"one round, {policy} policy: {median:.0f} ms (best {min(taken):.0f}), "
            f"{len(plans):,} plans{verdict}"
        )


def _convergence(view: ClusterView) -> None:
    started = time.perf_counter()
    run = balance_until_done(view, BalanceOptions())
    took_s = time.perf_counter() - started
    plans = sum(len(done.plans) for done in run.rounds)
    was, now = count_spread(view), count_spread(run.after)
    print(
        f"to convergence: {len(run.rounds)} rounds, {plans:,} plans, {took_s:.1f} s; "
        f"standard deviation of primaries {was.primary_stddev} -> {now.primary_stddev}, "
        f"of replicas {was.replica_stddev} -> {now.replica_stddev}"
    )
    print(
        "  (over the whole cluster it may grow: the app policy balances table by table, each to "
        "within one primary of a node, and what is left over adds up)"
    )


def _even(view: ClusterView) -> None:
    """Our own balance of the same cluster, which looks at nodes as a whole."""
    for weights in (primary_weights(view), replica_weights(view)):
        started = time.perf_counter()
        plan = even_out(view, weights, EvenGoal())
        took_s = time.perf_counter() - started
        print(
            f"ours, {weights.name} of the whole cluster within 5%: {len(plan.steps)} steps "
            f"(no plan takes fewer than {plan.bound.step_count}), farthest node "
            f"{plan.deviation_before:.1%} -> {plan.deviation_after:.1%} off, {took_s:.1f} s"
        )


def _searches(view: ClusterView) -> None:
    imbalance = Imbalance.of(view)
    tables = np.nonzero(imbalance.is_uneven)[0].astype(np.int32)
    net = capacities(view, imbalance, tables)
    ours = statistics.median(_ms(lambda: _ours(net)) for _ in range(REPEATS)) / len(tables)
    scipys = _ms(lambda: [_scipy(one) for one in net]) / len(tables)
    few = net[:: max(len(net) // SAMPLE, 1)]
    networkxs = _ms(lambda: [_networkx(one) for one in few]) / len(few)
    if any(_scipy(one) != _networkx(one) for one in few):
        sys.exit("two makes of maximum flow disagree")
    print(f"search of one table ({len(tables):,} graphs of {net.shape[1]} nodes), milliseconds:")
    print(f"  widest path, all tables at once: {ours:.3f}")
    print(f"  scipy's maximum flow:            {scipys:.3f} ({scipys / ours:.0f} times as long)")
    print(f"  networkx's maximum flow:         {networkxs:.3f} ({networkxs / ours:.0f} times)")


def _spark(view: ClusterView) -> None:
    """The same rounds, tables spread over the executors; here both share the machine."""
    started = time.perf_counter()
    spark = session(SparkOptions(master="local[2]", java_home=find_java().home))
    rounds = SparkRounds(spark)
    rounds.decide(view, BalanceOptions())  # the workers start with the first job
    warm_s = time.perf_counter() - started
    taken = [_ms(lambda: rounds.decide(view, BalanceOptions())) for _ in range(REPEATS)]
    started = time.perf_counter()
    there = [done.plans for done in rounds.rounds(view, BalanceOptions())]
    took_s = time.perf_counter() - started
    here = [done.plans for done in rounds_until_converged(view, BalanceOptions())]
    end_session()
    if there != here:
        sys.exit("Spark answers something else")
    print(
        f"on Spark, local[2]: one round {statistics.median(taken):.0f} ms, to convergence "
        f"{took_s:.1f} s with the same {sum(map(len, here)):,} plans (warm after {warm_s:.0f} s)"
    )


def _ours(net: Any) -> None:
    for start in range(0, len(net), 128):
        widest_paths(net[start : start + 128])


def _scipy(net: Any) -> int:
    return int(maximum_flow(csr_matrix(net), 0, len(net) - 1).flow_value)


def _networkx(net: Any) -> int:
    graph = nx.DiGraph()
    graph.add_nodes_from((0, len(net) - 1))
    for start, end in zip(*np.nonzero(net), strict=True):
        graph.add_edge(int(start), int(end), capacity=int(net[start, end]))
    value, _ = nx.maximum_flow(graph, 0, len(net) - 1)
    return int(value)


def _ms(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return (time.perf_counter() - started) * 1e3


if __name__ == "__main__":
    main()
