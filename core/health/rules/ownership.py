"""Rules about who owns which bundle, and whether ownership and reports agree."""

from __future__ import annotations

from collections.abc import Iterator

from core.health.bundles import Picked
from core.health.findings import Finding, HealthContext, Severity
from core.units import counted


def unowned_bundles(context: HealthContext) -> Iterator[Finding]:
    """Bundles without an owner: bad when they carry traffic, normal when nobody uses them."""
    found = context.bundles.unowned()
    if found.unclear.count:
        yield _counted(
            found.unclear,
            code="owner_unknown",
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
            severity="warning",
            sentence=(
                f"The last reports show traffic on {counted(found.busy.count, 'bundle')} that "
                "nobody owns now: the clients are waiting or moving."
            ),
            hint="Look again in a minute; if it stays, no broker is allowed to take them.",
        )
    if found.quiet.count:
        yield _counted(
            found.quiet,
            code="unowned_bundles",
            severity="info",
            sentence=(
                f"{found.quiet.count} of {context.bundles.count} bundles have no owner: nobody "
                "uses them now."
            ),
            hint="The first lookup of one of their topics will assign them.",
        )


def twice_reported(context: HealthContext) -> Iterator[Finding]:
    """What the reading found inconsistent, such as two brokers that report the same bundle."""
    for problem in context.snapshot.manifest.problems:
        if problem.code == "inconsistent":
            yield Finding(
                code="inconsistent",
                severity="info" if problem.severity == "info" else "warning",
                subject_kind="cluster",
                subject=problem.place,
                sentence=problem.what,
                evidence={"place": problem.place, "done": problem.done},
                hint=problem.done or "Look again after the next load report.",
            )


def reported_elsewhere(context: HealthContext) -> Iterator[Finding]:
    """Bundles whose numbers come from a broker that is no longer the owner: they moved just now."""
    moved = context.bundles.moved()
    if moved.count:
        yield _counted(
            moved,
            code="moved_since_report",
            severity="info",
            sentence=(
                f"Since the last load reports {counted(moved.count, 'bundle')} changed owner; "
                "the brokers' loads still count the traffic at the old one."
            ),
            hint="The numbers settle with the next load reports.",
        )


def _counted(
    bundles: Picked, *, code: str, severity: Severity, sentence: str, hint: str
) -> Finding:
    shown = bundles.rows.to_pylist()
    return Finding(
        code=code,
        severity=severity,
        subject_kind="bundle" if bundles.count == 1 else "cluster",
        subject=shown[0]["bundle"] if bundles.count == 1 else "",
        sentence=sentence,
        evidence={"count": bundles.count, "rows": shown},
        hint=hint,
    )
