"""The commands on decisions of Pulsar's balancer: their options, nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dashboard.cli.options import (
    MAX_ROUNDS,
    Config,
    EngineName,
    Json,
    Release,
    Settings,
    Snapshot,
    Snapshots,
    Source,
    Sources,
    Strategy,
)

app = typer.Typer()


@app.command()
def health(
    sources: Sources,
    target: Annotated[
        str, typer.Option(help="Definition of balanced: vivo, tight or transfer.")
    ] = "vivo",
    engine: EngineName = "local",
    config: Config = None,
    as_json: Json = False,
) -> int:
    """Show the findings of a cluster or a snapshot, with numbers."""
    from dashboard.cli.decisions import fleet
    from dashboard.cli.source import snapshot_directories

    with snapshot_directories(sources, config) as directories:
        return fleet.health(directories, target, fleet.Engine(engine, config), as_json=as_json)


@app.command()
def lookup(
    snapshot: Snapshot,
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="Full or short topic name.")],
    as_json: Json = False,
) -> int:
    """Show where a topic is, step by step: topic, hash, bundle, owner."""
    from dashboard.cli import snapshots as snapshots_commands

    return snapshots_commands.lookup(snapshot, topic, as_json=as_json)


@app.command()
def place(
    snapshots: Snapshots,
    bundle: Annotated[
        str, typer.Option(metavar="BUNDLE", help="Bundle, tenant/namespace/0xLOW_0xHIGH.")
    ],
    strategy: Strategy = None,
    settings: Settings = None,
    release: Release = None,
    candidates: Annotated[
        str | None, typer.Option(metavar="A,B", help="Restrict to these brokers.")
    ] = None,
    filters: Annotated[bool, typer.Option(help="Apply the broker filters first.")] = True,
    non_persistent: Annotated[
        bool | None,
        typer.Option(
            "--non-persistent/--persistent",
            help="Kind of the bundle's topics; default: as in the snapshot.",
        ),
    ] = None,
    engine: EngineName = "local",
    config: Config = None,
    as_json: Json = False,
) -> int:
    """Show the placement candidates of a bundle with probabilities, and excluded brokers."""
    from dashboard.cli.decisions import fleet
    from dashboard.cli.snapshots import Assumptions, PlaceWish

    wish = PlaceWish(bundle, candidates, with_filters=filters, non_persistent=non_persistent)
    assumptions = Assumptions.of(strategy, settings, release)
    where = fleet.Engine(engine, config)
    return fleet.place(snapshots, wish, assumptions, where, as_json=as_json)


@app.command()
def shed(
    snapshots: Snapshots,
    strategy: Annotated[
        str | None, typer.Option(help="Shedding strategy; default: the active one.")
    ] = None,
    settings: Settings = None,
    rounds: Annotated[
        int, typer.Option(min=1, max=MAX_ROUNDS, help="Number of rounds, all on the same load.")
    ] = 1,
    recently_unloaded: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="JSON list of bundles in their grace period."),
    ] = None,
    strategy_only: Annotated[
        bool, typer.Option("--strategy-only", help="Skip the load manager's checks.")
    ] = False,
    release: Release = None,
    plan: Annotated[
        Path | None, typer.Option(metavar="OUT", help="Write a plan of the first round.")
    ] = None,
    engine: EngineName = "local",
    config: Config = None,
    as_json: Json = False,
) -> int:
    """Preview a shedding round: bundles, source and destination, and why."""
    from dashboard.cli.decisions import fleet
    from dashboard.cli.decisions import shed as decisions_shed
    from dashboard.cli.snapshots import Assumptions

    wish = decisions_shed.ShedWish(strategy, rounds, recently_unloaded, strategy_only, plan)
    assumptions = Assumptions.of(None, settings, release)
    where = fleet.Engine(engine, config)
    return fleet.shed(snapshots, wish, assumptions, where, as_json=as_json)


@app.command()
def split(
    snapshot: Snapshot,
    bundle: Annotated[
        str, typer.Option(metavar="BUNDLE", help="Bundle, tenant/namespace/0xLOW_0xHIGH.")
    ],
    algorithm: Annotated[
        str | None, typer.Option(help="Split algorithm; default: the brokers'.")
    ] = None,
    positions: Annotated[
        str | None, typer.Option(metavar="A,B", help="Positions for specified_positions_divide.")
    ] = None,
    plan: Annotated[
        Path | None, typer.Option(metavar="OUT", help="Write the plan to a file.")
    ] = None,
    unload_parts: Annotated[bool, typer.Option("--unload", help="Unload the parts too.")] = False,
    reason: Annotated[str, typer.Option(help="Reason (recorded in the plan).")] = "",
    settings: Settings = None,
    release: Release = None,
    as_json: Json = False,
) -> int:
    """Preview a split of a bundle: positions, load of the parts, effect."""
    from dashboard.cli.decisions import split as decisions_split
    from dashboard.cli.snapshots import Assumptions

    wish = decisions_split.SplitCommand(bundle, algorithm, positions, plan, reason, unload_parts)
    assumptions = Assumptions.of(None, settings, release)
    return decisions_split.split(snapshot, wish, assumptions, as_json=as_json)


@app.command()
def simulate(
    snapshots: Snapshots,
    shed: Annotated[
        str | None, typer.Option(help="Shedding strategy; default: the active one.")
    ] = None,
    place: Annotated[
        str | None, typer.Option(help="Placement strategy; default: the active one.")
    ] = None,
    rounds: Annotated[
        int, typer.Option(min=1, max=MAX_ROUNDS, help="Max rounds; it ends at convergence.")
    ] = 60,
    seed: Annotated[int, typer.Option(min=0, help="Seed of all random draws.")] = 1,
    add_broker: Annotated[
        list[str] | None, typer.Option(metavar="ID", help="Add this broker first.")
    ] = None,
    fail_broker: Annotated[
        list[str] | None, typer.Option(metavar="ID", help="Fail this broker first.")
    ] = None,
    remove_broker: Annotated[
        list[str] | None, typer.Option(metavar="ID", help="Shut this broker down first.")
    ] = None,
    fail_domain: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Fail this failure domain first.")
    ] = None,
    recently_unloaded: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="JSON list of bundles in their grace period."),
    ] = None,
    settings: Settings = None,
    release: Release = None,
    engine: EngineName = "local",
    config: Config = None,
    as_json: Json = False,
) -> int:
    """Simulate the balancer's rounds to convergence: moves, deviation, flaps."""
    from core.simulation import WhatIf
    from dashboard.cli.decisions import fleet, simulation
    from dashboard.cli.snapshots import Assumptions

    wish = simulation.SimulateWish(
        shedding=shed,
        rounds=rounds,
        seed=seed,
        recently_unloaded=recently_unloaded,
        what_if=WhatIf(
            added=tuple(add_broker or ()),
            failed=tuple(fail_broker or ()),
            removed=tuple(remove_broker or ()),
            failed_domains=tuple(fail_domain or ()),
        ),
    )
    assumptions = Assumptions.of(place, settings, release)
    where = fleet.Engine(engine, config)
    return fleet.simulate(snapshots, wish, assumptions, where, as_json=as_json)


@app.command()
def doctor(
    source: Source,
    settings: Settings = None,
    release: Release = None,
    config: Config = None,
    as_json: Json = False,
) -> int:
    """Check the settings: conflicts, differences, implausible values; cause and fix of each."""
    from dashboard.cli.decisions import settings_doctor
    from dashboard.cli.snapshots import Assumptions

    assumptions = Assumptions.of(None, settings, release)
    return settings_doctor.doctor(source, assumptions, config, as_json=as_json)


@app.command()
def explain(
    source: Source,
    broker: Annotated[str | None, typer.Option(metavar="ID", help="Explain this broker.")] = None,
    bundle: Annotated[
        str | None, typer.Option(metavar="BUNDLE", help="Explain this bundle.")
    ] = None,
    recently_unloaded: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="JSON list of bundles in their grace period."),
    ] = None,
    settings: Settings = None,
    release: Release = None,
    config: Config = None,
    as_json: Json = False,
) -> int:
    """Explain why brokers shed or stay in the next round, and which settings conflict."""
    from dashboard.cli.decisions import explanation
    from dashboard.cli.output import UsageFaultError
    from dashboard.cli.snapshots import Assumptions

    if broker is not None and bundle is not None:
        raise UsageFaultError(
            "Both --broker and --bundle are given.", hint="Ask about one of them at a time."
        )
    wish = explanation.ExplainWish(broker, bundle, recently_unloaded, config)
    return explanation.explain(
        source, wish, Assumptions.of(None, settings, release), as_json=as_json
    )
