"""The causes that are named on rebuilt clusters, and that healthy ones get none."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from fleet_builder import make_snapshot
from fleet_edit import every, with_settings
from places import FIXTURES
from report_cluster import all_reports

from core.diagnosis.model import Cause, Diagnosis, Effect, Outcome, one_per_fix
from core.diagnosis.pulsar import trials as pulsar_trials
from core.diagnosis.pulsar.answer import diagnose as diagnose_pulsar
from core.diagnosis.pulsar.draws import SeedTrials
from core.diagnosis.pulsar.trials import Change, Trials
from core.diagnosis.request import DiagnoseRequest
from core.diagnosis.systems import diagnose
from core.errors import InputError, UnknownNameError
from core.findings.finding import Fix
from core.pulsar.snapshot.zkdump import import_zk_dump
from core.snapshot import PulsarSnapshot
from dashboard.cli.main import run as run_command

REPORTS = FIXTURES / "reports"
NOW = datetime(2026, 11, 23, 12, 0, tzinfo=UTC)
LONG = DiagnoseRequest(seconds=60.0)


class SlowClock:
    """A clock, and progress: each round of a simulation takes some time on it."""

    STEP_S = 0.02

    def __init__(self) -> None:
        self.now = 0.0

    def perf_counter(self) -> float:
        return self.now

    thread_time = perf_counter

    def step(self, done: int, total: int, words: str) -> None:
        self.now += self.STEP_S


CAUSES = {
    "i14820": ("network_limit", "loadBalancerOverrideBrokerNicSpeedGbps"),
    "i16059": ("even_distribution", "loadBalancerDistributeBundlesEvenlyEnabled"),
    "i17456": ("broker_gets_nothing", "lowerBoundarySheddingEnabled"),
    "i18173": ("smoothed_usage", "loadBalancerHistoryResourcePercentage"),
    "i21168b": ("usage_not_load", "loadBalancerDirectMemoryResourceWeight"),
    "i21299": ("unload_too_small", "minUnloadMessage"),
}


def report(name: str) -> PulsarSnapshot:
    return import_zk_dump(REPORTS / f"{name}.jsonl", name, NOW)


@pytest.mark.parametrize("name", CAUSES)
def test_the_established_cause_comes_first(name):
    found = diagnose(report(name), LONG)
    first = found.causes[0]
    assert (first.code, first.keys[0]) == CAUSES[name]
    assert found.problem


@pytest.mark.parametrize("name", CAUSES)
def test_every_fix_ends_better_than_the_cluster_as_it_is(name):
    causes = diagnose(report(name), LONG).causes
    assert causes[0].effect is not None
    for cause in (one for one in causes if one.effect is not None):
        assert cause.effect.is_better
        assert cause.effect.after.converges
        assert cause.effect.after.deviation <= cause.effect.before.deviation + 0.05


def test_a_healthy_cluster_has_no_causes():
    found = diagnose(report("healthy"), LONG)
    assert not found.causes
    assert found.answer.startswith("No problem found. Examined: load, ")
    assert "Not examined: serving (not in this dump); liveness (sessions are not" in found.answer
    assert (
        "leader (this dump does not have the time of the leader's last averages)"
    ) in found.answer
    assert "settings (settings are not in this dump)" in found.answer


def test_a_pair_is_sought_where_one_setting_alone_makes_it_worse():
    snapshot = report("i21299")
    alone = Trials(snapshot, judged_by="msg_rate").effect(
        Change(settings={"minUnloadMessage": 640})
    )
    assert alone.is_harmful
    first = diagnose(snapshot, LONG).causes[0]
    assert len(first.fix.wanted) == 2
    assert first.effect.after.converges


def test_a_switched_off_balancer_is_named_before_anything_else():
    snapshot = with_settings(
        report("i17456"),
        (None, "loadBalancerSheddingEnabled", "false", "dynamic"),
        (None, "lowerBoundarySheddingEnabled", "true", "file"),
    )
    first = diagnose(snapshot, LONG).causes[0]
    assert first.code == "shedding_off"
    assert dict(first.fix.wanted) == {"loadBalancerSheddingEnabled": True}


def test_a_limit_of_the_network_that_cards_have_is_no_cause():
    snapshot = every(
        report("i14820"), "brokers", {"bandwidth_in_limit": 2e7, "bandwidth_out_limit": 2e7}
    )
    assert "network_limit" not in {cause.code for cause in diagnose(snapshot, LONG).causes}


def test_usage_by_a_resource_of_weight_zero_is_no_cause():
    snapshot = with_settings(
        report("i21168b"), (None, "loadBalancerDirectMemoryResourceWeight", "0.0", "dynamic")
    )
    assert not diagnose(snapshot, LONG).causes


def test_settings_that_were_not_read_change_nothing():
    snapshot = report("i16059")
    trials = Trials(snapshot)
    unread = "minUnloadMessage"
    assert unread not in trials.baseline.reads
    assert trials.trial(Change(settings={unread: 5})) is trials.baseline
    read = {"loadBalancerDistributeBundlesEvenlyEnabled": False}
    alone = trials.trial(Change(settings=read))
    assert alone is not trials.baseline
    assert unread not in alone.reads
    assert trials.trial(Change(settings={**read, unread: 5})) is alone


def test_no_setting_is_blamed_when_the_time_is_over():
    found = diagnose(report("i17456"), DiagnoseRequest(seconds=1e-6))
    assert found.untried
    assert not found.tried
    assert "finished: time limit reached" in found.answer
    assert "No single setting" not in found.answer


@pytest.mark.parametrize("seconds", [0.5, 2.0])
@pytest.mark.parametrize("name", ["i16059", "i21299"])
def test_the_time_limit_includes_the_proof_with_other_draws(name, seconds, monkeypatch):
    clock = SlowClock()
    monkeypatch.setattr(pulsar_trials, "time", clock)
    found = diagnose(report(name), DiagnoseRequest(seconds=seconds), clock)
    assert found.untried
    assert clock.now <= seconds + 2 * clock.STEP_S


def test_a_cluster_that_is_cut_short_still_moves_and_is_reported_so(monkeypatch):
    clock = SlowClock()
    monkeypatch.setattr(pulsar_trials, "time", clock)
    restless = Change(settings={"loadBalancerBrokerThresholdShedderPercentage": 2})
    found = diagnose_pulsar(report("i17456"), DiagnoseRequest(seconds=0.1), clock, assumed=restless)
    assert any(note.startswith("Simulated for 3 rounds") for note in found.notes)
    assert "bundles still move after 3 rounds" in found.problem
    assert found.untried


def test_a_simulation_that_the_time_cuts_short_counts_as_not_tried(monkeypatch):
    clock = SlowClock()
    monkeypatch.setattr(pulsar_trials, "time", clock)
    snapshot = report("i16059")  # as it is it moves bundles for ever
    found = diagnose(snapshot, DiagnoseRequest(seconds=0.1), clock)
    assert not found.causes
    assert found.untried
    assert "No single setting" not in found.answer
    assert "finished: time limit reached" in found.answer


def test_a_simulation_that_is_cut_short_says_nothing_for_or_against_a_change(monkeypatch):
    clock = SlowClock()
    monkeypatch.setattr(pulsar_trials, "time", clock)
    trials = Trials(report("i16059"), budget_s=0.1, progress=clock, stops_midway=True)
    assert trials.baseline.is_cut_short
    change = Change(settings={"loadBalancerSheddingGracePeriodMinutes": 60})
    monkeypatch.setattr(pulsar_trials, "_WHOLE_SHARE", 1_000.0)
    trial = trials.trial(change)
    assert trial is not None
    assert trial.is_cut_short
    assert trials.is_begun(change)
    assert not trials.known(change)
    assert trials.count == 0


def test_no_draw_refutes_a_change_when_the_time_is_over(monkeypatch):
    snapshot = report("i16059")
    change = Change(settings={"loadBalancerDistributeBundlesEvenlyEnabled": False})
    trials = Trials(snapshot, budget_s=3_600.0, stops_midway=True)
    assert trials.effect(change).is_better
    monkeypatch.setattr(
        pulsar_trials, "_WHOLE_SHARE", 0.0
    )  # the search ends before all time is used
    draws = SeedTrials(trials)
    assert draws.confirm(change)
    assert draws.is_hasty(change)
    assert not draws.refuted


def test_changes_that_chance_refutes_are_not_passed_over_in_silence():
    found = Diagnosis(problem="Uneven.", tried=9, refuted=1)
    assert found.answer == "Uneven. 1 change effective with some random placements, none with all."


def a_cause(code: str, effect: Effect, **more: object) -> Cause:
    return Cause(code=code, summary=code, effect=effect, **more)


def test_one_change_is_one_cause():
    end = Outcome(moves=0, returned=0, deviation=0.1, converges=True, rounds=0)
    effect = Effect(before=end, after=end)
    fix = Fix(wanted={"minUnloadMessage": 500})
    found = one_per_fix(
        (
            a_cause("unload_too_small", effect, objects=("a",), fix=fix),
            a_cause("bundle_too_heavy", effect, objects=("b",), hint="Split b."),
            a_cause("setting", effect, objects=("a", "c"), fix=fix),
            a_cause("bundle_too_heavy", effect, objects=("d",), hint="Split d."),
            a_cause("shedding_strategy", effect, fix=Fix(lines=("a=1",))),
            a_cause("setting", effect, fix=Fix(lines=("a=2",))),
        )
    )
    codes = [(cause.code, cause.objects) for cause in found]
    assert codes == [
        ("unload_too_small", ("a", "c")),
        ("bundle_too_heavy", ("b",)),
        ("bundle_too_heavy", ("d",)),
        ("shedding_strategy", ()),
        ("setting", ()),
    ]


def test_the_verdict_on_a_broker_comes_with_its_causes():
    found = diagnose(report("i17456"), DiagnoseRequest(broker="b-10:8080", seconds=60.0))
    assert "b-10:8080" in found.subject
    assert "b-10:8080" in found.causes[0].objects


def test_the_verdict_on_a_bundle():
    snapshot = report("i16059")
    bundle = snapshot.bundles["bundle"][0].as_py()
    assert diagnose(snapshot, DiagnoseRequest(bundle=bundle, seconds=60.0)).subject


@pytest.mark.parametrize("request_", [{"broker": "b-x"}, {"bundle": "t/n/0x0"}, {"node": "n"}])
def test_an_unknown_object_is_refused_by_name(request_):
    with pytest.raises((UnknownNameError, InputError)):
        diagnose(report("healthy"), DiagnoseRequest(**request_))


def test_a_diagnosis_is_about_one_thing():
    with pytest.raises(InputError):
        diagnose(report("healthy"), DiagnoseRequest(broker="a", bundle="b"))


def test_without_brokers_no_load_is_judged():
    found = diagnose(make_snapshot(brokers=3, bundles=20, missing=("brokers",)), LONG)
    assert all(cause.effect is None for cause in found.causes)
    assert found.notes
    assert not found.is_clear


def run(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    assert run_command([str(word) for word in words]) == 0
    return capsys.readouterr().out


def test_the_command_prints_the_contract(capsys, tmp_path):
    directory = tmp_path / "s"
    run(capsys, "import-zk", REPORTS / "i16059.jsonl", "--out", directory)
    # time enough on a busy machine: the search ends when it has tried everything
    body = json.loads(run(capsys, "diagnose", directory, "--json", "--seconds", "30"))
    first = body["causes"][0]
    assert {"code", "keys", "objects", "summary", "effect", "fix"} <= set(first)
    measured = ("moves", "deviation", "converges")
    assert {f"{name}_{at}" for name in measured for at in ("before", "after")} <= set(
        first["effect"]
    )
    assert first["fix"]["dynamic"] == {"loadBalancerDistributeBundlesEvenlyEnabled": False}
    assert body["tried"] >= 1
    printed = run(capsys, "diagnose", directory)
    assert all(cause["summary"] in printed for cause in body["causes"])


def made(name: str) -> PulsarSnapshot:
    return next(one for one in all_reports("pulsar") if one.name == name).snapshot()


def test_a_balancer_that_makes_even_load_less_even_is_a_problem():
    found = diagnose(made("22889"), LONG)
    assert found.problem.startswith("The balancer increases the deviation of traffic: 0% now, 20%")
    assert found.causes[0].effect.after.moves == 0


def test_unloads_of_bundles_without_traffic_are_a_problem():
    found = diagnose(made("21214"), LONG)
    assert found.problem == "40 of 42 moves are of bundles without traffic."
    effect = found.causes[0].effect
    assert effect.before.idle_moves == 40
    assert effect.after.idle_moves < 40
    assert effect.as_json()["idle_moves_before"] == 40


def test_moves_of_bundles_without_traffic_are_no_improvement():
    end = Outcome(moves=1, returned=0, deviation=0.5, converges=True, rounds=1)
    after = replace(end, moves=30, deviation=0.25)
    assert Effect(before=end, after=after).is_better
    assert not Effect(before=end, after=replace(after, idle_moves=27)).is_better
    was_idle = replace(after, deviation=0.5, idle_moves=28)
    assert Effect(before=was_idle, after=replace(after, idle_moves=27)).is_better


def test_a_few_idle_bundles_among_others_are_none():
    end = Outcome(moves=3, returned=0, deviation=0.1, converges=True, rounds=1, idle_moves=3)
    assert not end.is_mostly_idle
    assert not replace(end, moves=20, idle_moves=8).is_mostly_idle
    assert replace(end, moves=20, idle_moves=12).is_mostly_idle
