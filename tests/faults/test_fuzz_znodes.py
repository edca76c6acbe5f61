"""Mutated znodes: none stops a reading, and whatever is lost from the tables is named."""

from __future__ import annotations

import json
import random
from copy import deepcopy
from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from mutations import mutate

from core.pulsar.snapshot.zkdump import import_zk_dump
from core.pulsar.snapshot.znodes import Readings, SnapshotTables, assemble
from core.pulsar.snapshot.znodes.readings import BROKER_AVERAGES, BROKERS, BUNDLE_DATA, OWNERSHIP
from core.schemas import PULSAR_TABLES, conform
from core.snapshot.problems import ProblemLog

FIXTURES = Path(__file__).parents[1] / "fixtures"
NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
POLICY = {
    "namespaces": ["acme/payments"],
    "primary": ["127\\.0\\.0\\.1"],
    "secondary": [],
    "auto_failover_policy": {
        "policy_type": "min_available",
        "parameters": {"min_limit": "1", "usage_threshold": "80"},
    },
}


def recorded() -> Readings:
    """A whole recorded cluster, with policies added."""
    readings = Readings(owners_known=True, pulsar_cluster="test")
    for line in (FIXTURES / "pulsar" / "zk-dump-idle.jsonl").read_text().splitlines():
        entry = json.loads(line)
        raw = json.dumps(entry["value"]).encode()
        for root, target in (
            (BROKERS, readings.brokers),
            (BROKER_AVERAGES, readings.broker_averages),
            (BUNDLE_DATA, readings.bundle_data),
            (OWNERSHIP, readings.ownership),
        ):
            if entry["path"].startswith(f"{root}/"):
                target[entry["path"][len(root) + 1 :]] = raw
        for root, target in (
            ("/admin/local-policies/", readings.local_policies),
            ("/admin/policies/", readings.policies),
        ):
            name = entry["path"].removeprefix(root)
            if entry["path"].startswith(root) and name.count("/") == 1:
                target[name] = raw
        if entry["path"] == "/loadbalance/leader":
            readings.leader = raw
    readings.isolation = json.dumps({"pay": POLICY}).encode()
    readings.failure_domains = {"a": b'{"brokers":["127.0.0.1:18080"]}'}
    readings.resource_quotas = {"default": b'{"msgRateIn":40.0,"dynamic":true}'}
    readings.dynamic = b'{"loadBalancerSheddingEnabled":"false"}'
    return readings


def losses(before: dict[str, pa.Table], after: dict[str, pa.Table]) -> list[str]:
    """Name the tables and columns that hold less than they did."""
    lost = []
    for name, table in before.items():
        if after[name].num_rows < table.num_rows:
            lost.append(f"{name}: rows")
        lost += [
            f"{name}.{column}"
            for column in table.column_names
            if len(after[name].column(column)) - after[name].column(column).null_count
            < len(table.column(column)) - table.column(column).null_count
        ]
    return lost


def damage_one(readings: Readings, rng: random.Random) -> str:
    """Mutate one value of the readings; return its name."""
    places = []
    for field in fields(readings):
        value = getattr(readings, field.name)
        if isinstance(value, dict) and value and isinstance(next(iter(value.values())), bytes):
            places += [(field.name, key) for key in value]
        elif isinstance(value, bytes):
            places.append((field.name, None))
    kinds = sorted({field for field, _ in places})
    kind = rng.choice(kinds)  # every kind of znode gets its share
    field, key = rng.choice([place for place in places if place[0] == kind])
    if key is None:
        setattr(readings, field, mutate(getattr(readings, field), rng) or b" ")
    else:
        target = getattr(readings, field)
        target[key] = mutate(target[key], rng) or b" "
    return f"{field} {key}"


def says_something_else(readings: Readings, place: str) -> bool:
    """Whether a mutated document is still a good one that only says something else."""
    kind = place.partition(" ")[0]
    try:
        if kind == "dynamic":
            return all(
                isinstance(each, str) for each in json.loads(readings.dynamic or b"").values()
            )
        if kind == "isolation":
            return all(
                isinstance(each, dict) for each in json.loads(readings.isolation or b"").values()
            )
        if kind == "failure_domains":
            brokers = json.loads(readings.failure_domains["a"])["brokers"]
            return all(isinstance(each, str) for each in brokers)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return False
    return False


def run(count: int, seed: int) -> None:
    base = recorded()
    whole = assemble(deepcopy(base), ProblemLog())
    rng = random.Random(seed)
    named = 0
    for number in range(count):
        readings = deepcopy(base)
        place = damage_one(readings, rng)
        problems = ProblemLog()
        made: SnapshotTables = assemble(readings, problems)
        for name, table in made.tables.items():
            conform(table, PULSAR_TABLES[name], name=name)
        lost = losses(whole.tables, made.tables)
        lost = [] if says_something_else(readings, place) else lost
        assert problems.named() or not lost, f"mutation {number} of {place} lost {lost} silently"
        named += bool(problems.named())
    assert named > count // 2


def test_recorded_cluster_has_no_problem() -> None:
    problems = ProblemLog()
    made = assemble(recorded(), problems)
    assert problems.named() == ()
    assert made.tables["bundles"].num_rows > 90


def test_three_hundred_mutated_znodes_are_each_named() -> None:
    run(300, seed=10)


@pytest.mark.slow
def test_one_and_a_half_thousand_mutated_znodes_are_each_named() -> None:
    run(1_500, seed=11)


@pytest.mark.slow
@pytest.mark.timeout(1_800)
def test_fifteen_thousand_mutated_znodes_are_each_named() -> None:
    run(15_000, seed=12)


def test_mutated_lines_of_a_dump_never_stop_the_import(tmp_path: Path) -> None:
    lines = (FIXTURES / "contracts" / "three-brokers.jsonl").read_bytes().splitlines()
    rng = random.Random(5)
    whole = import_zk_dump(_write(tmp_path, lines), "x", NOW)
    for _ in range(200):
        damaged = list(lines)
        row = rng.randrange(len(lines))
        damaged[row] = mutate(lines[row], rng)
        snapshot = import_zk_dump(_write(tmp_path, damaged), "x", NOW)
        lost = losses(dict(whole.tables), dict(snapshot.tables))
        blank = not damaged[row].strip()
        renamed = b'"path"' in damaged[row]  # a path of something else is not ours to judge
        assert snapshot.manifest.problems or not lost or blank or renamed


def _write(folder: Path, lines: list[bytes]) -> Path:
    path = folder / "dump.jsonl"
    path.write_bytes(b"\n".join(line.replace(b"\n", b" ") for line in lines))
    return path
