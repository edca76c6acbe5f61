"""The back-test as a job."""

from __future__ import annotations

from typing import Any, Final, Literal

import pyarrow.compute as pc
from pydantic import Field, field_validator

from connectors.config.credentials import Strict
from connectors.jobs.model import JobAnswer, JobContext, JobKind
from connectors.systems import target_of
from core.errors import InputError
from core.history.backtest.job import TABLES, Backtest, Outcome, run_here
from core.history.backtest.parsing import grid_of, with_target
from core.units import pluralize


class BacktestJob(Strict):
    """The grid of a back-test, and the engine that runs it.

    Attributes:
        grid: What is tried, as `trimtab backtest` takes it: shedding, placement and settings of
            Pulsar, or policies and switches of Pegasus; clusters, from, to, seeds, target.
        engine: ``local``: one run after the other; ``spark``: many at once.
    """

    grid: dict[str, Any] = Field(default_factory=dict)
    engine: Literal["local", "spark"] = "local"

    @field_validator("grid")
    @classmethod
    def _is_grid(cls, value: dict[str, Any]) -> dict[str, Any]:
        try:
            grid_of(value)
        except InputError as exc:
            raise ValueError(str(exc)) from exc
        return value


def _backtest(context: JobContext, job: BacktestJob) -> JobAnswer:
    minute_s = job.grid.get("minute_s") or context.config.history.minute_s
    grid = grid_of({**job.grid, "minute_s": minute_s})
    if job.grid.get("target") is None:
        grid = with_target(grid, target_of(context.config, grid.clusters or ()))
    work = Backtest.prepared(context.history(), grid)
    if job.engine == "spark":
        from core.spark.jobs.backtest import run_on_spark  # noqa: PLC0415  # seconds, only here

        results = run_on_spark(context.spark(), work, context.progress)
    else:
        results = run_here(work, context.progress)
    outcome = Outcome.of(work.grid, results, work.records)
    outcome.write(context.out)
    runs = outcome.tables["runs"]
    failed = len(runs) - runs["problem"].null_count
    sentences = f" {pluralize(failed, 'run')} could not be simulated." if failed else ""
    return JobAnswer(
        sentence=f"{outcome.sentence}{sentences}",
        tables=TABLES,
        facts={
            "runs": runs.num_rows,
            "failed": failed,
            "minutes": pc.sum(runs["minutes"]).as_py() or 0,
            "candidates": len(set(runs["candidate_number"].to_pylist())),
            "clusters": len(set(runs["cluster"].to_pylist())),
        },
    )


KINDS: Final = (
    JobKind(
        name="backtest",
        title="Back-test",
        answers="Which strategy and settings would have balanced the cluster?",
        scope=BacktestJob,
        run=_backtest,
    ),
)
