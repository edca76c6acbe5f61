"""The leader observer while sessions, brokers, leaders and collectors fail."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event
from time import monotonic

import msgspec
import numpy as np
import pytest
from kazoo.client import KazooClient
from recorded_cluster import BROKER, RecordedCluster

from connectors.pulsar.connector import PULSAR
from connectors.pulsar.leader.observer import (
    LeaderObserver,
    RoundJudge,
    _late_words,
    forecast_path,
    read_forecast,
)
from connectors.sandbox.zookeeper import ZooKeeperProcess
from core.pulsar.leader.prediction import Forecast, PredictedBundle, RoundPrediction

pytestmark = pytest.mark.zookeeper

REPORT = f"/loadbalance/brokers/{BROKER}"
LEADER = "/loadbalance/leader"
BUNDLE = "acme/orders/0x20000000_0x30000000"
WITHIN_S = 30.0


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperProcess]:
    with ZooKeeperProcess(tmp_path_factory.mktemp("zk") / "data") as running:
        yield running


@pytest.fixture
def cluster(server: ZooKeeperProcess, request: pytest.FixtureRequest) -> Iterator[RecordedCluster]:
    made = RecordedCluster(server, f"o{abs(hash(request.node.name)) % 10**9}")
    yield made
    made.close()


def wait_for(what: str, is_so: Callable[[], bool]) -> None:
    ends_at, pause = monotonic() + WITHIN_S, Event()
    while not is_so():
        assert monotonic() < ends_at, what
        pause.wait(0.05)


class Observed:
    """An observer of a recorded cluster, and what it publishes."""

    def __init__(self, cluster: RecordedCluster, folder: Path) -> None:
        self.cluster, self.folder = cluster, folder
        self.observer = LeaderObserver(cluster.config(), folder)
        self.observer.put(cluster.capture())

    @property
    def forecast(self) -> Forecast | None:
        return read_forecast(forecast_path(self.folder, self.cluster.name))

    def wait_watching(self) -> Forecast:
        """Wait until a round is predicted."""
        self.wait(lambda: self.forecast is not None and self.forecast.is_current)
        forecast = self.forecast
        assert forecast is not None
        return forecast

    def wait(self, is_so: Callable[[], bool]) -> None:
        wait_for(f"{self.observer.status} {self.forecast}", is_so)


@pytest.fixture
def observed(cluster: RecordedCluster, tmp_path: Path) -> Iterator[Observed]:
    made = Observed(cluster, tmp_path)
    yield made
    made.observer.close()


def test_the_next_round_is_published_with_what_cannot_be_known(observed: Observed) -> None:
    forecast = observed.wait_watching()
    assert forecast.next_round is not None
    assert forecast.next_round.leader == BROKER
    assert forecast.next_round.at_s > forecast.observed_since_s - 1
    assert any("no admin URL" in text for text in forecast.unknown)
    path = forecast_path(observed.folder, observed.cluster.name)
    assert path.stat().st_mode & 0o077 == 0


def test_a_running_observer_renews_the_time_of_its_forecast(
    cluster: RecordedCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By that time readers know what a killed collector left behind."""
    monkeypatch.setattr("connectors.pulsar.leader.observer.WRITTEN_EVERY_S", 0.3)
    made = Observed(cluster, tmp_path)
    first = made.wait_watching()
    made.wait(lambda: (made.forecast or _NONE).written_at_s > first.written_at_s + 1.0)
    after = made.forecast
    assert after is not None
    assert after.is_live(after.written_at_s + 29.0)
    assert not after.is_live(after.written_at_s + 31.0)
    made.observer.close()


def test_an_expired_session_starts_over_and_says_so(
    observed: Observed, server: ZooKeeperProcess
) -> None:
    observed.wait_watching()
    watcher = observed.observer._watcher
    assert watcher is not None
    thief = KazooClient(server.address, client_id=watcher._client.client_id)
    thief.start(WITHIN_S)
    thief.stop()
    thief.close()
    status = observed.observer.status
    observed.wait(lambda: status.started_over == 1 and status.state == "watching")
    observed.wait(lambda: (observed.forecast or _NONE).is_current)


@pytest.mark.slow
def test_reports_missed_while_the_connection_was_lost_lower_the_confidence(
    observed: Observed, server: ZooKeeperProcess
) -> None:
    observed.wait_watching()
    cluster, status = observed.cluster, observed.observer.status
    report = cluster.client.get(REPORT)[0]
    server.kill()
    observed.wait(lambda: status.state == "lost")
    assert observed.forecast is not None
    assert not observed.forecast.is_current
    server.start()
    again = KazooClient(f"{server.address}/{cluster.name}")
    again.start(WITHIN_S)
    for _ in range(4):
        again.set(REPORT, report)
    again.stop()
    again.close()
    observed.wait(lambda: status.state == "watching")
    model = observed.observer._model
    assert model is not None
    observed.wait(lambda: status.started_over > 0 or BROKER in model.confidence.gaps)


def test_a_killed_leader_leaves_no_prediction_until_there_is_another(observed: Observed) -> None:
    observed.wait_watching()
    client = observed.cluster.client
    value = client.get(LEADER)[0]
    client.delete(LEADER)
    observed.wait(lambda: observed.forecast is not None and observed.forecast.next_round is None)
    client.create(LEADER, value.replace(BROKER.encode(), b"10.0.0.9:8080"))
    observed.wait(lambda: (observed.forecast or _NONE).is_current)
    forecast = observed.forecast
    assert forecast is not None
    assert forecast.next_round is not None
    assert forecast.next_round.leader == "10.0.0.9:8080"


def test_malformed_reports_are_named_and_nothing_ends(observed: Observed) -> None:
    observed.wait_watching()
    model = observed.observer._model
    assert model is not None
    good = observed.cluster.client.get(REPORT)[0]
    for raw in (b"", b"{", b"\xff\xfe\x00", b"[" * 50_000, b"[]", b"null"):
        observed.cluster.put(REPORT, raw)
        observed.wait(lambda: REPORT in model.confidence.unreadable)
        assert any(REPORT in text for text in model.warnings())
        model.confidence.unreadable.clear()
    observed.cluster.put(REPORT, good)
    assert observed.observer.status.state == "watching"
    assert observed.observer.status.last_error is None


def test_a_broker_that_registers_again_is_followed(observed: Observed) -> None:
    observed.wait_watching()
    client, model = observed.cluster.client, observed.observer._model
    assert model is not None
    good = client.get(REPORT)[0]
    client.delete(REPORT)
    client.create(REPORT, good)
    created = client.get(REPORT)[1].czxid
    observed.wait(lambda: BROKER in model._brokers and model._brokers[BROKER].czxid == created)
    assert observed.observer.status.last_error is None


def test_after_a_restart_of_the_collector_the_averages_go_on(
    cluster: RecordedCluster, tmp_path: Path
) -> None:
    first = Observed(cluster, tmp_path)
    first.wait_watching()
    report = json.loads(cluster.client.get(REPORT)[0])
    model = first.observer._model
    assert model is not None
    for number in range(5):  # one after the other: a version that is overwritten is a gap
        report["lastStats"][BUNDLE] = {"msgRateIn": 100.0 + number}
        cluster.put(REPORT, json.dumps(report).encode())
        version = cluster.client.get(REPORT)[1].version
        first.wait(lambda version=version: model._brokers[BROKER].version == version)
    first.observer.close()
    second = Observed(cluster, tmp_path)
    second.wait_watching()
    after = second.observer._model
    assert after is not None
    for each in (model, after):
        each.averages.catch_up_all()
    size = model.averages.size
    assert np.allclose(
        after.averages.values[..., :size], model.averages.values[..., :size], rtol=1e-12
    )
    assert "Resumed after" in second.observer.status.detail
    assert not after.confidence.gaps
    second.observer.close()
    for _ in range(4):
        cluster.put(REPORT, json.dumps(report).encode())
    third = Observed(cluster, tmp_path)
    third.wait_watching()
    assert third.observer._model is not None
    assert BROKER in third.observer._model.confidence.gaps  # versions show what was missed
    third.observer.close()


def test_a_damaged_saved_state_is_named_and_not_used(
    cluster: RecordedCluster, tmp_path: Path
) -> None:
    saved = tmp_path / f"{cluster.name}.replay.npz"
    saved.write_bytes(os.urandom(1000))
    made = Observed(cluster, tmp_path)
    made.wait_watching()
    error = made.observer.status.last_error
    assert error is not None
    assert str(saved) in error["message"]
    made.observer.close()


def test_the_collector_goes_on_whatever_the_observer_does(
    cluster: RecordedCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr("connectors.pulsar.leader.observer.LeaderReplay.apply", broken)
    made = Observed(cluster, tmp_path)
    made.wait(lambda: made.observer.status.state == "failed")
    assert "a bug" in made.observer.status.detail
    collector = PULSAR.collector(cluster.config())
    assert collector.collect().manifest.problems == ()
    collector.close()
    made.observer.close()


def _predicted(at_s: float, *bundles: str) -> RoundPrediction:
    found = tuple(
        PredictedBundle(bundle=name, broker="a:1", destinations={"b:1": 1.0}) for name in bundles
    )
    return RoundPrediction(
        at_s=at_s, made_at_s=at_s, leader="a:1", strategy="UniformLoadShedder", bundles=found
    )


def test_a_round_is_judged_by_what_was_given_up_in_its_window() -> None:
    judge = RoundJudge([])
    made = _predicted(1000.0, "t/n/0x0_0x1", "t/n/0x1_0x2")
    judge.made(10.0, made, made)
    judge.made(60.0, None, None)
    judge.gave_up("t/n/0x5_0x6", 990.0)
    judge.began(_predicted(1000.0, "t/n/0x0_0x1"))
    judge.gave_up("t/n/0x0_0x1", 1000.2)
    assert not judge.judge_due(1001.0)
    (judged,) = judge.judge_due(1040.0)
    assert {score.lead_s: score.is_exact for score in judged.scores} == {0.0: True, 10.0: False}
    assert {score.lead_s: score.hits for score in judged.scores} == {0.0: 1, 10.0: 1}


def test_a_round_near_the_end_of_a_broker_is_not_judged() -> None:
    judge = RoundJudge([])
    judge.began(_predicted(1000.0, "t/n/0x0_0x1"))
    judge.gave_up("t/n/0x0_0x1", 1000.2)
    judge.lost_broker(1002.0)
    assert not judge.judge_due(1100.0)
    assert not judge.rounds


_NONE = Forecast(cluster="", written_at_s=0, observed_since_s=0, status="lost")


def test_a_prediction_that_came_late_or_from_a_lagging_collector_names_it() -> None:
    assert _late_words(100.0, 10.0, 90.4, 0.3) == ()
    (late,) = _late_words(100.0, 10.0, 96.0, 0.3)
    assert late == "Computed 6 s late: 4 s before the round, not 10 s."
    (lags,) = _late_words(100.0, 10.0, 90.0, 25.0)
    assert lags == "The collector lags: events of the last 25 s are unknown."


def test_the_calibration_learns_from_the_shares_as_drawn() -> None:
    judge = RoundJudge([])
    name = "t/n/0x0_0x1"
    drawn = _predicted(1000.0, name)
    shown = msgspec.structs.replace(
        drawn, bundles=(msgspec.structs.replace(drawn.bundles[0], share=0.4),)
    )
    judge.made(10.0, shown, drawn)
    judge.began(_predicted(1000.0, name))
    judge.gave_up(name, 1000.2)
    (judged,) = judge.judge_due(1040.0)
    assert judged.shares == ((0.4, True),)
    assert judged.drawn == ((1.0, True),)
