"""``trimtab jobs``: list, show and stop the jobs that pages request; run them."""

from __future__ import annotations

import sys
import threading
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from core.errors import UnknownNameError
from dashboard.cli import answers
from dashboard.cli.config import configured
from dashboard.cli.options import Config, Json
from dashboard.cli.output import EXIT_DONE, Answer, UsageFaultError, emit, note, print_line, table
from dashboard.cli.progress import STATUS
from dashboard.cli.served import SERVED, refuse_served
from dashboard.cli.supervisor import end_with_parent, shutting_down
from dashboard.services import access, jobs

if TYPE_CHECKING:
    from dashboard.services.jobs import Job

app = typer.Typer()

ACTIONS: Final = ("list", "show", "stop", "serve")
_MAX_SHOWN: Final = 40


@app.command("jobs")
def run_jobs(
    action: Annotated[
        str,
        typer.Argument(metavar="[list|show|stop|serve]", help="Action: list, show, stop or serve."),
    ] = "list",
    job_id: Annotated[
        str | None, typer.Argument(metavar="[JOB]", help="Id of the job to show or stop.")
    ] = None,
    config_file: Config = None,
    as_json: Json = False,
) -> int:
    """List, show and stop jobs; run the job server.

    `serve` runs until Ctrl-C.
    """
    if action not in ACTIONS:
        unknown = UnknownNameError.of("action on jobs", action, ACTIONS)
        raise UsageFaultError(unknown.message, hint=unknown.hint)
    if (action in ("show", "stop")) != (job_id is not None):
        which = "needs a job id" if job_id is None else "takes no id"
        raise UsageFaultError(f"`trimtab jobs {action}` {which}.", hint="See `trimtab jobs list`.")
    if action == "serve":
        refuse_served("`trimtab jobs serve`")
        return _serve(config_file)
    if job_id is None:
        return _list(config_file, as_json=as_json)
    return _one(job_id, config_file, stops=action == "stop", as_json=as_json)


def _serve(config_file: Path | None) -> int:
    """Run the jobs of a state directory until Ctrl-C."""
    STATUS.stop()  # it is never done
    end_with_parent()
    config = configured(config_file)
    if config.spark.master.startswith("sc://"):
        _show_pandas()
    with shutting_down(threading.Event()) as stop:
        jobs.serve_jobs(config, stop, note)
    return EXIT_DONE


def _list(config_file: Path | None, *, as_json: bool) -> int:
    config = configured(config_file)
    found = jobs.jobs(config)
    is_served = jobs.is_served(config)

    def show() -> None:
        if not found:
            print_line("No jobs yet. The page Jobs and `POST /api/v1/jobs` request one.")
        table(
            ("job", "requested (UTC)", "who", "kind", "state", "done"),
            [_row(job) for job in found[:_MAX_SHOWN]],
            spare=("who",),
        )
        if len(found) > _MAX_SHOWN:
            print_line(f"... and {len(found) - _MAX_SHOWN:,} older jobs; --json lists all.")
        if not is_served and any(not job.is_ended for job in found):
            print_line("No job server is running. Start one with `trimtab jobs serve`.")

    body = {"jobs": [_json(job) for job in found], "is_served": is_served}
    return emit(Answer(body, show), as_json=as_json)


def _one(job_id: str, config_file: Path | None, *, stops: bool, as_json: bool) -> int:
    config = configured(config_file)
    if stops:
        jobs.stop_job(config, job_id, access.command_identity(config))
    found = jobs.job(config, job_id)

    def show() -> None:
        state = "stopping" if found.is_stopping and not found.is_ended else found.state
        print_line(
            f"{found.id}: {found.kind or 'unknown kind'}, {state}. {found.status.activity}".rstrip()
        )
        for line in (found.problem, (found.status.error or {}).get("message", "")):
            if line:
                print_line(str(line))
        if found.answer is not None:
            print_line(found.answer.sentence)
            table(("table", "content"), list(found.answer.tables.items()))
            if SERVED.get() is None:
                print_line(f"Tables: {found.folder / 'result'}")

    return emit(Answer(_json(found), show), as_json=as_json)


def _json(job: Job) -> dict[str, Any]:
    """Return a job; a caller of the HTTP interface cannot use its folder."""
    body = answers.job(job)
    if SERVED.get() is not None:
        del body["folder"]
    return body


def _row(job: Job) -> tuple[str, ...]:
    request = job.request
    status = job.status
    done = f"{status.done:,} of {status.total:,}" if status.total else ""
    return (
        job.id,
        f"{datetime.fromisoformat(request.requested_at):%Y-%m-%d %H:%M}" if request else "",
        request.actor if request else "",
        job.kind,
        "stopping" if job.is_stopping and not job.is_ended else job.state,
        done,
    )


def _show_pandas() -> None:
    """Make pandas visible again: Spark Connect does not work without it."""
    sys.meta_path[:] = [one for one in sys.meta_path if type(one).__name__ != "_WithoutPandas"]
