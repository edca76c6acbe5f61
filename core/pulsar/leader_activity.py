"""Whether the leader acts: what only it writes has an age, and rounds that were due are counted.

The leader of the modular manager writes averages of the brokers, whatever changed, and of the
largest bundles at a fixed interval from its election. Nothing else is written by the leader alone:
reports are the brokers' own, and a new owner creates its ownership znode itself.

Source:
    Pulsar ``PulsarService#startLeaderElectionService`` (both tasks run on the leader only),
    ``ModularLoadManagerImpl#writeBundleDataOnZooKeeper``. The leader of the extensible manager
    writes into its channel what it decides, and nothing at an interval.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import Final

import pyarrow.compute as pc

from core.errors import OpsError
from core.pulsar.liveness import MISSED_INTERVALS, REPORT_INTERVAL
from core.pulsar.settings import EffectiveSettings
from core.pulsar.shedding import active_shedding_strategy
from core.pulsar.shedding.rounds import shed_rounds
from core.pulsar.view import LoadView
from core.snapshot import PulsarSnapshot
from core.units import datetime_to_ms

WRITE_INTERVAL: Final = "loadBalancerResourceQuotaUpdateIntervalMinutes"
SHED_INTERVAL: Final = "loadBalancerSheddingIntervalMinutes"
_ENABLED: Final = "loadBalancerEnabled"

_HITS: Final = 10
"""Rounds in which a strategy that counts hits decides: more than any of them waits for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderActivity:
    """The leader's activity in a snapshot.

    Attributes:
        leader: Broker id; ``None`` if none, or unknown.
        elected_at: When its znode was created, ms since the epoch; ``None`` if unknown.
        written_at: When a leader wrote averages last, ms since the epoch; ``None`` if unknown.
        age_s: Since the later of both, seconds: so long the leader has had nothing written.
        interval_s: Interval at which it writes, seconds.
        unexamined: Why this could not be judged; blank: it was.
    """

    leader: str | None
    elected_at: int | None
    written_at: int | None
    age_s: float | None
    interval_s: float
    unexamined: str

    @property
    def is_late(self) -> bool:
        """Whether the leader missed its writes."""
        return self.age_s is not None and self.age_s > MISSED_INTERVALS * self.interval_s

    @property
    def missed(self) -> int:
        """Writes that were due and did not happen."""
        return int(self.age_s // self.interval_s) if self.age_s is not None else 0


def leader_activity(snapshot: PulsarSnapshot, settings: EffectiveSettings) -> LeaderActivity:
    """Return the leader's activity.

    Args:
        snapshot: Any.
    """
    claims = snapshot.claims
    leads = claims.filter(pc.equal(claims["subject_kind"], "leader"))
    elected = pc.max(pc.coalesce(leads["created_at"], leads["modified_at"])).as_py()
    written = claims.filter(pc.equal(claims["source"], "written"))["modified_at"]
    written_at = pc.max(written).as_py()
    later = max((at for at in (elected, written_at) if at is not None), default=None)
    why = _unexamined(snapshot, settings, written_at)
    is_known = not why and later is not None
    return LeaderActivity(
        leader=snapshot.manifest.leader,
        elected_at=elected,
        written_at=written_at,
        age_s=max(_now_ms(snapshot, settings) - later, 0) / 1000 if is_known and later else None,
        interval_s=max(settings.number(WRITE_INTERVAL), 1.0) * 60,
        unexamined=why,
    )


def _unexamined(snapshot: PulsarSnapshot, settings: EffectiveSettings, written: int | None) -> str:
    manager = snapshot.manifest.load_manager
    if manager == "extensible":
        return "the leader of the extensible manager writes no averages"
    if snapshot.manifest.leader is None:
        return ""  # which is a finding of its own
    if not settings.flag(_ENABLED):
        return "the load balancer is switched off, so the leader writes nothing"
    if written is None:
        sources = {one.source for one in snapshot.manifest.tables.values()}
        place = "this dump" if "dump" in sources else "this snapshot"
        return f"{place} does not have the time of the leader's last averages"
    return ""


def _now_ms(snapshot: PulsarSnapshot, settings: EffectiveSettings) -> int:
    """Return the moment that ages count from: ZooKeeper's own where the snapshot is later.

    Brokers write their reports at an interval; where none did for long, the snapshot's time says
    nothing of the leader.
    """
    taken = datetime_to_ms(snapshot.manifest.taken_at)
    newest = pc.max(snapshot.claims["modified_at"]).as_py()
    late_ms = MISSED_INTERVALS * settings.number(REPORT_INTERVAL) * 60_000
    return newest if newest is not None and taken - newest > late_ms else taken


def rounds_missed(snapshot: PulsarSnapshot, settings: EffectiveSettings) -> int:
    """Return the min number of missed rounds that would have shed.

    Counted since an owner changed last, and since a leader wrote last: none of the rounds since
    then unloaded anything, or ran. 0 where the load manager would unload nothing on this snapshot,
    or the times are unknown.

    Args:
        snapshot: Any.
    """
    claims = snapshot.claims
    of_bundles = claims.filter(pc.equal(claims["subject_kind"], "bundle"))
    changed = pc.max(of_bundles["created_at"]).as_py()
    if changed is None or not _would_shed(snapshot, settings):
        return 0
    written = pc.max(claims.filter(pc.equal(claims["source"], "written"))["modified_at"]).as_py()
    idle_s = (_now_ms(snapshot, settings) - max(changed, written or 0)) / 1000
    return max(int(idle_s // (max(settings.number(SHED_INTERVAL), 1.0) * 60)), 0)


def _would_shed(snapshot: PulsarSnapshot, settings: EffectiveSettings) -> bool:
    view = LoadView.of(snapshot, settings)
    try:
        strategy = active_shedding_strategy(snapshot.manifest.load_manager, settings)
        rounds = shed_rounds(strategy, view, settings)
        return any(one.moves for one in islice(rounds, _HITS))
    except OpsError:
        return False
