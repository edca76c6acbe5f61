"""A recorded leader is replayed from its ZooKeeper events alone, round by round."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from places import FIXTURES

from core.pulsar.leader.accuracy import (
    CALIBRATION_LEAD_S,
    JudgedRound,
    LeadScore,
    accuracy_by_lead,
    calibrated,
    calibration,
    judge,
)
from core.pulsar.leader.events import ZnodeEvent, read_recording
from core.pulsar.leader.prediction import LEADS_S, ActualRound, PredictedBundle, RoundPrediction
from core.pulsar.leader.recorded import in_order, predictions_by_lead, replay_recording
from core.pulsar.leader.replay import LeaderReplay
from dashboard.cli.main import run
from dashboard.cli.pulsar.leader import configured_values

RECORDED = FIXTURES / "pulsar/leader"
EVERY_MINUTE = {
    "loadBalancerSheddingIntervalMinutes": 1,
    "loadBalancerReportUpdateMinIntervalMillis": 5000,
    "loadBalancerReportUpdateMaxIntervalMinutes": 1,
    "loadBalancerSheddingGracePeriodMinutes": 2,
    "loadBalancerBrokerOverloadedThresholdPercentage": 100,
    "statsUpdateFrequencyInSecs": 10,
}
UNIFORM = EVERY_MINUTE | {
    "loadBalancerResourceQuotaUpdateIntervalMinutes": 1,
    "loadBalancerMsgRateDifferenceShedderThreshold": 10,
    "loadBalancerMsgThroughputMultiplierDifferenceShedderThreshold": 1.2,
    "minUnloadMessage": 10,
    "minUnloadMessageThroughput": 10000,
    "maxUnloadPercentage": 0.5,
    "loadBalancerOverrideBrokerNicSpeedGbps": 1,
}
THRESHOLD = EVERY_MINUTE | {
    "loadBalancerResourceQuotaUpdateIntervalMinutes": 15,
    "loadBalancerBrokerThresholdShedderPercentage": 1,
    "loadBalancerHistoryResourcePercentage": 0.5,
    "loadBalancerBundleUnloadMinThroughputThreshold": 0.001,
    "loadBalancerCPUResourceWeight": 0,
    "loadBalancerDirectMemoryResourceWeight": 3,
}
WEIGHT_CHANGES_S = 1795412497.2
SPREAD_ENDS_S = 1795412631.3
HEAVIER = {"loadBalancerDirectMemoryResourceWeight": 6}
UNEVEN = {"loadBalancerDistributeBundlesEvenlyEnabled": False}
PHASE_ERROR_S = 0.13
"""Largest error of the phase that the recipe was measured with."""

Trimtab = Callable[..., tuple[int, str, str]]


@pytest.fixture
def trimtab(capsys: pytest.CaptureFixture[str]) -> Trimtab:
    def call(*words: object) -> tuple[int, str, str]:
        code = run([str(word) for word in words])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


def truth(name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((RECORDED / f"{name}.rounds.json").read_bytes())
    return found


@cache
def recorded(name: str) -> tuple[ZnodeEvent, ...]:
    return tuple(read_recording(RECORDED / f"{name}.jsonl.gz"))


def replayed(
    name: str,
    strategy: str,
    configured: Mapping[str, object],
    changes: Sequence[tuple[float, Mapping[str, object]]] = (),
) -> list[RoundPrediction]:
    """Replay with settings that change on the way, as an operator changed them."""
    model = LeaderReplay(strategy, configured=configured)
    held, rounds, left = dict(configured), [], list(changes)
    for event in in_order(recorded(name)):
        while left and event.kind != "init" and event.path and event.at_s > left[0][0]:
            held |= left.pop(0)[1]
            model.configure(held)
        rounds += model.apply(event)
    return rounds


def paired(
    rounds: Sequence[RoundPrediction], true: Sequence[Mapping[str, Any]]
) -> list[tuple[RoundPrediction, Mapping[str, Any]]]:
    """Put each true round next to the predicted one that began at its time."""
    pairs = [(min(rounds, key=lambda one: abs(one.at_s - real["t"])), real) for real in true]
    assert len({one.at_s for one, _ in pairs}) == len(true)
    return pairs


def test_every_round_of_uniform_load_shedder_is_exact() -> None:
    true = truth("uniform")
    rounds = replayed("uniform", "UniformLoadShedder", UNIFORM)
    for predicted, real in paired(rounds, true):
        assert list(predicted.selected) == real["selected"], real["t"]
        assert abs(predicted.at_s - real["t"]) < PHASE_ERROR_S
    # placement: the recipe was measured with 18 of 20; two rounds hang on lookups in the round
    unloaded = sum(list(one.unloaded) == real["unloaded"] for one, real in paired(rounds, true))
    assert unloaded >= 18
    assert len(rounds) == len(true) + 1  # the idle one before there was any traffic


def test_every_round_of_threshold_shedder_is_exact() -> None:
    true = truth("threshold")
    changes = [(WEIGHT_CHANGES_S, HEAVIER), (SPREAD_ENDS_S, UNEVEN)]
    rounds = replayed("threshold", "ThresholdShedder", THRESHOLD, changes)
    assert len(rounds) == len(true)
    for predicted, real in paired(rounds, true):
        assert list(predicted.selected) == real["selected"], real["t"]
        assert list(predicted.unloaded) == real["unloaded"], real["t"]
        assert abs(predicted.at_s - real["t"]) < PHASE_ERROR_S


@pytest.mark.parametrize("late_s", [0.4, 1.5, 2.5])
def test_a_round_whose_predecessor_was_seen_late_begins_with_its_first_move(late_s: float) -> None:
    true = truth("uniform")
    model, rounds, is_late = LeaderReplay("UniformLoadShedder", configured=UNIFORM), [], False
    for event in in_order(recorded("uniform")):
        rounds += model.apply(event)
        due_s = model.schedule.next_round_s
        if not is_late and len(rounds) == 6 and due_s is not None and due_s - event.at_s < 30:
            model.schedule.next_round_s, is_late = due_s + late_s, True
    assert is_late
    pairs = paired(rounds, true)
    assert [one.at_s for one, real in pairs if list(one.selected) != real["selected"]] == []
    assert max(abs(one.at_s - real["t"]) for one, real in pairs) < late_s


def options(settings: Mapping[str, object]) -> list[str]:
    return [
        word for key, value in settings.items() for word in ("--set", f"{key}={json.dumps(value)}")
    ]


def test_the_command_prints_every_round(trimtab: Trimtab) -> None:
    path = RECORDED / "uniform.jsonl.gz"
    name = "org.apache.pulsar.broker.loadbalance.impl.UniformLoadShedder"
    code, out, _ = trimtab(
        "leader", "replay", path, "--strategy", name, *options(UNIFORM), "--json"
    )
    body = json.loads(out)
    assert code == 0
    assert set(body) == {"rounds", "elapsed_ms"}
    assert [set(one) for one in body["rounds"]] == [{"t", "leader", "selected", "unloaded"}] * 21
    assert {one["leader"] for one in body["rounds"]} == {"127.0.0.1:28080"}
    assert [one["selected"] for one in body["rounds"][1:]] == [
        one["selected"] for one in truth("uniform")
    ]


@pytest.mark.parametrize(
    ("start", "end", "more"),
    [
        (None, WEIGHT_CHANGES_S, {}),
        (WEIGHT_CHANGES_S, SPREAD_ENDS_S, HEAVIER),
        (SPREAD_ENDS_S, None, HEAVIER | UNEVEN),
    ],
)
def test_a_part_of_a_recording_has_the_memory_of_what_came_before(
    trimtab: Trimtab, start: float | None, end: float | None, more: Mapping[str, object]
) -> None:
    window = [*(["--from", start] if start else []), *(["--to", end] if end else [])]
    code, out, _ = trimtab(
        *("leader", "replay", RECORDED / "threshold.jsonl.gz", "--strategy", "ThresholdShedder"),
        *(*options(THRESHOLD | more), *window, "--json"),
    )
    true = [one for one in truth("threshold") if (start or 0) <= one["t"] <= (end or one["t"])]
    assert code == 0
    assert [one["selected"] for one in json.loads(out)["rounds"]] == [
        one["selected"] for one in true
    ]


def test_a_stored_setting_overrides_the_configured_one() -> None:
    """What the recording holds beats ``--set``, which stands for broker.conf."""
    stored = ZnodeEvent(
        kind="init",
        path="/admin/configuration",
        value=json.dumps({"loadBalancerDirectMemoryResourceWeight": "3"}),
        version=0,
        mzxid=1,
        czxid=1,
        mtime_ms=1795411900000,
    )
    events = (stored, *recorded("threshold"))
    model = LeaderReplay("ThresholdShedder", configured=THRESHOLD | HEAVIER)
    rounds = list(replay_recording(events, model, end_s=WEIGHT_CHANGES_S))
    true = [one for one in truth("threshold") if one["t"] <= WEIGHT_CHANGES_S]
    assert [list(one.selected) for one in rounds] == [one["selected"] for one in true]


def test_the_command_prints_a_table_that_fits_80_columns(trimtab: Trimtab) -> None:
    code, out, _ = trimtab(
        *("leader", "replay", RECORDED / "threshold.jsonl.gz", "--strategy", "ThresholdShedder"),
        *options(THRESHOLD),
    )
    assert code == 0
    assert max(map(len, out.splitlines())) <= 80
    assert "20 rounds" in out
    assert "idle" in out


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["--strategy", "Uniform"], 2, "shedding strategy named 'Uniform'"),
        (["--strategy", "TransferShedder"], 1, "has no load topic messages"),
        (["--strategy", "AvgShedder", "--set", "minUnload=3"], 2, "setting named 'minUnload'"),
        (["--strategy", "AvgShedder", "--set", "minUnloadMessage=x"], 2, "is not a JSON value"),
        (["--strategy", "AvgShedder", "--set", "minUnloadMessage"], 2, "is not a JSON value"),
        (["--strategy", "AvgShedder", "--set", 'minUnloadMessage="x"'], 2, "a whole number"),
        (["--strategy", "AvgShedder", "--set", "loadBalancerEnabled=1"], 2, "true or false"),
        (["--strategy", "AvgShedder", "--from", "soon"], 2, "--from soon is not a time"),
        (["--strategy", "AvgShedder", "--to", "nan"], 2, "--to nan is not a time"),
        (["--strategy", "AvgShedder", "--from", "9", "--to", "8"], 2, "is later than --to 8"),
        (["--strategy", "AvgShedder", "--release", "9.9"], 2, "release line named '9.9'"),
    ],
)
def test_bad_options_are_named(
    trimtab: Trimtab, words: Sequence[str], code: int, message: str
) -> None:
    found, out, _ = trimtab("leader", "replay", RECORDED / "threshold.jsonl.gz", *words, "--json")
    assert found == code
    assert message in json.loads(out)["error"]["message"]


def test_a_recording_without_znodes_is_named(trimtab: Trimtab, tmp_path: Path) -> None:
    path = tmp_path / "empty.jsonl.gz"
    path.write_bytes(gzip.compress(b'{"te": 1.0, "k": "ready"}\n'))
    code, out, _ = trimtab("leader", "replay", path, "--strategy", "AvgShedder", "--json")
    assert code == 1
    assert "no znode events" in json.loads(out)["error"]["message"]


def test_values_are_read_as_broker_conf_reads_them() -> None:
    given = [
        'loadBalancerSheddingGracePeriodMinutes="2"',
        "maxUnloadPercentage=5e-1",
        'loadBalancerEnabled="TRUE"',
        'loadBalancerSheddingExcludedNamespaces=["a/b"]',
        'loadBalancerOverrideBrokerNicSpeedGbps="1.5"',
    ]
    assert configured_values(given) == {
        "loadBalancerSheddingGracePeriodMinutes": 2,
        "maxUnloadPercentage": 0.5,
        "loadBalancerEnabled": True,
        "loadBalancerSheddingExcludedNamespaces": ("a/b",),
        "loadBalancerOverrideBrokerNicSpeedGbps": 1.5,
    }


def judged(name: str, draws: int, leads_s: Sequence[float]) -> list[JudgedRound]:
    """Predict every round of a recording early, and judge with the true rounds."""
    true = truth(name)
    changes = [(WEIGHT_CHANGES_S, HEAVIER), (SPREAD_ENDS_S, UNEVEN)] if name == "threshold" else []
    strategy, configured = (
        ("ThresholdShedder", THRESHOLD) if name == "threshold" else ("UniformLoadShedder", UNIFORM)
    )
    model = LeaderReplay(strategy, configured=configured)
    held, left = dict(configured), list(changes)

    def configure(event: ZnodeEvent) -> None:
        while left and event.kind != "init" and event.at_s > left[0][0]:
            held.update(left.pop(0)[1])
            model.configure(held)

    found = predictions_by_lead(
        recorded(name),
        model,
        [one["t"] for one in true],
        leads_s=leads_s,
        before=configure,
        draws=draws,
    )
    return [
        judge(
            found[one["t"]],
            ActualRound(
                at_s=one["t"],
                selected=tuple(one["selected"]),
                unloaded=tuple(one["unloaded"]),
            ),
        )
        for one in true
    ]


@pytest.mark.parametrize(
    ("name", "exact"),
    [
        # at least what the recipe was measured with, where no chance is involved
        ("uniform", {0.0: 20, 1.0: 18, 5.0: 10, 10.0: 9, 30.0: 8}),
        ("threshold", {0.0: 20, 1.0: 20, 5.0: 20, 10.0: 19, 30.0: 17}),
    ],
)
def test_the_accuracy_by_lead_time(name: str, exact: Mapping[float, int]) -> None:
    table = {one.lead_s: one for one in accuracy_by_lead(judged(name, 0, LEADS_S))}
    assert table[0.0].hits == table[0.0].predicted == table[0.0].actual
    for lead_s, least in exact.items():
        assert table[lead_s].exact >= least, lead_s


def test_what_is_shown_as_likely_comes_true() -> None:
    """Of the bundles shown with 90% and more nine in ten come true, ten seconds before."""
    rounds = judged("uniform", 40, [CALIBRATION_LEAD_S])
    rounds += judged("threshold", 40, [CALIBRATION_LEAD_S])
    bins = calibration(rounds)
    likely = bins[-1]
    assert likely.low == 0.9
    assert likely.shown >= 30
    assert likely.came_true >= 0.85 * likely.shown
    unlikely = bins[0]
    assert unlikely.came_true <= 0.2 * unlikely.shown


def _round(*scores: LeadScore, drawn: tuple[tuple[float, bool], ...] = ()) -> JudgedRound:
    return JudgedRound(0.0, scores, drawn=drawn)


def test_idle_rounds_are_counted_apart_from_active_ones() -> None:
    idle = [_round(LeadScore(10.0, 0, 0, 0, is_exact=True))] * 31
    missed = [_round(LeadScore(10.0, 0, 2, 0, is_exact=False))] * 10
    wrong = [_round(LeadScore(10.0, 2, 0, 0, is_exact=False))] * 10
    (found,) = accuracy_by_lead(
        [*idle, *missed, *wrong, _round(LeadScore(10.0, 1, 1, 1, is_exact=True))]
    )
    assert (found.exact, found.rounds) == (32, 52)
    assert (found.active_exact, found.active, found.idle) == (1, 21, 31)


def _shown(*shares: float) -> RoundPrediction:
    bundles = tuple(
        PredictedBundle(bundle=f"t/n/{at}", broker="b:1", share=share)
        for at, share in enumerate(shares)
    )
    return RoundPrediction(at_s=9.0, made_at_s=0.0, leader="b:1", strategy="X", bundles=bundles)


def test_shares_fall_where_drawn_shares_did_not_come_true() -> None:
    starved = [_round(drawn=((0.95, at % 3 == 0), (0.2, False))) for at in range(60)]
    shares = list(calibrated(_shown(0.95, 0.2, 0.6), starved).shares.values())
    assert shares[0] == pytest.approx(0.95 * (20 + 9.5) / 70 / 0.95)  # a third came true
    assert shares[1] == pytest.approx(0.2 * 2 / 70 / 0.2)
    assert shares[2] == 0.6  # nothing is known of that range
    quick = [_round(drawn=((0.95, True),))] * 60
    assert calibrated(_shown(0.95), quick).shares == {"t/n/0": 0.95}
    assert calibrated(_shown(0.95), []) == _shown(0.95)
