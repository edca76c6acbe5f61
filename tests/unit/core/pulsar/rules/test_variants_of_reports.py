"""Clusters that differ from a public report in one respect, and the words of their fixes."""

from __future__ import annotations

from report_cluster import NOW, Report

from core.findings.finding import Fix
from core.pulsar.rules.doctor.of_config import examine_config
from core.pulsar.rules.registry import assess
from core.pulsar.settings import effective_settings
from core.pulsar.snapshot.config_files import read_broker_conf, snapshot_of_config
from core.units import same_problem

GROUP = {"bundles": 4, "in": 100, "mb_in": 1, "mb_out": 1}
BROKER = {"cpu": 40, "groups": [GROUP]}


def findings(brokers, **more):
    facts = {"cluster": {"release": "3.0.4"}, "expected": {}, "brokers": brokers, **more}
    return {one.code: one for one in assess(Report("c", facts).snapshot())}


def test_options_of_the_process_are_not_lines_of_broker_conf() -> None:
    assert Fix(lines=("PULSAR_MEM=-Xmx2g",)).file("broker.conf") == "conf/pulsar_env.sh"
    assert Fix(lines=("webServicePort=8080",)).file("broker.conf") == "broker.conf"


def test_a_fix_of_direct_memory_keeps_the_other_options() -> None:
    brokers = [{"name": "b-0:8080", **BROKER, "direct_memory": 130}, {"name": "b-1:8080", **BROKER}]
    (line,) = findings(brokers)["memory_impossible"].fix.lines
    assert line == "PULSAR_MEM=<other options> -XX:MaxDirectMemorySize=<size>"


def test_one_broker_with_the_problem_has_it() -> None:
    assert same_problem(1, "other broker") == "1 other broker with the same problem"
    assert same_problem(1_200, "policy") == "1,200 policies with the same problem"


def test_a_broker_that_only_leads_took_no_bundle() -> None:
    alone = {"name": "b-9:8080", "cpu": 1, "session": 9, "registered": False, "groups": []}
    brokers = [{"name": "b-0:8080", "session": 7, **BROKER}, alone]
    found = findings(brokers, leader={"name": "b-9:8080", "elected_s_ago": 7_200})
    sentence = found["broker_unregistered"].sentence
    assert sentence == (
        "b-9:8080 is alive, not registered: its session became the leader 120 min ago."
    )


def test_only_the_broker_with_the_address_of_another_is_named() -> None:
    brokers = [
        {"name": "b-0:8080", **BROKER, "broker": "pulsar://b-1:6650"},
        {"name": "b-1:8080", **BROKER},
        {"name": "b-2:8080", **BROKER},
    ]
    found = findings(brokers)["shared_address"]
    assert found.servers == ("b-0:8080",)
    assert found.sentence == "b-0:8080 advertises b-1:6650 (broker), an address of b-1:8080."


def test_a_class_of_another_package_is_not_examined(tmp_path) -> None:
    path = tmp_path / "broker.conf"
    path.write_text("loadBalancerLoadSheddingStrategy=com.acme.Shedder\n", encoding="utf-8")
    config = read_broker_conf(path)
    snapshot = snapshot_of_config(config, NOW, "3.0.4")
    found = examine_config(config, snapshot, effective_settings(snapshot))
    (one,) = (one for one in found.diagnoses if one.code == "foreign_class")
    assert one.severity == "unknown"
    assert not found.warnings
