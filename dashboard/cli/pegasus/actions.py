"""The commands that act on Pegasus clusters: their options, nothing else.

They belong to ``trimtab pegasus``; this is a module of its own for its length only.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dashboard.cli.options import Config, Json

Cluster = Annotated[
    str,
    typer.Argument(metavar="CLUSTER", help="Cluster name; a snapshot directory plans only."),
]
Reason = Annotated[
    str, typer.Option(help="Reason (recorded in the audit log); required with --apply.")
]
PlanFile = Annotated[
    Path | None, typer.Option("--plan", metavar="OUT", help="Write the plan to a file instead.")
]
Apply = Annotated[bool, typer.Option("--apply", help="Request the run and follow it.")]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Show what would be sent now; change nothing.")
]
Detach = Annotated[
    bool, typer.Option("--detach", help="Request the run and return; a worker executes it.")
]
Rate = Annotated[
    int,
    typer.Option("--rate", min=0, metavar="MB/S", help="Copy rate per disk (MB/s); 0: no limit."),
]
MaxUnderReplicated = Annotated[
    int,
    typer.Option(
        "--max-under-replicated",
        min=1,
        metavar="PARTITIONS",
        help="Max partitions that lack a replica at a time.",
    ),
]
Node = Annotated[str, typer.Argument(metavar="NODE", help="Registered name, host:port.")]
Nodes = Annotated[list[str], typer.Argument(metavar="NODE...", help="Registered names, host:port.")]
Steady = Annotated[bool, typer.Option("--steady", help="Hold the level at steady during the run.")]

acting = typer.Typer()


@acting.command()
def level(
    source: Annotated[
        str,
        typer.Argument(metavar="CLUSTER-or-SNAPSHOT", help="Cluster name, or snapshot directory."),
    ],
    verb: Annotated[
        str | None, typer.Argument(metavar="[set", help="The word set; default: show the level.")
    ] = None,
    wanted: Annotated[
        str | None,
        typer.Argument(metavar="LEVEL]", help="Level: stopped, blind, freezed, steady or lively."),
    ] = None,
    reason: Reason = "",
    plan: PlanFile = None,
    apply: Apply = False,
    dry_run: DryRun = False,
    detach: Detach = False,
    config: Config = None,
    as_json: Json = False,
) -> int:
    """Show the function level, stored and effective; `set LEVEL --reason TEXT` sets it."""
    from dashboard.cli.pegasus import reading, tasks

    if verb is None:
        return reading.level(source, config, as_json=as_json)
    is_plain = not plan and not dry_run
    request = tasks.wish_of(
        (source, config, as_json),
        (reason, plan),
        (apply or (is_plain and bool(reason)), dry_run, detach),
    )
    return tasks.set_level(request, verb, wanted)


@acting.command("set")
def set_setting(
    source: Cluster,
    key: Annotated[str, typer.Argument(metavar="KEY", help="Remote command or flag.")],
    value: Annotated[str, typer.Argument(metavar="VALUE", help="Value; clear empties a list.")],
    node: Annotated[str | None, typer.Option(help="Only this replica server.")] = None,
    reason: Reason = "",
    plan: PlanFile = None,
    apply: Apply = False,
    dry_run: DryRun = False,
    detach: Detach = False,
    config: Config = None,
    as_json: Json = False,
) -> int:
    """Change a setting of running servers, validated."""
    from dashboard.cli.pegasus import tasks

    request = tasks.wish_of((source, config, as_json), (reason, plan), (apply, dry_run, detach))
    return tasks.set_setting(request, key, value, node)


@acting.command()
def move(
    source: Cluster,
    gpid: Annotated[str, typer.Argument(metavar="GPID", help="Partition, 2.7 or temp.7.")],
    kind: Annotated[
        str, typer.Argument(metavar="KIND", help="Kind: move_pri, copy_pri or copy_sec.")
    ],
    from_node: Annotated[str, typer.Option("--from", metavar="NODE", help="Source node.")],
    to_node: Annotated[str, typer.Option("--to", metavar="NODE", help="Destination node.")],
    steady: Steady = False,
    reason: Reason = "",
    plan: PlanFile = None,
    apply: Apply = False,
    dry_run: DryRun = False,
    detach: Detach = False,
    config: Config = None,
    as_json: Json = False,
) -> int:
    """Move a primary, or copy a replica from one node to another, as `balance` of the shell."""
    from dashboard.cli.pegasus import tasks

    request = tasks.wish_of((source, config, as_json), (reason, plan), (apply, dry_run, detach))
    return tasks.move(request, gpid, kind, (from_node, to_node), keep_level=steady)


@acting.command()
def propose(
    source: Cluster,
    gpid: Annotated[str, typer.Argument(metavar="GPID", help="Partition, 2.7 or temp.7.")],
    change: Annotated[
        str,
        typer.Argument(
            metavar="TYPE",
            help="Type: ASSIGN_PRIMARY, ADD_SECONDARY, DOWNGRADE_TO_INACTIVE or REMOVE.",
        ),
    ],
    node: Annotated[str, typer.Option(metavar="NODE", help="Node that changes its role.")],
    reason: Reason = "",
    plan: PlanFile = None,
    apply: Apply = False,
    dry_run: DryRun = False,
    detach: Detach = False,
    config: Config = None,
    as_json: Json = False,
) -> int:
    """Propose one safe change of a partition; unsafe ones are refused."""
    from dashboard.cli.pegasus import tasks

    request = tasks.wish_of((source, config, as_json), (reason, plan), (apply, dry_run, detach))
    return tasks.propose(request, gpid, change, node)


@acting.command()
def migrate(
    source: Cluster,
    node: Node,
    reason: Reason = "",
    plan: PlanFile = None,
    apply: Apply = False,
    dry_run: DryRun = False,
    detach: Detach = False,
    config: Config = None,
    as_json: Json = False,
) -> int:
    """Move every primary off a node; no data moves."""
    from dashboard.cli.pegasus import tasks

    request = tasks.wish_of((source, config, as_json), (reason, plan), (apply, dry_run, detach))
    return tasks.migrate(request, node)


@acting.command()
def drain(
    source: Cluster,
    nodes: Nodes,
    max_under_replicated: MaxUnderReplicated = 10,
    reason: Reason = "",
    plan: PlanFile = None,
    apply: Apply = False,
    dry_run: DryRun = False,
    detach: Detach = False,
    config: Config = None,
    as_json: Json = False,
) -> int:
    """Drain nodes one after the other; their replicas go to other nodes."""
    from dashboard.cli.pegasus import tasks

    request = tasks.wish_of((source, config, as_json), (reason, plan), (apply, dry_run, detach))
    return tasks.drain(request, nodes, max_under_replicated)


@acting.command()
def offline(
    source: Cluster,
    nodes: Nodes,
    rate: Rate = 50,
    max_under_replicated: MaxUnderReplicated = 10,
    reason: Reason = "",
    plan: PlanFile = None,
    apply: Apply = False,
    dry_run: DryRun = False,
    detach: Detach = False,
    config: Config = None,
    as_json: Json = False,
) -> int:
    """Take nodes out of service; the run waits until each process was stopped."""
    from dashboard.cli.pegasus import tasks

    request = tasks.wish_of((source, config, as_json), (reason, plan), (apply, dry_run, detach))
    return tasks.offline(request, nodes, rate, max_under_replicated)


@acting.command("rolling-update")
def rolling_update(
    source: Cluster,
    nodes: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NODE...]", help="Nodes in this order; default: all alive."),
    ] = None,
    reason: Reason = "",
    plan: PlanFile = None,
    apply: Apply = False,
    dry_run: DryRun = False,
    detach: Detach = False,
    config: Config = None,
    as_json: Json = False,
) -> int:
    """Restart nodes one by one; the run waits until each was restarted."""
    from dashboard.cli.pegasus import tasks

    request = tasks.wish_of((source, config, as_json), (reason, plan), (apply, dry_run, detach))
    return tasks.rolling_update(request, nodes or [])


@acting.command()
def rebalance(
    source: Cluster,
    only_move_primary: Annotated[
        bool, typer.Option("--only-move-primary", help="Copy no primaries during the run.")
    ] = False,
    rate: Rate = 100,
    reason: Reason = "",
    plan: PlanFile = None,
    apply: Apply = False,
    dry_run: DryRun = False,
    detach: Detach = False,
    config: Config = None,
    as_json: Json = False,
) -> int:
    """Run the meta server's balancer until it is done, then restore the level."""
    from dashboard.cli.pegasus import tasks

    request = tasks.wish_of((source, config, as_json), (reason, plan), (apply, dry_run, detach))
    return tasks.rebalance(request, only_move_primary=only_move_primary, rate=rate)


@acting.command()
def even(
    source: Cluster,
    by: Annotated[str, typer.Option(help="Measure: primaries, count, disk, qps or cu.")] = "count",
    within: Annotated[
        float, typer.Option(min=0, metavar="PERCENT", help="Max deviation from the mean (%).")
    ] = 5.0,
    moves: Annotated[int | None, typer.Option(min=1, help="Max moves.")] = None,
    no_copy: Annotated[bool, typer.Option("--no-copy", help="Move primaries only.")] = False,
    reason: Reason = "",
    plan: PlanFile = None,
    apply: Apply = False,
    dry_run: DryRun = False,
    detach: Detach = False,
    config: Config = None,
    as_json: Json = False,
) -> int:
    """Balance the cluster by one measure with few moves."""
    from dashboard.cli.pegasus import tasks

    request = tasks.wish_of((source, config, as_json), (reason, plan), (apply, dry_run, detach))
    return tasks.even(request, tasks.EvenRequest(by, within, moves, no_copy))
