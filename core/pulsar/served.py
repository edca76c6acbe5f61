"""Whether a broker serves a bundle; if none does: since when, why, what a lookup does, what to do.

A fix never lets two brokers own a bundle: the ownership znode of a broker that may be alive is
never to be deleted.

Source:
    Pulsar ``NamespaceService#findBrokerServiceUrl`` (a disabled ownership refuses lookups, any
    other one is the answer, whether its broker is registered or not) and
    ``ServiceUnitStateChannelImpl#getOwnerAsync`` (the extensible manager's states).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from core.pulsar import owners
from core.pulsar.defects import (
    ASSIGNING_STAYS,
    HEARTBEAT_MISPLACED,
    UNLOAD_HANGS,
    UNLOAD_STOPS,
    defect_note,
)
from core.pulsar.liveness import DEAD, BrokerLiveness
from core.pulsar.owners import Ownership
from core.pulsar.settings import EffectiveSettings
from core.snapshot import PulsarSnapshot
from core.units import datetime_to_ms, format_age

IN_FLIGHT: Final = "loadBalancerInFlightServiceUnitStateWaitingTimeInMillis"
MONITOR: Final = "loadBalancerServiceUnitStateMonitorIntervalInSeconds"
_OWNERSHIP: Final = "/namespace/"
_REGISTRATION: Final = "/loadbalance/brokers/"
_MS_PER_S: Final = 1_000.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """Whether a broker serves one bundle.

    Attributes:
        state: One of :data:`core.pulsar.owners.STATES`.
        is_served: ``None``: unknown.
        since: Since when it is not, ms since the epoch; ``None``: unknown, or it is served.
        age_s: That in seconds before the snapshot.
        why_not: A clause; blank where it is served.
        next_lookup: What the next lookup of a topic in it does, a sentence; blank where it is
            served.
        fix: What to do, a sentence or two; blank where there is nothing to do.
    """

    state: str
    is_served: bool | None
    since: int | None
    age_s: float | None
    why_not: str
    next_lookup: str
    fix: str

    @property
    def sentence(self) -> str:
        """Why no broker serves it, and since when; blank where one does."""
        if not self.why_not:
            return ""
        age = "" if self.age_s is None else f" for {format_age(self.age_s)}"
        lead = "Not served" if self.is_served is False else "Unclear whether it is served"
        return f"{lead}{age}: {self.why_not}."


def services_of(
    snapshot: PulsarSnapshot, settings: EffectiveSettings, found: Ownership
) -> Services:
    """Return what explains the bundles of a snapshot, one by one."""
    return Services(
        found=found,
        settings=settings,
        leader=snapshot.manifest.leader or "the leader",
        is_extensible=snapshot.manifest.load_manager == "extensible",
        taken_ms=datetime_to_ms(snapshot.manifest.taken_at),
        has_brokers=snapshot.brokers.num_rows > 0,
    )


@dataclass(frozen=True, eq=False, kw_only=True)
class Services:
    """Explains bundles.

    Attributes:
        found: Who owns what.
        settings: Effective ones: limits of waiting, and the release.
        leader: Broker id, or words for it.
        is_extensible: Whether the extensible manager assigns bundles.
        taken_ms: When the snapshot was taken, ms since the epoch.
        has_brokers: Whether a broker is registered.
    """

    found: Ownership
    settings: EffectiveSettings
    leader: str
    is_extensible: bool
    taken_ms: int
    has_brokers: bool

    def of(self, row: Mapping[str, Any]) -> Service:
        """Return whether a bundle is served.

        Args:
            row: Of :data:`core.pulsar.owners.OWNED`.
        """
        since = row["unserved_since"]
        why, lookup, fix = self._words(row)
        return Service(
            state=row["state"],
            is_served=row["is_served"],
            since=since,
            age_s=None if since is None else max(self.taken_ms - since, 0) / _MS_PER_S,
            why_not=why,
            next_lookup=lookup,
            fix=fix,
        )

    def _words(self, row: Mapping[str, Any]) -> tuple[str, str, str]:
        """Return why it is not served, what a lookup does, and what to do."""
        state, owner = row["state"], row["owner"]
        if state == owners.REFUSED:
            return self._refused(row)
        if state in (owners.STUCK, owners.CHANGING):
            return self._in_transfer(row)
        if state == owners.ORPHANED:
            return self._orphaned(row)
        if state == owners.MISBOUND:
            return "", "", self._misbound(row)
        if state in (owners.UNLISTED, owners.SUSPECTED):
            verdict = self._verdict(owner)
            restart = (
                f"Restart {owner} so that it registers; do not delete its znodes: it is alive."
            )
            if state == owners.UNLISTED:
                return "", "", restart
            why = f"its owner {verdict.sentence.rstrip('.')}" if verdict else ""
            return why, f"Lookups send clients to {owner}.", ""
        if state in (owners.OWNERLESS, owners.UNUSED):
            lookup = "The next lookup assigns it." if self.has_brokers else _NO_BROKER
            return "no broker owns it", lookup, ""
        if row["is_served"] is None:
            return _UNCLEAR[state], "", ""
        return "", "", ""

    def _verdict(self, broker: str) -> BrokerLiveness | None:
        return self.found.liveness.by_broker.get(broker)

    def _refused(self, row: Mapping[str, Any]) -> tuple[str, str, str]:
        bundle, owner = row["bundle"], row["owner"]
        if row["unit_state"] in ("Deleted", "Disabled"):
            return (
                f"its state in the channel is {row['unit_state']}, and its namespace lists it",
                f"Every lookup is refused: IllegalArgumentException, {bundle} is deleted.",
                f"If it stays so for an hour, restart {self.leader}: the next leader removes it.",
            )
        why = f"{owner} disabled it for an unload or a split that did not end"
        lookup = (
            "Every lookup is refused: IllegalStateException, Namespace bundle "
            f"{bundle} is being unloaded."
        )
        verdict = self._verdict(owner)
        if verdict is not None and verdict.state == DEAD and row["session_id"] == 0:
            return why, lookup, f"Delete {_OWNERSHIP}{bundle}: {verdict.sentence}"
        fix = f"Restart {owner}: the znode goes with its session, and the next lookup assigns it."
        if verdict is not None and verdict.state != DEAD:
            fix += " Do not delete the znode while its broker is alive."
        return why, lookup, f"{fix} {defect_note(UNLOAD_STOPS, self.settings.target)}".rstrip()

    def _in_transfer(self, row: Mapping[str, Any]) -> tuple[str, str, str]:
        state = row["unit_state"]
        wait_s = self.settings.number(IN_FLIGHT) / _MS_PER_S
        if state is None or state in ("Deleted", "Disabled"):
            return (
                f"{row['owner'] or 'its owner'} unloads or splits it",
                "Lookups are refused until the unload ends, as a rule within a minute.",
                "",
            )
        if state == "Splitting":
            why, lookup = "", "Lookups find its owner while it is being split."
        else:
            why = f"it is in {state} on its way to {row['owner'] or 'another broker'}"
            lookup = f"Lookups wait up to {wait_s:g} s for the end of the transfer, then fail."
        if row["state"] == owners.CHANGING:
            return why, lookup, ""
        repaired_s = wait_s + self.settings.number(MONITOR)
        fix = (
            f"{self.leader} should repair this within {repaired_s:g} s of the change; if it does "
            f"not, restart {self.leader}: the next leader takes the bundle over."
        )
        defect = {"Releasing": UNLOAD_HANGS, "Assigning": ASSIGNING_STAYS}.get(state)
        note = defect_note(defect, self.settings.target) if defect else ""
        return why, lookup, f"{fix[0].upper()}{fix[1:]} {note}".rstrip()

    def _orphaned(self, row: Mapping[str, Any]) -> tuple[str, str, str]:
        bundle, owner, session = row["bundle"], row["owner"], row["session_id"]
        verdict = self._verdict(owner)
        is_dead = verdict is not None and verdict.state == DEAD
        is_registered = verdict is not None and verdict.is_registered
        why = f"its owner {verdict.sentence.rstrip('.')}" if verdict else f"{owner} is gone"
        lookup = f"Lookups send clients to {owner}, where no broker answers."
        if self.is_extensible:
            every_s = self.settings.number(MONITOR)
            if is_registered:
                fix = f"Delete {_REGISTRATION}{owner}: the leader then assigns its bundles."
                return why, lookup, fix if is_dead else f"Restart {owner}."
            wait_s = self.settings.number(IN_FLIGHT) / _MS_PER_S
            return (
                why,
                f"Lookups wait up to {wait_s:g} s for another owner, then fail.",
                f"{self.leader} assigns such bundles every {every_s:g} s; if it does not, restart "
                f"{self.leader}: the next leader takes them over.",
            )
        if is_dead and session == 0:
            return (
                why,
                lookup,
                f"Delete {_OWNERSHIP}{bundle}: no session ends it, its broker is dead.",
            )
        return (
            why,
            lookup,
            f"The znode goes with the session of {owner} (zooKeeperSessionTimeoutMillis, 30 s). If "
            f"it stays, the process is alive: restart {owner}; do not delete the znode.",
        )

    def _misbound(self, row: Mapping[str, Any]) -> str:
        named = row["namespace"].rpartition("/")[2]
        note = defect_note(HEARTBEAT_MISPLACED, self.settings.target)
        return (
            f"Unload {row['bundle']} from {row['owner']}, then restart {named}: it takes its own "
            f"bundle when it starts. {note if self.is_extensible else ''}".rstrip()
        )


_NO_BROKER: Final = "No broker is registered: lookups fail."
_UNCLEAR: Final = {
    owners.UNKNOWN: "who owns it could not be read",
    owners.DOUBLE: "two brokers say that they have it",
    owners.STALE: "its znode lives with another session than its owner's own",
}
