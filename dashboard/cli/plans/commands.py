"""The commands around what is done to clusters: their options, nothing else.

They belong to the one ``trimtab`` command; this is a module of its own for its length only.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dashboard.cli.options import Config, Json

acting = typer.Typer()

Reason = Annotated[
    str, typer.Option(help="Reason (recorded in the audit log); required unless --dry-run.")
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Show what would be sent now; change nothing.")
]
Pace = Annotated[
    str | None,
    typer.Option(
        metavar="STEPS/min", help="Rate limit, for example 10/min; default: the cluster's limit."
    ),
]
PauseBalancer = Annotated[
    bool,
    typer.Option("--pause-balancer", help="Disable the cluster's own shedding during the run."),
]
Detach = Annotated[
    bool, typer.Option("--detach", help="Request the run and return; a worker executes it.")
]


@acting.command()
def runs(
    run: Annotated[
        str | None, typer.Argument(metavar="RUN", help="Run to show; default: list all.")
    ] = None,
    cluster: Annotated[str | None, typer.Option(help="Only runs of this cluster.")] = None,
    last: Annotated[int, typer.Option(min=1, help="Number of runs to list.")] = 20,
    verify: Annotated[
        bool, typer.Option("--verify", help="Verify the whole journal; exit code 1: damaged.")
    ] = False,
    expect: Annotated[
        str | None,
        typer.Option(metavar="HASH", help="With --verify: this hash must be in the journal."),
    ] = None,
    export: Annotated[
        Path | None, typer.Option(metavar="FILE.jsonl", help="Export the entries to a file.")
    ] = None,
    pause: Annotated[
        bool, typer.Option("--pause", help="Pause RUN after the current step.")
    ] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Resume RUN.")] = False,
    stop: Annotated[bool, typer.Option("--stop", help="Stop RUN after the current step.")] = False,
    reason: Annotated[str, typer.Option(help="Reason (recorded in the audit log).")] = "",
    config: Config = None,
    as_json: Json = False,
) -> int:
    """Show runs: time, person, reason, result; control a run; verify the journal."""
    from dashboard.cli.plans import runs as plans_runs

    request = plans_runs.RunsRequest(
        *(run, cluster, last, verify, expect, export),
        controls=plans_runs.controls_of(pause=pause, resume=resume, stop=stop),
        reason=reason,
    )
    return plans_runs.runs(config, request, as_json=as_json)


@acting.command()
def worker(
    clusters: Annotated[
        list[str] | None, typer.Argument(metavar="CLUSTER...", help="Cluster names; default: all.")
    ] = None,
    config: Config = None,
) -> int:
    """Execute requested runs on clusters, until Ctrl-C."""
    from dashboard.cli.plans import apply as plans_apply

    return plans_apply.worker(config, clusters or [])


@acting.command()
def jobs(
    deed: Annotated[
        str, typer.Argument(metavar="[serve|list|show|stop]", help="Action.")
    ] = "serve",
    job_id: Annotated[
        str | None, typer.Argument(metavar="[ID]", help="Job to show or stop.")
    ] = None,
    config: Config = None,
    as_json: Json = False,
) -> int:
    """Run the job server until Ctrl-C; or list, show and stop jobs."""
    from dashboard.cli import jobs as jobs_commands

    return jobs_commands.jobs(deed, job_id, config, as_json=as_json)


@acting.command()
def apply(
    plan: Annotated[Path, typer.Argument(metavar="PLAN", help="Plan file.")],
    cluster: Annotated[
        str,
        typer.Option(metavar="NAME", help="Cluster name in the configuration; must be the plan's."),
    ],
    reason: Reason = "",
    dry_run: DryRun = False,
    pace: Pace = None,
    pause_balancer: PauseBalancer = False,
    detach: Detach = False,
    config: Config = None,
    as_json: Json = False,
) -> int:
    """Apply a plan: check, send and verify, step by step."""
    from dashboard.cli.plans import apply as plans_apply

    request = plans_apply.ApplyRequest(
        reason=reason,
        pace=pace,
        pause_balancer=pause_balancer,
        is_dry=dry_run,
        is_detached=detach,
        as_json=as_json,
    )
    return plans_apply.apply(config, plan, cluster, request)


@acting.command("set")
def set_settings(
    cluster: Annotated[
        str, typer.Argument(metavar="CLUSTER", help="Cluster name in the configuration.")
    ],
    changes: Annotated[
        list[str] | None,
        typer.Argument(metavar="KEY=VALUE...", help="Dynamic settings in the brokers' notation."),
    ] = None,
    unset: Annotated[
        list[str] | None,
        typer.Option("--unset", metavar="KEY", help="Remove the dynamic value."),
    ] = None,
    plan: Annotated[
        Path | None, typer.Option(metavar="OUT", help="Write the plan to a file.")
    ] = None,
    reason: Annotated[str, typer.Option(help="Reason (recorded in the plan).")] = "",
    config: Config = None,
    as_json: Json = False,
) -> int:
    """Plan a change of dynamic settings, validated; run it with `apply`."""
    from dashboard.cli.plans import setting

    return setting.set_settings(
        config,
        cluster,
        changes or [],
        unset=unset or [],
        plan_file=plan,
        reason=reason,
        as_json=as_json,
    )


@acting.command()
def undo(
    run: Annotated[str, typer.Argument(metavar="RUN", help="Run id from `trimtab runs`.")],
    reason: Reason = "",
    plan: Annotated[
        Path | None, typer.Option(metavar="OUT", help="Write the inverse plan to a file instead.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Apply without confirmation.")] = False,
    dry_run: DryRun = False,
    pace: Pace = None,
    pause_balancer: PauseBalancer = False,
    detach: Detach = False,
    config: Config = None,
    as_json: Json = False,
) -> int:
    """Undo a run: move each bundle back and restore each setting, as the run left them."""
    from dashboard.cli.plans import apply as plans_apply
    from dashboard.cli.plans import undo as plans_undo

    request = plans_apply.ApplyRequest(
        reason=reason,
        pace=pace,
        pause_balancer=pause_balancer,
        is_dry=dry_run,
        is_detached=detach,
        as_json=as_json,
    )
    return plans_undo.undo(config, run, request, plan_file=plan, is_sure=yes)
