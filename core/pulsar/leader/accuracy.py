"""How good predictions of shedding rounds were, judged by what came of the rounds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from math import sqrt
from typing import Final

import msgspec

from core.pulsar.leader.prediction import (
    LEADS_S,
    ActualRound,
    LeadAccuracy,
    RoundPrediction,
    ShareBin,
)

CALIBRATION_LEAD_S: Final = 10.0
"""Lead time of the predictions whose shares are compared with what came true."""

_NORMAL_95: Final = 1.959964
"""Standard deviations on both sides of the mean that hold 95% of a normal distribution."""

_BINS: Final = (0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0)


class LeadScore(msgspec.Struct, frozen=True, array_like=True):
    """One prediction against its round.

    Attributes:
        lead_s: Lead time, one of :data:`LEADS_S`.
        predicted: Bundles predicted.
        actual: Bundles of the round.
        hits: Bundles in both.
        is_exact: Whether both are the same; their order too where the order is known.
    """

    lead_s: float
    predicted: int
    actual: int
    hits: int
    is_exact: bool


class JudgedRound(msgspec.Struct, frozen=True):
    """One round, judged.

    Attributes:
        at_s: Its start, seconds since the epoch.
        scores: One a lead time at which there was a prediction.
        shares: ``(share, whether it came true)`` of each bundle predicted at
            :data:`CALIBRATION_LEAD_S`.
    """

    at_s: float
    scores: tuple[LeadScore, ...]
    shares: tuple[tuple[float, bool], ...] = ()


def judge(predictions: Mapping[float, RoundPrediction], actual: ActualRound) -> JudgedRound:
    """Compare predictions of one round with it.

    Args:
        predictions: By lead time, seconds.
        actual: The round. Where :attr:`ActualRound.selected` is known, selections are compared, in
            order; otherwise the bundles that moved.
    """
    is_selected = actual.selected is not None
    came = actual.unloaded if actual.selected is None else actual.selected
    scores = []
    for lead_s in sorted(predictions):
        prediction = predictions[lead_s]
        ours = prediction.selected if is_selected else prediction.unloaded
        is_exact = ours == came if is_selected else set(ours) == set(came)
        hits = len(set(ours) & set(came))
        scores.append(LeadScore(lead_s, len(ours), len(came), hits, is_exact))
    drawn = predictions.get(CALIBRATION_LEAD_S)
    if drawn is None or not drawn.has_shares:
        shares: tuple[tuple[float, bool], ...] = ()
    else:
        shares = tuple(_came_true(drawn, came, is_selected=is_selected))
    return JudgedRound(actual.at_s, tuple(scores), shares)


def _came_true(
    prediction: RoundPrediction, came: Sequence[str], *, is_selected: bool
) -> Iterable[tuple[float, bool]]:
    for one in prediction.bundles:
        if is_selected or one.destinations or not one.is_selected:
            yield one.share, one.bundle in came


def accuracy_by_lead(rounds: Iterable[JudgedRound]) -> tuple[LeadAccuracy, ...]:
    """Return the sums of judged rounds, one a lead time at which there was a prediction."""
    by_lead: dict[float, list[LeadScore]] = {}
    for one in rounds:
        for score in one.scores:
            by_lead.setdefault(score.lead_s, []).append(score)
    return tuple(
        LeadAccuracy(
            lead_s=lead_s,
            rounds=len(scores),
            exact=sum(score.is_exact for score in scores),
            predicted=sum(score.predicted for score in scores),
            actual=sum(score.actual for score in scores),
            hits=sum(score.hits for score in scores),
        )
        for lead_s in LEADS_S
        if (scores := by_lead.get(lead_s))
    )


def calibration(rounds: Iterable[JudgedRound]) -> tuple[ShareBin, ...]:
    """Return how often bundles came true by the share that they were shown with."""
    shown = [pair for one in rounds for pair in one.shares]
    bins = []
    for low, high in pairwise(_BINS):
        is_last = high == _BINS[-1]
        inside = [pair for pair in shown if low <= pair[0] < high or (is_last and pair[0] == high)]
        if inside:
            bins.append(
                ShareBin(
                    low=low,
                    high=high,
                    shown=len(inside),
                    came_true=sum(came for _, came in inside),
                    share_total=sum(share for share, _ in inside),
                )
            )
    return tuple(bins)


def came_true_range(one: ShareBin) -> tuple[float, float]:
    """Return between which ratios the bundles of a range come true, with 95% confidence.

    Source:
        Wilson's score interval, which holds for few bundles too.
    Example:
        >>> low, high = came_true_range(ShareBin(low=0.9, high=1.0, shown=42, came_true=41))
        >>> round(low, 2), round(high, 2)
        (0.88, 1.0)
    """
    if not one.shown:
        return 0.0, 1.0
    count, ratio, square = one.shown, one.came_true / one.shown, _NORMAL_95**2
    middle = ratio + square / (2 * count)
    half = _NORMAL_95 * sqrt(ratio * (1 - ratio) / count + square / (4 * count * count))
    scale = 1 + square / count
    return max((middle - half) / scale, 0.0), min((middle + half) / scale, 1.0)
