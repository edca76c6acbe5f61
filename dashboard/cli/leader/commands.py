"""``trimtab leader``: its options, nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dashboard.cli.options import Config, Json, Release

app = typer.Typer()
leader = typer.Typer(
    no_args_is_help=True,
    help="Record, replay and predict the shedding rounds of a Pulsar leader.",
)
app.add_typer(leader, name="leader")


@leader.command()
def replay(
    recording: Annotated[
        Path, typer.Argument(metavar="RECORDING.jsonl.gz", help="Recording, one event per line.")
    ],
    strategy: Annotated[str, typer.Option(metavar="NAME", help="Shedding strategy.")],
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=JSON", help="Value of a setting in broker.conf."),
    ] = None,
    start: Annotated[
        str | None,
        typer.Option("--from", metavar="T", help="First round: epoch seconds or ISO 8601 (UTC)."),
    ] = None,
    end: Annotated[
        str | None,
        typer.Option("--to", metavar="T", help="Last round: epoch seconds or ISO 8601 (UTC)."),
    ] = None,
    release: Release = None,
    as_json: Json = False,
) -> int:
    """Replay the shedding rounds of a recording, from its events alone."""
    from dashboard.cli.leader import replay as leader_replay

    return leader_replay.replay(
        recording,
        leader_replay.ReplayRequest(strategy, tuple(settings or ()), start, end, release),
        as_json=as_json,
    )


@leader.command("next")
def next_(
    cluster: Annotated[
        str, typer.Argument(metavar="CLUSTER", help="Cluster name in the configuration.")
    ],
    config: Config = None,
    as_json: Json = False,
) -> int:
    """Show the next shedding round as the running collector predicts it."""
    from dashboard.cli.leader import next_round

    return next_round.next_round(config, cluster, as_json=as_json)


@leader.command()
def record(
    cluster: Annotated[
        str, typer.Argument(metavar="CLUSTER", help="Cluster name in the configuration.")
    ],
    out: Annotated[
        Path, typer.Option(metavar="FILE.jsonl.gz", help="File to create; .gz compresses it.")
    ],
    duration: Annotated[
        str | None,
        typer.Option(
            "--for", metavar="DURATION", help="Duration, for example 20min; default: until Ctrl-C."
        ),
    ] = None,
    config: Config = None,
) -> int:
    """Record the znodes that a cluster's leader works from, change by change."""
    from dashboard.cli.leader import record as leader_record

    return leader_record.record(config, cluster, out, duration)
