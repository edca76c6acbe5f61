"""Rules about who owns which bundle, and whether ownership and reports agree."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from core.health.findings import Finding, HealthContext, Severity
from core.units import counted

_SHOWN: Final = 10


def unowned_bundles(context: HealthContext) -> Iterator[Finding]:
    """Bundles without an owner: bad when they carry traffic, normal when nobody uses them."""
    bundles = context.movable
    unowned = bundles.filter(pc.is_null(bundles["owner"]))
    if not unowned.num_rows:
        return
    unclear = unowned.filter(pc.is_null(unowned["owner_source"]))
    if unclear.num_rows:
        yield _counted(
            unclear,
            code="owner_unknown",
            severity="unknown",
            sentence=f"The owner of {unclear.num_rows} of {bundles.num_rows} bundles is unknown.",
            hint="Ownership could not be read for them; look at the problems of the reading.",
        )
    settled = unowned.filter(pc.is_valid(unowned["owner_source"]))
    rate = pc.add(
        pc.fill_null(settled["msg_rate_in"], 0.0), pc.fill_null(settled["msg_rate_out"], 0.0)
    )
    busy_mask = pc.or_(pc.is_valid(settled["reported_by"]), pc.greater(rate, 0.0))
    busy = settled.filter(busy_mask)
    if busy.num_rows:
        yield _counted(
            busy,
            code="unowned_with_traffic",
            severity="warning",
            sentence=(
                f"The last reports show traffic on {counted(busy.num_rows, 'bundle')} that nobody "
                "owns now: the clients are waiting or moving."
            ),
            hint="Look again in a minute; if it stays, no broker is allowed to take them.",
        )
    quiet = settled.num_rows - busy.num_rows
    if quiet:
        yield _counted(
            settled.filter(pc.invert(busy_mask)),
            code="unowned_bundles",
            severity="info",
            sentence=f"{quiet} of {bundles.num_rows} bundles have no owner: nobody uses them now.",
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
    bundles = context.movable
    moved = bundles.filter(
        pc.fill_null(pc.not_equal(bundles["owner"], bundles["reported_by"]), False)  # noqa: FBT003 - pyarrow takes the fill value by position
    )
    if moved.num_rows:
        yield _counted(
            moved,
            code="moved_since_report",
            severity="info",
            sentence=(
                f"Since the last load reports {counted(moved.num_rows, 'bundle')} changed owner; "
                "the brokers' loads still count the traffic at the old one."
            ),
            hint="The numbers settle with the next load reports.",
        )


def _counted(
    bundles: pa.Table, *, code: str, severity: Severity, sentence: str, hint: str
) -> Finding:
    shown = bundles.slice(0, _SHOWN).select(["bundle", "owner", "reported_by"]).to_pylist()
    return Finding(
        code=code,
        severity=severity,
        subject_kind="bundle" if bundles.num_rows == 1 else "cluster",
        subject=shown[0]["bundle"] if bundles.num_rows == 1 else "",
        sentence=sentence,
        evidence={"count": bundles.num_rows, "rows": shown},
        hint=hint,
    )
