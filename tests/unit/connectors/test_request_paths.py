"""Names become segments of request paths: none of them may lead anywhere else."""

from __future__ import annotations

import pytest

from connectors.config.model import ClusterConfig
from connectors.pulsar.admin.client import AdminClient
from core.errors import ProtocolError
from core.ids import path_fault
from core.pulsar.policy_kinds import POLICY_KINDS
from core.pulsar.steps.policy import SetPolicy
from core.pulsar.steps.setting import SetDynamicSetting
from core.pulsar.steps.split import SplitBundle
from core.pulsar.steps.unload import UnloadBundle

ADMIN = "/admin/v2/"
RANGE = "0x00000000_0x80000000"
HOSTILE = (
    *(".", "..", "%2e", "%2E%2e", ".%2e", "%252e%252e", "..;x", "", "../..", "a/../b"),
    *("a\\b", "..\\..", "a%5cb", "a\nb", "a\x00b", "a\x7fb", "%0d%0a", "a\u0085b", "/", "%2f"),
)


def sent_for(step: SetPolicy | UnloadBundle | SplitBundle | SetDynamicSetting) -> str:
    return path_fault(ADMIN + step.request().path)


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("kind", [*POLICY_KINDS])
@pytest.mark.parametrize("value", [None, "{}"])
def test_no_policy_is_sent_to_another_address(kind: str, name: str, value: str | None) -> None:
    scope = POLICY_KINDS[kind].scope
    whole = {"namespace": f"tenant/{name}", "bundle": f"tenant/{name}/{RANGE}"}.get(scope, name)
    step = SetPolicy(policy=kind, name=whole, cluster="prod", value=value)
    if value is None or kind not in ("namespace_resource_group", "anti_affinity"):
        assert sent_for(step), step.request().path


@pytest.mark.parametrize("name", HOSTILE)
def test_no_bundle_or_cluster_leads_elsewhere(name: str) -> None:
    bundle = f"tenant/{name}/{RANGE}"
    assert sent_for(UnloadBundle(bundle=bundle, owner="b:1"))
    assert sent_for(SplitBundle(bundle=bundle, owner="b:1", algorithm="x"))
    assert sent_for(SetPolicy(policy="isolation", name="a", cluster=name, value="{}"))
    assert sent_for(SetPolicy(policy="namespace_resource_group", name="t/n", value=name))


@pytest.mark.parametrize("value", [".", "..", "", "../x", "a/../b", "%2e%2e", "a\r\nb", "..\\a"])
def test_no_setting_leads_elsewhere(value: str) -> None:
    assert sent_for(SetDynamicSetting(key="loadBalancerSheddingEnabled", value=value))
    assert sent_for(SetDynamicSetting(key=value, value="true"))


@pytest.mark.parametrize(
    "value", ["true", "tenant/ns,pulsar/*", "0.5", "a.b.C", "50%", "...", "a..b", "ü"]
)
def test_plain_values_of_settings_are_sent(value: str) -> None:
    assert sent_for(SetDynamicSetting(key="loadBalancerSheddingEnabled", value=value)) == ""


@pytest.mark.parametrize("name", ["orders", "a.b-c_d=e:f", "...", ".a", "a..", "ü"])
def test_plain_names_are_sent(name: str) -> None:
    assert sent_for(SetPolicy(policy="isolation", name=name, cluster="prod", value="{}")) == ""
    assert sent_for(UnloadBundle(bundle=f"tenant/{name}/{RANGE}", owner="b:1")) == ""
    assert path_fault("/metrics/") == ""
    assert path_fault("/prefix/api/v1/query?query=../..%2f") == ""


@pytest.mark.parametrize(
    "path",
    [
        "/admin/v2/clusters/prod/namespaceIsolationPolicies/..",
        "/admin/v2/clusters/prod/./x",
        "/admin/v2/clusters/%2e%2e/x",
        "/admin/v2//x",
        "/admin/v2/x/",
        "/admin/v2/a b",
        "/admin/v2/a%2fb",
        "/admin/v2/a#b",
        "/admin/v2/a\\b",
        "admin/v2",
        "@evil.example/admin",
        "/admin/v2/a%zz",
    ],
)
def test_the_client_sends_no_such_path_and_reports_it(path: str) -> None:
    client = AdminClient(ClusterConfig(name="c", admin_urls=["http://127.0.0.1:9"]))
    with pytest.raises(ProtocolError) as caught:
        client.request("POST", "http://127.0.0.1:9", path)
    client.close()
    assert caught.value.outcome == "not_sent"
    assert f"POST {path} was not sent" in caught.value.message.encode().decode("unicode_escape")


def test_the_wire_carries_the_path_that_is_reported() -> None:
    step = SetPolicy(policy="isolation", name="a.b=c:d", cluster="prod", value="{}")
    assert step.request().method == "POST"
    assert step.request().path == "clusters/prod/namespaceIsolationPolicies/a.b%3Dc%3Ad"
