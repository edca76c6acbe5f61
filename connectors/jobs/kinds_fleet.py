"""Jobs on the present, or on one past minute, of many clusters at once."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pydantic import field_validator

from connectors.config.credentials import Strict
from connectors.jobs.model import JobAnswer, JobContext, JobKind, ScopedRequest
from core.errors import IncompleteSnapshotError, InputError, UnknownNameError
from core.pegasus.balance.request import BalanceRequest
from core.pulsar.requests import HealthRequest, PlaceRequest, ShedRequest, SimulateRequest
from core.snapshot.store import Shelf
from core.spark.fleet import (
    PROBLEMS,
    Answers,
    FleetRequest,
    InDirectory,
    InHistory,
    Source,
    answer_here,
)
from core.spark.pegasus.jobs.balance import BALANCE
from core.spark.pulsar.jobs.place import PLACE
from core.spark.pulsar.jobs.shed import SHED
from core.spark.pulsar.jobs.simulate import SIMULATE
from core.spark.systems import HEALTH_OF_CLUSTERS
from core.units import pluralize

_SNAPSHOTS: Final = "snapshots"
_PROBLEM_TABLE: Final = "Clusters that could not be answered for, and why."


class FleetScope(Strict):
    """Which clusters, when, and by which engine.

    Attributes:
        clusters: Names; ``None``: every configured cluster of the right kind.
        at: A past minute of the history; ``None``: the newest snapshots.
        engine: ``local``: one cluster after the other; ``spark``: all at once, and a very large
            one spread over tasks.
    """

    clusters: list[str] | None = None
    at: datetime | None = None
    engine: Literal["local", "spark"] = "local"

    @field_validator("at")
    @classmethod
    def _has_zone(cls, value: datetime | None) -> datetime | None:
        if value is not None and value.utcoffset() != timedelta(0):
            raise ValueError("name the time in UTC, as in 2026-11-21T12:00:00Z")
        return value


def sources_of(context: JobContext, scope: FleetScope, kind: str | None) -> Mapping[str, Source]:
    """Return where the snapshots of the clusters are.

    Args:
        context: Configuration and history.
        scope: Which clusters, and when.
        kind: ``pulsar`` or ``pegasus``; ``None``: of any kind.
    Raises:
        UnknownNameError: A cluster that is not configured.
        IncompleteSnapshotError: None of them has a snapshot.
    """
    known = {one.name: one.kind for one in context.config.clusters}
    for name in scope.clusters or ():
        if name not in known:
            raise UnknownNameError.of("cluster", name, known, place="the configuration")
    fitting = [name for name, its in known.items() if kind in (None, its)]
    names = fitting if scope.clusters is None else scope.clusters
    if names and not set(names) & set(fitting):
        what, its = ", ".join(names), known[names[0]].capitalize()
        raise InputError(
            f"This is about {str(kind).capitalize()} clusters, and {what} is of {its}.",
            hint=f"Choose one of: {', '.join(fitting) or 'none is configured'}.",
        )
    found = _past(context, names, scope.at) if scope.at else _present(context, names)
    if not found:
        what = f"{kind.capitalize()} cluster" if kind else "cluster"
        raise IncompleteSnapshotError(
            f"No {what} that was requested has a snapshot{' at that time' if scope.at else ''}.",
            hint="Let `trimtab collect` run for a minute, or name another time.",
        )
    return found


def _past(context: JobContext, names: list[str], moment: datetime) -> dict[str, Source]:
    location = context.history().location
    return {name: InHistory(location, name, moment) for name in names}


def _present(context: JobContext, names: list[str]) -> dict[str, Source]:
    shelf = Shelf(context.config.state_dir / _SNAPSHOTS)
    newest = {name: shelf.latest(name, datetime.now(UTC)) for name in names}
    return {
        name: InDirectory(str(kept.path.absolute()))
        for name, kept in newest.items()
        if kept is not None
    }


def _answers_of(
    context: JobContext, scope: FleetScope, request: FleetRequest[Any], kind: str | None
) -> Answers:
    """Ask, write the result tables, and return them."""
    sources = sources_of(context, scope, kind)
    if scope.engine == "spark":
        from core.spark.large import answer_fleet  # noqa: PLC0415  # no pyspark before it

        found = answer_fleet(context.spark(), sources, request, context.progress)
    else:
        found = answer_here(sources, request, context.progress)
    for name, table in found.items():
        if table.num_rows or name != PROBLEMS:
            pq.write_table(table, context.out / f"{name}.parquet", compression="zstd")
    return found


def _answer(found: Answers, first: str, said: str, tables: Mapping[str, str]) -> JobAnswer:
    """Return the answer, with a word on the clusters that could not be answered for."""
    failed = found[PROBLEMS]
    answered = len(set(found[first]["cluster"].to_pylist()))
    sentence = f"{pluralize(answered, 'cluster')}: {said}" if answered else "There is no answer."
    if failed.num_rows:
        sentence += unanswered(failed)
        tables = {**tables, PROBLEMS: _PROBLEM_TABLE}
    return JobAnswer(
        sentence=sentence,
        tables=tables,
        facts={"clusters": answered, "failed": failed.num_rows},
    )


def unanswered(problems: pa.Table) -> str:
    """Return how many clusters could not be answered for, and why, the first of them by name."""
    if not problems.num_rows:
        return ""
    first = problems.slice(0, 1).to_pylist()[0]
    return (
        f" {pluralize(problems.num_rows, 'cluster')} could not be answered for; "
        f"{first['cluster']}: {first['sentence']}"
    )


def _health(context: JobContext, job: ScopedRequest) -> JobAnswer:
    found = _answers_of(context, job.scope, FleetRequest(HEALTH_OF_CLUSTERS, job.request), None)
    states = found["health"]["state"].to_pylist()
    words = {"bad": "bad", "attention": "need attention", "unknown": "unknown", "ok": "well"}
    parts = [f"{states.count(code)} {word}" for code, word in words.items() if code in states]
    return _answer(
        found,
        "health",
        f"{', '.join(parts) or 'nothing is known'}.",
        {
            "health": "Each cluster's state, and its answer in one sentence.",
            "measures": "Mean, spread and the busiest broker or node, by measure.",
            "findings": "Everything to look at, worst first.",
        },
    )


def _shed(context: JobContext, job: ScopedRequest) -> JobAnswer:
    found = _answers_of(context, job.scope, FleetRequest(SHED, job.request), "pulsar")
    moves = pc.sum(found["rounds"]["moves"]).as_py() or 0
    count = len(set(found["rounds"]["strategy"].to_pylist()))
    names = "1 strategy" if count == 1 else f"{count} strategies"
    return _answer(
        found,
        "rounds",
        f"{names} would unload {pluralize(moves, 'bundle')} in all.",
        {
            "rounds": "What each strategy would do in each cluster, and why.",
            "moves": "Every bundle that was picked, with its most likely destination.",
        },
    )


def _place(context: JobContext, job: ScopedRequest) -> JobAnswer:
    found = _answers_of(context, job.scope, FleetRequest(PLACE, job.request), "pulsar")
    bundles = pc.sum(found["placement"]["bundles"]).as_py() or 0
    unassigned = pc.sum(found["placement"]["unassigned"]).as_py() or 0
    said = f"{pluralize(bundles, 'bundle')} placed"
    return _answer(
        found,
        "placement",
        f"{said}; {unassigned:,} stay unassigned." if unassigned else f"{said}.",
        {
            "placement": "Strategy and bundles without a broker, by cluster.",
            "namespaces": "The most likely broker of each namespace's bundles, and who stays.",
        },
    )


def _simulate(context: JobContext, job: ScopedRequest) -> JobAnswer:
    found = _answers_of(context, job.scope, FleetRequest(SIMULATE, job.request), "pulsar")
    settled = found["simulations"]["is_converged"].to_pylist()
    moves = pc.sum(found["simulations"]["moves"]).as_py() or 0
    return _answer(
        found,
        "simulations",
        f"{settled.count(True)} of {pluralize(len(settled), 'simulation')} converge, after "
        f"{pluralize(moves, 'move')} in all.",
        {
            "simulations": "How each simulation ends: moves, clients, deviation before and after.",
            "rounds": "Every round.",
            "moves": "Every bundle that moved, with its destination.",
        },
    )


def _balance(context: JobContext, job: ScopedRequest) -> JobAnswer:
    found = _answers_of(context, job.scope, FleetRequest(BALANCE, job.request), "pegasus")
    plans = pc.sum(found["balances"]["plans"]).as_py() or 0
    return _answer(
        found,
        "balances",
        f"the meta servers would carry out {pluralize(plans, 'plan')}.",
        {
            "balances": "Rounds and plans of each cluster, and the spread before and after.",
            "plans": "Every partition that changes, round by round.",
        },
    )


KINDS: Final = (
    JobKind(
        name="health",
        title="Health of all clusters",
        answers="What is wrong in each cluster, and how even is its load?",
        scope=FleetScope,
        request=HealthRequest,
        run=_health,
    ),
    JobKind(
        name="shed",
        title="What each strategy would unload",
        answers="What would every shedding strategy do in every cluster, and why?",
        scope=FleetScope,
        request=ShedRequest,
        run=_shed,
        system="pulsar",
    ),
    JobKind(
        name="place",
        title="Where every bundle would go",
        answers="Who would get each bundle, and which would stay unassigned?",
        scope=FleetScope,
        request=PlaceRequest,
        run=_place,
        system="pulsar",
    ),
    JobKind(
        name="simulate",
        title="Simulate the balancers",
        answers="What would the balancers do from here on, and do they converge?",
        scope=FleetScope,
        request=SimulateRequest,
        run=_simulate,
        system="pulsar",
    ),
    JobKind(
        name="balance",
        title="What the Pegasus balancers would propose",
        answers="Which replicas would move in each Pegasus cluster, round by round?",
        scope=FleetScope,
        request=BalanceRequest,
        run=_balance,
        system="pegasus",
    ),
)
