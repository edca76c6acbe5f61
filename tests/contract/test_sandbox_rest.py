"""Answers of the sandbox that the contract leaves open, and its own switches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import requests
from pulsar_under_test import eventually

from connectors.sandbox.pulsar.fleet import Faults, Sandbox, SandboxOptions
from connectors.sandbox.pulsar.state import NO_BROKER, Trouble

pytestmark = pytest.mark.zookeeper

_ADMIN = "/admin/v2"
_SPACE = f"{_ADMIN}/namespaces"


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox(SandboxOptions(brokers=4, bundles=100, stats_every_s=0.5)) as running:
        yield running


def _send(sandbox: Sandbox, method: str, path: str, *, at: int = 0, **more: Any) -> Any:
    url = sandbox.admin_urls[at] + path
    return requests.request(method, url, timeout=20, **more)


def _settled(sandbox: Sandbox) -> bool:
    state = sandbox.state
    return bool((state.owner[state.is_live] >= 0).all())


@pytest.mark.parametrize("pick", ["LARGEST", "HOT"])
def test_split_picks_a_bundle_by_itself_when_asked(sandbox: Sandbox, pick: str) -> None:
    name = "globex/clicks"
    row = sandbox.state.namespace_row[name]
    before = len(sandbox.state.bundles_of[row])
    assert _send(sandbox, "PUT", f"{_SPACE}/{name}/{pick}/split").status_code == 204
    assert len(sandbox.state.bundles_of[row]) == before + 1


def test_split_by_topic_count_puts_half_of_the_topics_on_each_side(sandbox: Sandbox) -> None:
    state = sandbox.state
    row = int(np.argmax(np.where(state.is_live, state.counts[:, 0], 0)))
    topics = int(state.counts[row, 0])
    query = "splitAlgorithmName=topic_count_equally_divide&unload=true"
    path = f"{_SPACE}/{state.names[row]}/split?{query}"
    assert _send(sandbox, "PUT", path).status_code == 204
    eventually(lambda: _settled(sandbox))
    sandbox.publish()
    parts = sandbox.state.counts[-2:, 0].tolist()
    assert sum(parts) == topics
    assert abs(parts[0] - parts[1]) <= 1


def test_split_at_chosen_positions_makes_as_many_parts(sandbox: Sandbox) -> None:
    state = sandbox.state
    row = int(np.argmax(np.where(state.is_live, state.counts[:, 0], 0)))
    lower, upper = int(state.lower[row]), int(state.upper[row])
    inner = [lower + (upper - lower) // 4, lower + (upper - lower) // 2]
    path = f"{_SPACE}/{state.names[row]}/split?splitAlgorithmName=specified_positions_divide"
    assert _send(sandbox, "PUT", path, json=inner).status_code == 204
    assert state.live_row(state.names[row]) is None
    assert [int(bound) for bound in sandbox.state.lower[-3:]] == [lower, *inner]


def test_unload_of_a_namespace_moves_all_its_bundles(sandbox: Sandbox) -> None:
    name = "acme/logs"
    eventually(lambda: _settled(sandbox))
    rows = sandbox.state.bundles_of[sandbox.state.namespace_row[name]]
    assert _send(sandbox, "PUT", f"{_SPACE}/{name}/unload").status_code == 204
    eventually(lambda: NO_BROKER in sandbox.state.owner[rows])
    eventually(lambda: _settled(sandbox))


def test_isolation_policy_with_a_back_reference_is_taken_as_java_takes_it(sandbox: Sandbox) -> None:
    base = f"{_ADMIN}/clusters/sandbox/namespaceIsolationPolicies"
    failover = {
        "policy_type": "min_available",
        "parameters": {"min_limit": "1", "usage_threshold": "80"},
    }
    body = {
        "namespaces": [r"(acme)/\1-none"],
        "primary": [r"(12)7\.\1.*", r"(n)o\1e"],
        "secondary": [],
        "auto_failover_policy": failover,
    }
    try:
        answer = _send(sandbox, "POST", f"{base}/again", json=body)
        assert answer.status_code == 204, answer.text
        assert _send(sandbox, "GET", f"{base}/again").json()["primary"] == body["primary"]
        seen = _send(sandbox, "GET", f"{base}/brokers/none").json()
        assert (seen["policyName"], seen["primary"]) == ("again", True)
        refused = _send(sandbox, "POST", f"{base}/never", json={**body, "primary": ["("]})
        assert refused.status_code == 400
    finally:
        _send(sandbox, "DELETE", f"{base}/again")


def test_new_isolation_policy_moves_its_namespace_onto_the_primary(sandbox: Sandbox) -> None:
    state, name = sandbox.state, "globex/sessions"
    primary = state.brokers[0]
    policy = {
        "namespaces": [name],
        "primary": [primary.host.replace(".", r"\.")],
        "secondary": [],
        "auto_failover_policy": {
            "policy_type": "min_available",
            "parameters": {"min_limit": "1", "usage_threshold": "80"},
        },
    }
    base = f"{_ADMIN}/clusters/sandbox/namespaceIsolationPolicies"
    assert _send(sandbox, "POST", f"{base}/mine", json=policy).status_code == 204
    try:
        assert _send(sandbox, "GET", f"{base}/mine").json()["namespaces"] == [name]
        rows = state.bundles_of[state.namespace_row[name]]
        eventually(lambda: set(state.owner[rows].tolist()) == {primary.row})
        seen = _send(sandbox, "GET", f"{base}/brokers/{primary.broker_id}").json()
        assert seen["primary"] is False, "this listing matches host:port, the load manager the host"
    finally:
        assert _send(sandbox, "DELETE", f"{base}/mine").status_code == 204
    unknown = _send(sandbox, "GET", f"{base}/mine")
    assert (unknown.status_code, unknown.json()["reason"]) == (
        404,
        "Cannot find NamespaceIsolationPolicy mine for cluster sandbox",
    )


def test_nobody_eligible_means_503_and_the_bundle_waits(sandbox: Sandbox) -> None:
    state, name = sandbox.state, "acme/search"
    policy = {
        "namespaces": [name],
        "primary": [r"10\.9\.9\.9"],
        "secondary": [],
        "auto_failover_policy": {
            "policy_type": "min_available",
            "parameters": {"min_limit": "1", "usage_threshold": "80"},
        },
    }
    path = f"{_ADMIN}/clusters/sandbox/namespaceIsolationPolicies/nowhere"
    assert _send(sandbox, "POST", path, json=policy).status_code == 204
    rows = state.bundles_of[state.namespace_row[name]]
    eventually(lambda: set(state.owner[rows].tolist()) == {NO_BROKER})
    answer = _send(sandbox, "GET", f"/lookup/v2/topic/persistent/{name}/any")
    assert answer.status_code == 503
    assert answer.headers["content-type"].startswith("text/html")
    assert _send(sandbox, "DELETE", path).status_code == 204
    eventually(lambda: _settled(sandbox))


def test_lookup_assigns_a_bundle_that_nobody_owns(sandbox: Sandbox) -> None:
    state, name = sandbox.state, "initech/inventory"
    eventually(lambda: _settled(sandbox))
    row = state.find(name, 0)
    assert row is not None
    owner = int(state.owner[row])
    bundle = state.names[row]
    assert _send(sandbox, "PUT", f"{_SPACE}/{bundle}/unload", at=owner).status_code == 204
    path = f"{_SPACE}/{bundle}/topicHashPositions"
    answer = _send(sandbox, "GET", path, at=owner)
    assert answer.status_code in (200, 412), "412 while nobody owns it"
    topic = state.layout.topics.names[int(np.flatnonzero(state.topic_bundle == row)[0])]
    looked_up = _send(sandbox, "GET", f"/lookup/v2/topic/{topic.replace('://', '/')}")
    assert looked_up.json()["httpUrl"] == state.brokers[int(state.owner[row])].web_url


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/clusters/nope", 404),
        ("/clusters/sandbox", 200),
        ("/clusters/nope/failureDomains", 412),
        ("/clusters/sandbox/failureDomains/none", 404),
        ("/clusters/sandbox/failureDomains/rack-a", 200),
        ("/tenants/nope", 404),
        ("/brokers/sandbox/10.0.0.1:1/ownedNamespaces", 404),
        ("/resource-quotas/acme/orders/0x00000000_0x00000001", 412),
        ("/persistent/acme/orders?bundle=0x00000000_0x00000001", 200),
        ("/namespaces/acme/orders/topics", 200),
        ("/brokers/health?brokerId=10.0.0.1:1", 404),
    ],
)
def test_other_reads_answer_with_their_status(sandbox: Sandbox, path: str, status: int) -> None:
    assert _send(sandbox, "GET", _ADMIN + path).status_code == status


def test_health_of_another_broker_is_redirected_to_it(sandbox: Sandbox) -> None:
    other = sandbox.state.brokers[1].broker_id
    path = f"{_ADMIN}/brokers/health?brokerId={other}"
    first = _send(sandbox, "GET", path, allow_redirects=False)
    assert first.status_code == 307
    assert first.headers["location"].startswith(f"http://{other}{_ADMIN}/brokers/health?brokerId=")
    assert _send(sandbox, "GET", path).text == "ok"


def test_prometheus_is_one_redirect_away(sandbox: Sandbox) -> None:
    first = _send(sandbox, "GET", "/metrics", allow_redirects=False)
    assert (first.status_code, first.headers["location"]) == (301, "/metrics/")
    assert 'broker="127.0.1.1"' in _send(sandbox, "GET", "/metrics").text


@pytest.mark.parametrize(("trouble", "status"), [("failing", 500), ("garbled", 200)])
def test_disturbed_broker_answers_wrongly_until_it_is_started_again(
    sandbox: Sandbox, trouble: Trouble, status: int
) -> None:
    sandbox.disturb_broker(2, trouble)
    answer = _send(sandbox, "GET", f"{_ADMIN}/brokers/health", at=2)
    assert answer.status_code == status
    assert answer.text != "ok"
    sandbox.start_broker(2)
    assert _send(sandbox, "GET", f"{_ADMIN}/brokers/health", at=2).text == "ok"


def test_hint_can_be_made_to_get_lost() -> None:
    options = SandboxOptions(
        brokers=4, bundles=40, faults=Faults(hint_loss_ratio=1.0), is_steady=True
    )
    with Sandbox(options) as lossy:
        leader = lossy.leader or 0
        state = lossy.state
        row = int(state.owned_rows(1)[0])
        path = f"{_SPACE}/{state.names[row]}/unload"
        target = state.brokers[0].broker_id
        query = {"destinationBroker": target}
        assert _send(lossy, "PUT", path, at=leader, params=query).status_code == 204
        eventually(lambda: state.owner[row] != NO_BROKER)
        assert state.owner[row] != 0, "the broker with the most traffic is not chosen by itself"
