"""One large cluster, spread over tasks: health and placement are those of a process."""

from __future__ import annotations

from dataclasses import replace

import pytest
from fleet_builder import make_snapshot
from large_fleets import extensible, unread, with_gaps, with_storms, with_ties, with_trouble

from core.errors import UnknownNameError
from core.facts import NOTHING_ASSUMED
from core.findings.engine import MAX_OF_ONE_CODE
from core.findings.request import HealthRequest
from core.findings.verdict import Verdict
from core.operations.health.pulsar import pulsar_health
from core.operations.place.namespaces import place_bundles
from core.progress import NoProgress
from core.pulsar.facts import PulsarFacts
from core.pulsar.measures import TARGETS
from core.pulsar.requests import PlaceRequest
from core.pulsar.rules.registry import assess
from core.pulsar.rules.verdict import verdict_of
from core.snapshot import PulsarSnapshot
from core.snapshot.store import save_snapshot
from core.spark.pulsar.large.cluster import LargeCluster
from core.spark.pulsar.large.health import spread_health
from core.spark.pulsar.large.place import large_placement

FLEETS = {
    "trouble": (lambda one: with_trouble(with_gaps(with_ties(one))), 40, 4_000),
    "extensible": (lambda one: extensible(with_trouble(one)), 40, 4_000),
    "storms": (with_storms, 40, 4_000),
    "storms, extensible": (lambda one: extensible(with_storms(one)), 40, 4_000),
    "trouble, larger": (lambda one: with_trouble(with_gaps(one)), 200, 20_000),
    "extensible, larger": (extensible, 200, 20_000),
    "no reports": (unread, 200, 20_000),
}
SMALL = ("trouble",)


@pytest.fixture(
    scope="module",
    params=[pytest.param(name, marks=[pytest.mark.slow] * (name not in SMALL)) for name in FLEETS],
)
def whole(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory):
    change, brokers, bundles = FLEETS[request.param]
    snapshot = change(make_snapshot(brokers=brokers, bundles=bundles, seed=4))
    directory = tmp_path_factory.mktemp("large") / "snapshot"
    save_snapshot(snapshot, directory)
    return snapshot, directory


@pytest.fixture(scope="module")
def cluster(spark, whole) -> LargeCluster:
    return LargeCluster.of(spark, whole[1], NoProgress())


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS[:1], ids=lambda one: one.code)
def test_findings_and_measures_are_those_of_a_process(cluster, whole, target):
    snapshot, directory = whole
    asked, progress = HealthRequest(target=target.code), NoProgress()
    there = spread_health(cluster.spark, str(directory), NOTHING_ASSUMED, asked, progress).tables
    here = pulsar_health(PulsarFacts(snapshot), asked, progress).tables
    rows = {name: table.to_pylist() for name, table in here.items()}
    expected = judged_there(snapshot)
    rows["health"][0] |= {"scope": expected.scope, "state": expected.state}
    assert {name: table.to_pylist() for name, table in there.items()} == rows


def judged_there(snapshot: PulsarSnapshot) -> Verdict:
    """A verdict without the owners and sessions of bundles, which no process holds all of."""
    claims = snapshot.manifest.tables.get("claims")
    is_read = snapshot.manifest.load_manager == "extensible" or bool(claims and claims.rows)
    reason = (
        "ownership sessions are evaluated only for snapshots in memory"
        if is_read
        else "ownership entries are read from ZooKeeper only"
    )
    verdict = verdict_of(snapshot)
    areas = (
        replace(area, unexamined=reason) if area.name == "serving" else area
        for area in verdict.areas
    )
    return replace(verdict, areas=tuple(areas))


def test_every_bundle_gets_the_distribution_of_a_process(cluster, whole):
    there = large_placement(cluster, PlaceRequest()).tables
    here = place_bundles(PulsarFacts(whole[0]), PlaceRequest(), NoProgress()).tables
    for name in here:
        assert there[name].to_pylist() == here[name].to_pylist()


def test_a_strategy_that_is_not_there_is_named(cluster):
    with pytest.raises(UnknownNameError, match="LeastLong"):
        large_placement(cluster, PlaceRequest(strategy="LeastLongTermMessageRat"))


def test_the_fleet_of_storms_has_findings_about_splits():
    change, brokers, bundles = FLEETS["storms"]
    codes = {one.code for one in assess(change(make_snapshot(brokers=brokers, bundles=bundles)))}
    assert {"split_storm", "bundle_limit_reached"} <= codes


def test_the_small_fleet_has_more_findings_of_a_kind_than_are_listed():
    change, brokers, bundles = FLEETS["trouble"]
    found = assess(change(make_snapshot(brokers=brokers, bundles=bundles, seed=4)))
    more = {one.code for one in found if "more" in one.evidence}
    assert {"hot_bundle", "single_bundle_namespace"} <= more
    codes = {one.code for one in found}
    assert {"owner_unknown", "unowned_with_traffic", "moved_since_report"} <= codes
    assert {"isolation_violated", "anti_affinity_shared_broker"} <= codes
    assert len(found) > MAX_OF_ONE_CODE
