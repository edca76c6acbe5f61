"""``trimtab shed``: what the balancer would unload, and a plan of its first round."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from core.errors import PlanError
from core.facts import Assumed, release_warnings
from core.operations.shed import OPERATION, Shedding, with_strategy
from core.plan.model import Plan
from core.pulsar.plan.build import build_unload_plan
from core.pulsar.requests import ShedRoundsRequest
from core.pulsar.shedding import Round
from core.snapshot import PulsarSnapshot
from core.units import pluralize, severity_label
from dashboard.cli import operations, plan_answers
from dashboard.cli.options import (
    Config,
    EngineName,
    Json,
    RecentlyUnloaded,
    Release,
    Server,
    Settings,
    Sources,
)
from dashboard.cli.output import Answer, UsageFaultError, emit, print_line
from dashboard.cli.plan_answers import write_plan
from dashboard.cli.progress import STATUS
from dashboard.cli.requests import read_list, takes

app = typer.Typer()


@app.command()
@takes(ShedRoundsRequest, skip=("recently_unloaded",))
def shed(
    source: Sources,
    request: ShedRoundsRequest,
    settings: Settings = None,
    recently_unloaded: RecentlyUnloaded = None,
    release: Release = None,
    plan: Annotated[
        Path | None, typer.Option(metavar="OUT", help="Write a plan of the first round.")
    ] = None,
    engine: EngineName = "local",
    server: Server = None,
    config: Config = None,
    as_json: Json = False,
) -> int:
    """Preview shedding rounds: bundles, destinations, reasons."""
    sources = operations.sources_of(OPERATION, source, config, server)
    if plan is not None and (len(sources) > 1 or engine != "local" or server):
        raise UsageFaultError(
            "--plan needs one cluster and the local engine.",
            hint="Specify one snapshot and omit --engine and --server, or omit --plan.",
        )
    bundles = tuple(read_list(recently_unloaded))
    request = msgspec.structs.replace(request, recently_unloaded=bundles)
    on_spark = operations.is_on_spark(engine, server)
    options = operations.Options(sources, None, settings or (), release, on_spark, config, server)
    if plan is None:
        return operations.answer(OPERATION, request, options, as_json=as_json)
    return _planned(request, options, plan, as_json=as_json)


def _planned(
    request: ShedRoundsRequest, options: operations.Options, out: Path, *, as_json: bool
) -> int:
    """Print the rounds of one snapshot with a plan of the first one, which is written."""
    loads, assumed = operations.prepared(OPERATION, options)
    (load,) = loads.values()
    facts = load()
    shedding = OPERATION.answer(facts, request, STATUS)
    taken_at, warnings = facts.snapshot.manifest.taken_at, release_warnings(facts)
    done = operations.Answered.of(shedding, request, taken_at, 0.0, warnings)
    shown = operations.printable(OPERATION, done)
    plan = None
    if shedding.rounds[0].moves:
        plan = _plan(facts.snapshot, shedding, with_strategy(assumed, request))
        write_plan(out, plan)
    body: Mapping[str, Any] = {
        **shown.body,
        "plan": plan_answers.plan(plan) if plan else None,
        "path": str(out) if plan else None,
    }

    def show() -> None:
        shown.show()
        if plan is not None:
            _show_plan(plan, out, options.sources[0])
        else:
            print_line("Nothing to plan: no file is written.")

    return emit(Answer(body, show), as_json=as_json)


def _plan(snapshot: PulsarSnapshot, shedding: Shedding, assumed: Assumed) -> Plan:
    first = shedding.rounds[0]
    plan = build_unload_plan(
        snapshot,
        [move.bundle for move in first.moves],
        destinations=dict(_named_destinations(first)),
        overrides=dict(assumed.settings or {}),
        release=assumed.release,
        now=datetime.now(tz=UTC),
        reason=f"{shedding.strategy}: {first.decision.sentence}",
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


def _show_plan(plan: Plan, path: Path, source: str) -> None:
    print_line()
    print_line(f"Plan {plan.short_id}: {pluralize(len(plan.steps), 'unload')}.")
    for item in plan.diagnostics:
        print_line(f"{severity_label(item.severity)}: {item.sentence} {item.hint}".rstrip())
    print_line(f"Written to {path}.")
    plan_answers.show_preview_command(path, source)
