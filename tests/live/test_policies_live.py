"""Policies set and taken back on the real cluster: a resource group, an isolation policy."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import requests
from apply_site import ApplySite
from cluster_truth import ClusterTruth
from java_process import wait_until
from our_reading import config_of
from real_pulsar import RealPulsar

from core.plan.options import PlanOptions
from core.pulsar.plan.edit import PlanContext
from core.pulsar.plan.policy.build import DesiredPolicy, build_policy_plan
from core.pulsar.plan.policy.impact import policy_impact
from core.pulsar.plan.undo import undo_plan
from core.pulsar.settings import effective_settings
from core.pulsar.steps.policy import SetPolicy

GROUP = "live-mailers"
NAMESPACE = "acme/orders"
STORED = (
    "/admin/resourcegroups",
    "/admin/policies/acme",
    "/admin/clusters",
    "/admin/configuration",
)


@pytest.fixture
def site(modular: RealPulsar, tmp_path: Path) -> ApplySite:
    return ApplySite.of(tmp_path, config_of(modular))


def terms() -> PlanOptions:
    return PlanOptions(now=datetime.now(UTC), reason="a test")


def desired() -> list[DesiredPolicy]:
    body = {"publishRateInMsgs": 50, "publishRateInBytes": 1_000_000}
    return [
        DesiredPolicy("resource_group", GROUP, json.dumps(body)),
        DesiredPolicy("namespace_resource_group", NAMESPACE, GROUP),
    ]


def stored(truth: ClusterTruth) -> dict[str, Any]:
    """What ZooKeeper keeps of policies, without what brokers add whenever they write them."""

    def bare(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        return {k: v for k, v in value.items() if v and k != "is_allow_auto_update_schema"}

    values = truth.read(*STORED).values
    return {path: bare(value) for path, value in values.items() if bare(value)}


def isolation_of(brokers: Sequence[str], namespace: str) -> str:
    """An isolation policy: only the hosts of these brokers, at least one of them."""
    hosts = [broker.partition(":")[0].replace(".", r"\.") for broker in brokers]
    parameters = {"min_limit": "1", "usage_threshold": "100"}
    failover = {"policy_type": "min_available", "parameters": parameters}
    return json.dumps(
        {
            "namespaces": [namespace],
            "primary": hosts,
            "secondary": [],
            "auto_failover_policy": failover,
        }
    )


@pytest.mark.slow
def test_resource_group_is_made_attached_and_all_of_it_taken_back(
    site: ApplySite, truth: ClusterTruth, modular: RealPulsar
) -> None:
    before = stored(truth)
    done = site.execute_run(build_policy_plan(site.snapshot(), desired(), terms()))
    assert done.state == "DONE", done.sentence
    for url in modular.admin_urls:
        answer = requests.get(f"{url}/admin/v2/resourcegroups/{GROUP}", timeout=10)
        assert answer.json()["publishRateInMsgs"] == 50
        attached = requests.get(f"{url}/admin/v2/namespaces/{NAMESPACE}/resourcegroup", timeout=10)
        assert attached.text.strip('"') == GROUP
    back = undo_plan(done, PlanContext(snapshot=site.snapshot(), now=datetime.now(UTC)))
    assert [step.name for step in back.steps if isinstance(step, SetPolicy)] == [NAMESPACE, GROUP]
    undone = site.execute_run(back)
    assert undone.state == "DONE", undone.sentence
    assert stored(truth) == before


@pytest.mark.slow
def test_isolated_bundles_are_where_the_preview_said_and_back_it_goes(
    site: ApplySite, truth: ClusterTruth, modular: RealPulsar
) -> None:
    before = stored(truth)
    allowed = modular.brokers[1:]
    snapshot = site.snapshot()
    policy = DesiredPolicy("isolation", "live-orders", isolation_of(allowed, NAMESPACE))
    plan = build_policy_plan(snapshot, [policy], terms())
    steps = [step for step in plan.steps if isinstance(step, SetPolicy)]
    changes = policy_impact(snapshot, effective_settings(snapshot), steps).changes
    (change,) = [one for one in changes if one.namespace == NAMESPACE]
    assert sorted(change.after) == sorted(allowed)
    done = site.execute_run(plan)
    assert done.state == "DONE", done.sentence

    def of_the_namespace() -> dict[str, str]:
        return {b: o for b, o in truth.owners().items() if b.startswith(f"{NAMESPACE}/")}

    wait_until(
        "the bundles at the brokers of the policy",
        lambda: bool(of_the_namespace()) and set(of_the_namespace().values()) <= set(change.after),
        within_s=60,
    )
    back = undo_plan(done, PlanContext(snapshot=site.snapshot(), now=datetime.now(UTC)))
    undone = site.execute_run(back)
    assert undone.state == "DONE", undone.sentence
    assert stored(truth) == before


def test_policy_that_leaves_nobody_is_refused_before_anything_is_sent(
    site: ApplySite, truth: ClusterTruth
) -> None:
    before = truth.read(*STORED).changes
    policy = DesiredPolicy("isolation", "live-nobody", isolation_of(["10.9.9.9:8080"], NAMESPACE))
    plan = build_policy_plan(site.snapshot(), [policy], terms())
    assert not plan.applyable
    assert any(item.severity == "error" for item in plan.diagnostics)
    refused = site.execute_run(plan)
    assert refused.state != "DONE"
    assert truth.read(*STORED).changes == before
