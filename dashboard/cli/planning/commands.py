"""Commands on what may come, and on trends of what was recorded: their options, nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from core.planning.drill_request import DrillRequest
from dashboard.cli.options import Config, EngineName, Json, Release, Settings, Source
from dashboard.cli.requests import takes

app = typer.Typer()

Out = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Directory for the whole tables as Parquet.")
]


@app.command()
@takes(DrillRequest)
def drill(
    request: DrillRequest,
    source: Source,
    out: Out = None,
    settings: Settings = None,
    release: Release = None,
    engine: EngineName = "local",
    config: Config = None,
    as_json: Json = False,
) -> int:
    """Simulate the failure of each broker, failure domain or node: hot brokers, lost capacity."""
    from dashboard.cli.planning import capacity as run
    from dashboard.cli.snapshots import Assumptions

    where, assumptions = run.Where(engine, config, out), Assumptions.of(None, settings, release)
    return run.drill(source, request, where, assumptions, as_json=as_json)


@app.command()
def topics(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Topics: .parquet, .csv or .jsonl.")],
    snapshot: Annotated[Path, typer.Option(metavar="DIR", help="Snapshot of the cluster.")],
    top: Annotated[int, typer.Option(min=1, help="Number of bundles and topics to show.")] = 20,
    out: Out = None,
    engine: EngineName = "local",
    config: Config = None,
    as_json: Json = False,
) -> int:
    """Map topics of a file to bundles and brokers, and find crowded partitions."""
    from dashboard.cli.planning import capacity as run

    return run.topics(file, snapshot, top, run.Where(engine, config, out), as_json=as_json)
