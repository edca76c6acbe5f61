"""Jobs on the present, or on one past minute, of many clusters at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pydantic import Field, field_validator

from connectors.config.credentials import Strict
from connectors.jobs.model import Asked, JobAnswer, JobContext, JobKind
from core.errors import IncompleteSnapshotError, InputError, UnknownNameError
from core.pegasus.balance.request import BalanceRequest
from core.pulsar.measures import TARGETS
from core.pulsar.placement import find_strategy
from core.pulsar.settings import known_setting
from core.pulsar.shedding import find_shedding_strategy
from core.snapshot.store import Shelf
from core.spark.fleet import (
    PROBLEMS,
    Answers,
    FleetRequest,
    InDirectory,
    InHistory,
    Question,
    Source,
    ask_here,
)
from core.spark.jobs.balance import BALANCE
from core.spark.jobs.health import HealthQuestion
from core.spark.jobs.place import PlaceQuestion
from core.spark.jobs.shed import ALL, ShedQuestion
from core.spark.jobs.simulate import SimulateQuestion
from core.units import pluralize

_SNAPSHOTS: Final = "snapshots"
_PROBLEM_TABLE: Final = "Clusters that could not be answered for, and why."


class FleetAsk(Strict):
    """What every job on clusters may be asked for.

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


class HealthAsk(FleetAsk):
    """What is wrong, and how even the load is.

    Attributes:
        target: By which rule a cluster counts as even.
    """

    target: str = TARGETS[0].code

    @field_validator("target")
    @classmethod
    def _known(cls, value: str) -> str:
        codes = [target.code for target in TARGETS]
        if value not in codes:
            raise ValueError(f"there is no target {value}; there are {', '.join(codes)}")
        return value


class _PulsarAsk(FleetAsk):
    """What assumes other settings of brokers.

    Attributes:
        settings: Settings of broker.conf that are assumed, as JSON: {"loadBalancerSheddingEnabled":
            true}; nothing: each cluster's own.
    """

    settings: dict[str, Any] = Field(default_factory=dict)

    @field_validator("settings")
    @classmethod
    def _known(cls, value: dict[str, Any]) -> dict[str, Any]:
        return {_known_name(key, known_setting): one for key, one in value.items()}


class ShedAsk(_PulsarAsk):
    """What would be unloaded.

    Attributes:
        strategy: Class name; ALL: every one; nothing: the one that each cluster has set.
        rounds: Of shedding, one after the other; brokers hold one a minute by default.
    """

    strategy: str | None = ALL
    rounds: int = Field(default=1, ge=1, le=1_000)

    @field_validator("strategy")
    @classmethod
    def _there(cls, value: str | None) -> str | None:
        if value is None or value == ALL:
            return value
        return _known_name(value, find_shedding_strategy)


class PlaceAsk(_PulsarAsk):
    """Who would get each bundle.

    Attributes:
        strategy: Class name; nothing: the one that each cluster has set.
    """

    strategy: str | None = None

    @field_validator("strategy")
    @classmethod
    def _there(cls, value: str | None) -> str | None:
        return None if value is None else _known_name(value, find_strategy)


class SimulateAsk(_PulsarAsk):
    """What the balancer would do from there on.

    Attributes:
        shedding: Class name; nothing: the one that each cluster has set.
        placement: Class name; nothing: the one that each cluster has set.
        rounds: Most rounds of shedding; it ends earlier where nothing moves any more.
        seeds: One run for each; what is drawn at random is drawn anew.
    """

    shedding: str | None = None
    placement: str | None = None
    rounds: int = Field(default=60, ge=1, le=10_000)
    seeds: list[int] = Field(default=[1], min_length=1, max_length=100)

    @field_validator("shedding")
    @classmethod
    def _sheds(cls, value: str | None) -> str | None:
        return None if value is None else _known_name(value, find_shedding_strategy)

    @field_validator("placement")
    @classmethod
    def _places(cls, value: str | None) -> str | None:
        return None if value is None else _known_name(value, find_strategy)


def _known_name(name: str, find: Callable[[str], object]) -> str:
    """Have a name looked up; what is unknown is told as pydantic tells it."""
    try:
        find(name)
    except UnknownNameError as exc:
        raise ValueError(f"{exc.message} {exc.hint}".strip()) from exc
    return name


def sources_of(context: JobContext, asked: FleetAsk, kind: str | None) -> Mapping[str, Source]:
    """Return where the snapshots of the clusters are.

    Args:
        context: Configuration and history.
        asked: Which clusters, and when.
        kind: ``pulsar`` or ``pegasus``; ``None``: of any kind.
    Raises:
        UnknownNameError: A cluster that is not configured.
        IncompleteSnapshotError: None of them has a snapshot.
    """
    known = {one.name: one.kind for one in context.config.clusters}
    for name in asked.clusters or ():
        if name not in known:
            raise UnknownNameError.of("cluster", name, known, place="the configuration")
    fitting = [name for name, its in known.items() if kind in (None, its)]
    names = fitting if asked.clusters is None else asked.clusters
    if names and not set(names) & set(fitting):
        what, its = ", ".join(names), known[names[0]].capitalize()
        raise InputError(
            f"This is about {str(kind).capitalize()} clusters, and {what} is of {its}.",
            hint=f"Choose one of: {', '.join(fitting) or 'none is configured'}.",
        )
    found = _past(context, names, asked.at) if asked.at else _present(context, names)
    if not found:
        what = f"{kind.capitalize()} cluster" if kind else "cluster"
        raise IncompleteSnapshotError(
            f"No {what} that was asked for has a snapshot{' at that time' if asked.at else ''}.",
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


def _asked(context: JobContext, asked: FleetAsk, question: Question, kind: str | None) -> Answers:
    """Ask, write the result tables, and return them."""
    sources = sources_of(context, asked, kind)
    if asked.engine == "spark":
        from core.spark.large.fleet import ask_fleet  # noqa: PLC0415  # no pyspark before it

        found = ask_fleet(context.spark(), sources, question, context.progress)
    else:
        found = ask_here(sources, question, context.progress)
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


def _health(context: JobContext, asked: HealthAsk) -> JobAnswer:
    target = next(one for one in TARGETS if one.code == asked.target)
    found = _asked(context, asked, HealthQuestion(target), None)
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


def _shed(context: JobContext, asked: ShedAsk) -> JobAnswer:
    question = ShedQuestion(asked.strategy, asked.rounds, asked.settings, is_off_ignored=True)
    found = _asked(context, asked, question, "pulsar")
    moves = pc.sum(found["rounds"]["moves"]).as_py() or 0
    count = len(set(found["rounds"]["strategy"].to_pylist()))
    names = "1 strategy" if count == 1 else f"{count} strategies"
    return _answer(
        found,
        "rounds",
        f"{names} would unload {pluralize(moves, 'bundle')} in all.",
        {
            "rounds": "What each strategy would do in each cluster, and why.",
            "moves": "Every bundle that was picked, with its likeliest destination.",
        },
    )


def _place(context: JobContext, asked: PlaceAsk) -> JobAnswer:
    question = PlaceQuestion(asked.strategy, asked.settings)
    found = _asked(context, asked, question, "pulsar")
    bundles = pc.sum(found["placement"]["bundles"]).as_py() or 0
    homeless = pc.sum(found["placement"]["homeless"]).as_py() or 0
    said = f"{pluralize(bundles, 'bundle')} placed"
    return _answer(
        found,
        "placement",
        f"{said}; {homeless:,} stay unassigned." if homeless else f"{said}.",
        {
            "placement": "Strategy and bundles that nobody would take, by cluster.",
            "namespaces": "The likeliest broker of each namespace's bundles, and who stays.",
        },
    )


def _simulate(context: JobContext, asked: SimulateAsk) -> JobAnswer:
    question = SimulateQuestion(
        asked.shedding, asked.placement, asked.rounds, tuple(asked.seeds), asked.settings
    )
    found = _asked(context, asked, question, "pulsar")
    settled = found["simulations"]["is_settled"].to_pylist()
    moves = pc.sum(found["simulations"]["moves"]).as_py() or 0
    return _answer(
        found,
        "simulations",
        f"{settled.count(True)} of {pluralize(len(settled), 'simulation')} settle, after "
        f"{pluralize(moves, 'move')} in all.",
        {
            "simulations": "How each simulation ends: moves, clients, deviation before and after.",
            "rounds": "Every round.",
            "moves": "Every bundle that went, and whereto.",
        },
    )


def _balance(context: JobContext, asked: Asked) -> JobAnswer:
    found = _asked(context, asked.scope, FleetRequest(BALANCE, asked.request), "pegasus")
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
        asks=HealthAsk,
        run=_health,
    ),
    JobKind(
        name="shed",
        title="What each strategy would unload",
        answers="What would every shedding strategy do in every cluster, and why?",
        asks=ShedAsk,
        run=_shed,
        system="pulsar",
    ),
    JobKind(
        name="place",
        title="Where every bundle would go",
        answers="Who would get each bundle, and which bundles would nobody take?",
        asks=PlaceAsk,
        run=_place,
        system="pulsar",
    ),
    JobKind(
        name="simulate",
        title="The balancer played forward",
        answers="What would the balancers do from here on, and when do they come to rest?",
        asks=SimulateAsk,
        run=_simulate,
        system="pulsar",
    ),
    JobKind(
        name="balance",
        title="What the Pegasus balancers would propose",
        answers="Which replicas would move in each Pegasus cluster, round by round?",
        asks=FleetAsk,
        request=BalanceRequest,
        run=_balance,
        system="pegasus",
    ),
)
