"""Small clusters that change from minute to minute in every way that a history must keep."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
from fleet_builder import NOON, make_snapshot
from pegasus_snapshots import NODES, snapshot_of, whole

from core.schemas import PULSAR_TABLES
from core.snapshot import PulsarSnapshot
from core.snapshot.pegasus import PegasusSnapshot

Rows = list[dict[str, Any]]
Content = dict[str, Rows]


def pulsar_minutes(seed: int, count: int, *, every_s: float = 60.0) -> list[PulsarSnapshot]:
    """A fleet of three brokers and a dozen bundles; each minute two to four things happen."""
    rng = np.random.default_rng(seed)
    start = make_snapshot(brokers=3, bundles=12, now=NOON)
    content = {name: table.to_pylist() for name, table in start.tables.items()}
    found = []
    for minute in range(count):
        for _ in range(rng.integers(2, 5)):
            PULSAR_CHANGES[rng.integers(len(PULSAR_CHANGES))](content, rng)
        moment = NOON - timedelta(minutes=10) + timedelta(seconds=minute * every_s)
        found.append(pulsar_of(content, moment, leader=f"b{rng.integers(2)}:8080"))
    return found


def pulsar_of(content: Content, moment: datetime, leader: str | None) -> PulsarSnapshot:
    """A snapshot with these rows."""
    base = make_snapshot(brokers=1, bundles=1).manifest
    tables = {
        name: pa.Table.from_pylist(content.get(name, []), schema=schema)
        for name, schema in PULSAR_TABLES.items()
    }
    return PulsarSnapshot.build(
        replace(base, taken_at=moment, leader=leader, duration_s=float(moment.minute)), tables
    )


def pegasus_minutes(seed: int, count: int) -> list[PegasusSnapshot]:
    """Four nodes and a table of four partitions that move, lose replicas and come back."""
    rng = np.random.default_rng(seed)
    content: Content = whole()
    found = []
    for minute in range(count):
        for _ in range(rng.integers(1, 4)):
            PEGASUS_CHANGES[rng.integers(len(PEGASUS_CHANGES))](content, rng)
        moment = NOON - timedelta(minutes=10 - minute)
        found.append(snapshot_of(content, taken_at=moment))
    return found


def _one(rows: Rows, rng: np.random.Generator) -> dict[str, Any]:
    return rows[int(rng.integers(len(rows)))] if rows else {}


def _moves(content: Content, rng: np.random.Generator) -> None:
    row = _one(content["bundles"], rng)
    row["owner"] = [None, "b0:8080", "b1:8080"][rng.integers(3)]
    row["owner_source"] = [None, "ownership"][rng.integers(2)]


def _loads(content: Content, rng: np.random.Generator) -> None:
    row = _one(content["bundles"], rng)
    values = (0.0, -0.0, None, 1.5, math.inf, float(rng.random()), 1e-300)
    row["msg_rate_in"] = values[rng.integers(len(values))]
    row["topic_count"] = [0, None, 3][rng.integers(3)]


def _idle(content: Content, rng: np.random.Generator) -> None:
    rates = ("msg_rate_in", "msg_rate_out", "msg_throughput_in", "msg_throughput_out")
    _one(content["bundles"], rng).update(dict.fromkeys(rates, [0.0, None][rng.integers(2)]))


def _averages(content: Content, rng: np.random.Generator) -> None:
    _one(content["bundles"], rng).update(long_msg_rate_in=float(rng.random()), short_samples=None)


def _vanishes(content: Content, rng: np.random.Generator) -> None:
    name = ("bundles", "brokers", "policies", "namespaces", "settings")[rng.integers(5)]
    if content[name]:
        content[name].pop(int(rng.integers(len(content[name]))))


def _splits(content: Content, rng: np.random.Generator) -> None:
    rows = content["bundles"]
    old = _one(rows, rng)
    if not old or old["upper"] - old["lower"] < 2:
        return
    middle = (old["lower"] + old["upper"]) // 2
    at = rows.index(old)
    rows[at : at + 1] = [
        old
        | {
            "bundle": f"{old['namespace']}/0x{low:08x}_0x{high:08x}",
            "lower": low,
            "upper": high,
        }
        for low, high in ((old["lower"], middle), (middle, old["upper"]))
    ]


def _shuffles(content: Content, rng: np.random.Generator) -> None:
    name = ("bundles", "brokers", "policies", "settings")[rng.integers(4)]
    content[name] = [content[name][at] for at in rng.permutation(len(content[name]))]


def _twice(content: Content, rng: np.random.Generator) -> None:
    name = ("bundles", "settings", "policies")[rng.integers(3)]
    if content[name]:
        content[name].append(dict(_one(content[name], rng)))


def _sets(content: Content, rng: np.random.Generator) -> None:
    content["settings"].append(
        {
            "broker": [None, "b0:8080"][rng.integers(2)],
            "name": f"key{rng.integers(4)}",
            "value": str(rng.integers(3)),
            "origin": ["dynamic", "file"][rng.integers(2)],
        }
    )


def _lists(content: Content, rng: np.random.Generator) -> None:
    choices = (None, [], [""], [None], ["a", "b"], ["a,b"], ["b", "a"])
    _one(content["brokers"], rng)["last_bundle_gains"] = choices[rng.integers(len(choices))]
    row = _one(content["namespaces"], rng)
    row["boundaries"] = [None, [], [0, 5], [0, 6]][rng.integers(4)]
    row["namespace"] = row.get("namespace", "")


def _topics(content: Content, rng: np.random.Generator) -> None:
    content["topics"] = [
        {"topic": f"t{at}", "bundle": "x", "hash": at % 2, "backlog": int(rng.integers(3))}
        for at in range(rng.integers(4))
    ]


def _extensible(content: Content, rng: np.random.Generator) -> None:
    content["unit_states"] = [{"bundle": "x", "state": "Owned"}] * int(rng.integers(2))
    content["top_bundles"] = [
        {"broker": "b0:8080", "position": at, "bundle": f"x{rng.integers(3)}"}
        for at in range(rng.integers(3))
    ]


def _reports(content: Content, rng: np.random.Generator) -> None:
    row = _one(content["brokers"], rng)
    row.update(cpu_usage=float(rng.random()), reported_at=int(rng.integers(1 << 40)))


def _policy(content: Content, rng: np.random.Generator) -> None:
    row = _one(content["policies"], rng)
    if row:
        row["body"] = str(rng.integers(5))


PULSAR_CHANGES: tuple[Callable[[Content, np.random.Generator], None], ...] = (
    *(_moves, _moves, _loads, _loads, _idle, _averages, _vanishes, _splits, _shuffles),
    *(_twice, _sets, _topics, _extensible, _reports, _policy),
)


def _primary(content: Content, rng: np.random.Generator) -> None:
    row = _one(content["partitions"], rng)
    if row["secondaries"]:
        row["primary"], row["secondaries"] = (
            row["secondaries"][0],
            [
                *row["secondaries"][1:],
                *([row["primary"]] if row["primary"] else []),
            ],
        )
        row["ballot"] += 1


def _replica(content: Content, rng: np.random.Generator) -> None:
    row = _one(content["partitions"], rng)
    row["secondaries"] = [n for n in NODES if n != row["primary"]][: rng.integers(4)]


def _level(content: Content, rng: np.random.Generator) -> None:
    for row in content["settings"]:
        if row["name"] == "level.effective":
            row["value"] = ["steady", "lively"][rng.integers(2)]


def _node(content: Content, rng: np.random.Generator) -> None:
    row = _one(content["nodes"], rng)
    row["is_alive"] = not row["is_alive"]
    row["resident_memory_mb"] = float(rng.random())


def _operations(content: Content, rng: np.random.Generator) -> None:
    content["operations"] = [
        {"app_id": 2, "index": at, "get_rate": [0.0, 1.5, None][rng.integers(3)]}
        for at in range(rng.integers(5))
    ]


def _replica_rates(content: Content, rng: np.random.Generator) -> None:
    row = _one(content["replicas"], rng)
    row.update(read_rate=[0.0, None, 2.5][rng.integers(3)], write_rate=0.0, size_mb=rng.random())
    row.update(read_units=0.0, write_units=None)


def _unread(content: Content, rng: np.random.Generator) -> None:
    name = ("disks", "tables", "replicas")[rng.integers(3)]
    if len(content[name]) > 1:
        content[name].pop()


PEGASUS_CHANGES: tuple[Callable[[Content, np.random.Generator], None], ...] = (
    *(_primary, _replica, _level, _node, _operations, _replica_rates, _unread),
)


def minute_of(number: int) -> PulsarSnapshot:
    """Minute ``number`` of one and the same small fleet, whoever asks for it."""
    moment = NOON + timedelta(minutes=number)
    return make_snapshot(brokers=3, bundles=30, now=moment, seed=3 + number // 3)
