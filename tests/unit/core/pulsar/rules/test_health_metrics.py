from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest
from test_health_rules import BROKERS, sound

from core.findings.finding import Finding
from core.pulsar.rules.broker_metrics import BrokerMetrics
from core.pulsar.rules.registry import assess
from core.schemas.pulsar import BROKER_METRICS, BUNDLE_METRICS
from core.snapshot import PulsarSnapshot
from core.units import datetime_to_ms


def exposing(*changes: dict[str, object], bundles: list[dict[str, object]] | None = None):
    """The sound fleet whose brokers expose quiet metrics, changed broker by broker."""
    base = sound()
    taken_ms = datetime_to_ms(base.manifest.taken_at)
    started = base.brokers["started_at"].to_pylist()
    rows = [
        dict.fromkeys(BROKER_METRICS.names)
        | {
            "broker": broker,
            "source": "prometheus",
            "sampled_at": taken_ms - 10_000,
            "window_s": 300.0,
            "msg_throughput_in": 3e6,
            "msg_throughput_out": 3e6,
            "gc_time_ratio": 0.004,
            "heap_used_ratio": 0.4,
            "write_p99_ms": 12.0,
            "write_count": 5_000.0,
            "lookups_pending": 0.0,
            "lookup_failure_rate": 0.0,
            "process_started_at": None if started[at] is None else started[at] - 4_000,
        }
        | (changes[at] if at < len(changes) else {})
        for at, broker in enumerate(BROKERS)
    ]
    tables = dict(base.tables)
    tables["broker_metrics"] = pa.Table.from_pylist(rows, schema=BROKER_METRICS)
    tables["bundle_metrics"] = pa.Table.from_pylist(bundles or [], schema=BUNDLE_METRICS)
    return PulsarSnapshot.build(base.manifest, tables)


def of_code(snapshot: PulsarSnapshot, code: str) -> list[Finding]:
    return [finding for finding in assess(snapshot) if finding.code == code]


def test_quiet_metrics_are_no_finding() -> None:
    assert assess(exposing()) == assess(sound())


def test_a_snapshot_without_metrics_has_no_columns_of_them() -> None:
    metrics = BrokerMetrics(sound())
    assert not metrics.is_there
    assert metrics.of(BROKERS[0]) is None
    assert metrics.column("gc_time_ratio").tolist() == pytest.approx(
        [float("nan")] * 4, nan_ok=True
    )


def test_brokers_without_a_row_are_unknown_and_the_others_stay_in_their_place() -> None:
    whole = exposing({}, {"gc_time_ratio": 0.02})
    tables = {**whole.tables, "broker_metrics": whole.broker_metrics.slice(1)}
    metrics = BrokerMetrics(PulsarSnapshot.build(whole.manifest, tables))
    assert metrics.column("gc_time_ratio").tolist() == pytest.approx(
        [float("nan"), 0.02, 0.004, 0.004], nan_ok=True
    )


@pytest.mark.parametrize(
    ("share", "severity"), [(0.049, None), (0.05, "warning"), (0.199, "warning"), (0.2, "error")]
)
def test_pauses_of_garbage_collection_are_judged_by_their_share(share, severity) -> None:
    found = of_code(exposing({"gc_time_ratio": share}), "gc_pauses")
    assert [each.severity for each in found] == ([severity] if severity else [])
    if found:
        assert (found[0].subject, found[0].evidence["source"]) == (BROKERS[0], "prometheus")


def test_one_pause_within_two_seconds_tells_nothing() -> None:
    assert not of_code(exposing({"gc_time_ratio": 0.3, "window_s": 2.0}), "gc_pauses")


def test_slow_writes_of_an_idle_broker_are_not_its_load() -> None:
    (finding,) = of_code(exposing({}, {"write_p99_ms": 90.0}), "slow_writes")
    assert finding.subject == BROKERS[1]
    assert "would not help" in finding.hint
    assert finding.evidence["median_p99_ms"] == 12.0


@pytest.mark.parametrize(
    "change",
    [
        {"write_p99_ms": 49.0},  # three times the median, but not long
        {"write_p99_ms": 90.0, "write_count": 99.0},  # too few writes for a percentile
        {"write_p99_ms": None},
    ],
)
def test_writes_that_are_not_slow_enough_or_not_many_are_no_finding(change) -> None:
    assert not of_code(exposing(change), "slow_writes")


def test_storage_that_is_slow_for_all_is_said_once() -> None:
    slow = {"write_p99_ms": 250.0}
    found = assess(exposing(slow, slow, slow, slow))
    assert [each.code for each in found if "slow" in each.code] == ["slow_storage"]


def test_load_report_and_metrics_that_differ_twice_are_named_with_both() -> None:
    (finding,) = of_code(
        exposing({"msg_throughput_in": 8e6, "msg_throughput_out": 8e6}), "load_data_disagrees"
    )
    assert "16 MB/s by its metrics, 6 MB/s by its load report" in finding.sentence


def test_messages_that_differ_are_named_where_the_bytes_agree() -> None:
    (finding,) = of_code(
        exposing({}, {"msg_rate_in": 9_000.0, "msg_rate_out": 9_000.0}), "load_data_disagrees"
    )
    assert finding.subject == BROKERS[1]
    assert "18k msg/s by its metrics" in finding.sentence
    assert finding.evidence["metrics_msgs_per_s"] == 18_000.0


@pytest.mark.parametrize(
    ("column", "slow", "code"),
    [
        ("publish_p99_ms", 100.0, "slow_publishing"),
        ("lookup_p99_ms", 500.0, "slow_lookups"),
        ("topic_load_p99_ms", 5_000.0, "slow_topic_loads"),
    ],
)
def test_clients_that_wait_long_are_found_by_bound_and_by_the_other_brokers(
    column: str, slow: float, code: str
) -> None:
    quiet = [{column: slow / 10}] * 3
    assert not of_code(exposing(*quiet, {column: slow - 1}), code)
    (finding,) = of_code(exposing(*quiet, {column: slow}), code)
    assert finding.subject == BROKERS[3]
    assert finding.evidence["p99_ms"] == slow
    # all alike is no broker's fault until it is endless
    assert not of_code(exposing(*[{column: slow}] * 4), code)
    assert len(of_code(exposing(*[{column: 10 * slow}] * 4), code)) == 4


@pytest.mark.parametrize(("used", "is_found"), [(0.899, False), (0.9, True), (None, False)])
def test_direct_memory_that_is_nearly_full_is_found(used: float | None, *, is_found: bool) -> None:
    found = of_code(exposing({}, {"direct_used_ratio": used}), "direct_memory_full")
    assert [one.subject for one in found] == ([BROKERS[1]] if is_found else [])


def test_rates_of_bundles_that_differ_from_the_reports_are_told_once_with_the_worst() -> None:
    bundles = [row for row in sound().bundles.to_pylist() if row["owner"]]
    busy = [row for row in bundles if (row["msg_rate_in"] or 0) + (row["msg_rate_out"] or 0) > 0]
    assert busy
    times = max(3.0, 300.0 / min(row["msg_rate_in"] + row["msg_rate_out"] for row in busy))

    def told(factor: float) -> list[dict[str, object]]:
        return [
            dict.fromkeys(BUNDLE_METRICS.names)
            | {"bundle": row["bundle"], "broker": row["owner"]}
            | {name: row[name] * factor for name in ("msg_rate_in", "msg_rate_out")}
            for row in busy
        ]

    assert not of_code(exposing(bundles=told(1.0)), "bundle_rates_disagree")
    (finding,) = of_code(exposing(bundles=told(times)), "bundle_rates_disagree")
    assert finding.evidence["bundles"] == finding.evidence["compared"] == len(busy)
    assert finding.evidence["worst"] in finding.sentence


def test_metrics_of_another_process_are_not_compared_further() -> None:
    started = sound().brokers["started_at"][0].as_py() or 1_700_000_000_000
    snapshot = exposing({"process_started_at": started + 3_600_000, "msg_throughput_in": 9e8})
    codes = {finding.code for finding in assess(snapshot)}
    if sound().brokers["started_at"][0].as_py() is None:
        pytest.fail("the builder's brokers tell no start: the case is not tested")
    assert "metrics_of_another_process" in codes
    assert "load_data_disagrees" not in codes


def test_series_that_are_no_longer_scraped_are_named() -> None:
    taken_ms = datetime_to_ms(sound().manifest.taken_at)
    (finding,) = of_code(exposing({}, {}, {"sampled_at": taken_ms - 200_000}), "metrics_old")
    assert finding.subject == BROKERS[2]


def test_waiting_and_failing_lookups_and_a_restless_balancer_are_found() -> None:
    snapshot = exposing(
        {"lookups_pending": 1_500.0},
        {"lookup_failure_rate": 3.0},
        {"unload_bundle_rate": 2 / 60, "unload_bundle_total": 480.0},
    )
    found = {finding.code: finding for finding in assess(snapshot)}
    assert found["lookups_pending"].subject == BROKERS[0]
    assert found["lookups_fail"].subject == BROKERS[1]
    assert "120 unloads/h" in found["many_unloads"].sentence


def test_a_bundle_exposed_by_a_broker_that_does_not_own_it_is_found_unless_it_just_moved() -> None:
    bundle = sound().bundles["bundle"][0].as_py()  # of the first broker
    rows = [
        {"bundle": bundle, "broker": BROKERS[1], "msg_rate_in": 90.0},
        {"bundle": bundle, "broker": BROKERS[0], "msg_rate_in": 90.0},
        {"bundle": "acme/gone/0x00000000_0xffffffff", "broker": BROKERS[1], "msg_rate_in": 9.0},
    ]
    snapshot = exposing(bundles=rows)
    (finding,) = of_code(snapshot, "bundle_exposed_elsewhere")
    assert (finding.subject, finding.evidence["owner"]) == (bundle, BROKERS[0])
    brokers = snapshot.brokers
    at = brokers.schema.get_field_index("last_bundle_gains")
    gained = pa.array([[bundle], [], [], []], brokers.schema.field(at).type)
    tables = {
        **snapshot.tables,
        "brokers": brokers.set_column(at, brokers.schema.field(at), gained),
    }
    moved = PulsarSnapshot.build(replace(snapshot.manifest), tables)
    assert not of_code(moved, "bundle_exposed_elsewhere")
    after_unload = assess(snapshot, moved={bundle})
    assert "bundle_exposed_elsewhere" not in {one.code for one in after_unload}
