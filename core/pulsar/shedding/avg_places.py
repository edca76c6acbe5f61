"""Why brokers in the idle half of AvgShedder's ranking do not give: how far the busy half is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from core.pulsar.shedding.basis import SheddingBasis
from core.pulsar.shedding.gates import at_least, place_by_usage
from core.pulsar.shedding.model import BrokerTrace
from core.pulsar.view import Floats

if TYPE_CHECKING:
    from core.pulsar.shedding.avg_shedder import Pairs


def idle_half(
    basis: SheddingBasis, pairs: Pairs, score: Floats, *, ranks_by_points: bool
) -> Iterator[BrokerTrace]:
    """Yield the trace of every broker that takes, or that nobody is paired with.

    Args:
        basis: The cluster.
        pairs: Of the round.
        score: Percent, in the order of ``basis.brokers``.
        ranks_by_points: The ranking compares whole points: the place decides, not the score.
    """
    names = [basis.view.brokers[row] for row in basis.brokers]
    count = len(names)
    sources = [
        busy
        for idle, busy in zip(pairs.idle.tolist(), pairs.busy.tolist(), strict=True)
        if idle != busy
    ]
    if not sources:
        return
    bound = float(score[sources[-1]])
    for pair, at in enumerate(pairs.idle.tolist()):
        busy = int(pairs.busy[pair])
        part = "has no pair" if at == busy else f"would receive from {names[busy]}"
        told = f"number {count - pair} of {count} by usage, it {part}: its usage of"
        gate = at_least(told, float(score[at]), bound, "percent", is_strict=True)
        gate = replace(gate, name="usage of the half that gives")
        if ranks_by_points:
            told = f"{told} {score[at]:.1f}% is ranked by whole points"
            gate = place_by_usage(count - pair, len(sources), told)
        yield BrokerTrace(
            broker=names[at],
            sheds=False,
            gates=(gate,),
            sentence=gate.sentence,
        )
