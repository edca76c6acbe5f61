"""``trimtab pegasus``: the group."""

from __future__ import annotations

from typing import Final

import typer

from dashboard.cli.registry import lazy_group

COMMANDS: Final = {
    "dashboard.cli.pegasus.balance": {
        "balance": "Simulate the meta server's balancer, round by round, with reasons.",
    },
    "dashboard.cli.pegasus.state": {
        "nodes": "Show the replica servers: replicas, load, disks.",
        "tables": "Show the tables: size, load, health.",
        "health": "Show unhealthy partitions in all three countings, and whether it is balanced.",
    },
    "dashboard.cli.pegasus.plans": {
        "level": (
            "Show the function level, stored and effective; `set LEVEL --reason TEXT` sets it."
        ),
        "set": "Change a setting of running servers, validated.",
        "move": (
            "Move a primary, or copy a replica from one node to another, as `balance` of the shell."
        ),
        "propose": "Propose one safe change of a partition; unsafe ones are refused.",
        "migrate": "Move every primary off a node; no data moves.",
        "drain": "Drain nodes one after the other; their replicas go to other nodes.",
        "offline": "Take nodes out of service; the run waits until each process was stopped.",
        "rolling-update": "Restart nodes one by one; the run waits until each was restarted.",
        "rebalance": "Run the meta server's balancer until it is done, then restore the level.",
        "even": "Balance the cluster by one measure with few moves.",
    },
}
"""Commands by module, each with its help line."""

app = typer.Typer()
app.add_typer(
    typer.Typer(
        cls=lazy_group(COMMANDS), help="Show, balance and maintain Apache Pegasus clusters."
    ),
    name="pegasus",
)
