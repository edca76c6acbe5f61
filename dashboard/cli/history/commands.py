"""The commands of ``trimtab history``: their options, nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from core.history.analysis.requests import FlapsRequest, TrendsRequest
from dashboard.cli.options import Config, EngineName, Json
from dashboard.cli.requests import takes

app = typer.Typer()
history = typer.Typer(help="Read, export, import, repair and analyse the recorded history.")
app.add_typer(history, name="history")

Cluster = Annotated[str, typer.Argument(metavar="CLUSTER", help="Cluster name in the history.")]
From = Annotated[
    str | None,
    typer.Option("--from", metavar="TIME", help="Start: ISO 8601 (UTC), or -2h, -30min, -7d."),
]
To = Annotated[
    str | None, typer.Option("--to", metavar="TIME", help="End; default: the newest minute.")
]
Uri = Annotated[
    str | None,
    typer.Option("--history", metavar="URI", help="History to read; default: the configuration's."),
]


Out = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Directory for the whole tables as Parquet.")
]
Recorded = Annotated[
    list[str] | None,
    typer.Argument(metavar="CLUSTER...", help="Cluster names; default: all recorded."),
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
    from dashboard.cli.history import recorded

    past = recorded.Past.of(uri, config)
    return recorded.minutes(past, cluster, (start, end), as_json=as_json)


@history.command()
def events(
    cluster: Cluster,
    start: From = None,
    end: To = None,
    kind: Annotated[
        list[str] | None,
        typer.Option(help="Only this kind: move, split, leader, setting, step, run ..."),
    ] = None,
    by: Annotated[
        str | None, typer.Option(help="Only events caused by cluster, or by trimtab.")
    ] = None,
    uri: Uri = None,
    config: Config = None,
    as_json: Json = False,
) -> int:
    """List events: moves, splits, leaders, settings, steps of runs, each with its cause."""
    from dashboard.cli.history import recorded

    past = recorded.Past.of(uri, config)
    kinds = tuple(kind or ())
    return recorded.events(past, cluster, (start, end), kinds=kinds, by=by, as_json=as_json)


@history.command()
def agreement(
    cluster: Cluster,
    start: From = None,
    end: To = None,
    strategy: Annotated[
        str | None, typer.Option(help="Shedding strategy; default: the configured one.")
    ] = None,
    replay: Annotated[
        bool,
        typer.Option("--replay", help="Predict from the record instead of the live predictions."),
    ] = False,
    minute_s: Annotated[
        float | None,
        typer.Option(
            min=0.1,
            metavar="SECONDS",
            help="With --replay: recorded seconds per minute; default: as configured.",
        ),
    ] = None,
    uri: Uri = None,
    config: Config = None,
    as_json: Json = False,
) -> int:
    """Compare predicted and actual moves of the leader, round by round."""
    from dashboard.cli.history import recorded

    past = recorded.Past.of(uri, config)
    pace = minute_s or past.config.history.minute_s
    return recorded.agreement(
        past,
        cluster,
        (start, end),
        strategy=strategy,
        replayed_minute_s=pace if replay else None,
        as_json=as_json,
    )


@history.command()
def snapshot(
    cluster: Cluster,
    at: Annotated[str, typer.Option(metavar="TIME", help="Time; the newest minute up to then.")],
    out: Annotated[Path, typer.Option(help="Directory to create.")],
    uri: Uri = None,
    config: Config = None,
    as_json: Json = False,
) -> int:
    """Write a recorded minute as a snapshot directory, for every other command."""
    from dashboard.cli.history import recorded

    past = recorded.Past.of(uri, config)
    return recorded.snapshot(past, cluster, at, out, as_json=as_json)


@history.command("export")
def export_(
    source: Annotated[
        str,
        typer.Argument(
            metavar="CLUSTER", help="Cluster name in the history, or a directory of snapshots."
        ),
    ],
    out: Annotated[Path, typer.Option(help="File to create.")],
    start: From = None,
    end: To = None,
    uri: Uri = None,
    config: Config = None,
    as_json: Json = False,
) -> int:
    """Write a time range into one file that opens on another machine."""
    from dashboard.cli.history import recorded, transfer

    past = recorded.Past.of(uri, config)
    return transfer.export(past, source, (start, end), out, as_json=as_json)


@history.command("import")
def import_(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="SOURCE", help="Export file, snapshot directory, or directory of snapshots."
        ),
    ],
    name: Annotated[
        str | None, typer.Option("--as", metavar="NAME", help="Cluster name to import as.")
    ] = None,
    uri: Uri = None,
    config: Config = None,
    as_json: Json = False,
) -> int:
    """Import an exported range, or snapshots; recorded minutes are skipped."""
    from dashboard.cli.history import recorded, transfer

    past = recorded.Past.of(uri, config)
    return transfer.take_in(past, source, name, as_json=as_json)


@history.command()
def repair(
    cluster: Annotated[
        str | None, typer.Argument(metavar="[CLUSTER]", help="Cluster names; default: all.")
    ] = None,
    apply: Annotated[
        bool, typer.Option("--apply", help="Apply the repairs; default: preview.")
    ] = False,
    uri: Uri = None,
    config: Config = None,
    as_json: Json = False,
) -> int:
    """Repair the history: quarantine damaged files, restore rows, report losses."""
    from dashboard.cli.history import recorded, transfer

    past = recorded.Past.of(uri, config)
    return transfer.repair(past, cluster, is_applied=apply, as_json=as_json)


@history.command()
def compact(
    cluster: Annotated[
        str | None, typer.Argument(metavar="[CLUSTER]", help="Cluster names; default: all.")
    ] = None,
    uri: Uri = None,
    config: Config = None,
    as_json: Json = False,
) -> int:
    """Merge small files and drop what exceeds age or size, as collectors do."""
    from dashboard.cli.history import recorded, transfer

    past = recorded.Past.of(uri, config)
    return transfer.compact(past, cluster, as_json=as_json)


@history.command()
@takes(TrendsRequest)
def trends(
    request: TrendsRequest,
    clusters: Recorded = None,
    start: From = None,
    end: To = None,
    out: Out = None,
    uri: Uri = None,
    engine: EngineName = "local",
    config: Config = None,
    as_json: Json = False,
) -> int:
    """Show trends of brokers, bundles, nodes and tables: load, change, gap."""
    from dashboard.cli.history import analysis
    from dashboard.cli.history.recorded import Past

    where = analysis.Where.of(Past.of(uri, config), clusters or (), (start, end), (engine, out))
    return analysis.trends(request, where, as_json=as_json)


@history.command()
@takes(FlapsRequest)
def flaps(
    request: FlapsRequest,
    clusters: Recorded = None,
    start: From = None,
    end: To = None,
    out: Out = None,
    uri: Uri = None,
    engine: EngineName = "local",
    config: Config = None,
    as_json: Json = False,
) -> int:
    """Show flapping bundles, and moves without effect."""
    from dashboard.cli.history import analysis
    from dashboard.cli.history.recorded import Past

    where = analysis.Where.of(Past.of(uri, config), clusters or (), (start, end), (engine, out))
    return analysis.flaps(request, where, as_json=as_json)
