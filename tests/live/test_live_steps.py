"""Splits and dynamic settings carried out on the real cluster, under both load managers."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest
from apply_site import ApplySite, movable
from java_process import wait_until
from our_reading import config_of
from real_pulsar import RealPulsar

from connectors.pulsar.acting.cluster import PulsarCluster
from core.ids import namespace_of
from core.plan.model import Plan
from core.plan.options import PlanOptions
from core.pulsar.plan.edit import PlanContext
from core.pulsar.plan.setting import build_setting_plan
from core.pulsar.plan.split import SplitSpec, build_split_plan
from core.pulsar.plan.undo import undo_plan
from core.pulsar.steps.split import SplitBundle

THRESHOLD = "loadBalancerBrokerThresholdShedderPercentage"
BOTH_MANAGERS = pytest.mark.parametrize(
    "manager",
    ["modular", pytest.param("extensible", marks=pytest.mark.slow)],  # a cluster of its own
)


def terms() -> PlanOptions:
    return PlanOptions(now=datetime.now(UTC), reason="a test")


def split_plan(site: ApplySite, cluster: RealPulsar, wish: SplitSpec) -> Plan:
    """A plan of the first bundle that can be split, as soon as one is known to be owned."""
    found: list[Plan] = []

    def is_there() -> bool:
        snapshot = site.snapshot()
        owned = movable(snapshot) or [
            row["bundle"]
            for row in snapshot.bundles.to_pylist()
            if row["owner"] and row["namespace"].startswith("acme/")
        ]
        plans = (build_split_plan(snapshot, [name], wish, terms()) for name in owned)
        found.extend(plan for plan in plans if plan.applyable)
        return bool(found)

    wait_until(f"a bundle of {cluster.cluster} to split", is_there, within_s=60)
    return found[0]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("is_unloaded", "has_zookeeper"),
    [(False, True), (True, True), (True, False)],
    ids=["in place", "and unloaded", "and unloaded, by REST alone"],
)
@BOTH_MANAGERS
def test_bundle_is_split_and_its_parts_are_owned(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    manager: str,
    *,
    is_unloaded: bool,
    has_zookeeper: bool,
) -> None:
    cluster: RealPulsar = request.getfixturevalue(manager)
    changes = {} if has_zookeeper else {"zookeeper": None}
    site = ApplySite.of(tmp_path, config_of(cluster), **changes)
    plan = split_plan(site, cluster, SplitSpec(is_unloaded=is_unloaded))
    (step,) = plan.steps
    assert isinstance(step, SplitBundle)
    assert step.is_unloaded == (is_unloaded and manager == "modular")
    view = site.execute_run(plan)
    assert view.state == "DONE", view.sentence
    result = view.steps[0].result
    assert result is not None
    assert result.code == "split", result.sentence
    names = set(site.snapshot().bundles["bundle"].to_pylist())
    assert step.bundle not in names
    parts = [name for name in names if name.rpartition("/")[2] in result.sentence]
    assert {namespace_of(name) for name in parts} >= {step.namespace}


@BOTH_MANAGERS
def test_setting_is_run_by_every_broker_and_taken_back(
    request: pytest.FixtureRequest, tmp_path: Path, manager: str
) -> None:
    cluster: RealPulsar = request.getfixturevalue(manager)
    site = ApplySite.of(tmp_path, config_of(cluster))
    with closing(PulsarCluster(site.cluster)) as acting:
        acting.set_dynamic_setting(THRESHOLD, None)
        before = dict(acting.running(THRESHOLD, acting.brokers()))
        plan = build_setting_plan(site.snapshot(), {THRESHOLD: "17"}, terms())
        view = site.execute_run(plan)
        assert view.state == "DONE", view.sentence
        assert set(acting.running(THRESHOLD, acting.brokers()).values()) == {"17"}
        back = undo_plan(view, PlanContext(snapshot=site.snapshot(), now=datetime.now(UTC)))
        undone = site.execute_run(back)
        assert undone.state == "DONE", undone.sentence
        assert acting.dynamic_setting(THRESHOLD) is None
        wait_until(
            "the brokers' own value",
            lambda: dict(acting.running(THRESHOLD, acting.brokers())) == before,
            within_s=20,
        )
