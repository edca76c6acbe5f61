"""Data of the Back-test page: the record, the pace of a simulation, result tables."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from core.errors import OpsError
from core.history.backtest.job import Backtest
from core.history.backtest.model import Target
from core.history.backtest.parsing import grid_of
from core.history.backtest.systems import SYSTEMS, system_of
from core.history.backtest.wording import Wording
from dashboard import services
from dashboard.app_pages.backtest.model import ResultTables, found_of
from dashboard.presenters.jobs import took_s
from dashboard.queries.cache import cached
from dashboard.services import history
from dashboard.services import jobs as services_jobs

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from dashboard.services import Config
    from dashboard.services.jobs import Job

KIND: Final = "backtest"
_RENEW_AFTER_S: Final = 15

Span = tuple[datetime, datetime]


def span_of(config: Config, cluster: str) -> Span | None:
    """Return the first and the last recorded minute of a cluster; ``None``: nothing is recorded.

    Raises:
        SnapshotError: The history cannot be read.
    """
    period = int(services.now().timestamp()) // _RENEW_AFTER_S
    store = history.history(config)
    span: Span | None = _spans((store, cluster, period))
    return span


def _span(key: tuple[Any, str, int]) -> Span | None:
    store, cluster, _ = key
    span: Span | None = store.span(cluster)
    return span


_spans = cached(_span, max_entries=32)


def work_of(config: Config, parameters: Mapping[str, Any]) -> Backtest:
    """Return the back-test of a grid over the current history.

    Raises:
        InputError: No recorded minute is in its range, or it is too much.
        SnapshotError: The history cannot be read.
    """
    period = int(services.now().timestamp()) // _RENEW_AFTER_S
    store = history.history(config)
    backtest: Backtest = _works((store, json.dumps(parameters, sort_keys=True), period))
    return backtest


def _work(key: tuple[Any, str, int]) -> Backtest:
    store, parameters, _ = key
    return Backtest.prepared(store, grid_of(json.loads(parameters)))


_works = cached(_work, max_entries=16)


def grid_parameters(job: Job) -> dict[str, Any]:
    """Return the grid of a job, as JSON values."""
    grid = job.request.parameters.get("grid") if job.request else None
    return grid if isinstance(grid, dict) else {}


def engine_of(job: Job) -> str:
    """Return the machine that computed a job."""
    return str((job.request.parameters if job.request else {}).get("engine", "local"))


def body_of(grid: dict[str, Any], engine: str) -> dict[str, Any]:
    """Return the parameters of a job for a grid."""
    return {"grid": grid, "engine": engine}


def target_of(job: Job) -> Target | None:
    """Return the target of a job; ``None`` if its parameters cannot be read."""
    try:
        return grid_of(grid_parameters(job)).target
    except OpsError:
        return None


def nouns_of(job: Job) -> Wording:
    """Return the terms of the system of a job."""
    try:
        return system_of(grid_of(grid_parameters(job))).nouns
    except OpsError:
        return SYSTEMS[0].nouns


def minutes_per_s(jobs: Sequence[Job], cluster: str, engine: str) -> float | None:
    """Return the simulated minutes per second of the latest finished back-test of a cluster."""
    for job in jobs:
        is_like = cluster in (grid_parameters(job).get("clusters") or [cluster])
        if job.answer is None or engine_of(job) != engine or not is_like:
            continue
        passed_s = took_s(job, services.now())
        simulated = job.answer.facts.get("minutes")
        if isinstance(simulated, int | float) and simulated and passed_s:
            return float(simulated) / passed_s
    return None


def newest(jobs: Sequence[Job], cluster: str) -> Job | None:
    """Return the newest finished back-test of one cluster; ``None``: there is none.

    Args:
        jobs: Back-tests, the newest first.
        cluster: Its name.
    """
    return next(
        (
            job
            for job in jobs
            if job.state == "done" and grid_parameters(job).get("clusters") == [cluster]
        ),
        None,
    )


def found(job: Job) -> ResultTables:
    """Return the ranking of a finished job.

    Raises:
        UnknownNameError: It has none.
        ComputeError: Its tables cannot be read.
    """
    return _found(job.id)


def _read_found(job_id: str) -> ResultTables:
    job = services_jobs.job(services.page_config(), job_id)
    has_changes = job.answer is not None and "recommended" in job.answer.tables
    recommended = services_jobs.result(job, "recommended") if has_changes else None
    return found_of(services_jobs.result(job, "candidates"), recommended)


_found = cached(_read_found, max_entries=8)


def simulated(job: Job, name: str, cluster: str, candidates: Sequence[str]) -> pa.Table | None:
    """Return the rows of a long result table on some candidates; ``None``: there is no such table.

    Raises:
        ComputeError: It cannot be read.
    """
    if job.answer is None or name not in job.answer.tables:
        return None
    return _simulated((job.id, name, cluster, tuple(candidates)))


def _read_played(key: tuple[str, str, str, tuple[str, ...]]) -> pa.Table:
    job_id, name, cluster, candidates = key
    job = services_jobs.job(services.page_config(), job_id)
    where = {"cluster": [cluster], "candidate": candidates}
    return services_jobs.result_of_names(job, name, where)


_simulated = cached(_read_played, max_entries=8)


def seeds_of(job: Job) -> tuple[int, ...]:
    """Return the seeds that a job simulated."""
    try:
        return grid_of(grid_parameters(job)).seeds
    except OpsError:
        return (1,)


def changes_to(job: Job, cluster: str, label: str) -> pd.DataFrame:
    """Return the changes that give a cluster a candidate's settings, rows of ``RECOMMENDED``.

    Raises:
        ComputeError: Its tables cannot be read.
        InputError: Its parameters cannot be read.
    """
    changes: pd.DataFrame = _changes((job.id, cluster, label))
    return changes


def _read_changes(key: tuple[str, str, str]) -> pd.DataFrame:
    job_id, cluster, label = key
    job = services_jobs.job(services.page_config(), job_id)
    grid = grid_of(grid_parameters(job))
    runs, candidates = (services_jobs.result(job, name) for name in ("runs", "candidates"))
    system = system_of(grid)
    changes = system.recommended(runs, candidates, grid.target, system.nouns, label)
    return found_of(candidates, changes).changes(cluster)


_changes = cached(_read_changes, max_entries=16)
