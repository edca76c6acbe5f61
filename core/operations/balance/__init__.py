"""Rounds of the meta server's balancer: the replicas that move, with the reason of each move."""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, NamedTuple, TypedDict

import pyarrow as pa
import pyarrow.compute as pc

from core.operations.balance.tables import BALANCES, PLANS
from core.operations.operation import (
    Answer,
    Aside,
    Cells,
    CountedSummary,
    Job,
    Line,
    Operation,
    Tables,
)
from core.pegasus.balance.model import BalanceOptions, BalancePlan, Pick, actions_of, reason_of
from core.pegasus.balance.node_order import likely_plans, ties_sentence
from core.pegasus.balance.preconditions import disk_doubts, obstacles
from core.pegasus.balance.request import BalanceRequest
from core.pegasus.balance.rounds import (
    MAX_ROUNDS,
    BalanceRound,
    balance_rounds,
    pick_by_seed,
    pick_first,
    rounds_until_converged,
)
from core.pegasus.balance.score import CountSpread, count_spread
from core.pegasus.balance.settings import set_options
from core.pegasus.ids import parse_node
from core.pegasus.order_learning import KnownOrders, known_orders
from core.pegasus.snapshot import PegasusFacts
from core.pegasus.view import ClusterView
from core.progress import NO_PROGRESS, Progress
from core.snapshot import Problem
from core.units import pluralize

_MAX_SHOWN: Final = 40

Rounds = Callable[[ClusterView, BalanceOptions, Pick], Iterator[BalanceRound]]
"""Returns rounds until the cluster converges."""


class BalanceMove(NamedTuple):
    """One plan of a round.

    Attributes:
        gpid: Partition.
        kind: Kind of plan.
        source: Node that has the replica.
        target: Node that gets it.
        actions: Proposals of the meta server: type, target, node.
        reason: Counts that decide; empty: not among those that are shown.
    """

    gpid: str
    kind: str
    source: str
    target: str
    actions: tuple[tuple[int, str, str], ...]
    reason: str


class BalanceState(NamedTuple):
    """A cluster before the first round.

    Attributes:
        view: State, nodes in the order that decides between equals.
        options: Policy and switches.
        assumed: Switches that the cluster did not report.
        unread: Parts of the snapshot that could not be read.
        orders: Orders of nodes that are known to fit; ``None``: the state names its own.
    """

    view: ClusterView
    options: BalanceOptions
    assumed: tuple[str, ...] = ()
    unread: tuple[Problem, ...] = ()
    orders: KnownOrders | None = None


class _RoundsJson(TypedDict):
    rounds: list[list[tuple[str, str, list[tuple[int, str, str]]]]]


class BalanceJson(_RoundsJson, total=False):
    """The JSON of the answer.

    Attributes:
        rounds: By round, each plan: partition, kind, and actions as type, target and node.
        elapsed_ms: Time of each round; not over HTTP.
        notes: Parts that could not be read, switches that were assumed, and the origin of the node
            order; if there are some.
    """

    elapsed_ms: list[float]
    notes: list[str]


@dataclass(frozen=True, eq=False)
class BalanceAnswer(Answer):
    """The answer.

    Attributes:
        state: The cluster before the first round.
        rounds: Moves by round; empty: nothing to do.
        elapsed_ms: Time of each round; 0 for those after convergence.
        simulated: Rounds until convergence, or all.
        after: Replicas by node at the end.
    """

    state: BalanceState
    rounds: tuple[tuple[BalanceMove, ...], ...]
    elapsed_ms: tuple[float, ...]
    simulated: int
    after: CountSpread

    def body(self) -> BalanceJson:
        """Return the JSON object."""
        body: BalanceJson = {
            "rounds": [
                [(one.gpid, one.kind, list(one.actions)) for one in moves] for moves in self.rounds
            ],
            "elapsed_ms": list(self.elapsed_ms),
        }
        if self.notes:
            body["notes"] = list(self.notes)
        return body

    @property
    def tables(self) -> Mapping[str, pa.Table]:
        """The tables of a job."""
        was, now, options = self.before, self.after, self.state.options
        row = {
            "policy": options.policy,
            "rounds": self.simulated,
            "is_converged": not self.rounds[-1],
            "plans": sum(map(len, self.rounds)),
            "primaries_std_before": was.primary_stddev,
            "primaries_std_after": now.primary_stddev,
            "replicas_std_before": was.replica_stddev,
            "replicas_std_after": now.replica_stddev,
            "assumed": ", ".join(self.state.assumed),
        }
        rows = [
            {"round": number, **dict(zip(PLANS.names[1:], move, strict=False))}
            for number, moves in enumerate(self.rounds, 1)
            for move in moves
        ]
        return {
            "balances": pa.Table.from_pylist([row], schema=BALANCES),
            "plans": pa.Table.from_pylist(rows, schema=PLANS),
        }

    @cached_property
    def before(self) -> CountSpread:
        """Replicas by node before the first round."""
        return count_spread(self.state.view)

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """Parts that could not be read, switches that were assumed, and the node order's origin."""
        view, options, assumed, unread, orders = self.state
        notes = [one.sentence for one in unread]
        if assumed:
            notes.append(f"Not reported by the cluster; defaults assumed: {', '.join(assumed)}.")
        if orders is not None:
            notes.append(orders.sentence)
            if not obstacles(view) and not options.is_check:
                notes.append(ties_sentence(likely_plans(view, options, orders.orders)))
        return tuple(notes)

    def text(self, request: BalanceRequest) -> Iterator[Line]:
        """Return the text for people."""
        view, options = self.state.view, self.state.options
        yield from map(Aside, self.notes)
        for sentence in (*obstacles(view), *disk_doubts(view, options.policy)):
            yield f"Note: {sentence}"
        head = ("partition", "plan", "from", "to", "reason")
        for number, moves in enumerate(self.rounds, 1):
            yield f"Round {number}: {_verdict(moves, options)}"
            rows = [(*one[:4], one.reason) for one in moves[:_MAX_SHOWN]]
            yield Cells(head, rows, wide=("reason",))
            if len(moves) > _MAX_SHOWN:
                yield f"... and {len(moves) - _MAX_SHOWN} more; --json lists all."
            yield ""
        acting = sum(map(bool, self.rounds))
        last = "" if acting in (0, len(self.rounds)) else ", nothing to do in the last"
        policy = "Cluster policy" if options.policy == "cluster" else "App policy"
        count = pluralize(len(self.rounds), "round")
        yield f"{policy}, {count}{last}. Primaries and replicas by node:"
        yield from self._nodes()
        if not request.rounds and not options.is_check:
            yield from self._end()

    def _nodes(self) -> Iterator[Line]:
        was, now = self.before, self.after
        names = sorted(enumerate(self.state.view.nodes), key=lambda one: parse_node(one[1]))
        counts = (was.primaries, now.primaries, was.replicas, now.replicas)
        rows = [(name, *(str(one[node]) for one in counts)) for node, name in names]
        yield Cells(("node", "primaries", "after", "replicas", "after"), rows)
        yield (
            f"Standard deviation: primaries {was.primary_stddev:.2f} -> {now.primary_stddev:.2f}, "
            f"replicas {was.replica_stddev:.2f} -> {now.replica_stddev:.2f}."
        )

    def _end(self) -> Iterator[Line]:
        if len(self.rounds) >= MAX_ROUNDS:
            yield f"Stopped after {pluralize(len(self.rounds), 'round')}."
        elif self.rounds[-1]:
            yield (
                "It never converges: the last round returns to an earlier state, and further "
                "rounds would copy the same data again."
            )


def _verdict(moves: Sequence[BalanceMove], options: BalanceOptions) -> str:
    if not moves:
        is_blind = options.policy == "cluster" and options.is_check
        return "the cluster policy has no check mode." if is_blind else "nothing to do."
    kinds = Counter(one.kind for one in moves)
    return ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items())) + "."


def balance_cluster(
    facts: PegasusFacts, request: BalanceRequest, progress: Progress
) -> BalanceAnswer:
    """Simulate the rounds of a cluster, its nodes in the order that was learned.

    Raises:
        InputError: A switch does not exist.
        IncompleteSnapshotError: Partitions of some table were not read.
    """
    return balance(state_of(facts, request), request, progress=progress)


def state_of(facts: PegasusFacts, request: BalanceRequest) -> BalanceState:
    """Return the cluster of a snapshot before the first round.

    Raises:
        InputError: A switch does not exist.
        IncompleteSnapshotError: Partitions of some table were not read.
    """
    options, assumed = facts.options()
    options = requested_options(options, request)
    view = facts.view()
    orders = known_orders(facts, view.nodes)
    unread = tuple(facts.snapshot.manifest.problems)
    return BalanceState(view.renumbered(orders.orders[0]), options, tuple(assumed), unread, orders)


def requested_options(options: BalanceOptions, request: BalanceRequest) -> BalanceOptions:
    """Return the switches of a cluster with those of a request.

    Raises:
        InputError: A switch does not exist.
    """
    options = set_options(options, request.settings)
    return options if request.policy is None else replace(options, policy=request.policy)


def balance(
    state: BalanceState,
    request: BalanceRequest,
    rounds_of: Rounds = rounds_until_converged,
    progress: Progress = NO_PROGRESS,
) -> BalanceAnswer:
    """Return the rounds of a cluster.

    Args:
        state: The cluster before the first round.
        request: What is simulated.
        rounds_of: Returns rounds until the cluster converges, wherever they are computed.
        progress: Called after each round.
    """
    view, options = state.view, state.options
    limit = 1 if options.is_check else request.rounds or MAX_ROUNDS
    pick = pick_first if request.seed is None else pick_by_seed(request.seed)
    rounds: list[tuple[BalanceMove, ...]] = []
    elapsed_ms: list[float] = []
    after, started = view, time.perf_counter()
    for done in itertools.islice(_rounds(view, state, request, pick, rounds_of), limit):
        elapsed_ms.append((time.perf_counter() - started) * 1000)
        rounds.append(_moves(done))
        progress.step(len(rounds), limit, "rounds")
        after, started = done.after, time.perf_counter()
    simulated = len(rounds)
    rest = limit - simulated if request.rounds else 0  # nothing is left to do in them
    return BalanceAnswer(
        state=state,
        rounds=(*rounds, *([()] * rest)),
        elapsed_ms=(*elapsed_ms, *([0.0] * rest)),
        simulated=simulated,
        after=count_spread(after),
    )


def _rounds(
    view: ClusterView, state: BalanceState, request: BalanceRequest, pick: Pick, rounds_of: Rounds
) -> Iterator[BalanceRound]:
    """Yield rounds until convergence; requested ones also after a round to an earlier state."""
    done = None
    for done in rounds_of(view, state.options, pick):
        yield done
    if request.rounds and done is not None and done.plans:
        for one in balance_rounds(done.after, state.options, pick):
            yield one
            if not one.plans:
                return


def _moves(done: BalanceRound) -> tuple[BalanceMove, ...]:
    return tuple(_move(done.before, plan, at < _MAX_SHOWN) for at, plan in enumerate(done.plans))


def _move(view: ClusterView, plan: BalancePlan, is_shown: bool) -> BalanceMove:  # noqa: FBT001  # of one caller
    return BalanceMove(
        gpid=view.gpid_text(plan.row),
        kind=plan.kind.word,
        source=view.nodes[plan.source],
        target=view.nodes[plan.target],
        actions=tuple((int(one.type), one.target, one.node) for one in actions_of(view, plan)),
        reason=reason_of(view, plan) if is_shown else "",
    )


def _words(found: Tables) -> str:
    """Return the number of plans."""
    plans = pc.sum(found["balances"]["plans"]).as_py() or 0
    return f"plans of the meta servers: {plans:,}"


OPERATION: Final[Operation[BalanceRequest, BalanceAnswer]] = Operation(
    name="balance",
    module=__name__,
    help="""Simulate the meta server's balancer, round by round.

    Show the reason of each move.
    """,
    request=BalanceRequest,
    answers={"pegasus": balance_cluster},
    is_timed=False,
    spread={"pegasus": "core.spark.pegasus.large:spread_balance"},
    job=Job(
        title="Proposals of the Pegasus balancer",
        question="Which replicas would move in each Pegasus cluster, round by round?",
        tables={
            "balances": "Rounds and plans of each cluster, and the spread before and after.",
            "plans": "Every partition that changes, round by round.",
        },
        summary=CountedSummary("balances", _words),
        schemas={"balances": BALANCES, "plans": PLANS},
    ),
)
