"""Suggested fixes of isolation: each one, set as it says, ends what it was suggested for."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from fleet_builder import make_snapshot

from core.ids import host_of
from core.plan.options import PlanOptions
from core.planning.isolation_fixes import FixFinder, IsolationFix
from core.pulsar.plan.policy.build import build_policy_plan
from core.pulsar.plan.policy.state import with_policies
from core.pulsar.rules.registry import assess
from core.pulsar.serving import Serving
from core.pulsar.settings import effective_settings
from core.pulsar.view import LoadView
from core.snapshot import PulsarSnapshot
from dashboard.presenters.pulsar.isolation_words import violations

NOW = datetime(2026, 7, 1, tzinfo=UTC)
FLEET = make_snapshot(brokers=6, bundles=80, now=NOW)
BROKERS = FLEET.brokers["broker"].to_pylist()
HOSTS = [host_of(one).replace(".", r"\.") for one in BROKERS]
SPACES = sorted(set(FLEET.bundles["namespace"].to_pylist()))
ACME = [name for name in SPACES if name.startswith("acme/")]


def policy(spaces: list[str], primary: list[str], least: int = 1, second: tuple[str, ...] = ()):
    parameters = {"min_limit": str(least), "usage_threshold": "80"}
    failover = {"policy_type": "min_available", "parameters": parameters}
    body = {"namespaces": spaces, "primary": primary, "secondary": list(second)}
    return json.dumps({**body, "auto_failover_policy": failover})


def fleet(**policies: str) -> PulsarSnapshot:
    rows = [{"kind": "isolation", "name": key, "body": body} for key, body in policies.items()]
    table = pa.Table.from_pylist(rows, schema=FLEET.policies.schema)
    return PulsarSnapshot.build(FLEET.manifest, {**FLEET.tables, "policies": table})


def with_domains(**domains: list[str]) -> PulsarSnapshot:
    rows = [
        {
            "kind": "failure_domain",
            "name": key.replace("_", "-"),
            "body": json.dumps({"brokers": b}),
        }
        for key, b in domains.items()
    ]
    table = pa.Table.from_pylist(rows, schema=FLEET.policies.schema)
    return PulsarSnapshot.build(FLEET.manifest, {**FLEET.tables, "policies": table})


def found(snapshot: PulsarSnapshot, code: str):
    settings = effective_settings(snapshot)
    return [one for one in assess(snapshot, settings) if one.code == code]


def fixes(snapshot: PulsarSnapshot, code: str) -> tuple[IsolationFix, ...]:
    settings = effective_settings(snapshot)
    serving = Serving.of(LoadView.of(snapshot, settings), settings)
    (finding,) = found(snapshot, code)
    return FixFinder(snapshot, serving).fixes_of(finding)


CASES = {
    "isolation_short": fleet(apart=policy(ACME[:1], HOSTS[:1], least=3)),
    "isolation_port_in_regex": fleet(apart=policy(ACME[:1], [f"{HOSTS[0]}:8080"])),
    "isolation_without_brokers": fleet(apart=policy(ACME[:1], ["gone"], least=2)),
    "isolation_overlaps": fleet(
        one=policy(ACME[:1], HOSTS[:1]), two=policy(["acme/.*", SPACES[-1]], HOSTS[1:2])
    ),
    "isolation_idle": fleet(apart=policy(["nobody/.*"], HOSTS[:1])),
    "isolation_nothing_shared": fleet(
        one=policy(ACME[:1], HOSTS[:3], least=3), two=policy(ACME[1:2], HOSTS[3:], least=2)
    ),
    "domain_twice": with_domains(zone_a=BROKERS[:2], zone_b=BROKERS[1:]),
}


@pytest.mark.parametrize("code", CASES)
def test_what_is_suggested_mends_it_and_nothing_else_breaks(code):
    snapshot = CASES[code]
    before = {one.code for one in assess(snapshot, effective_settings(snapshot))}
    suggested = fixes(snapshot, code)
    assert suggested
    for fix in suggested:
        assert fix.why.endswith(".")
        plan = build_policy_plan(snapshot, fix.desired, PlanOptions(now=NOW))
        assert not plan.by_severity("error"), fix
        after = with_policies(snapshot, plan.steps)
        assert not found(after, code), fix
        came = {
            one.code
            for one in assess(after, effective_settings(after))
            if one.severity in ("error", "warning")
        }
        assert came <= before | {"isolation_violated", "isolation_intruded"}, fix


def test_secondaries_come_before_strangers_and_a_broker_stays_for_the_rest():
    second = (HOSTS[4], HOSTS[5])
    snapshot = fleet(apart=policy(ACME[:1], HOSTS[:1], least=3, second=second))
    more, fewer = fixes(snapshot, "isolation_short")
    primary = json.loads(more.desired[0].value)["primary"]
    assert sorted(primary) == sorted([HOSTS[0], *second])
    assert "its secondaries" in more.why
    assert json.loads(fewer.desired[0].value)["auto_failover_policy"]["parameters"] == {
        "min_limit": "1",
        "usage_threshold": "80",
    }
    all_of_them = fleet(apart=policy(ACME[:1], HOSTS[:1], least=6))
    (only,) = fixes(all_of_them, "isolation_short")
    assert only.label == "Lower min_limit to 1"


def test_a_port_is_taken_out_before_brokers_are_added():
    snapshot = fleet(apart=policy(ACME[:1], [f"{HOSTS[0]}:8080"]))
    (fix,) = fixes(snapshot, "isolation_without_brokers")
    assert json.loads(fix.desired[0].value)["primary"] == [HOSTS[0]]


def test_an_overlap_keeps_the_expressions_that_are_its_own():
    (fix,) = fixes(CASES["isolation_overlaps"], "isolation_overlaps")
    assert json.loads(fix.desired[0].value)["namespaces"] == [*ACME[1:], SPACES[-1]]
    twin = fleet(one=policy(ACME, HOSTS[:1]), two=policy(["acme/.*"], HOSTS[1:2]))
    (fix,) = fixes(twin, "isolation_overlaps")
    assert fix.desired[0].value is None


def test_of_very_many_findings_those_that_are_listed_have_suggestions():
    policies = {f"p{at}": policy([f"nobody{at}/.*"], HOSTS[:1]) for at in range(22)}
    snapshot = fleet(**policies)
    settings = effective_settings(snapshot)
    mender = FixFinder(snapshot, Serving.of(LoadView.of(snapshot, settings), settings))
    told = violations(found(snapshot, "isolation_idle"), mender, ())
    assert [bool(one.fixes) for one in told] == [True] * 20 + [False]
    assert told[-1].sentence.startswith("2 more")


def test_what_only_a_person_can_judge_has_no_suggestion():
    domains = with_domains(zone_a=BROKERS[:2])
    assert fixes(domains, "domain_missing") == ()
