from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import requests
from pulsar_under_test import eventually

from connectors.sandbox.pulsar.fleet import Sandbox, SandboxOptions

pytestmark = pytest.mark.zookeeper


@pytest.fixture
def sandbox() -> Iterator[Sandbox]:
    options = SandboxOptions(
        brokers=5, bundles=120, minute_s=1.0, stats_every_s=0.25, report_check_ms=250
    )
    options.dynamic["loadBalancerBrokerThresholdShedderPercentage"] = "5"
    with Sandbox(options) as running:
        yield running


def _set(sandbox: Sandbox, key: str, value: str) -> None:
    path = f"/admin/v2/brokers/configuration/{key}/{value}"
    assert requests.post(sandbox.admin_urls[0] + path, timeout=5).ok


def test_the_leader_sheds_once_its_setting_is_on_and_rests_when_it_is_off(sandbox: Sandbox) -> None:
    before = sandbox.state.owner.copy()
    assert sandbox.unload_requests() == []
    _set(sandbox, "loadBalancerSheddingEnabled", "true")
    eventually(lambda: bool((sandbox.state.owner != before).any()))
    gave = set(before[np.flatnonzero(sandbox.state.owner != before)].tolist())
    assert sandbox.unload_requests() == []  # nobody asked for it
    assert len(gave) < 5  # the busy ones gave, not everybody
    _set(sandbox, "loadBalancerSheddingEnabled", "false")
    eventually(lambda: bool((sandbox.state.owner >= 0).all()))
