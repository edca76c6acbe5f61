"""Limits against recorded peaks, and the leader's counts against recorded moves."""

from __future__ import annotations

from datetime import timedelta

import pytest
from fleet_builder import NOON, broker_names, make_snapshot
from fleet_edit import edited
from history_rows import CLUSTER, lay_down, store_in

from core.findings.finding import Finding
from core.history.queries.recorded_past import recorded_past
from core.history.queries.sql import Period
from core.pulsar.rules.doctor import examine
from core.pulsar.rules.recorded_past import LeaderCount, Peak, RecordedPast
from core.snapshot import PulsarSnapshot
from core.units import datetime_to_ms

NAMES = broker_names(3)
AT = datetime_to_ms(NOON)
MINUTE = 60_000
HOUR = Period(NOON - timedelta(hours=1), NOON)
LIMIT_KBIT = 1_000_000.0  # 1 Gbit/s, 125 MB/s


def fleet(**cells: float) -> PulsarSnapshot:
    """Three brokers that carry 50 MB/s each way over cards of 1 Gbit/s; the second one changed."""
    quiet = {
        f"{name}_{way}": value
        for way in ("in", "out")
        for name, value in (("msg_throughput", 50e6),)
    } | {
        f"bandwidth_{way}_{part}": value
        for way in ("in", "out")
        for part, value in (("limit", LIMIT_KBIT), ("usage", 500_000.0))
    }
    changes = {name: dict(quiet) for name in NAMES}
    changes[NAMES[1]] |= cells
    return edited(make_snapshot(brokers=3, bundles=12), "brokers", changes)


def past(**changes: object) -> RecordedPast:
    return RecordedPast(**{"start": HOUR.start, "end": HOUR.end, **changes})  # type: ignore[arg-type]


def of_code(code: str, snapshot: PulsarSnapshot, seen: RecordedPast | None) -> list[Finding]:
    return [one for one in examine(snapshot, past=seen).diagnoses if one.code == code]


@pytest.mark.parametrize(("peak", "is_told"), [(124e6, False), (126e6, True)])
def test_a_limit_is_compared_with_the_recorded_peak(peak: float, *, is_told: bool) -> None:
    seen = past(traffic={NAMES[1]: {"out": Peak(peak, NOON - timedelta(minutes=20))}})
    found = of_code("limit_below_peak", fleet(), seen)
    assert [one.servers for one in found] == ([(NAMES[1],)] if is_told else [])
    if found:
        assert "(2026-11-21 11:40 UTC" in found[0].sentence
        assert found[0].evidence["peak_from"] == "history"
    assert not of_code("limit_below_peak", fleet(), None)


def test_without_a_history_the_snapshot_s_own_traffic_counts_and_that_is_said() -> None:
    (found,) = of_code("limit_below_peak", fleet(msg_throughput_out=130e6), None)
    assert "snapshot (no history" in found.sentence
    assert found.evidence["peak_from"] == "snapshot"
    low = past(traffic={NAMES[1]: {"out": Peak(1.0, NOON)}})
    (found,) = of_code("limit_below_peak", fleet(msg_throughput_out=130e6), low)
    assert "snapshot, its peak" in found.sentence
    assert found.evidence["peak_from"] == "snapshot"


@pytest.mark.parametrize(
    ("unloads", "seen", "is_told"), [(9, 0, False), (15, 10, False), (16, 10, True), (10, 0, True)]
)
def test_unloads_that_no_record_shows_are_told(unloads: int, seen: int, *, is_told: bool) -> None:
    count = LeaderCount(broker=NAMES[0], start=HOUR.start, end=HOUR.end, unloads=unloads, seen=seen)
    found = of_code("unloads_not_recorded", fleet(), past(counted=count))
    assert bool(found) is is_told
    if found:
        assert f"{unloads} unloads" in found[0].sentence
        assert found[0].area == "record"


def test_peaks_and_counts_are_those_of_the_history(tmp_path) -> None:
    store = store_in(tmp_path)
    assert recorded_past(store, CLUSTER, HOUR) is None

    def row(minute: int, **columns: object) -> dict[str, object]:
        return {"taken_at": AT - minute * MINUTE, "segment": 1, **columns}

    minutes = (30, 20, 10)
    lay_down(
        store,
        "minutes",
        [row(one, snapshot_id=f"{one:016x}", system="pulsar") for one in minutes],
    )
    flows = {30: 5e6, 20: 9e6, 10: 7e6}
    lay_down(
        store,
        "brokers",
        [
            row(one, broker="a:1", msg_throughput_in=flow, msg_throughput_out=None)
            for one, flow in flows.items()
        ],
    )
    led_before = [(one, 80.0) for one in minutes]  # and exposes it still
    counts = {
        "0:1": led_before,
        "a:1": [(30, 4.0), (20, 9.0), (10, 44.0)],
        "b:1": [(10, 3.0)],
    }
    lay_down(
        store,
        "broker_metrics",
        [
            row(one, broker=broker, unload_bundle_total=total, process_started_at=7)
            for broker, told in counts.items()
            for one, total in told
        ],
    )
    moves = [
        (30, "x", "a:1", "cluster"),  # before the first reading: not of this count
        (20, "x", "a:1", "cluster"),
        (20, "y", "a:1", "trimtab"),  # a run of ours
        (10, "z", "gone:1", ""),  # off a broker that went
        (10, "w", "b:1", None),
        (10, "v", "", "cluster"),  # to a first owner, or the second half of a move
    ]
    lay_down(
        store,
        "events",
        [
            {**row(one, kind="move", subject=bundle, before=before, after="c:1", by=by)}
            | {"segment": None}
            for one, bundle, before, by in moves
        ]
        + [{**row(10, kind="broker_down", subject="gone:1"), "segment": None}],
    )
    found = recorded_past(store, CLUSTER, HOUR)
    assert found is not None
    peak = found.traffic["a:1"]["in"]
    assert (peak.value, datetime_to_ms(peak.at)) == (9e6, AT - 20 * MINUTE)
    assert "out" not in found.traffic["a:1"]
    assert found.counted is not None
    assert (found.counted.broker, found.counted.unloads, found.counted.seen) == ("a:1", 40, 2)
