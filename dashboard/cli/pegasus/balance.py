"""``trimtab pegasus balance``: the balancer's rounds on a written state. Nothing is touched."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from core.errors import ConfigError, InputError, UnknownNameError
from core.pegasus.balance.model import BalanceOptions, BalancePlan, actions_of, reason_of
from core.pegasus.balance.node_order import likely_plans
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
from core.pegasus.balance.score import count_spread
from core.pegasus.balance.settings import set_options
from core.pegasus.ids import parse_node
from core.pegasus.order_learning import known_orders
from core.pegasus.snapshot import PegasusFacts
from core.pegasus.trace_form import options_of, parse_trace, view_of
from core.pegasus.view import ClusterView
from core.snapshot.pegasus import PegasusSnapshot, load_pegasus_snapshot
from core.units import pluralize
from dashboard.cli.config import read_config
from dashboard.cli.engine import is_spark, spark_session
from dashboard.cli.options import Config, Json
from dashboard.cli.output import (
    IS_WIDE,
    Answer,
    UsageFaultError,
    emit,
    note,
    print_line,
    table,
    terminal_width,
)
from dashboard.cli.pegasus.live import note_problems, pegasus_snapshot
from dashboard.cli.requests import takes
from dashboard.presenters.pegasus.node_order import orders_sentence, ties_sentence

_MOST_SHOWN: Final = 40


app = typer.Typer()


@app.command()
@takes(BalanceRequest, rounds=1)
def balance(
    request: BalanceRequest,
    source: Annotated[
        str,
        typer.Argument(
            metavar="SNAPSHOT-or-FILE",
            help="Snapshot directory, JSON file, or cluster name.",
        ),
    ],
    engine: Annotated[
        str, typer.Option(help="local or spark (app policy); the result is the same.")
    ] = "local",
    config: Config = None,
    as_json: Json = False,
) -> int:
    """Simulate the meta server's balancer, round by round.

    Show the reason of each move.
    """
    view, options = _view_and_options(source, request, config)
    rounds, elapsed_ms = _timed(
        _rounds(view, options, request, engine, config), _most(options, request)
    )
    body = {
        "rounds": [[_plan_json(done.before, plan) for plan in done.plans] for done in rounds],
        "elapsed_ms": elapsed_ms,
    }

    def show() -> None:
        _show(rounds, options)
        if not request.rounds and not options.is_check:
            _show_end(rounds)

    return emit(Answer(body, show), as_json=as_json)


def _view_and_options(
    source: str, request: BalanceRequest, config: Path | None
) -> tuple[ClusterView, BalanceOptions]:
    """Read the file; what was parsed is let go, or every sweep of memory would visit it again."""
    path = Path(source)
    if path.is_dir():
        return _of_snapshot(load_pegasus_snapshot(path), request)
    if not path.exists() and path.name == source and path.suffix != ".json":
        return _of_snapshot(_cluster_now(source, config), request)
    try:
        content = path.read_bytes()
    except OSError as exc:
        raise UsageFaultError(
            f"{path} cannot be read: {exc.strerror}.",
            hint="Specify a JSON file with a state, a snapshot directory or a cluster.",
        ) from exc
    trace = parse_trace(content, path.name)
    return view_of(trace), _options(options_of(trace), request)


def _cluster_now(name: str, config: Path | None) -> PegasusSnapshot:
    """Read a cluster of the configuration; a name that is none may have meant a file."""
    try:
        snapshot = pegasus_snapshot(name, config)
    except (ConfigError, UnknownNameError) as exc:
        raise UsageFaultError(
            f"{name} is not a file, a snapshot directory or a configured Pegasus cluster.",
            hint=exc.hint,
        ) from exc
    note_problems(snapshot)
    return snapshot


def _of_snapshot(
    snapshot: PegasusSnapshot, request: BalanceRequest
) -> tuple[ClusterView, BalanceOptions]:
    """Return state, switches and node order of a snapshot."""
    facts = PegasusFacts(snapshot)
    options, assumed = facts.options()
    if assumed:
        note(f"Not reported by the cluster; defaults assumed: {', '.join(assumed)}.")
    view, chosen = facts.view(), _options(options, request)
    known = known_orders(facts, view.nodes)
    note(orders_sentence(known))
    if not obstacles(view) and not chosen.is_check:
        plans = likely_plans(view, chosen, known.orders)
        note(ties_sentence(plans))
    return view.renumbered(known.orders[0]), chosen


def _options(options: BalanceOptions, request: BalanceRequest) -> BalanceOptions:
    try:
        options = set_options(options, request.settings)
    except InputError as exc:
        raise UsageFaultError(exc.message, hint=exc.hint) from exc
    return options if request.policy is None else replace(options, policy=request.policy)


def _rounds(
    view: ClusterView,
    options: BalanceOptions,
    request: BalanceRequest,
    engine: str,
    config: Path | None,
) -> Iterator[BalanceRound]:
    if is_spark(engine) and not view.children:
        return _rounds_on_spark(view, options, request, config)
    pick = pick_first if request.seed is None else pick_by_seed(request.seed)
    play = balance_rounds if request.rounds else rounds_until_converged
    return play(view, options, pick)


def _rounds_on_spark(
    view: ClusterView, options: BalanceOptions, request: BalanceRequest, config: Path | None
) -> Iterator[BalanceRound]:
    if options.policy != "app" or request.seed is not None:
        raise UsageFaultError(
            "Spark supports only the app policy without a seed.",
            hint="Omit --seed and the cluster policy, or omit --engine spark.",
        )
    from core.spark.pegasus.balance import SparkRounds  # noqa: PLC0415  # seconds, only here

    spark = spark_session(read_config(config))
    return SparkRounds(spark).rounds(view, options)


def _most(options: BalanceOptions, request: BalanceRequest) -> int:
    return 1 if options.is_check else request.rounds or MAX_ROUNDS


def _timed(rounds: Iterator[BalanceRound], limit: int) -> tuple[list[BalanceRound], list[float]]:
    done: list[BalanceRound] = []
    elapsed_ms: list[float] = []
    started = time.perf_counter()
    for one in rounds:
        elapsed_ms.append((time.perf_counter() - started) * 1000)
        done.append(one)
        if len(done) >= limit:
            break
        started = time.perf_counter()
    return done, elapsed_ms


def _plan_json(view: ClusterView, plan: BalancePlan) -> list[Any]:
    actions = [[int(action.type), action.target, action.node] for action in actions_of(view, plan)]
    return [view.gpid_text(plan.row), plan.kind.word, actions]


def _show(rounds: Sequence[BalanceRound], options: BalanceOptions) -> None:
    first = rounds[0].before
    for sentence in (*obstacles(first), *disk_doubts(first, options.policy)):
        print_line(f"Note: {sentence}")
    policy = "Cluster policy" if options.policy == "cluster" else "App policy"
    is_wide = IS_WIDE.get() or terminal_width() is None
    for number, done in enumerate(rounds, 1):
        print_line(f"Round {number}: {_verdict(done, options)}")
        rows = [
            (
                done.before.gpid_text(plan.row),
                plan.kind.word,
                done.before.nodes[plan.source],
                done.before.nodes[plan.target],
                reason_of(done.before, plan),
            )
            for plan in done.plans[:_MOST_SHOWN]
        ]
        head = ("partition", "plan", "from", "to", "reason")
        if is_wide:
            table(head, rows)
        else:  # a paragraph per move: no terminal has the room
            table(head[:-1], [row[:-1] for row in rows])
        if len(done.plans) > _MOST_SHOWN:
            print_line(f"... and {len(done.plans) - _MOST_SHOWN} more; --json lists all.")
        print_line()
    acting = sum(bool(done.plans) for done in rounds)
    last = "" if acting in (0, len(rounds)) else ", nothing to do in the last"
    if acting and not is_wide:
        note("--wide shows the reason of each move.")
    said = f"{policy}, {pluralize(len(rounds), 'round')}{last}"
    print_line(f"{said}. Primaries and replicas by node:")
    _show_nodes(rounds[0].before, rounds[-1].after)


def _show_end(rounds: Sequence[BalanceRound]) -> None:
    if len(rounds) >= MAX_ROUNDS:
        print_line(f"Stopped after {pluralize(len(rounds), 'round')}.")
    elif rounds[-1].plans:
        print_line(
            "It never converges: the last round returns to an earlier state, and further rounds "
            "would copy the same data again."
        )


def _verdict(done: BalanceRound, options: BalanceOptions) -> str:
    if not done.plans:
        is_blind = options.policy == "cluster" and options.is_check
        return "the cluster policy has no check mode." if is_blind else "nothing to do."
    kinds = Counter(plan.kind.word for plan in done.plans)
    return ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items())) + "."


def _show_nodes(before: ClusterView, after: ClusterView) -> None:
    was, now = count_spread(before), count_spread(after)
    rows = [
        (
            name,
            str(was.primaries[node]),
            str(now.primaries[node]),
            str(was.replicas[node]),
            str(now.replicas[node]),
        )
        for node, name in sorted(enumerate(before.nodes), key=lambda one: parse_node(one[1]))
    ]
    table(("node", "primaries", "after", "replicas", "after"), rows)
    print_line(
        f"Standard deviation: primaries {was.primary_stddev:.2f} -> {now.primary_stddev:.2f}, "
        f"replicas {was.replica_stddev:.2f} -> {now.replica_stddev:.2f}."
    )
