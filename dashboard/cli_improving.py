"""The commands that look for something better: their options, nothing else.

They belong to the one ``trimtab`` command; this is a module of its own for its length only.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dashboard.cli_options import Json, Release, Settings, Snapshot

improving = typer.Typer()


@improving.command()
def optimize(
    snapshot: Snapshot,
    within: Annotated[
        float, typer.Option(help="Farthest any broker may be from the mean, share of it.")
    ] = 0.05,
    max_moves: Annotated[
        int | None, typer.Option(help="Budget of moves; by default as many as it takes.")
    ] = None,
    relief: Annotated[
        float | None,
        typer.Option(metavar="USAGE", help="Only bring brokers above this usage down to it."),
    ] = None,
    measure: Annotated[
        str | None,
        typer.Option(help="throughput or usage; throughput by default, usage with --relief."),
    ] = None,
    exclude: Annotated[
        list[str] | None,
        typer.Option(metavar="NS", help="Namespace that stays, or tenant/*. Several times."),
    ] = None,
    recently_unloaded: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="JSON list of bundles in their grace period."),
    ] = None,
    plan: Annotated[Path | None, typer.Option(metavar="OUT", help="Plan file to write.")] = None,
    settings: Settings = None,
    release: Release = None,
    reason: Annotated[str, typer.Option(help="Why; kept in the plan.")] = "",
    as_json: Json = False,
) -> int:
    """Find the fewest moves that bring every broker near the mean, and what no plan undercuts."""
    from dashboard import cli_optimize
    from dashboard.cli_snapshots import Assumptions

    wish = cli_optimize.OptimizeWish(
        within=within,
        max_moves=max_moves,
        relief=relief,
        measure=measure,
        exclude=tuple(exclude or ()),
        recently_unloaded=recently_unloaded,
        plan_file=plan,
        reason=reason,
    )
    return cli_optimize.optimize(
        snapshot, wish, Assumptions.of(None, settings, release), as_json=as_json
    )
