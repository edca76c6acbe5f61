from __future__ import annotations

import json

import pyarrow as pa
import pytest
from places import FIXTURES

from core.plan.codec import load_plan
from core.pulsar.ring import topic_hash
from core.schemas import PULSAR_TABLES
from core.snapshot import PulsarSnapshot
from core.snapshot.store import load_snapshot, save_snapshot
from core.systems import STEPS
from dashboard.cli.main import run

DUMP = FIXTURES / "contracts" / "three-brokers.jsonl"
TOPIC = "persistent://acme/orders/created"
QUOTA = ("quota", "--limit", "100", "--usage", "10,50,30")


def _json(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict]:
    code = run([*arguments, "--json"])
    return code, json.loads(capsys.readouterr().out)


def test_the_quota_of_the_contract(capsys):
    code, body = _json(capsys, *QUOTA, "--formula", "published")
    assert code == 0
    assert [round(value, 2) for value in body["local"]] == [11.11, 55.56, 33.33]
    _, whole = _json(capsys, *QUOTA)
    assert whole["local"] == [11, 55, 33]


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ("quota --limit 100 --usage 1,x", 2, "not a list of numbers"),
        ("quota --limit 100 --usage=-1", 1, "negative"),
        ("quota --limit 1e30 --usage 1", 2, "is above 9,007,199,254,740,992"),
        ("quota --limit 1 --usage 1 --formula upstram", 2, "upstram"),
        ("advise partitions a --partitions 3", 2, "--snapshot or --bundles"),
        ("advise queue --partitions 3 --silent 4", 1, "the topic has 3"),
        ("advise ledger --rate=-1 --throughput 1", 1, "negative"),
        ("advise ledger --rate nan --throughput 1", 2, "not a finite number"),
        ("advise ledger --throughput 1", 2, "--rate"),
        ("advise retention --minutes 5", 2, "--throughput"),
        ("advise retention --throughput 1 --namespace a/b", 2, "--snapshot"),
        (
            "advise partitions a/b/c --partitions 3 --bundles 5000000000",
            2,
            "less than or equal to 1000000",
        ),
        ("advise partitions a/b/c --partitions 3 --bundles 4 --plan p", 2, "assumes"),
        ("advise retention --throughput 1 --minutes=-5", 1, "-1 for unlimited"),
        ("advise bundles --topics 5", 2, "--brokers"),
        ("advise bundles --brokers 3 --namespace a/b", 2, "--snapshot"),
        ("advise compaction --live 2", 1, "between 0 and 1"),
        ("advise queue --partitions 3 --routing Single", 2, "routing mode"),
    ],
)
def test_what_cannot_be_is_refused_in_one_sentence(capsys, arguments, code, words):
    found, body = _json(capsys, *arguments.split())
    assert found == code
    assert words in f"{body['error']['message']} {body['error']['hint']}"


def test_each_advisor_answers_for_people_and_for_scripts(capsys, tmp_path):
    snapshot = tmp_path / "snapshot"
    assert run(["import-zk", str(DUMP), "--out", str(snapshot)]) == 0
    capsys.readouterr()
    commands = [
        "advise queue --partitions 30 --max-pending 2000 --max-pending-across 40000",
        "advise ledger --rate 100 --throughput 1000000",
        "advise retention --throughput 1000 --consumed-after 5 --minutes 60 --megabytes=-1",
        "advise partitions acme/orders/created --partitions 30 --partitions 120 --bundles 180",
        f"advise partitions acme/orders/created --partitions 8 --snapshot {snapshot}",
        f"advise bundles --snapshot {snapshot} --namespace acme/orders",
        "advise bundles --brokers 10 --topics 20000 --clients 3000",
        "advise compaction --live 0.5",
        "advise queue --partitions 30 --routing SinglePartition",
        f"advise lookups {snapshot} --namespace acme/orders",
        f"advise ledger --snapshot {snapshot} --namespace acme/orders",
        f"advise retention --snapshot {snapshot} --namespace acme/orders --minutes 60",
        f"advise disks {snapshot} --directories 3",
    ]
    for command in commands:
        code, body = _json(capsys, *command.split())
        assert (code, bool(body)) == (0, True)
        assert run(command.split()) == 0
        assert capsys.readouterr().out.strip()


def test_a_namespace_that_is_not_there_is_named(capsys, tmp_path):
    snapshot = tmp_path / "snapshot"
    run(["import-zk", str(DUMP), "--out", str(snapshot)])
    capsys.readouterr()
    code, body = _json(capsys, *f"advise lookups {snapshot} --namespace acme/ordrs".split())
    assert (code, body["error"]["code"]) == (1, "unknown_name")
    assert "acme/orders" in body["error"]["hint"]


def test_the_surgeon_plans_only_for_a_topic_that_the_snapshot_holds(capsys, tmp_path):
    bare, whole = tmp_path / "bare", tmp_path / "whole"
    run(["import-zk", str(DUMP), "--out", str(bare)])
    capsys.readouterr()
    out = tmp_path / "plan.json"
    asked = f"advise partitions acme/orders/created --partitions 16 --wanted 2 --plan {out}"
    code, body = _json(capsys, *f"{asked} --snapshot {bare}".split())
    assert (code, body["error"]["code"]) == (1, "incomplete_snapshot")
    assert "cannot be undone" in body["error"]["message"]
    assert not out.exists()
    snapshot = load_snapshot(bare)
    names = [f"{TOPIC}-partition-{number}" for number in range(16)]
    lower = {
        row["lower"]: row["bundle"]
        for row in snapshot.bundles.to_pylist()
        if row["namespace"] == "acme/orders"
    }
    rows = [
        dict.fromkeys(PULSAR_TABLES["topics"].names, 1)
        | {
            "topic": name,
            "hash": topic_hash(name),
            "bundle": lower[max(one for one in lower if one <= topic_hash(name))],
        }
        for name in names
    ]
    topics = pa.Table.from_pylist(rows, PULSAR_TABLES["topics"])
    tables = {**snapshot.tables, "topics": topics}
    save_snapshot(PulsarSnapshot.build(snapshot.manifest, tables), whole)
    code, body = _json(capsys, *f"{asked} --snapshot {whole}".split())
    assert code == 0, body
    plan = load_plan(out, STEPS)
    assert {step.bundle for step in plan.steps} == {
        f"acme/orders/{one['range']}" for one in body["splits"]
    }
    assert all(step.algorithm == "specified_positions_divide" for step in plan.steps)
