"""Commands on one snapshot or several: ``health``, ``place``, ``shed``, ``simulate``; or on Spark.

A command is the same function everywhere: on Spark it runs in a task, and what it would print comes
back. So an engine changes how long an answer takes, never the answer.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
import pyarrow as pa
import typer

from core.errors import OpsError, UnknownNameError
from core.findings.request import HealthRequest
from core.progress import NoProgress, Progress
from core.pulsar.requests import ALL, PlaceBundleRequest, ShedRequest, SimulateRequest
from core.snapshot.store import load_manifest
from core.spark.fleet import each_on_spark
from dashboard.cli import snapshots as snapshots_commands
from dashboard.cli import systems
from dashboard.cli.config import read_config
from dashboard.cli.decisions import shed as decisions_shed
from dashboard.cli.decisions import simulation
from dashboard.cli.decisions import spark as decisions_spark
from dashboard.cli.options import (
    Config,
    EngineName,
    Json,
    RecentlyUnloaded,
    Release,
    Settings,
    Snapshots,
    Sources,
)
from dashboard.cli.output import EXIT_DONE, UsageFaultError, fail, note, print_json, say
from dashboard.cli.requests import takes
from dashboard.cli.snapshots import Assumptions
from dashboard.cli.source import snapshot_directories
from dashboard.services import spark as services_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

app = typer.Typer()

ENGINES: Final = ("local", "spark")
_PRINTED: Final = "printed"

Command = Callable[..., int]
"""Called with a snapshot directory and ``as_json``; prints and returns an exit code."""


@dataclass(frozen=True)
class Printed:
    """What a command printed.

    Attributes:
        text: To standard output.
        notes: To standard error.
        code: Its exit code.
    """

    text: str
    notes: str
    code: int


@dataclass(frozen=True)
class Engine:
    """Where commands run.

    Attributes:
        name: ``local`` or ``spark``.
        config: File with Spark's master and options.
    """

    name: str = "local"
    config: Path | None = None

    def session(self) -> SparkSession:
        """Return the session; making it takes seconds."""
        note("Starting Spark ...")
        return services_spark.session(read_config(self.config))


@app.command()
@takes(HealthRequest)
def health(
    sources: Sources,
    request: HealthRequest,
    engine: EngineName = "local",
    config: Config = None,
    as_json: Json = False,
) -> int:
    """Show the findings of a cluster or a snapshot, with numbers."""
    command = partial(systems.health, target_code=request.target)
    large = partial(decisions_spark.health_of, target_code=request.target)
    with snapshot_directories(sources, config) as directories:
        return each(directories, command, Engine(engine, config), as_json=as_json, large=large)


@app.command()
@takes(PlaceBundleRequest)
def place(
    snapshots: Snapshots,
    request: PlaceBundleRequest,
    settings: Settings = None,
    release: Release = None,
    engine: EngineName = "local",
    config: Config = None,
    as_json: Json = False,
) -> int:
    """Show the placement candidates of a bundle with probabilities, and excluded brokers."""
    options: dict[str, Any] = {
        "request": request,
        "assumptions": Assumptions.of(None, settings, release),
    }
    command = partial(snapshots_commands.place, **options)
    large = partial(decisions_spark.place_of, **options)
    return each(snapshots, command, Engine(engine, config), as_json=as_json, large=large)


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
    if request.strategy == ALL:
        raise UsageFaultError(
            "A round is of one strategy.", hint="Name one of them; `trimtab explain` has all."
        )
    assumptions = Assumptions.of(None, settings, release)
    if plan is not None and (len(snapshots) > 1 or engine != "local"):
        raise UsageFaultError(
            "A plan is of one cluster, and made in process.",
            hint="Name one snapshot and leave out --engine, or leave out --plan.",
        )
    options: dict[str, Any] = {
        "request": request,
        "assumptions": assumptions,
        "recently_unloaded": recently_unloaded,
    }
    command = partial(decisions_shed.shed, **options, plan_file=plan)
    large = partial(decisions_spark.shed_of, **options)
    return each(snapshots, command, Engine(engine, config), as_json=as_json, large=large)


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
    options: dict[str, Any] = {
        "request": msgspec.structs.replace(request, seeds=(seed,)),
        "assumptions": Assumptions.of(None, settings, release),
        "recently_unloaded": recently_unloaded,
    }
    command = partial(simulation.simulate, **options)
    large = partial(decisions_spark.simulate_of, **options)
    return each(snapshots, command, Engine(engine, config), as_json=as_json, large=large)


def each(
    snapshots: Sequence[Path],
    command: Command,
    engine: Engine,
    *,
    as_json: bool,
    large: Callable[..., Command | None] | None = None,
) -> int:
    """Run a command on each snapshot.

    Args:
        snapshots: Snapshot directories.
        command: What is run; it can be pickled.
        engine: Where.
        as_json: Print one object: the command's own for one snapshot, else all of them by cluster.
        large: Returns what to run instead on Spark where one snapshot is too large for one task;
            ``None``: it is not. Called with the session, the directory and where progress goes.
    """
    if engine.name not in ENGINES:
        known = UnknownNameError.of("engine", engine.name, ENGINES)
        raise UsageFaultError(known.message, hint=known.hint)
    if engine.name == "local" and len(snapshots) == 1:
        return command(snapshots[0], as_json=as_json)
    directories = _named(snapshots)
    if engine.name == "local":
        printed = {name: answer_with(command, path, as_json) for name, path in directories.items()}
        return _repeat(printed, as_json=as_json)
    spark = engine.session()
    if large is not None and len(snapshots) == 1:
        instead = large(spark, snapshots[0], _progress())
        if instead is not None:
            return instead(snapshots[0], as_json=as_json)
    return _repeat(_on_spark(spark, directories, command, as_json), as_json=as_json)


def answer_with(command: Command, directory: Path, as_json: bool) -> Printed:
    """Run a command and keep what it prints, refusals included."""
    text, notes = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(text), contextlib.redirect_stderr(notes):
        try:
            code = command(directory, as_json=as_json)
        except OpsError as error:
            code = fail(error, as_json=as_json)
    return Printed(text.getvalue(), notes.getvalue(), code)


def _on_spark(
    spark: SparkSession,
    directories: Mapping[str, Path],
    command: Command,
    as_json: bool,
) -> dict[str, Printed]:
    paths = {name: path.absolute() for name, path in directories.items()}

    def answer(name: str) -> Mapping[str, pa.Table]:
        printed = answer_with(command, paths[name], as_json)
        row = {"text": printed.text, "notes": printed.notes, "code": printed.code}
        return {_PRINTED: pa.Table.from_pylist([row])}

    found = each_on_spark(spark, paths, answer, _progress())
    rows = {name: tables[_PRINTED].to_pylist()[0] for name, tables in found}
    return {name: Printed(**rows[name]) for name in directories}


def _named(snapshots: Sequence[Path]) -> dict[str, Path]:
    """Name each snapshot by its cluster; by its directory where two are of one cluster."""
    clusters = [load_manifest(path)[1].cluster for path in snapshots]
    return {
        cluster if clusters.count(cluster) == 1 else str(path): path
        for cluster, path in zip(clusters, snapshots, strict=True)
    }


def _repeat(printed: Mapping[str, Printed], *, as_json: bool) -> int:
    """Print what was printed elsewhere; the worst exit code is the command's."""
    for one in printed.values():
        sys.stderr.write(one.notes)
    if len(printed) == 1:
        sys.stdout.write(next(iter(printed.values())).text)
    elif as_json:
        bodies: dict[str, Any] = {name: json.loads(one.text) for name, one in printed.items()}
        print_json({"clusters": bodies})
    else:
        for number, (name, one) in enumerate(printed.items()):
            if number:
                say()
            say(f"== {name}")
            sys.stdout.write(one.text)
    sys.stdout.flush()
    return max((one.code for one in printed.values()), default=EXIT_DONE)


class _Noted:
    """Progress on a terminal: one line that is written over."""

    def step(self, done: int, total: int, words: str) -> None:
        """Write it."""
        sys.stderr.write(f"\r{words}: {done} of {total} tasks ")
        if total and done >= total:
            sys.stderr.write("\n")
        sys.stderr.flush()


def _progress() -> Progress:
    return _Noted() if sys.stderr.isatty() else NoProgress()
