"""What a namespace sets for its data: read from its policies, and before brokers' defaults."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from fleet_builder import make_snapshot
from fleet_edit import with_policies

from core.planning.advisors.retention import RetentionRule, held_words, life_of_message
from core.pulsar.plan.policy.state import storage_policies
from core.pulsar.snapshot.znodes import Readings, assemble
from core.snapshot import PulsarSnapshot
from core.snapshot.problems import ProblemLog
from core.snapshot.store import save_snapshot
from dashboard.cli.main import run

SPACE = "acme/orders"
BOUNDS = {"boundaries": ["0x00000000", "0xffffffff"], "numBundles": 1}
SET = {
    "retention_policies": {"retentionTimeInMinutes": 4320, "retentionSizeInMB": -1},
    "message_ttl_in_seconds": 600,
    "backlog_quota_map": {"destination_storage": {"limitSize": 3 << 20, "policy": "x"}},
    "persistence": {"bookkeeperEnsemble": 3, "bookkeeperWriteQuorum": 3, "bookkeeperAckQuorum": 2},
}


def read(policies: dict[str, Any]) -> tuple[PulsarSnapshot, list[str]]:
    problems = ProblemLog()
    document = {"bundles": BOUNDS, "replication_clusters": ["c"], **policies}
    readings = Readings(policies={SPACE: json.dumps(document).encode()}, pulsar_cluster="c")
    made = assemble(readings, problems)
    snapshot = make_snapshot(brokers=2, bundles=8)
    tables = {**snapshot.tables, "policies": made.tables["policies"]}
    return PulsarSnapshot.build(snapshot.manifest, tables), [one.what for one in problems.named()]


def test_what_a_namespace_sets_goes_under_the_names_of_the_defaults() -> None:
    snapshot, problems = read(SET)
    assert problems == []
    assert storage_policies(snapshot, SPACE) == {
        "defaultRetentionTimeInMinutes": 4320,
        "defaultRetentionSizeInMB": -1,
        "ttlDurationDefaultInSeconds": 600,
        "backlogQuotaDefaultLimitBytes": 3 << 20,
        "managedLedgerDefaultWriteQuorum": 3,
    }
    assert storage_policies(snapshot, "acme/other") == {}


@pytest.mark.parametrize(
    ("policies", "found"),
    [
        ({"retention_policies": None, "message_ttl_in_seconds": None}, {}),
        ({"backlog_quota_map": {}, "persistence": {}}, {}),
        ({"message_ttl_in_seconds": 0}, {"ttlDurationDefaultInSeconds": 0}),
        ({"retention_policies": {"retentionTimeInMinutes": "long"}}, {}),
        (
            {"backlog_quota_map": {"destination_storage": {"limit": 7}}},
            {"backlogQuotaDefaultLimitBytes": 7},
        ),
        ({"backlog_quota_map": {"message_age": {"limitTime": 60}}}, {}),
    ],
    ids=["null", "empty", "off", "no number", "before 2.8", "age only"],
)
def test_what_is_not_set_is_not_told(policies: dict[str, Any], found: dict[str, int]) -> None:
    assert storage_policies(read(policies)[0], SPACE) == found


def test_a_policy_of_the_wrong_form_is_named_and_costs_itself_only() -> None:
    snapshot, problems = read({**SET, "message_ttl_in_seconds": "soon"})
    assert len(problems) == 1
    assert "ttlDurationDefaultInSeconds" not in storage_policies(snapshot, SPACE)
    assert "defaultRetentionTimeInMinutes" in storage_policies(snapshot, SPACE)


def test_retention_of_a_namespace_begins_with_its_own_policies(tmp_path: Path, capsys) -> None:
    snapshot = make_snapshot(brokers=2, bundles=8)
    space = snapshot.bundles["namespace"][0].as_py()
    own = with_policies(snapshot, ("namespace_storage", space, json.dumps(SET)))
    save_snapshot(own, tmp_path / "s")
    asked = f"advise retention --snapshot {tmp_path / 's'} --namespace {space} --throughput 1e6"
    assert run([*asked.split(), "--consumed-after", "5", "--json"]) == 0
    body = json.loads(capsys.readouterr().out)
    assert body["inputs"]["defaultRetentionTimeInMinutes"] == 4320
    assert body["inputs"]["backlogQuotaDefaultLimitBytes"] == 3.0  # MiB
    assert body["taken_from_snapshot"]["ttlDurationDefaultInSeconds"] == "set on the namespace"
    assert "3 copies" in body["held"]
    assert run([*asked.split(), "--minutes", "60", "--copies", "1", "--json"]) == 0
    body = json.loads(capsys.readouterr().out)
    assert body["inputs"]["defaultRetentionTimeInMinutes"] == 60  # what is given goes first


def test_what_is_held_counts_every_copy() -> None:
    rule = RetentionRule(retention_minutes=60, retention_megabytes=-1, rollover_minutes=0, copies=3)
    phases = life_of_message(rule, consumed_after_minutes=5, bytes_per_s=1e6)
    # an hour and the two minutes until somebody looks
    assert held_words(rule, phases, 1e6).startswith("the topic holds up to 3.7 GB, 11.2 GB")
    endless = RetentionRule(retention_minutes=-1, retention_megabytes=-1)
    phases = life_of_message(endless, consumed_after_minutes=5, bytes_per_s=1e6)
    assert held_words(endless, phases, 1e6) == ""
