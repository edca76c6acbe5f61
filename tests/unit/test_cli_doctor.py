"""``trimtab doctor``: the findings as words and as JSON, of a snapshot and of what is none."""

from __future__ import annotations

import json

import pytest
from fleet_builder import broker_names, make_snapshot
from fleet_edit import with_settings

from core.snapshot.store import save_snapshot
from dashboard.cli.main import run as run_command

BROKER = broker_names(6)[2]
HISTORY = "loadBalancerHistoryResourcePercentage"


@pytest.fixture
def kept(tmp_path):
    snapshot = with_settings(
        make_snapshot(brokers=6, bundles=60),
        (None, HISTORY, "1.0", "dynamic"),
        (None, "lowerBoundarySheddingEnabled", "false", "default"),
        (BROKER, "lowerBoundarySheddingEnabled", "true", "file"),
    )
    folder = tmp_path / "kept"
    save_snapshot(snapshot, folder)
    return folder


def run(capsys, *words):
    code = run_command([*map(str, words)])
    told = capsys.readouterr()
    return code, told.out, told.err


def test_findings_come_with_consequence_and_commands(capsys, kept):
    code, out, _ = run(capsys, "doctor", kept)
    assert code == 0
    assert "frozen_usage" not in out
    assert "usage that shedding" in out
    assert f"trimtab set fleet {HISTORY}=0.9 --plan plan.json" in out
    assert "broker.conf: lowerBoundarySheddingEnabled=false" in out
    assert f"{BROKER}" in out.partition("what differs")[2]


def test_json_has_the_fix_in_parts(capsys, kept):
    code, out, _ = run(capsys, "doctor", kept, "--json")
    body = json.loads(out)
    assert code == 0
    by_code = {one["code"]: one for one in body["diagnoses"]}
    assert by_code["frozen_usage"]["fix"]["dynamic"] == {HISTORY: 0.9}
    differs = by_code["settings_differ"]
    assert differs["brokers"] == [BROKER]
    assert differs["fix"]["broker_conf"] == ["lowerBoundarySheddingEnabled=false"]
    assert [len(group["brokers"]) for group in body["brokers"]["groups"]] == [5, 1]


def test_assumed_values_are_examined(capsys, kept):
    _, out, _ = run(capsys, "doctor", kept, "--set", f"{HISTORY}=0.8", "--json")
    assert "frozen_usage" not in {one["code"] for one in json.loads(out)["diagnoses"]}


def test_what_is_neither_cluster_nor_snapshot_is_named(capsys, tmp_path):
    config = tmp_path / "trimtab.toml"
    config.write_text('[[clusters]]\nname = "east"\nzookeeper = "127.0.0.1:1"\n')
    code, _, err = run(capsys, "doctor", "easst", "--config", config)
    assert code != 0
    assert "easst" in err
    assert "east" in err
