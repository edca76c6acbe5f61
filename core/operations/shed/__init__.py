"""Shedding rounds: bundles to unload, destinations and the reason of each verdict."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Final, TypedDict

from core.diagnosis.pulsar.advice import simulated_points
from core.facts import Assumed
from core.operations.operation import Answer, Cells, Line, Operation
from core.operations.shed.gates import finite, trace, turning_point
from core.progress import Progress
from core.pulsar.facts import PulsarFacts
from core.pulsar.leader.prediction import FROM_SNAPSHOT
from core.pulsar.placement import active_placement
from core.pulsar.plausibility import impossible_words
from core.pulsar.recent import RecentBundles, recent_bundles
from core.pulsar.requests import ShedRoundsRequest
from core.pulsar.rules.combinations import unpaired_avg_shedder
from core.pulsar.settings import EffectiveSettings, effective_settings
from core.pulsar.shedding import (
    BrokerTrace,
    Round,
    active_shedding_strategy,
    find_shedding_strategy,
    shed_rounds,
    strategy_rounds,
)
from core.pulsar.shedding.registry import AnyStrategy
from core.pulsar.shedding.what_if import TurningPoint, WhatIf, is_searchable
from core.units import format_ratio, pluralize

_CONFIGURED: Final = "loadBalancerLoadSheddingStrategy"
_POINTS_S: Final = 2.0
"""Time for the outcome of the values that change a verdict."""
_TRACED_ROUNDS: Final = 10
"""Rounds whose gates are in the JSON; a thousand brokers make half a megabyte each."""
_MAX_SHOWN: Final = 12
_MAX_MOVES: Final = 40


class _SheddingJson(TypedDict):
    rounds: Sequence[Mapping[str, Sequence[str]]]
    explain: Mapping[str, Any]


class SheddingJson(_SheddingJson, total=False):
    """The JSON of the answer.

    Attributes:
        rounds: The bundles to unload, by broker.
        explain: The strategy with its settings, the verdict on each broker with its gates, and the
            settings that would change a verdict.
        destinations: Probability of each destination, by bundle; not for a strategy alone.
        skipped: Selected bundles that the load manager does not unload, with the reason; not for
            a strategy alone.
        placement: Placement strategy; not for a strategy alone.
        elapsed_ms: Time of each round; not over HTTP.
        warnings: Impossible usage, or a strategy without its pair.
    """

    destinations: Sequence[Mapping[str, Mapping[str, float]]]
    skipped: Sequence[Mapping[str, str]]
    placement: str
    elapsed_ms: Sequence[float]
    warnings: Sequence[str]


@dataclass(frozen=True, eq=False)
class Shedding(Answer):
    """The answer.

    Attributes:
        strategy: Shedding strategy.
        release: Release line.
        config: Settings of the strategy, by the names of its code.
        off: Settings that switch shedding off.
        rounds: The rounds, all on the same load.
        elapsed_ms: Time of each round.
        turning_points: Settings that would change the verdict on a broker.
        placement: Placement strategy; empty: a strategy alone.
        warning: Impossible usage, or a strategy without its pair; empty: none.
        release_warnings: About the named strategy in the cluster's release.
        recent: Bundles in their grace period.
        is_strategy_only: Whether the load manager's checks are skipped.
    """

    strategy: str
    release: str
    config: Mapping[str, Any]
    off: Sequence[str]
    rounds: tuple[Round, ...]
    elapsed_ms: tuple[float, ...]
    turning_points: tuple[TurningPoint, ...]
    placement: str
    warning: str
    release_warnings: tuple[str, ...]
    recent: RecentBundles
    is_strategy_only: bool

    def body(self) -> SheddingJson:
        """Return the JSON object."""
        body: dict[str, Any] = {
            "rounds": [done.bundles_by_broker() for done in self.rounds],
            "elapsed_ms": [round(one, 3) for one in self.elapsed_ms],
        }
        if not self.is_strategy_only:
            body["destinations"] = [
                {bundle: dict(found) for bundle, found in done.destinations.items()}
                for done in self.rounds
            ]
            body["skipped"] = [dict(done.skipped) for done in self.rounds]
            body["placement"] = self.placement
        body["explain"] = {
            "strategy": self.strategy,
            "release": self.release,
            "config": self.config,
            "rounds": [
                _explained(done, is_whole=number < _TRACED_ROUNDS)
                for number, done in enumerate(self.rounds)
            ],
            "turning_points": [turning_point(point) for point in self.turning_points],
        }
        if self.warning:
            body["warnings"] = [self.warning]
        shed: SheddingJson = body  # type: ignore[assignment]  # keys by case
        return shed

    @property
    def warnings(self) -> tuple[str, ...]:
        """Recently unloaded bundles that are not there, and strategies that the release lacks."""
        return tuple(filter(None, (self.recent.warning, *self.release_warnings)))

    def text(self, _: ShedRoundsRequest) -> Iterator[Line]:
        """Return the text for people."""
        is_only = len(self.rounds) == 1
        for number, done in enumerate(self.rounds, 1):
            yield from _round(number, done, is_only=is_only)
            for point in self.turning_points if number == 1 else ():
                yield point.text
        if not is_only:
            yield "Every round uses the same load data; moves have no effect on it."
        if self.placement:
            yield f"Placement: {self.placement}."
        if self.warning:
            yield f"Warning: {self.warning}"
        if self.off and not self.is_strategy_only:
            assumed = " ".join(f"--set {key}=true" for key in self.off)
            yield (
                f"To preview the unloads, add `{assumed}`, or `--strategy-only` to skip the load "
                "manager's checks too."
            )
        yield FROM_SNAPSHOT


def _explained(done: Round, *, is_whole: bool) -> dict[str, Any]:
    decision = done.decision
    return {
        "label": decision.label,
        "reason": decision.reason,
        "sentence": decision.sentence,
        "notes": list(decision.notes),
        "planned": {m.bundle: m.destination for m in decision.moves if m.destination},
        "brokers": [trace(one) for one in decision.trace] if is_whole else [],
    }


def _round(number: int, done: Round, *, is_only: bool) -> Iterator[Line]:
    yield done.decision.sentence if is_only else f"Round {number}: {done.decision.sentence}"
    rows = [
        (
            move.broker,
            move.bundle,
            _destination(done.destinations.get(move.bundle), move.destination),
        )
        for move in done.moves[:_MAX_MOVES]
    ]
    yield Cells(("broker", "bundle", "destination"), rows)
    if done.skipped and not done.moves:
        yield "No bundle is unloaded: the load manager skips all selected bundles."
    if len(done.moves) > _MAX_MOVES:
        yield f"... and {len(done.moves) - _MAX_MOVES} more; --json lists all."
    for bundle, reason in done.skipped.items():
        yield f"Not unloaded: {bundle}: {reason}."
    for assumed in done.decision.notes:
        yield f"Note: {assumed}"
    if number == 1:
        yield ""
        yield from _verdicts(done)


def _destination(distribution: Mapping[str, float] | None, planned: str | None) -> str:
    if not distribution:
        return planned or "by placement"
    ordered = sorted(distribution.items(), key=lambda pair: (-pair[1], pair[0]))
    shown = ", ".join(f"{format_ratio(p)} {broker}" for broker, p in ordered[:3])
    more = len(ordered) - 3
    return shown + (f" and {pluralize(more, 'broker')} more" if more > 0 else "")


def _ranked(done: Round) -> list[BrokerTrace]:
    """Return the verdicts: those that shed and those nearest to it first."""
    return sorted(
        done.decision.trace,
        key=lambda trace: (
            trace.broker is not None,
            not trace.sheds,
            -len(trace.gates),
            trace.gates[-1].distance if trace.gates else float("inf"),
        ),
    )


def _verdicts(done: Round) -> Iterator[Line]:
    traces = _ranked(done)
    rows = [
        (trace.broker or "the cluster", _verdict(trace, done), trace.sentence)
        for trace in traces[:_MAX_SHOWN]
    ]
    yield Cells(("broker", "verdict", "because"), rows)
    if len(traces) > _MAX_SHOWN:
        yield f"... and {len(traces) - _MAX_SHOWN} more; --json lists all."


def _verdict(trace: BrokerTrace, done: Round) -> str:
    if trace.broker is None:
        return "acts" if trace.sheds else "rests"
    if trace.sheds and done.skipped and all(move.broker != trace.broker for move in done.moves):
        return "skipped"
    return "sheds" if trace.sheds else "stays"


def shed(facts: PulsarFacts, request: ShedRoundsRequest, progress: Progress) -> Shedding:
    """Return the rounds of a cluster's strategy, or of a named one.

    Raises:
        UnknownNameError: The configured strategy is not known here.
    """
    snapshot, assumed = facts.snapshot, with_strategy(facts.assumed, request)
    recent = recent_bundles(snapshot.bundles, request.recently_unloaded)
    named = PulsarFacts(snapshot, assumed)
    strategy, overrides = strategy_of(named, request), assumed.settings or {}
    what_if = WhatIf(
        strategy,
        named.view,
        lambda more: effective_settings(
            snapshot, overrides={**overrides, **more}, release=assumed.release
        ),
        recently_unloaded=recent.names,
        is_checked=not request.strategy_only,
        progress=progress,
    )
    start = strategy_rounds if request.strategy_only else shed_rounds
    rounds = start(strategy, named.view, named.settings, recently_unloaded=recent.names)
    timed = list(_timed(rounds, request.rounds, progress))
    points = tuple(_turning_points(what_if, timed[0][0]))
    if not request.strategy_only:
        points = simulated_points(
            snapshot,
            points,
            assumed=overrides,
            release=assumed.release,
            budget_s=_POINTS_S,
            progress=progress,
        )
    sources = {move.broker for done, _ in timed for move in done.moves}
    return shedding_of(
        facts,
        request,
        [done for done, _ in timed],
        [elapsed_ms for _, elapsed_ms in timed],
        recent=recent,
        turning_points=points,
        warning=impossible_words(snapshot.brokers, sources),
    )


def shedding_of(
    facts: PulsarFacts,
    request: ShedRoundsRequest,
    rounds: Sequence[Round],
    elapsed_ms: Sequence[float],
    *,
    recent: RecentBundles,
    turning_points: tuple[TurningPoint, ...] = (),
    warning: str = "",
) -> Shedding:
    """Return the answer, wherever the cluster's bundles are.

    Args:
        facts: The cluster, with or without its bundles.
        request: The request.
        rounds: The rounds.
        elapsed_ms: Time of each.
        recent: Bundles in their grace period.
        turning_points: Settings that would change the verdict on a broker.
        warning: About usage that is impossible; empty: none.
    """
    named = PulsarFacts(facts.snapshot, with_strategy(facts.assumed, request))
    strategy, settings = strategy_of(named, request), named.settings
    manager, known = facts.snapshot.manifest.load_manager, facts.settings.release_warnings
    is_alone = request.strategy_only
    pair = None if is_alone else unpaired_avg_shedder(settings, manager)
    unpaired = "" if pair is None else f"{pair.text} {pair.hint}"
    return Shedding(
        strategy=strategy.name,
        release=settings.release,
        config=_config(strategy.config(settings)),
        off=tuple(settings.shedding_off),
        rounds=tuple(rounds),
        elapsed_ms=tuple(elapsed_ms),
        turning_points=turning_points,
        placement="" if is_alone else active_placement(settings, manager),
        warning=" ".join(filter(None, (warning, unpaired))),
        release_warnings=tuple(one for one in settings.release_warnings if one not in known),
        recent=recent,
        is_strategy_only=is_alone,
    )


def with_strategy(assumed: Assumed, request: ShedRoundsRequest) -> Assumed:
    """Return assumptions under which the cluster uses the strategy of a request."""
    if request.strategy is None:
        return assumed
    name = find_shedding_strategy(request.strategy).name
    return assumed._replace(settings={**(assumed.settings or {}), _CONFIGURED: name})


def strategy_of(facts: PulsarFacts, request: ShedRoundsRequest) -> AnyStrategy:
    """Return the strategy of a request, or the active one.

    Raises:
        UnknownNameError: The configured strategy is not known here.
    """
    if request.strategy is not None:
        return find_shedding_strategy(request.strategy)
    return active_shedding_strategy(facts.snapshot.manifest.load_manager, facts.settings)


def _turning_points(what_if: WhatIf, first: Round) -> Iterator[TurningPoint]:
    """Yield the turning points of the first broker that sheds and of the nearest that does not."""
    if not is_searchable(what_if.view):
        return
    ranked = [one for one in _ranked(first) if one.broker is not None]
    chosen = [next((t for t in ranked if t.sheds is sheds), None) for sheds in (True, False)]
    for verdict in chosen:
        if verdict is not None and verdict.broker is not None:
            yield from what_if.turning_points(verdict.broker)


def _timed(
    rounds: Iterator[Round], count: int, progress: Progress
) -> Iterator[tuple[Round, float]]:
    started = time.perf_counter()
    for number, done in enumerate(itertools.islice(rounds, count), 1):
        yield done, (time.perf_counter() - started) * 1000
        progress.step(number, count, "rounds")
        started = time.perf_counter()


def _config(config: object) -> dict[str, Any]:
    if not is_dataclass(config) or isinstance(config, type):
        return {}
    values = {field.name: getattr(config, field.name) for field in fields(config)}
    return {
        key: _plain(value)
        for key, value in values.items()
        if not isinstance(value, EffectiveSettings)  # the whole catalogue is no part of a rule
    }


def _plain(value: object) -> object:
    if isinstance(value, float):
        return finite(value)
    if isinstance(value, frozenset | set):
        return sorted(value)
    return list(value) if isinstance(value, tuple) else value


OPERATION: Final = Operation(
    name="shed",
    module=__name__,
    help="""Preview shedding rounds: bundles, destinations, reasons.""",
    request=ShedRoundsRequest,
    answers={"pulsar": shed},
    is_timed=False,
    is_many=True,
    can_assume=True,
    spread={"pulsar": "core.spark.pulsar.large.shed:spread_rounds"},
)
