"""``trimtab backtest``: run a grid on a history, rank it, and recommend changes."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Annotated, Any, Final

import typer

from core.errors import OpsError
from core.history.backtest.advice import is_plannable
from core.history.backtest.job import TABLES, Backtest, Outcome, run_here
from core.history.backtest.model import AS_RECORDED, Grid
from core.history.backtest.parsing import parse_grid, with_target
from core.history.backtest.plan import recommended_plan, restart_words
from core.history.backtest.results import UnitResult
from core.history.backtest.systems import system_named
from core.history.backtest.wording import Wording
from core.plan.model import Plan
from core.plan.options import PlanOptions
from core.progress import JobStoppedError
from core.snapshot.store import Storable
from core.units import UNKNOWN, format_ratio, pluralize
from dashboard import services
from dashboard.cli import plan_answers
from dashboard.cli.engine import is_spark, spark_session
from dashboard.cli.history.recorded import CommandHistory
from dashboard.cli.options import Config, EngineName, Json, PlanReason
from dashboard.cli.output import Answer, UsageFaultError, emit, note, print_line, table
from dashboard.cli.plan_answers import refusal, write_plan
from dashboard.cli.progress import STATUS
from dashboard.presenters.candidates import not_simulated, own_names, short_keys, with_short_keys

_MOST_SHOWN: Final = 30


app = typer.Typer()


@app.command()
def backtest(
    grid_file: Annotated[
        Path,
        typer.Option(
            "--grid", metavar="FILE", help="Candidates as JSON; see docs/reference/json.md."
        ),
    ],
    out: Annotated[
        Path,
        typer.Option(metavar="DIR", help="Directory for the result tables; must be empty or new."),
    ],
    uri: Annotated[
        str | None,
        typer.Option(
            "--history", metavar="URI", help="History to read; default: the configuration's."
        ),
    ] = None,
    clusters: Annotated[
        list[str] | None,
        typer.Option("--cluster", metavar="C", help="Cluster; overrides the grid."),
    ] = None,
    engine: EngineName = "local",
    master: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Spark master; default: the configuration's."),
    ] = None,
    plan_file: Annotated[
        Path | None,
        typer.Option("--plan", metavar="OUT", help="Write a plan with the recommended settings."),
    ] = None,
    reason: PlanReason = "",
    config: Config = None,
    as_json: Json = False,
) -> int:
    """Rank strategies and settings on the recorded load."""
    on_spark = _on_spark(engine, master)
    _must_be_usable(out)
    past = CommandHistory.of(uri, config)
    grid = _grid(grid_file, tuple(clusters or ()), past.config)
    work = Backtest.prepared(past.store, grid)
    note(f"{work.words}.")
    started = time.perf_counter()
    with _stoppable() as progress:
        if on_spark:
            results = _run_on_spark(past.config, master, work, progress)
        else:
            results = run_here(work, progress)
        outcome = Outcome.of(grid, results, work.records)
    elapsed_ms = (time.perf_counter() - started) * 1000
    out.mkdir(parents=True, exist_ok=True)
    outcome.write(out)
    plan = _plan(past, outcome, plan_file, reason)
    rows = {name: outcome.tables[name].to_pylist() for name in ("candidates", "recommended")}
    body = {
        "sentence": outcome.sentence,
        "rule": system_named(outcome.system).nouns.rule,
        "runs": len(work.units),
        "candidates": [_decoded(row) for row in rows["candidates"]],
        "recommended": [_decoded(row) for row in rows["recommended"]],
        "tables": {name: str(out / f"{name}.parquet") for name in TABLES},
        "plan": None if plan is None else plan_answers.plan(plan),
        "path": None if plan is None else str(plan_file),
        "elapsed_ms": elapsed_ms,
    }
    return emit(Answer(body, lambda: _show(outcome, rows, plan, (out, plan_file))), as_json=as_json)


def _grid(file: Path, clusters: tuple[str, ...], config: services.Config) -> Grid:
    """Return the grid of the file; minute and target as configured, where it names none."""
    try:
        text = file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as exc:
        why = exc.strerror if isinstance(exc, OSError) else "it is not text"
        raise UsageFaultError(
            f"{file} cannot be read: {why}.", hint="Specify a JSON file with a grid."
        ) from exc
    grid = parse_grid(text)
    given = json.loads(text)
    if given.get("minute_s") is None:
        grid = replace(grid, minute_s=config.history.minute_s)
    if clusters:
        grid = replace(grid, clusters=clusters)
    if given.get("target") is None:
        grid = with_target(grid, services.target_of(config, grid.clusters or ()))
    return grid


def _must_be_usable(out: Path) -> None:
    """Check the folder before hours are spent.

    Raises:
        UsageFaultError: It cannot be written, or holds something.
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
        held = sorted(path.name for path in out.iterdir())
    except OSError as exc:
        raise UsageFaultError(
            f"{out} cannot be written: {exc.strerror}.", hint="Specify another folder."
        ) from exc
    if held:
        raise UsageFaultError(
            f"{out} already has {held[0]}; files are not overwritten.",
            hint="Specify an empty or a new folder.",
        )


def _on_spark(engine: str, master: str | None) -> bool:
    """Return whether Spark runs it; a Spark master means Spark.

    Raises:
        UsageFaultError: No such engine.
    """
    return is_spark(engine) or master is not None


def _run_on_spark(
    config: services.Config, master: str | None, work: Backtest, progress: _BacktestProgress
) -> list[UnitResult]:
    """Run the units on Spark; making the session takes seconds."""
    from core.spark.jobs.backtest import run_on_spark  # noqa: PLC0415  # seconds, only here

    if master is not None:
        spark = config.spark.model_copy(update={"master": master})
        config = config.model_copy(update={"spark": spark})
    return run_on_spark(spark_session(config), work, progress)


class _BacktestProgress:
    """Progress that ends the work once a person pressed Ctrl-C."""

    def __init__(self) -> None:
        self.is_stopped = False

    def step(self, done: int, total: int, words: str) -> None:
        """Show the progress.

        Raises:
            JobStoppedError: Ctrl-C was pressed.
        """
        if self.is_stopped:
            raise JobStoppedError(
                "Stopped; nothing was written.",
                hint="Start it again, with a smaller grid if it took too long.",
            )
        STATUS.step(done, total, words)


@contextmanager
def _stoppable() -> Iterator[_BacktestProgress]:
    """Let the first Ctrl-C end the work in good order, and a second one at once."""
    progress = _BacktestProgress()

    def stop(_number: int, _frame: FrameType | None) -> None:
        if progress.is_stopped:
            raise KeyboardInterrupt
        progress.is_stopped = True

    before = signal.signal(signal.SIGINT, stop)
    try:
        yield progress
    finally:
        signal.signal(signal.SIGINT, before)
        STATUS.stop()


# -- the plan --------------------------------------------------------------------------------------


def _plan(
    past: CommandHistory, outcome: Outcome, plan_file: Path | None, reason: str
) -> Plan | None:
    """Make the plan, and write it; ``None``: there is nothing to change."""
    rows = outcome.tables["recommended"].to_pylist()
    if plan_file is None or not any(is_plannable(row) for row in rows):
        return None
    clusters = sorted({row["cluster"] for row in rows})
    if len(clusters) > 1:
        raise UsageFaultError(
            f"Settings are recommended for {pluralize(len(clusters), 'cluster')}; a plan is for "
            "one cluster.",
            hint=f"The result tables are written. Run it again with --cluster {clusters[0]}.",
        )
    snapshot, exclusions = _now(past, clusters[0])
    reason = reason or rows[0]["why"]
    options = PlanOptions(now=services.now(), reason=reason, exclusions=exclusions)
    plan = recommended_plan(snapshot, rows, options)
    if errors := plan.by_severity("error"):
        raise refusal(errors)
    write_plan(plan_file, plan)
    return plan


def _now(past: CommandHistory, cluster: str) -> tuple[Storable, frozenset[str]]:
    """Return the cluster as it is, where the configuration knows it; else as recorded last."""
    configured = next((one for one in past.config.clusters if one.name == cluster), None)
    if configured is None:
        _, last = past.span_of(cluster)
        return past.store.snapshot_at(cluster, last), frozenset()
    try:
        return services.snapshot_of(past.config, configured), frozenset(configured.exclusions)
    except OpsError as exc:
        note(f"{cluster} cannot be read ({exc.message}); the plan uses the last recorded minute.")
        return past.store.snapshot_at(cluster, past.span_of(cluster)[1]), frozenset()


# -- for people ------------------------------------------------------------------------------------


def _decoded(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row with its JSON texts decoded."""
    found = dict(row)
    for name in ("settings", "old", "new"):
        if isinstance(found.get(name), str):
            found[name] = json.loads(found[name])
    return found


def _show(
    outcome: Outcome,
    rows: Mapping[str, Sequence[Mapping[str, Any]]],
    plan: Plan | None,
    files: tuple[Path, Path | None],
) -> None:
    out, plan_file = files
    nouns = system_named(outcome.system).nouns
    print_line(outcome.sentence)
    clusters = list(dict.fromkeys(row["cluster"] for row in rows["candidates"]))
    for cluster in sorted(clusters, key=lambda name: (name is not None, name or "")):
        print_line()
        print_line("All clusters together" if cluster is None else f"Cluster {cluster}")
        mine = [row for row in rows["candidates"] if row["cluster"] == cluster]
        _show_ranking(mine, nouns)
    print_line()
    print_line(f"{nouns.rule} * : Pareto-optimal in deviation and {nouns.moves}.")
    ends = ((row["unloads_per_day_low"], row["unloads_per_day_high"]) for row in rows["candidates"])
    if any(low != high for low, high in ends):
        print_line("± : largest deviation of a seed from the mean.")
    _show_changes(rows["recommended"])
    print_line()
    print_line(f"Result tables: {', '.join(TABLES)} in {out}.")
    if plan is not None:
        print_line(
            f"Plan {plan.short_id}, valid until {plan.expires_at:%H:%M:%S} UTC: {plan_file}."
        )
        print_line(f"To apply it: trimtab apply {plan_file} --reason TEXT")
    elif plan_file is not None:
        why = "all changes need a restart" if rows["recommended"] else "no change needed"
        print_line(f"{plan_file} was not written: {why}.")


def _show_ranking(rows: Sequence[Mapping[str, Any]], nouns: Wording) -> None:
    moves = f"{nouns.moves}/day"
    own, common = own_names([row["candidate"] for row in rows], AS_RECORDED)
    short = short_keys(list(own.values()))
    own = with_short_keys(own, short)
    if common:
        print_line(f"All candidates that set something: {common}", is_prose=True)
    if spelled := [f"{name}: {key}" for key, name in short.items() if name != key]:
        print_line(" · ".join(spelled), is_prose=True)
    cells = [
        (
            "" if row["rank"] is None else str(row["rank"]),
            "*" if row["is_pareto"] else "",
            own[row["candidate"]],
            _bars(row, "deviation_p95", is_ratio=True),
            _bars(row, "deviation_mean", is_ratio=True),
            _bars(row, "minutes_over_ratio", is_ratio=True),
            _bars(row, "unloads_per_day", is_ratio=False),
            _bars(row, "ping_pongs_per_day", is_ratio=False),
            UNKNOWN if row["problem"] else "yes" if row["meets_target"] else "no",
        )
        for row in rows
    ]
    shown = cells[:_MOST_SHOWN]
    shown += [cell for cell in cells[_MOST_SHOWN:] if not cell[0]]  # what really happened
    table(
        (
            *("rank", "", "candidate", "deviation p95", "mean", "minutes over 20%"),
            *(moves, "ping-pongs/day", "target met"),
        ),
        shown,
        spare=("minutes over 20%", "mean", "ping-pongs/day"),
    )
    for count in {row["placed_again"] for row in rows if row["is_record"] and row["placed_again"]}:
        print_line(
            f"Actual: {count:,} {nouns.subject} were reassigned after the loss of their "
            f"{nouns.server}; these are no {nouns.moves}."
        )
    for text in not_simulated(rows):
        print_line(text, is_prose=True)
    if len(shown) < len(cells):
        print_line(f"... and {len(cells) - len(shown)} more; see table candidates.")


def _bars(row: Mapping[str, Any], name: str, *, is_ratio: bool) -> str:
    """Return the mean, and how far a seed is from it."""
    if row[name] is None:
        return UNKNOWN

    def text(value: float) -> str:
        return format_ratio(value) if is_ratio else f"{value:,.{0 if value >= 100 else 1}f}"

    low, high = row[f"{name}_low"], row[f"{name}_high"]
    if low is None or text(low) == text(high):
        return text(row[name])
    return f"{text(row[name])} ±{text(max(high - row[name], row[name] - low))}"


def _show_changes(rows: Sequence[Mapping[str, Any]]) -> None:
    print_line()
    if not rows:
        print_line("No recommendation.")
        return
    for cluster in sorted({row["cluster"] for row in rows}):
        mine = [row for row in rows if row["cluster"] == cluster]
        verdict = mine[0]["verdict"]
        print_line(f"{cluster}, {verdict}: {mine[0]['candidate']}", is_prose=True)
        cells = [(row["key"], row["old"] or "unknown", row["new"], _when(row)) for row in mine]
        table(("setting", "recorded", "recommended", "takes effect"), cells)
        print_line(mine[0]["why"])
        if late := restart_words(mine):
            print_line(f"Not in a plan. {late}")


def _when(row: Mapping[str, Any]) -> str:
    return str(row["takes_effect"]) if is_plannable(row) else "broker.conf, restart"
