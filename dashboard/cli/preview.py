"""``trimtab preview``: what a plan for a cluster of any system is expected to do."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from core.plan.codec import load_plan
from core.snapshot.store import load_manifest
from core.systems import steps_of
from dashboard.cli import systems
from dashboard.cli.config import read_config
from dashboard.cli.config import systems as known_systems
from dashboard.cli.options import Config, Json
from dashboard.cli.output import emit, note
from dashboard.cli.source import directory_of, is_captured

app = typer.Typer()


@app.command()
def preview(
    plan_file: Annotated[Path, typer.Argument(metavar="PLAN", help="Plan file.")],
    source: Annotated[
        Path | None,
        typer.Option(
            "--snapshot",
            metavar="CLUSTER-or-SNAPSHOT",
            help="Snapshot of the plan; default: the plan's cluster in its current state.",
        ),
    ] = None,
    config: Config = None,
    as_json: Json = False,
) -> int:
    """Preview a plan: destinations, load, clients, commands.

    With a cluster, the steps that its current state refuses are listed and skipped.
    """
    plan = load_plan(plan_file, steps_of(known_systems()))
    directory = directory_of(source or Path(plan.cluster), config)
    if is_captured(directory):
        answer = systems.preview_now(directory, plan, read_config(config))
    else:
        if source is None:  # a directory of the cluster's name
            taken_at = load_manifest(directory)[1].taken_at
            note(f"Snapshot {directory}, taken at {taken_at:%Y-%m-%d %H:%M:%S} UTC.")
        answer = systems.preview(directory, plan)
    return emit(answer, as_json=as_json)
