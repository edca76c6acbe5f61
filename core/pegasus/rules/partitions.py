"""Rules about partitions, counted by the five states (counting ``states``)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from core.findings.finding import Finding, Severity
from core.findings.quantity import Quantity
from core.pegasus.health import HealthState
from core.pegasus.ids import gpid_text
from core.pegasus.rules.context import PegasusContext
from core.pegasus.summary import minimum_2pc
from core.units import pluralize

_BY_WORST: Final[dict[HealthState, tuple[str, Severity, str]]] = {
    HealthState.DEAD: ("partitions_dead", "error", "Partitions are dead"),
    HealthState.UNREADABLE: ("partitions_unreadable", "error", "Partitions are unreadable"),
    HealthState.UNWRITABLE: ("partitions_unwritable", "error", "Partitions are unwritable"),
    HealthState.WRITABLE_ILL: ("partitions_ill", "warning", "Partitions are degraded"),
}
_WHY_ILL: Final = "The guardian repairs it at level steady or lively; nothing is balanced before."


def lost_partitions(context: PegasusContext) -> Iterator[Finding]:
    """Partitions without any replica that a person has to decide about (DDD)."""
    names = {app_id: table.name for app_id, table in context.facts.tables.items()}
    rows = context.snapshot.tables["partitions"].select(["app_id", "index", "ddd_reason"])
    for row in rows.filter(rows["ddd_reason"].is_valid()).to_pylist():
        gpid, table = gpid_text(row["app_id"], row["index"]), names.get(row["app_id"], "")
        yield Finding(
            code="partition_lost",
            title="Partition lost every replica",
            measured=Quantity(gpid),
            severity="error",
            subject_kind="pegasus_table",
            subject=table,
            sentence=f"{gpid} of {table or 'an unlisted table'} lost every replica: "
            f"{row['ddd_reason'] or 'no reason was reported'}.".replace("..", "."),
            evidence={"gpid": gpid},
            hint="Start its former members; Tables & partitions says which one should lead.",
        )


def partitions_by_state(context: PegasusContext) -> Iterator[Finding]:
    """Tables with partitions that are not healthy, by their worst state."""
    columns = context.facts.columns
    counts = columns.table_states(minimum_2pc(context.facts))
    for place in np.flatnonzero(counts[:, : HealthState.HEALTHY].sum(axis=1) > 0).tolist():
        of_table = {state: int(counts[place, state]) for state in HealthState}
        worst = next(state for state in HealthState if of_table[state])
        code, severity, title = _BY_WORST[worst]
        listed = ", ".join(
            f"{number} {'is' if number == 1 else 'are'} {state.name.lower().replace('_', ' ')}"
            for state, number in of_table.items()
            if number and state is not HealthState.HEALTHY
        )
        name, total = columns.app_names[place], int(columns.partition_counts[place])
        yield Finding(
            code=code,
            title=title,
            measured=Quantity(of_table[worst]),
            limit=Quantity(0),
            severity=severity,
            subject_kind="pegasus_table",
            subject=name,
            sentence=f"{name}: of {pluralize(total, 'partition')} {listed} (counting states). "
            f"{worst.sentence}",
            evidence={state.name.lower(): number for state, number in of_table.items()},
            hint=_WHY_ILL,
        )


def surplus_replicas(context: PegasusContext) -> Iterator[Finding]:
    """Partitions with more replicas than wanted: healthy for clients, ill for the guardian."""
    columns = context.facts.columns
    number = int((columns.membership.replica_counts > columns.part_wanted).sum())
    if number:
        have = "has" if number == 1 else "have"
        yield Finding(
            code="surplus_replicas",
            title="Partitions have surplus replicas",
            measured=Quantity(number),
            limit=Quantity(0),
            severity="info",
            subject_kind="cluster",
            subject="",
            sentence=f"{pluralize(number, 'partition')} {have} more replicas than wanted.",
            evidence={"partitions": number},
            hint="The guardian takes the surplus away; nothing is balanced before.",
        )
