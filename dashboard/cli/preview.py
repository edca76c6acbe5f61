"""``trimtab preview``: what a plan for a cluster of any system is expected to do."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from core.plan.codec import load_plan
from core.systems import steps_of
from dashboard.cli import systems
from dashboard.cli.config import systems as known_systems
from dashboard.cli.options import Config, Json
from dashboard.cli.output import emit
from dashboard.cli.source import directory_of

app = typer.Typer()


def _directory(context: typer.Context, named: Path) -> Path:
    return directory_of(context, named)


@app.command()
def preview(
    plan_file: Annotated[Path, typer.Argument(metavar="PLAN", help="Plan file.")],
    directory: Annotated[
        Path,
        typer.Option(
            "--snapshot",
            metavar="CLUSTER-or-SNAPSHOT",
            help="Snapshot of the plan, or the cluster in its current state.",
            callback=_directory,
        ),
    ],
    config: Config = None,  # noqa: ARG001  # the callback reads it
    as_json: Json = False,
) -> int:
    """Preview a plan: destinations, load, clients, commands."""
    plan = load_plan(plan_file, steps_of(known_systems()))
    return emit(systems.preview(directory, plan), as_json=as_json)
