"""``trimtab leader``: its options, nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dashboard.cli_options import Config, Json, Release

leader = typer.Typer(
    no_args_is_help=True,
    help="Record what a Pulsar leader works from, replay and predict what it decides.",
)


@leader.command()
def replay(
    recording: Annotated[
        Path, typer.Argument(metavar="RECORDING.jsonl.gz", help="Events, one JSON object a line.")
    ],
    strategy: Annotated[str, typer.Option(metavar="NAME", help="Shedding strategy.")],
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=JSON", help="A value of the brokers' broker.conf."),
    ] = None,
    start: Annotated[
        str | None,
        typer.Option("--from", metavar="T", help="First round: epoch seconds or ISO 8601 (UTC)."),
    ] = None,
    end: Annotated[
        str | None, typer.Option("--to", metavar="T", help="Last round, likewise.")
    ] = None,
    release: Release = None,
    as_json: Json = False,
) -> int:
    """Replay the shedding rounds of a recording, from its events alone."""
    from dashboard import cli_leader_replay

    return cli_leader_replay.replay(
        recording,
        cli_leader_replay.ReplayRequest(strategy, tuple(settings or ()), start, end, release),
        as_json=as_json,
    )


@leader.command("next")
def next_(
    cluster: Annotated[str, typer.Argument(metavar="CLUSTER", help="A configured name.")],
    config: Config = None,
    as_json: Json = False,
) -> int:
    """Show the next shedding round as the running collector predicts it."""
    from dashboard import cli_leader_next

    return cli_leader_next.next_round(config, cluster, as_json=as_json)


@leader.command()
def record(
    cluster: Annotated[str, typer.Argument(metavar="CLUSTER", help="A configured name.")],
    out: Annotated[
        Path, typer.Option(metavar="FILE.jsonl.gz", help="File to create; .gz compresses it.")
    ],
    duration: Annotated[
        str | None,
        typer.Option(
            "--for", metavar="DURATION", help="Such as 60s or 20min; without it until Ctrl-C."
        ),
    ] = None,
    config: Config = None,
) -> int:
    """Record the znodes that a cluster's leader works from, change by change."""
    from dashboard import cli_leader_record

    return cli_leader_record.record(config, cluster, out, duration)
