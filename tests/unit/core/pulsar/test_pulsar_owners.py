"""Who owns what: every state, sessions, spread, leaders, and the failure of one broker."""

from __future__ import annotations

from datetime import timedelta
from functools import lru_cache
from math import comb

import numpy as np
import pyarrow as pa
import pytest
from claims import DAY_MS, FIRST_SESSION, claimed, unheard, with_claims
from extensible_world import extensible_snapshot
from fleet_builder import NOON, make_snapshot
from fleet_edit import edited, owned_by, with_settings, without

from core.errors import UnknownNameError
from core.operations.drill.broker_failure import broker_failure_effects
from core.pulsar import owners
from core.pulsar.leaders import LeaderChange, change_costs, leader_history
from core.pulsar.owner_spread import expected_used, spread_of, spread_sentence
from core.pulsar.owners import Ownership, ownership_of
from core.pulsar.rules.registry import assess
from core.pulsar.settings import effective_settings
from core.pulsar.view import LoadView
from core.schemas.pulsar import UNIT_STATES
from core.snapshot import PulsarSnapshot
from core.units import datetime_to_ms

NOW_MS = datetime_to_ms(NOON)


@lru_cache(maxsize=1)
def fleet() -> PulsarSnapshot:
    return claimed(make_snapshot(brokers=5, bundles=60))


def brokers() -> list[str]:
    names: list[str] = fleet().brokers["broker"].to_pylist()
    return names


def bundle_of(row: int = 0) -> str:
    return owned_by(fleet(), brokers()[row])[0]


def found_in(snapshot: PulsarSnapshot) -> Ownership:
    return ownership_of(snapshot, effective_settings(snapshot))


def state_of(snapshot: PulsarSnapshot, bundle: str) -> str:
    rows = {row["bundle"]: row["state"] for row in found_in(snapshot).bundles.to_pylist()}
    return str(rows[bundle])


def codes(snapshot: PulsarSnapshot) -> set[str]:
    return {finding.code for finding in assess(snapshot)}


def test_everything_in_a_sound_fleet_is_held() -> None:
    found = found_in(fleet())
    assert found.counts == {owners.HELD: fleet().bundles.num_rows}
    assert "sessions are valid" in found.sentence
    assert found.wrong.num_rows == 0
    assert found.sessions["session_id"].null_count == 0
    assert sum(found.sessions["bundles"].to_pylist()) == fleet().bundles.num_rows
    assert sum(found.sessions["leads"].to_pylist()) == 1


def test_owner_that_is_not_registered_leaves_orphans() -> None:
    gone = unheard(fleet(), brokers()[0])
    assert state_of(gone, bundle_of(0)) == owners.ORPHANED
    assert "orphaned: the owner" in found_in(gone).sentence
    assert "orphaned_bundles" in codes(gone)
    first = found_in(gone).wrong.to_pylist()[0]
    assert first["owner"] == brokers()[0]


def test_owner_that_lives_without_a_registration_serves_its_bundles() -> None:
    lost = without(fleet(), "brokers", brokers()[0])
    row = next(row for row in found_in(lost).wrong.to_pylist() if row["bundle"] == bundle_of(0))
    assert (row["state"], row["is_served"]) == (owners.UNLISTED, True)
    assert "broker_unregistered" in codes(lost)
    assert "orphaned_bundles" not in codes(lost)


def test_bundle_of_another_session_than_its_owners_own_is_stale() -> None:
    bundle = bundle_of()
    stale = claimed(make_snapshot(brokers=5, bundles=60), **{bundle: FIRST_SESSION + 99})
    assert state_of(stale, bundle) == owners.STALE
    assert "stale_sessions" in codes(stale)
    row = next(row for row in found_in(stale).sessions.to_pylist() if row["stale"])
    assert (row["bundles"], row["is_registered"]) == (1, False)
    assert row["session"] == f"0x{FIRST_SESSION + 99:x}"


def test_znode_that_is_no_ephemeral_is_told() -> None:
    bundle = bundle_of()
    kept = claimed(make_snapshot(brokers=5, bundles=60), **{bundle: 0})
    assert state_of(kept, bundle) == owners.PERMANENT


@pytest.mark.parametrize(
    ("created_before_ms", "state"), [(DAY_MS, owners.DOUBLE), (10_000, owners.MOVED)]
)
def test_report_of_another_broker_is_believed_only_when_it_is_later(
    created_before_ms: int, state: str
) -> None:
    bundle, other = bundle_of(0), brokers()[1]
    snapshot = edited(fleet(), "bundles", {bundle: {"reported_by": other}})
    rows = snapshot.claims.to_pylist()
    reported = snapshot.brokers["reported_at"].to_pylist()[1]
    for row in rows:
        if row["subject"] == bundle:
            row["created_at"] = reported - created_before_ms
    snapshot = with_claims(snapshot, rows)
    assert state_of(snapshot, bundle) == state
    assert ("double_ownership" in codes(snapshot)) == (state == owners.DOUBLE)


def test_two_reports_of_one_bundle_are_a_double_claim() -> None:
    bundle, (first, second) = bundle_of(0), brokers()[:2]
    rows = fleet().claims.to_pylist()
    rows += [
        {
            "subject_kind": "bundle",
            "subject": bundle,
            "source": "report",
            "broker": name,
            "reported_at": NOW_MS,
        }
        for name in (first, second)
    ]
    snapshot = with_claims(fleet(), rows)
    assert state_of(snapshot, bundle) == owners.DOUBLE
    assert found_in(snapshot).wrong.to_pylist()[0]["claimant"] == second


def test_nobody_owns_it_and_somebody_or_nobody_uses_it() -> None:
    nobody = {"owner": None, "reported_by": None}
    used = edited(fleet(), "bundles", {bundle_of(): nobody | {"topic_count": 3}})
    assert state_of(used, bundle_of()) == owners.OWNERLESS
    quiet = {"topic_count": 0, "msg_throughput_in": 0.0, "msg_throughput_out": 0.0}
    unused = edited(fleet(), "bundles", {bundle_of(): nobody | quiet})
    assert state_of(unused, bundle_of()) == owners.UNUSED
    unread = edited(fleet(), "bundles", {bundle_of(): nobody | {"owner_source": None}})
    assert state_of(unread, bundle_of()) == owners.UNKNOWN


@pytest.mark.parametrize(
    ("unit", "state"),
    [
        ({"state": "Owned", "broker": 0}, owners.HELD),
        ({"state": "Owned", "broker": 1}, owners.DOUBLE),
        ({"state": "Releasing", "broker": 1, "age_ms": 1_000}, owners.CHANGING),
        ({"state": "Assigning", "broker": 1, "age_ms": 600_000}, owners.STUCK),
    ],
)
def test_channel_of_the_extensible_manager_is_held_against_the_owner(
    unit: dict[str, object], state: str
) -> None:
    bundle = bundle_of(0)
    row = {
        "bundle": bundle,
        "state": unit["state"],
        "broker": brokers()[int(str(unit["broker"]))],
        "changed_at": NOW_MS - int(str(unit.get("age_ms", 0))),
    }
    tables = {**fleet().tables, "unit_states": pa.Table.from_pylist([row], schema=UNIT_STATES)}
    assert state_of(PulsarSnapshot.build(fleet().manifest, tables), bundle) == state


def test_without_claims_sessions_are_unknown_and_said_so() -> None:
    found = found_in(make_snapshot(brokers=5, bundles=60))
    assert "Sessions are unknown" in found.sentence
    assert found.sessions["session"].null_count == found.sessions.num_rows == 5
    assert "REST alone" in found.notes[0]


@pytest.mark.parametrize(("bundles", "count"), [(1, 3), (4, 3), (6, 4), (20, 12)])
def test_expected_brokers_follow_from_counting_every_case(bundles: int, count: int) -> None:
    mean, deviation = expected_used(np.array([bundles]), np.array([count]))
    # by inclusion and exclusion: how many surjections onto k of the brokers
    chances = [
        comb(count, k)
        * sum((-1) ** i * comb(k, i) * (k - i) ** bundles for i in range(k + 1))
        / count**bundles
        for k in range(count + 1)
    ]
    expected = sum(k * chance for k, chance in enumerate(chances))
    square = sum(k * k * chance for k, chance in enumerate(chances))
    assert mean[0] == pytest.approx(expected)
    assert deviation[0] == pytest.approx(np.sqrt(max(square - expected**2, 0.0)), abs=1e-6)


def test_namespace_on_one_broker_is_told_first() -> None:
    name = (
        fleet()
        .namespaces.filter(pa.compute.invert(fleet().namespaces["is_broker_bound"]))["namespace"][0]
        .as_py()
    )
    rows = fleet().bundles.to_pylist()
    own = [row["bundle"] for row in rows if row["namespace"] == name]
    assert len(own) > 3
    concentrated = edited(fleet(), "bundles", {key: {"owner": brokers()[0]} for key in own})
    spread = spread_of(LoadView.of(concentrated, effective_settings(concentrated)))
    first = spread.to_pylist()[0]
    assert (first["namespace"], first["brokers_used"], first["is_concentrated"]) == (name, 1, True)
    assert first["fullest_ratio"] == first["hottest_ratio"] == 1.0
    assert f"Worst: {name} has {len(own)} bundles on 1 of" in spread_sentence(spread)


def test_leaders_are_told_from_the_znode_and_the_record() -> None:
    start = NOON - timedelta(days=2)
    changes = [
        LeaderChange(start + timedelta(hours=5), "a", "b"),
        LeaderChange(start + timedelta(hours=30), "b", "c"),
    ]
    created = start + timedelta(hours=30) - timedelta(seconds=20)
    history = leader_history("c", created, changes, (start, NOON))
    assert [(one.broker, one.since, one.until) for one in history.leads] == [
        ("c", created, None),
        ("b", start + timedelta(hours=5), start + timedelta(hours=30)),
        ("a", None, start + timedelta(hours=5)),
    ]
    assert history.per_day == pytest.approx(1.0)
    assert "2 changes in the recorded 2 d, 1.0 a day" in history.sentence
    unseen = leader_history("d", NOON, changes, (start, NOON))
    assert [one.broker for one in unseen.leads] == ["d", "c", "b", "a"]
    alone = leader_history("a", None, [], None)
    assert alone.sentence == "a is the leader. Earlier leaders are not recorded."
    assert leader_history(None, None, [], None).leads == ()


def test_cost_of_a_new_leader_follows_the_strategy() -> None:
    name = "loadBalancerLoadSheddingStrategy"
    package = "org.apache.pulsar.broker.loadbalance.impl"
    snapshot = with_settings(fleet(), (None, name, f"{package}.ThresholdShedder", "file"))
    costs = " ".join(change_costs(effective_settings(snapshot), "modular"))
    assert "ThresholdShedder's smoothed usage" in costs
    other = with_settings(fleet(), (None, name, f"{package}.OverloadShedder", "file"))
    assert "keeps no state" in " ".join(change_costs(effective_settings(other), "modular"))
    assert "channel" in " ".join(change_costs(effective_settings(other), "extensible"))


def test_death_of_the_leader_tells_what_happens_when() -> None:
    settings = effective_settings(fleet())
    leader = fleet().manifest.leader
    assert leader is not None
    broker_failure = broker_failure_effects(fleet(), settings, leader)
    assert broker_failure.session_s == 30.0
    assert (
        broker_failure.landing.num_rows
        == broker_failure.failure["bundles"]
        == len(owned_by(fleet(), leader))
    )
    assert leader not in broker_failure.landing["to"].to_pylist()
    titles = [moment.title for moment in broker_failure.moments]
    assert titles.index("The session ends") < titles.index("Another leader is elected")
    starts = [moment.from_s for moment in broker_failure.moments]
    assert starts == sorted(starts)
    with pytest.raises(UnknownNameError, match="no-such"):
        broker_failure_effects(fleet(), settings, "no-such:8080")


def test_session_time_out_in_force_is_taken_by_either_name() -> None:
    key = "zooKeeperSessionTimeoutMillis"
    short = with_settings(fleet(), (None, key, "8000", "file"))
    broker_failure = broker_failure_effects(short, effective_settings(short), brokers()[0])
    assert (broker_failure.session_s, broker_failure.session_key) == (8.0, key)
    assert not any("sendTimeout" in moment.detail for moment in broker_failure.moments)


def test_extensible_manager_takes_over_without_lookups() -> None:
    snapshot = extensible_snapshot({"a:1": (0.5, [10.0, 20.0]), "b:1": (0.2, [5.0])})
    broker_failure = broker_failure_effects(snapshot, effective_settings(snapshot), "a:1")
    assert any("overrides their owner" in moment.detail for moment in broker_failure.moments)
