"""Recorded znodes to tables: numbers, owners, boundaries, load managers."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from places import FIXTURES

from core.errors import InputError
from core.pulsar.snapshot.zkdump import import_zk_dump
from core.pulsar.snapshot.znodes import Readings, assemble
from core.pulsar.snapshot.znodes.namespaces import boundaries_from_names
from core.snapshot import PulsarSnapshot
from core.snapshot.problems import MAX_PER_CODE, ProblemLog

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)


def rows(table, key: str) -> dict:
    return {row[key]: row for row in table.to_pylist()}


def dump(folder: Path, *entries: dict | bytes) -> Path:
    path = folder / "dump.jsonl"
    lines = [each if isinstance(each, bytes) else json.dumps(each).encode() for each in entries]
    path.write_bytes(b"\n".join(lines))
    return path


@pytest.fixture(scope="module")
def three() -> PulsarSnapshot:
    return import_zk_dump(FIXTURES / "contracts" / "three-brokers.jsonl", "three", NOW)


@pytest.fixture(scope="module")
def idle() -> PulsarSnapshot:
    return import_zk_dump(FIXTURES / "pulsar" / "zk-dump-idle.jsonl", "idle", NOW)


def test_dump_of_loadbalance_only_has_owners_and_boundaries_from_the_reports(
    three: PulsarSnapshot,
) -> None:
    assert three.manifest.problems == ()
    bundle = rows(three.bundles, "bundle")["acme/orders/0x00000000_0x40000000"]
    assert (bundle["owner"], bundle["owner_source"]) == ("10.1.0.1:8080", "report")
    assert bundle["msg_rate_in"] == 30000.0
    assert bundle["long_samples"] == 1000
    namespace = rows(three.namespaces, "namespace")["acme/orders"]
    assert namespace["boundaries_source"] == "bundle-names"
    assert namespace["boundaries"] == [0, 0x40000000, 0x80000000, 0xC0000000, 0xFFFFFFFF]
    newest_report = datetime(2025, 10, 9, 8, 53, 20, tzinfo=UTC)
    assert three.manifest.taken_at == newest_report


def test_broker_bound_namespace_is_marked(three: PulsarSnapshot) -> None:
    bundle = rows(three.bundles, "bundle")["pulsar/10.1.0.3:8080/0x00000000_0xffffffff"]
    assert bundle["is_broker_bound"]
    assert bundle["namespace"] == "pulsar/10.1.0.3:8080"


def test_recorded_cluster_has_every_bundle_of_its_boundaries(idle: PulsarSnapshot) -> None:
    manifest = idle.manifest
    assert manifest.problems == ()
    assert (manifest.leader, manifest.pulsar_cluster, manifest.release) == (
        "127.0.0.1:18080",
        "test",
        "4.2.4",
    )
    orders = [row for row in idle.bundles.to_pylist() if row["namespace"] == "acme/orders"]
    assert len(orders) == 16
    assert [row["lower"] for row in orders] == sorted(row["lower"] for row in orders)
    assert {row["owner_source"] for row in orders} == {"ownership"}
    assert orders[0]["owner"] is None  # nobody owns it: known
    assert manifest.tables["bundles"].coverage_ratio == 1.0


def test_usage_without_a_limit_has_no_ratio(idle: PulsarSnapshot) -> None:
    source = FIXTURES / "pulsar" / "zk-dump-idle.jsonl"
    line = next(each for each in source.read_text().splitlines() if "/brokers/127" in each)
    report = json.loads(line)["value"]
    report["bandwidthIn"] = {"usage": -1.0, "limit": -1.0}  # brokers that are not on Linux
    readings = Readings(brokers={"b:1": json.dumps(report).encode()})
    problems = ProblemLog()
    (row,) = assemble(readings, problems).tables["brokers"].to_pylist()
    assert row["bandwidth_in_usage"] == -1.0
    assert row["bandwidth_in_ratio"] is None
    assert problems.named() == ()


def test_extensible_registry_is_recognised_and_says_what_it_lacks() -> None:
    recorded = json.loads((FIXTURES / "pulsar" / "extensible" / "zk.json").read_text())
    root = "/loadbalance/brokers/"
    readings = Readings(
        brokers={
            path.removeprefix(root): json.dumps(entry["value"]).encode()
            for path, entry in recorded.items()
            if path.startswith(root)
        },
        leader=json.dumps(recorded["/loadbalance/extension/leader"]["value"]).encode(),
    )
    problems = ProblemLog()
    made = assemble(readings, problems)
    assert made.load_manager == "extensible"
    assert made.leader == "127.0.0.1:18080"
    assert made.release == "4.2.4"
    assert made.unavailable
    assert made.tables["brokers"].column("cpu_usage").null_count == 3
    assert problems.named() == ()


def test_legacy_simple_manager_is_named_as_unsupported() -> None:
    report = {"loadReportType": "LoadReport", "webServiceUrl": "http://b:1", "underLoaded": True}
    problems = ProblemLog()
    made = assemble(Readings(brokers={"b:1": json.dumps(report).encode()}), problems)
    assert made.load_manager == "simple"
    assert "unsupported" in {problem.code for problem in problems.named()}
    assert made.unavailable


def test_two_load_managers_at_once_are_named() -> None:
    reports = {
        "a:1": {"loadReportType": "LoadReport", "webServiceUrl": "http://a:1"},
        "b:1": {"loadManagerClassName": "x.ExtensibleLoadManagerImpl", "brokerVersion": "4.2.4"},
    }
    problems = ProblemLog()
    readings = Readings(brokers={name: json.dumps(r).encode() for name, r in reports.items()})
    assert assemble(readings, problems).load_manager == "mixed"
    assert "inconsistent" in {problem.code for problem in problems.named()}


def test_bundle_in_two_reports_belongs_to_the_owner_else_to_the_newer_report() -> None:
    name = "t/n/0x00000000_0xffffffff"

    def report(rate: float, at: int) -> bytes:
        return json.dumps({"lastUpdate": at, "lastStats": {name: {"msgRateIn": rate}}}).encode()

    readings = Readings(brokers={"a:1": report(1.0, 10), "b:1": report(2.0, 20)})
    (row,) = assemble(readings, ProblemLog()).tables["bundles"].to_pylist()
    assert (row["reported_by"], row["msg_rate_in"]) == ("b:1", 2.0)
    readings.ownership = {name: b'{"httpUrl":"http://a:1"}'}
    readings.owners_known = True
    (row,) = assemble(readings, ProblemLog()).tables["bundles"].to_pylist()
    assert (row["reported_by"], row["owner"], row["msg_rate_in"]) == ("a:1", "a:1", 1.0)


def test_old_leader_znode_with_an_address_only_is_understood() -> None:
    readings = Readings(leader=b'{"serviceUrl":"http://a:8080"}')
    assert assemble(readings, ProblemLog()).leader == "a:8080"


def test_dynamic_settings_are_rows_and_other_than_texts_are_named(tmp_path: Path) -> None:
    entry = {"path": "/admin/configuration", "value": {"a": "1", "b": 2}}
    snapshot = import_zk_dump(dump(tmp_path, entry), "x", NOW)
    assert [(row["name"], row["origin"]) for row in snapshot.settings.to_pylist()] == [
        ("a", "dynamic")
    ]
    assert snapshot.manifest.problems[0].code == "malformed"


def test_bad_lines_are_named_by_number_and_the_rest_loads(tmp_path: Path) -> None:
    good = (FIXTURES / "contracts" / "three-brokers.jsonl").read_bytes().splitlines()
    path = dump(tmp_path, good[0], b"not json", b"[]", b"", b'{"value":1}', *good[1:])
    snapshot = import_zk_dump(path, "x", NOW)
    assert [problem.place for problem in snapshot.manifest.problems] == [
        "dump.jsonl line 2",
        "dump.jsonl line 3",
        "dump.jsonl line 5",
    ]
    assert snapshot.brokers.num_rows == 3


def test_quoted_values_are_understood(tmp_path: Path) -> None:
    value = json.dumps({"brokerId": "a:1"})
    snapshot = import_zk_dump(
        dump(tmp_path, {"path": "/loadbalance/leader", "value": value}), "x", NOW
    )
    assert snapshot.manifest.leader == "a:1"


def test_file_without_znodes_of_pulsar_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="has no znode"):
        import_zk_dump(dump(tmp_path, {"path": "/x", "value": 1}), "x", NOW)
    with pytest.raises(InputError, match="cannot be read"):
        import_zk_dump(tmp_path / "absent", "x", NOW)


@pytest.mark.parametrize(
    ("ranges", "bounds"),
    [
        ([(0, 5), (5, 0xFFFFFFFF)], [0, 5, 0xFFFFFFFF]),
        ([(5, 0xFFFFFFFF), (0, 5)], [0, 5, 0xFFFFFFFF]),
        ([(0, 5)], None),
        ([(5, 0xFFFFFFFF)], None),
        ([(0, 5), (6, 0xFFFFFFFF)], None),
        ([(0, 5), (0, 0xFFFFFFFF)], None),
        ([], None),
    ],
)
def test_boundaries_from_names_only_where_they_tile(ranges, bounds) -> None:
    assert boundaries_from_names(ranges) == bounds


def test_thousands_of_problems_are_counted_not_listed() -> None:
    log = ProblemLog()
    for number in range(MAX_PER_CODE + 50):
        log.add("malformed", f"/p/{number}", "It is bad.")
        log.add("malformed", f"/p/{number}", "It is bad.")
    named = log.named()
    assert len(named) == MAX_PER_CODE + 1
    assert "50 more" in named[-1].what


def test_problems_of_two_logs_are_counted_together() -> None:
    found, whole = ProblemLog(), ProblemLog()
    for number in range(250):
        found.add("auth", f"/{number}", "Not allowed.", severity="error")
    whole.add("auth", "elsewhere", "Not allowed.")
    whole.extend(found)
    named = whole.named()
    assert len(whole) == 251
    assert len(named) == 101
    assert (named[-1].what[:3], named[-1].severity) == ("151", "error")


@pytest.mark.parametrize(("group", "named"), [('"grp1"', True), ("grp1", False)])
def test_anti_affinity_group_that_was_stored_with_its_quotes_is_named(group, named) -> None:
    policies = {
        "bundles": {"boundaries": ["0x00000000", "0xffffffff"], "numBundles": 1},
        "namespaceAntiAffinityGroup": group,
    }
    problems = ProblemLog()
    readings = Readings(local_policies={"acme/orders": json.dumps(policies).encode()})
    made = assemble(readings, problems)
    (namespace,) = made.tables["namespaces"].to_pylist()
    assert namespace["anti_affinity_group"] == group
    places = [each.place for each in problems.named() if "quotes" in each.what]
    assert places == (["/admin/local-policies/acme/orders"] if named else [])


@pytest.mark.parametrize("value", [b'"\xff"', b'"\\q"', b'"\\ud800"', b'"', b"\x00"])
def test_quoted_value_that_is_no_text_costs_its_line_only(tmp_path: Path, value: bytes) -> None:
    leader = {"path": "/loadbalance/leader", "value": {"brokerId": "a:1"}}
    line = b'{"path": "/loadbalance/brokers/a:1", "value": ' + value + b"}"
    snapshot = import_zk_dump(dump(tmp_path, leader, line), "x", NOW)
    assert snapshot.manifest.leader == "a:1"
    assert [problem.place for problem in snapshot.manifest.problems] == ["dump.jsonl line 2"]


def _owned(bundle: str, **more: object) -> dict:
    value = {"nativeUrl": "pulsar://b-0:6650", "httpUrl": "http://b-0:8080"}
    shut = {"disabled": more.pop("disabled")} if "disabled" in more else {}
    return {"path": f"/namespace/{bundle}", "value": {**value, **shut}, **more}


def test_claims_have_what_a_dump_tells_of_a_znode(tmp_path: Path) -> None:
    names = [f"acme/n/0x{at}0000000_0x{at + 2}0000000" for at in (0, 2, 4)]
    entries = [
        _owned(names[0], disabled=True, mtime=1_700_000_100_000),
        _owned(names[1], disabled=False, ctime=1_700_000_000_000, ephemeralOwner=7),
        _owned(names[2], ephemeral=False),
    ]
    claims = rows(import_zk_dump(dump(tmp_path, *entries), "c", NOW).claims, "subject")
    columns = ("broker", "session_id", "created_at", "modified_at", "is_disabled")
    found = [tuple(claims[name][column] for column in columns) for name in names]
    assert found == [
        ("b-0:8080", None, None, 1_700_000_100_000, True),
        ("b-0:8080", 7, 1_700_000_000_000, None, False),
        ("b-0:8080", 0, None, None, None),
    ]


def test_averages_that_are_left_over_are_one_note_and_no_bundles(tmp_path: Path) -> None:
    whole = {"bundles": {"boundaries": ["0x00000000", "0x80000000", "0xffffffff"]}}
    left = [
        "acme/n/0x00000000_0x40000000",
        "acme/n/0x40000000_0x80000000",
        "acme/gone/0x00000000_0xffffffff",
    ]
    entries = [{"path": f"/loadbalance/bundle-data/{name}", "value": {}} for name in left]
    entries.append({"path": "/admin/local-policies/acme/n", "value": whole})
    snapshot = import_zk_dump(dump(tmp_path, *entries), "c", NOW)
    assert snapshot.bundles["namespace"].to_pylist() == ["acme/n", "acme/n"]
    notes = [one for one in snapshot.manifest.problems if one.code == "leftover"]
    assert [one.severity for one in notes] == ["info"]
    assert "3 bundles that no policies list, of acme/gone, acme/n" in notes[0].what
    only = import_zk_dump(dump(tmp_path, *entries[:3]), "c", NOW)  # no policies in it
    assert only.bundles.num_rows == 3
