"""Addresses that clients cannot use, or that several brokers give; local clusters give a note."""

from __future__ import annotations

import pytest
from clusters import cluster, problems
from fleet_builder import make_snapshot
from fleet_edit import with_manifest
from report_cluster import DUMPS, NOW

from core.findings.finding import Finding
from core.pulsar.rules.addresses import Address
from core.pulsar.rules.registry import assess
from core.pulsar.snapshot.zkdump import import_zk_dump
from core.schemas.pulsar import BROKERS
from core.snapshot import PulsarSnapshot
from core.snapshot.store import load_snapshot, save_snapshot

CODES = (
    *("unroutable_address", "loopback_address", "local_addresses", "shared_address"),
    *("listener_missing", "address_missing", "broker_id_port", "leader_named_by_url"),
    "leader_gone",
)
BOTH = pytest.mark.parametrize("manager", ["modular", "extensible"])


def fleet(*brokers: dict, **parts) -> PulsarSnapshot:
    named = [{"name": f"b-{at}.example:8080"} | one for at, one in enumerate(brokers)]
    return cluster(named, **parts)


def only(snapshot: PulsarSnapshot, code: str) -> Finding:
    (found,) = [one for one in assess(snapshot) if one.code == code]
    return found


@BOTH
@pytest.mark.parametrize("count", [1, 2, 200])
def test_brokers_with_addresses_of_their_own_are_no_finding(count, manager):
    brokers = [
        {
            "name": f"10.0.{at // 200}.{at % 200 + 1}:8080",
            "https": f"https://10.0.{at // 200}.{at % 200 + 1}:8443",
            "listeners": {"external": f"pulsar://edge:{31000 + at}"},
            "protocols": {"kafka": f"SASL_PLAINTEXT://edge:{41000 + at}"},
        }
        for at in range(count)
    ]
    assert problems(fleet(*brokers, manager=manager), *CODES) == {}


def test_the_fleets_of_other_tests_have_none():
    assert problems(make_snapshot(), *CODES) == {}


@BOTH
@pytest.mark.parametrize("count", [2, 3, 200])
def test_one_address_of_several_brokers_is_named_with_what_it_costs(count, manager):
    brokers = [{"listeners": {"external": "pulsar://10.96.0.40:30650"}}] * count
    snapshot = fleet(*brokers, manager=manager)
    assert problems(snapshot, *CODES) == {"shared_address": "error"}
    found = only(snapshot, "shared_address")
    assert f"{count} brokers" in found.sentence
    assert "10.96.0.40:30650 (listener external)" in found.sentence
    assert found.keys == ("advertisedListeners",)
    assert found.cost.bundles == 8 * count


def test_only_those_that_share_it_are_named():
    same = {"listeners": {"external": "pulsar://edge:31000"}}
    own = {"listeners": {"external": "pulsar://edge:31002"}}
    assert only(fleet(same, same, own), "shared_address").servers == (
        "b-0.example:8080",
        "b-1.example:8080",
    )


@pytest.mark.parametrize(
    ("brokers", "severity", "key"),
    [
        ({"broker": "pulsar://lb.example:6650"}, "error", "advertisedAddress"),
        ({"broker_ssl": "pulsar+ssl://lb.example:6651"}, "error", "advertisedAddress"),
        (
            {"protocols": {"kafka": "PLAINTEXT://node:9092,SASL_SSL://node:9093"}},
            "warning",
            "kafkaAdvertisedListeners",
        ),
    ],
)
def test_broker_urls_and_protocols_may_be_shared_as_well(brokers, severity, key):
    found = only(fleet(brokers, brokers), "shared_address")
    assert (found.severity, found.keys) == (severity, (key,))


@BOTH
@pytest.mark.parametrize(
    ("broker", "text"),
    [
        ({"name": "0.0.0.0:8080"}, "0.0.0.0:8080 (id, http, broker)"),
        ({"broker": "pulsar://0.0.0.0:6650"}, "0.0.0.0:6650 (broker)"),
        ({"broker": "pulsar://[::]:6650"}, ":::6650 (broker)"),
        ({"listeners": {"out": "pulsar://0.0.0.0:6650"}}, "0.0.0.0:6650 (listener out)"),
        ({"name": "b-1,b-2,b-3:8080"}, "b-1,b-2,b-3:8080 (id, http, broker)"),
    ],
)
def test_an_address_that_leads_nowhere_is_named(broker, text, manager):
    found = only(fleet(broker, manager=manager), "unroutable_address")
    assert text in found.sentence
    assert found.severity == "error"
    assert found.hint.startswith("Set advertised")


def test_brokers_with_the_same_mistake_are_one_finding():
    found = only(fleet(*[{"listeners": {"out": "pulsar://0.0.0.0:6650"}}] * 40), CODES[0])
    assert len(found.servers) == 40
    assert "39 other brokers with the same problem" in found.sentence


@BOTH
@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.1.1", "localhost", "[::1]"])
def test_one_broker_on_its_loopback_among_real_addresses_is_named(host, manager):
    snapshot = fleet({"name": f"{host}:8080"}, {}, {}, manager=manager)
    assert problems(snapshot, *CODES) == {"loopback_address": "error"}
    assert only(snapshot, "loopback_address").servers == (f"{host}:8080",)


@pytest.mark.parametrize(
    "names",
    [
        ["127.0.0.1:8080", "127.0.0.1:8081", "127.0.0.1:8082"],
        ["127.0.0.1:8080", "127.0.0.2:8080"],
        ["localhost:41001", "localhost:41002"],
        ["localhost:40917"],
    ],
)
def test_a_cluster_on_one_host_gives_a_note(names):
    snapshot = cluster([{"name": name} for name in names])
    assert problems(snapshot, *CODES) == {"local_addresses": "info"}


def test_one_broker_at_the_default_port_of_localhost_may_be_several():
    alone = cluster([{"name": "localhost:8080"}])
    assert problems(alone, *CODES) == {"loopback_address": "warning"}
    assert "others with the same address" in only(alone, "loopback_address").consequence
    standalone = with_manifest(alone, pulsar_cluster="standalone")
    assert problems(standalone, *CODES) == {"local_addresses": "info"}


def test_a_loopback_that_several_advertise_is_named_once():
    brokers = [{"listeners": {"internal": "pulsar://127.0.0.1:6650"}}] * 3
    assert problems(fleet(*brokers), *CODES) == {"loopback_address": "error"}


def test_a_protocol_on_loopback_is_a_warning_about_its_own_setting():
    snapshot = fleet({"protocols": {"kafka": "PLAINTEXT://127.0.0.1:9092"}}, {})
    assert only(snapshot, "loopback_address").keys == ("kafkaAdvertisedListeners",)
    assert problems(snapshot, "loopback_address") == {"loopback_address": "warning"}


@BOTH
@pytest.mark.parametrize(
    ("field", "url", "kind", "key"),
    [
        ("https", "https://{}:8443", "https", "webServicePortTls"),
        ("broker_ssl", "pulsar+ssl://{}:6651", "broker+ssl", "brokerServicePortTls"),
    ],
)
def test_a_kind_of_address_that_some_brokers_lack_is_named(field, url, kind, key, manager):
    have = [{field: url.format(f"b-{at}.example")} for at in range(3)]
    found = only(fleet(*have, {}, manager=manager), "address_missing")
    assert found.servers == ("b-3.example:8080",)
    assert found.sentence.startswith(f"No {kind} address: ")
    assert found.sentence.endswith("; with one: 3 brokers of 4.")
    assert found.keys == (key,)
    assert found.cost.bundles == 8


def test_plain_addresses_that_some_lack_are_named():
    tls = {"broker": "", "broker_ssl": "pulsar+ssl://b-0.example:6651"}
    both = {"broker_ssl": "pulsar+ssl://b-1.example:6651"}
    assert "No broker address" in only(fleet(tls, both), "address_missing").sentence
    only_tls = [
        {"broker": "", "broker_ssl": f"pulsar+ssl://b-{at}.example:6651"} for at in range(2)
    ]
    assert problems(fleet(*only_tls), *CODES) == {}


def test_a_broker_whose_registration_was_not_read_lacks_nothing():
    have = [{"https": f"https://b-{at}.example:8443"} for at in range(2)]
    unread = {"http": "", "broker": ""}
    assert "address_missing" not in problems(fleet(*have, unread), *CODES)


@BOTH
def test_a_listener_that_some_brokers_lack_is_named(manager):
    have = [{"listeners": {"external": f"pulsar://edge:{31000 + at}"}} for at in range(2)]
    found = only(fleet(*have, {}, manager=manager), "listener_missing")
    assert found.servers == ("b-2.example:8080",)
    assert "No listener external (pulsar) address" in found.sentence


def test_the_id_names_a_port_of_the_web_service():
    found = only(fleet({"http": "http://b-0.example:8090"}, {}), "broker_id_port")
    assert found.subject == "b-0.example:8080"
    tls = {"name": "b-0.example:8443", "http": "", "https": "https://b-0.example:8443"}
    assert "broker_id_port" not in problems(fleet(tls), *CODES)
    # an internal listener may have another host
    assert problems(fleet({"http": "http://10.0.0.9:8080"}, {}), *CODES) == {}


def test_a_leader_named_by_its_web_address_is_found_and_not_gone():
    at = {"leader_url": "http://10.9.0.1:8080/"}
    snapshot = fleet({"http": "http://10.9.0.1:8080"}, {}, release="2.10.4", cluster=at)
    assert problems(snapshot, *CODES) == {"leader_named_by_url": "warning"}
    gone = with_manifest(fleet({}, {}), leader="10.9.0.7:8080")
    assert problems(gone, *CODES) == {"leader_gone": "warning"}


@pytest.mark.parametrize(
    ("url", "host", "port"),
    [
        ("pulsar+ssl://Edge.Example:6651", "edge.example", 6651),
        ("kafka_external://node-1:19092", "node-1", 19092),
        ("[fe80::1]:8080", "fe80::1", 8080),
        ("b-0:8080", "b-0", 8080),
        ("10.20.0.5:30873:8080", "10.20.0.5:30873:8080", None),
        ("http://host:notaport", "http://host:notaport", None),
    ],
)
def test_addresses_are_read_as_they_are_written(url, host, port):
    found = Address.of("b", "http", url)
    assert (found.host, found.port) == (host, port)


def test_two_ports_are_no_address():
    assert Address.of("b", "id", "10.20.0.5:30873:8080").is_malformed
    assert not Address.of("b", "id", "[fe80::1]:8080").is_malformed


def test_listeners_and_protocols_are_read_and_stored(tmp_path):
    snapshot = import_zk_dump(DUMPS / "serving" / "i14707.jsonl", "c", NOW)
    column = snapshot.brokers["advertised_listeners"].to_pylist()
    assert column[0] == [
        "external:pulsar://10.96.0.40:30650",
        "internal:pulsar://broker-0.svc:6650",
    ]
    save_snapshot(snapshot, tmp_path / "s")
    loaded = load_snapshot(tmp_path / "s")
    assert loaded.snapshot_id == snapshot.snapshot_id
    assert loaded.brokers["advertised_listeners"].to_pylist() == column


def test_a_snapshot_without_those_columns_keeps_its_id():
    old = load_snapshot(DUMPS / "serving" / "c1")  # which checks the id that it was saved with
    assert set(BROKERS.names) == set(old.brokers.schema.names)
    assert old.brokers["protocols"].null_count == old.brokers.num_rows
