"""The commands around what is done to clusters: their options, nothing else.

They belong to the one ``trimtab`` command; this is a module of its own for its length only.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dashboard.cli_options import Config, Json

acting = typer.Typer()


@acting.command()
def runs(
    run: Annotated[
        str | None, typer.Argument(metavar="RUN", help="Show this run; by default list them.")
    ] = None,
    cluster: Annotated[str | None, typer.Option(help="Only runs of this cluster.")] = None,
    last: Annotated[int, typer.Option(min=1, help="How many are listed.")] = 20,
    verify: Annotated[
        bool, typer.Option("--verify", help="Check the whole journal; exit code 1: damaged.")
    ] = False,
    expect: Annotated[
        str | None, typer.Option(metavar="HASH", help="With --verify: must still be in it.")
    ] = None,
    export: Annotated[
        Path | None, typer.Option(metavar="FILE.jsonl", help="Write the entries to a file.")
    ] = None,
    config: Config = None,
    as_json: Json = False,
) -> int:
    """Say what was applied: when, by whom, why, what came of it; and check the journal."""
    from dashboard import cli_runs

    wish = cli_runs.RunsWish(run, cluster, last, verify, expect, export)
    return cli_runs.runs(config, wish, as_json=as_json)
