"""Rules about who owns which bundle, and whether ownership and reports agree."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from core.findings.finding import FREE, Cost, Finding, Severity
from core.findings.quantity import Quantity
from core.pulsar.owners import (
    DOUBLE,
    MISBOUND,
    ORPHANED,
    PERMANENT,
    REFUSED,
    STALE,
    STUCK,
    Ownership,
    meaning_of,
    ownership_of,
    worst_first,
)
from core.pulsar.rules.bundle_facts import RowSelection
from core.pulsar.rules.context import HealthContext
from core.pulsar.served import Services, services_of
from core.units import format_age, ms_to_datetime, pluralize


def unowned_bundles(context: HealthContext) -> Iterator[Finding]:
    """Bundles without an owner: bad when they carry traffic, normal when they have no clients."""
    found = context.bundles.unowned()
    if found.unclear.count:
        yield _counted(
            found.unclear,
            code="owner_unknown",
            title="Bundle owners are unknown",
            severity="unknown",
            sentence=(
                f"The owner of {found.unclear.count} of {context.bundles.count} bundles is unknown."
            ),
            hint="Their ownership could not be read; check the problems of the snapshot.",
        )
    if found.busy.count:
        yield _counted(
            found.busy,
            code="unowned_with_traffic",
            title="Bundles with traffic have no owner",
            severity="warning",
            sentence=(
                "The last reports show traffic on "
                f"{pluralize(found.busy.count, 'bundle')} without an owner: their "
                "clients are waiting or moving."
            ),
            hint="Check again in a minute; if this persists, no broker is eligible for them.",
        )
    if found.quiet.count:
        yield _counted(
            found.quiet,
            code="unowned_bundles",
            title="Bundles have no owner",
            severity="info",
            sentence=(
                f"Without an owner and without clients: {pluralize(found.quiet.count, 'bundle')}."
            ),
            hint="The first lookup of one of their topics assigns them.",
        )


def twice_reported(context: HealthContext) -> Iterator[Finding]:
    """Inconsistencies of the capture, such as two brokers that report the same bundle."""
    for problem in context.snapshot.manifest.problems:
        if problem.code == "inconsistent":
            yield Finding(
                code="inconsistent",
                title="Reports contradict each other",
                severity="info" if problem.severity == "info" else "warning",
                subject_kind="cluster",
                subject=problem.place,
                sentence=problem.what,
                evidence={"place": problem.place, "done": problem.done},
                hint=problem.done or "Check again after the next load report.",
            )


class _Kind(NamedTuple):
    """The finding of one state of :data:`core.pulsar.owners.STATES`.

    Attributes:
        words: Why several bundles are not served; or what they are, where they may be.
    """

    code: str
    severity: Severity
    title: str
    words: str


_KINDS: Final = {
    REFUSED: _Kind(
        "refused_bundles",
        "error",
        "Lookups of bundles are refused",
        "their owner disabled them for an unload or a split that did not finish",
    ),
    ORPHANED: _Kind(
        "orphaned_bundles",
        "error",
        "Bundles are owned by a missing broker",
        "their owner is dead or no longer registered",
    ),
    DOUBLE: _Kind(
        "double_ownership", "error", "Bundles are claimed by two brokers", "claimed by two brokers"
    ),
    STUCK: _Kind(
        "stuck_ownership",
        "error",
        "Bundles are stuck in transfer",
        "they are in transfer between two brokers",
    ),
    PERMANENT: _Kind(
        "permanent_ownership",
        "error",
        "Ownership is not ephemeral",
        "owned with a non-ephemeral znode",
    ),
    STALE: _Kind(
        "stale_sessions",
        "warning",
        "Bundles have an invalid session",
        "owned with a session that is not their owner's current one",
    ),
    MISBOUND: _Kind(
        "bound_elsewhere",
        "warning",
        "Heartbeat bundle is on another broker",
        "bound to a broker other than their owner",
    ),
}
"""What :mod:`core.pulsar.rules.liveness` says of a broker is not said of its bundles again."""


def unserved_bundles(context: HealthContext) -> Iterator[Finding]:
    """Bundles that no broker serves, or that are owned as they should not be."""
    snapshot = context.bundles.with_entries()
    found = ownership_of(snapshot, context.settings)
    services = services_of(snapshot, context.settings, found)
    # elsewhere, heartbeat and SLA bundles alone are judged: a count of them is of no other state
    states = tuple(_KINDS) if context.elsewhere is None else (MISBOUND,)
    for state in states:
        if found.counts.get(state):
            yield _of_state(found, services, state, _KINDS[state])


def _of_state(found: Ownership, services: Services, state: str, kind: _Kind) -> Finding:
    rows = worst_first(found.bundles, (state,))
    first = rows.slice(0, 1).to_pylist()[0]
    service = services.of(first)
    since = pc.min(rows["since"]).as_py()
    count = rows.num_rows
    up_to = "" if count == 1 else "up to "
    age = "" if since is None else f" for {up_to}{format_age((services.taken_ms - since) / 1000)}"
    what = service.why_not or _of_one(first, state)
    if count == 1:
        lead = "is not served" if service.is_served is False else f"is {state}"
        sentence = f"{first['bundle']} {lead}{age}: {what}."
    else:
        lead = f"not served{age}: " if state in _UNSERVED else ""
        sentence = f"{count:,} bundles are {lead}{kind.words}. The first is {first['bundle']}."
    owners = pc.unique(rows["owner"].drop_null()).to_pylist()
    fix = services.fix_of(rows)
    # when a refused bundle was disabled decides whether an unload is under way right now
    is_sure = state != REFUSED or since is not None
    again = "" if is_sure else "An unload may be in progress: check again in a minute. "
    return replace(
        _counted(
            RowSelection(rows.slice(0, _MAX_ROWS), count),
            code=kind.code,
            title=kind.title,
            severity=kind.severity if is_sure else "warning",
            sentence=sentence,
            hint=again + (fix or f"{meaning_of(state)} Check again in a minute."),
        ),
        consequence=service.next_lookup,
        since=None if since is None else ms_to_datetime(since),
        servers=tuple(owners[:_MAX_SERVERS]),
        cost=_cost(rows) if state in _UNSERVED else FREE,
    )


_MAX_ROWS: Final = 20
_MAX_SERVERS: Final = 3
_UNSERVED: Final = (REFUSED, ORPHANED, STUCK)


def _cost(rows: pa.Table) -> Cost:
    unserved = rows.filter(pc.invert(rows["is_served"]))
    return Cost(
        bundles=unserved.num_rows,
        topics=pc.sum(unserved["topic_count"]).as_py() or 0,
        connections=pc.sum(unserved["clients"]).as_py() or 0,
    )


def _of_one(row: dict[str, Any], state: str) -> str:
    more = f", also claimed by {row['claimant']}" if state == DOUBLE and row["claimant"] else ""
    return f"its recorded owner is {row['owner']}{more}"


def reported_elsewhere(context: HealthContext) -> Iterator[Finding]:
    """Bundles whose numbers come from a broker that is no longer the owner: they moved just now."""
    moved = context.bundles.moved()
    if moved.count:
        yield _counted(
            moved,
            code="moved_since_report",
            title="Bundles moved since the last report",
            severity="info",
            sentence=(
                f"Since the last load reports {pluralize(moved.count, 'bundle')} "
                "changed owner; the brokers' loads still include the traffic at the "
                "old owner."
            ),
            hint="The next load reports correct the numbers.",
        )


def _counted(
    bundles: RowSelection, *, code: str, title: str, severity: Severity, sentence: str, hint: str
) -> Finding:
    shown = bundles.rows.to_pylist()
    return Finding(
        code=code,
        title=title,
        measured=Quantity(bundles.count, "bundles"),
        limit=Quantity(0),
        severity=severity,
        subject_kind="bundle" if bundles.count == 1 else "cluster",
        subject=shown[0]["bundle"] if bundles.count == 1 else "",
        sentence=sentence,
        evidence={"count": bundles.count, "rows": shown},
        hint=hint,
    )
