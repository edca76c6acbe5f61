"""Placement of one bundle: the probability of each broker, or the reason for its exclusion."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypedDict

from core.errors import IncompleteSnapshotError, UnknownNameError
from core.operations.operation import Answer, Cells, Line, Operation
from core.progress import Progress
from core.pulsar.facts import PulsarFacts
from core.pulsar.placement import place_bundle
from core.pulsar.placement.model import Placement, PlacementMemory
from core.pulsar.requests import PlaceBundleRequest
from core.pulsar.settings import EffectiveSettings
from core.pulsar.view import LoadView
from core.units import format_ratio


class _PlacedJson(TypedDict):
    distribution: Mapping[str, float]
    ruled_out: Mapping[str, str]
    bundle: str
    strategy: str
    scores: Mapping[str, float | None]
    score_label: str
    notes: Sequence[str]


class PlacedJson(_PlacedJson, total=False):
    """The JSON of the answer.

    Attributes:
        distribution: Probability of each broker.
        ruled_out: Reason for the exclusion of each other broker.
        bundle: Its name.
        strategy: The class that picks.
        scores: What the strategy compares, by broker; null: unknown.
        score_label: What the scores are; empty: the strategy compares none.
        notes: What was assumed.
        elapsed_ms: Time that it took; not over HTTP.
        why: Why no broker is eligible; only without a distribution.
    """

    elapsed_ms: float
    why: str


@dataclass(frozen=True, eq=False)
class Placed(Answer):
    """The answer.

    Attributes:
        placement: Where the bundle goes.
        elapsed_ms: Time that it took.
    """

    placement: Placement
    elapsed_ms: float

    def body(self) -> PlacedJson:
        """Return the JSON object."""
        placed = self.placement
        body: PlacedJson = {
            "distribution": placed.distribution,
            "ruled_out": dict(placed.ruled_out),
            "elapsed_ms": round(self.elapsed_ms, 3),
            "bundle": placed.bundle,
            "strategy": placed.strategy,
            "scores": placed.scores,
            "score_label": placed.score_label,
            "notes": placed.notes,
        }
        if not placed.distribution:
            body["why"] = placed.why
        return body

    def text(self, _: PlaceBundleRequest) -> Iterator[Line]:
        """Return the text for people."""
        placed = self.placement
        if not placed.is_known:
            yield f"The destination of {placed.bundle} is unknown: {placed.why}"
        elif not placed.distribution:
            yield f"No broker can take {placed.bundle}: {placed.why}"
        else:
            yield f"Destinations of {placed.bundle} ({placed.strategy}):"
            ranked = sorted(placed.distribution.items(), key=lambda item: -item[1])
            rows = [
                (broker, format_ratio(p), _score(placed.scores.get(broker))) for broker, p in ranked
            ]
            yield Cells(("broker", "probability", placed.score_label or "score"), rows)
        if placed.ruled_out:
            yield ""
            yield Cells(("excluded", "reason"), list(placed.ruled_out.items()))
        for text in placed.notes:
            yield f"Note: {text}"


def _score(value: float | None) -> str:
    return "unknown" if value is None else f"{value:,.4g}"


def place(facts: PulsarFacts, request: PlaceBundleRequest, progress: Progress) -> Placed:
    """Place a bundle as the leader would.

    Raises:
        IncompleteSnapshotError: The snapshot has no brokers.
        UnknownNameError: There is no such bundle, broker or strategy.
    """
    progress.step(0, 2, "load of the brokers")
    view = facts.view
    progress.step(1, 2, "placement")
    return placed(view, facts.settings, request)


def placed(view: LoadView, settings: EffectiveSettings, request: PlaceBundleRequest) -> Placed:
    """Return the answer, wherever the cluster's other bundles are.

    Args:
        view: With the bundles of the namespace.
        settings: The leader's active settings.
        request: The bundle.
    """
    candidates = _candidates(request.candidates, view.brokers)
    started = time.perf_counter()
    placement = place_bundle(
        view,
        request.bundle,
        settings,
        strategy=request.strategy,
        candidates=candidates,
        with_filters=request.filters,
        non_persistent=request.non_persistent,
    )
    elapsed_ms = (time.perf_counter() - started) * 1000
    # small for its way back from a task
    small = replace(placement, ruled_out=dict(placement.ruled_out), after=PlacementMemory())
    return Placed(small, elapsed_ms)


def _candidates(text: str | None, known: Sequence[str]) -> list[str] | None:
    if text is None:
        return None
    if not known:
        raise IncompleteSnapshotError("The snapshot has no brokers.")
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in known:
            raise UnknownNameError.of("broker", name, known, place="the snapshot")
    return names


OPERATION: Final = Operation(
    name="place",
    module=__name__,
    help="""Show the placement candidates of a bundle.

    Shows the probability of each broker, or the reason for its exclusion.
    """,
    request=PlaceBundleRequest,
    answers={"pulsar": place},
    is_timed=False,
    is_many=True,
    can_assume=True,
    spread={"pulsar": "core.spark.pulsar.large.place:spread_bundle"},
)
