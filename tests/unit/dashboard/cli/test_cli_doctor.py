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
    assert "usage for shedding" in out
    assert f"trimtab set fleet {HISTORY}=0.9 --plan plan.json" in out
    assert "broker.conf: lowerBoundarySheddingEnabled=false" in out
    assert f"{BROKER}" in out.partition("differences")[2]


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


CONF = """\
loadManagerClassName=org.apache.pulsar.broker.loadbalance.extensions.ExtensibleLoadManagerImpl
loadBalancerDebugModeEnabled=true
maxConcurrentLookupRequests=5
"""


@pytest.fixture
def conf(tmp_path):
    path = tmp_path / "broker.conf"
    path.write_text(CONF)
    return path


def test_a_broker_conf_is_judged_in_the_form_of_a_cluster(capsys, conf, kept):
    code, out, err = run(capsys, "doctor", "--conf", conf, "--release", "3.0.7", "--json")
    body = json.loads(out)
    _, cluster, _ = run(capsys, "doctor", kept, "--json")
    assert code == 0
    assert not err
    assert body.keys() == json.loads(cluster).keys()
    assert (body["cluster"], body["release"]) == ("broker.conf", "3.0")
    assert body["load_manager"] == "extensible"
    assert {one["code"] for one in body["diagnoses"] if one["severity"] == "warning"} == {
        "debug_changes_result",
        "misspelt_key",
    }
    assert body["assumed"] == []


def test_a_file_is_shown_with_the_lines_that_it_is_about(capsys, conf):
    _, out, _ = run(capsys, "doctor", "--conf", conf, "--release", "3.0.7")
    assert "broker.conf: 3 settings, release 3.0.7." in out
    assert "maxConcurrentLookupRequests line 3." in out
    assert "Did you mean maxConcurrentLookupRequest?" in out
    assert "trimtab set" not in out


def test_assumed_values_count_for_a_file_too(capsys, conf):
    setting = "loadBalancerDebugModeEnabled=false"
    words = ("doctor", "--conf", conf, "--release", "3.0.7", "--set", setting, "--json")
    _, out, _ = run(capsys, *words)
    assert "debug_changes_result" not in {one["code"] for one in json.loads(out)["diagnoses"]}


def test_values_of_a_chart_are_judged(capsys, tmp_path):
    path = tmp_path / "values.yaml"
    path.write_text("broker:\n  configData:\n    loadBalancerEnabled: 'no'\n")
    code, out, _ = run(capsys, "doctor", "--helm", path, "--json")
    assert code == 0
    assert "value_read_as_false" in {one["code"] for one in json.loads(out)["diagnoses"]}


@pytest.mark.parametrize("words", [(), ("east", "--conf"), ("--helm", "x.yaml", "--conf")])
def test_exactly_one_thing_is_judged(capsys, conf, words):
    code, _, err = run(capsys, "doctor", *words, *((conf,) if words else ()))
    assert code == 2
    assert "--conf" in err


def test_a_file_that_cannot_be_read_is_one_sentence(capsys, tmp_path):
    code, out, _ = run(capsys, "doctor", "--conf", tmp_path / "none.conf", "--json")
    assert code == 1
    error = json.loads(out)["error"]
    assert "none.conf cannot be read" in error["message"]
    assert error["hint"]
