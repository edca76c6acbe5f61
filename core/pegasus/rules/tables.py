"""Rules about tables: what clients cannot do though every replica is there, and what goes on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np

from core.findings.finding import FREE, Finding, Severity
from core.findings.quantity import Quantity
from core.pegasus.answers import TableEntry
from core.pegasus.rules.context import PegasusContext, partitions_cost
from core.pegasus.summary import MIN_2PC, minimum_2pc
from core.pegasus.table_envs import DENY, Throttle, denial_of, throttles_of
from core.units import datetime_to_ms, format_age, pluralize

_LISTED: Final = 8
MIN_LAG: Final = 10_000
"""Mutations behind, below which no duplication is called late."""
MAX_BEHIND_S: Final = 300.0
"""Seconds of the partition's own writes that a duplication may be behind."""
HUNG_AFTER_S: Final = 600.0
"""Without a new child for so long a partition split hangs."""
MAX_SETUP_S: Final = 6 * 3_600.0
"""A duplication that is set up or copies its checkpoint for longer is stuck."""
_STATES: Final = {
    "init": "is being set up",
    "prepare": "prepares the checkpoint for the other cluster",
    "app": "copies the checkpoint to the other cluster",
    "log": "sends the log of writes",
    "pause": "is paused",
    "removed": "is being removed",
}


def writes_refused(context: PegasusContext) -> Iterator[Finding]:
    """Tables that want fewer replicas than a write needs: whole, and unwritable for ever.

    Source: Pegasus ``replica::on_client_write``; ``mutation_2pc_min_replica_count`` of the
    primary's own server decides.
    """
    columns, facts = context.facts.columns, context.facts
    minimum = minimum_2pc(facts)
    refused = columns.refuses_writes(minimum) & context.lacks_by_setting
    is_known = MIN_2PC in facts.snapshot.settings or bool((columns.node_min_2pc >= 0).any())
    for place in np.unique(columns.part_table[refused]).tolist():
        rows = refused & (columns.part_table == place)
        number = int(rows.sum())
        wanted = int(columns.max_replica_counts[place])
        needed = int(columns.needed_replicas(minimum)[rows].max())
        name = columns.app_names[place]
        replicas = pluralize(wanted, "replica")
        yield Finding(
            code="writes_refused",
            title="Table refuses every write",
            measured=Quantity(wanted, "replicas"),
            limit=Quantity(needed, "replicas"),
            severity="error" if is_known else "unknown",
            subject_kind="pegasus_table",
            subject=name,
            sentence=f"{name} has {replicas} per partition and a write needs {needed}: "
            f"{pluralize(number, 'partition')} of "
            f"{int(columns.partition_counts[place]):,} "
            + (
                f"{'refuses' if number == 1 else 'refuse'} every write with "
                "ERR_NOT_ENOUGH_MEMBER, although no replica is missing."
                if is_known
                else f"would refuse every write ({MIN_2PC} is not reported, 2 is assumed)."
            ),
            evidence={"partitions": number, "replicas": wanted, "needed": needed},
            hint=f"Raise the table's replica count to {needed} (`set_replica_count {name} "
            f"{needed}` in the Pegasus shell), or set {MIN_2PC} = {wanted} in the configuration of "
            "every replica and meta server and restart them one by one.",
            keys=(MIN_2PC,),
            assumed=() if is_known else (MIN_2PC,),
            cost=partitions_cost(number) if is_known else FREE,
        )


def requests_denied(context: PegasusContext) -> Iterator[Finding]:
    """Tables whose environment denies clients' requests."""
    for table in context.facts.tables.values():
        denial = denial_of(table.envs)
        if denial is None:
            continue
        fate = "fail with ERR_INVALID_STATE" if denial.is_answered else "time out at the client"
        yield Finding(
            code="requests_denied",
            title="Table denies client requests",
            measured=Quantity(denial.value),
            limit=Quantity("not set"),
            severity="error",
            subject_kind="pegasus_table",
            subject=table.name,
            sentence=f"{table.name}: all {' and '.join(denial.requests)} {fate}: its environment "
            f"has {DENY}={denial.value}; replicas and ballots do not show it.",
            evidence={"key": DENY, "value": denial.value, "requests": list(denial.requests)},
            hint="Unless this is intended, remove it in the Pegasus shell: `use "
            f"{table.name}`, then `del_app_envs {DENY}`.",
            keys=(DENY,),
            cost=partitions_cost(table.partition_count),
        )


def requests_throttled(context: PegasusContext) -> Iterator[Finding]:
    """Limits in a table's environment: a problem once requests meet them."""
    columns = context.facts.columns
    for place, app_id in enumerate(columns.app_ids.tolist()):
        table = context.facts.tables[app_id]
        for one in throttles_of(table.envs, table.partition_count):
            yield _throttled(context, place, table, one)


def _throttled(context: PegasusContext, place: int, table: TableEntry, one: Throttle) -> Finding:
    stats = context.table_stats
    delayed, rejected = (
        float(stats[name][place]) if one.requests == "writes" else float("nan")
        for name in ("delayed_rate", "rejected_rate")
    )
    at_limit = context.partitions_at(place, one)
    severity: Severity = "info"
    now = "the number of affected requests is not reported"
    if rejected > 0:
        severity, now = "error", f"{rejected:,.1f}/s are rejected with ERR_BUSY now"
    elif delayed > 0:
        severity, now = "warning", f"{delayed:,.1f}/s are delayed now"
    elif at_limit:
        severity, now = "warning", f"{pluralize(at_limit, 'partition')} at the limit now"
    elif delayed == 0 and rejected == 0:
        now = "no request is affected now"
    unit = "" if one.unit == "requests" else " bytes"
    limits = [
        f"above {limit:,}{unit}/s per partition {one.requests} are {what}"
        for limit, what in (
            (one.delay_per_s, f"delayed by {one.delay_ms:,} ms"),
            (one.reject_per_s, "rejected"),
        )
        if limit is not None
    ]
    return Finding(
        code="requests_throttled",
        title="Requests of a table are limited",
        measured=Quantity(one.value),
        limit=Quantity("not set"),
        severity=severity,
        subject_kind="pegasus_table",
        subject=table.name,
        sentence=f"{table.name}: {', '.join(limits)} ({one.key}={one.value}); {now}.",
        evidence={
            "key": one.key,
            "value": one.value,
            "delay_per_s": one.delay_per_s,
            "reject_per_s": one.reject_per_s,
            "delayed_rate": None if np.isnan(delayed) else delayed,
            "rejected_rate": None if np.isnan(rejected) else rejected,
            "partitions_at_limit": at_limit,
        },
        hint=f"Raise the limit, or remove it: `use {table.name}`, then `del_app_envs {one.key}`.",
        keys=(one.key,),
        cost=partitions_cost(at_limit) if severity != "info" else FREE,
    )


def tables_splitting(context: PegasusContext) -> Iterator[Finding]:
    """Partition splits in progress: no outage, but nothing is balanced meanwhile."""
    columns = context.facts.columns
    for place in np.unique(columns.part_table[columns.is_child]).tolist():
        left = int((columns.is_child & (columns.part_table == place)).sum())
        count = int(columns.partition_counts[place])
        name = columns.app_names[place]
        since = context.splits_since.get(int(columns.app_ids[place]))
        lasts_s = 0.0 if since is None else context.seconds_since(since)
        is_hung = lasts_s >= HUNG_AFTER_S
        yield Finding(
            code="split_hung" if is_hung else "table_splitting",
            title="Partition split makes no progress" if is_hung else "Partitions are being split",
            measured=Quantity(left, "partitions"),
            limit=Quantity(0),
            severity="warning" if is_hung else "info",
            since=since,
            subject_kind="pegasus_table",
            subject=name,
            sentence=f"{name} is split from {count // 2:,} to {count:,} partitions: "
            f"{count // 2 - left:,} of {count // 2:,} child partitions are registered; "
            "the parents serve the clients of the others. Balancing is blocked until all "
            "are registered."
            + (f" None was registered for {format_age(lasts_s)}." if is_hung else ""),
            evidence={"partitions": count, "registered": count // 2 - left, "left": left},
            hint="Search the logs of the parents' primaries for failed splits; admin-cli can "
            "pause, restart or cancel a split."
            if is_hung
            else "Wait until every child partition is registered.",
        )


def duplications(context: PegasusContext) -> Iterator[Finding]:
    """Duplications that are paused, late, or lose what fails."""
    names = {app_id: table.name for app_id, table in context.facts.tables.items()}
    for row in context.facts.rows("duplications"):
        name = names.get(row["app_id"])
        if name is None or row["status"] == "removed":
            continue
        severity, code, why, hint = _duplication_verdict(context, row)
        yield Finding(
            code=code,
            title=_DUPLICATION_TITLES[code],
            measured=None if row["max_lag"] is None else Quantity(row["max_lag"], "mutations"),
            severity=severity,
            subject_kind="pegasus_table",
            subject=name,
            sentence=f"Duplication {row['dup_id']} of {name} to {row['remote']} "
            f"{_STATES.get(row['status'], row['status'])}; {lag_text(row)}{why}.",
            evidence={key: row[key] for key in ("dup_id", "remote", "status", "max_lag")},
            hint=hint,
        )
    reported = {row["app_id"] for row in context.facts.rows("duplications")}
    for app_id, table in context.facts.tables.items():
        if table.is_duplicating and app_id not in reported:
            yield Finding(
                code="duplication_unknown",
                title=_DUPLICATION_TITLES["duplication_unknown"],
                severity="info",
                subject_kind="pegasus_table",
                subject=table.name,
                sentence=f"{table.name} is duplicated; state and lag are not in this snapshot.",
            )


_DUPLICATION_TITLES: Final = {
    "duplication_paused": "Duplication is paused",
    "duplication_late": "Duplication is late",
    "duplication_stuck": "Duplication is not set up",
    "duplication_state": "Table is duplicated",
    "duplication_unknown": "Duplication state is unknown",
}


def lag_text(row: Mapping[str, Any]) -> str:
    """Return the lag of a duplication, as text."""
    if row["max_lag"] is None:
        return "its lag is not reported"
    if not row["max_lag"]:
        return "every write is confirmed"
    return (
        f"{pluralize(row['total_lag'], 'mutation')} behind in "
        f"{pluralize(row['lagging_partitions'], 'partition')}, max in partition "
        f"{row['max_lag_index']} ({row['max_lag']:,})"
    )


def _duplication_verdict(
    context: PegasusContext, row: Mapping[str, Any]
) -> tuple[Severity, str, str, str]:
    """Return severity, code, what more there is to say, and what to do."""
    if row["status"] == "pause":
        why = "; the other cluster receives no writes, and logs are kept here until it resumes"
        name = (
            context.facts.tables[row["app_id"]].name
            if row["app_id"] in context.facts.tables
            else "<table>"
        )
        hint = f"Resume it in the Pegasus shell: `start_dup {name} {row['dup_id']}`, or remove it."
        return "warning", "duplication_paused", why, hint
    age_ms = datetime_to_ms(context.snapshot.manifest.taken_at) - (row["created_at"] or 0)
    if (
        row["status"] in ("init", "prepare", "app")
        and row["created_at"]
        and (age_ms > 1_000 * MAX_SETUP_S)
    ):
        why = f"; it was added {format_age(age_ms / 1_000)} ago"
        hint = "Check that the other cluster has the complete table and reads the checkpoints."
        return "warning", "duplication_stuck", why, hint
    lag = row["max_lag"] or 0
    rate = context.write_rate(row["app_id"], row["max_lag_index"])
    if row["status"] == "log" and lag >= MIN_LAG and not (rate and lag / rate < MAX_BEHIND_S):
        behind = f", {format_age(lag / rate)} of its writes" if rate else ""
        hint = "Check the other cluster and the network to it; logs are kept here until confirmed."
        return "warning", "duplication_late", behind, hint
    loses = "; writes that fail there are skipped" if row["fail_mode"] == "skip" else ""
    return "info", "duplication_state", loses, ""


def backup_policies(context: PegasusContext) -> Iterator[Finding]:
    """Policies of backups that are disabled or overdue."""
    now_ms = datetime_to_ms(context.snapshot.manifest.taken_at)
    names = {app_id: table.name for app_id, table in context.facts.tables.items()}
    for row in context.facts.rows("backup_policies"):
        listed = [names[one] for one in row["app_ids"] if one in names]
        interval_s, started = row["interval_s"], row["last_started_at"]
        of = f"Backup policy {row['name']} of {', '.join(listed[:_LISTED]) or 'no table'}"
        rest = {"tables": listed, "interval_s": interval_s, "last_started_at": started}
        if row["is_disabled"]:
            yield _of_policy(row, "backup_disabled", "info", f"{of} is disabled.", rest)
        elif interval_s and started and now_ms - started > 2_000 * interval_s:
            age = format_age((now_ms - started) / 1000)
            yield _of_policy(
                row,
                "backup_overdue",
                "warning",
                f"{of} started its last backup {age} ago; the interval is "
                f"{format_age(interval_s)}.",
                rest,
                "Search the log of the leading meta server for failed uploads.",
            )


def _of_policy(
    row: Mapping[str, Any],
    code: str,
    severity: Severity,
    sentence: str,
    evidence: Mapping[str, Any],
    hint: str = "",
) -> Finding:
    return Finding(
        code=code,
        title="Backups are disabled" if code == "backup_disabled" else "Backup is overdue",
        severity=severity,
        subject_kind="backup_policy",
        subject=row["name"],
        sentence=sentence,
        evidence=evidence,
        hint=hint,
    )
