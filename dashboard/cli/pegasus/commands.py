"""The commands on Pegasus: their options, nothing else.

They belong to the one ``trimtab`` command; this is a module of its own for its length only.
"""

from __future__ import annotations

from typing import Annotated

import typer

from core.pegasus.balance.request import BalanceRequest
from dashboard.cli.options import Config, Json
from dashboard.cli.pegasus.actions import acting
from dashboard.cli.requests import takes

Source = Annotated[
    str, typer.Argument(metavar="CLUSTER-or-SNAPSHOT", help="Cluster name, or snapshot directory.")
]

_PURPOSE = "Show, balance and maintain Apache Pegasus clusters."
app = typer.Typer()
pegasus = typer.Typer(help=_PURPOSE)
app.add_typer(pegasus, name="pegasus")
pegasus.add_typer(acting)


@pegasus.callback()
def common() -> None:
    """Show, balance and maintain Apache Pegasus clusters."""


@pegasus.command()
@takes(BalanceRequest, rounds=1)
def balance(
    request: BalanceRequest,
    source: Annotated[
        str,
        typer.Argument(
            metavar="SNAPSHOT-or-FILE",
            help="Snapshot directory, JSON file, or cluster name.",
        ),
    ],
    engine: Annotated[
        str, typer.Option(help="local or spark (app policy); the answer is the same.")
    ] = "local",
    config: Config = None,
    as_json: Json = False,
) -> int:
    """Simulate the meta server's balancer, round by round, with reasons."""
    from dashboard.cli.pegasus import balance as pegasus_balance

    return pegasus_balance.balance(source, request, (engine, config), as_json=as_json)


@pegasus.command()
def nodes(source: Source, config: Config = None, as_json: Json = False) -> int:
    """Show the replica servers: replicas, load, disks."""
    from dashboard.cli.pegasus import reading

    return reading.nodes(source, config, as_json=as_json)


@pegasus.command()
def tables(source: Source, config: Config = None, as_json: Json = False) -> int:
    """Show the tables: size, load, health."""
    from dashboard.cli.pegasus import reading

    return reading.tables(source, config, as_json=as_json)


@pegasus.command()
def health(source: Source, config: Config = None, as_json: Json = False) -> int:
    """Show unhealthy partitions in all three countings, and whether it is balanced."""
    from dashboard.cli.pegasus import reading

    return reading.health(source, config, as_json=as_json)
