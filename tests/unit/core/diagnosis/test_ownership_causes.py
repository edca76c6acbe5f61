"""Bundles that no broker serves: stuck in transfer, or owned by a broker that is gone."""

from __future__ import annotations

import pyarrow as pa
import pytest
from report_cluster import Report, all_reports

from core.diagnosis.request import DiagnoseRequest
from core.diagnosis.systems import diagnose
from core.snapshot import PulsarSnapshot

LONG = DiagnoseRequest(seconds=60.0)
LATER = {"release": "4.0.4", "load_manager": "extensible"}


def report(name: str, **more: object) -> PulsarSnapshot:
    """A report's cluster, with other facts."""
    found = next(one for one in all_reports("pulsar") if one.name == name)
    return Report(name, {**found.facts, **more}).snapshot()


def in_state(state: str, age_s: int) -> dict[str, object]:
    return {
        "state": state,
        "from": "b-1:8081",
        "to": "b-0:8080",
        "bundles": 2,
        "age_s": age_s,
    }


@pytest.mark.parametrize("state", ["Assigning", "Releasing", "Splitting"])
def test_a_bundle_stuck_in_transfer_is_a_cause(state):
    found = diagnose(report("25379", ownership=[in_state(state, 200)]), LONG)
    [cause] = found.causes
    assert found.problem == "2 bundles stuck in transfer."
    assert cause.code == "stuck_ownership"
    assert f"2 bundles stuck in transfer (2 {state}) for up to 3 min" in cause.summary
    assert (cause.effect.before.missing, cause.effect.after.missing) == (2, 0)
    assert (cause.measured, cause.threshold, cause.unit) == (200.0, 30.0, "s")
    assert "restart b-0:8080" in cause.hint


def test_a_release_in_which_unloads_hang_is_named():
    [cause] = diagnose(report("21332"), LONG).causes
    assert cause.hint.endswith("can hang in Releasing: fixed in 3.0.2 (this is 3.0.1).")
    [later] = diagnose(report("21332", cluster=LATER), LONG).causes
    assert "hang" not in later.hint


def test_a_splitting_bundle_is_still_served():
    [cause] = diagnose(report("25379", ownership=[in_state("Splitting", 200)]), LONG).causes
    assert "clients wait" not in cause.summary


def test_the_leader_is_given_its_time():
    [cause] = diagnose(report("25379", ownership=[in_state("Releasing", 50)]), LONG).causes
    assert cause.hint == "The leader repairs this within 90 s of the change; check again."


def test_a_transfer_under_way_is_none():
    assert not diagnose(report("25379", ownership=[in_state("Releasing", 5)]), LONG).problem


def test_an_uneven_cluster_gets_both_causes():
    stuck = {"state": "Assigning", "from": "b-1:8081", "bundles": 1, "age_s": 500}
    found = diagnose(report("19813", ownership=[stuck]), LONG)
    assert found.problem.startswith("1 bundle stuck in transfer. Max deviation")
    assert found.causes[0].code == "stuck_ownership"
    assert "loadBalancerBrokerLoadTargetStd" in {key for one in found.causes for key in one.keys}


def test_a_stale_owner_is_a_cause_of_both_load_managers():
    for name, gone in (("7679", "old-0:8080"), ("26520", "b-9:8080")):
        found = diagnose(report(name), LONG)
        cause = found.causes[0]
        assert {one.objects[0] for one in found.causes} == {gone}
        assert cause.objects[0] == gone
        assert f"owned by {gone} (" in cause.summary
        assert cause.effect.is_better
        assert "No single setting" not in found.answer


def test_a_znode_that_no_session_ends_has_to_be_deleted():
    snapshot = report("7679")
    [first] = diagnose(snapshot, LONG).causes
    assert "ends with the session of old-0:8080" in first.hint
    assert first.hint.endswith("once the process of old-0:8080 is confirmed dead.")
    claim = {
        "subject_kind": "bundle",
        "subject": first.objects[1],
        "source": "znode",
        "broker": "old-0:8080",
        "session_id": 0,
    }
    claims = pa.Table.from_pylist([claim], schema=snapshot.claims.schema)
    permanent = PulsarSnapshot.build(snapshot.manifest, {**snapshot.tables, "claims": claims})
    [cause] = diagnose(permanent, LONG).causes
    assert cause.hint.startswith(f"Delete /namespace/{first.objects[1]} once the process")
    assert cause.effect.after.missing == 0


def of_a_dead_broker(count: int = 1) -> PulsarSnapshot:
    """Registered brokers without a session, dead for hours, that own 4 bundles each."""
    group = {"bundles": 4, "in": 900, "mb_in": 4, "mb_out": 4}
    alive = {"name": "b-#:8080", "count": 3, "cpu": 40, "session": 7, "groups": [group]}
    dead = {"name": "a-#:8080", "cpu": 40, "session": 0, "age_s": 18_000, "groups": [group]}
    dead["count"] = count
    cluster = {"release": "3.0.9"}
    facts = {"cluster": cluster, "brokers": [alive, dead], "leader": {"name": "b-0:8080"}}
    return Report("dead", facts).snapshot()


def test_a_dead_owner_is_one_cause_that_ends_its_znodes_and_its_registration():
    snapshot = of_a_dead_broker()
    [cause] = diagnose(snapshot, LONG).causes
    assert cause.summary.startswith("4 bundles owned by a-0:8080 (dead: no session")
    assert "Same for its other bundles." in cause.hint
    assert "Delete its registration, /loadbalance/brokers/a-0:8080," in cause.hint
    # the dead broker carries least, and is given none of its bundles again
    assert (cause.effect.before.missing, cause.effect.after.missing) == (4, 0)


def test_two_dead_owners_are_one_cause_that_names_both():
    snapshot = of_a_dead_broker(2)
    [cause] = diagnose(snapshot, LONG).causes
    assert {"a-0:8080", "a-1:8080"} <= set(cause.objects)
    assert "Same for a-1:8080." in cause.hint
    assert "Delete the registration of each dead broker, /loadbalance/brokers/<id>," in cause.hint


def test_an_owner_that_lost_its_registration_is_one_cause_under_the_extensible_manager():
    group = {"bundles": 4, "in": 900, "mb_in": 4, "mb_out": 4}
    brokers = [{"name": "b-#:8080", "count": 3, "cpu": 40, "age_s": 5, "groups": [group]}]
    cluster = {**LATER, "unregistered": ["b-2:8080"]}
    found = diagnose(Report("e", {"cluster": cluster, "brokers": brokers}).snapshot(), LONG)
    [cause] = found.causes
    assert cause.code == "stale_owner"
    assert "(alive, not registered" in cause.summary
    assert "Restart b-2:8080 so that it registers" in cause.hint
    [lost] = [one for one in found.verdict.findings if one.code == "broker_unregistered"]
    assert "serves" not in f"{lost.consequence} {lost.hint}"
    [orphaned] = [one for one in found.verdict.findings if one.code == "orphaned_bundles"]
    assert "Lookups wait up to 30 s" in orphaned.consequence
