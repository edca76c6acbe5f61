"""``trimtab backtest``: its options, nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dashboard.cli_options import Config, EngineName, Json

backtesting = typer.Typer()


@backtesting.command()
def backtest(
    grid: Annotated[
        Path, typer.Option(metavar="FILE", help="What to try, as JSON; see docs/reference/json.md.")
    ],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for the result tables.")],
    uri: Annotated[
        str | None,
        typer.Option(
            "--history", metavar="URI", help="Where it is; by default the configuration's."
        ),
    ] = None,
    cluster: Annotated[
        list[str] | None,
        typer.Option(metavar="C", help="Only this cluster, whatever the grid says. Several times."),
    ] = None,
    engine: EngineName = "local",
    master: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Spark's master; by default the configuration's."),
    ] = None,
    plan: Annotated[
        Path | None,
        typer.Option(metavar="OUT", help="Plan file with the recommended settings to write."),
    ] = None,
    reason: Annotated[str, typer.Option(help="Why; kept in the plan.")] = "",
    config: Config = None,
    as_json: Json = False,
) -> int:
    """Play recorded load again under other strategies and settings, and rank them."""
    from dashboard import cli_backtest_run as run

    where = run.Where(uri, config, engine, master)
    wish = run.BacktestWish(grid, out, tuple(cluster or ()), plan, reason)
    return run.backtest(where, wish, as_json=as_json)
