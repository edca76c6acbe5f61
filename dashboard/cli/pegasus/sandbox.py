"""``trimtab sandbox`` for Pegasus, and ``trimtab sandbox-node``: meta and replica servers."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from dashboard.cli.config import read_config
from dashboard.cli.options import Config, Json
from dashboard.cli.output import EXIT_DONE, Answer, emit, print_json, print_line, table
from dashboard.cli.sandbox_config import (
    SECTION,
    former_addresses,
    save_addresses,
    write_sandbox_config,
)
from dashboard.cli.supervisor import end_with_parent, shutting_down
from dashboard.services import pegasus
from dashboard.services.sandbox import SandboxRequest

if TYPE_CHECKING:
    from dashboard.services.pegasus import RunningPegasus

NAME: Final = pegasus.SANDBOX_NAME
"""Of its cluster."""

_ZONES: Final = "abc"

app = typer.Typer()


def options(request: SandboxRequest) -> list[str]:
    """Return the options of ``trimtab sandbox`` that the demo passes on."""
    del request  # its size is fixed
    return []


def summary(request: SandboxRequest) -> str:
    """Return a short description of the sandbox."""
    del request
    return "a Pegasus cluster: 5 nodes, 6 tables"


def run(
    request: SandboxRequest, write_config: Path | None, state_dir: Path | None, *, as_json: bool
) -> int:
    """Run the cluster until Ctrl-C.

    Args:
        request: Its seed.
        write_config: Configuration to write.
        state_dir: Not used: everything is in memory.
        as_json: Print one JSON object.
    """
    del state_dir
    end_with_parent()
    nodes, metas = (former_addresses(write_config, part) for part in ("nodes", "metas"))
    with (
        shutting_down(threading.Event()) as stop,
        pegasus.sandbox(request.seed, nodes, metas) as cluster,
    ):
        if write_config is not None:
            write_sandbox_config(write_config, [section(cluster)], write_config.resolve().parent)
            save_addresses(write_config, nodes=cluster.nodes, metas=cluster.meta_servers)
        if as_json:
            print_json({"meta_servers": cluster.meta_servers, "nodes": cluster.nodes})
        else:
            print_line(f"meta servers     {', '.join(cluster.meta_servers)}")
            print_line(f"replica servers  {', '.join(cluster.nodes)}")
            if write_config is not None:
                print_line(f"config           {write_config}")
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
            metavar="[CHANGE]",
            help="stop, start, restart, freeze, thaw, mute or unmute; leader: only stop.",
        ),
    ] = "",
    config: Config = None,
    as_json: Json = False,
) -> int:
    """Inject or end a fault in a Pegasus sandbox node.

    Without NODE, show the nodes.
    """
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
        print_line(f"leader  {found.leader or 'none'}")
        table(
            ("node", "process", "status at the meta server"),
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


def section(cluster: RunningPegasus) -> str:
    """Return the lines of a Pegasus sandbox."""
    lines = [
        SECTION,
        f"name = {json.dumps(pegasus.SANDBOX_NAME)}",
        'kind = "pegasus"',
        'environment = "demo"',
        "read_only = false",
        f"meta_servers = {json.dumps(cluster.meta_servers)}",
        f"labels = {{ {', '.join(_labels(cluster.nodes))} }}",
    ]
    return "\n".join(lines) + "\n"


def _labels(nodes: Sequence[str]) -> Iterator[str]:
    """Yield the label of each node, as pods in zones have: its port means nothing to a person."""
    for number, address in enumerate(nodes):
        yield f'{json.dumps(address)} = "replica-{number} zone-{_ZONES[number % len(_ZONES)]}"'
