"""States that counts of healthy partitions do not show, read from servers by the real protocol."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

import pytest
from pegasus_diagnosis import diagnose

from connectors.config.model import ClusterConfig
from connectors.pegasus.collect import PegasusCollector
from connectors.pegasus.http.client import HttpClient
from connectors.pegasus.rpc import idl
from connectors.sandbox.pegasus import tables
from connectors.sandbox.pegasus.fleet import PegasusOptions, PegasusSandbox
from core.findings.finding import Finding
from core.pegasus.answers import BackupPolicyEntry, DuplicationEntry
from core.pegasus.balance.preconditions import obstacles
from core.pegasus.balance.rounds import balance_round
from core.pegasus.rules.registry import assess_pegasus
from core.pegasus.snapshot import PegasusFacts
from core.pegasus.summary import summarize_tables
from core.snapshot.pegasus import PegasusSnapshot

DENY = "replica.deny_client_request"
THROTTLE = "replica.write_throttling"


@pytest.fixture
def sandbox() -> Iterator[PegasusSandbox]:
    with PegasusSandbox(PegasusOptions(tick_s=0.2)) as running:
        yield running


@pytest.fixture
def collector(sandbox: PegasusSandbox) -> Iterator[PegasusCollector]:
    config = ClusterConfig(
        name="sandbox", kind="pegasus", meta_servers=sandbox.meta_servers, rate_sample_s=0.2
    )
    one = PegasusCollector(config)
    yield one
    one.close()


def found(snapshot: PegasusSnapshot) -> dict[str, Finding]:
    return {one.code: one for one in assess_pegasus(PegasusFacts(snapshot))}


def table(snapshot: PegasusSnapshot, name: str):
    return next(one for one in summarize_tables(PegasusFacts(snapshot)) if one.name == name)


TABLE_CODES = {
    "writes_refused",
    "requests_denied",
    "requests_throttled",
    "table_splitting",
    "split_hung",
    "duplication_state",
    "duplication_late",
    "duplication_paused",
    "duplication_stuck",
    "duplication_unknown",
    "backup_overdue",
    "backup_disabled",
    "proposals_refused",
}


def test_an_ordinary_cluster_has_none_of_them(collector):
    assert not TABLE_CODES & set(found(collector.collect()))


def test_a_single_replica_is_whole_and_takes_no_write(sandbox, collector):
    sandbox.change(lambda state: tables.create_table(state, "one", 4, 1))
    snapshot = collector.collect()
    finding = found(snapshot)["writes_refused"]
    assert (finding.severity, finding.subject, finding.cost.bundles) == ("error", "one", 4)
    assert "a write needs 2" in finding.sentence
    assert "partitions_unwritable" not in found(snapshot)  # nothing is missing: one finding
    assert table(snapshot, "one").unwritable == 4
    assert diagnose(snapshot).causes[0].code == "writes_refused"


@pytest.mark.parametrize("minimum", [0, 1])
def test_a_single_replica_takes_writes_where_the_servers_say_so(sandbox, collector, minimum):
    def lower(state):
        tables.create_table(state, "one", 4, 1)
        for node in state.nodes.values():
            node.flags["mutation_2pc_min_replica_count"] = minimum

    sandbox.change(lower)
    snapshot = collector.collect()
    assert "writes_refused" not in found(snapshot)
    assert table(snapshot, "one").unwritable == 0


def test_the_flag_of_the_primarys_own_server_decides(sandbox, collector):
    def lower(state):
        tables.create_table(state, "one", 5, 1)
        next(iter(state.nodes.values())).flags["mutation_2pc_min_replica_count"] = 1

    sandbox.change(lower)
    assert table(collector.collect(), "one").unwritable == 4  # five partitions on five nodes


@pytest.mark.parametrize(
    ("value", "requests", "unwritable"),
    [("reconfig*all", ["reads", "writes"], 1), ("timeout*write", ["writes"], 1),
     ("reconfig*read", ["reads"], 0)],
)  # fmt: skip
def test_denied_requests_are_an_error(sandbox, collector, value, requests, unwritable):
    sandbox.change(lambda state: tables.set_env(state, "temp", DENY, value))
    snapshot = collector.collect()
    finding = found(snapshot)["requests_denied"]
    assert finding.severity == "error"
    assert finding.evidence["requests"] == requests
    one = table(snapshot, "temp")
    assert one.unwritable == unwritable * one.partition_count
    sandbox.change(lambda state: tables.set_env(state, "temp", DENY, None))
    assert "requests_denied" not in found(collector.collect())


def test_a_limit_that_requests_meet_is_a_warning_and_one_far_away_a_note(sandbox, collector):
    sandbox.change(lambda state: tables.set_env(state, "temp", THROTTLE, "8*delay*100"))
    assert found(collector.collect())["requests_throttled"].severity == "warning"
    sandbox.change(lambda state: tables.set_env(state, "temp", THROTTLE, "0*delay*100"))
    assert "requests_throttled" not in found(collector.collect())  # 0: no limit


def test_a_split_is_no_outage_and_nothing_is_balanced(sandbox, collector):
    sandbox.change(lambda state: tables.begin_split(state, "temp"))
    before = collector.collect()
    facts = PegasusFacts(before)
    count = table(before, "temp").partition_count
    finding = found(before)["table_splitting"]
    assert finding.severity == "info"
    assert finding.evidence["left"] == count // 2
    assert not {"partitions_dead", "partition_lost"} & set(found(before))
    assert table(before, "temp").states["splitting"] == count // 2
    assert table(before, "temp").unwritable == 0
    assert facts.verdict().state == "unknown"
    assert "split" in facts.verdict().sentence
    view, (options, _) = facts.view(), facts.options()
    assert balance_round(view, options) == []
    assert any("partition split" in one for one in obstacles(view))
    sandbox.change(lambda state: tables.register_children(state, "temp", 1))
    assert found(collector.collect())["table_splitting"].evidence["registered"] == 1
    sandbox.change(lambda state: tables.register_children(state, "temp", count))
    after = collector.collect()
    assert "table_splitting" not in found(after)
    assert table(after, "temp").states["healthy"] == count


def test_a_split_without_progress_is_told_by_two_snapshots(sandbox, collector):
    sandbox.change(lambda state: tables.begin_split(state, "temp"))
    first, second = collector.collect(), collector.collect()
    later = _later(second, minutes=15)
    codes = {one.code: one for one in assess_pegasus(PegasusFacts(later), [first])}
    assert codes["split_hung"].severity == "warning"
    assert codes["split_hung"].since == first.manifest.taken_at
    sandbox.change(lambda state: tables.register_children(state, "temp", 1))
    moved = _later(collector.collect(), minutes=15)
    assert "split_hung" not in {one.code for one in assess_pegasus(PegasusFacts(moved), [first])}


def _later(snapshot: PegasusSnapshot, minutes: int) -> PegasusSnapshot:
    taken_at = snapshot.manifest.taken_at + timedelta(minutes=minutes)
    return replace(snapshot, manifest=replace(snapshot.manifest, taken_at=taken_at))


def duplication(**changes) -> DuplicationEntry:
    fields = {
        "app_id": 0, "dup_id": 1, "status": "log", "remote": "other", "remote_table": "temp",
        "fail_mode": "slow", "create_ms": 1_700_000_000_000, "partitions": 8,
        "lags": dict.fromkeys(range(8), 0),
    }  # fmt: skip
    return DuplicationEntry(**{**fields, **changes})


@pytest.mark.parametrize(
    ("changes", "code", "severity"),
    [
        ({}, "duplication_state", "info"),
        ({"status": "pause"}, "duplication_paused", "warning"),
        ({"lags": {0: 5, 3: 90_000_000}}, "duplication_late", "warning"),
        ({"lags": {0: 9_000}}, "duplication_state", "info"),
        ({"status": "app"}, "duplication_stuck", "warning"),
    ],
)
def test_a_duplication_has_state_and_lag(sandbox, collector, changes, code, severity):
    sandbox.change(lambda state: tables.duplicate(state, "temp", duplication(**changes)))
    snapshot = collector.collect()
    finding = found(snapshot)[code]
    assert finding.severity == severity
    if code == "duplication_paused":
        assert "`start_dup temp " in finding.hint
    row = snapshot.tables["duplications"].to_pylist()[0]
    lags = duplication(**changes).lags
    assert (row["max_lag"], row["total_lag"]) == (max(lags.values()), sum(lags.values()))
    assert table(snapshot, "temp").notes[0].startswith("duplicated to other: ")


def test_policies_of_backups_are_read(sandbox, collector):
    day_ms = 86_400_000
    now_ms = int(collector.collect().manifest.taken_at.timestamp() * 1000)
    for name, started in (("late", now_ms - 3 * day_ms), ("fresh", now_ms - day_ms // 2)):
        policy = BackupPolicyEntry(
            name, "local", 86_400, (1,), 3, "02:00", is_disabled=False,
            last_start_ms=started, last_end_ms=started + 1000,
        )  # fmt: skip
        sandbox.change(lambda state, one=policy: tables.add_policy(state, one))
    snapshot = collector.collect()
    findings = list(assess_pegasus(PegasusFacts(snapshot)))
    assert [one.subject for one in findings if one.code == "backup_overdue"] == ["late"]
    rows = {row["name"]: row for row in snapshot.tables["backup_policies"].to_pylist()}
    assert rows["fresh"]["interval_s"] == 86_400
    assert rows["fresh"]["last_ended_at"] == rows["fresh"]["last_started_at"] + 1000


def test_a_cluster_without_a_backup_service_has_no_policies_and_no_problem(sandbox, collector):
    sandbox.change(lambda state: setattr(state, "has_backups", False))
    snapshot = collector.collect()
    assert not snapshot.tables["backup_policies"].num_rows
    assert not [one for one in snapshot.manifest.problems if "backup" in one.place]


def test_a_disk_is_full_by_the_flag_of_its_own_server(sandbox, collector):
    def strict(state):
        list(state.nodes.values())[1].flags["disk_min_available_space_ratio"] = 99

    sandbox.change(strict)
    snapshot = collector.collect()
    short = [one for one in assess_pegasus(PegasusFacts(snapshot)) if one.code == "disk_short"]
    assert [one.subject for one in short] == [sandbox.nodes[1]]
    assert short[0].limit is not None
    assert short[0].limit.value == pytest.approx(0.99)


def test_the_leader_is_looked_for_once_a_capture(sandbox, collector):
    heard = {}
    for capture in range(2):
        before = sandbox.look(lambda state: state.faults.count(idl.LIST_NODES.name))
        collector.collect()
        heard[capture] = sandbox.look(lambda state: state.faults.count(idl.LIST_NODES.name))
        heard[capture] -= before
    assert heard[1] == 1  # the list of nodes itself
    assert heard[0] <= 2


def test_after_a_new_leader_the_commands_reach_it(sandbox, collector):
    collector.collect()
    sandbox.lose_leader()
    for _ in range(40):
        snapshot = collector.collect()
        if snapshot.manifest.leader == sandbox.meta_servers[1]:
            break
    assert snapshot.manifest.leader == sandbox.meta_servers[1]
    assert "assign_delay_ms" in snapshot.settings


def test_a_later_capture_reads_a_third_of_the_metrics(sandbox, collector, monkeypatch):
    sizes: Counter[int] = Counter()
    capture = 0
    once = HttpClient._once

    def counted(self, url, path, ends_at):
        answer = once(self, url, path, ends_at)
        if path.startswith("/metrics"):
            sizes[capture] += len(answer[1])
        return answer

    monkeypatch.setattr(HttpClient, "_once", counted)
    first = collector.collect()
    capture = 1
    second = collector.collect()
    assert sizes[1] < sizes[0] * 0.4
    for name in ("replicas", "operations"):
        for column in first.tables[name].column_names:
            known = [one.tables[name][column].null_count for one in (first, second)]
            assert known[0] == known[1], (name, column)
    assert second.manifest.tables["operations"].oldest_at is not None
