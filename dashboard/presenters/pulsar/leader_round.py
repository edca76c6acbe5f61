"""The predicted shedding round of a leader in words, for pages and commands."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

import msgspec

from core.pulsar.leader.prediction import Forecast, RoundPrediction
from core.units import format_age, pluralize

STALE_S: Final = 30.0
"""A prediction whose round should have begun so long ago is not shown: its collector stopped."""


def is_shown(forecast: Forecast | None, now_s: float) -> bool:
    """Return whether there is a prediction of a round that is still to come."""
    return (
        forecast is not None
        and forecast.is_current
        and forecast.is_live(now_s)
        and forecast.next_round is not None
        and forecast.next_round.at_s > now_s - STALE_S
    )


_BY_SNAPSHOT: Final = "The next round is predicted from the snapshot."
_CALIBRATED_S: Final = 30
"""Lead time up to which shares came true as shown: 68 of 74 of 90% and more, measured on leaders
recorded and live. 60 s ahead 0 of 9 did."""

FROM_EVENTS: Final = "Predicted from leader events."


def headline(prediction: RoundPrediction, now_s: float, source: str = "") -> str:
    """Return the headline of a round: the bundles that leave, with their probability.

    Without drawn futures there is no percentage.

    Args:
        now_s: Seconds since the epoch.
        source: Broker id: only its bundles are counted; empty: all.

    Example:
        >>> one = RoundPrediction(at_s=100.0, made_at_s=90.0, leader="b:1", strategy="AvgShedder")
        >>> headline(one, 77.0)
        'Next round in 23 s: no bundles, 100%'
    """
    if prediction.reason == "disabled":
        return "Shedding is off: no bundles are unloaded"
    if source:
        own = tuple(bundle for bundle in prediction.bundles if bundle.broker == source)
        prediction = msgspec.structs.replace(prediction, bundles=own)
    leaving = set(prediction.unloaded)
    count = len(leaving)
    bundles = pluralize(count, "bundle") if count else "no bundles"
    of = f" of {source}" if source else ""
    sure = f", {_confidence(prediction, leaving):.0%}" if prediction.has_shares else ""
    return f"Next round {_when(prediction, now_s)}: {bundles}{of}{sure}"


def source_note(prediction: RoundPrediction) -> str:
    """Return the source and the time of a predicted headline."""
    made = datetime.fromtimestamp(prediction.made_at_s, UTC)
    return f"{prediction.strategy}, predicted from leader events at {made:%H:%M:%S} UTC."


def bundle_headline(prediction: RoundPrediction, now_s: float, bundle: str) -> str:
    """Return the location of a bundle after a round, with its probability.

    Example:
        >>> one = RoundPrediction(at_s=100.0, made_at_s=90.0, leader="b:1", strategy="AvgShedder")
        >>> bundle_headline(one, 77.0, "a/b/0x0_0x1")
        'Next round in 23 s: a/b/0x0_0x1 stays, 100%'
    """
    if prediction.reason == "disabled":
        return f"Shedding is off: {bundle} stays"
    found = next((one for one in prediction.bundles if one.bundle == bundle), None)
    share = 0.0 if found is None else found.share
    if found is not None and found.is_selected and found.destinations:
        best = max(found.destinations, key=lambda name: found.destinations[name])
        fate = f"unloaded to {best}"
    else:
        share = 1.0 - share if found is None or not found.is_selected else 1.0
        fate = "stays"
    sure = f", {share:.0%}" if prediction.has_shares else ""
    return f"Next round {_when(prediction, now_s)}: {bundle} {fate}{sure}"


def _when(prediction: RoundPrediction, now_s: float) -> str:
    ahead = prediction.at_s - now_s
    return f"in {ahead:.0f} s" if ahead >= 1 else "now"


def _confidence(prediction: RoundPrediction, leaving: set[str]) -> float:
    """Return the smallest share of the unloaded bundles; without any, 1 minus the largest share.

    A selected bundle that placement gives back to its broker changes nothing.
    """
    if leaving:
        return min(bundle.share for bundle in prediction.bundles if bundle.bundle in leaving)
    return 1.0 - max(
        (bundle.share for bundle in prediction.bundles if not bundle.is_selected), default=0.0
    )


def measured_note(forecast: Forecast, now_s: float) -> str:
    """Return the end of the accuracy's measurement if no observer runs; empty if one does."""
    if forecast.is_live(now_s):
        return ""
    when = datetime.fromtimestamp(forecast.written_at_s, UTC)
    return f"Measured until {when:%Y-%m-%d %H:%M:%S} UTC. The leader observer is not running."


def notes(prediction: RoundPrediction) -> list[str]:
    """Return the reasons for low confidence in a prediction, a sentence each."""
    if not prediction.has_shares:
        return [*prediction.warnings, f"{prediction.strategy}: no shares available."]
    ahead_s = prediction.at_s - prediction.made_at_s
    if ahead_s <= _CALIBRATED_S:
        return list(prediction.warnings)
    too_sure = (
        f"Predicted {ahead_s:.0f} s ahead. Probabilities are calibrated up to {_CALIBRATED_S} s; "
        "further ahead they are too high."
    )
    return [*prediction.warnings, too_sure]


def missing(forecast: Forecast | None, now_s: float, *, is_past: bool) -> str:
    """Return the reason why no round is predicted from events."""
    if is_past:
        return f"Earlier snapshot. {_BY_SNAPSHOT}"
    if forecast is None:
        return f"No leader observer for this cluster. {_BY_SNAPSHOT}"
    if not forecast.is_live(now_s) or (
        forecast.status == "watching" and forecast.next_round is not None
    ):
        age = format_age(max(now_s - forecast.written_at_s, 0.0))
        return (
            f"Last prediction of the leader observer: {age} ago. Start the collector. "
            f"{_BY_SNAPSHOT}"
        )
    states = {
        "starting": "The leader observer is reading the cluster.",
        "lost": "The leader observer has no connection to ZooKeeper.",
        "unsupported": "The leader observer does not support this load manager.",
        "watching": "The cluster has no leader.",
    }
    detail = f" {forecast.detail}" if forecast.detail else ""
    return f"{states[forecast.status]}{detail} {_BY_SNAPSHOT}"
