"""``trimtab demo`` and ``trimtab sandbox``: clusters on this machine, and all that serves them."""

from __future__ import annotations

import shlex
import shutil
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from core.errors import UnknownNameError
from core.pulsar.settings import find_release
from dashboard import services
from dashboard.cli.clusters import (
    READY_S,
    open_when_ready,
    own_command,
    start_collector,
    start_jobs,
    start_pages,
    start_worker,
    tell_open_runs,
)
from dashboard.cli.demo.config import (
    PERIOD_S,
    clear_own_config,
    pegasus_section,
    pulsar_section,
    sections_of,
    write_config,
)
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
from dashboard.cli.supervisor import Child, Supervisor, end_with_parent, free_port, shutting_down
from dashboard.services import pegasus as services_pegasus
from dashboard.services import sandbox as services_sandbox
from dashboard.services.sandbox import SandboxRequest

_PULSAR_FILE: Final = "sandbox-pulsar.toml"
_PEGASUS_FILE: Final = "sandbox-pegasus.toml"


@dataclass(frozen=True)
class DemoOptions:
    """Size of the fleet, where the pages are, where state goes."""

    brokers: int
    bundles: int
    seed: int
    port: int
    open_browser: bool
    state_dir: Path | None


@dataclass(frozen=True)
class SandboxFiles:
    """Where the sandbox writes a configuration that points at it, and keeps its data."""

    config: Path | None
    state_dir: Path | None


def demo(options: DemoOptions) -> int:
    """``trimtab demo``: both sandboxes, collector, worker and pages under one supervisor."""
    started = time.monotonic()
    state = options.state_dir or Path(tempfile.mkdtemp(prefix="trimtab-demo-"))
    services.keep_private(state)
    config = state.resolve() / "trimtab.toml"
    parts = [config.with_name(_PULSAR_FILE), config.with_name(_PEGASUS_FILE)]
    for own in (config, *parts):
        clear_own_config(own)
    port = free_port(options.port)
    keeps_state = options.state_dir is not None
    with (
        shutting_down(threading.Event()) as stop,
        Supervisor(state.resolve() / "logs", stop) as all_,
    ):
        try:
            fleets = _start_sandboxes(all_, options, parts)
            pages = start_pages(all_, config, port)
            all_.wait_until(
                lambda: all(part.is_file() for part in parts),
                "The sandbox",
                READY_S,
                [*fleets, pages],
            )
            write_config(config, [sections_of(part) for part in parts], config.parent)
            note(f"sandbox    {options.brokers} brokers, {options.bundles} bundles")
            note("           a Pegasus cluster beside it: 5 nodes, 6 tables")
            collector = start_collector(all_, config)
            # the fleet is shown as soon as it is read; the Pegasus cluster comes when it comes
            all_.wait_until(
                lambda: services.has_snapshots(config, services.SANDBOX_NAME),
                "The first snapshot",
                READY_S,
                all_.children,
            )
            note(f"collector  every {PERIOD_S:.0f} s, state in {state}")
            worker = start_worker(all_, config)
            note("worker     carries out what is applied")
            jobs = start_jobs(all_, config)
            note("jobs       back-tests and other long computations, asked for on their pages")
            open_when_ready(all_, pages, port, open_browser=options.open_browser)
            note("The command line knows both clusters after:")
            note(f"  export {services.CONFIG_ENV}={shlex.quote(str(config))}")
            note(f"Ready after {time.monotonic() - started:.1f} s. Ctrl-C ends it.")
            all_.watch([*fleets, pages, collector, worker], kept=[jobs])
        except KeyboardInterrupt:
            pass
        except BaseException:
            keeps_state = True  # the logs tell why
            raise
    if keeps_state:
        tell_open_runs(config)
    else:
        shutil.rmtree(state, ignore_errors=True)
    note("Ended.")
    return EXIT_DONE


def _start_sandboxes(all_: Supervisor, options: DemoOptions, parts: list[Path]) -> list[Child]:
    pulsar, pegasus = (["--seed", str(options.seed), "--write-config", str(one)] for one in parts)
    pulsar += ["--brokers", str(options.brokers), "--bundles", str(options.bundles)]
    pegasus += ["--kind", "pegasus"]
    return [
        all_.start("sandbox", own_command("sandbox", *pulsar)),
        all_.start("sandbox-pegasus", own_command("sandbox", *pegasus)),
    ]


def sandbox(wish: SandboxRequest, files: SandboxFiles, *, as_json: bool) -> int:
    """``trimtab sandbox``: the fleet alone, until it is told to end.

    Raises:
        UsageFaultError: No such release: the brokers have the settings of a known line.
    """
    if wish.release is not None:
        try:
            find_release(wish.release)
        except UnknownNameError as exc:
            raise UsageFaultError(exc.message, hint=exc.hint) from exc
    end_with_parent()
    with (
        shutting_down(threading.Event()) as stop,
        services_sandbox.sandbox(wish, files.state_dir) as fleet,
    ):
        if files.config is not None:
            home = files.config.resolve().parent
            write_config(files.config, [pulsar_section(fleet)], home, wish.minute_s)
        if as_json:
            print_json({"zookeeper": fleet.zookeeper, "admin_urls": fleet.admin_urls})
        else:
            say(f"ZooKeeper  {fleet.zookeeper}")
            say(f"brokers    {len(fleet.admin_urls)}, the first at {fleet.admin_urls[0]}")
            if files.config is not None:
                say(f"config     {files.config}")
        sys.stdout.flush()
        stop.wait()
    return EXIT_DONE


def pegasus_sandbox(seed: int, config: Path | None, *, as_json: bool) -> int:
    """``trimtab sandbox --kind pegasus``: the cluster alone, until it is told to end."""
    end_with_parent()
    with shutting_down(threading.Event()) as stop, services_pegasus.sandbox(seed) as cluster:
        if config is not None:
            write_config(config, [pegasus_section(cluster)], config.resolve().parent)
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


def sandbox_node(node: str, doing: str, config: Path | None, *, as_json: bool) -> int:
    """``trimtab sandbox-node``: break or mend a node of a running Pegasus sandbox."""
    loaded = services.load_config(services.config_path(config))
    meta_servers = services_pegasus.sandbox_meta_servers(loaded)
    found = services_pegasus.change_sandbox_node(meta_servers, node, doing)
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
