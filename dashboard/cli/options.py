"""Options that several commands share, each with its one help text."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from dashboard.cli.output import set_wide

COMPLETION_VARIABLE: Final = "_TRIMTAB_COMPLETE"
"""Set by a shell that completes a command line."""

MAX_PORT: Final = 65_535
MAX_ROUNDS: Final = 10_000
"""Rounds that one command simulates; more would take hours, and is a typing error."""

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Wide = Annotated[
    bool,
    typer.Option(
        "--wide",
        help="Print complete tables, wider than the terminal.",
        expose_value=False,
        callback=set_wide,
    ),
]
Source = Annotated[
    str, typer.Argument(metavar="CLUSTER-or-SNAPSHOT", help="Cluster name, or snapshot directory.")
]
Sources = Annotated[
    list[str],
    typer.Argument(
        metavar="CLUSTER-or-SNAPSHOT",
        help="Cluster names, group:NAME, tag:NAME, view:NAME, or snapshot directories; with "
        "several, one result per cluster.",
    ),
]
MaybeSource = Annotated[
    str | None,
    typer.Argument(metavar="[CLUSTER-or-SNAPSHOT]", help="Cluster name, or snapshot directory."),
]
EngineName = Annotated[
    str, typer.Option("--engine", help="local or spark; the result is the same.")
]
Server = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help="Answer from the Trimtab server at this address; TRIMTAB_TOKEN signs in.",
    ),
]
Config = Annotated[
    Path | None,
    typer.Option(
        "--config",
        help="trimtab.toml; default: TRIMTAB_CONFIG or ./trimtab.toml.",
        is_eager=True,  # it says where a cluster that an argument names is
    ),
]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=JSON", help="Assume this value of a broker setting."),
]
Strategy = Annotated[str | None, typer.Option(help="Placement strategy; default: the active one.")]
Release = Annotated[
    str | None,
    typer.Option(help="Release line (2.8 to 5.0) or version; default: the brokers'."),
]
Bundles = Annotated[
    list[str],
    typer.Option("--bundle", metavar="BUNDLE", help="Bundle, tenant/namespace/0xLOW_0xHIGH."),
]
OutTables = Annotated[
    Path | None,
    typer.Option("--out", metavar="DIR", help="Directory for the complete tables as Parquet."),
]
PlanFile = Annotated[
    Path | None, typer.Option("--plan", metavar="OUT", help="Write the plan to a file.")
]
PlanReason = Annotated[str, typer.Option("--reason", help="Reason (recorded in the plan).")]
StateDir = Annotated[
    Path | None, typer.Option("--state-dir", help="Directory of snapshots and logs.")
]

RecentlyUnloaded = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="JSON list of bundles in their grace period."),
]
