"""Rules about which brokers are alive: one verdict, and one finding, a broker."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Final

from core.findings.finding import Cost, Finding, Severity
from core.findings.quantity import Quantity
from core.pulsar.defects import REGISTRATION_STAYS, defect_words
from core.pulsar.liveness import (
    DEAD,
    SILENT,
    STOPPED,
    SUSPECTED,
    UNREGISTERED,
    BrokerLiveness,
    addresses_of_none,
)
from core.pulsar.releases import Release
from core.pulsar.rules.context import HealthContext
from core.units import datetime_to_ms, format_age, ms_to_datetime, pluralize

_CODES: Final[dict[str, tuple[str, Severity, str]]] = {
    DEAD: ("broker_dead", "error", "Broker is dead"),
    SUSPECTED: ("broker_suspected_dead", "warning", "Broker is probably dead"),
    UNREGISTERED: ("broker_unregistered", "warning", "Broker is alive but not registered"),
    STOPPED: ("reports_stopped", "warning", "Broker stopped reporting"),
}
_NO_LEADER: Final = (
    " It is the leader: no bundle is placed until another broker becomes the leader."
)
_REGISTRY: Final = "/loadbalance/brokers"

CLOCK_TOLERANCE_S: Final = 60.0
"""How far a report may be dated after the snapshot, s: brokers report while it is taken."""


def brokers_not_alive(context: HealthContext) -> Iterator[Finding]:
    """Brokers that are dead, suspected, not registered, or no longer report."""
    is_extensible = context.snapshot.manifest.load_manager == "extensible"
    # findings with one hint become one cause: many leftovers of restarts are one thing to do
    dead = [row for row in context.liveness.rows if row.state == DEAD and row.is_registered]
    for row in context.liveness.rows:
        if row.state not in _CODES:
            continue
        code, severity, title = _CODES[row.state]
        is_known = row.report_age_s is not None and row.report_age_s > context.liveness.late_s
        yield Finding(
            code=code,
            title=title,
            severity=severity,
            subject_kind="broker",
            subject=row.broker,
            sentence=row.sentence,
            consequence=_consequence(row, is_extensible=is_extensible),
            measured=Quantity(row.report_age_s, "s") if is_known else None,
            limit=Quantity(context.liveness.late_s, "s") if is_known else None,
            since=None if row.since is None else ms_to_datetime(row.since),
            evidence=row.evidence(),
            hint=_hint(row, context.settings.target, dead, is_extensible=is_extensible),
            cost=_cost(row),
        )


def _consequence(row: BrokerLiveness, *, is_extensible: bool) -> str:
    topics = f" with {pluralize(row.topics, 'topic')}" if row.topics else ""
    owned = f"{pluralize(row.bundles, 'bundle')}{topics}"
    if row.state == UNREGISTERED and is_extensible:
        lost = f"It has {owned}: their lookups wait for another owner. " if row.bundles else ""
        return f"{lost}It receives no bundles, and its load is not counted."
    if row.state == UNREGISTERED:
        return (
            f"It serves {owned}, but receives no new ones, and its load is not counted."
            if row.bundles
            else "It receives no bundles, and its load is not counted."
        )
    if row.state == STOPPED:
        return "Its load is unknown to the leader; here it is the sum over its bundles."
    owns = f"It is the recorded owner of {owned}. " if row.bundles else ""
    leads = _NO_LEADER.lstrip() if row.leads else ""
    chosen = (
        "The leader may send bundles to it while it is registered. " if row.is_registered else ""
    )
    return f"{owns}{chosen}{leads}".rstrip()


def _hint(
    row: BrokerLiveness, release: Release, dead: Sequence[BrokerLiveness], *, is_extensible: bool
) -> str:
    path = f"{_REGISTRY}/{row.broker}"
    if row.state == UNREGISTERED and is_extensible:
        return (
            "Restart it, so that it registers again. If it is shutting down, check "
            "again in 2 minutes."
        )
    if row.state == UNREGISTERED:
        return (
            "Restart it, so that it registers again; never delete its ownership "
            "znodes: it serves those bundles. If it is shutting down, check again "
            "in 2 minutes."
        )
    if row.state == STOPPED:
        return "Search its log for failed writes to the metadata store; restart it if it hangs."
    if not row.is_registered:
        kept = " Znodes without a session must be deleted manually."
        return (
            f"Check the process of {row.broker}: if it is running, restart it, so "
            "that it registers." + (kept if row.session_id == 0 else "")
        )
    if row.state == SUSPECTED:
        return (
            f"Check the process of {row.broker}. If it hangs, restart it; if it "
            "died, its registration ends with its session"
            + ("." if row.session_id else f", or has to be deleted: {path}.")
        )
    return registration_fix(dead, release)


def registration_fix(dead: Sequence[BrokerLiveness], release: Release) -> str:
    """Return the fix for registrations of dead brokers.

    Args:
        dead: Those that are registered; at least one.
        release: Of the brokers, for the release that leaves none behind.
    """
    leads = any(row.leads for row in dead)
    also = " and the leader's znode, if it still has this broker," if leads else ""
    what = (
        f"its registration, {_REGISTRY}/{dead[0].broker},"
        if len(dead) == 1
        else f"the registration of each dead broker, {_REGISTRY}/<id>,"
    )
    return (
        f"Delete {what}{also} once its process is confirmed dead. Known defect, "
        "registrations that outlive their broker: "
        f"{defect_words(REGISTRATION_STAYS, release)}."
    )


def _cost(row: BrokerLiveness) -> Cost:
    """A broker that lives serves its bundles, registered or not."""
    if row.state not in (DEAD, SUSPECTED):
        return Cost()
    return Cost(bundles=row.bundles, topics=row.topics, connections=row.connections)


def reports_of_all(context: HealthContext) -> Iterator[Finding]:
    """No broker reported recently, or none answered: one finding about the cluster."""
    liveness, taken_at = context.liveness, context.snapshot.manifest.taken_at
    if liveness.all_old_s is not None:
        yield Finding(
            code="all_reports_old",
            title="All load reports are old",
            severity="warning",
            sentence=f"The newest load report is {format_age(liveness.all_old_s)} old; a broker "
            f"reports at least every {format_age(liveness.interval_s)}.",
            measured=Quantity(liveness.all_old_s, "s"),
            limit=Quantity(liveness.late_s, "s"),
            since=taken_at - timedelta(seconds=liveness.all_old_s),
            evidence={"age_s": liveness.all_old_s, "bound_s": liveness.late_s},
            hint="Compare the clocks, and check whether brokers can write to the metadata store.",
        )
    if liveness.silent_fleet:
        yield Finding(
            code="brokers_silent",
            title="No broker answers",
            severity="warning",
            sentence=f"None of the {len(liveness.silent)} registered brokers answers at its "
            "address.",
            evidence={"rows": dict(liveness.silent)},
            hint="If clients still work, check the network path from here to the brokers.",
        )


def reports_ahead(context: HealthContext) -> Iterator[Finding]:
    """Load reports dated after the snapshot: their brokers would look fresh for that long."""
    taken_at = context.snapshot.manifest.taken_at
    taken_ms = datetime_to_ms(taken_at)
    since_s = {
        row.broker: (row.reported_at - taken_ms) / 1000
        for row in context.liveness.rows
        if row.reported_at is not None
    }
    ahead_s = {broker: each for broker, each in since_s.items() if each > CLOCK_TOLERANCE_S}
    if not ahead_s:
        return
    worst = max(ahead_s, key=lambda broker: ahead_s[broker])
    others = f" and of {pluralize(len(ahead_s) - 1, 'other broker')}" if len(ahead_s) > 1 else ""
    yield Finding(
        code="reports_ahead",
        title="Load reports are dated in the future",
        severity="warning",
        subject_kind="broker" if len(ahead_s) == 1 else "cluster",
        subject=worst if len(ahead_s) == 1 else "",
        sentence=f"The load report of {worst}{others} is dated up to "
        f"{format_age(ahead_s[worst])} after the snapshot ({taken_at:%H:%M:%S} UTC): a clock is "
        "wrong. Until that time, the age of reports cannot show that a broker stopped.",
        measured=Quantity(ahead_s[worst], "s"),
        limit=Quantity(CLOCK_TOLERANCE_S, "s"),
        evidence={"rows": ahead_s},
        hint="Synchronize the clocks of brokers, ZooKeeper servers and the machine that captures.",
    )


def missing_reports(context: HealthContext) -> Iterator[Finding]:
    """Living brokers without a load report."""
    for row in context.liveness.rows:
        if not row.is_registered or row.reported_at is not None or row.state in _CODES:
            continue
        yield Finding(
            code="no_report",
            title="Load report is missing",
            severity="unknown",
            subject_kind="broker",
            subject=row.broker,
            sentence=f"{row.broker} is registered, but its load report could not be read.",
            hint="Check the problems of the snapshot; means exclude its load.",
        )


def unjudged_brokers(context: HealthContext) -> Iterator[Finding]:
    """Brokers that the snapshot does not suffice to judge."""
    for row in context.liveness.rows:
        if row.state != "unknown":
            continue
        yield Finding(
            code="liveness_unknown",
            title="Broker liveness is unknown",
            severity="unknown",
            subject_kind="broker",
            subject=row.broker,
            sentence=f"Whether {row.broker} is alive is unknown: {row.why}.",
            evidence=row.evidence(),
            hint="Capture the cluster with its ZooKeeper: sessions are needed.",
        )


def silent_addresses(context: HealthContext) -> Iterator[Finding]:
    """Configured addresses of no registered broker that gave no answer.

    Once a registration is gone, only the configuration still knows that there should be a broker.
    """
    known = context.liveness.by_broker
    for problem in addresses_of_none(context.snapshot):
        if problem.place.rstrip("/").partition("://")[2] in known:
            continue
        yield Finding(
            code="address_silent",
            title="Configured address does not answer",
            severity="warning",
            sentence=f"{problem.place} is configured, but no broker is registered there, and "
            f"it {SILENT[problem.code]}: that broker is down, or the address is "
            "outdated.",
            evidence={"place": problem.place, "problem": problem.code},
            hint="Start the broker, or remove the address from admin_urls.",
        )
