"""The optimiser on whole generated fleets: no constraint is ever broken, no bound undercut."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache

import msgspec
import numpy as np
import pyarrow.compute as pc
import pytest
from fleet_edit import edited
from hypothesis import given, settings
from hypothesis import strategies as st
from optimize_fleets import FleetRecipe, fifty, fleet
from sampled import examples

from core.ids import host_of, namespace_of
from core.optimize import OptimizeRequest, Proposal, optimize
from core.pulsar.isolation import governing_policy, parse_failure_domains, parse_isolation_policies
from core.pulsar.measures import measure
from core.pulsar.plan.build import build_unload_plan
from core.pulsar.plan.outcomes import Scenario
from core.pulsar.plan.project import project_scenario
from core.pulsar.settings import EffectiveSettings
from core.snapshot import PulsarSnapshot


@dataclass(frozen=True)
class Case:
    snapshot: PulsarSnapshot
    settings: EffectiveSettings
    request: OptimizeRequest
    proposal: Proposal


recipes = st.builds(
    FleetRecipe,
    brokers=st.integers(2, 14),
    bundles=st.integers(20, 240),
    seed=st.integers(0, 3),
    largest_ratio=st.sampled_from([0.1, 0.4, 1.5]),
    pools=st.sampled_from([0, 0, 2]),
    groups=st.integers(0, 3),
    has_domains=st.booleans(),
    topic_room=st.sampled_from([None, None, 0.1, 1.0]),
    older=st.sampled_from([0, 0, 1]),
)


@lru_cache(maxsize=32)
def built(recipe: FleetRecipe) -> tuple[PulsarSnapshot, EffectiveSettings]:
    if recipe.pools * 3 > recipe.brokers:
        recipe = FleetRecipe(brokers=recipe.brokers, bundles=recipe.bundles, seed=recipe.seed)
    return fleet(recipe)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    snapshot, effective = built(draw(recipes))
    names = snapshot.bundles["bundle"].to_pylist()
    spaces = snapshot.namespaces["namespace"].to_pylist()
    if draw(st.integers(0, 4)) == 0:  # something moved and is not reported by its new owner yet
        name = draw(st.sampled_from(names))
        owner = draw(st.sampled_from(snapshot.brokers["broker"].to_pylist()))
        snapshot = edited(snapshot, "bundles", {name: {"owner": owner}})
    request = OptimizeRequest(
        within=draw(st.sampled_from([0.02, 0.05, 0.2])),
        measure=draw(st.sampled_from([None, None, "usage"])),
        relief=draw(st.sampled_from([None, None, None, 0.3])),
        max_moves=draw(st.none() | st.integers(0, 30)),
        exclusions=tuple(draw(st.sets(st.sampled_from([*spaces, "acme/*"]), max_size=2))),
        recently_moved=tuple(draw(st.sets(st.sampled_from(names), max_size=10))),
    )
    return Case(snapshot, effective, request, optimize(snapshot, request, settings=effective))


def after(case: Case) -> PulsarSnapshot:
    names = case.snapshot.bundles["bundle"]
    rows = [pc.index(names, move.bundle).as_py() for move in case.proposal.moves]
    ends = tuple(move.destination for move in case.proposal.moves)
    return project_scenario(case.snapshot, np.array(rows, np.int64), Scenario(1.0, ends))


def column(snapshot: PulsarSnapshot, table: str, key: str, name: str) -> dict[str, object]:
    rows = snapshot.tables[table]
    return dict(zip(rows[key].to_pylist(), rows[name].to_pylist(), strict=True))


@settings(max_examples=examples(40), deadline=None)
@given(cases(), st.integers(-3, 3))
def test_a_budget_that_suffices_changes_nothing_and_another_is_the_reason(
    case: Case, more: int
) -> None:
    free = msgspec.structs.replace(case.request, max_moves=None)
    whole = optimize(case.snapshot, free, settings=case.settings)
    budget = max(len(whole.moves) + more, 0)
    tried = optimize(
        case.snapshot, msgspec.structs.replace(free, max_moves=budget), settings=case.settings
    )
    if budget >= len(whole.moves):
        assert tried.moves == whole.moves
        assert tried.binding == whole.binding
    elif tried.verdict == "best_effort":
        assert [one.code for one in tried.binding] == ["move_budget"]


@settings(max_examples=examples(80), deadline=None)
@given(cases())
def test_no_constraint_is_ever_broken(case: Case) -> None:
    moves, request = case.proposal.moves, case.request
    bundles = {row["bundle"]: row for row in case.snapshot.bundles.to_pylist()}
    assert len({move.bundle for move in moves}) == len(moves)
    assert request.max_moves is None or len(moves) <= request.max_moves
    for move in moves:
        row = bundles[move.bundle]
        assert row["owner"] == move.source == row["reported_by"]
        assert move.destination != move.source
        assert not row["is_broker_bound"]
        assert move.bundle not in request.recently_moved
        namespace = row["namespace"]
        assert namespace not in request.exclusions
        assert not ("acme/*" in request.exclusions and namespace.startswith("acme/"))
    no_policy_is_broken(case)
    no_version_is_older(case)
    no_topic_limit_is_passed(case)
    no_group_comes_together(case)


def no_policy_is_broken(case: Case) -> None:
    policies, _ = parse_isolation_policies(case.snapshot.policies)
    for move in case.proposal.moves:
        governing = governing_policy(policies, namespace_of(move.bundle))
        host = host_of(move.destination)
        roles = [policy.role_of(host) for policy in policies]
        if governing is None:
            assert "primary" not in roles
        else:
            assert governing.role_of(host) == "primary"


def no_version_is_older(case: Case) -> None:
    if not case.settings.flag("preferLaterVersions"):
        return
    version = column(case.snapshot, "brokers", "broker", "version")
    if len(set(version.values())) > 1:
        assert all(version[move.destination] == "4.2.4" for move in case.proposal.moves)


def no_topic_limit_is_passed(case: Case) -> None:
    limit = case.settings.number("loadBalancerBrokerMaxTopics")
    topics = column(case.snapshot, "brokers", "broker", "topic_count")
    arrived: Counter[str] = Counter()
    for move in case.proposal.moves:
        arrived[move.destination] += move.topics
    for broker, more in arrived.items():
        assert topics[broker] + more <= limit


def no_group_comes_together(case: Case) -> None:
    """No broker has more namespaces of a group than the emptiest one had, and one more."""
    group_of = column(case.snapshot, "namespaces", "namespace", "anti_affinity_group")
    brokers = case.snapshot.brokers["broker"].to_pylist()
    there: dict[tuple[str, str], set[str]] = {}
    for row in case.snapshot.bundles.to_pylist():
        group = group_of[row["namespace"]]
        if group and row["reported_by"]:
            there.setdefault((group, row["reported_by"]), set()).add(row["namespace"])
    came: dict[tuple[str, str], set[str]] = {}
    for move in case.proposal.moves:
        group = group_of[namespace_of(move.bundle)]
        if group:
            came.setdefault((group, move.destination), set()).add(namespace_of(move.bundle))
    domain = parse_failure_domains(case.snapshot.policies)
    for (group, broker), new in came.items():
        assert len(new) == 1
        if case.settings.flag("failureDomainsEnabled"):
            same = [
                spaces
                for (g, b), spaces in came.items()
                if g == group and domain[b] == domain[broker]
            ]
            assert len(set.union(*same)) == 1
        elif not case.settings.flag("preferLaterVersions") and not case.snapshot.policies[
            "kind"
        ].to_pylist().count("isolation"):
            least = min(len(there.get((group, other), ())) for other in brokers)
            assert len(there.get((group, broker), ())) == least


@settings(max_examples=examples(40), deadline=None)
@given(cases())
def test_it_never_gets_worse_and_says_what_it_reached(case: Case) -> None:
    proposal = case.proposal
    assert proposal.deviation_after <= proposal.deviation_before + 1e-9
    assert (proposal.verdict == "best_effort") == bool(proposal.binding)
    if case.request.relief is not None:
        return
    spread = measure(after(case), case.settings).of(proposal.measure)
    reached = float(np.abs(spread.deviations).max())
    assert reached == pytest.approx(proposal.deviation_after, abs=1e-5)
    if proposal.verdict == "reached":
        assert reached <= case.request.within + 1e-5


@settings(max_examples=examples(40), deadline=None)
@given(cases())
def test_no_bound_is_undercut(case: Case) -> None:
    proposal = case.proposal
    if proposal.verdict == "reached" and proposal.measure == "throughput":
        assert proposal.lower_bound_bytes_per_s is not None
        assert proposal.ratio >= 1 - 1e-6
    if proposal.lower_bound_bytes_per_s is None:
        assert proposal.verdict == "best_effort"
    if proposal.measure == "throughput":
        assert proposal.deviation_after >= proposal.deviation_floor - 1e-6


@settings(max_examples=examples(40), deadline=None)
@given(cases())
def test_every_plan_of_it_passes_the_checks_of_plans(case: Case) -> None:
    destinations = case.proposal.destinations
    if not destinations:
        return
    plan = build_unload_plan(
        case.snapshot,
        destinations,
        destinations=destinations,
        overrides={
            key: case.settings.value(key)
            for key in (
                "preferLaterVersions",
                "failureDomainsEnabled",
                "loadBalancerBrokerMaxTopics",
            )
        },
        now=case.snapshot.manifest.taken_at + timedelta(seconds=5),
    )
    assert not plan.by_severity("error")
    assert plan.complete


@settings(max_examples=examples(15), deadline=None)
@given(cases())
def test_same_question_same_answer(case: Case) -> None:
    assert optimize(case.snapshot, case.request, settings=case.settings) == case.proposal


@pytest.mark.parametrize("number", range(0, 50, 5))
def test_generated_fleets_are_balanced_near_the_least_traffic(number: int) -> None:
    snapshot, effective = fleet(fifty()[number])
    proposal = optimize(snapshot, OptimizeRequest(within=0.05), settings=effective)
    assert proposal.verdict == "reached"
    assert proposal.deviation_after <= 0.05
    assert proposal.ratio <= 1.15
