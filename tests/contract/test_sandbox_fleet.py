from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from time import monotonic
from typing import Any

import msgspec
import psutil
import pytest
import requests
from kazoo.client import KazooClient
from pulsar_under_test import eventually

from connectors.sandbox.pulsar.fleet import Sandbox, SandboxOptions
from core.errors import ConfigError, InputError

pytestmark = pytest.mark.zookeeper


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    options = SandboxOptions(brokers=5, bundles=100, session_timeout_s=3.0, stats_every_s=0.5)
    with Sandbox(options) as running:
        yield running


@pytest.fixture
def whole(sandbox: Sandbox) -> Sandbox:
    for number in range(5):
        sandbox.start_broker(number)
    eventually(lambda: sandbox.leader is not None)
    return sandbox


@pytest.fixture
def zookeeper(sandbox: Sandbox) -> Iterator[KazooClient]:
    client = KazooClient(sandbox.zookeeper)
    client.start(timeout=10)
    yield client
    client.stop()
    client.close()


def _owners(sandbox: Sandbox, zookeeper: KazooClient) -> dict[str, str]:
    owners = {}
    for namespace in sandbox.state.namespaces:
        for text in zookeeper.get_children(f"/namespace/{namespace}"):
            value = msgspec.json.decode(zookeeper.get(f"/namespace/{namespace}/{text}")[0])
            owners[f"{namespace}/{text}"] = value["httpUrl"].partition("//")[2]
    return owners


def _settled(sandbox: Sandbox) -> bool:
    state = sandbox.state
    return all((state.owner[rows] >= 0).all() for rows in state.bundles_of)


def _report(sandbox: Sandbox, zookeeper: KazooClient, number: int) -> Any:
    broker = sandbox.state.brokers[number].broker_id
    return msgspec.json.decode(zookeeper.get(f"/loadbalance/brokers/{broker}")[0])


def test_zookeeper_and_the_books_agree_on_every_owner(
    whole: Sandbox, zookeeper: KazooClient
) -> None:
    eventually(lambda: _settled(whole))
    state = whole.state
    books = {
        state.names[row]: state.brokers[int(state.owner[row])].broker_id
        for rows in state.bundles_of
        for row in rows.tolist()
    }
    eventually(lambda: _owners(whole, zookeeper) == books)


def test_bundle_goes_where_it_is_sent_and_its_load_follows(
    whole: Sandbox, zookeeper: KazooClient
) -> None:
    eventually(lambda: _settled(whole))
    state = whole.state
    row = int(state.owned_rows(0)[0])
    target = state.brokers[4]
    url = f"{whole.admin_urls[whole.leader or 0]}/admin/v2/namespaces/{state.names[row]}/unload"
    answer = requests.put(url, params={"destinationBroker": target.broker_id}, timeout=10)
    assert answer.status_code == 204
    eventually(lambda: state.owner[row] == target.row)
    whole.publish()
    gained = _report(whole, zookeeper, 4)
    assert state.names[row] in gained["lastBundleGains"] or state.names[row] in gained["lastStats"]
    assert gained["lastStats"][state.names[row]]["topics"] >= 1
    assert state.names[row] not in _report(whole, zookeeper, 0)["lastStats"]


def test_stopped_broker_leaves_its_bundles_to_the_others(
    whole: Sandbox, zookeeper: KazooClient
) -> None:
    broker = whole.state.brokers[2]
    whole.stop_broker(2)
    assert zookeeper.exists(f"/loadbalance/brokers/{broker.broker_id}") is None
    assert zookeeper.exists(f"/loadbalance/broker-time-average/{broker.broker_id}") is None
    eventually(lambda: _settled(whole))
    assert broker.broker_id not in _owners(whole, zookeeper).values()
    with pytest.raises(requests.ConnectionError):
        requests.get(f"{broker.web_url}/admin/v2/brokers/health", timeout=5)
    whole.start_broker(2)
    assert requests.get(f"{broker.web_url}/admin/v2/brokers/health", timeout=5).text == "ok"
    assert zookeeper.exists(f"/loadbalance/brokers/{broker.broker_id}") is not None


def test_killed_leader_keeps_its_nodes_until_its_session_ends_then_another_leads(
    whole: Sandbox, zookeeper: KazooClient
) -> None:
    eventually(lambda: _settled(whole))
    leader = whole.leader
    assert leader is not None
    broker = whole.state.brokers[leader]
    whole.kill_broker(leader)
    assert zookeeper.exists(f"/loadbalance/brokers/{broker.broker_id}") is not None
    eventually(lambda: whole.leader not in (None, leader))
    stored = msgspec.json.decode(zookeeper.get("/loadbalance/leader")[0])
    assert stored["brokerId"] == whole.state.brokers[whole.leader or 0].broker_id
    eventually(lambda: _settled(whole))
    assert broker.broker_id not in _owners(whole, zookeeper).values()


def test_hung_broker_accepts_and_never_answers(whole: Sandbox) -> None:
    url = f"{whole.admin_urls[3]}/admin/v2/brokers/health"
    whole.hang_broker(3)
    with pytest.raises(requests.ReadTimeout):
        requests.get(url, timeout=(2, 0.3))
    whole.start_broker(3)
    assert requests.get(url, timeout=5).text == "ok"


def test_isolated_namespace_stays_on_its_primaries(whole: Sandbox, zookeeper: KazooClient) -> None:
    eventually(lambda: _settled(whole))
    policies = whole.engine.policies.isolation
    assert policies is not None
    policy = next(iter(policies.values()))
    row = whole.state.namespace_row[policy["namespaces"][0]]
    bundle = int(whole.state.bundles_of[row][0])
    owner = int(whole.state.owner[bundle])
    url = f"{whole.admin_urls[owner]}/admin/v2/namespaces/{whole.state.names[bundle]}/unload"
    assert requests.put(url, timeout=10).status_code == 204
    eventually(lambda: _settled(whole))
    host = whole.state.brokers[int(whole.state.owner[bundle])].host.replace(".", r"\.")
    assert host in policy["primary"]


def test_fleet_survives_a_restart_of_its_zookeeper(whole: Sandbox, zookeeper: KazooClient) -> None:
    eventually(lambda: _settled(whole))
    server = whole.zookeeper_process
    server.kill()
    server.start()
    eventually(lambda: zookeeper.connected)
    ids = {broker.broker_id for broker in whole.state.brokers}
    eventually(lambda: set(zookeeper.get_children("/loadbalance/brokers")) == ids)
    live = sum(len(rows) for rows in whole.state.bundles_of)
    eventually(lambda: _settled(whole) and len(_owners(whole, zookeeper)) == live)
    whole.publish()


def test_clock_can_be_moved(whole: Sandbox) -> None:
    whole.publish()
    before = whole.state.rates.sum()
    whole.advance(1800)
    whole.publish()
    assert abs(whole.state.rates.sum() - before) > 0.02 * before


def test_unknown_broker_is_named(whole: Sandbox) -> None:
    with pytest.raises(InputError, match="no broker number 9"):
        whole.stop_broker(9)


@pytest.mark.parametrize("which", ["zookeeper_port", "web_port"])
def test_taken_port_is_named_and_nothing_stays_behind(which: str) -> None:
    before = {process.pid for process in psutil.Process().children(recursive=True)}
    with socket.socket() as squatter:
        squatter.bind(("0.0.0.0", 0))
        squatter.listen()
        port = squatter.getsockname()[1]
        options = SandboxOptions(brokers=3, bundles=40, **{which: port})
        with pytest.raises(ConfigError, match=str(port)):
            Sandbox(options).start()
    assert {process.pid for process in psutil.Process().children(recursive=True)} <= before


def test_stopped_sandbox_leaves_nothing_behind() -> None:
    sandbox = Sandbox(SandboxOptions(brokers=3, bundles=40))
    threads = set(threading.enumerate())
    before = {process.pid for process in psutil.Process().children(recursive=True)}
    sandbox.start()
    folder = sandbox.zookeeper_process.data_dir
    begun = monotonic()
    sandbox.stop()
    assert monotonic() - begun < 2.0
    assert not folder.exists()
    assert {process.pid for process in psutil.Process().children(recursive=True)} <= before
    assert set(threading.enumerate()) <= threads
    sandbox.stop()
    with pytest.raises(ConfigError, match="not running"):
        _ = sandbox.zookeeper


@pytest.mark.slow
def test_hundreds_of_brokers_and_fifty_thousand_bundles_start_and_report() -> None:
    with Sandbox(SandboxOptions(brokers=300, bundles=50_000)) as huge:
        state = huge.state
        assert len(state.names) == 50_000
        assert (state.owner >= 0).all()
        row = int(state.owned_rows(0)[0])
        leader = huge.admin_urls[huge.leader or 0]
        target = state.brokers[299]
        url = f"{leader}/admin/v2/namespaces/{state.names[row]}/unload"
        query = {"destinationBroker": target.broker_id}
        assert requests.put(url, params=query, timeout=20).status_code == 204
        eventually(lambda: state.owner[row] == 299)
        huge.stop_broker(7)
        eventually(lambda: _settled(huge))
