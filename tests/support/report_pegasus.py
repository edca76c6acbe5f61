"""Reports about Pegasus clusters, rebuilt as snapshots from ``tests/reports/pegasus``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from pegasus_diagnosis import cluster, even_parts, node_names
from pegasus_snapshots import part_row
from report_cluster import Report, all_reports

from core.pegasus.levels import parse_level
from core.snapshot.pegasus import PegasusSnapshot

_CALM: Final = {"balance_operation_count": '{"total": 0}'}


def pegasus_reports() -> list[Report]:
    """Return the reports and controls, by name."""
    return all_reports("pegasus")


def snapshot_of_report(report: Report) -> PegasusSnapshot:
    """Rebuild the cluster of a report."""
    facts = report.facts["cluster"]
    names = node_names(facts["nodes"])
    level = parse_level(facts["level"])
    single, full = (
        {names[at - 1] for at in facts.get(key, ())} for key in ("one_disk", "full_disk")
    )

    def disk_of(row: dict[str, Any]) -> str:
        return "ssd1" if row["node"] in single else f"ssd{row['index'] % 2 + 1}"

    return cluster(
        list(_parts(report, names)),
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
