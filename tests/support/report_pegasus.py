"""Reports about Pegasus clusters, rebuilt as snapshots from ``tests/reports/pegasus``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

import pyarrow as pa
from pegasus_diagnosis import cluster, even_parts, node_names
from pegasus_snapshots import part_row
from report_cluster import DUMPS, Report, all_reports

from core.pegasus.levels import parse_level
from core.schemas.pegasus import PEGASUS_TABLES
from core.snapshot.pegasus import PegasusSnapshot, load_pegasus_snapshot

_CALM: Final = {"balance_operation_count": '{"total": 0}'}


def pegasus_reports() -> list[Report]:
    """Return the reports and controls, by name."""
    return all_reports("pegasus")


def snapshot_of_report(report: Report) -> PegasusSnapshot:
    """Rebuild the cluster of a report, or read the saved snapshot that it names."""
    if "saved" in report.facts:
        return load_pegasus_snapshot(DUMPS / report.facts["saved"])
    facts = report.facts["cluster"]
    names = node_names(facts["nodes"])
    level = parse_level(facts["level"])
    single, full = (
        {names[at - 1] for at in facts.get(key, ())} for key in ("one_disk", "full_disk")
    )

    def disk_of(row: dict[str, Any]) -> str:
        return "ssd1" if row["node"] in single else f"ssd{row['index'] % 2 + 1}"

    found = cluster(
        list(_parts(report, names)),
        tables=dict(_tables(report)),
        nodes=len(names),
        dead=[names[at - 1] for at in facts.get("dead", ())],
        settings={
            **_CALM,
            "level.stored": str(int(level)),
            "level.effective": facts.get("effective", level.word),
            **report.facts.get("settings", {}),
        },
        disks={name: [("ssd1", 50), ("ssd2", 500)] for name in full},
        disk_of=disk_of,
        cluster=report.name,
    )
    return _with_more(report, found, names)


def earlier_of_report(report: Report) -> list[PegasusSnapshot]:
    """Return the snapshot before it where the report says since when it lasts; else none."""
    since_s = report.facts.get("cluster", {}).get("since_s")
    if since_s is None:
        return []
    now = snapshot_of_report(report)
    taken_at = now.manifest.taken_at - timedelta(seconds=since_s)
    return [replace(now, manifest=replace(now.manifest, taken_at=taken_at))]


def _tables(report: Report) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield what a report says of a table as such, by id."""
    app_id = 0
    for table in report.facts["tables"]:
        for _ in range(table.get("count", 1)):
            app_id += 1
            row: dict[str, Any] = {"envs": json.dumps(table["envs"])} if "envs" in table else {}
            if "duplication" in table:
                row["is_duplicating"] = True
            if row:
                yield app_id, row


def _with_more(report: Report, found: PegasusSnapshot, names: list[str]) -> PegasusSnapshot:
    """Return the snapshot with duplications and flags of nodes."""
    tables = dict(found.tables)
    rows = [
        {
            "app_id": app_id,
            "dup_id": 1,
            "remote": "other",
            "fail_mode": "slow",
            "created_at": 1_700_000_000_000,
            "reported_partitions": table["partitions"],
            "lagging_partitions": 1,
            "total_lag": table["duplication"]["max_lag"],
            "max_lag_index": 0,
            **table["duplication"],
        }
        for app_id, table in enumerate(report.facts["tables"], 1)
        if "duplication" in table
    ]
    if rows:
        schema = PEGASUS_TABLES["duplications"]
        tables["duplications"] = pa.Table.from_pylist(rows, schema=schema)
    limits = report.facts["cluster"].get("min_available", {})
    if limits:
        nodes = tables["nodes"].to_pylist()
        for at, ratio in limits.items():
            nodes[int(at) - 1]["disk_min_available_ratio"] = ratio
        tables["nodes"] = pa.Table.from_pylist(nodes, schema=PEGASUS_TABLES["nodes"])
    return PegasusSnapshot.build(found.manifest, tables)


def _parts(report: Report, names: list[str]) -> Iterator[dict[str, Any]]:
    dead = {names[at - 1] for at in report.facts["cluster"].get("dead", ())}
    app_id = 0
    for table in report.facts["tables"]:
        if "held" in table:
            yield from parts_held(table["held"], names, per_table=table["partitions"])
            continue
        few = [names[at - 1] for at in table["on"]] if "on" in table else names
        few = [name for name in few if name not in dead]
        for number in range(table.get("count", 1)):
            app_id += 1
            yield from _changed(
                even_parts(
                    app_id,
                    table["partitions"],
                    few,
                    replicas=table.get("replicas", 3),
                    start=number * table["partitions"] if table.get("spread") else 0,
                ),
                table,
                names,
            )


def _changed(
    parts: list[dict[str, Any]], table: dict[str, Any], names: list[str]
) -> list[dict[str, Any]]:
    away = {names[at - 1] for at in table.get("not_led_by", ())}
    for one in parts:
        if one["primary"] in away:
            first, *others = one["secondaries"]
            one |= {"primary": first, "secondaries": [*others, one["primary"]]}
        if one["index"] in table.get("lost", ()):
            left = [one["primary"], *one["secondaries"][:1], names[-1]]
            one |= {"primary": None, "secondaries": [], "last_drops": left}
    count = len(parts)
    for at in range(table.get("splitting", 0)):
        child = {"index": count + at, "ballot": -1, "primary": None, "secondaries": []}
        parts.append({**parts[at], **child})
    return parts


def parts_held(
    held: list[list[int]], names: list[str], *, app_id: int = 1, per_table: int
) -> list[dict[str, Any]]:
    """Return tables that give every node so many replicas, and primaries among them.

    Args:
        held: Replicas and primaries of each node.
        names: The nodes.
        app_id: Id of the first table.
        per_table: Partitions of a table.
    """
    left = [list(one) for one in held]
    rows = []
    for at in range(sum(one[1] for one in held)):
        led = max(range(len(left)), key=lambda node: (left[node][1], left[node][0]))
        left[led][0] -= 1
        left[led][1] -= 1
        others = sorted(
            (node for node in range(len(left)) if node != led),
            key=lambda node: left[node][0] - left[node][1],
            reverse=True,
        )[:2]
        for node in others:
            left[node][0] -= 1
        rows.append(
            part_row(
                app_id + at // per_table,
                at % per_table,
                names[led],
                [names[node] for node in others],
            )
        )
    assert left == [[0, 0]] * len(left)
    return rows
