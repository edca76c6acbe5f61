"""Rules about who owns which bundle, and whether ownership and reports agree."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pyarrow as pa

from core.findings.finding import Finding, Severity
from core.findings.quantity import Quantity
from core.pulsar.owners import (
    DOUBLE,
    ORPHANED,
    PERMANENT,
    STALE,
    STUCK,
    meaning_of,
    ownership_of,
    worst_first,
)
from core.pulsar.rules.bundle_facts import Picked
from core.pulsar.rules.context import HealthContext
from core.units import pluralize


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
            hint="Ownership could not be read for them; look at the problems of the reading.",
        )
    if found.busy.count:
        yield _counted(
            found.busy,
            code="unowned_with_traffic",
            title="Bundles with traffic have no owner",
            severity="warning",
            sentence=(
                f"The last reports show traffic on {pluralize(found.busy.count, 'bundle')} "
                "without an owner: the clients are waiting or moving."
            ),
            hint="Look again in a minute; if it stays, no broker is allowed to take them.",
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
            hint="The first lookup of one of their topics will assign them.",
        )


def twice_reported(context: HealthContext) -> Iterator[Finding]:
    """What the reading found inconsistent, such as two brokers that report the same bundle."""
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
                hint=problem.done or "Look again after the next load report.",
            )


_SEVERITY: Final[dict[str, tuple[str, Severity, str, str]]] = {
    ORPHANED: (
        "orphaned_bundles",
        "error",
        "Bundles are owned by a missing broker",
        "have an owner that is not registered any more",
    ),
    DOUBLE: (
        "double_ownership",
        "error",
        "Bundles are claimed by two brokers",
        "are claimed by two brokers",
    ),
    STUCK: (
        "stuck_ownership",
        "error",
        "Bundles are stuck in transfer",
        "are in transfer between two brokers for too long",
    ),
    PERMANENT: (
        "permanent_ownership",
        "error",
        "Ownership is not ephemeral",
        "are held by a znode that is no ephemeral",
    ),
    STALE: (
        "stale_sessions",
        "warning",
        "Bundles are held by an old session",
        "are held by a session that is not their owner's own",
    ),
}


def conflicting_ownership(context: HealthContext) -> Iterator[Finding]:
    """Bundles whose owner is gone, is two, or holds them with another session than its own."""
    if context.elsewhere is not None:
        return  # only a table in memory has sessions
    found = ownership_of(context.snapshot, context.settings)
    for state, (code, severity, title, words) in _SEVERITY.items():
        count = found.counts.get(state, 0)
        if not count:
            continue
        rows = worst_first(found.bundles, (state,)).slice(0, _MAX_ROWS)
        yield _counted(
            Picked(rows, count),
            code=code,
            title=title,
            severity=severity,
            sentence=f"{pluralize(count, 'bundle')} {words}."
            if count > 1
            else _of_one(rows, state),
            hint=(
                f"{meaning_of(state)} The page of ownership lists them; look again after the "
                "session time-out."
            ),
        )


_MAX_ROWS: Final = 20


def _of_one(rows: pa.Table, state: str) -> str:
    row = rows.to_pylist()[0]
    more = f", also claimed by {row['claimant']}" if state == DOUBLE and row["claimant"] else ""
    return f"{row['bundle']} is {state}: its owner on record is {row['owner']}{more}."


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
                f"Since the last load reports {pluralize(moved.count, 'bundle')} changed owner; "
                "the brokers' loads still count the traffic at the old one."
            ),
            hint="The next load reports correct the numbers.",
        )


def _counted(
    bundles: Picked, *, code: str, title: str, severity: Severity, sentence: str, hint: str
) -> Finding:
    shown = bundles.rows.to_pylist()
    return Finding(
        code=code,
        title=title,
        measured=Quantity(bundles.count, "bundle" if bundles.count == 1 else "bundles"),
        limit=Quantity(0),
        severity=severity,
        subject_kind="bundle" if bundles.count == 1 else "cluster",
        subject=shown[0]["bundle"] if bundles.count == 1 else "",
        sentence=sentence,
        evidence={"count": bundles.count, "rows": shown},
        hint=hint,
    )
