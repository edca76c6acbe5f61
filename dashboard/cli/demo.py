"""``trimtab demo`` and ``trimtab sandbox``: clusters on this machine, and all that serves them."""

from __future__ import annotations

import json
import shlex
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

import typer

from core.errors import ConfigError, UnknownNameError
from core.pulsar.settings import find_release
from dashboard import services
from dashboard.cli.clusters import (
    READY_S,
    note_open_runs,
    open_when_ready,
    own_command,
    start_collector,
    start_jobs,
    start_pages,
    start_worker,
)
from dashboard.cli.config import read_config
from dashboard.cli.options import MAX_PORT, Config, Json, StateDir
from dashboard.cli.output import (
    EXIT_DONE,
    Answer,
    UsageFaultError,
    emit,
    note,
    print_json,
    say,
    table,
)
from dashboard.cli.requests import takes
from dashboard.cli.supervisor import Child, Supervisor, end_with_parent, free_port, shutting_down
from dashboard.services import pegasus, sandbox
from dashboard.services.sandbox import SandboxRequest

if TYPE_CHECKING:
    from dashboard.services.pegasus import RunningPegasus
    from dashboard.services.sandbox import RunningFleet

_PULSAR_FILE: Final = "sandbox-pulsar.toml"
_PEGASUS_FILE: Final = "sandbox-pegasus.toml"


app = typer.Typer()


@app.command()
@takes(SandboxRequest, skip=("minute_s", "dynamic", "release"))
def demo(
    request: SandboxRequest,
    port: Annotated[
        int,
        typer.Option(min=1, max=MAX_PORT, help="Port of the pages, or the next free one."),
    ] = 8501,
    browser: Annotated[bool, typer.Option(help="Open the page in a browser.")] = True,
    state_dir: StateDir = None,
) -> int:
    """Run the dashboard on embedded clusters: sandboxes, collector, worker and jobs."""
    started = time.monotonic()
    state = state_dir or Path(tempfile.mkdtemp(prefix="trimtab-demo-"))
    services.keep_private(state)
    config = state.resolve() / "trimtab.toml"
    parts = [config.with_name(_PULSAR_FILE), config.with_name(_PEGASUS_FILE)]
    for own in (config, *parts):
        clear_own_config(own)
    port = free_port(port)
    keeps_state = state_dir is not None
    with (
        shutting_down(threading.Event()) as stop,
        Supervisor(state.resolve() / "logs", stop) as all_,
    ):
        try:
            fleets = _start_sandboxes(all_, request, parts)
            pages = start_pages(all_, config, port)
            all_.wait_until(
                lambda: all(part.is_file() for part in parts),
                "The sandbox",
                READY_S,
                [*fleets, pages],
            )
            write_sandbox_config(config, [sections_of(part) for part in parts], config.parent)
            note(f"sandbox    {request.brokers} brokers, {request.bundles} bundles")
            note("           a Pegasus cluster: 5 nodes, 6 tables")
            collector = start_collector(all_, config)
            # the fleet is shown as soon as it is read; the Pegasus cluster comes when it comes
            all_.wait_until(
                lambda: _has_snapshot(config),
                "The first snapshot",
                READY_S,
                all_.children,
            )
            note(f"collector  every {PERIOD_S:.0f} s, state in {state}")
            worker = start_worker(all_, config)
            note("worker     carries out what is applied")
            jobs = start_jobs(all_, config)
            note("jobs       back-tests and other long computations, requested on their pages")
            open_when_ready(all_, pages, port, open_browser=browser)
            note("The command line knows both clusters after:")
            note(f"  export {services.CONFIG_ENV}={shlex.quote(str(config))}")
            note(f"Ready after {time.monotonic() - started:.1f} s. Ctrl-C ends it.")
            all_.watch([*fleets, pages, collector, worker], restarted=[jobs])
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


def _has_snapshot(config: Path) -> bool:
    shelf = services.shelf(read_config(config))
    return shelf.latest(services.SANDBOX_NAME, services.now()) is not None


def _start_sandboxes(all_: Supervisor, request: SandboxRequest, parts: list[Path]) -> list[Child]:
    of_pulsar, of_pegasus = (
        ["--seed", str(request.seed), "--write-config", str(one)] for one in parts
    )
    of_pulsar += ["--brokers", str(request.brokers), "--bundles", str(request.bundles)]
    of_pegasus += ["--kind", "pegasus"]
    return [
        all_.start("sandbox", own_command("sandbox", *of_pulsar)),
        all_.start("sandbox-pegasus", own_command("sandbox", *of_pegasus)),
    ]


@app.command("sandbox")
@takes(SandboxRequest)
def run_sandbox(
    request: SandboxRequest,
    write_config: Annotated[
        Path | None, typer.Option(help="Write a trimtab.toml for the fleet.")
    ] = None,
    kind: Annotated[
        Literal["pulsar", "pegasus"],
        typer.Option(help="pegasus: meta and replica servers, no ZooKeeper."),
    ] = "pulsar",
    state_dir: StateDir = None,
    as_json: Json = False,
) -> int:
    """Run the embedded fleet: a real ZooKeeper and simulated brokers, until Ctrl-C."""
    if kind == "pegasus":
        return _pegasus_sandbox(request.seed, write_config, as_json=as_json)
    if request.release is not None:
        try:
            find_release(request.release)
        except UnknownNameError as exc:
            raise UsageFaultError(exc.message, hint=exc.hint) from exc
    end_with_parent()
    with (
        shutting_down(threading.Event()) as stop,
        sandbox.sandbox(request, state_dir) as fleet,
    ):
        if write_config is not None:
            home = write_config.resolve().parent
            write_sandbox_config(write_config, [pulsar_section(fleet)], home, request.minute_s)
        if as_json:
            print_json({"zookeeper": fleet.zookeeper, "admin_urls": fleet.admin_urls})
        else:
            say(f"ZooKeeper  {fleet.zookeeper}")
            say(f"brokers    {len(fleet.admin_urls)}, the first at {fleet.admin_urls[0]}")
            if write_config is not None:
                say(f"config     {write_config}")
        sys.stdout.flush()
        stop.wait()
    return EXIT_DONE


def _pegasus_sandbox(seed: int, config: Path | None, *, as_json: bool) -> int:
    """``trimtab sandbox --kind pegasus``: the cluster alone, until Ctrl-C."""
    end_with_parent()
    with shutting_down(threading.Event()) as stop, pegasus.sandbox(seed) as cluster:
        if config is not None:
            write_sandbox_config(config, [pegasus_section(cluster)], config.resolve().parent)
        if as_json:
            print_json({"meta_servers": cluster.meta_servers, "nodes": cluster.nodes})
        else:
            say(f"meta servers     {', '.join(cluster.meta_servers)}")
            say(f"replica servers  {', '.join(cluster.nodes)}")
            if config is not None:
                say(f"config           {config}")
        sys.stdout.flush()
        stop.wait()
    return EXIT_DONE


@app.command("sandbox-node")
def sandbox_node(
    node: Annotated[
        str,
        typer.Argument(metavar="[NODE]", help="host:port of a replica server, or leader."),
    ] = "",
    doing: Annotated[
        str,
        typer.Argument(
            metavar="[CHANGE]", help="stop, start, restart, freeze, thaw, mute or unmute."
        ),
    ] = "",
    config: Config = None,
    as_json: Json = False,
) -> int:
    """Inject or end a fault in a node of the Pegasus sandbox; without NODE, show the nodes."""
    loaded = read_config(config)
    meta_servers = pegasus.sandbox_meta_servers(loaded)
    found = pegasus.change_sandbox_node(meta_servers, node, doing)
    body = {
        "leader": found.leader,
        "nodes": {
            name: {
                "running": one.is_running,
                "alive": one.is_alive,
                "mute": one.is_mute,
                "frozen": one.is_frozen,
            }
            for name, one in found.nodes.items()
        },
    }

    def show() -> None:
        say(f"leader  {found.leader or 'none right now'}")
        table(
            ("node", "process", "for the meta server"),
            [
                (
                    name,
                    ("runs" if one.is_running else "ended")
                    + (", frozen" if one.is_frozen else "")
                    + (", mute" if one.is_mute else ""),
                    "alive" if one.is_alive else "dead",
                )
                for name, one in found.nodes.items()
            ],
        )

    return emit(Answer(body, show), as_json=as_json)


PERIOD_S: Final = 10.0
"""Seconds between two snapshots of a sandbox."""

_WRITTEN_BY_US: Final = "# Points at the sandbox that wrote it; worthless once that has ended."
_SECTION: Final = "[[clusters]]"


def pulsar_section(fleet: RunningFleet) -> str:
    """Return the lines of a Pulsar sandbox."""
    lines = [
        _SECTION,
        f"name = {json.dumps(services.SANDBOX_NAME)}",
        'environment = "demo"',
        "read_only = false",
        f"zookeeper = {json.dumps(fleet.zookeeper)}",
        f"admin_urls = {json.dumps(fleet.admin_urls)}",
        "prometheus = { scrape = true, sample_s = 0.5 }",
    ]
    return "\n".join(lines) + "\n"


def pegasus_section(cluster: RunningPegasus) -> str:
    """Return the lines of a Pegasus sandbox."""
    lines = [
        _SECTION,
        f"name = {json.dumps(pegasus.SANDBOX_NAME)}",
        'kind = "pegasus"',
        'environment = "demo"',
        "read_only = false",
        f"meta_servers = {json.dumps(cluster.meta_servers)}",
    ]
    return "\n".join(lines) + "\n"


def write_sandbox_config(
    path: Path, sections: Sequence[str], state_dir: Path, minute_s: float = 60.0
) -> None:
    """Write a configuration of sandboxes; it appears whole or not at all.

    Args:
        path: Of the file.
        sections: Lines of each cluster.
        state_dir: Folder of snapshots, history and journal.
        minute_s: Seconds that count as a minute of the clusters' settings.
    """
    head = [
        _WRITTEN_BY_US,
        f"state_dir = {json.dumps(str(state_dir))}",
        f"collect_every_s = {PERIOD_S}",
        "",
    ]
    if minute_s != 60.0:  # a minute as it is
        head += ["[history]", f"minute_s = {minute_s:g}", ""]
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_suffix(".partial")
    aside.write_text("\n".join(head) + "\n" + "\n".join(sections), encoding="utf-8")
    aside.replace(path)


def sections_of(path: Path) -> str:
    """Return the lines of the clusters in a configuration that a sandbox wrote."""
    _, mark, rest = path.read_text(encoding="utf-8").partition(_SECTION)
    return mark + rest


def clear_own_config(path: Path) -> None:
    """Remove what an earlier demo wrote.

    Raises:
        ConfigError: A demo did not write it: it may point at real clusters.
    """
    if not path.exists():
        return
    if not path.read_text(encoding="utf-8", errors="replace").startswith(_WRITTEN_BY_US):
        raise ConfigError(
            f"{path} is not the demo's own: it would be overwritten.",
            hint="Name another --state-dir.",
        )
    path.unlink()
