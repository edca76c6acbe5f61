"""The command about ownership: its options, nothing else.

It belongs to the one ``trimtab`` command; this is a module of its own for its length only.
"""

from __future__ import annotations

from typing import Annotated

import typer

from dashboard.cli.options import Config, Json

app = typer.Typer()


@app.command()
def owners(
    source: Annotated[
        str,
        typer.Argument(
            metavar="CLUSTER|SNAPSHOT",
            help="Name in the configuration, read now; or a snapshot directory.",
        ),
    ],
    namespace: Annotated[
        str | None, typer.Option(metavar="TENANT/NAMESPACE", help="Only this namespace.")
    ] = None,
    orphans: Annotated[
        bool,
        typer.Option("--orphans", help="Only bundles with ownership problems."),
    ] = False,
    config: Config = None,
    as_json: Json = False,
) -> int:
    """Show ownership: sessions, orphans, double claims, namespaces on few brokers."""
    from dashboard.cli.ownership.owners import owners as run

    return run(source, config, namespace=namespace, only_problems=orphans, as_json=as_json)
