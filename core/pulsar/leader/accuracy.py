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

_PRIOR: Final = 10.0
"""Bundles of a range that weigh as much as the assumption that shares are right."""

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

    @property
    def is_active(self) -> bool:
        """Whether bundles were predicted or moved."""
        return bool(self.predicted or self.actual)


class JudgedRound(msgspec.Struct, frozen=True):
    """One round, judged.

    Attributes:
        at_s: Its start, seconds since the epoch.
        scores: One a lead time at which there was a prediction.
        shares: ``(share, whether it came true)`` of each bundle predicted at
            :data:`CALIBRATION_LEAD_S`, as shown.
        drawn: The same of the shares as they were drawn; empty: they were shown so.
    """

    at_s: float
    scores: tuple[LeadScore, ...]
    shares: tuple[tuple[float, bool], ...] = ()
    drawn: tuple[tuple[float, bool], ...] = ()


def judge(
    predictions: Mapping[float, RoundPrediction],
    actual: ActualRound,
    drawn: RoundPrediction | None = None,
) -> JudgedRound:
    """Compare predictions of one round with it.

    Args:
        predictions: By lead time, seconds.
        actual: The round. Where :attr:`ActualRound.selected` is known, selections are compared, in
            order; otherwise the bundles that moved.
        drawn: The prediction of :data:`CALIBRATION_LEAD_S` with the shares that were drawn, where
            others were shown.
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
    shown = predictions.get(CALIBRATION_LEAD_S)
    return JudgedRound(
        actual.at_s,
        tuple(scores),
        tuple(_came_true(shown, came, is_selected=is_selected)),
        tuple(_came_true(drawn, came, is_selected=is_selected)),
    )


def _came_true(
    prediction: RoundPrediction | None, came: Sequence[str], *, is_selected: bool
) -> Iterable[tuple[float, bool]]:
    if prediction is None or not prediction.has_shares:
        return
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
            active=sum(score.is_active for score in scores),
            active_exact=sum(score.is_active and score.is_exact for score in scores),
            predicted=sum(score.predicted for score in scores),
            actual=sum(score.actual for score in scores),
            hits=sum(score.hits for score in scores),
        )
        for lead_s in LEADS_S
        if (scores := by_lead.get(lead_s))
    )


def calibration(rounds: Iterable[JudgedRound]) -> tuple[ShareBin, ...]:
    """Return the hit rate of bundles by predicted share."""
    return _binned([pair for one in rounds for pair in one.shares])


def _binned(shown: Sequence[tuple[float, bool]]) -> tuple[ShareBin, ...]:
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


def calibrated(prediction: RoundPrediction, rounds: Iterable[JudgedRound]) -> RoundPrediction:
    """Return a prediction with its shares corrected by how drawn shares came true here.

    A share means what it says on a machine that is as quick as a leader's is. Where brokers, the
    leader or the collector lack processor time, reports and rounds come late and fewer bundles come
    true: the shares of a range are scaled by what came true of it, the more the more was seen.
    Shares are not raised, and a range of which nothing was seen stays as drawn.

    Args:
        prediction: With shares as drawn.
        rounds: Judged before in this cluster.
    """
    if not prediction.has_shares or not prediction.bundles:
        return prediction
    pairs = [pair for one in rounds for pair in (one.drawn or one.shares)]
    scales = [(one.low, one.high, _scale(one)) for one in _binned(pairs)]

    def corrected(share: float) -> float:
        fitting = (scale for low, high, scale in scales if low <= share <= high)
        return share * next(fitting, 1.0)

    bundles = tuple(
        msgspec.structs.replace(one, share=corrected(one.share)) for one in prediction.bundles
    )
    return msgspec.structs.replace(prediction, bundles=bundles)


def _scale(one: ShareBin) -> float:
    """Return the ratio of actual to predicted, with a prior of :data:`_PRIOR`."""
    mean = one.share_total / one.shown
    ratio = (one.came_true + _PRIOR * mean) / (one.shown + _PRIOR)
    return min(ratio / mean, 1.0) if mean else 1.0


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
