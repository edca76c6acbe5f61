"""Reasons of placement, splits and the Pegasus balancer are true, and the decision follows."""

from __future__ import annotations

import itertools
import math
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from random_fleets import pegasus_clusters, pulsar_rows, pulsar_view
from sampled import examples

from core.pegasus.balance.model import BalanceOptions, BalancePlan, PlanKind, reason_of
from core.pegasus.balance.preconditions import obstacles
from core.pegasus.balance.rounds import balance_rounds
from core.pegasus.view import ClusterView
from core.pulsar.placement import STRATEGY_NAMES, Placement, place_bundle
from core.pulsar.settings import EffectiveSettings
from core.pulsar.split import SplitSubject
from core.pulsar.split.algorithms import Positions
from core.pulsar.split.conditions import CUT, is_due, split_conditions
from core.pulsar.split.model import SplitCondition
from core.pulsar.view import LoadView

# -- placement ------------------------------------------------------------------------------------


def least(values: dict[str, int]) -> int:
    return min(values.values(), default=0)


def passed(rows: dict[str, Any], space: str, conf: EffectiveSettings) -> dict[str, str]:
    """Run the filters on the rows: ``{broker: the filter that takes it out, or ""}``."""
    brokers = {row["broker"]: row for row in rows["brokers"]}
    found = {
        name: "" if row["persistent_topics_enabled"] else "applyNamespacePolicies"
        for name, row in brokers.items()
    }

    def left() -> list[str]:
        return [name for name, reason in found.items() if not reason]

    def drop(name: str, kept: list[str]) -> None:
        found.update(dict.fromkeys(set(left()) - set(kept), name))

    few = [
        name
        for name in left()
        if brokers[name]["topic_count"] <= conf.number("loadBalancerBrokerMaxTopics")
    ]
    drop("filterBrokersWithLargeTopicCount", few or left())
    held = [row for row in rows["bundles"] if row["reported_by"]]
    groups = {row["namespace"]: row["anti_affinity_group"] for row in rows["namespaces"]}
    if groups[space]:
        counts = {
            name: len(
                {
                    row["namespace"]
                    for row in held
                    if row["reported_by"] == name and groups[row["namespace"]]
                }
            )
            for name in left()
        }
        kept = [name for name in left() if counts[name] == least(counts)]
        drop("filterAntiAffinityGroupOwnedBrokers", kept)
    if conf.flag("loadBalancerDistributeBundlesEvenlyEnabled"):
        counts = {
            name: sum(row["reported_by"] == name and row["namespace"] == space for row in held)
            for name in left()
        }
        kept = [name for name in left() if counts[name] == least(counts)]
        drop("removeMostServicingBrokersForNamespace", kept)
    return found


def number_before(word: str, text: str) -> int:
    """Return the whole number before a word in a reason."""
    found = re.search(rf"([\d,]+) {word}", text)
    assert found, text
    return int(found[1].replace(",", ""))


def check_reason(
    placement: Placement, broker: str, view: LoadView, rows: dict[str, Any], conf: EffectiveSettings
) -> None:
    """Fail unless the numbers of a reason are those of the broker's row."""
    name, _, words = placement.ruled_out[broker].partition(": ")
    row = next(one for one in rows["brokers"] if one["broker"] == broker)
    space = placement.bundle.rpartition("/")[0]
    mine = [one for one in rows["bundles"] if one["reported_by"] == broker]
    match name:
        case "applyNamespacePolicies":
            assert words == "serves no persistent topics"
            assert not row["persistent_topics_enabled"]
        case "filterBrokersWithLargeTopicCount":
            assert number_before("topics", words) == row["topic_count"]
            bound = conf.number("loadBalancerBrokerMaxTopics")
            assert words.endswith(f"the maximum is {bound:,.0f}")
            assert row["topic_count"] > bound
        case "filterAntiAffinityGroupOwnedBrokers":
            groups = {one["namespace"]: one["anti_affinity_group"] for one in rows["namespaces"]}
            held = len({one["namespace"] for one in mine if groups[one["namespace"]]})
            assert number_before("namespace", words) == held
            assert held > int(words.rpartition(" ")[2])
        case "removeMostServicingBrokersForNamespace":
            held = sum(one["namespace"] == space for one in mine)
            assert number_before("bundle", words) == held
            assert held > int(words.rpartition(" ")[2])
        case _:
            assert name == placement.strategy
            check_loss(placement, broker, view, conf, words)


def check_loss(
    placement: Placement, broker: str, view: LoadView, conf: EffectiveSettings, words: str
) -> None:
    """Fail unless a candidate that was not picked lost by what the reason says."""
    at = view.broker_row(broker)
    limit = conf.number("loadBalancerBrokerOverloadedThresholdPercentage") / 100
    if words.startswith("usage ") and " is over " in words:
        assert view.overload_usage[at] > limit
        assert placement.strategy in ("LeastLongTermMessageRate", "RoundRobinBrokerSelector")
    elif words.startswith("long-term rate "):
        assert view.overload_usage[at] <= limit
        best = min(placement.scores.values())
        assert placement.scores[broker] > best
        assert view.broker_long_rate[at] == pytest.approx(placement.scores[broker])
    else:
        margin = conf.number("loadBalancerAverageResourceUsageDifferenceThresholdPercentage")
        usage = view.usage[[view.broker_row(name) for name in placement.candidates]]
        assert f"is not {margin:g} points below the mean" in words
        assert words.endswith(f"of {len(placement.candidates)} candidates")
        assert view.usage[at] + margin / 100 > usage.mean() - 1e-9


@settings(max_examples=examples(120), deadline=None)
@given(
    rows=pulsar_rows(),
    strategy=st.sampled_from(STRATEGY_NAMES),
    evenly=st.booleans(),
    excluded=st.sampled_from(([], ["acme/orders"])),
)
def test_candidates_are_the_brokers_that_no_filter_takes_out_and_reasons_are_true(
    rows: dict[str, Any], strategy: str, *, evenly: bool, excluded: list[str]
) -> None:
    view, conf = pulsar_view(
        rows,
        loadBalancerDistributeBundlesEvenlyEnabled=evenly,
        loadBalancerSheddingExcludedNamespaces=excluded,
    )
    for row in rows["bundles"][:4]:
        found = place_bundle(view, row["bundle"], conf, strategy=strategy)
        wanted = passed(rows, row["namespace"], conf)
        assert set(found.candidates) == {name for name, reason in wanted.items() if not reason}
        lost = set(found.candidates) - set(found.distribution)
        for name, text in found.ruled_out.items():
            assert text.partition(": ")[0] == (wanted[name] or found.strategy)
            assert (name in lost) == (not wanted[name])
            check_reason(found, name, view, rows, conf)
        assert found.strategy == (
            "RoundRobinBrokerSelector" if row["namespace"] in excluded else strategy
        )
        check_why(found)


def check_why(found: Placement) -> None:
    """Fail unless the sentence counts winners and candidates."""
    winners, candidates = len(found.distribution), len(found.candidates)
    if not winners:
        assert found.why == "No broker is eligible: the policies exclude all brokers."
    elif winners == candidates == 1:
        assert found.why == "Only one candidate."
    else:
        share = "one broker" if winners == 1 else f"one of {winners} brokers"
        assert f": {share} " in found.why
        assert f"{candidates} candidates" in found.why


# -- splits ---------------------------------------------------------------------------------------

AMOUNT = st.none() | st.sampled_from((0, 1, 2, 3, 1_000, 1_001, 30_000, 30_001))
FLOW = st.none() | st.sampled_from((0.0, 104_857_600.0, 104_857_601.0, 5e8))


@st.composite
def subjects(draw: st.DrawFn) -> SplitSubject:
    """A bundle at and around every limit."""
    lower = draw(st.integers(0, 5))
    return SplitSubject(
        bundle="t/n/x",
        namespace="t/n",
        lower=lower,
        upper=lower + draw(st.sampled_from((1, 2, 3, 1000))),
        owner=draw(st.sampled_from((None, "b:1"))),
        reporter=draw(st.sampled_from((None, "b:1", "b:1"))),
        is_broker_bound=False,
        topic_count=draw(AMOUNT),
        sessions=draw(AMOUNT),
        msg_rate=draw(AMOUNT),
        throughput=draw(FLOW),
        long_msg_rate=draw(AMOUNT),
        long_throughput=draw(FLOW),
        bundles_in_namespace=draw(st.sampled_from((1, 127, 128, 129))),
        brokers=draw(st.sampled_from((0, 1, 2))),
    )


def above(value: float | None, limit: float) -> bool | None:
    return None if value is None else value > limit


def wanted_conditions(
    subject: SplitSubject, conf: EffectiveSettings, by_default: Positions, *, is_extensible: bool
) -> tuple[list[bool | None], list[bool | None]]:
    """Return what must hold, and of what one suffices, from the bundle alone."""
    key = "loadBalancerNamespaceBundleMax"
    limit = {name: conf.number(key + name) for name in ("Topics", "Sessions", "MsgRate")}
    most_bytes = conf.number(f"{key}BandwidthMbytes") * 1024 * 1024
    rate, flow = subject.msg_rate, subject.throughput
    if not is_extensible:
        rate = rate if subject.long_msg_rate is None else subject.long_msg_rate
        flow = flow if subject.long_throughput is None else subject.long_throughput
    sessions = above(subject.sessions, limit["Sessions"]) if limit["Sessions"] > 0 else False
    any_of = [
        above(subject.topic_count, limit["Topics"]),
        sessions,
        above(rate, limit["MsgRate"]),
        above(flow, most_bytes),
    ]
    cuts = len(by_default.values)
    has_cut = (cuts == 1 if is_extensible else cuts > 0) if by_default.is_known else None
    must = [
        conf.flag("loadBalancerAutoBundleSplitEnabled"),
        above(subject.topic_count, 1),
        subject.bundles_in_namespace < conf.number("loadBalancerNamespaceMaximumBundles"),
        subject.upper - subject.lower > 1,
        has_cut,
    ]
    if is_extensible:
        return [*must, conf.flag("loadBalancerEnabled"), subject.owner is not None], any_of
    second = 2 if conf.rules.splits_need_second else 1
    return [*must, subject.brokers >= second, subject.reporter is not None], any_of


def due(must: list[bool | None], any_of: list[bool | None]) -> bool | None:
    if False in must or all(one is False for one in any_of):
        return False
    return True if None not in must and True in any_of else None


def check_condition(item: SplitCondition) -> None:
    """Fail unless the verdict, the distance and the sentence are those of the numbers."""
    assert item.sentence
    if item.measured is None or item.threshold is None:
        assert item.distance is None
        assert item.is_met is None or item.unit == ""
        return
    gap = item.threshold - item.measured
    if item.name == "bundles of the namespace":
        assert item.is_met == (gap > 0)
        assert item.distance == -gap
        words = "less than" if item.is_met else "not less than"
    elif item.kind == "trigger":
        assert item.is_met == (gap < 0)
        assert item.distance == gap
        words = "more than" if item.is_met else "not more than"
    else:
        assert item.is_met == (gap <= 0)
        assert item.distance == gap
        words = "enough: it needs" if item.is_met else "less than"
    assert (item.distance <= 0) if item.is_met else (item.distance >= 0)
    if item.kind != "switch":
        side = "the threshold" in item.sentence
        assert f" is {words} " in item.sentence or side or item.sentence.count("exactly")


@settings(max_examples=examples(400), deadline=None)
@given(data=st.data(), subject=subjects(), is_extensible=st.booleans())
def test_a_split_is_due_by_its_conditions_alone(
    data: st.DataObject, subject: SplitSubject, *, is_extensible: bool
) -> None:
    conf = EffectiveSettings.defaults(
        data.draw(st.sampled_from(("3.0", "4.2.4", "3.0.1"))),
        {
            "loadBalancerAutoBundleSplitEnabled": data.draw(st.sampled_from((True, True, False))),
            "loadBalancerEnabled": data.draw(st.sampled_from((True, True, False))),
            "loadBalancerNamespaceBundleMaxSessions": data.draw(st.sampled_from((1000, 0, -1))),
        },
    )
    values = data.draw(st.sampled_from(((), (2,), (2, 3))))
    by_default = Positions(values, "" if values else "None.", data.draw(st.booleans()))
    found = split_conditions(subject, conf, is_extensible=is_extensible, by_default=by_default)
    must = [item.is_met for item in found if item.kind in ("switch", "guard")]
    any_of = [item.is_met for item in found if item.kind == "trigger"]
    wanted = wanted_conditions(subject, conf, by_default, is_extensible=is_extensible)
    assert (sorted(map(str, must)), any_of) == (sorted(map(str, wanted[0])), wanted[1])
    assert is_due(found) == due(*wanted)
    assert next(item for item in found if item.name == CUT).is_met == wanted[0][4]
    for item in found:
        check_condition(item)


# -- Pegasus --------------------------------------------------------------------------------------

PLAN = re.compile(
    r"(\S+) has (\d+) (replicas|primaries) of table (\S+), (\S+) has (\d+); (.*)", re.DOTALL
)


def held_by(view: ClusterView, plan: BalancePlan, node: int, *, by_role: bool) -> int:
    """Return what a node holds of the plan's table, of what the plan counts."""
    rows = view.rows_of(int(view.table_of_row[plan.row]))
    members = view.members[rows.start : rows.stop]
    if plan.kind is not PlanKind.COPY_SECONDARY:
        return int((members[:, 0] == node).sum())
    return int((members[:, 1:] == node).sum() if by_role else (members == node).sum())


@settings(max_examples=examples(160), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(view=pegasus_clusters(), policy=st.sampled_from(("app", "cluster")))
def test_the_reason_of_every_planned_move_is_true(view: ClusterView, policy: Any) -> None:
    options = BalanceOptions(policy=policy)
    for done in itertools.islice(balance_rounds(view, options), 3):
        for plan in done.plans:
            match = PLAN.fullmatch(reason_of(done.before, plan))
            assert match, reason_of(done.before, plan)
            source, source_count, what, table, target, target_count, why = match.groups()
            assert (source, target) == (view.nodes[plan.source], view.nodes[plan.target])
            assert (int(source_count), int(target_count)) == (plan.source_count, plan.target_count)
            assert table == view.app_names[view.table_of_row[plan.row]]
            assert what == ("replicas" if plan.kind is PlanKind.COPY_SECONDARY else "primaries")
            check_why_moved(done.before, plan, why)
        check_counts(done.before, done.plans, by_role=policy == "cluster")


def check_why_moved(view: ClusterView, plan: BalancePlan, why: str) -> None:
    held = view.members[plan.row].tolist()
    size = int(view.partition_counts[view.table_of_row[plan.row]])
    match plan.kind:
        case PlanKind.MOVE_PRIMARY:
            low, high = math.floor(size / len(view.nodes)), math.ceil(size / len(view.nodes))
            assert why.startswith(f"an even share is {low} to {high}. ")
            assert plan.target in held[1:]
            assert "already has a secondary" in why
        case PlanKind.COPY_PRIMARY:
            assert "the replica is copied" in why
            assert plan.target not in held
            assert held[0] == plan.source
        case PlanKind.COPY_SECONDARY:
            assert why == "the secondary is copied to balance them."
            assert plan.source in held[1:]
            assert plan.target not in held


def check_counts(view: ClusterView, plans: tuple[BalancePlan, ...], *, by_role: bool) -> None:
    """Fail unless the counts are those of the state, less and more what was planned before."""
    for table in {int(view.table_of_row[plan.row]) for plan in plans}:
        for kind in PlanKind:
            own = [
                plan
                for plan in plans
                if plan.kind is kind and int(view.table_of_row[plan.row]) == table
            ]
            for node in {plan.source for plan in own} | {plan.target for plan in own}:
                first = next(plan for plan in own if node in (plan.source, plan.target))
                before = held_by(view, first, node, by_role=by_role)
                gives = sorted(
                    (one.source_count for one in own if one.source == node), reverse=True
                )
                takes = [one.target_count for one in own if one.target == node]
                if kind is PlanKind.MOVE_PRIMARY:  # counted once a round, before the first
                    assert set(gives + takes) == {before}
                else:
                    check_walk(before, gives, takes)


def check_walk(before: int, gives: list[int], takes: list[int]) -> None:
    """Fail unless the counts are steps of one walk, down where a node gives, up where it takes."""
    after = before + len(takes) - len(gives)
    assert before in gives + takes
    for count in range(max([before, *gives, *takes]) + 1):
        net = takes.count(count) - gives.count(count + 1)
        assert net == (before <= count < after) - (after <= count < before)


@settings(max_examples=examples(120), deadline=None)
@given(view=pegasus_clusters(), lost=st.integers(0, 2), least_nodes=st.integers(3, 10))
def test_what_keeps_the_meta_server_from_balancing_is_true(
    view: ClusterView, lost: int, least_nodes: int
) -> None:
    members, disks = view.members.copy(), view.member_disks.copy()
    members[:lost, -1], disks[:lost, -1] = -1, -1
    view = replace(view, members=members, member_disks=disks)
    found = obstacles(view, min_live_node_count=least_nodes)
    broken = int((view.members < 0).any(axis=1).sum())
    numbers = [int(text.partition(" ")[0]) for text in found]
    wanted = [broken] * (broken > 0) + [len(view.nodes)] * (len(view.nodes) < least_nodes)
    assert numbers == wanted
    assert np.all([("replicas" in text) or f"fewer than {least_nodes}" in text for text in found])
