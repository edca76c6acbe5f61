"""Configuration files of brokers: what is read of them, and what the doctor says about it."""

from __future__ import annotations

import gzip
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from core.errors import InputError
from core.pulsar.catalogue import SETTINGS
from core.pulsar.catalogue.broker_keys import broker_keys, near_keys
from core.pulsar.releases import RELEASES
from core.pulsar.rules.doctor.examine import Examination
from core.pulsar.rules.doctor.of_config import examine_config
from core.pulsar.settings import effective_settings
from core.pulsar.snapshot.config_files import (
    read_broker_conf,
    read_helm_values,
    snapshot_of_config,
)
from core.pulsar.snapshot.config_files.memory import memory_limits

NOW = datetime(2026, 11, 28, 12, 0, tzinfo=UTC)
EXTENSIBLE = "org.apache.pulsar.broker.loadbalance.extensions.ExtensibleLoadManagerImpl"
IMPL = "org.apache.pulsar.broker.loadbalance.impl."
TRANSFER = "org.apache.pulsar.broker.loadbalance.extensions.scheduler.TransferShedder"
PAIR = f"""\
loadBalancerLoadSheddingStrategy={IMPL}ThresholdShedder
loadBalancerLoadPlacementStrategy={IMPL}LeastResourceUsageWithWeight
"""


def conf(tmp_path: Path, text: str | bytes, release: str | None = "3.0.7") -> Examination:
    path = tmp_path / "broker.conf"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    config = read_broker_conf(path)
    snapshot = snapshot_of_config(config, NOW, release)
    return examine_config(config, snapshot, effective_settings(snapshot, release=release))


def helm(tmp_path: Path, text: str, release: str | None = None) -> Examination:
    path = tmp_path / "values.yaml"
    path.write_text(text)
    config = read_helm_values(path)
    snapshot = snapshot_of_config(config, NOW, release)
    return examine_config(config, snapshot, effective_settings(snapshot, release=release))


def found(examination: Examination) -> dict[str, Any]:
    """What is at warning or above, by code."""
    return {one.code: one for one in examination.warnings}


# -- keys -------------------------------------------------------------------------------------


def test_every_setting_of_the_catalogue_is_a_key_of_a_broker():
    assert {one.key for one in SETTINGS} <= broker_keys().keys()
    assert len(broker_keys()) > 550


def test_a_key_exists_from_its_first_line_to_its_last():
    gone = broker_keys()["managedLedgerNumWorkerThreads"]
    assert [line for line in RELEASES if gone.exists_in(line)] == ["2.8", "2.9", "2.10"]
    assert all(broker_keys()["zookeeperServers"].exists_in(line) for line in RELEASES)


@pytest.mark.parametrize(
    ("key", "near"),
    [
        ("maxConcurrentLookupRequests", ["maxConcurrentLookupRequest"]),
        ("loadbalancerEnabled", ["loadBalancerEnabled"]),
        ("LOADBALANCERENABLED", ["loadBalancerEnabled"]),
        ("loadBalancerSheddingIntervalMinute", ["loadBalancerSheddingIntervalMinutes"]),
        ("com.example.audit.endpoint", []),
    ],
)
def test_the_near_key_is_the_one_that_was_meant(key, near):
    assert near_keys(key) == near


# -- broker.conf ------------------------------------------------------------------------------


def test_a_sound_file_has_no_warning(tmp_path):
    text = f"""# broker
zookeeperServers=zk-0:2181,zk-1:2181
clusterName=c
{PAIR}loadBalancerSheddingIntervalMinutes = 1
tokenSecretKey=file:///secret
s3ManagedLedgerOffloadMaxBlockSizeInBytes=67108864
loadBalancerOverrideBrokerNicSpeedGbps=
"""
    assert not conf(tmp_path, text).warnings


def test_settings_that_are_not_in_the_file_are_the_defaults_and_not_assumed(tmp_path):
    examination = conf(tmp_path, PAIR)
    assert not examination.assumed
    assert not [one for one in examination.diagnoses if one.assumed]


@pytest.mark.parametrize("line", ["loadBalancerEnabled=yes", "loadBalancerEnabled=true # on"])
def test_a_truth_value_that_is_none_is_read_as_false(tmp_path, line):
    one = found(conf(tmp_path, f"{PAIR}{line}\n"))["value_read_as_false"]
    assert one.keys == ("loadBalancerEnabled",)


@pytest.mark.parametrize("text", ["TRUE", "true  ", "False"])
def test_truth_values_in_any_case_and_with_spaces_are_right(tmp_path, text):
    assert "value_read_as_false" not in found(conf(tmp_path, f"{PAIR}failureDomainsEnabled={text}"))


@pytest.mark.parametrize(
    "line",
    [
        "loadBalancerSheddingIntervalMinutes=1m",
        "loadBalancerSheddingIntervalMinutes=1.0",
        "loadBalancerBrokerMaxTopics=3000000000",
        "managedLedgerDefaultWriteQuorum=0",
        "loadBalancerHistoryResourcePercentage=0,9",
        "loadBalancerOverrideBrokerNicSpeedGbps=10G",
    ],
)
def test_a_value_with_which_a_broker_does_not_start_is_an_error(tmp_path, line):
    one = found(conf(tmp_path, f"{PAIR}{line}\n"))["value_refused"]
    assert one.severity == "error"
    assert not one.assumed
    assert one.keys == (line.partition("=")[0],)


def test_shares_out_of_range_are_named_and_a_switched_off_limit_is_not(tmp_path):
    text = f"{PAIR}maxUnloadPercentage=20\nloadBalancerBrokerThresholdShedderPercentage=-5\n"
    examination = conf(tmp_path, text)
    out = [one for one in examination.warnings if one.code == "value_out_of_range"]
    assert {one.subject for one in out} == {
        "maxUnloadPercentage",
        "loadBalancerBrokerThresholdShedderPercentage",
    }
    high = conf(tmp_path, f"{PAIR}loadBalancerMsgRateDifferenceShedderThreshold=200\n")
    assert "value_out_of_range" not in found(high)


def test_a_dead_key_is_never_written_back(tmp_path):
    text = f"{PAIR}loadBalancerPlacementStrategy=least_loaded\n"
    one = found(conf(tmp_path, text))["similar_placement"]
    assert one.keys == ("loadBalancerPlacementStrategy",)
    assert "not a valid value" in one.sentence
    assert not one.fix.lines
    assert not one.fix.wanted


def test_the_well_spelt_weight_is_not_offered_to_a_release_without_it(tmp_path):
    text = f"{PAIR}loadBalancerBandwithInResourceWeight=0.5\n"
    assert "similar_keys" not in found(conf(tmp_path, text, "3.0.7"))
    assert "similar_keys" in found(conf(tmp_path, text, "4.0.8"))


def test_no_fix_names_a_key_that_the_release_does_not_have(tmp_path):
    text = "".join(
        f"{one.key}={value}\n"
        for one in SETTINGS
        if one.kind in ("int", "float")
        for value in (1 if one.default != 1 else 2,)
    )
    for release in RELEASES:
        examination = conf(tmp_path, text, release)
        settings = {one.key: one for one in SETTINGS}
        for one in examination.diagnoses:
            keys = [line.partition("=")[0] for line in one.fix.lines]
            assert all(settings[key].exists_in(release) for key in keys), (release, one.code, keys)


def test_keys_of_other_releases_are_a_note(tmp_path):
    text = f"{PAIR}managedLedgerNumWorkerThreads=8\nloadBalancerServiceUnitTableViewSyncer=None\n"
    examination = conf(tmp_path, text, "3.0.7")
    notes = [one for one in examination.diagnoses if one.code == "keys_of_other_releases"]
    assert [one.keys for one in notes] == [("managedLedgerNumWorkerThreads",)]
    assert {one.severity for one in notes} == {"info"}
    assert "setting_without_effect" in found(examination)  # of the load balancer: release_gaps
    old = conf(tmp_path, f"{PAIR}managedLedgerNumWorkerThreads=8\n", "2.8.4")
    assert "keys_of_other_releases" not in {one.code for one in old.diagnoses}


def test_the_extensible_manager_replaces_a_named_strategy_even_the_default(tmp_path):
    head = f"loadManagerClassName={EXTENSIBLE}\n"
    named = conf(tmp_path, f"{head}loadBalancerLoadSheddingStrategy={IMPL}ThresholdShedder\n")
    one = found(named)["class_of_other_manager"]
    assert "TransferShedder" in one.consequence
    right = conf(tmp_path, f"{head}loadBalancerLoadSheddingStrategy={TRANSFER}\n")
    unset = conf(tmp_path, head)
    assert not right.warnings
    assert not unset.warnings


def test_a_setting_of_a_strategy_that_is_not_active_has_no_effect(tmp_path):
    examination = conf(tmp_path, f"{PAIR}maxUnloadPercentage=0.4\n")
    (one,) = [one for one in examination.diagnoses if one.code == "of_other_strategy"]
    assert one.keys == ("maxUnloadPercentage",)
    assert one.severity == "info"
    uniform = PAIR.replace("ThresholdShedder", "UniformLoadShedder")
    codes = {one.code for one in conf(tmp_path, f"{uniform}maxUnloadPercentage=0.4\n").diagnoses}
    assert "of_other_strategy" not in codes


def test_equal_keys_with_different_values_are_named_and_secrets_are_not(tmp_path):
    text = f"{PAIR}loadBalancerEnabled=true\nbrokerClientAuthenticationParameters=token:aa\n"
    text += "loadBalancerEnabled=false\nbrokerClientAuthenticationParameters=token:bb\n"
    examination = conf(tmp_path, text)
    twice = {one.subject: one for one in examination.warnings if one.code == "key_twice"}
    assert "true (line 3), false (line 5)" in twice["loadBalancerEnabled"].sentence
    assert "token" not in str(twice["brokerClientAuthenticationParameters"])
    same = conf(tmp_path, f"{PAIR}loadBalancerEnabled=true\nloadBalancerEnabled=true\n")
    assert not same.warnings


def test_windows_line_ends_spaces_and_continuations_are_read(tmp_path):
    text = (
        PAIR.replace("\n", "\r\n") + "loadBalancerSheddingExcludedNamespaces : a/b,\\\r\n  c/d\r\n"
    )
    text += "loadBalancerBrokerMaxTopics   =  7  \r\n"
    path = tmp_path / "broker.conf"
    path.write_bytes(text.encode())
    config = read_broker_conf(path)
    assert config.values["loadBalancerSheddingExcludedNamespaces"] == "a/b,c/d"
    assert config.values["loadBalancerBrokerMaxTopics"] == "7"
    assert config.lines["loadBalancerBrokerMaxTopics"] == "line 5"


def test_a_byte_order_mark_hides_the_first_key(tmp_path):
    marked = b"\xef\xbb\xbf"
    one = found(conf(tmp_path, marked + b"loadBalancerEnabled=false\n" + PAIR.encode()))
    assert one["byte_order_mark"].keys == ("loadBalancerEnabled",)
    assert not conf(tmp_path, marked + b"# comment\n" + PAIR.encode()).warnings


def test_variables_of_the_environment_are_read(tmp_path):
    path = tmp_path / "broker.env"
    path.write_text(
        "PULSAR_PREFIX_loadBalancerEnabled=false\n"
        'PULSAR_MEM="-Xms1g -Xmx2g -XX:MaxDirectMemorySize=4g"\nPF_workerId=x\n'
    )
    config = read_broker_conf(path)
    assert config.values == {"loadBalancerEnabled": "false"}
    assert (config.heap_mib, config.direct_memory_mib) == (2048.0, 4096.0)


def test_a_compressed_file_is_read(tmp_path):
    path = tmp_path / "broker.conf.gz"
    path.write_bytes(gzip.compress(PAIR.encode()))
    assert len(read_broker_conf(path).values) == 2


@pytest.mark.parametrize(
    "body",
    [b"", b"  \n\n", b"# only a comment\n", b'{"a": 1}', b"\x1f\x8bdamaged", b"key=\\u12\n"],
)
def test_what_is_no_configuration_is_refused_with_its_name(tmp_path, body):
    path = tmp_path / "broker.conf"
    path.write_bytes(body)
    with pytest.raises(InputError, match=r"broker\.conf"):
        read_broker_conf(path)


def test_a_file_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(InputError, match="cannot be read"):
        read_broker_conf(tmp_path / "none.conf")


# -- Helm -------------------------------------------------------------------------------------

APACHE = f"""
defaultPulsarImageTag: 4.0.8
broker:
  replicaCount: 5
  configData:
    PULSAR_MEM: >
      -Xms128m -Xmx2048m
      -XX:MaxDirectMemorySize=4096m
    PULSAR_GC: "-XX:+UseZGC"
    managedLedgerDefaultWriteQuorum: "2"
    PULSAR_PREFIX_loadBalancerLoadPlacementStrategy: "{IMPL}LeastResourceUsageWithWeight"
bookkeeper:
  configData:
    loadBalancerEnabled: "false"
"""
OPERATOR = f"""
apiVersion: zookeeper.streamnative.io/v1alpha1
kind: ZooKeeperCluster
---
apiVersion: pulsar.streamnative.io/v1alpha1
kind: PulsarBroker
metadata: {{name: private-cloud}}
spec:
  image: streamnative/private-cloud:3.0.7.4
  replicas: 3
  pod:
    jvmOptions:
      memoryOptions: ["-Xms2g -Xmx2g", "-XX:MaxDirectMemorySize=2g"]
  config:
    custom:
      PULSAR_PREFIX_loadManagerClassName: {EXTENSIBLE}
      loadBalancerLoadSheddingStrategy: {TRANSFER}
"""


def test_the_apache_chart_is_read(tmp_path):
    path = tmp_path / "values.yaml"
    path.write_text(APACHE)
    config = read_helm_values(path)
    assert (config.release, config.brokers) == ("4.0.8", 5)
    assert (config.heap_mib, config.direct_memory_mib) == (2048.0, 4096.0)
    assert config.values.keys() == {
        "managedLedgerDefaultWriteQuorum",
        "loadBalancerLoadPlacementStrategy",
    }
    snapshot = snapshot_of_config(config, NOW, None)
    assert snapshot.brokers["direct_memory_limit"].to_pylist() == [4096.0] * 5
    assert not helm(tmp_path, APACHE).warnings


def test_a_chart_below_the_name_of_a_dependency_is_read(tmp_path):
    nested = "pulsar:\n" + "".join(f"  {line}\n" for line in APACHE.splitlines())
    assert not helm(tmp_path, nested).warnings
    path = tmp_path / "values.yaml"
    assert (
        read_helm_values(path)
        .lines["managedLedgerDefaultWriteQuorum"]
        .endswith("pulsar.broker.configData")
    )


def test_the_manifest_of_the_operator_is_read(tmp_path):
    path = tmp_path / "broker.yaml"
    path.write_text(OPERATOR)
    config = read_helm_values(path)
    assert (config.release, config.brokers, config.direct_memory_mib) == ("3.0.7", 3, 2048.0)
    assert snapshot_of_config(config, NOW, None).manifest.load_manager == "extensible"
    assert not helm(tmp_path, OPERATOR).warnings


def test_the_streamnative_chart_is_read(tmp_path):
    text = f"""
images: {{broker: {{repository: streamnative/sn-platform, tag: "3.3.3.3"}}}}
broker:
  replicaCount: 3
  jvm: {{memoryOptions: ["-Xmx4g -XX:MaxDirectMemorySize=8g"], extraOptions: []}}
  configData:
    loadManagerClassName: "{EXTENSIBLE}"
    loadBalancerDebugModeEnabled: "true"
"""
    examination = helm(tmp_path, text)
    one = found(examination)["debug_changes_result"]
    assert "Remove loadBalancerDebugModeEnabled" in one.hint
    config = read_helm_values(tmp_path / "values.yaml")
    assert (config.release, config.direct_memory_mib) == ("3.3.3", 8192.0)


def test_a_rendered_config_map_is_read(tmp_path):
    data = {"loadBalancerEnabled": "no", "PULSAR_MEM": '"-Xmx1g"'}
    document = {"kind": "ConfigMap", "metadata": {"name": "p-broker"}, "data": data}
    assert "value_read_as_false" in found(helm(tmp_path, json.dumps(document)))


def test_anchors_merges_and_numbers_are_read(tmp_path):
    text = """
base: &base
  loadBalancerBrokerOverloadedThresholdPercentage: 85
more: &more
  <<: *base
  loadBalancerEnabled: true
broker:
  configData:
    <<: *more
    loadBalancerBrokerMaxTopics: "7"
"""
    examination = helm(tmp_path, text)
    one = found(examination)["value_not_text"]
    assert set(one.keys) == {
        "loadBalancerBrokerOverloadedThresholdPercentage",
        "loadBalancerEnabled",
    }
    assert "value_read_as_false" not in found(examination)


def test_a_key_twice_in_one_mapping_is_named(tmp_path):
    text = 'broker:\n  configData:\n    maxMessageSize: "5"\n    maxMessageSize: "7"\n'
    assert "line 3" in found(helm(tmp_path, text))["key_twice"].sentence


def test_a_fix_is_a_line_of_the_chart(tmp_path):
    text = APACHE.replace("LeastResourceUsageWithWeight", "LeastLongTermMessageRate")
    one = found(helm(tmp_path, text))["measures_differ"]
    assert one.fix.lines == (
        f'PULSAR_PREFIX_loadBalancerLoadPlacementStrategy: "{IMPL}LeastResourceUsageWithWeight"',
    )
    assert not one.fix.wanted


def test_a_template_is_not_judged_and_named(tmp_path):
    text = 'broker:\n  configData:\n    loadBalancerEnabled: "{{ .Values.on }}"\n'
    examination = helm(tmp_path, text)
    assert "value_read_as_false" not in found(examination)
    assert any("loadBalancerEnabled" in one for one in examination.unjudged)


def test_a_release_that_is_not_named_is_said(tmp_path):
    assert any("--release" in one for one in conf(tmp_path, PAIR, None).unjudged)
    assert not any("--release" in one for one in conf(tmp_path, PAIR, "4.2").unjudged)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "broker: [1, 2\n",
        "a: &a [*a, *a]\n",
        "proxy:\n  configData: {}\n",
        "- 1\n- 2\n",
        "{{- if .Values.x }}\n",
        "a: &a [x, x, x, x, x, x, x, x, x]\n"
        + "".join(
            f"a{n}: &a{n} [{', '.join([f'*a{n - 1}' if n else '*a'] * 9)}]\n" for n in range(9)
        ),
    ],
)
def test_what_is_no_values_file_is_refused_with_its_name(tmp_path, text):
    path = tmp_path / "values.yaml"
    path.write_text(text)
    with pytest.raises(InputError, match=r"values\.yaml"):
        read_helm_values(path)


@pytest.mark.parametrize(
    ("options", "limits"),
    [
        ("-Xmx2g", (2048.0, 2048.0)),
        ("-Xmx1024k -XX:MaxDirectMemorySize=1t", (1.0, 1048576.0)),
        ("-Xmx1g -Xmx3G", (3072.0, 3072.0)),
        ("-XX:MaxDirectMemorySize=104857600", (None, 100.0)),
        ("-XX:MaxRAMPercentage=70", (None, None)),
        ("", (None, None)),
    ],
)
def test_limits_of_memory(options, limits):
    assert memory_limits(options) == limits
