"""Splits and dynamic settings carried out on a cluster: what the cluster shows afterwards.

The same runs on the sandbox and on a real cluster, through the worker, the lease in ZooKeeper and
a journal in SQLite.
"""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime
from itertools import pairwise

import pytest
from apply_site import ApplySite, movable
from pulsar_under_test import PulsarUnderTest, eventually

from connectors.config.model import ClusterConfig
from connectors.pulsar.acting.cluster import PulsarCluster
from core.errors import PlanConflictError
from core.ids import namespace_of, parse_range
from core.plan.model import Plan
from core.plan.options import PlanOptions
from core.pulsar.plan.edit import PlanContext
from core.pulsar.plan.setting import build_setting_plan
from core.pulsar.plan.split import SplitSpec, build_split_plan
from core.pulsar.plan.undo import undo_plan
from core.pulsar.steps.split import SplitBundle

SPECIFIED = "specified_positions_divide"
THRESHOLD = "loadBalancerBrokerThresholdShedderPercentage"


@pytest.fixture(scope="module")
def site(pulsar: PulsarUnderTest, tmp_path_factory: pytest.TempPathFactory) -> ApplySite:
    hosts = ",".join(f"{host}:{port}" for host, port in pulsar.zookeeper.hosts)
    cluster = ClusterConfig(
        name="under-test", zookeeper=hosts, admin_urls=list(pulsar.admin_urls), environment="test"
    )
    return ApplySite.of(tmp_path_factory.mktemp("state"), cluster)


def terms() -> PlanOptions:
    return PlanOptions(now=datetime.now(UTC), reason="a test")


def split_plan(site: ApplySite, wish: SplitSpec) -> Plan:
    """The first bundle with two topics or more that such a split helps."""
    snapshot = site.snapshot()
    for bundle in movable(snapshot):
        if wish.algorithm == SPECIFIED:
            lower, upper = parse_range(bundle.rpartition("/")[2])
            wish = SplitSpec(
                algorithm=SPECIFIED,
                positions=(lower + (upper - lower) // 4, lower + (upper - lower) // 2),
                is_unloaded=wish.is_unloaded,
            )
        plan = build_split_plan(snapshot, [bundle], wish, terms())
        if plan.applyable:
            return plan
    raise AssertionError("no bundle may be split")


def setting_plan(site: ApplySite, **wanted: str | None) -> Plan:
    return build_setting_plan(site.snapshot(), wanted, terms())


def bounds_of(pulsar: PulsarUnderTest, namespace: str) -> list[int]:
    node = pulsar.node(f"/admin/local-policies/{namespace}")
    assert node is not None
    return [int(text, 16) for text in node.value["bundles"]["boundaries"]]


@pytest.mark.parametrize(
    "wish",
    [
        SplitSpec(),
        SplitSpec(algorithm="range_equally_divide", is_unloaded=True),
        SplitSpec(algorithm=SPECIFIED, positions=(1,)),
    ],
    ids=["in place", "and unloaded", "at specified positions"],
)
def test_a_bundle_is_split_and_its_parts_are_owned(
    pulsar: PulsarUnderTest, site: ApplySite, wish: SplitSpec
) -> None:
    plan = split_plan(site, wish)
    (step,) = plan.steps
    assert isinstance(step, SplitBundle)
    view = site.execute_run(plan)
    assert view.state == "DONE", view.sentence
    result = view.steps[0].result
    assert result is not None
    assert result.code == "split", result.sentence
    lower, upper = parse_range(step.bundle.rpartition("/")[2])
    own = [
        bound for bound in bounds_of(pulsar, namespace_of(step.bundle)) if lower <= bound <= upper
    ]
    assert own == [lower, *step.boundaries, upper]
    for low, high in pairwise(own):
        part = f"{namespace_of(step.bundle)}/0x{low:08x}_0x{high:08x}"
        assert part.rpartition("/")[2] in result.sentence
        owner = eventually(lambda part=part: pulsar.owner(part))
        if not step.is_unloaded:
            assert owner == step.owner
    with pytest.raises(PlanConflictError, match="never merged again"):
        undo_plan(view, PlanContext(snapshot=site.snapshot(), now=datetime.now(UTC)))


def test_a_split_planned_twice_finds_the_bundle_gone(site: ApplySite) -> None:
    plan = split_plan(site, SplitSpec())
    again = build_split_plan(site.snapshot(), [plan.steps[0].subject], SplitSpec(), terms())
    assert site.execute_run(plan).state == "DONE"
    view = site.execute_run(again)
    assert view.state == "FAILED"
    assert view.steps[0].result is not None
    assert view.steps[0].result.code == "bundle_split"


def test_a_setting_is_set_runs_everywhere_and_is_taken_back(
    pulsar: PulsarUnderTest, site: ApplySite
) -> None:
    with closing(PulsarCluster(site.cluster)) as acting:
        acting.set_dynamic_setting(THRESHOLD, None)
        plan = setting_plan(site, **{THRESHOLD: "17"})
        assert plan.applyable, plan.diagnostics
        view = site.execute_run(plan)
        assert view.state == "DONE", view.sentence
        result = view.steps[0].result
        assert result is not None
        assert result.code == "set"
        assert f"{len(pulsar.brokers)} of {len(pulsar.brokers)} brokers use it" in result.sentence
        assert acting.dynamic_setting(THRESHOLD) == "17"
        brokers = acting.brokers()
        assert set(acting.running(THRESHOLD, brokers).values()) == {"17"}
        back = undo_plan(view, PlanContext(snapshot=site.snapshot(), now=datetime.now(UTC)))
        undone = site.execute_run(back)
        assert undone.state == "DONE", undone.sentence
        assert acting.dynamic_setting(THRESHOLD) is None


def test_a_setting_that_changed_meanwhile_is_left_alone(site: ApplySite) -> None:
    with closing(PulsarCluster(site.cluster)) as acting:
        acting.set_dynamic_setting(THRESHOLD, None)
        plan = setting_plan(site, **{THRESHOLD: "17"})
        acting.set_dynamic_setting(THRESHOLD, "23")
        view = site.execute_run(plan)
        assert acting.dynamic_setting(THRESHOLD) == "23"
        acting.set_dynamic_setting(THRESHOLD, None)
    assert view.steps[0].state == "SKIPPED"
    assert view.steps[0].result is not None
    assert view.steps[0].result.code == "changed_meanwhile"


def test_one_plan_is_one_run(site: ApplySite) -> None:
    with closing(PulsarCluster(site.cluster)) as acting:
        acting.set_dynamic_setting(THRESHOLD, None)
        plan = setting_plan(site, **{THRESHOLD: "18"})
        first = site.execute_run(plan)
        second = site.execute_run(plan)
        acting.set_dynamic_setting(THRESHOLD, None)
    assert first.state == "DONE"
    assert second.state == "REFUSED"
    assert second.refusal is not None
    assert second.refusal.code == "already_applied"
    assert first.run_id in second.refusal.sentence
