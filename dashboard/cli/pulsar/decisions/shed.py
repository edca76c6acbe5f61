"""The commands on what the balancer would decide. Nothing of a cluster is touched."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from core.diagnosis.pulsar.advice import simulated_points
from core.errors import PlanError, UnknownNameError
from core.plan.model import Plan
from core.pulsar.placement import active_placement
from core.pulsar.plan.build import build_unload_plan
from core.pulsar.plausibility import impossible_words
from core.pulsar.recent import RecentBundles, recent_bundles
from core.pulsar.requests import ShedRequest
from core.pulsar.rules.combinations import unpaired_avg_shedder
from core.pulsar.settings import EffectiveSettings, effective_settings
from core.pulsar.shedding import (
    BrokerTrace,
    Round,
    active_shedding_strategy,
    find_shedding_strategy,
    shed_rounds,
    strategy_rounds,
)
from core.pulsar.shedding.registry import AnyStrategy
from core.pulsar.shedding.what_if import TurningPoint, WhatIf, is_searchable
from core.pulsar.view import LoadView
from core.snapshot import LoadManager, PulsarSnapshot
from core.snapshot.store import load_snapshot
from core.units import format_ratio, pluralize
from dashboard.cli import plan_answers
from dashboard.cli.output import Answer, UsageFaultError, emit, note, print_line, table
from dashboard.cli.plan_answers import write_plan
from dashboard.cli.pulsar.decisions import shed_answer
from dashboard.cli.pulsar.decisions.shed_answer import ShedAnswer
from dashboard.cli.pulsar.snapshots import Assumptions
from dashboard.cli.requests import read_list
from dashboard.cli.source import given_name
from dashboard.presenters.pulsar import leader_round

_CONFIGURED: Final = "loadBalancerLoadSheddingStrategy"
_POINTS_S: Final = 2.0
"""Time for what becomes of the cluster under the values that turn a verdict."""
_MOST_SHOWN: Final = 12
_MOST_MOVES: Final = 40


@dataclass(frozen=True)
class PlanTarget:
    """File of the first round's plan, the snapshot that it is made on, and the plan."""

    file: Path | None = None
    directory: Path = Path()
    plan: Plan | None = None


def shed(
    directory: Path,
    request: ShedRequest,
    assumptions: Assumptions,
    recently_unloaded: Path | None = None,
    plan_file: Path | None = None,
    *,
    as_json: bool,
) -> int:
    """``trimtab shed``: the unloads of the shedding strategy, round by round, with reasons."""
    named = read_list(recently_unloaded)
    snapshot = load_snapshot(directory)
    recent = known_bundles(snapshot.bundles, named)
    answer = _decide(snapshot, request, assumptions, recent.names)
    planned = PlanTarget(plan_file, directory)
    if plan_file is not None and answer.rounds[0].moves:
        plan = _plan(snapshot, answer, assumptions)
        write_plan(plan_file, plan)
        planned = replace(planned, plan=plan)
    return print_rounds(answer, recent, request, planned, as_json=as_json)


def print_rounds(
    answer: ShedAnswer,
    recent: RecentBundles,
    request: ShedRequest,
    planned: PlanTarget = PlanTarget(),
    *,
    as_json: bool,
) -> int:
    """Print rounds, with the plan that was made of the first one."""
    plan = planned.plan
    body: dict[str, Any] = shed_answer.shed(answer, is_strategy_only=request.strategy_only)
    body |= _warnings(recent, answer)
    if planned.file is not None:
        body["plan"] = plan_answers.plan(plan) if plan else None
        body["path"] = str(planned.file) if plan else None

    def show() -> None:
        _show_rounds(answer)
        _show_placement(answer)
        _show_switch(answer, request)
        print_line(leader_round.FROM_SNAPSHOT)
        if plan is not None:
            _show_plan(plan, planned.file, planned.directory)
        elif planned.file is not None:
            print_line("Nothing to plan: no file is written.")

    return emit(Answer(body, show), as_json=as_json)


def _warnings(recent: RecentBundles, answer: ShedAnswer) -> dict[str, Any]:
    """Every warning there is; nothing when all is well."""
    found = [text for text in (recent.warning, answer.warning) if text]
    return {"warnings": found} if found else {}


def _decide(
    snapshot: PulsarSnapshot, request: ShedRequest, assumptions: Assumptions, recent: Sequence[str]
) -> ShedAnswer:
    strategy, assumptions = chosen(snapshot, request, assumptions)
    settings = assumptions.settings_of(snapshot)
    view = LoadView.of(snapshot, settings)
    what_if = WhatIf(
        strategy,
        view,
        lambda assumed: effective_settings(
            snapshot, overrides={**assumptions.overrides, **assumed}, release=assumptions.release
        ),
        recently_unloaded=recent,
        is_checked=not request.strategy_only,
    )
    start = strategy_rounds if request.strategy_only else shed_rounds
    rounds = start(strategy, view, settings, recently_unloaded=recent)
    timed = list(_timed(rounds, request.rounds))
    points = tuple(_turning_points(what_if, timed[0][0]))
    if not request.strategy_only:
        points = simulated_points(
            snapshot,
            points,
            assumed=assumptions.overrides,
            release=assumptions.release,
            budget_s=_POINTS_S,
        )
    placed = {} if request.strategy_only else placed_by(settings, snapshot.manifest.load_manager)
    sources = {move.broker for done, _ in timed for move in done.moves}
    warnings = (impossible_words(snapshot.brokers, sources), placed.get("warning", ""))
    return ShedAnswer(
        strategy=strategy,
        settings=settings,
        rounds=tuple(done for done, _ in timed),
        elapsed_ms=tuple(lasted for _, lasted in timed),
        turning_points=points,
        placement=placed.get("placement", ""),
        warning=" ".join(filter(None, warnings)),
    )


def chosen(
    snapshot: PulsarSnapshot, request: ShedRequest, assumptions: Assumptions
) -> tuple[AnyStrategy, Assumptions]:
    """Return the strategy that is meant, and assumptions under which the cluster goes by it.

    Raises:
        UsageFaultError: There is no strategy of the name that was given.
        UnknownNameError: The configured one is not known here.
    """
    if request.strategy is None:
        settings = assumptions.settings_of(snapshot)
        return active_shedding_strategy(snapshot.manifest.load_manager, settings), assumptions
    try:
        strategy = find_shedding_strategy(request.strategy)
    except UnknownNameError as exc:
        raise UsageFaultError(exc.message, hint=exc.hint) from exc
    named = {**assumptions.overrides, _CONFIGURED: strategy.name}
    return strategy, replace(assumptions, overrides=named)


def placed_by(settings: EffectiveSettings, manager: LoadManager) -> dict[str, str]:
    """Return the placement of shed bundles and the warning about an unpaired AvgShedder."""
    pair = unpaired_avg_shedder(settings, manager)
    return {
        "placement": active_placement(settings, manager),
        "warning": f"{pair.text} {pair.hint}" if pair is not None else "",
    }


def _turning_points(what_if: WhatIf, first: Round) -> Iterator[TurningPoint]:
    """Yield the turning points of the first broker that sheds and of the nearest that does not."""
    if not is_searchable(what_if.view):
        return
    ranked = [trace for trace in _ranked(first) if trace.broker is not None]
    chosen = [next((t for t in ranked if t.sheds is sheds), None) for sheds in (True, False)]
    for trace in chosen:
        if trace is not None and trace.broker is not None:
            yield from what_if.turning_points(trace.broker)


def _timed(rounds: Iterator[Round], count: int) -> Iterator[tuple[Round, float]]:
    started = time.perf_counter()
    for done in itertools.islice(rounds, count):
        yield done, (time.perf_counter() - started) * 1000
        started = time.perf_counter()


def known_bundles(bundles: pa.Table, named: Sequence[str]) -> RecentBundles:
    """Return the bundles that a snapshot has; print the others on standard error."""
    recent = recent_bundles(bundles, named)
    if recent.warning:
        note(f"warning: {recent.warning}")
    return recent


def _plan(snapshot: PulsarSnapshot, answer: ShedAnswer, assumptions: Assumptions) -> Plan:
    first = answer.rounds[0]
    plan = build_unload_plan(
        snapshot,
        [move.bundle for move in first.moves],
        destinations=dict(_named_destinations(first)),
        overrides=assumptions.overrides,
        release=assumptions.release,
        now=datetime.now(tz=UTC),
        reason=f"{answer.strategy.name}: {first.decision.sentence}",
    )
    errors = plan.by_severity("error")
    if errors and not plan.steps:
        raise PlanError(errors[0].sentence, hint=errors[0].hint)
    return plan


def _named_destinations(done: Round) -> Iterator[tuple[str, str]]:
    """Yield bundle and destination for moves whose strategy names one that placement follows."""
    for move in done.moves:
        placed = done.destinations.get(move.bundle)
        if move.destination and (placed is None or placed == {move.destination: 1.0}):
            yield move.bundle, move.destination


def _show_rounds(answer: ShedAnswer) -> None:
    for number, done in enumerate(answer.rounds, 1):
        _show_round(number, done, is_only=len(answer.rounds) == 1)
        for point in answer.turning_points if number == 1 else ():
            print_line(point.text)
    if len(answer.rounds) > 1:
        print_line("Every round uses the same load data; moves have no effect on it.")


def _show_placement(answer: ShedAnswer) -> None:
    if answer.placement:
        print_line(f"Placement: {answer.placement}.")
    if answer.warning:
        print_line(f"Warning: {answer.warning}")


def _show_switch(answer: ShedAnswer, request: ShedRequest) -> None:
    """Print the options that show the unloads where shedding is off."""
    off = answer.settings.shedding_off
    if off and not request.strategy_only:
        assumed = " ".join(f"--set {key}=true" for key in off)
        print_line(
            f"To preview the unloads, add `{assumed}`, or `--strategy-only` to skip the load "
            "manager's checks too."
        )


def _show_plan(plan: Plan, path: Path | None, directory: Path) -> None:
    print_line()
    print_line(f"Plan {plan.short_id}: {pluralize(len(plan.steps), 'unload')}.")
    for item in plan.diagnostics:
        print_line(f"{item.severity}: {item.sentence} {item.hint}".rstrip())
    print_line(f"Written to {path}.")
    print_line(f"See `trimtab preview {path} --snapshot {given_name(directory)}`.")


def _show_round(number: int, done: Round, *, is_only: bool) -> None:
    print_line(done.decision.sentence if is_only else f"Round {number}: {done.decision.sentence}")
    rows = [
        (
            move.broker,
            move.bundle,
            _destination(done.destinations.get(move.bundle), move.destination),
        )
        for move in done.moves[:_MOST_MOVES]
    ]
    table(("broker", "bundle", "destination"), rows)
    if done.skipped and not done.moves:
        print_line("No bundle is unloaded: the load manager skips all selected bundles.")
    if len(done.moves) > _MOST_MOVES:
        print_line(f"... and {len(done.moves) - _MOST_MOVES} more; --json lists all.")
    for bundle, reason in done.skipped.items():
        print_line(f"Not unloaded: {bundle}: {reason}.")
    for assumed in done.decision.notes:
        print_line(f"Note: {assumed}")
    if number == 1:
        print_line()
        _show_gates(done)


def _destination(distribution: Mapping[str, float] | None, planned: str | None) -> str:
    if not distribution:
        return planned or "by placement"
    ordered = sorted(distribution.items(), key=lambda pair: (-pair[1], pair[0]))
    shown = ", ".join(f"{format_ratio(p)} {broker}" for broker, p in ordered[:3])
    more = len(ordered) - 3
    return shown + (f" and {pluralize(more, 'broker')} more" if more > 0 else "")


def _ranked(done: Round) -> list[BrokerTrace]:
    """Return the verdicts: those that shed and those nearest to it first."""
    return sorted(
        done.decision.trace,
        key=lambda trace: (
            trace.broker is not None,
            not trace.sheds,
            -len(trace.gates),
            trace.gates[-1].distance if trace.gates else float("inf"),
        ),
    )


def _show_gates(done: Round) -> None:
    traces = _ranked(done)
    rows = [
        (trace.broker or "the cluster", _verdict(trace, done), trace.sentence)
        for trace in traces[:_MOST_SHOWN]
    ]
    table(("broker", "verdict", "because"), rows)
    if len(traces) > _MOST_SHOWN:
        print_line(f"... and {len(traces) - _MOST_SHOWN} more; --json lists all.")


def _verdict(trace: BrokerTrace, done: Round) -> str:
    if trace.broker is None:
        return "acts" if trace.sheds else "rests"
    if trace.sheds and done.skipped and all(move.broker != trace.broker for move in done.moves):
        return "skipped"
    return "sheds" if trace.sheds else "stays"
