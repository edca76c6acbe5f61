"""``trimtab demo`` and ``trimtab sandbox``: clusters on this machine, and all that serves them."""

from __future__ import annotations

import shlex
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from dashboard import services
from dashboard.cli.clusters import (
    note_open_runs,
    open_when_ready,
    own_command,
    start_collector,
    start_jobs,
    start_pages,
    start_worker,
)
from dashboard.cli.options import MAX_PORT, Json, StateDir
from dashboard.cli.output import (
    EXIT_DONE,
    note,
)
from dashboard.cli.requests import takes
from dashboard.cli.sandbox_config import (
    PERIOD_S,
    clear_own_config,
    sections_of,
    write_sandbox_config,
)
from dashboard.cli.supervisor import READY_S, Child, Supervisor, free_port, shutting_down
from dashboard.services.demo import note_demo
from dashboard.services.sandbox import SandboxRequest
from dashboard.systems import FIRST, KIND_HELP, SYSTEMS, Kind, part

app = typer.Typer()


@app.command()
@takes(SandboxRequest, skip=("minute_s", "dynamic", "release"))
def demo(
    request: SandboxRequest,
    port: Annotated[
        int,
        typer.Option(min=1, max=MAX_PORT, help="Port of the pages, or the next free port."),
    ] = 8501,
    browser: Annotated[bool, typer.Option(help="Open the page in a browser.")] = True,
    past: Annotated[bool, typer.Option(help="Simulate a day of history before the start.")] = True,
    state_dir: StateDir = None,
) -> int:
    """Run the dashboard on embedded clusters.

    Starts sandboxes, a collector, a worker and a job server.
    """
    started = time.monotonic()
    state = state_dir or Path(tempfile.mkdtemp(prefix="trimtab-demo-"))
    services.keep_private(state)
    config = state.resolve() / "trimtab.toml"
    files = {kind: config.with_name(f"sandbox-{kind}.toml") for kind in SYSTEMS}
    port = free_port(port)
    keeps_state = state_dir is not None
    with (
        shutting_down(threading.Event()) as stop,
        Supervisor(state.resolve() / "logs", stop) as all_,
    ):
        try:
            all_.claim(is_alone=True)  # before another one's configuration is removed
            for own in (config, *files.values()):
                clear_own_config(own)
            fleets = _start_sandboxes(all_, request, files)
            pages = start_pages(all_, config, port)
            all_.wait_until(
                lambda: all(file.is_file() for file in files.values()),
                "The sandbox",
                READY_S,
                [*fleets, pages],
            )
            write_sandbox_config(
                config, [sections_of(file) for file in files.values()], config.parent
            )
            note_demo(config.parent, services.now(), has_past=past)
            for rank, kind in enumerate(files):
                note(f"{'' if rank else 'sandbox':11}{part(kind, 'sandbox').summary(request)}")
            collector = start_collector(all_, config)
            # the first cluster is shown as soon as it is read; the others come when they come
            all_.wait_until(
                lambda: _has_snapshot(config.parent, part(FIRST, "sandbox").NAME),
                "The first snapshot",
                READY_S,
                [*fleets, pages, collector],
            )
            note(f"collector  every {PERIOD_S:.0f} s, state in {state}")
            if past:
                _start_past(all_, request, config)
            _start_others(all_, config)
            open_when_ready(all_, pages, port, open_browser=browser)
            _note_config(config)
            note(f"Ready after {time.monotonic() - started:.1f} s. Stop with Ctrl-C.")
            all_.watch(fleets)
        except KeyboardInterrupt:
            pass
        except BaseException:
            keeps_state = True  # the logs have the reason
            raise
    if keeps_state:
        note_open_runs(config)
    else:
        shutil.rmtree(state, ignore_errors=True)
    note("Ended.")
    return EXIT_DONE


def _start_others(all_: Supervisor, config: Path) -> None:
    """Start the worker and the job server."""
    start_worker(all_, config)
    start_jobs(all_, config)
    note("worker     executes applied plans")
    note("jobs       back-tests and other long computations")


def _has_snapshot(state: Path, cluster: str) -> bool:
    """Return whether a whole snapshot is there; the supervisor does without what reads it."""
    folder = state / "snapshots" / cluster
    return folder.is_dir() and any(not one.name.startswith(".") for one in folder.iterdir())


def _start_sandboxes(
    all_: Supervisor, request: SandboxRequest, files: Mapping[str, Path]
) -> list[Child]:
    return [
        all_.start(
            part(kind, "sandbox").NAME,
            own_command(
                "sandbox",
                *("--kind", kind, "--seed", str(request.seed), "--write-config", str(file)),
                *part(kind, "sandbox").options(request),
            ),
            is_read=True,
        )
        for kind, file in files.items()
    ]


def _start_past(all_: Supervisor, request: SandboxRequest, config: Path) -> None:
    """Start the simulation of the history before the start; it ends by itself."""
    numbers = (request.brokers, request.bundles, request.seed)
    command = [sys.executable, "-m", "dashboard.simulated_past", str(config), *map(str, numbers)]
    all_.start("past", command)
    note("history    one simulated day before the start")


def _note_config(config: Path) -> None:
    note("To use both clusters on the command line:")
    note(f"  export {services.CONFIG_ENV}={shlex.quote(str(config))}")


@app.command("sandbox")
@takes(SandboxRequest)
def run_sandbox(
    request: SandboxRequest,
    write_config: Annotated[
        Path | None, typer.Option(help="Write a trimtab.toml for the clusters.")
    ] = None,
    kind: Annotated[Kind, typer.Option(help=KIND_HELP)] = FIRST,
    state_dir: StateDir = None,
    as_json: Json = False,
) -> int:
    """Run an embedded test cluster, until Ctrl-C.

    Pulsar: a real ZooKeeper and simulated brokers. Pegasus: meta and replica servers.
    """
    code: int = part(kind, "sandbox").run(request, write_config, state_dir, as_json=as_json)
    return code
