"""``trimtab quota`` and ``trimtab tenants``: their options, nothing else."""

from __future__ import annotations

from typing import Annotated

import typer

from dashboard.cli.options import Config, Json, Source

app = typer.Typer()


@app.command()
def quota(
    limit: Annotated[
        float | None,
        typer.Option(
            metavar="RATE", help="Limit of the resource group (per second); negative: none."
        ),
    ] = None,
    usage: Annotated[
        str | None, typer.Option(metavar="A,B,C", help="Usage of each broker (per second).")
    ] = None,
    formula: Annotated[
        str, typer.Option(help="upstream: the original class; published: the design document.")
    ] = "upstream",
    snapshot: Annotated[
        str | None,
        typer.Option(metavar="CLUSTER-or-SNAPSHOT", help="Read the group's limit and live usage."),
    ] = None,
    group: Annotated[str | None, typer.Option(help="Resource group of --snapshot.")] = None,
    of: Annotated[
        str, typer.Option(help="publish_msgs, publish_bytes, dispatch_msgs or dispatch_bytes.")
    ] = "publish_msgs",
    steps: Annotated[
        str | None,
        typer.Option(metavar="PERIODS:A,B,C;...", help="Simulate demand over time (per second)."),
    ] = None,
    period: Annotated[
        float,
        typer.Option(
            metavar="SECONDS", help="resourceUsageTransportPublishIntervalInSecs (s), with --steps."
        ),
    ] = 60.0,
    tolerance: Annotated[
        float,
        typer.Option(metavar="PERCENT", help="Change that is not reported (%), with --steps."),
    ] = 5.0,
    config: Config = None,
    as_json: Json = False,
) -> int:
    """Compute each broker's share of a resource group's limit."""
    from dashboard.cli.limits import tenants as run

    if group is not None or snapshot is not None:
        return run.live_quota(
            snapshot, group, of, config, limit=limit, usage=usage, as_json=as_json
        )
    if steps is not None:
        return run.course(
            limit,
            steps,
            period_s=period,
            tolerance_percent=tolerance,
            usage=usage,
            as_json=as_json,
        )
    return run.quota(limit, usage, formula, as_json=as_json)


@app.command()
def tenants(source: Source, config: Config = None, as_json: Json = False) -> int:
    """Show the traffic of each tenant next to the limits of its namespaces."""
    from dashboard.cli.limits import tenants as run

    return run.tenants(source, config, as_json=as_json)
