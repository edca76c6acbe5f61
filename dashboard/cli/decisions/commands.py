"""The commands on decisions of Pulsar's balancer: their options, nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from core.pulsar.requests import ALL, ShedRequest, SimulateRequest
from dashboard.cli.options import (
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
from dashboard.cli.requests import takes

app = typer.Typer()

RecentlyUnloaded = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="JSON list of bundles in their grace period."),
]


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
    from dashboard.cli.snapshots import Assumptions, OneBundle

    of = OneBundle(bundle, candidates, with_filters=filters, non_persistent=non_persistent)
    assumptions = Assumptions.of(strategy, settings, release)
    where = fleet.Engine(engine, config)
    return fleet.place(snapshots, of, assumptions, where, as_json=as_json)


@app.command()
@takes(ShedRequest, skip=("settings",), strategy=None)
def shed(
    snapshots: Snapshots,
    request: ShedRequest,
    settings: Settings = None,
    recently_unloaded: RecentlyUnloaded = None,
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
    from dashboard.cli.output import UsageFaultError
    from dashboard.cli.snapshots import Assumptions

    if request.strategy == ALL:
        raise UsageFaultError(
            "A round is of one strategy.", hint="Name one of them; `trimtab explain` has all."
        )
    assumptions = Assumptions.of(None, settings, release)
    return fleet.shed(
        snapshots,
        request,
        assumptions,
        fleet.Engine(engine, config),
        recently_unloaded=recently_unloaded,
        plan_file=plan,
        as_json=as_json,
    )


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
    from core.pulsar.plan.split import SplitSpec
    from dashboard.cli.decisions import split as decisions_split
    from dashboard.cli.snapshots import Assumptions

    spec = SplitSpec(
        algorithm=algorithm,
        positions=decisions_split.parse_positions(positions),
        is_unloaded=unload_parts,
    )
    assumptions = Assumptions.of(None, settings, release)
    return decisions_split.split(
        snapshot, bundle, spec, assumptions, plan_file=plan, reason=reason, as_json=as_json
    )


@app.command()
@takes(SimulateRequest, skip=("settings", "seeds"))
def simulate(
    snapshots: Snapshots,
    request: SimulateRequest,
    seed: Annotated[int, typer.Option(min=0, help="Seed of all random draws.")] = 1,
    recently_unloaded: RecentlyUnloaded = None,
    settings: Settings = None,
    release: Release = None,
    engine: EngineName = "local",
    config: Config = None,
    as_json: Json = False,
) -> int:
    """Simulate the balancer's rounds to convergence: moves, deviation, flaps."""
    import msgspec

    from dashboard.cli.decisions import fleet
    from dashboard.cli.snapshots import Assumptions

    return fleet.simulate(
        snapshots,
        msgspec.structs.replace(request, seeds=(seed,)),
        Assumptions.of(None, settings, release),
        fleet.Engine(engine, config),
        recently_unloaded=recently_unloaded,
        as_json=as_json,
    )


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
    recently_unloaded: RecentlyUnloaded = None,
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
    return explanation.explain(
        source,
        Assumptions.of(None, settings, release),
        broker=broker,
        bundle=bundle,
        recently_unloaded=recently_unloaded,
        config=config,
        as_json=as_json,
    )
