"""The sandbox's switchable faults do what they say, and nothing when they are off."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import requests
from pulsar_under_test import eventually

from connectors.sandbox.pulsar.fleet import Faults, Sandbox, SandboxOptions
from connectors.sandbox.pulsar.state import NO_BROKER
from core.errors import InputError

pytestmark = pytest.mark.zookeeper

_SWITCHES = "/sandbox/faults"


@pytest.fixture(scope="module")
def fleet() -> Iterator[Sandbox]:
    options = SandboxOptions(brokers=4, bundles=60, is_steady=True, session_timeout_s=2.0)
    with Sandbox(options) as running:
        yield running


@pytest.fixture
def sandbox(fleet: Sandbox) -> Iterator[Sandbox]:
    yield fleet
    fleet.engine.faults = Faults()
    for number in range(4):
        fleet.start_broker(number)
    eventually(lambda: not fleet._running.ownership.closing)
    eventually(lambda: fleet.leader is not None)
    eventually(lambda: not (fleet.state.owner[fleet.state.is_live] == NO_BROKER).any())


def send(sandbox: Sandbox, method: str, path: str, **more: Any) -> requests.Response:
    return requests.request(method, sandbox.admin_urls[0] + path, timeout=10, **more)


def unload(sandbox: Sandbox, row: int, **more: Any) -> requests.Response:
    """Ask the owner of a bundle to unload it."""
    owner = sandbox.state.brokers[int(sandbox.state.owner[row])]
    path = f"/admin/v2/namespaces/{sandbox.state.names[row]}/unload"
    return requests.put(owner.web_url + path, timeout=10, **more)


def some_row(sandbox: Sandbox) -> int:
    """Row of a bundle of the broker that has the most."""
    state = sandbox.state
    busiest = max(range(len(state.brokers)), key=lambda number: len(state.owned_rows(number)))
    return int(state.owned_rows(busiest)[0])


def test_switches_are_read_and_set_over_rest(sandbox: Sandbox) -> None:
    assert send(sandbox, "GET", _SWITCHES).json()["hint_loss_ratio"] == 0.0
    changed = send(sandbox, "PUT", _SWITCHES, json={"hint_loss_ratio": 0.1, "brokers": [1, 2]})
    assert changed.status_code == 200
    assert sandbox.faults == Faults(hint_loss_ratio=0.1, brokers=(1, 2))
    sandbox.set_faults(brokers=())
    assert sandbox.faults == Faults(hint_loss_ratio=0.1)


@pytest.mark.parametrize(
    "body", ['{"no_such": 1}', '{"slow_s": "long"}', '{"refuse_status": 418}', "[", "3"]
)
def test_switch_that_cannot_be_set_is_refused_and_changes_nothing(
    sandbox: Sandbox, body: str
) -> None:
    answer = send(sandbox, "PUT", _SWITCHES, data=body)
    assert answer.status_code == 400
    assert answer.json()["reason"]
    assert sandbox.faults == Faults()


def test_unknown_switch_offers_the_known_ones(sandbox: Sandbox) -> None:
    with pytest.raises(InputError, match="elsewhere_ratio"):
        sandbox.set_faults(elsewhere=1.0)


@pytest.mark.parametrize("status", [409, 500, 503])
def test_refusing_broker_does_nothing(sandbox: Sandbox, status: int) -> None:
    row = some_row(sandbox)
    owner = sandbox.state.owner[row]
    sandbox.set_faults(refuse_status=status, brokers=(int(owner),))
    assert unload(sandbox, row).status_code == status
    assert sandbox.state.owner[row] == owner
    assert sandbox.unload_requests()[-1].outcome == "refused"


def test_lost_answer_is_of_an_unload_that_was_done(sandbox: Sandbox) -> None:
    row = some_row(sandbox)
    sandbox.set_faults(lost_answer_ratio=1.0)
    with pytest.raises(requests.ConnectionError):
        unload(sandbox, row)
    last = send(sandbox, "GET", "/sandbox/unloads").json()[-1]
    assert (last["bundle"], last["outcome"]) == (sandbox.state.names[row], "acted")


def test_broker_that_is_busy_closing_a_bundle_says_that_it_is_not_active(sandbox: Sandbox) -> None:
    row = some_row(sandbox)
    owner = sandbox.state.brokers[int(sandbox.state.owner[row])]
    owned = f"{owner.web_url}/admin/v2/brokers/sandbox/{owner.broker_id}/ownedNamespaces"

    def is_active() -> bool:
        return bool(requests.get(owned, timeout=10).json()[sandbox.state.names[row]]["is_active"])

    assert is_active()
    sandbox.set_faults(slow_s=3.0)
    with pytest.raises(requests.ReadTimeout):
        requests.put(
            f"{owner.web_url}/admin/v2/namespaces/{sandbox.state.names[row]}/unload", timeout=0.5
        )
    assert not is_active()


def test_leader_changes_in_the_middle_of_the_next_unload_only(sandbox: Sandbox) -> None:
    before = sandbox.leader
    sandbox.set_faults(accident="leader_change")
    assert unload(sandbox, some_row(sandbox)).status_code == 204
    eventually(lambda: sandbox.leader not in (None, before))
    assert sandbox.faults == Faults()
    after = sandbox.leader
    assert unload(sandbox, some_row(sandbox)).status_code == 204
    assert sandbox.leader == after
    sandbox.change_leader()
    eventually(lambda: sandbox.leader not in (None, after))


def test_owner_that_dies_in_the_middle_leaves_its_node_until_its_session_ends(
    sandbox: Sandbox,
) -> None:
    row = some_row(sandbox)
    owner = int(sandbox.state.owner[row])
    sandbox.set_faults(accident="owner_dies")
    with pytest.raises(requests.ConnectionError):
        unload(sandbox, row)
    assert not sandbox.state.brokers[owner].is_up
    eventually(lambda: sandbox.state.owner[row] not in (owner, NO_BROKER))


def test_bundle_can_be_made_to_land_elsewhere(sandbox: Sandbox) -> None:
    row = some_row(sandbox)
    leader = sandbox.admin_urls[sandbox.leader or 0]
    target = sandbox.state.brokers[3].broker_id
    sandbox.set_faults(elsewhere_ratio=1.0)
    path = f"{leader}/admin/v2/namespaces/{sandbox.state.names[row]}/unload"
    assert requests.put(path, params={"destinationBroker": target}, timeout=10).status_code == 204
    eventually(lambda: sandbox.state.owner[row] != NO_BROKER)
    assert sandbox.state.owner[row] != 3
