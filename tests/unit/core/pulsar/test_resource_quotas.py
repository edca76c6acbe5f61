"""Resource quotas of bundles: what a leader begins with where no average is stored."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from places import FIXTURES
from shedding_world import MB, Broker, Bundle, World

from core.pulsar.cluster import FleetStart
from core.pulsar.quotas import quota_seeds
from core.pulsar.settings import effective_settings
from core.pulsar.view import LoadView
from core.snapshot import PulsarSnapshot
from core.snapshot.store import load_snapshot
from dashboard.cli.main import run

FIRST = "acme/orders/0x00000000_0x00010000"
SECOND = "acme/orders/0x00010000_0x00020000"
QUOTA = {"msgRateIn": 400, "msgRateOut": 600.0, "bandwidthIn": 1e6, "bandwidthOut": 2e6}
DUMP = FIXTURES / "contracts" / "three-brokers.jsonl"


def snapshot(
    quotas: dict[str, object], *, reported: bool = True, stored: bool = False
) -> PulsarSnapshot:
    """Two brokers; the first bundle of the first one has no stored averages unless told."""
    plain = World(
        {"a": Broker(50, [Bundle(10 * MB, 2000.0), Bundle(5 * MB, 500.0)]), "b": Broker(10)}
    ).snapshot()
    rows = plain.bundles.to_pylist()
    if not stored:
        rows[0] |= {name: None for name in rows[0] if name.startswith(("short_", "long_"))}
    if not reported:
        rows[0] |= {"reported_by": None, "topic_count": 0}
        rows[0] |= {name: None for name in rows[0] if name.startswith("msg_")}
    bodies = [
        {"kind": "resource_quota", "name": name, "body": body}
        for name, body in ((name, json.dumps(quota)) for name, quota in quotas.items())
    ]
    tables = {
        **plain.tables,
        "bundles": pa.Table.from_pylist(rows, schema=plain.bundles.schema),
        "policies": pa.Table.from_pylist(bodies, schema=plain.policies.schema),
    }
    return PulsarSnapshot.build(plain.manifest, tables)


def view(taken: PulsarSnapshot) -> LoadView:
    return LoadView.of(taken, effective_settings(taken))


def test_a_bundle_that_nobody_reports_is_taken_for_its_quota() -> None:
    seen = view(snapshot({FIRST: QUOTA}, reported=False))
    assert seen.bundle_long_rate[0] == 1000.0
    assert view(snapshot({}, reported=False)).bundle_long_rate[0] == 100.0


def test_a_reported_bundle_without_averages_begins_with_its_quota_and_one_sample() -> None:
    # QUOTA-1: one sample, as for a leader that starts now; how many another has added is unknown
    seen = view(snapshot({FIRST: QUOTA}))
    assert seen.bundle_long_rate[0] == pytest.approx((999 * 1000 + 2000) / 1000)
    assert seen.bundle_short_rate[0] == pytest.approx((9 * 1000 + 2000) / 10)
    assert seen.bundle_short_throughput[0] == pytest.approx((9 * 3e6 + 10 * MB) / 10)
    assert any("1 bundle without a stored average" in note for note in seen.notes)


def test_a_stored_average_wins_over_a_quota() -> None:
    seen = view(snapshot({FIRST: QUOTA}, stored=True))
    assert seen.bundle_long_rate[0] == 2000.0
    assert not any("quota" in note for note in seen.notes)


@pytest.mark.parametrize("name", ["default", "acme/gone/0x00000000_0xffffffff"])
def test_no_other_quota_seeds_a_bundle(name: str) -> None:
    assert quota_seeds(snapshot({name: QUOTA})) == {}


@pytest.mark.parametrize("quota", [{}, {"msgRateIn": "many"}, {"msgRateIn": True}])
def test_a_field_that_is_no_number_counts_as_none(quota: dict[str, object]) -> None:
    seen = view(snapshot({FIRST: quota}, reported=False))
    assert seen.bundle_long_rate[0] == 0.0


def test_a_quota_that_is_no_object_seeds_nothing() -> None:
    assert quota_seeds(snapshot({FIRST: [1]})) == {}


def test_the_simulation_counts_a_quota_as_a_full_history() -> None:
    taken = snapshot({FIRST: QUOTA})
    row = FleetStart(taken).fleet().sampled(1).snapshot.bundles.to_pylist()[0]
    assert row["long_msg_rate_in"] == pytest.approx((999 * 400 + 1000) / 1000)
    assert row["short_msg_rate_in"] == pytest.approx((9 * 400 + 1000) / 10)
    assert (row["short_samples"], row["long_samples"]) == (10, 1000)


def test_quotas_of_a_zookeeper_dump_are_read_and_used(tmp_path: Path) -> None:
    bundle = "acme/audit/0x80000000_0xffffffff"
    lines = [json.loads(line) for line in DUMP.read_text().splitlines()]
    kept = [line for line in lines if line["path"] != f"/loadbalance/bundle-data/{bundle}"]
    assert len(kept) < len(lines)
    kept.append({"path": f"/loadbalance/resource-quota/{bundle}", "value": QUOTA})
    dump = tmp_path / "dump.jsonl"
    dump.write_text("".join(json.dumps(line) + "\n" for line in kept))
    assert run(["import-zk", str(dump), "--out", str(tmp_path / "s")]) == 0
    taken = load_snapshot(tmp_path / "s")
    seen = view(taken)
    row = seen.bundle_row(bundle)
    last = seen.bundle_msg_rate[row]
    assert seen.bundle_long_rate[row] == pytest.approx((999 * 1000 + last) / 1000)
