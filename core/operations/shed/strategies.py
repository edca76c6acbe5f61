"""The unloads of every strategy, round by round, as tables: for jobs."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from core.operations.operation import CountedSummary, Job, Operation, Rows, Tables
from core.progress import Progress
from core.pulsar.facts import PulsarFacts
from core.pulsar.requests import ALL, ShedRequest
from core.pulsar.settings import SHEDDING_SWITCHES, EffectiveSettings, effective_settings
from core.pulsar.shedding import (
    SHEDDING_STRATEGY_NAMES,
    Round,
    active_shedding_strategy,
    find_shedding_strategy,
    shed_rounds,
    strategy_rounds,
)
from core.pulsar.shedding.registry import AnyStrategy
from core.pulsar.view import LoadView
from core.snapshot import LoadManager, PulsarSnapshot

_CONFIGURED: Final = "loadBalancerLoadSheddingStrategy"

ROUNDS: Final = pa.schema(
    [
        pa.field("strategy", pa.string(), nullable=False),
        pa.field("is_configured", pa.bool_(), nullable=False),
        pa.field("round", pa.int64(), nullable=False),
        pa.field("label", pa.string(), nullable=False),
        pa.field("reason", pa.string(), nullable=False),
        pa.field("sentence", pa.string(), nullable=False),
        pa.field("moves", pa.int64(), nullable=False),
        pa.field("skipped", pa.int64(), nullable=False),
        pa.field("throughput", pa.float64(), metadata={"unit": "bytes/s"}),  # of what moves
    ]
)
"""One row a cluster, strategy and round."""

MOVES: Final = pa.schema(
    [
        pa.field("strategy", pa.string(), nullable=False),
        pa.field("round", pa.int64(), nullable=False),
        pa.field("broker", pa.string(), nullable=False),
        pa.field("bundle", pa.string(), nullable=False),
        pa.field("destination", pa.string()),  # the most likely one; null: not unloaded
        pa.field("probability", pa.float64(), metadata={"unit": "ratio"}),
        pa.field("destinations", pa.int64(), nullable=False),  # how many are possible
        pa.field("throughput", pa.float64(), metadata={"unit": "bytes/s"}),
        pa.field("skipped", pa.string(), nullable=False),  # why it is not unloaded; blank: it is
    ]
)
"""One row a bundle that a strategy picked."""


class Decider(Protocol):
    """One cluster, and who decides its rounds."""

    @property
    def manager(self) -> LoadManager:
        """Load manager of the cluster."""
        ...

    def settings(self, overrides: Mapping[str, object]) -> EffectiveSettings:
        """Return the active settings with assumptions on top."""
        ...

    def rounds(
        self, strategy: AnyStrategy, settings: EffectiveSettings, request: ShedRequest
    ) -> Sequence[Round]:
        """Return the rounds of a request."""
        ...

    def throughputs(self, bundles: Sequence[str]) -> Mapping[str, float]:
        """Return bytes/s, in + out, of bundles by their names."""
        ...


def shed_bundles(facts: PulsarFacts, request: ShedRequest, _: Progress) -> Rows:
    """Return the unloads of a cluster's strategies, even if shedding is off.

    Raises:
        UnknownNameError: No such strategy.
    """
    return shed_tables(_LoadedCluster(facts.snapshot), request)


def shed_tables(decider: Decider, request: ShedRequest) -> Rows:
    """Return the tables of one cluster, whoever decides for it.

    Raises:
        UnknownNameError: No such strategy.
    """
    configured = active_shedding_strategy(decider.manager, _settings(decider, request, None)).name
    rounds: list[dict[str, Any]] = []
    moves: list[dict[str, Any]] = []
    for name in _names(request.strategy, configured):
        strategy = find_shedding_strategy(name)
        settings = _settings(decider, request, None if name == configured else name)
        done_rounds = decider.rounds(strategy, settings, request)
        picked = {move.bundle for done in done_rounds for move in done.decision.moves}
        flows = decider.throughputs(sorted(picked))
        for number, done in enumerate(done_rounds, 1):
            found = _moves(flows, name, number, done)
            moves += found
            row = _round(name, number, done, found)
            rounds.append(row | {"is_configured": name == configured})
    return Rows(
        {
            "rounds": pa.Table.from_pylist(rounds, schema=ROUNDS),
            "moves": pa.Table.from_pylist(moves, schema=MOVES),
        }
    )


def _names(strategy: str | None, configured: str) -> tuple[str, ...]:
    if strategy == ALL:
        return SHEDDING_STRATEGY_NAMES
    return (configured if strategy is None else strategy.rpartition(".")[2],)


def _settings(decider: Decider, request: ShedRequest, named: str | None) -> EffectiveSettings:
    strategy = {} if named is None else {_CONFIGURED: named}
    switches = dict.fromkeys(SHEDDING_SWITCHES, True)
    return decider.settings({**switches, **request.settings, **strategy})


@dataclass(frozen=True)
class _LoadedCluster:
    """A cluster whose snapshot is in memory."""

    snapshot: PulsarSnapshot

    @property
    def manager(self) -> LoadManager:
        return self.snapshot.manifest.load_manager

    def settings(self, overrides: Mapping[str, object]) -> EffectiveSettings:
        return effective_settings(self.snapshot, overrides=overrides)

    def rounds(
        self, strategy: AnyStrategy, settings: EffectiveSettings, request: ShedRequest
    ) -> Sequence[Round]:
        view = LoadView.of(self.snapshot, settings)
        start = strategy_rounds if request.strategy_only else shed_rounds
        return list(itertools.islice(start(strategy, view, settings), request.rounds))

    def throughputs(self, bundles: Sequence[str]) -> Mapping[str, float]:
        table = self.snapshot.bundles
        return throughput_by_bundle(
            table.filter(pc.is_in(table["bundle"], pa.array(bundles, pa.string())))
        )


def throughput_by_bundle(bundles: pa.Table) -> dict[str, float]:
    """Return bytes/s in + out of each bundle of a table, as measured last; unknown is 0."""
    names = ("msg_throughput_in", "msg_throughput_out")
    parts = [np.nan_to_num(bundles[name].to_numpy().astype(np.float64)) for name in names]
    return dict(zip(bundles["bundle"].to_pylist(), (parts[0] + parts[1]).tolist(), strict=True))


def _round(name: str, number: int, done: Round, moves: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "strategy": name,
        "round": number,
        "label": done.decision.label,
        "reason": done.decision.reason,
        "sentence": done.decision.sentence,
        "moves": len(done.moves),
        "skipped": len(done.skipped),
        "throughput": sum(row["throughput"] for row in moves if not row["skipped"]),
    }


def _moves(flows: Mapping[str, float], name: str, number: int, done: Round) -> list[dict[str, Any]]:
    found = []
    for move in done.decision.moves:
        destinations = done.destinations.get(move.bundle, {})
        most_likely = max(sorted(destinations), key=lambda one: destinations[one], default=None)
        found.append(
            {
                "strategy": name,
                "round": number,
                "broker": move.broker,
                "bundle": move.bundle,
                "destination": most_likely,
                "probability": None if most_likely is None else destinations[most_likely],
                "destinations": len(destinations),
                "throughput": flows.get(move.bundle, 0.0),
                "skipped": done.skipped.get(move.bundle, ""),
            }
        )
    return found


def _words(found: Tables) -> str:
    """Return the number of strategies and of their unloads."""
    moves = pc.sum(found["rounds"]["moves"]).as_py() or 0
    count = len(set(found["rounds"]["strategy"].to_pylist()))
    return f"strategies: {count:,}; unloads: {moves:,}"


OPERATION: Final = Operation(
    name="shed-strategies",
    module=__name__,
    help="""Show the unloads of every shedding strategy, round by round.""",
    request=ShedRequest,
    answers={"pulsar": shed_bundles},
    spread={"pulsar": "core.spark.pulsar.large.shed:spread_strategies"},
    job=Job(
        kind="shed",
        title="Unloads of each strategy",
        question="What would every shedding strategy do in every cluster, and why?",
        tables={
            "rounds": "What each strategy would do in each cluster, and why.",
            "moves": "Every selected bundle, with its most likely destination.",
        },
        summary=CountedSummary("rounds", _words),
        schemas={"rounds": ROUNDS, "moves": MOVES},
    ),
)
