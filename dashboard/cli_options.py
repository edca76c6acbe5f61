"""Options that several commands share, each with its one help text."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Json = Annotated[bool, typer.Option("--json", help="Print exactly one JSON object.")]
Snapshot = Annotated[Path, typer.Argument(help="A snapshot directory.", metavar="SNAPSHOT")]
Snapshots = Annotated[
    list[Path],
    typer.Argument(
        help="Snapshot directories; several are told by cluster.", metavar="SNAPSHOT..."
    ),
]
Source = Annotated[
    str, typer.Argument(metavar="CLUSTER-or-SNAPSHOT", help="A configured name, or a directory.")
]
EngineName = Annotated[
    str, typer.Option("--engine", help="local or spark: the same answer, by other means.")
]
Config = Annotated[
    Path | None,
    typer.Option("--config", help="trimtab.toml; by default TRIMTAB_CONFIG or ./trimtab.toml."),
]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=JSON", help="Assume another value of a broker setting."),
]
Strategy = Annotated[
    str | None, typer.Option(help="Placement strategy; by default the one in force.")
]
Release = Annotated[
    str | None, typer.Option(help="4.0, 4.2 or 5.0; by default the brokers' own version decides.")
]
Bundles = Annotated[
    list[str], typer.Option("--bundle", metavar="BUNDLE", help="tenant/namespace/0xLOW_0xHIGH.")
]
StateDir = Annotated[
    Path | None, typer.Option("--state-dir", help="Where snapshots and logs are kept.")
]
