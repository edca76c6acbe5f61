"""A person breaks and mends nodes of a running sandbox, and of nothing else."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Callable, Iterator

import pytest

from connectors.pegasus.rpc.client import MetaClient
from connectors.sandbox.pegasus.fleet import PegasusOptions, PegasusSandbox
from connectors.sandbox.pegasus.remote import SandboxState, change_node, sandbox_state
from core.errors import GuardRefusedError, InputError, UnreachableError

FAST = PegasusOptions(tick_s=0.4, learn_mb_per_s=20_000, grace_s=0.3, failover_s=0.3)
DEADLINE_S = 90.0


@pytest.fixture(scope="module")
def sandbox() -> Iterator[PegasusSandbox]:
    with PegasusSandbox(FAST) as running:
        yield running


def wait_for(sandbox: PegasusSandbox, is_so: Callable[[SandboxState], bool]) -> SandboxState:
    event = threading.Event()
    for _ in range(int(DEADLINE_S / 0.1)):
        state = sandbox_state(sandbox.meta_servers)
        if is_so(state):
            return state
        event.wait(0.1)
    pytest.fail(f"not within {DEADLINE_S:.0f} s: {state}")


def post(server: str, target: str, headers: dict[str, str], body: str | None = None) -> int:
    connection = http.client.HTTPConnection(server, timeout=10)
    try:
        connection.request("POST", target, body=body, headers=headers)
        return connection.getresponse().status
    finally:
        connection.close()


def test_a_stopped_node_dies_and_comes_back(sandbox):
    name = sandbox.nodes[1]
    asked = change_node(sandbox.meta_servers, name, "stop")
    assert not asked.nodes[name].is_running
    wait_for(sandbox, lambda state: not state.nodes[name].is_alive)
    meta = MetaClient(sandbox.meta_servers)
    try:
        assert [one.name for one in meta.fetch_nodes() if not one.is_alive] == [name]
    finally:
        meta.close()
    change_node(sandbox.meta_servers, name, "start")
    state = wait_for(sandbox, lambda state: state.nodes[name].is_alive)
    assert state.nodes[name].is_running


def test_a_restarted_node_runs_again(sandbox):
    name = sandbox.nodes[2]
    asked = change_node(sandbox.meta_servers, name, "restart")
    assert asked.nodes[name].is_running
    wait_for(sandbox, lambda state: state.nodes[name].is_alive)


def test_a_mute_node_is_told_as_one(sandbox):
    name = sandbox.nodes[0]
    assert change_node(sandbox.meta_servers, name, "mute").nodes[name].is_mute
    assert not change_node(sandbox.meta_servers, name, "unmute").nodes[name].is_mute


def test_another_meta_server_takes_over_from_a_stopped_leader(sandbox):
    leader = wait_for(sandbox, lambda state: state.leader is not None).leader
    change_node(sandbox.meta_servers, "leader", "stop")
    state = wait_for(sandbox, lambda state: state.leader not in (None, leader))
    assert state.leader in sandbox.meta_servers


@pytest.mark.parametrize(
    ("node", "doing"), [("localhost:1", "stop"), ("leader", "mute"), ("", "burn")]
)
def test_what_cannot_be_is_refused_with_what_can(sandbox, node, doing):
    with pytest.raises(InputError):
        change_node(sandbox.meta_servers, node or sandbox.nodes[0], doing)


def test_a_page_of_the_web_cannot_break_a_node(sandbox):
    target = f"/sandbox?node={sandbox.nodes[0]}&do=stop"
    assert post(sandbox.meta_servers[0], target, {}) == 400
    assert post(sandbox.meta_servers[0], target, {}, body="node=all") == 400
    assert post(sandbox.meta_servers[0], "/meta/nodes", {"X-Trimtab-Sandbox": "1"}) == 404
    assert sandbox_state(sandbox.meta_servers).nodes[sandbox.nodes[0]].is_running


def test_a_server_that_is_not_here_is_never_asked():
    with pytest.raises(GuardRefusedError, match="not on this machine"):
        change_node(["meta1.example.org:34601"], "db1:34801", "stop")


def test_a_server_that_is_no_sandbox_is_left_alone(sandbox):
    with pytest.raises(GuardRefusedError, match="is not a sandbox"):
        sandbox_state([sandbox.nodes[0]])  # a replica server tells nothing of this


def test_nobody_there_is_said_with_what_to_start():
    with pytest.raises(UnreachableError, match="responds"):
        sandbox_state(["127.0.0.1:1"])
