"""``trimtab policy``: its options, nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dashboard.cli_options import Config, Json, Source

serving = typer.Typer()
policy = typer.Typer(
    no_args_is_help=True,
    help="Isolation, anti-affinity, failure domains, resource groups, rates and quotas.",
)

Cluster = Annotated[str, typer.Argument(metavar="CLUSTER", help="In the configuration.")]
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
    str, typer.Argument(metavar="NAME", help="Of the policy, or the namespace or bundle it is of.")
]
PlanFile = Annotated[Path | None, typer.Option("--plan", metavar="OUT", help="File to write.")]
Reason = Annotated[str, typer.Option(help="Why; kept in the plan.")]
Unloads = Annotated[
    bool, typer.Option("--unload", help="Plan to unload what would lie wrong then, too.")
]


@serving.command()
def isolation(
    source: Source,
    namespace: Annotated[
        str | None, typer.Option(metavar="TENANT/NAMESPACE", help="Only who may serve this one.")
    ] = None,
    config: Config = None,
    as_json: Json = False,
) -> int:
    """Say which brokers may serve what, and which bundles lie where they may not."""
    from dashboard import cli_isolation

    return cli_isolation.show_isolation(source, namespace, config, as_json=as_json)


@policy.command("list")
def list_policies(
    cluster: Cluster,
    kind: Annotated[str, typer.Argument(metavar="[KIND]", help="Only this kind.")] = "",
    config: Config = None,
    as_json: Json = False,
) -> int:
    """List what is set."""
    from dashboard import cli_policy

    return cli_policy.show_policies(config, cluster, kind, as_json=as_json)


@policy.command("set")
def set_policy(
    cluster: Cluster,
    kind: Kind,
    name: Name,
    value: Annotated[str, typer.Argument(metavar="VALUE", help="JSON, or a plain name.")],
    plan: PlanFile = None,
    unload: Unloads = False,
    reason: Reason = "",
    config: Config = None,
    as_json: Json = False,
) -> int:
    """Plan to set a policy, checked as the brokers do not; `apply` carries it out."""
    from core.plan.policy import PolicyWish
    from dashboard import cli_policy

    change = cli_policy.PolicyChange(PolicyWish(kind, name, value), plan, reason, unload)
    return cli_policy.change_policy(config, cluster, change, as_json=as_json)


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
    """Plan to remove a policy; `apply` carries it out."""
    from core.plan.policy import PolicyWish
    from dashboard import cli_policy

    change = cli_policy.PolicyChange(PolicyWish(kind, name, None), plan, reason, unload)
    return cli_policy.change_policy(config, cluster, change, as_json=as_json)
