"""The commands that start clusters on this machine: their options, nothing else.

They belong to the one ``trimtab`` command; this is a module of its own for its length only.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from dashboard.cli.options import MAX_PORT, Config, Json, StateDir

app = typer.Typer()

Brokers = Annotated[int, typer.Option(min=1, max=1_000, help="Simulated brokers.")]
BundleCount = Annotated[
    int, typer.Option(min=1, max=1_000_000, help="Bundles of the simulated fleet.")
]
Seed = Annotated[int, typer.Option(help="Seed of all random draws.")]


@app.command()
def demo(
    brokers: Brokers = 12,
    bundles: BundleCount = 600,
    seed: Seed = 7,
    port: Annotated[
        int,
        typer.Option(min=1, max=MAX_PORT, help="Port of the pages, or the next free one."),
    ] = 8501,
    browser: Annotated[bool, typer.Option(help="Open the page in a browser.")] = True,
    state_dir: StateDir = None,
) -> int:
    """Run the dashboard on embedded clusters: sandboxes, collector, worker and jobs."""
    from dashboard.cli.demo import run

    return run.demo(
        run.DemoOptions(brokers, bundles, seed, port, open_browser=browser, state_dir=state_dir)
    )


@app.command()
def sandbox(
    brokers: Brokers = 12,
    bundles: BundleCount = 600,
    seed: Seed = 7,
    write_config: Annotated[
        Path | None, typer.Option(help="Write a trimtab.toml for the fleet.")
    ] = None,
    kind: Annotated[
        Literal["pulsar", "pegasus"],
        typer.Option(help="pegasus: meta and replica servers, no ZooKeeper."),
    ] = "pulsar",
    minute_s: Annotated[
        float,
        typer.Option(min=0.5, max=60, metavar="SECONDS", help="Length of the leader's minute (s)."),
    ] = 60.0,
    dynamic: Annotated[
        list[str] | None,
        typer.Option("--dynamic", metavar="KEY=VALUE", help="Dynamic setting at the start."),
    ] = None,
    release: Annotated[
        str | None,
        typer.Option(help="Release line (2.8 to 5.0) or version that the Pulsar brokers present."),
    ] = None,
    state_dir: StateDir = None,
    as_json: Json = False,
) -> int:
    """Run the embedded fleet: a real ZooKeeper and simulated brokers, until Ctrl-C."""
    from dashboard.cli.demo import run
    from dashboard.services import sandbox as services_sandbox

    if kind == "pegasus":
        return run.pegasus_sandbox(seed, write_config, as_json=as_json)
    size = services_sandbox.SandboxRequest(
        brokers, bundles, seed, minute_s, tuple(dynamic or ()), release
    )
    files = run.SandboxFiles(write_config, state_dir)
    return run.sandbox(size, files, as_json=as_json)


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
    from dashboard.cli.demo import run

    return run.sandbox_node(node, doing, config, as_json=as_json)
