"""``trimtab shed``: on one snapshot or several; or on Spark."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from core.pulsar.requests import ALL, ShedRequest
from dashboard.cli.each import CommandEngine, each
from dashboard.cli.options import (
    Config,
    EngineName,
    Json,
    RecentlyUnloaded,
    Release,
    Settings,
)
from dashboard.cli.output import UsageFaultError
from dashboard.cli.pulsar.decisions import shed as decisions_shed
from dashboard.cli.pulsar.decisions import spark as decisions_spark
from dashboard.cli.pulsar.snapshots import Assumptions
from dashboard.cli.pulsar.source import Snapshots
from dashboard.cli.requests import takes

app = typer.Typer()


@app.command()
@takes(ShedRequest, skip=("settings",), strategy=None)
def shed(
    snapshots: Snapshots,
    request: ShedRequest,
    settings: Settings = None,
    recently_unloaded: RecentlyUnloaded = None,
    release: Release = None,
    plan: Annotated[
        Path | None, typer.Option(metavar="OUT", help="Write a plan of the first round.")
    ] = None,
    engine: EngineName = "local",
    config: Config = None,
    as_json: Json = False,
) -> int:
    """Preview shedding rounds: bundles, destinations, reasons."""
    if request.strategy == ALL:
        raise UsageFaultError(
            "A shedding round has one strategy.",
            hint="Specify one of them; `trimtab explain` compares all.",
        )
    assumptions = Assumptions.of(None, settings, release)
    if plan is not None and (len(snapshots) > 1 or engine != "local"):
        raise UsageFaultError(
            "--plan needs one cluster and the local engine.",
            hint="Specify one snapshot and omit --engine, or omit --plan.",
        )
    options: dict[str, Any] = {
        "request": request,
        "assumptions": assumptions,
        "recently_unloaded": recently_unloaded,
    }
    command = partial(decisions_shed.shed, **options, plan_file=plan)
    large = partial(decisions_spark.shed_of, **options)
    return each(snapshots, command, CommandEngine(engine, config), as_json=as_json, large=large)
