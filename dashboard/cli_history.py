"""The commands of ``trimtab history``: their options, nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dashboard.cli_options import Config, Json

history = typer.Typer(help="What was recorded: list it, take minutes and ranges out, tidy it up.")

Cluster = Annotated[str, typer.Argument(metavar="CLUSTER", help="Name in the history.")]
From = Annotated[
    str | None, typer.Option("--from", metavar="TIME", help="ISO 8601 (UTC), or -2h, -30min, -7d.")
]
To = Annotated[str | None, typer.Option("--to", metavar="TIME", help="By default the end.")]
Uri = Annotated[
    str | None,
    typer.Option("--history", metavar="URI", help="Where it is; by default the configuration's."),
]


@history.command()
def minutes(
    cluster: Cluster,
    start: From = None,
    end: To = None,
    uri: Uri = None,
    config: Config = None,
    as_json: Json = False,
) -> int:
    """List the recorded minutes of a cluster, and where some are missing."""
    from dashboard import cli_recorded

    past = cli_recorded.Past.of(uri, config)
    return cli_recorded.minutes(past, cluster, (start, end), as_json=as_json)


@history.command()
def events(
    cluster: Cluster,
    start: From = None,
    end: To = None,
    kind: Annotated[
        list[str] | None,
        typer.Option(help="Only these: move, split, leader, setting, step, run ..."),
    ] = None,
    by: Annotated[
        str | None, typer.Option(help="Only what was done by cluster, or by trimtab.")
    ] = None,
    uri: Uri = None,
    config: Config = None,
    as_json: Json = False,
) -> int:
    """Say what happened: moves, splits, leaders, settings, steps of runs, each with who did it."""
    from dashboard import cli_recorded

    past = cli_recorded.Past.of(uri, config)
    wish = cli_recorded.EventWish(tuple(kind or ()), by)
    return cli_recorded.events(past, cluster, (start, end), wish, as_json=as_json)


@history.command()
def agreement(
    cluster: Cluster,
    start: From = None,
    end: To = None,
    strategy: Annotated[
        str | None, typer.Option(help="By default the one that the cluster was configured with.")
    ] = None,
    replay: Annotated[
        bool,
        typer.Option("--replay", help="Foretell anew from the record, not what was foretold live."),
    ] = False,
    minute_s: Annotated[
        float | None,
        typer.Option(
            min=0.1,
            help="With --replay: seconds recorded that are a minute; by default as configured.",
        ),
    ] = None,
    uri: Uri = None,
    config: Config = None,
    as_json: Json = False,
) -> int:
    """Compare what the shadow balancer foretold with what the real leader moved, round by round."""
    from dashboard import cli_recorded

    past = cli_recorded.Past.of(uri, config)
    pace = minute_s or past.config.history.minute_s
    wish = cli_recorded.AgreementWish((start, end), strategy, pace if replay else None)
    return cli_recorded.agreement(past, cluster, wish, as_json=as_json)


@history.command()
def snapshot(
    cluster: Cluster,
    at: Annotated[str, typer.Option(metavar="TIME", help="The newest minute up to then.")],
    out: Annotated[Path, typer.Option(help="Directory to write; must not be there.")],
    uri: Uri = None,
    config: Config = None,
    as_json: Json = False,
) -> int:
    """Take a past minute out as a snapshot directory, for every other command."""
    from dashboard import cli_recorded

    past = cli_recorded.Past.of(uri, config)
    return cli_recorded.snapshot(past, cluster, at, out, as_json=as_json)


@history.command("export")
def export_(
    source: Annotated[
        str,
        typer.Argument(
            metavar="CLUSTER", help="Name in the history, or a directory of snapshots of one."
        ),
    ],
    out: Annotated[Path, typer.Option(help="File to write; must not be there.")],
    start: From = None,
    end: To = None,
    uri: Uri = None,
    config: Config = None,
    as_json: Json = False,
) -> int:
    """Write a time range into one file that opens on another machine."""
    from dashboard import cli_history_files, cli_recorded

    past = cli_recorded.Past.of(uri, config)
    return cli_history_files.export(past, source, (start, end), out, as_json=as_json)


@history.command("import")
def import_(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="SOURCE", help="A file of export, a snapshot directory, or a shelf of them."
        ),
    ],
    name: Annotated[
        str | None, typer.Option("--as", metavar="NAME", help="Under this cluster name.")
    ] = None,
    uri: Uri = None,
    config: Config = None,
    as_json: Json = False,
) -> int:
    """Take an exported range, or snapshots, into the history; known minutes are left alone."""
    from dashboard import cli_history_files, cli_recorded

    past = cli_recorded.Past.of(uri, config)
    return cli_history_files.take_in(past, source, name, as_json=as_json)


@history.command()
def repair(
    cluster: Annotated[
        str | None, typer.Argument(metavar="[CLUSTER]", help="By default all.")
    ] = None,
    apply: Annotated[
        bool, typer.Option("--apply", help="Do it; without it only what would be done is shown.")
    ] = False,
    uri: Uri = None,
    config: Config = None,
    as_json: Json = False,
) -> int:
    """Set damaged files aside, put back what can be, and report what is lost."""
    from dashboard import cli_history_files, cli_recorded

    past = cli_recorded.Past.of(uri, config)
    return cli_history_files.repair(past, cluster, is_applied=apply, as_json=as_json)


@history.command()
def compact(
    cluster: Annotated[
        str | None, typer.Argument(metavar="[CLUSTER]", help="By default all.")
    ] = None,
    uri: Uri = None,
    config: Config = None,
    as_json: Json = False,
) -> int:
    """Put small files together, drop what is too old or too much, as collectors do anyway."""
    from dashboard import cli_history_files, cli_recorded

    past = cli_recorded.Past.of(uri, config)
    return cli_history_files.compact(past, cluster, as_json=as_json)
