"""One verdict a broker: from its registration, session, report, entries and address."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from claims import with_claims
from report_cluster import Report

from core.findings.verdict import PROBLEMS
from core.optimize.planner import optimize
from core.optimize.request import OptimizeRequest
from core.pulsar.liveness import liveness_of, loads_of
from core.pulsar.placement.place import place_bundle
from core.pulsar.plan.build import build_unload_plan
from core.pulsar.plan.verify import recheck
from core.pulsar.rules.registry import assess
from core.pulsar.settings import effective_settings
from core.pulsar.shedding import active_shedding_strategy
from core.pulsar.shedding.rounds import shed_rounds
from core.pulsar.snapshot.zkdump import import_zk_dump
from core.pulsar.view import LoadView
from core.simulation.records import after_reports
from core.snapshot import Problem, PulsarSnapshot
from core.units import datetime_to_ms
from dashboard.queries.pulsar.broker_load import believed

NOW = 1_795_000_000_000
MINUTE = 60_000
HOUR = 60 * MINUTE


@dataclass(frozen=True)
class Broker:
    """One broker of a dump; ``age_min``: of its report; ``took_min``: of its newest bundle."""

    name: str
    session: int | None = 7
    age_min: float = 0.0
    took_min: float = 600.0
    bundles: int = 4
    is_registered: bool = True
    bundle_session: int | None = None
    version: str = "3.0.9"


def dump(
    brokers: list[Broker],
    *,
    leader: str = "",
    with_mtime: bool = False,
    policies: dict[str, object] | None = None,
) -> str:
    """Return the lines of a dump."""
    lines, space, low = [], "t/n", 0
    total = sum(one.bundles for one in brokers)
    bounds = [f"0x{step * 0xFFFFFFFF // total:08x}" for step in range(total + 1)]
    for one in brokers:
        own = [f"{space}/{bounds[low + i]}_{bounds[low + i + 1]}" for i in range(one.bundles)]
        low += one.bundles
        stats = {
            "msgRateIn": 100.0,
            "msgRateOut": 100.0,
            "msgThroughputIn": 1e6,
            "msgThroughputOut": 1e6,
            "topics": 2,
            "producerCount": 1,
            "consumerCount": 1,
        }
        report = {
            "webServiceUrl": f"http://{one.name}",
            "pulsarServiceUrl": f"pulsar://{one.name.split(':')[0]}:6650",
            "cpu": {"usage": 40.0 * one.bundles, "limit": 400.0},
            "msgRateIn": 100.0 * one.bundles,
            "msgRateOut": 100.0 * one.bundles,
            "msgThroughputIn": 1e6 * one.bundles,
            "msgThroughputOut": 1e6 * one.bundles,
            "lastUpdate": int(NOW - one.age_min * MINUTE),
            "lastStats": dict.fromkeys(own, stats),
            "bundles": own,
            "persistentTopicsEnabled": True,
            "nonPersistentTopicsEnabled": True,
            "brokerVersionString": one.version,
            "loadManagerClassName": (
                "org.apache.pulsar.broker.loadbalance.impl.ModularLoadManagerImpl"
            ),
        }
        held = {} if one.session is None else {"ephemeralOwner": one.session, "ctime": NOW - HOUR}
        if with_mtime:
            held["mtime"] = NOW
        if one.is_registered:
            lines.append({"path": f"/loadbalance/brokers/{one.name}", "value": report, **held})
        owner = one.bundle_session if one.bundle_session is not None else one.session
        for name in own:
            value = {
                "nativeUrl": report["pulsarServiceUrl"],
                "httpUrl": report["webServiceUrl"],
                "disabled": False,
            }
            made = (
                {}
                if owner is None
                else {
                    "ephemeralOwner": owner,
                    "ctime": int(NOW - one.took_min * MINUTE),
                }
            )
            lines.append({"path": f"/namespace/{name}", "value": value, **made})
    if leader:
        value = {"serviceUrl": f"http://{leader}", "brokerId": leader}
        lines.append({"path": "/loadbalance/leader", "value": value})
    if policies:
        lines.append({"path": "/admin/clusters/c/namespaceIsolationPolicies", "value": policies})
    lines.append(
        {
            "path": f"/admin/local-policies/{space}",
            "value": {"bundles": {"boundaries": bounds, "numBundles": total}},
        }
    )
    return "\n".join(json.dumps(line) for line in lines)


@pytest.fixture
def load(tmp_path: Path):
    def read(brokers: list[Broker], **options) -> PulsarSnapshot:
        path = tmp_path / "dump.jsonl"
        path.write_text(dump(brokers, **options))
        return import_zk_dump(path, "c", datetime.fromtimestamp(NOW / 1000, UTC))

    return read


def states(snapshot: PulsarSnapshot) -> dict[str, str]:
    return {
        row.broker: row.state for row in liveness_of(snapshot, effective_settings(snapshot)).rows
    }


def fleet(*last: Broker, size: int = 3) -> list[Broker]:
    return [Broker(f"b-{at}:8080", session=100 + at) for at in range(size)] + list(last)


ODD = "odd-7.zone:8081"

CASES = {
    "an ordinary fleet": (Broker(ODD), "alive"),
    "a quiet broker reports at its longest interval": (Broker(ODD, age_min=15), "alive"),
    "an old report with a living session": (Broker(ODD, age_min=55), "alive, reports stopped"),
    "days old, and its session is valid": (Broker(ODD, age_min=9000), "alive, reports stopped"),
    "a clock a little ahead": (Broker(ODD, age_min=-0.2), "alive"),
    "no session, report 5 h old": (Broker(ODD, session=0, age_min=300), "dead"),
    "no session, no bundles": (Broker(ODD, session=0, age_min=45, bundles=0), "dead"),
    "no session, but it reports": (Broker(ODD, session=0, age_min=4), "alive"),
    "no session and late, but it took a bundle": (
        Broker(ODD, session=0, age_min=70, took_min=3, bundle_session=88),
        "alive, reports stopped",
    ),
    "registered by an earlier process, its bundles' session lives": (
        Broker(ODD, session=0, age_min=300, took_min=280, bundle_session=88),
        "alive, reports stopped",
    ),
    "sessions unknown, 40 min": (Broker(ODD, session=None, age_min=40), "suspected dead"),
    "sessions unknown, 5 h": (Broker(ODD, session=None, age_min=300), "dead"),
    "not registered, its session took a bundle": (
        Broker(ODD, is_registered=False, took_min=3),
        "alive, not registered",
    ),
    "not registered, ownership without a session": (
        Broker(ODD, is_registered=False, session=0),
        "dead",
    ),
    "not registered, sessions unknown": (
        Broker(ODD, is_registered=False, session=None),
        "unknown",
    ),
}  # fmt: skip


@pytest.mark.parametrize("size", [1, 3, 60])
@pytest.mark.parametrize("name", CASES)
def test_each_broker_has_one_verdict(load, name: str, size: int) -> None:
    odd, expected = CASES[name]
    found = states(load(fleet(odd, size=size)))
    assert found.pop(ODD) == expected
    assert set(found.values()) == {"alive"}


def test_bundles_of_a_live_session_are_held_whatever_registered_their_owner(load) -> None:
    odd = Broker(ODD, session=0, age_min=300, took_min=280, bundle_session=88)
    found = assess(load(fleet(odd), leader="b-0:8080"))
    assert [one.code for one in found if one.severity in PROBLEMS] == ["reports_stopped"]


def test_a_dump_is_as_old_as_the_newest_znode_in_it(load) -> None:
    snapshot = load([replace(one, age_min=300, took_min=1) for one in fleet()])
    assert "all_reports_old" in {one.code for one in assess(snapshot)}


def test_a_negative_session_is_one(load) -> None:
    snapshot = load(fleet(Broker(ODD, session=-5, is_registered=False)))
    assert states(snapshot)[ODD] == "alive, not registered"


def test_a_dump_that_is_read_later_kills_no_broker(load) -> None:
    snapshot = load(fleet(Broker(ODD), size=4))
    later = replace(snapshot.manifest, taken_at=datetime.fromtimestamp(NOW / 1000 + 90_000, UTC))
    old = PulsarSnapshot(later, snapshot.tables)
    assert set(states(old).values()) == {"alive"}
    assert [item.code for item in assess(old) if item.area == "liveness"] == ["all_reports_old"]


def test_in_a_dump_that_is_read_later_the_dead_one_still_is(load) -> None:
    snapshot = load(fleet(Broker(ODD, session=0, age_min=300)))
    later = replace(snapshot.manifest, taken_at=datetime.fromtimestamp(NOW / 1000 + 90_000, UTC))
    assert states(PulsarSnapshot(later, snapshot.tables))[ODD] == "dead"


def test_one_clock_ahead_of_all_others_kills_none(load) -> None:
    brokers = [Broker(f"b-{at}:8080", session=None, age_min=50) for at in range(5)]
    found = states(load([*brokers, Broker(ODD, session=None)]))
    assert found.pop(ODD) == "alive"
    assert set(found.values()) == {"unknown"}


@pytest.mark.parametrize(("ahead_min", "is_named"), [(0.5, False), (5, True), (600, True)])
def test_a_report_from_the_future_is_named(load, ahead_min: float, *, is_named: bool) -> None:
    snapshot = load(fleet(Broker(ODD, age_min=-ahead_min)))
    found = [one for one in assess(snapshot) if one.code == "reports_ahead"]
    assert [one.subject for one in found] == [ODD] * is_named
    assert all(one.severity == "warning" for one in found)


def test_reports_of_all_from_the_future_are_one_finding(load) -> None:
    snapshot = load([Broker(f"b-{at}:8080", age_min=-90) for at in range(3)])
    (found,) = [one for one in assess(snapshot) if one.code == "reports_ahead"]
    assert "and of 2 other brokers" in found.sentence
    assert "90 min after the snapshot" in found.sentence


def test_the_time_of_the_znode_comes_before_the_brokers_clock(load) -> None:
    behind = Broker(ODD, session=0, age_min=240)
    assert states(load(fleet(behind), with_mtime=True))[ODD] == "alive"


@pytest.mark.parametrize(
    ("code", "session", "expected"),
    [
        ("timeout", 7, "suspected dead"),
        ("unreachable", 7, "suspected dead"),
        ("unreachable", 0, "dead"),
        ("timeout", 0, "suspected dead"),
    ],
)
def test_a_silent_address_counts(load, code: str, session: int, expected: str) -> None:
    snapshot = load(fleet(Broker(ODD, session=session)))
    problem = Problem(code=code, place=f"http://{ODD}", what="x")
    probed = PulsarSnapshot(replace(snapshot.manifest, problems=(problem,)), snapshot.tables)
    assert states(probed)[ODD] == expected


def test_where_no_address_answers_the_path_to_them_is_the_likelier_cause(load) -> None:
    snapshot = load(fleet(Broker(ODD)))
    problems = tuple(
        Problem(code="timeout", place=f"http://{name}", what="x")
        for name in snapshot.brokers["broker"].to_pylist()
    )
    probed = PulsarSnapshot(replace(snapshot.manifest, problems=problems), snapshot.tables)
    assert set(states(probed).values()) == {"alive"}
    assert [item.code for item in assess(probed) if item.area == "liveness"] == ["brokers_silent"]


def test_one_finding_a_broker_with_its_cost_and_fix(load) -> None:
    snapshot = load(fleet(Broker(ODD, session=0, age_min=300, bundles=6)))
    problem = Problem(code="unreachable", place=f"http://{ODD}", what="x")
    probed = PulsarSnapshot(replace(snapshot.manifest, problems=(problem,)), snapshot.tables)
    (found,) = [item for item in assess(probed) if item.area == "liveness"]
    assert (found.code, found.subject, found.severity) == ("broker_dead", ODD, "error")
    assert found.sentence.startswith(f"{ODD} is dead: no session, report 5 h old")
    assert (found.cost.bundles, found.cost.topics, found.cost.connections) == (6, 12, 12)
    assert f"/loadbalance/brokers/{ODD}" in found.hint
    assert "3.0.10" in found.hint


def test_many_leftovers_of_restarts_ask_for_one_thing(load) -> None:
    left = [Broker(f"old-{at}:8080", session=0, age_min=200 + at, bundles=0) for at in range(9)]
    found = [item for item in assess(load([*fleet(), *left])) if item.code == "broker_dead"]
    assert len(found) == 9
    assert len({item.hint for item in found}) == 1


@pytest.mark.parametrize(
    "odd",
    [Broker(ODD, session=0, age_min=300, bundles=0), Broker(ODD, session=None, age_min=40)],
)
def test_a_broker_that_is_dead_or_suspected_is_given_nothing(load, odd: Broker) -> None:
    brokers = fleet(replace(odd, bundles=1), size=3)
    brokers[0] = replace(brokers[0], bundles=12)
    snapshot = load(brokers)
    settings = effective_settings(snapshot)
    view = LoadView.of(snapshot, settings)
    busy = snapshot.bundles["bundle"][0].as_py()
    for with_filters in (True, False):
        for strategy in ("LeastLongTermMessageRate", "LeastResourceUsageWithWeight"):
            placed = place_bundle(
                view, busy, settings, strategy=strategy, with_filters=with_filters
            )
            assert ODD not in placed.distribution
            assert placed.distribution
            assert placed.ruled_out[ODD] == view.dead[ODD]
    moves = optimize(snapshot, OptimizeRequest()).moves
    assert moves
    assert ODD not in {move.destination for move in moves}
    plan = build_unload_plan(snapshot, [busy], now=snapshot.manifest.taken_at, destination=ODD)
    assert "destination_dead" in {item.code for item in plan.diagnostics}
    assert not plan.applyable
    # the leader goes by the registration: what it places may land there
    plan = build_unload_plan(snapshot, [busy], now=snapshot.manifest.taken_at)
    assert "placement_dead" in {item.code for item in plan.diagnostics}
    assert not plan.applyable
    elsewhere = next(name for name in placed.distribution if name != ODD)
    plan = build_unload_plan(
        snapshot, [busy], now=snapshot.manifest.taken_at, destination=elsewhere
    )
    assert plan.applyable, plan.diagnostics


@pytest.mark.parametrize(
    ("namespaces", "primary", "secondary", "is_candidate"),
    [
        ("t/n", r"b-[01]\..*", "none", False),
        ("t/n", r"b-0\..*", r"b-1\..*", False),
        ("t/n", ".*", "none", True),
        ("t/n", r"b-0\..*", r"odd.*", True),  # the leader may go on to the secondaries
        ("t/other", r"odd.*", "none", False),  # it is kept for others
        ("t/other", r"b-0\..*", "none", True),
        ("t/other", "(", "none", True),  # of whom a policy speaks that cannot be read is unknown
    ],
)
def test_the_dead_that_isolation_excludes_are_no_candidates(
    load, namespaces: str, primary: str, secondary: str, *, is_candidate: bool
) -> None:
    policy = {
        "namespaces": [namespaces],
        "primary": [primary],
        "secondary": [secondary],
        "auto_failover_policy": {
            "policy_type": "min_available",
            "parameters": {"min_limit": "1", "usage_threshold": "80"},
        },
    }
    brokers = [Broker(f"b-{at}.zone:8080", session=100 + at) for at in range(3)]
    brokers.append(Broker(ODD, session=0, age_min=300))
    snapshot = load(brokers, policies={"p": policy})
    now = snapshot.manifest.taken_at
    two = snapshot.bundles["bundle"].to_pylist()[:2]
    plan = build_unload_plan(snapshot, two, now=now)
    found = [item.subject for item in plan.diagnostics if item.code == "placement_dead"]
    assert found == [ODD] * is_candidate
    assert plan.applyable != is_candidate, plan.diagnostics
    assert len(plan.steps) == (0 if is_candidate else 2)
    if plan.steps:
        assert recheck(snapshot, plan, (), now) == {}
        found = recheck(load(brokers), plan, (), now)  # the policy is gone meanwhile
        assert [item.code for item in found.values()] == ["placement_dead"] * 2


def test_where_reports_stopped_the_bundles_have_the_load(load) -> None:
    snapshot = load(fleet(Broker(ODD, age_min=90, bundles=5)))
    row = loads_of(snapshot).slice(3, 1).to_pylist()[0]
    assert row["broker"] == ODD
    assert row["cpu_usage"] is None
    assert row["msg_rate_in"] == pytest.approx(500.0)
    assert row["topic_count"] == 10
    view = LoadView.of(snapshot, effective_settings(snapshot))
    assert not view.usable[3]
    assert not np.isnan(view.broker_msg_rate[3])
    assert any("sum over its bundles" in note for note in view.notes)


def extensible(ages_s: list[float], *, hot: float = 40) -> PulsarSnapshot:
    """Return a cluster of the extensible manager of which ages of the records are given."""
    group = {"bundles": 6, "in": 900, "mb_in": 8}
    brokers = [
        {"name": f"e-{at}:8080", "cpu": hot if not at else 35, "age_s": age, "groups": [group]}
        for at, age in enumerate(ages_s)
    ]
    brokers[-1] |= {"cpu": 1, "groups": []}
    facts = {"cluster": {"load_manager": "extensible", "release": "4.0.2"}, "brokers": brokers}
    return Report("e", facts).snapshot()


@pytest.mark.parametrize(
    ("ages", "expected"),
    [
        ([5, 5, 5, 18_000], "dead"),
        ([5, 900, 899, 18_000], "dead"),
        ([5, 18_000], "dead"),
        ([5] * 199 + [18_000], "dead"),
        ([5, 5, 2_400], "suspected dead"),
        ([5, 5, 890], "alive"),
        ([5, 5, 1_790], "alive"),
        ([18_000, 18_000, 18_000], "alive"),
        ([5, 18_000, 18_000], "unknown"),
    ],
)
def test_records_of_the_extensible_manager_count_as_reports(ages, expected) -> None:
    snapshot = extensible(ages)
    assert states(snapshot)[f"e-{len(ages) - 1}:8080"] == expected


def test_registrations_of_the_extensible_manager_are_written_once_and_are_no_reports() -> None:
    snapshot = extensible([5, 6, 7])
    started = datetime_to_ms(snapshot.manifest.taken_at) - 3 * HOUR
    rows = [
        dict.fromkeys(snapshot.claims.schema.names)
        | {
            "subject_kind": "broker",
            "subject": broker,
            "broker": broker,
            "source": "znode",
            "session_id": 7 + at,
            "created_at": started,
            "modified_at": started,
        }
        for at, broker in enumerate(snapshot.brokers["broker"].to_pylist())
    ]
    live = with_claims(snapshot, rows)
    assert set(states(live).values()) == {"alive"}
    assert "all_reports_old" not in {one.code for one in assess(live)}
    assert liveness_of(live, effective_settings(live)).all_old_s is None


def test_the_extensible_manager_is_not_to_send_a_bundle_to_the_dead() -> None:
    snapshot = extensible([5, 5, 5, 2_400], hot=95)
    settings = effective_settings(snapshot)
    view = LoadView.of(snapshot, settings)
    placed = place_bundle(view, str(view.bundles[0]), settings)
    assert placed.ruled_out["e-3:8080"] == "suspected dead: report 40 min old"
    strategy = active_shedding_strategy("extensible", settings)
    rounds = list(islice(shed_rounds(strategy, view, settings), 6))
    ends = {broker for one in rounds for landing in one.destinations.values() for broker in landing}
    assert ends == {"e-1:8080"}
    later = after_reports(snapshot, settings, 1.0, ())
    assert states(later)["e-3:8080"] == "suspected dead"


def test_the_past_of_a_dead_broker_ends_when_its_report_was_due(load) -> None:
    snapshot = load(fleet(Broker("b-9:8080", session=None, age_min=300)))
    settings = effective_settings(snapshot)
    columns = ["broker", "cpu_ratio", "msg_rate_in"]
    moments = [datetime.fromtimestamp((NOW - ago * MINUTE) / 1000, UTC) for ago in (310, 299, 200)]
    history = [(moment, snapshot.brokers.select(columns)) for moment in moments]
    known = [
        [row["cpu_ratio"] is not None for row in table.to_pylist()]
        for _, table in believed(history, snapshot, settings)
    ]
    alive = [True] * 3
    assert known == [[*alive, True], [*alive, True], [*alive, False]]
