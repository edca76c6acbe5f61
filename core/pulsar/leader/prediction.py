"""What a model of a leader predicts, and how good its predictions were.

The record types here are what the collector writes for pages and commands, as JSON.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, Protocol

import msgspec

from core.pulsar.leader.events import ZnodeEvent

LEADS_S: Final = (0.0, 1.0, 5.0, 10.0, 30.0, 60.0)
"""Lead times by which accuracy is measured, seconds before the round."""

FROM_SNAPSHOT: Final = "Predicted from the snapshot, not from leader events."

FORECAST_FORMAT: Final = 1
"""Version of :class:`Forecast` as JSON."""

WRITTEN_EVERY_S: Final = 10.0
"""A running observer writes its forecast at least so often, changed or not."""

LIVE_WITHIN_S: Final = 3 * WRITTEN_EVERY_S
"""A forecast that was written longer ago is of an observer that stopped."""


class PredictedBundle(msgspec.Struct, frozen=True, kw_only=True):
    """One bundle of a predicted round.

    Attributes:
        bundle: Name.
        broker: Source.
        share: Part of the futures that were drawn in which the strategy selects it, 0..1.
        is_selected: Whether the strategy selects it if nothing changes until the round.
        destinations: ``{broker: probability}`` if nothing changes; empty: it is not unloaded.
        skipped: Why it is selected and not unloaded; empty if it is unloaded or not selected.
    """

    bundle: str
    broker: str
    share: float = 1.0
    is_selected: bool = True
    destinations: dict[str, float] = {}  # msgspec copies empty defaults
    skipped: str = ""


class RoundPrediction(msgspec.Struct, frozen=True, kw_only=True):
    """One shedding round of a leader, as predicted.

    Attributes:
        at_s: Predicted start of the round, seconds since the epoch.
        made_at_s: Time up to which events were known when it was made.
        leader: Broker id; ``None`` if there is no leader.
        strategy: Class name.
        bundles: Selected ones first, in the order in which the strategy selects them; then those
            that only some futures select, the most likely first.
        label: ``success`` (bundles are selected), ``skip`` or ``failure``.
        reason: Reason code of the strategy.
        sentence: The decision in one sentence.
        warnings: What lowers the confidence, a sentence each.
        has_shares: Whether futures were drawn; without, every share is 1 and means nothing.
    """

    at_s: float
    made_at_s: float
    leader: str | None
    strategy: str
    bundles: tuple[PredictedBundle, ...] = ()
    label: Literal["success", "skip", "failure"] = "skip"
    reason: str = ""
    sentence: str = ""
    warnings: tuple[str, ...] = ()
    has_shares: bool = True

    @property
    def selected(self) -> tuple[str, ...]:
        """Bundles that the strategy selects if nothing changes, in its order."""
        return tuple(one.bundle for one in self.bundles if one.is_selected)

    @property
    def unloaded(self) -> tuple[str, ...]:
        """Bundles of :attr:`selected` that pass the load manager's checks and placement."""
        return tuple(one.bundle for one in self.bundles if one.is_selected and one.destinations)

    @property
    def shares(self) -> dict[str, float]:
        """``{bundle: share}`` of all bundles of the prediction."""
        return {one.bundle: one.share for one in self.bundles}

    @property
    def lead_s(self) -> float:
        """Seconds from the last known event to the round."""
        return self.at_s - self.made_at_s

    @property
    def confidence(self) -> float:
        """Smallest share of the selected bundles; of an idle round 1 minus the largest share."""
        chosen = [one.share for one in self.bundles if one.is_selected]
        if chosen:
            return min(chosen)
        return 1.0 - max((one.share for one in self.bundles), default=0.0)


class ActualRound(msgspec.Struct, frozen=True, kw_only=True):
    """One round as the leader held it, as far as ZooKeeper shows it afterwards.

    Attributes:
        at_s: Start of the round, seconds since the epoch.
        selected: What the strategy selected; ``None`` where only moves are known.
        unloaded: Bundles that moved in the round.
    """

    at_s: float
    selected: tuple[str, ...] | None
    unloaded: tuple[str, ...]


class LeadAccuracy(msgspec.Struct, frozen=True, kw_only=True):
    """Measured accuracy at one lead time.

    Attributes:
        lead_s: Seconds before the round.
        rounds: Rounds judged.
        exact: Rounds whose bundles were all predicted, and no others.
        active: Of the rounds, those in which bundles were predicted or moved; in the others, which
            are idle, there was nothing to predict.
        active_exact: Of these, the exact ones.
        predicted: Bundles predicted.
        actual: Bundles that came true in those rounds.
        hits: Bundles in both.
    """

    lead_s: float
    rounds: int = 0
    exact: int = 0
    active: int = 0
    active_exact: int = 0
    predicted: int = 0
    actual: int = 0
    hits: int = 0

    @property
    def idle(self) -> int:
        """Rounds in which nothing was predicted and nothing moved: all of them are exact."""
        return self.rounds - self.active


class ShareBin(msgspec.Struct, frozen=True, kw_only=True):
    """Hit rate of bundles predicted with a share in one range.

    Attributes:
        low: Smallest share, included.
        high: Largest share; included in the last bin only.
        shown: Bundles shown.
        came_true: Those that the round selected.
        share_total: Sum of their shares; divided by ``shown`` the mean share.
    """

    low: float
    high: float
    shown: int = 0
    came_true: int = 0
    share_total: float = 0.0


class Forecast(msgspec.Struct, frozen=True, kw_only=True):
    """Published forecast of one cluster's leader observer.

    Attributes:
        cluster: Name in the configuration.
        written_at_s: When it was written, seconds since the epoch.
        observed_since_s: When unbroken watching began.
        status: ``watching``; ``starting`` (too few events yet), ``lost`` (no session),
            ``unsupported`` (this load manager or release has no replay).
        detail: One sentence for people; empty if there is nothing to add.
        next_round: Prediction of the next round; ``None`` unless ``watching``.
        last_round: The round before, predicted at its start.
        accuracy: Measured in this cluster, one a lead time.
        calibration: Measured in this cluster.
        unknown: What cannot be known from outside here, a sentence each.
        format: Of this record.
    """

    cluster: str
    written_at_s: float
    observed_since_s: float
    status: Literal["watching", "starting", "lost", "unsupported"]
    detail: str = ""
    next_round: RoundPrediction | None = None
    last_round: RoundPrediction | None = None
    accuracy: tuple[LeadAccuracy, ...] = ()
    calibration: tuple[ShareBin, ...] = ()
    unknown: tuple[str, ...] = ()
    format: int = FORECAST_FORMAT

    @property
    def is_current(self) -> bool:
        """Whether it had a prediction when it was written."""
        return self.status == "watching" and self.next_round is not None

    def is_live(self, now_s: float) -> bool:
        """Return whether its observer is still running, by its write time.

        A process that is killed leaves its last forecast behind. One from the future is not
        trusted either: a clock was set back since.
        """
        return abs(now_s - self.written_at_s) <= LIVE_WITHIN_S


class LeaderModel(Protocol):
    """A model of a leader that follows events.

    Rounds are advanced by events: an event at or after the predicted start of the next round first
    runs that round with what is known, strategy memory included.
    """

    @property
    def next_round_at_s(self) -> float | None:
        """Predicted start of the next round, seconds since the epoch; ``None`` if no leader."""
        ...

    def apply(self, event: ZnodeEvent, /) -> Sequence[RoundPrediction]:
        """Apply one event, in mzxid order; return the rounds that began before it."""
        ...

    def advance(self, to_s: float, /) -> Sequence[RoundPrediction]:
        """Run the rounds that begin before a time, with no further events before it.

        Args:
            to_s: Seconds since the epoch; a live caller passes a time up to which it has read
                everything, not the present.
        """
        ...

    def predict(self, now_s: float, /, *, draws: int | None = None) -> RoundPrediction | None:
        """Return the next round by what is known at ``now_s``; changes nothing.

        Args:
            now_s: Time up to which all events were applied, seconds since the epoch.
            draws: Futures to draw for the shares; ``None`` for as many as affordable; 0: none,
                every share is 1.
        """
        ...

    def start_over(self) -> None:
        """Forget everything: events were missed. The next events are of kind ``init``."""
        ...
