"""``trimtab backtest``: its options, nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dashboard.cli.options import Config, EngineName, Json

app = typer.Typer()


@app.command()
def backtest(
    grid: Annotated[
        Path, typer.Option(metavar="FILE", help="Candidates as JSON; see docs/reference/json.md.")
    ],
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Directory for the result tables; empty or absent.")
    ],
    uri: Annotated[
        str | None,
        typer.Option(
            "--history", metavar="URI", help="History to read; default: the configuration's."
        ),
    ] = None,
    cluster: Annotated[
        list[str] | None,
        typer.Option(metavar="C", help="Only this cluster, instead of the grid's."),
    ] = None,
    engine: EngineName = "local",
    master: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Spark master; default: the configuration's."),
    ] = None,
    plan: Annotated[
        Path | None,
        typer.Option(metavar="OUT", help="Write a plan with the recommended settings."),
    ] = None,
    reason: Annotated[str, typer.Option(help="Reason (recorded in the plan).")] = "",
    config: Config = None,
    as_json: Json = False,
) -> int:
    """Simulate recorded load under other strategies and settings, and rank them."""
    from dashboard.cli.backtest import run

    where = run.Where(uri, config, engine, master)
    clusters = tuple(cluster or ())
    return run.backtest(
        where, grid, out, clusters=clusters, plan_file=plan, reason=reason, as_json=as_json
    )
