"""The commands around what is done to clusters: their options, nothing else.

They belong to the one ``trimtab`` command; this is a module of its own for its length only.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dashboard.cli_options import Config, Json

acting = typer.Typer()

Reason = Annotated[str, typer.Option(help="Why; kept in the journal. Needed unless --dry-run.")]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Say what would be sent now; change nothing.")
]
Pace = Annotated[
    str | None, typer.Option(help="Most steps begun, for example 10/min; the cluster's limit.")
]
PauseBalancer = Annotated[
    bool, typer.Option("--pause-balancer", help="Switch the cluster's own shedding off meanwhile.")
]
Detach = Annotated[bool, typer.Option("--detach", help="Only ask for it; a worker carries it out.")]


@acting.command()
def runs(
    run: Annotated[
        str | None, typer.Argument(metavar="RUN", help="Show this run; by default list them.")
    ] = None,
    cluster: Annotated[str | None, typer.Option(help="Only runs of this cluster.")] = None,
    last: Annotated[int, typer.Option(min=1, help="How many are listed.")] = 20,
    verify: Annotated[
        bool, typer.Option("--verify", help="Check the whole journal; exit code 1: damaged.")
    ] = False,
    expect: Annotated[
        str | None, typer.Option(metavar="HASH", help="With --verify: must still be in it.")
    ] = None,
    export: Annotated[
        Path | None, typer.Option(metavar="FILE.jsonl", help="Write the entries to a file.")
    ] = None,
    pause: Annotated[bool, typer.Option("--pause", help="Ask RUN to pause.")] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Ask RUN to go on.")] = False,
    stop: Annotated[
        bool, typer.Option("--stop", help="Ask RUN to end after the step under way.")
    ] = False,
    reason: Annotated[str, typer.Option(help="Why it is paused, resumed or stopped.")] = "",
    config: Config = None,
    as_json: Json = False,
) -> int:
    """Say what was applied: when, by whom, why, what came of it; and check the journal."""
    from dashboard import cli_runs

    wish = cli_runs.RunsWish(
        *(run, cluster, last, verify, expect, export),
        controls=cli_runs.controls_of(pause=pause, resume=resume, stop=stop),
        reason=reason,
    )
    return cli_runs.runs(config, wish, as_json=as_json)


@acting.command()
def worker(
    clusters: Annotated[
        list[str] | None, typer.Argument(metavar="CLUSTER...", help="By default all.")
    ] = None,
    config: Config = None,
) -> int:
    """Carry out what is applied to clusters, until Ctrl-C."""
    from dashboard import cli_apply

    return cli_apply.worker(config, clusters or [])


@acting.command()
def jobs(
    deed: Annotated[
        str, typer.Argument(metavar="[serve|list|show|stop]", help="What to do with them.")
    ] = "serve",
    job_id: Annotated[
        str | None, typer.Argument(metavar="[ID]", help="Of the job to show or stop.")
    ] = None,
    config: Config = None,
    as_json: Json = False,
) -> int:
    """Carry out the long computations that pages ask for, until Ctrl-C; or list, show, stop one."""
    from dashboard import cli_jobs

    return cli_jobs.jobs(deed, job_id, config, as_json=as_json)


@acting.command()
def apply(
    plan: Annotated[Path, typer.Argument(metavar="PLAN", help="A plan file.")],
    cluster: Annotated[
        str, typer.Option(metavar="NAME", help="Cluster in the configuration; the plan's own.")
    ],
    reason: Reason = "",
    dry_run: DryRun = False,
    pace: Pace = None,
    pause_balancer: PauseBalancer = False,
    detach: Detach = False,
    config: Config = None,
    as_json: Json = False,
) -> int:
    """Carry out exactly that plan: check, act and verify, step by step."""
    from dashboard import cli_apply

    wish = cli_apply.ApplyWish(
        reason=reason,
        pace=pace,
        pause_balancer=pause_balancer,
        is_dry=dry_run,
        is_detached=detach,
        as_json=as_json,
    )
    return cli_apply.apply(config, plan, cluster, wish)


@acting.command("set")
def set_settings(
    cluster: Annotated[str, typer.Argument(metavar="CLUSTER", help="In the configuration.")],
    changes: Annotated[
        list[str] | None,
        typer.Argument(metavar="KEY=VALUE...", help="Dynamic settings, as brokers write them."),
    ] = None,
    unset: Annotated[
        list[str] | None,
        typer.Option("--unset", metavar="KEY", help="Take its dynamic value away."),
    ] = None,
    plan: Annotated[Path | None, typer.Option(metavar="OUT", help="Plan file to write.")] = None,
    reason: Annotated[str, typer.Option(help="Why; kept in the plan.")] = "",
    config: Config = None,
    as_json: Json = False,
) -> int:
    """Plan to change dynamic settings, checked as the brokers do not; `apply` carries it out."""
    from dashboard import cli_setting

    wish = cli_setting.SettingWish(changes or [], unset or [], plan, reason)
    return cli_setting.set_settings(config, cluster, wish, as_json=as_json)


@acting.command()
def undo(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A run, as `trimtab runs` lists it.")],
    reason: Reason = "",
    plan: Annotated[
        Path | None, typer.Option(metavar="OUT", help="Only write the inverse plan to a file.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask before it is applied.")] = False,
    dry_run: DryRun = False,
    pace: Pace = None,
    pause_balancer: PauseBalancer = False,
    detach: Detach = False,
    config: Config = None,
    as_json: Json = False,
) -> int:
    """Take a run back: bring each bundle to where it was, from where the run left it."""
    from dashboard import cli_apply, cli_undo

    wish = cli_apply.ApplyWish(
        reason=reason,
        pace=pace,
        pause_balancer=pause_balancer,
        is_dry=dry_run,
        is_detached=detach,
        as_json=as_json,
    )
    return cli_undo.undo(config, run, wish, plan_file=plan, is_sure=yes)
