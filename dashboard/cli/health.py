"""``trimtab health``: the findings of a cluster of any system."""

from __future__ import annotations

from functools import partial

import typer

from core.findings.request import HealthRequest
from dashboard.cli import systems
from dashboard.cli.each import CommandEngine, each
from dashboard.cli.options import Config, EngineName, Json
from dashboard.cli.requests import takes
from dashboard.cli.source import Snapshots

app = typer.Typer()


@app.command()
@takes(HealthRequest)
def health(
    snapshots: Snapshots,
    request: HealthRequest,
    engine: EngineName = "local",
    config: Config = None,
    as_json: Json = False,
) -> int:
    """Show the findings of a cluster or a snapshot.

    Each finding has its numbers.
    """
    command = partial(systems.health, target_code=request.target)
    large = partial(systems.large_health, target_code=request.target)
    return each(snapshots, command, CommandEngine(engine, config), as_json=as_json, large=large)
