"""The ``trimtab`` command: its commands and options, nothing else.

What a command does is in the module or folder of its group. It is imported when the command runs,
so that ``trimtab --help`` and completion start at once.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.metadata import version as installed_version
from pathlib import Path
from types import ModuleType
from typing import Annotated

import typer

from core.errors import OpsError
from dashboard.cli.advise.commands import advise
from dashboard.cli.arguments import check_numbers_of, check_text, unusable_path
from dashboard.cli.backtest.commands import backtesting
from dashboard.cli.decisions.commands import improving
from dashboard.cli.demo.commands import starting
from dashboard.cli.history.commands import history
from dashboard.cli.leader.commands import leader
from dashboard.cli.limits.commands import limiting
from dashboard.cli.options import (
    MAX_PORT,
    MAX_ROUNDS,
    Bundles,
    Config,
    EngineName,
    Json,
    Release,
    Settings,
    Snapshot,
    Snapshots,
    Strategy,
)
from dashboard.cli.output import (
    EXIT_DONE,
    EXIT_USAGE,
    StoppedError,
    UsageFaultError,
    fail,
    forget_warnings,
    report_bug,
)
from dashboard.cli.ownership.commands import owning
from dashboard.cli.pegasus.commands import pegasus
from dashboard.cli.planning.commands import planning
from dashboard.cli.plans.commands import acting
from dashboard.cli.policies.commands import policy, serving

app = typer.Typer(
    name="trimtab",
    help="Show where Pulsar and Pegasus clusters are uneven, and preview, apply and undo the fix.",
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(starting)
app.add_typer(acting)
app.add_typer(pegasus, name="pegasus")
app.add_typer(improving)
app.add_typer(backtesting)
app.add_typer(planning)
app.add_typer(owning)
app.add_typer(history, name="history")
app.add_typer(leader, name="leader")
app.add_typer(limiting)
app.add_typer(advise, name="advise")
app.add_typer(policy, name="policy")
app.add_typer(serving)


@app.callback(invoke_without_command=True)
def common(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False,
) -> None:
    """Show where Pulsar and Pegasus clusters are uneven, and preview, apply and undo the fix."""
    if version:
        typer.echo(f"trimtab {installed_version('trimtab')}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(context.get_help(), err=True)
        raise typer.Exit(EXIT_USAGE)


@app.command()
def dashboard(
    config: Config = None,
    port: Annotated[
        int,
        typer.Option(min=1, max=MAX_PORT, help="Port of the pages, or the next free one."),
    ] = 8501,
    collect: Annotated[bool, typer.Option(help="Run a collector.")] = True,
    worker: Annotated[bool, typer.Option(help="Run a worker.")] = True,
    jobs: Annotated[bool, typer.Option(help="Run a job server.")] = True,
    browser: Annotated[bool, typer.Option(help="Open the page in a browser.")] = False,
) -> int:
    """Serve the pages, collect the configured clusters and apply requested plans."""
    from dashboard.cli.cluster import live

    companions = live.Companions(collector=collect, worker=worker, jobs=jobs)
    return live.dashboard(config, port, companions, open_browser=browser)


@app.command()
def check(config: Config = None, as_json: Json = False) -> int:
    """Check the configuration and every endpoint, and show fixes for what fails."""
    from dashboard.cli.cluster import live

    return live.check(config, as_json=as_json)


@app.command()
def collect(
    clusters: Annotated[
        list[str] | None, typer.Argument(metavar="CLUSTER...", help="Cluster names; default: all.")
    ] = None,
    every: Annotated[
        str | None,
        typer.Option(metavar="DURATION", help="Period, for example 60s or 5min; 0: once."),
    ] = None,
    history: Annotated[bool, typer.Option(help="Record snapshots in the history.")] = True,
    config: Config = None,
) -> int:
    """Collect snapshots of clusters periodically and record them, until Ctrl-C."""
    from dashboard.cli.cluster import live

    return live.collect(config, clusters or [], every, is_recorded=history)


@app.command()
def capture(
    cluster: Annotated[
        str, typer.Argument(metavar="CLUSTER", help="Cluster name in the configuration.")
    ],
    out: Annotated[Path, typer.Option(help="Directory to create.")],
    topics_of: Annotated[
        list[str] | None,
        typer.Option(metavar="BUNDLE", help="Fetch the topics of this bundle too."),
    ] = None,
    config: Config = None,
    as_json: Json = False,
) -> int:
    """Take one snapshot of a cluster."""
    from dashboard.cli.cluster import live

    return live.capture(config, cluster, out, topics_of or (), as_json=as_json)


@app.command("import-zk")
def import_zk(
    dump: Annotated[
        Path, typer.Argument(metavar="DUMP.jsonl", help="ZooKeeper dump, one znode per line.")
    ],
    out: Annotated[Path, typer.Option(help="Directory to create.")],
    cluster: Annotated[str | None, typer.Option(help="Cluster name; default: the file's.")] = None,
    as_json: Json = False,
) -> int:
    """Convert a ZooKeeper dump to a snapshot."""
    from dashboard.cli.cluster import capture as cluster_capture

    return cluster_capture.import_zk(dump, out, cluster, as_json=as_json)


@app.command()
def health(
    snapshots: Snapshots,
    target: Annotated[
        str, typer.Option(help="Definition of balanced: vivo, tight or transfer.")
    ] = "vivo",
    engine: EngineName = "local",
    config: Config = None,
    as_json: Json = False,
) -> int:
    """Show the findings of a snapshot, with numbers."""
    from dashboard.cli.decisions import fleet

    return fleet.health(snapshots, target, fleet.Engine(engine, config), as_json=as_json)


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
def unload(
    snapshot: Snapshot,
    bundles: Bundles,
    plan: Annotated[
        Path | None, typer.Option(metavar="OUT", help="Write the plan to a file.")
    ] = None,
    to: Annotated[
        str | None, typer.Option("--to", metavar="BROKER", help="Destination broker.")
    ] = None,
    strategy: Strategy = None,
    settings: Settings = None,
    release: Release = None,
    reason: Annotated[str, typer.Option(help="Reason (recorded in the plan).")] = "",
    as_json: Json = False,
) -> int:
    """Plan an unload of bundles; nothing is sent."""
    from dashboard.cli.plans.unload import unload as run
    from dashboard.cli.snapshots import Assumptions

    return run(
        snapshot,
        bundles,
        Assumptions.of(strategy, settings, release),
        plan_file=plan,
        destination=to,
        reason=reason,
        as_json=as_json,
    )


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
def preview(
    plan: Annotated[Path, typer.Argument(metavar="PLAN", help="Plan file.")],
    snapshot: Annotated[Path, typer.Option(metavar="DIR", help="Snapshot the plan was made on.")],
    as_json: Json = False,
) -> int:
    """Preview a plan: destinations, load before and after, clients, commands."""
    from dashboard.cli.plans.unload import preview as run

    return run(plan, snapshot, as_json=as_json)


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


def run(arguments: list[str]) -> int:
    """Run one command line and return its exit code; no error of ours leaves as a traceback."""
    as_json = "--json" in arguments
    forget_warnings()
    try:
        check_text(arguments)
        command = typer.main.get_command(app)
        check_numbers_of(command)
        # not app(...): that would put Typer's own hook for tracebacks in the place of ours
        outcome = command(arguments, "trimtab", standalone_mode=False)
    except OpsError as error:
        return fail(error, as_json=as_json)
    except typer.TyperException as error:
        said = error.format_message().rstrip(".") + "."
        usage = UsageFaultError(said, hint="See the same command with --help alone.")
        return fail(usage, as_json=as_json)
    except BrokenPipeError:  # the reader, `head` for one, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_DONE
    except OSError as error:
        return fail(unusable_path(error), as_json=as_json)
    except (typer.Abort, KeyboardInterrupt):
        # what runs until Ctrl-C ends by itself then: this was stopped before it was done
        return fail(StoppedError("Stopped before it was done."), as_json=as_json)
    return outcome if isinstance(outcome, int) else EXIT_DONE


def _unexpected(kind: type[BaseException], error: BaseException, _trace: object) -> None:
    """Say in one sentence that Trimtab itself is at fault."""
    report_bug(kind, error, as_json="--json" in sys.argv[1:])


class _WithoutPandas(MetaPathFinder):
    """Hides pandas from the commands.

    pyarrow imports it, wherever it is installed, only to ask whether a list is one of its series;
    that would be most of a command's start-up, and no command works with pandas. (Python's own
    way, ``None`` in ``sys.modules``, is not understood by pyarrow's compiled import.) Whoever makes
    a Spark session takes it away again.
    """

    hides = "pandas"

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,  # noqa: ARG002 - the signature is Python's
        target: ModuleType | None = None,  # noqa: ARG002 - the signature is Python's
    ) -> ModuleSpec | None:
        """Say that there is no pandas, and nothing about all else."""
        if fullname == "pandas":
            raise ModuleNotFoundError(f"{fullname} is not used by the command line", name=fullname)
        return None


def main() -> None:
    """Entry point of the ``trimtab`` command."""
    sys.excepthook = _unexpected
    sys.meta_path.insert(0, _WithoutPandas())
    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
