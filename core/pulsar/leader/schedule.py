"""When a leader holds its shedding rounds and writes its averages, and which bundles rest.

Source:
    Pulsar ``LoadSheddingTask`` (each run schedules the next one when it ends),
    ``PulsarService#startLoadManagementService`` (the write is at a fixed rate),
    ``ModularLoadManagerImpl#doLoadShedding`` (``recentlyUnloadedBundles``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

_IDLE_S: Final = 0.002
"""Duration of a round that unloads nothing, measured: 1 to 3 ms."""

_EARLY_S: Final = 0.3
"""A move so long before the predicted start belongs to the round: the phase is an estimate."""

_GRACE_SLACK_S: Final = 0.5
"""A grace period that ends so little after a round begins has ended: measured on real leaders."""

_COINCIDE_S: Final = 1.0
"""A write of averages that began so shortly before a round delays it: both have one thread."""

_LOST_S: Final = 5.0
"""A bundle that left a broker within this of the broker's own end was lost, not unloaded."""

_QUIET_S: Final = 45.0
"""A selected bundle that moves so long after the last unload was still unloaded by the round.

Unloads follow one another, but each may take up to ``namespaceBundleUnloadingTimeoutMs``; 35 s was
seen for the first one of a leader without enough processor time.
"""

_AHEAD_S: Final = 3.0
"""How much earlier than predicted a round may begin that follows one whose end was seen late."""

_AHEAD_PART: Final = 0.05
"""At most so much of the interval between rounds."""

_MISSES: Final = 3
"""Rounds with predicted moves and none seen after which the phase counts as unknown again."""


class OpenRound(msgspec.Struct, kw_only=True):
    """The round that began last: what it selected, and what of it moved so far.

    Attributes:
        at_s: Its predicted start, seconds since the epoch.
        sources: ``{bundle: broker}`` of the selected ones.
        moved: ``{bundle: time}`` of those whose ownership was given up in the round.
        expects_moves: Whether bundles were predicted to be unloaded.
    """

    at_s: float
    sources: dict[str, str]
    moved: dict[str, float] = {}
    expects_moves: bool = False

    @property
    def end_s(self) -> float:
        """When it ended, as far as known: its last unload, else a moment after its start."""
        return max([self.at_s + _IDLE_S, *self.moved.values()])


class Schedule(msgspec.Struct, kw_only=True):
    """Clock of one leader. Times are seconds since the epoch.

    Attributes:
        elected_at_s: Creation time of the leader's znode; ``None`` if there is no leader.
        round_every_s: Interval between the end of a round and the next one.
        write_every_s: Interval between writes of averages, fixed when the leader was elected.
        next_round_s: Predicted start of the next round.
        next_write_s: Next write.
        last_write_s: Last write that was due.
        is_anchored: Whether the phase follows from a round that was seen, or from the election.
        open_round: The round that began last.
        rested: ``{bundle: end of the round}`` of bundles in their grace period.
        misses: Rounds in a row with predicted moves and none seen.
    """

    elected_at_s: float | None = None
    round_every_s: float = 60.0
    write_every_s: float = 900.0
    next_round_s: float | None = None
    next_write_s: float | None = None
    last_write_s: float | None = None
    is_anchored: bool = False
    open_round: OpenRound | None = None
    rested: dict[str, float] = {}
    misses: int = 0

    def elect(
        self, at_s: float, now_s: float, *, round_every_s: float, write_every_s: float
    ) -> None:
        """Reset for another leader.

        Args:
            at_s: Creation time of its znode.
            now_s: Present; rounds and writes before it are over.
            round_every_s: Shedding interval.
            write_every_s: Interval between writes of averages.
        """
        self.elected_at_s = at_s
        self.round_every_s, self.write_every_s = round_every_s, write_every_s
        self.open_round, self.rested, self.misses = None, {}, 0
        over = max(int((now_s - at_s) // round_every_s), 0)
        self.next_round_s = at_s + (over + 1) * round_every_s
        written = max(int((now_s - at_s) // write_every_s), 0)
        self.next_write_s = at_s + (written + 1) * write_every_s
        self.last_write_s = at_s + written * write_every_s if written else None
        self.is_anchored = over == 0

    def resign(self) -> None:
        """End without a successor: no rounds and no writes."""
        self.elected_at_s = self.next_round_s = self.next_write_s = None
        self.open_round, self.rested = None, {}

    def write_due(self, to_s: float) -> bool:
        """Return whether a write is due up to a time, and count it as done."""
        if self.next_write_s is None or self.next_write_s > to_s:
            return False
        self.last_write_s = self.next_write_s
        self.next_write_s += self.write_every_s
        return True

    def writes_until(self, to_s: float) -> int:
        """Return the number of writes due up to a time."""
        if self.next_write_s is None or self.next_write_s > to_s:
            return 0
        return 1 + int((to_s - self.next_write_s) // self.write_every_s)

    def seen_writing(self, at_s: float) -> None:
        """Note that the leader wrote averages: a round that was due waits until it has done so."""
        due, write = self.next_round_s, self.last_write_s
        if due is None or write is None:
            return
        if due - _COINCIDE_S <= write <= due <= at_s < due + _COINCIDE_S:
            self.next_round_s = at_s

    def begin_round(self, sources: Mapping[str, str], *, expects_moves: bool) -> None:
        """Begin the round that is due."""
        at_s = self.next_round_s
        if at_s is None:
            return
        self._judge_phase()
        self.open_round = OpenRound(at_s=at_s, sources=dict(sources), expects_moves=expects_moves)
        self.next_round_s = self.open_round.end_s + self.round_every_s

    def may_begin_early(self, at_s: float) -> bool:
        """Return whether a move at a time may be the first of the round that is due soon after."""
        due = self.next_round_s
        ahead_s = min(_AHEAD_S, _AHEAD_PART * self.round_every_s)
        return self.is_anchored and due is not None and due - ahead_s <= at_s < due

    def begin_early(self, at_s: float) -> None:
        """Let the next round begin at a time: a bundle that it selects moves already."""
        self.next_round_s = at_s

    def _judge_phase(self) -> None:
        """Give the phase up after several rounds of which nothing came."""
        past = self.open_round
        if past is None or not past.expects_moves:
            return
        self.misses = 0 if past.moved else self.misses + 1
        if self.misses >= _MISSES:
            self.is_anchored = False

    def moved(self, bundle: str, at_s: float) -> bool:
        """Note that a broker gave up a bundle; return whether the open round unloaded it."""
        past = self.open_round
        if past is not None and bundle in past.sources and self._is_within(past, at_s):
            past.moved[bundle] = at_s
            self.rested[bundle] = past.end_s
            for other in past.moved:
                self.rested[other] = past.end_s
            self.next_round_s = past.end_s + self.round_every_s
            self.is_anchored = True
            return True
        if not self.is_anchored and self.elected_at_s is not None:
            # the phase is unknown: what moves is taken to move in a round
            self.rested[bundle] = at_s
            self.next_round_s = at_s + self.round_every_s
        return False

    def _is_within(self, past: OpenRound, at_s: float) -> bool:
        return past.at_s - _EARLY_S <= at_s < past.end_s + min(_QUIET_S, self.round_every_s)

    def owned_again(self, bundle: str, at_s: float) -> None:
        """Correct the time of an unload: the new owner came no earlier than the old one left."""
        past = self.open_round
        if past is not None and at_s < past.moved.get(bundle, at_s):
            self.moved(bundle, at_s)

    def lost(self, broker: str, at_s: float) -> None:
        """Take back unloads from a broker that ended: its bundles were lost with it."""
        past = self.open_round
        if past is None:
            return
        for bundle, moved_s in list(past.moved.items()):
            if past.sources.get(bundle) == broker and abs(moved_s - at_s) < _LOST_S:
                del past.moved[bundle]
                self.rested.pop(bundle, None)
        if self.next_round_s is not None:
            self.next_round_s = past.end_s + self.round_every_s

    def resting(self, at_s: float, grace_s: float) -> frozenset[str]:
        """Return the bundles in their grace period in a round at a time; forget the others."""
        return frozenset(
            bundle
            for bundle, end_s in self.rested.items()
            if at_s - end_s < grace_s - _GRACE_SLACK_S
        )

    def forget_rested(self, at_s: float, grace_s: float) -> None:
        """Drop grace stamps that have run out."""
        resting = self.resting(at_s, grace_s)
        self.rested = {bundle: end_s for bundle, end_s in self.rested.items() if bundle in resting}
