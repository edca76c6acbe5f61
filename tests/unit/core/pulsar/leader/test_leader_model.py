"""What a replayed leader keeps through elections, restarts, missed versions and moves."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import pytest
from test_leader_replay import UNIFORM, recorded, truth

from core.errors import InputError
from core.pulsar.leader.averages import FOLLOWER, LEADER
from core.pulsar.leader.events import ZnodeEvent
from core.pulsar.leader.prediction import RoundPrediction
from core.pulsar.leader.recorded import in_order
from core.pulsar.leader.replay import LeaderReplay

START_S = 1_000_000.0
IMPL = "org.apache.pulsar.broker.loadbalance.impl"
A, B, C = "10.0.0.1:8080", "10.0.0.2:8080", "10.0.0.3:8080"
LOUD = {
    "loadBalancerSheddingGracePeriodMinutes": 2,
    "loadBalancerResourceQuotaUpdateIntervalMinutes": 15,
    "loadBalancerMsgRateDifferenceShedderThreshold": 10,
    "minUnloadMessage": 1,
    "maxUnloadPercentage": 0.5,
    "loadBalancerDistributeBundlesEvenlyEnabled": False,
}


def bundle(number: int) -> str:
    return f"acme/orders/0x{number:08x}_0x{number + 1:08x}"


@dataclass
class Events:
    """Makes events of a small cluster; times are seconds after :data:`START_S`."""

    versions: dict[str, int] = field(default_factory=dict)
    created: dict[str, int] = field(default_factory=dict)
    zxid: Iterator[int] = field(default_factory=lambda: count(10))

    def put(
        self, at: float, path: str, value: object, *, kind: str = "", skip: int = 0
    ) -> ZnodeEvent:
        zxid = next(self.zxid)
        is_new = path not in self.versions
        version = self.versions[path] = 0 if is_new else self.versions[path] + 1 + skip
        created = self.created.setdefault(path, zxid)
        at_s = START_S + at
        return ZnodeEvent(
            kind=kind or ("new" if is_new else "mod"),
            received_at_s=at_s + 0.01,
            path=path,
            value=json.dumps(value),
            version=version,
            mzxid=zxid,
            czxid=created,
            mtime_ms=round(at_s * 1000),
            session_id=7,
        )

    def delete(self, at: float, path: str) -> ZnodeEvent:
        self.versions.pop(path, None)
        self.created.pop(path, None)
        return ZnodeEvent(kind="del", received_at_s=START_S + at, path=path)

    def lead(self, at: float, broker: str, *, kind: str = "") -> ZnodeEvent:
        self.versions.pop("/loadbalance/leader", None)
        self.created.pop("/loadbalance/leader", None)
        return self.put(at, "/loadbalance/leader", {"brokerId": broker}, kind=kind)

    def report(
        self, at: float, broker: str, rates: Mapping[str, float], *, kind: str = "", skip: int = 0
    ) -> ZnodeEvent:
        stats = {
            name: {"msgRateIn": rate, "msgThroughputIn": 100 * rate, "topics": 1}
            for name, rate in rates.items()
        }
        total = sum(rates.values())
        value = {
            "webServiceUrl": f"http://{broker}",
            "cpu": {"usage": 10.0, "limit": 100.0},
            "msgRateIn": total,
            "msgThroughputIn": 100 * total,
            "lastStats": stats,
            "numBundles": len(stats),
            "numTopics": len(stats),
            "brokerVersionString": "4.2.4",
            "loadManagerClassName": f"{IMPL}.ModularLoadManagerImpl",
            "loadReportType": "LocalBrokerData",
        }
        return self.put(at, f"/loadbalance/brokers/{broker}", value, kind=kind, skip=skip)

    def own(self, at: float, name: str, broker: str, *, kind: str = "") -> ZnodeEvent:
        return self.put(at, f"/namespace/{name}", {"httpUrl": f"http://{broker}"}, kind=kind)


def fed(model: LeaderReplay, events: Iterable[ZnodeEvent]) -> list[RoundPrediction]:
    return [one for event in events for one in model.apply(event)]


def average(model: LeaderReplay, name: str, side: int = LEADER) -> float:
    model.averages.catch_up_all()
    return float(model.averages.values[side, 0, 0, model.averages.index[name]])


def uneven(make: Events) -> list[ZnodeEvent]:
    """Two brokers, one of them with all the traffic, just elected."""
    loaded = {bundle(n): 100.0 + n for n in range(4)}
    return [
        make.lead(0, A, kind="init"),
        make.report(1, A, {}),
        make.report(1, B, {}),
        *(make.own(2, name, A) for name in loaded),
        make.report(3, A, loaded),
    ]


def test_rounds_follow_the_election_and_then_the_end_of_the_last_unload() -> None:
    make, model = Events(), LeaderReplay("UniformLoadShedder", configured=LOUD)
    fed(model, uneven(make))
    first = model.advance(START_S + 61)[0]
    assert first.at_s == START_S + 60
    assert first.selected == (bundle(3),)
    fed(model, [make.delete(60.4, f"/namespace/{bundle(3)}"), make.own(60.5, bundle(3), B)])
    assert model.next_round_at_s == pytest.approx(START_S + 120.4)
    second = model.advance(START_S + 121)[0]
    assert bundle(3) not in second.selected  # it is in its grace period
    assert model.next_round_at_s == pytest.approx(START_S + 180.402)  # nothing moved
    third = model.advance(START_S + 181)[0]
    assert bundle(3) in third.selected  # 119.9 s later: free within half a second


def test_a_selected_bundle_that_does_not_move_gets_no_grace_period() -> None:
    make, model = Events(), LeaderReplay("UniformLoadShedder", configured=LOUD)
    fed(model, uneven(make))
    first, second = model.advance(START_S + 121)
    assert first.selected == second.selected


def test_bundles_of_a_lost_broker_get_no_grace_period() -> None:
    make, model = Events(), LeaderReplay("UniformLoadShedder", configured=LOUD)
    fed(model, [*uneven(make), make.report(4, C, {})])
    model.advance(START_S + 60.001)
    fed(
        model,
        [
            make.delete(60.5, f"/namespace/{bundle(3)}"),
            make.delete(60.6, f"/loadbalance/brokers/{A}"),
        ],
    )
    assert not model.schedule.resting(START_S + 61, 120.0)
    assert model.next_round_at_s == pytest.approx(START_S + 120.002)


def test_a_manual_unload_long_after_the_round_does_not_change_the_phase() -> None:
    make, model = Events(), LeaderReplay("UniformLoadShedder", configured=LOUD)
    fed(model, uneven(make))
    model.advance(START_S + 61)
    fed(model, [make.delete(110, f"/namespace/{bundle(3)}"), make.own(110.1, bundle(3), B)])
    assert model.next_round_at_s == pytest.approx(START_S + 120.002)


def test_a_new_leader_has_a_followers_averages_no_grace_stamps_and_its_own_phase() -> None:
    make = Events()
    configured = LOUD | {"loadBalancerResourceQuotaUpdateIntervalMinutes": 1}
    model = LeaderReplay("UniformLoadShedder", configured=configured)
    fed(model, uneven(make))
    model.advance(START_S + 61)
    fed(model, [make.delete(60.9, f"/namespace/{bundle(3)}"), make.own(61, bundle(3), B)])
    fed(model, [make.report(70, A, {bundle(n): 10.0 for n in range(4)})])
    assert average(model, bundle(0)) != average(model, bundle(0), FOLLOWER)
    fed(model, [make.delete(80, "/loadbalance/leader")])
    assert model.next_round_at_s is None
    assert model.predict(START_S + 81) is None
    fed(model, [make.lead(85, B)])
    assert average(model, bundle(0)) == average(model, bundle(0), FOLLOWER)
    assert model.leader == B
    assert model.next_round_at_s == START_S + 145
    assert not model.schedule.rested


def test_the_leader_takes_a_sample_when_it_writes_and_none_when_the_writes_arrive() -> None:
    make = Events()
    configured = LOUD | {"loadBalancerResourceQuotaUpdateIntervalMinutes": 1}
    model = LeaderReplay("UniformLoadShedder", configured=configured)
    fed(model, [*uneven(make), make.report(50, A, {bundle(0): 200.0})])
    follower = average(model, bundle(0), FOLLOWER)
    model.advance(START_S + 59.9)
    assert average(model, bundle(0)) == follower == 150.0
    model.advance(START_S + 60.0)  # before the round that coincides
    assert average(model, bundle(0)) == pytest.approx((100 + 200 + 200) / 3)
    written = {"shortTermData": {"numSamples": 3, "msgRateIn": 166.0}, "longTermData": {}}
    fed(model, [make.put(60.1, f"/loadbalance/bundle-data/{bundle(0)}", written)])
    assert average(model, bundle(0)) == pytest.approx((100 + 200 + 200) / 3)
    assert average(model, bundle(0), FOLLOWER) == follower


def test_missed_versions_add_their_samples_and_are_named() -> None:
    make, model = Events(), LeaderReplay("UniformLoadShedder", configured=LOUD)
    fed(model, [make.lead(0, A, kind="init"), make.report(1, A, {}), make.report(1, B, {})])
    fed(model, [make.report(3, A, {bundle(0): 10.0}), make.report(4, B, {bundle(1): 8.0})])
    fed(model, [make.report(9, B, {bundle(1): 8.0}, skip=3)])
    model.averages.catch_up_all()
    row = model.averages.index[bundle(0)]
    assert model.averages.samples[LEADER, 0, row] == 6  # its own, and five runs of the other's
    (warning,) = model.warnings()
    assert f"Reports of {B} were missed" in warning
    prediction = model.predict(START_S + 10, draws=0)
    assert prediction is not None
    assert warning in prediction.warnings


def test_a_lost_session_starts_over() -> None:
    make, model = Events(), LeaderReplay("UniformLoadShedder", configured=LOUD)
    fed(model, uneven(make))
    held = model.apply(ZnodeEvent(kind="session", state="Expired", received_at_s=START_S + 70))
    assert [one.at_s for one in held] == [START_S + 60]
    assert model.leader is None
    assert not model.averages.size
    make = Events()
    rates = {bundle(n): 100.0 + n for n in range(4)}
    begun = [
        make.lead(0, A, kind="init"),
        make.report(71, A, rates, kind="init"),
        make.report(72, B, {}, kind="init"),
    ]
    fed(model, begun)
    prediction = model.predict(START_S + 73, draws=0)
    assert prediction is not None
    assert prediction.at_s == START_S + 120


def test_a_broker_that_came_back_between_two_polls_counts_as_lost_and_found() -> None:
    make, model = Events(), LeaderReplay("UniformLoadShedder", configured=LOUD)
    fed(model, [*uneven(make), make.report(5, B, {bundle(9): 3.0})])
    before = int(model.averages.counts[LEADER])
    path = f"/loadbalance/brokers/{B}"
    make.versions.pop(path)
    make.created.pop(path)
    fed(model, [make.report(9, B, {bundle(9): 5.0})])
    assert int(model.averages.counts[LEADER]) == before + 4
    assert average(model, bundle(9)) == 5.0


def test_a_bundle_in_two_reports_counts_for_both_brokers() -> None:
    make, model = Events(), LeaderReplay("UniformLoadShedder", configured=LOUD)
    fed(model, uneven(make))
    fed(model, [make.report(6, B, {bundle(2): 50.0})])
    view = model.view()
    row = view.bundle_index[bundle(2)]
    both = {view.brokers[view.reporter[row]]}
    both |= {view.brokers[at] for where, at in view.further_reports.tolist() if where == row}
    assert both == {A, B}
    round_ = model.advance(START_S + 61)[0]
    assert {one.broker for one in round_.bundles} == {A}
    assert bundle(2) in {bundle(n) for n in range(4)}


def test_stored_settings_count_from_their_own_time_on() -> None:
    make, model = Events(), LeaderReplay("UniformLoadShedder", configured=LOUD)
    fed(model, uneven(make))
    off = {"loadBalancerSheddingEnabled": "false", "loadBalancerSheddingIntervalMinutes": "2"}
    first = model.advance(START_S + 61)
    fed(model, [make.put(70, "/admin/configuration", off)])
    second = model.advance(START_S + 121)
    assert first[0].selected
    assert not second[0].selected
    assert second[0].reason == "disabled"
    assert model.next_round_at_s == pytest.approx(START_S + 120.002 + 120.002)


def test_an_unreadable_report_is_named_and_the_one_before_stays() -> None:
    make, model = Events(), LeaderReplay("UniformLoadShedder", configured=LOUD)
    fed(model, uneven(make))
    bad = make.put(9, f"/loadbalance/brokers/{A}", {"cpu": "much"})
    fed(model, [bad])
    assert any(bad.path in warning for warning in model.warnings())
    assert model.view().broker_msg_rate.max() == 406.0


def test_a_restart_predicts_the_same(tmp_path: Path) -> None:
    """State saved in the middle of a recording and loaded again gives the same rounds."""
    events = in_order(recorded("uniform"))
    middle = truth("uniform")[9]["t"] + 20
    whole = LeaderReplay("UniformLoadShedder", configured=UNIFORM)
    fed(whole, [event for event in events if event.kind == "init" or event.at_s < middle])
    whole.save(tmp_path / "state.npz")
    again = LeaderReplay("UniformLoadShedder", configured=UNIFORM)
    again.load(tmp_path / "state.npz")
    assert again.predict(middle, draws=20) == whole.predict(middle, draws=20)
    assert set(again.held_paths()) == set(whole.held_paths())
    later = [event for event in events if event.kind != "init" and event.at_s >= middle]
    assert fed(again, later) == fed(whole, later)
    assert len(list(tmp_path.iterdir())) == 1


def test_a_restart_notices_the_versions_that_it_missed(tmp_path: Path) -> None:
    make, model = Events(), LeaderReplay("UniformLoadShedder", configured=LOUD)
    fed(model, uneven(make))
    model.save(tmp_path / "state.npz")
    again = LeaderReplay("UniformLoadShedder", configured=LOUD)
    again.load(tmp_path / "state.npz")
    before = int(again.averages.counts[LEADER])
    fed(again, [make.report(20, A, {bundle(0): 1.0}, kind="init", skip=2)])
    assert int(again.averages.counts[LEADER]) == before + 3


@pytest.mark.parametrize("content", [b"", b"no archive", b"PK\x03\x04 cut"])
def test_a_damaged_state_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "state.npz").write_bytes(content)
    with pytest.raises(InputError, match=r"Saved state .*state\.npz of the leader observer"):
        LeaderReplay("UniformLoadShedder").load(tmp_path / "state.npz")
