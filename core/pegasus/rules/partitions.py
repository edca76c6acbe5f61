"""Rules about partitions, counted by the five states (counting ``states``)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from datetime import datetime
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from core.findings.finding import Finding, Severity
from core.findings.quantity import Quantity
from core.pegasus.health import HealthState, state_counts
from core.pegasus.ids import gpid_text
from core.pegasus.persistence import ddd_remedy, parse_copies
from core.pegasus.rules.context import PegasusContext, partitions_cost
from core.pegasus.snapshot import partition_of
from core.pegasus.summary import minimum_2pc
from core.units import format_age, pluralize

_BY_WORST: Final[dict[HealthState, tuple[str, Severity, str]]] = {
    HealthState.DEAD: ("partitions_dead", "error", "Partitions are dead"),
    HealthState.UNREADABLE: ("partitions_unreadable", "error", "Partitions are unreadable"),
    HealthState.UNWRITABLE: ("partitions_unwritable", "error", "Partitions are unwritable"),
    HealthState.WRITABLE_ILL: ("partitions_ill", "warning", "Partitions are degraded"),
}
_USELESS: Final = (HealthState.DEAD, HealthState.UNREADABLE, HealthState.UNWRITABLE)
_REFUSED: Final = ["app_id", "index", "ballot", "copies"]
_HEADLESS: Final = (
    "A primary normally changes within seconds. If the partition has none after "
    "a minute, its proposal is refused: search the log of the intended primary "
    "for on_config_proposal."
)
_WHY_ILL: Final = (
    "The guardian repairs it at level steady or lively; balancing is blocked until then."
)
_WHY_DEAD: Final = (
    "The guardian does not repair a partition that lost every replica: its last nodes are named "
    "with it. Balancing is blocked until then."
)


def lost_partitions(context: PegasusContext) -> Iterator[Finding]:
    """Partitions without any replica that a person has to decide about (DDD)."""
    names = {app_id: table.name for app_id, table in context.facts.tables.items()}
    alive = {node.name for node in context.facts.nodes if node.is_alive}
    for row in _lost(context).to_pylist():
        gpid, table = gpid_text(row["app_id"], row["index"]), names.get(row["app_id"], "")
        copies = parse_copies(row["copies"])
        config = partition_of(row)
        reason = row["ddd_reason"] or "no reason was reported"
        yield Finding(
            code="partition_lost",
            title="Partition lost every replica",
            measured=Quantity(gpid),
            severity="error",
            subject_kind="pegasus_table",
            subject=table,
            sentence=f"{gpid} of {table or 'an unlisted table'} lost every replica: "
            f"{reason}.".replace("..", "."),
            since=context.unserved_since.get((row["app_id"], row["index"])),
            evidence={
                "gpid": gpid,
                "last_drops": row["last_drops"],
                "copies": None if copies is None else [asdict(one) for one in copies],
            },
            hint=ddd_remedy(config, alive, copies),
            servers=tuple(row["last_drops"]),
            cost=partitions_cost(1),
        )


def _lost(context: PegasusContext) -> pa.Table:
    """Return the rows of the partitions that lost every replica."""
    rows = context.snapshot.tables["partitions"]
    is_empty = pc.and_(
        pc.and_(rows["primary"].is_null(), pc.equal(pc.list_value_length(rows["secondaries"]), 0)),
        pc.greater(pc.list_value_length(rows["last_drops"]), 0),
    )
    return rows.filter(pc.or_(is_empty, rows["ddd_reason"].is_valid()))


def partitions_by_state(context: PegasusContext) -> Iterator[Finding]:
    """Tables with partitions that are not healthy, by their worst state."""
    columns = context.facts.columns
    states = columns.states(minimum_2pc(context.facts))
    # which lack nothing but a setting: `writes_refused` names them
    is_whole = context.lacks_by_setting & columns.is_guardian_healthy
    states[is_whole & (states == HealthState.UNWRITABLE)] = HealthState.HEALTHY
    lost = Counter(_lost(context)["app_id"].to_pylist())
    counts = state_counts(states, columns.part_table, columns.table_count)
    for place in np.flatnonzero(counts[:, : HealthState.HEALTHY].sum(axis=1) > 0).tolist():
        of_table = {state: int(counts[place, state]) for state in HealthState}
        worst = next(state for state in HealthState if of_table[state])
        code, severity, title = _BY_WORST[worst]
        listed = ", ".join(
            f"{number} {state.name.lower().replace('_', ' ')}"
            for state, number in of_table.items()
            if number and state is not HealthState.HEALTHY
        )
        name, total = columns.app_names[place], int(columns.partition_counts[place])
        since, lasting = _lasting(context, int(columns.app_ids[place]))
        yield Finding(
            code=code,
            title=title,
            measured=Quantity(of_table[worst]),
            limit=Quantity(0),
            severity=severity,
            subject_kind="pegasus_table",
            subject=name,
            sentence=f"{name}: {listed} (of {pluralize(total, 'partition')}). "
            f"{worst.sentence}{lasting}",
            since=since,
            evidence={state.name.lower(): number for state, number in of_table.items()},
            hint=_hint(of_table, lost[int(columns.app_ids[place])]),
            cost=partitions_cost(sum(of_table[state] for state in _USELESS)),
        )


def _hint(of_table: Mapping[HealthState, int], lost: int) -> str:
    if of_table[HealthState.UNREADABLE]:
        return _HEADLESS
    ill = sum(of_table[state] for state in _BY_WORST)
    return _WHY_DEAD if lost == ill else _WHY_ILL


def _lasting(context: PegasusContext, app_id: int) -> tuple[datetime | None, str]:
    """Return since when the longest partition of a table has no primary, and what to say."""
    moments = [at for (app, _), at in context.unserved_since.items() if app == app_id]
    if not moments:
        return None, ""
    since = min(moments)
    lasts = format_age(context.seconds_since(since))
    count = pluralize(len(moments), "partition")
    return since, f" {count} without a primary for at least {lasts}, ballot unchanged."


def refused_proposals(context: PegasusContext) -> Iterator[Finding]:
    """Partitions whose servers are ahead of the meta server: they refuse each of its proposals.

    Source: Pegasus ``replica_stub::on_config_proposal``: one with an older ballot is outdated.
    """
    names = {app_id: table.name for app_id, table in context.facts.tables.items()}
    table = context.snapshot.tables["partitions"].select(_REFUSED)
    for row in table.filter(table["copies"].is_valid()).to_pylist():
        ahead = [
            one for one in parse_copies(row["copies"]) or () if one.ballot > row["ballot"] >= 0
        ]
        if not ahead:
            continue
        gpid = gpid_text(row["app_id"], row["index"])
        held = ", ".join(f"{one.node} ballot {one.ballot}" for one in ahead)
        yield Finding(
            code="proposals_refused",
            title="Servers refuse the meta server's proposals",
            measured=Quantity(max(one.ballot for one in ahead), "ballot"),
            limit=Quantity(row["ballot"], "ballot"),
            severity="error",
            subject_kind="pegasus_table",
            subject=names.get(row["app_id"], ""),
            sentence=f"{gpid} has no primary, and its servers are ahead of the meta server's "
            f"ballot {row['ballot']} ({held}): every proposal is refused as outdated.",
            since=context.unserved_since.get((row["app_id"], row["index"])),
            evidence={
                "gpid": gpid,
                "ballot": row["ballot"],
                "servers": [one.node for one in ahead],
            },
            hint="Neither waiting nor a restart of those servers helps. Keep their data, and "
            "rebuild the configuration of the partition from it (`recover` in the "
            "Pegasus shell).",
            servers=tuple(one.node for one in ahead),
            cost=partitions_cost(1),
        )


def surplus_replicas(context: PegasusContext) -> Iterator[Finding]:
    """Partitions with more replicas than configured: healthy for clients, not for the guardian."""
    columns = context.facts.columns
    number = int((columns.membership.replica_counts > columns.part_wanted).sum())
    if number:
        yield Finding(
            code="surplus_replicas",
            title="Partitions have surplus replicas",
            measured=Quantity(number),
            limit=Quantity(0),
            severity="info",
            subject_kind="cluster",
            subject="",
            sentence=f"Partitions with more replicas than configured: {number:,}.",
            evidence={"partitions": number},
            hint="The guardian removes the surplus; balancing is blocked until then.",
        )
