"""The hours that minutes must give, computed minute by minute in plain Python, and those stored."""

from __future__ import annotations

import math
from collections import defaultdict

import pytest
from history_rows import CLUSTER

from core.history.store.layout import HOUR_MS
from core.history.store.store import HistoryStore
from core.history.tiers import pipeline
from core.history.tiers.model import MAX_ERROR
from core.history.tiers.registry import DAYS, HOURS, tier_tables
from core.units import datetime_to_ms


def at(snapshot) -> int:
    return datetime_to_ms(snapshot.manifest.taken_at)


def after(snapshots) -> int:
    return max(map(at, snapshots)) + 2 * HOUR_MS


def whole(store: HistoryStore):
    tiers = tier_tables(store)
    return {
        kind.name: pipeline.tier_rows(tiers, kind, CLUSTER, list(range_of(store, kind)))
        for kind in (HOURS, DAYS)
    }


def content(store: HistoryStore, *without: str):
    """What two histories of the same minutes share: the segments of their recorders differ."""
    return {
        name: rows.drop_columns(["revision", *without]).to_pylist()
        for name, rows in whole(store).items()
    }


def range_of(store: HistoryStore, kind) -> list[int]:
    found = tier_tables(store).scan(kind, ("taken_at",), "true")["taken_at"].to_pylist()
    return sorted(set(found))


def whole_number(value: float | None) -> int | None:
    if value is None or not 0 <= value < 1e11:
        return None
    return math.floor(value * 1000 + 0.5)


def plain_hours(snapshots) -> dict[tuple[int, str, str], list[int | None]]:
    """Throughput by hour, kind and subject, a value a minute in which it was there."""
    last = {at(one) // 60_000: one for one in snapshots}
    found = defaultdict(list)
    for minute, snapshot in last.items():
        hour = minute * 60_000 // HOUR_MS * HOUR_MS
        bundles = {}
        for row in snapshot.bundles.to_pylist():
            flows = row["msg_throughput_in"], row["msg_throughput_out"]
            flow = None if None in flows else whole_number(sum(flows))
            bundles.setdefault(row["bundle"], flow)  # the first of two with one name
        sums = defaultdict(list)
        for bundle, flow in bundles.items():
            found[hour, "bundle", bundle].append(flow)
            sums["namespace", bundle.rpartition("/")[0]].append(flow)
            sums["tenant", bundle.partition("/")[0]].append(flow)
        for (kind, name), flows in sums.items():
            known = [one for one in flows if one is not None]
            found[hour, kind, name].append(sum(known) if known else None)
        for row in snapshot.brokers.to_pylist():
            flows = row["msg_throughput_in"], row["msg_throughput_out"]
            flow = None if None in flows else whole_number(sum(flows))
            found[hour, "broker", row["broker"]].append(flow)
    return found


def nearest_rank(values: list[int], percent: int) -> int:
    return sorted(values)[max(math.ceil(len(values) * percent / 100), 1) - 1]


def check_hours(rows, snapshots) -> None:
    expected = plain_hours(snapshots)
    kinds = {kind for _, kind, _ in expected}
    seen = set()
    for row in rows.to_pylist():
        if row["kind"] not in kinds:
            continue
        key = row["taken_at"], row["kind"], row["subject"]
        seen.add(key)
        flows = expected[key]
        known = [one for one in flows if one is not None]
        assert row["minutes_seen"] == len(flows), key
        assert row["msg_throughput_minutes"] == len(known), key
        if not known:
            assert row["msg_throughput_mean"] is None
            continue
        assert row["msg_throughput_mean"] == sum(known) / len(known) / 1000
        assert row["msg_throughput_max"] == max(known) / 1000
        assert sum(row["msg_throughput_counts"]) == len(known)
        for percent in (50, 95, 99):
            exact = nearest_rank(known, percent) / 1000
            shown = row[f"msg_throughput_p{percent}"]
            assert shown == pytest.approx(exact, rel=MAX_ERROR, abs=1e-9)
    assert seen == set(expected)
