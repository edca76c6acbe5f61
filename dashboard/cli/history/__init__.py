"""Commands of ``trimtab history``, and options that they share."""

from __future__ import annotations

from typing import Annotated

import typer

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
