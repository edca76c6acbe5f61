"""``trimtab policy``: its options, nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dashboard.cli.options import Config, Json, Source

app = typer.Typer()
policy = typer.Typer(
    no_args_is_help=True,
    help="List, set and delete policies: isolation, anti-affinity, domains, groups, rates, quotas.",
)
app.add_typer(policy, name="policy")

Cluster = Annotated[
    str, typer.Argument(metavar="CLUSTER", help="Cluster name in the configuration.")
]
Kind = Annotated[
    str,
    typer.Argument(
        metavar="KIND",
        help="isolation, anti_affinity, failure_domain, resource_group, namespace_resource_group, "
        "publish_rate, dispatch_rate, subscription_dispatch_rate, replicator_dispatch_rate, "
        "subscribe_rate, resource_quota.",
    ),
]
Name = Annotated[
    str, typer.Argument(metavar="NAME", help="Name of the policy, namespace or bundle.")
]
PlanFile = Annotated[
    Path | None, typer.Option("--plan", metavar="OUT", help="Write the plan to a file.")
]
Reason = Annotated[str, typer.Option(help="Reason (recorded in the plan).")]
Unloads = Annotated[bool, typer.Option("--unload", help="Unload misplaced bundles too.")]


@app.command()
def isolation(
    source: Source,
    namespace: Annotated[
        str | None, typer.Option(metavar="TENANT/NAMESPACE", help="Only this namespace.")
    ] = None,
    config: Config = None,
    as_json: Json = False,
) -> int:
    """Show which brokers may serve which namespaces, and misplaced bundles."""
    from dashboard.cli.policies import isolation as policies_isolation

    return policies_isolation.show_isolation(source, namespace, config, as_json=as_json)


@policy.command("list")
def list_policies(
    cluster: Cluster,
    kind: Annotated[str, typer.Argument(metavar="[KIND]", help="Only this kind.")] = "",
    config: Config = None,
    as_json: Json = False,
) -> int:
    """List the policies."""
    from dashboard.cli.policies import change as policies_change

    return policies_change.show_policies(config, cluster, kind, as_json=as_json)


@policy.command("set")
def set_policy(
    cluster: Cluster,
    kind: Kind,
    name: Name,
    value: Annotated[str, typer.Argument(metavar="VALUE", help="Value: JSON, or a plain name.")],
    plan: PlanFile = None,
    unload: Unloads = False,
    reason: Reason = "",
    config: Config = None,
    as_json: Json = False,
) -> int:
    """Plan a policy, validated; run it with `apply`."""
    from core.pulsar.plan.policy import DesiredPolicy
    from dashboard.cli.policies import change as policies_change

    change = policies_change.PolicyChange(DesiredPolicy(kind, name, value), plan, reason, unload)
    return policies_change.change_policy(config, cluster, change, as_json=as_json)


@policy.command("delete")
def delete_policy(
    cluster: Cluster,
    kind: Kind,
    name: Name,
    plan: PlanFile = None,
    unload: Unloads = False,
    reason: Reason = "",
    config: Config = None,
    as_json: Json = False,
) -> int:
    """Plan the removal of a policy; run it with `apply`."""
    from core.pulsar.plan.policy import DesiredPolicy
    from dashboard.cli.policies import change as policies_change

    change = policies_change.PolicyChange(DesiredPolicy(kind, name, None), plan, reason, unload)
    return policies_change.change_policy(config, cluster, change, as_json=as_json)
