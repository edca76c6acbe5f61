"""What the watcher asks of ZooKeeper where nothing changes."""

from __future__ import annotations

from time import time

import pytest

from connectors.config.model import ClusterConfig
from connectors.pulsar.leader import watch
from connectors.pulsar.leader.watch import ZnodeWatcher


@pytest.fixture
def watcher(monkeypatch: pytest.MonkeyPatch):
    """A watcher without a connection, and the clock that it reads."""
    found = ZnodeWatcher(ClusterConfig(name="c", zookeeper="127.0.0.1:1"), (), lambda _: None)
    monkeypatch.setattr(found, "_all_notified", lambda: asked(found))
    yield found
    found.close()


NOW_S = [0.0]


def asked(watcher: ZnodeWatcher) -> float:
    watcher._asked_at = NOW_S[0]
    return time()


def count_asked(watcher: ZnodeWatcher, monkeypatch: pytest.MonkeyPatch, turns: int) -> int:
    """Return how often it asks in so many turns of a tenth of a second."""
    monkeypatch.setattr(watch, "monotonic", lambda: NOW_S[0])
    count = 0
    for _ in range(turns):
        NOW_S[0] += 0.1
        count += watcher._drained(0.0)[2] is not None
    return count


def test_zookeeper_is_asked_twice_a_second_and_near_a_round_all_the_time(
    watcher, monkeypatch
) -> None:
    watcher._drained(0.0)
    assert 3 <= count_asked(watcher, monkeypatch, 20) <= 4
    watcher.is_urgent = True
    assert count_asked(watcher, monkeypatch, 20) == 20


def test_after_a_notification_it_is_asked_whether_that_is_all(watcher, monkeypatch) -> None:
    watcher._drained(0.0)
    for _ in range(3):
        watcher._notes.put((time(), "/a", False))
        assert count_asked(watcher, monkeypatch, 1) == 1
