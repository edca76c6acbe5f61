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
from typing import Any, Final, NamedTuple, TypedDict

import pyarrow as pa
import pyarrow.compute as pc

from core.pulsar import owners
from core.pulsar.defects import (
    ASSIGNING_STAYS,
    HEARTBEAT_MISPLACED,
    UNLOAD_HANGS,
    UNLOAD_STOPS,
    defect_note,
)
from core.pulsar.liveness import DEAD, UNKNOWN, UNREGISTERED, BrokerLiveness, liveness_of
from core.pulsar.owners import Ownership, ownership_of
from core.pulsar.settings import EffectiveSettings
from core.snapshot import PulsarSnapshot
from core.units import datetime_to_ms, format_age, pluralize

IN_FLIGHT: Final = "loadBalancerInFlightServiceUnitStateWaitingTimeInMillis"
MONITOR: Final = "loadBalancerServiceUnitStateMonitorIntervalInSeconds"
_OWNERSHIP: Final = "/namespace/"
_MAX_NAMED: Final = 3
REGISTRATIONS: Final = "/loadbalance/brokers/"
_MS_PER_S: Final = 1_000.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """Whether a broker serves one bundle.

    Attributes:
        state: One of :data:`core.pulsar.owners.STATES`.
        is_served: ``None`` if unknown.
        since: Since when it is not, ms since the epoch; ``None`` if unknown, or it is served.
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
    def is_problem(self) -> bool:
        """Whether its clients wait, or will."""
        return self.state in owners.WRONG

    @property
    def sentence(self) -> str:
        """Reason no broker serves it, and since when; "" if one does."""
        if not self.why_not:
            return ""
        age = "" if self.age_s is None else f" for {format_age(self.age_s)}"
        lead = "Not served" if self.is_served is False else "Unclear whether it is served"
        return f"{lead}{age}: {self.why_not}."


class ServiceJson(TypedDict):
    """The JSON keys of a bundle's service; null: unknown, or nothing to report."""

    is_served: bool | None
    since: int | None
    why_not: str | None
    next_lookup: str | None
    fix: str | None


def service_json(service: Service | None) -> ServiceJson:
    """Return the JSON keys of a bundle's service; ``None``: unknown."""
    return {
        "is_served": None if service is None else service.is_served,
        "since": None if service is None else service.since,
        "why_not": (service.why_not or None) if service else None,
        "next_lookup": (service.next_lookup or None) if service else None,
        "fix": (service.fix or None) if service else None,
    }


def service_of(
    snapshot: PulsarSnapshot, settings: EffectiveSettings, bundle: str
) -> Service | None:
    """Return whether a bundle is served, or ``None`` if the snapshot does not have it."""
    found = ownership_of(snapshot, settings)
    row = pc.index(found.bundles["bundle"], bundle).as_py()
    if row < 0:
        return None
    return services_of(snapshot, settings, found).of(found.bundles.slice(row, 1).to_pylist()[0])


def unregistered_words(snapshot: PulsarSnapshot, settings: EffectiveSettings, broker: str) -> str:
    """Return the known facts about an unregistered broker, or ""."""
    verdict = liveness_of(snapshot, settings).by_broker.get(broker)
    units = snapshot.unit_states
    in_transfer = pc.is_in(units["state"], value_set=pa.array(owners.IN_TRANSFER))
    moving = units.filter(in_transfer)
    coming = int(pc.sum(pc.equal(moving["broker"], broker)).as_py() or 0)
    leaving = int(pc.sum(pc.equal(moving["source_broker"], broker)).as_py() or 0)
    if verdict is None and not coming and not leaving:
        return ""
    parts = [
        f"{broker} is not registered"
        if verdict is None or verdict.state == UNKNOWN
        else verdict.sentence.rstrip(".")
    ]
    if verdict is not None and verdict.bundles:
        clients = f" with {pluralize(verdict.connections, 'connection')}"
        parts.append(
            "it is the recorded owner of "
            f"{pluralize(verdict.bundles, 'bundle')}{clients if verdict.connections else ''}"
        )
    parts += [f"{pluralize(coming, 'bundle')} in transfer to it"] if coming else []
    parts += [f"{pluralize(leaving, 'bundle')} in transfer from it"] if leaving else []
    parts += ["it is the recorded leader"] if verdict is not None and verdict.leads else []
    return f"{'; '.join(parts)}. Its usage is unknown."


def services_of(
    snapshot: PulsarSnapshot, settings: EffectiveSettings, found: Ownership
) -> Services:
    """Return the explanations of a snapshot's bundles, one by one."""
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
        since = row["since"]
        words = self._words(row)
        return Service(
            state=row["state"],
            is_served=row["is_served"],
            since=since,
            age_s=None if since is None else max(self.taken_ms - since, 0) / _MS_PER_S,
            why_not=words.why,
            next_lookup=words.lookup,
            fix=words.fix,
        )

    def fix_of(self, rows: pa.Table) -> str:
        """Return the fix of bundles in one state: for the first, with the others listed.

        Args:
            rows: Of :data:`core.pulsar.owners.OWNED`, the worst first; at least one.
        """
        first = rows.slice(0, 1).to_pylist()[0]
        fix = self.of(first).fix
        owners = pc.unique(rows["owner"].drop_null()).to_pylist()
        others = [name for name in owners if name != first["owner"]]
        more = f" and {len(others) - _MAX_NAMED:,} more" if others[_MAX_NAMED:] else ""
        if fix and others:
            return f"{fix} Same for {', '.join(others[:_MAX_NAMED])}{more}."
        if rows.num_rows > 1 and first["bundle"] in fix:
            return f"{fix} Same for its other bundles."
        return fix

    def _words(self, row: Mapping[str, Any]) -> _ServiceText:
        explain = {
            owners.REFUSED: self._refused,
            owners.STUCK: self._in_transfer,
            owners.CHANGING: self._in_transfer,
            owners.ORPHANED: self._orphaned,
            owners.MISBOUND: self._misbound,
            owners.UNLISTED: self._unlisted,
            owners.SUSPECTED: self._suspected,
            owners.OWNERLESS: self._unassigned,
            owners.UNUSED: self._unassigned,
        }.get(row["state"])
        return _ServiceText(why=_UNCLEAR.get(row["state"], "")) if explain is None else explain(row)

    def _unlisted(self, row: Mapping[str, Any]) -> _ServiceText:
        owner = row["owner"]
        return _ServiceText(
            fix=f"Restart {owner} so that it registers; do not delete its znodes: it is alive."
        )

    def _suspected(self, row: Mapping[str, Any]) -> _ServiceText:
        return _ServiceText(
            self._of_owner(row["owner"]), f"Lookups send clients to {row['owner']}."
        )

    def _unassigned(self, row: Mapping[str, Any]) -> _ServiceText:
        del row
        lookup = "The next lookup assigns it." if self.has_brokers else _NO_BROKER
        return _ServiceText("no broker owns it", lookup)

    def _verdict(self, broker: str) -> BrokerLiveness | None:
        return self.found.liveness.by_broker.get(broker)

    def _of_owner(self, owner: str) -> str:
        verdict = self._verdict(owner)
        return (
            f"its owner {verdict.sentence.rstrip('.')}" if verdict else f"{owner} no longer exists"
        )

    def _refused(self, row: Mapping[str, Any]) -> _ServiceText:
        bundle, owner = row["bundle"], row["owner"]
        if row["unit_state"] in _ENDED:
            return _ServiceText(
                f"its state in the channel is {row['unit_state']}, but its namespace lists it",
                f"Every lookup is refused: IllegalArgumentException, {bundle} is deleted.",
                f"If this persists for an hour, restart {self.leader}: the next leader removes it.",
            )
        verdict = self._verdict(owner)
        is_dead = verdict is not None and verdict.state == DEAD
        fix = f"Restart {owner}: the znode ends with its session, and the next lookup assigns it."
        if is_dead and row["session_id"] == 0:
            fix = (
                f"The znode has no session: delete {_OWNERSHIP}{bundle} once the "
                f"process of {owner} is confirmed dead."
            )
        elif not is_dead:
            fix += " Do not delete the znode while its broker is alive."
        return _ServiceText(
            f"{owner} disabled it for an unload or a split that did not finish",
            "Every lookup is refused: IllegalStateException, Namespace bundle "
            f"{bundle} is being unloaded.",
            f"{fix} {defect_note(UNLOAD_STOPS, self.settings.target)}".rstrip(),
        )

    def _in_transfer(self, row: Mapping[str, Any]) -> _ServiceText:
        state = row["unit_state"]
        if state is None or state in _ENDED:
            return _ServiceText(
                f"{row['owner'] or 'its owner'} unloads or splits it",
                "Lookups are refused until that is done, usually within a minute.",
            )
        wait_s = self.settings.number(IN_FLIGHT) / _MS_PER_S
        why = f"it is in {state}"
        lookup = f"Lookups wait up to {wait_s:g} s for the end of the transfer, then fail."
        if state == "Splitting":
            why, lookup = "", ""
        if row["state"] == owners.CHANGING:
            return _ServiceText(why, lookup)
        repaired_s = wait_s + self.settings.number(MONITOR)
        defect = {"Releasing": UNLOAD_HANGS, "Assigning": ASSIGNING_STAYS}.get(state)
        note = defect_note(defect, self.settings.target) if defect else ""
        fix = (
            f"The leader repairs this within {repaired_s:g} s of the change; if it "
            f"does not, restart {self.leader}: the next leader repairs the bundle."
        )
        return _ServiceText(why, lookup, f"{fix} {note}".rstrip())

    def _orphaned(self, row: Mapping[str, Any]) -> _ServiceText:
        owner = row["owner"]
        verdict = self._verdict(owner)
        is_dead = verdict is not None and verdict.state == DEAD
        lookup = f"Lookups send clients to {owner}, where no broker answers."
        fix = (
            f"The znode ends with the session of {owner} "
            "(zooKeeperSessionTimeoutMillis, 30 s). If it remains, the process is "
            f"alive: restart {owner}; do not delete the znode."
        )
        if self.is_extensible and verdict is not None and verdict.is_registered:
            also = " and the leader's znode, if it still has this broker," if verdict.leads else ""
            fix = (
                f"Delete {REGISTRATIONS}{owner}{also} once its process is confirmed "
                f"dead: the {'next leader' if verdict.leads else 'leader then'} assigns "
                "its bundles."
            )
        elif self.is_extensible and verdict is not None and verdict.state == UNREGISTERED:
            wait_s = self.settings.number(IN_FLIGHT) / _MS_PER_S
            lookup = f"Lookups wait up to {wait_s:g} s for another owner, then fail."
            every_s = self.settings.number(MONITOR)
            fix = (
                f"Restart {owner} so that it registers: it is alive. Until then the "
                f"leader reassigns its bundles every {every_s:g} s."
            )
        elif self.is_extensible:
            wait_s = self.settings.number(IN_FLIGHT) / _MS_PER_S
            lookup = f"Lookups wait up to {wait_s:g} s for another owner, then fail."
            fix = (
                "The leader assigns such bundles every "
                f"{self.settings.number(MONITOR):g} s; if it does not, restart "
                f"{self.leader}: the next leader assigns them."
            )
        elif is_dead and row["session_id"] == 0:
            fix = (
                f"Delete {_OWNERSHIP}{row['bundle']} once the process of {owner} is "
                "confirmed dead: the znode has no session."
            )
        elif row["session_id"] is None:
            fix = (
                f"The znode ends with the session of {owner}. If its ephemeralOwner is "
                f"0, it has no session: delete {_OWNERSHIP}{row['bundle']} once the "
                f"process of {owner} is confirmed dead."
            )
        return _ServiceText(self._of_owner(owner), lookup, fix)

    def _misbound(self, row: Mapping[str, Any]) -> _ServiceText:
        named = row["namespace"].rpartition("/")[2]
        note = defect_note(HEARTBEAT_MISPLACED, self.settings.target) if self.is_extensible else ""
        fix = (
            f"Unload {row['bundle']} from {row['owner']}, then restart {named}: it "
            "acquires its own bundle when it starts."
        )
        return _ServiceText(fix=f"{fix} {note}".rstrip())


class _ServiceText(NamedTuple):
    """Reason a bundle is not served, effect on lookups, and fix."""

    why: str = ""
    lookup: str = ""
    fix: str = ""


_ENDED: Final = ("Deleted", "Disabled")
_NO_BROKER: Final = "No broker is registered: lookups fail."
_UNCLEAR: Final = {
    owners.UNKNOWN: "its owner could not be read",
    owners.DOUBLE: "two brokers claim it",
    owners.STALE: "its znode belongs to a session that is not its owner's current one",
}
