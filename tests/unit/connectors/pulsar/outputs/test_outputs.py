"""Outputs of pulsar-admin, metrics and dumps: recognized by content, one snapshot of them all."""

from __future__ import annotations

import gzip
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from places import FIXTURES

from connectors.pulsar.outputs import import_outputs
from connectors.pulsar.outputs.kinds import parts_of
from core.errors import InputError
from core.pulsar.rules.registry import assess
from core.pulsar.settings import effective_settings
from core.pulsar.snapshot.zkdump import import_zk_dump
from core.snapshot import PulsarSnapshot

NOW = datetime(2026, 11, 28, 12, 0, tzinfo=UTC)
ADMIN = FIXTURES / "reports" / "serving" / "iadmin.jsonl"
DUMP = FIXTURES / "contracts" / "three-brokers.jsonl"
ISOLATION = (
    "mine    NamespaceIsolationDataImpl(namespaces=[acme/.*], primary=[b-0, b-1], secondary=[], "
    "autoFailoverPolicy=AutoFailoverPolicyDataImpl(policyType=min_available, "
    "parameters={min_limit=1, usage_threshold=80}))\n"
)


def reports() -> dict[str, dict[str, Any]]:
    lines = [json.loads(line) for line in ADMIN.read_text().splitlines()]
    return {line["path"].rpartition("/")[2]: line["value"] for line in lines}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Load reports as pulsar-admin prints them, one file a broker."""
    for name, report in reports().items():
        path = tmp_path / f"load-report-{name.replace(':', '_')}.json"
        path.write_text(json.dumps(report, indent=2) + "\n")
    return tmp_path


def put(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def taken(folder: Path) -> PulsarSnapshot:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return import_outputs(files, "c", NOW).snapshot


def kind_of(text: str) -> str:
    return parts_of(text.encode(), "x")[0].kind


def test_load_reports_give_the_snapshot_that_a_dump_of_them_gives(folder):
    made, dumped = taken(folder), import_zk_dump(ADMIN, "c", NOW)
    assert made.brokers.equals(dumped.brokers)
    assert made.bundles.equals(dumped.bundles)
    assert made.manifest.taken_at == dumped.manifest.taken_at
    assert made.manifest.release == dumped.manifest.release


def test_reports_in_one_file_are_those_of_several(folder, tmp_path_factory):
    one = tmp_path_factory.mktemp("one")
    texts = [json.dumps(report, indent=2) for report in reports().values()]
    put(one, "all.json", "\n".join(texts))
    several = taken(folder)
    assert taken(one).brokers.equals(several.brokers)
    put(one, "all.json", json.dumps(list(reports().values())))
    assert taken(one).brokers.equals(several.brokers)
    put(one, "all.json", "SLF4J: no binding\nDefaulted container x out of y\n" + texts[0])
    assert taken(one).brokers.num_rows == 1


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("b-0:8080\nb-1:8080\n", "brokers"),
        ('"b-0:8080"\n"b-1:8080"\n', "brokers"),
        ('["10.0.0.1:8080"]', "brokers"),
        ("[2001:db8::1]:8080\n", "brokers"),
        ("acme/orders\nacme/o-2\n", "namespaces"),
        ("loadBalancerSheddingEnabled    true\n", "dynamic"),
        ('{"loadBalancerSheddingEnabled": "true"}', "dynamic"),
        ("{}", "dynamic"),
        ("brokerServicePort    Optional[6650]\nclusterName    c\n", "runtime"),
        ('{\n  "serviceUrl" : "http://b-0:8080"\n}', "leader"),
        ('{"serviceUrl": "http://b-0:8080", "brokerId": "b-0:8080"}', "leader"),
        ('{"boundaries": ["0x00000000", "0xffffffff"], "numBundles": 1}', "bundles"),
        ('{"replication_clusters": ["c"], "bundles": {"boundaries": []}}', "policies"),
        ('{"p": {"namespaces": ["a/b"], "primary": ["x"], "secondary": []}}', "isolation"),
        ('{"namespaces": ["a/b"], "primary": ["x"], "secondary": []}', "isolation_policy"),
        (ISOLATION, "isolation"),
        ('{"rack1": {"brokers": ["b-0:8080"]}}', "domains"),
        ("rack1    FailureDomainImpl(brokers=[b-0:8080, b-1:8080])\n", "domains"),
        ('{"a/b/0x00000000_0xffffffff": {"broker_assignment": "shared"}}', "owned"),
        ('{"a/b": {"0x00000000_0xffffffff": {"persistent": {}}}}', "topics"),
        ("# TYPE pulsar_topics_count gauge\n", "metrics"),
        ('pulsar_topics_count{cluster="c"} 3.0\n', "metrics"),
        ('[{"metrics": {}, "dimensions": {}}]', "unused"),
        ('{"path": "/loadbalance/leader", "value": {}}', "dump"),
    ],
)
def test_the_kind_is_recognized_by_the_content(text, kind):
    assert kind_of(text) == kind
    assert kind_of("\ufeff" + text.replace("\n", "\r\n")) == kind


@pytest.mark.parametrize(
    "text",
    [
        "hello world, this is a log\n",
        '{"a": 1}',
        "{broken",
        "[1, 2",
        '{"serviceUrl": "http://x", "brokerServiceUrl": "pulsar://x"}',
        "WARNING: only noise\n",
        "5",
    ],
)
def test_what_is_not_recognized_is_an_error_that_names_the_file(tmp_path, text):
    path = put(tmp_path, "odd.txt", text)
    with pytest.raises(InputError, match=r"odd\.txt"):
        import_outputs([path], "c", NOW)


def test_an_unrecognized_file_says_which_forms_are_known(tmp_path):
    with pytest.raises(InputError) as caught:
        import_outputs([put(tmp_path, "odd.txt", '{"a": 1}')], "c", NOW)
    assert "broker-stats load-report" in caught.value.hint
    assert "Prometheus" in caught.value.hint


def test_an_empty_file_and_a_missing_one_are_refused(tmp_path):
    with pytest.raises(InputError, match="empty"):
        import_outputs([put(tmp_path, "a.json", "")], "c", NOW)
    with pytest.raises(InputError, match="cannot be read"):
        import_outputs([tmp_path / "none"], "c", NOW)
    with pytest.raises(InputError, match="cannot be read"):
        import_outputs([tmp_path], "c", NOW)


def test_a_compressed_file_is_read_as_the_plain_one(folder):
    plain = taken(folder)
    for path in list(folder.iterdir()):
        path.with_suffix(".json.gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
    assert taken(folder).snapshot_id == plain.snapshot_id


def test_settings_leader_and_policies_are_taken(folder):
    put(folder, "dynamic.txt", "loadBalancerSheddingEnabled    false\n")
    put(folder, "leader.json", '{"serviceUrl": "http://b-1:8080"}')
    put(folder, "isolation.txt", ISOLATION)
    put(folder, "domains.txt", "rack1    FailureDomainImpl(brokers=[b-0:8080])\n")
    made = taken(folder)
    settings = effective_settings(made)
    assert settings.value("loadBalancerSheddingEnabled") is False
    assert settings.origin("loadBalancerSheddingEnabled") == "dynamic"
    assert made.manifest.leader == "b-1:8080"
    domains = dict(
        zip(*(made.brokers[name].to_pylist() for name in ("broker", "failure_domain")), strict=True)
    )
    assert domains["b-0:8080"] == "rack1"
    policies = {row["name"]: json.loads(row["body"]) for row in made.policies.to_pylist()}
    assert policies["mine"]["primary"] == ["b-0", "b-1"]
    assert policies["mine"]["auto_failover_policy"]["parameters"]["usage_threshold"] == "80"


def test_a_json_list_of_policies_is_the_text_of_it(folder):
    put(folder, "isolation.txt", ISOLATION)
    text = taken(folder).policies
    body = {
        "mine": {
            "primary": ["b-0", "b-1"],
            "secondary": [],
            "namespaces": ["acme/.*"],
            "auto_failover_policy": {
                "policy_type": "min_available",
                "parameters": {"min_limit": "1", "usage_threshold": "80"},
            },
        }
    }
    put(folder, "isolation.txt", json.dumps(body))
    assert taken(folder).policies.equals(text)


@pytest.mark.parametrize(
    "name", ["acme+n.json", "bundles-acme-n.json", "acme/n/bundles.json", "acme_n.bundles.json"]
)
def test_the_name_of_a_file_names_its_namespace(folder, name):
    bounds = ["0x00000000", "0x1c71c71c", "0xffffffff"]
    put(folder, name, json.dumps({"boundaries": bounds, "numBundles": 2}))
    spaces = {row["namespace"]: row for row in taken(folder).namespaces.to_pylist()}
    assert len(spaces["acme/n"]["boundaries"]) == 3


def test_bundles_of_no_known_namespace_are_an_error(tmp_path):
    bounds = json.dumps({"boundaries": ["0x00000000", "0xffffffff"], "numBundles": 1})
    with pytest.raises(InputError, match="has its namespace"):
        import_outputs([put(tmp_path, "bundles.json", bounds)], "c", NOW)
    assert import_outputs([put(tmp_path, "t+n.json", bounds)], "c", NOW).snapshot.bundles.num_rows


def running(host: str, **changes: str) -> str:
    values = {
        "brokerServicePort": "Optional[6650]",
        "webServicePort": "Optional[8080]",
        "advertisedAddress": host,
        "clusterName": "prod",
        "loadBalancerSheddingEnabled": "true",
        **changes,
    }
    return "".join(f"{key}    {value}\n" for key, value in values.items())


def test_running_settings_are_those_of_the_broker_that_they_name(folder):
    put(folder, "a.txt", running("b-0"))
    put(folder, "b.txt", running("b-1", loadBalancerSheddingEnabled="false"))
    put(folder, "runtime-b-2.txt", running("null"))
    made = taken(folder)
    assert effective_settings(made).differing() == {
        "loadBalancerSheddingEnabled": {"b-0:8080": True, "b-1:8080": False, "b-2:8080": True}
    }
    assert made.manifest.pulsar_cluster == "prod"


def test_metrics_are_those_of_the_broker_in_the_name_of_the_file(folder):
    lines = "".join(
        f'pulsar_rate_in{{cluster="c",namespace="acme/n",topic="t-{at}"}} {at}\n'
        for at in range(10_000)
    )
    text = (
        "# TYPE jvm_memory_direct_bytes_used gauge\njvm_memory_direct_bytes_used 5.0E8\n"
        "# TYPE jvm_memory_direct_bytes_max gauge\njvm_memory_direct_bytes_max 1.0E9\n" + lines
    )
    put(folder, "metrics.b-1.prom", text)
    made = taken(folder)
    assert made.broker_metrics["broker"].to_pylist() == ["b-1:8080"]
    assert made.broker_metrics["direct_used_ratio"].to_pylist() == [0.5]


def test_metrics_alone_are_a_snapshot(tmp_path):
    put(tmp_path, "broker-7.prom", "# TYPE jvm_threads_current gauge\njvm_threads_current 5.0\n")
    assert taken(tmp_path).brokers["broker"].to_pylist() == ["broker-7"]


def test_metrics_of_no_known_broker_are_an_error(folder):
    put(folder, "metrics.prom", "# TYPE jvm_threads_current gauge\njvm_threads_current 5.0\n")
    with pytest.raises(InputError, match="has its broker"):
        taken(folder)


def test_what_is_missing_is_named_with_the_command_that_gives_it(folder):
    put(folder, "brokers.txt", "b-0:8080\nb-1:8080\nb-2:8080\nb-9:8080\n")
    made = taken(folder)
    lacks = " ".join(made.manifest.unavailable)
    for command in ("get-runtime-config", "get-all-dynamic-config", "ns-isolation-policy list"):
        assert command in lacks
    assert any("b-9:8080" in one.place for one in made.manifest.problems)
    assert made.brokers.num_rows == 4
    assert "get-all-dynamic-config" not in " ".join(
        taken_with(folder, "loadBalancerSheddingEnabled    true\n").manifest.unavailable
    )


def taken_with(folder: Path, dynamic: str) -> PulsarSnapshot:
    put(folder, "dynamic.txt", dynamic)
    return taken(folder)


def test_a_dump_is_what_import_zk_makes_of_it():
    made = import_outputs([DUMP], "three", NOW).snapshot
    dumped = import_zk_dump(DUMP, "three", NOW)
    assert made.snapshot_id == dumped.snapshot_id


def test_owned_bundles_are_those_of_the_broker_in_the_name_of_the_file(folder):
    bundle = "acme/n/0x00000000_0x1c71c71c"
    put(folder, "owned-b-2_8080.json", json.dumps({bundle: {"broker_assignment": "shared"}}))
    owners = dict(
        zip(*(taken(folder).bundles[name].to_pylist() for name in ("bundle", "owner")), strict=True)
    )
    assert owners[bundle] == "b-2:8080"


def test_the_snapshot_is_judged_by_the_rules_of_health(folder):
    codes = {one.code for one in assess(taken(folder))}
    assert codes  # no rule fails on what such a snapshot lacks


def test_topics_as_a_real_broker_answers_them_are_taken(folder):
    recorded = FIXTURES / "pulsar" / "modular" / "rest" / "topics_b0.json"
    put(folder, "topics.json", json.dumps(json.loads(recorded.read_text())["body"]))
    topics = taken(folder).topics
    assert topics.num_rows > 10
    assert topics["hash"].to_pylist() == sorted(topics["hash"].to_pylist())


def test_metrics_as_a_real_broker_exposes_them_are_taken(folder):
    recorded = FIXTURES / "pulsar" / "modular" / "rest" / "prometheus_b0.txt"
    put(folder, "b-0_8080.prom", recorded.read_text())
    metrics = taken(folder).broker_metrics.to_pylist()
    assert metrics[0]["broker"] == "b-0:8080"
    assert metrics[0]["topic_count"] > 0
