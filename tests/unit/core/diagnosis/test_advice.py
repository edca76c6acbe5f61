"""Advice is simulated before it is given."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from places import FIXTURES

from core.diagnosis.pulsar.advice import (
    change_outcome,
    pair_outcome,
    simulated_findings,
    values_of,
)
from core.diagnosis.pulsar.draws import SEEDS, SeedTrials
from core.diagnosis.pulsar.trials import Change, Trials, judged_trials
from core.findings.finding import Finding, Fix
from core.pulsar.shedding.what_if import SettingPair
from core.pulsar.snapshot.zkdump import import_zk_dump
from core.snapshot import PulsarSnapshot
from core.snapshot.store import save_snapshot
from dashboard.cli.main import run as run_command

REPORTS = FIXTURES / "reports"
NOW = datetime(2026, 11, 23, 12, 0, tzinfo=UTC)
EVENLY = "loadBalancerDistributeBundlesEvenlyEnabled"


def report(name: str) -> PulsarSnapshot:
    return import_zk_dump(REPORTS / f"{name}.jsonl", name, NOW)


def finding(**wanted: object) -> Finding:
    return Finding(
        code="x",
        severity="warning",
        title="t",
        sentence="s",
        hint="Set it.",
        fix=Fix(wanted=wanted),
    )


def test_a_change_that_goes_back_and_forth_is_not_recommended():
    text, is_no_worse = change_outcome(report("i21299"), {"minUnloadMessage": 640})
    assert is_no_worse is False
    assert text.startswith("Not recommended")


def test_a_change_that_helps_comes_with_its_figures():
    text, is_no_worse = change_outcome(report("i16059"), {EVENLY: False})
    assert is_no_worse
    assert "20 moves" in text


def test_a_fix_that_makes_it_worse_is_taken_away_with_the_reason():
    bad, good = simulated_findings(
        report("i21299"), [finding(minUnloadMessage=640), finding(minUnloadMessage=100_000)]
    )
    assert not bad.fix.wanted
    assert bad.hint.startswith("Not recommended")
    assert good.fix.wanted


def test_a_fix_that_leaves_its_value_open_is_not_simulated():
    assert values_of(Fix(lines=("loadBalancerOverrideBrokerNicSpeedGbps=<Gbit/s>",))) == {}


@pytest.mark.parametrize(
    ("name", "key"), [("i16059", EVENLY), ("i18173", "loadBalancerHistoryResourcePercentage")]
)
def test_restless_rounds_name_the_change_that_calms_them(tmp_path, capsys, name, key):
    save_snapshot(report(name), tmp_path / name)
    assert run_command(["simulate", str(tmp_path / name), "--json"]) == 0
    assert key in json.loads(capsys.readouterr().out)["advice"]["keys"]


def test_calm_rounds_need_no_advice(tmp_path, capsys):
    save_snapshot(report("healthy"), tmp_path / "healthy")
    assert run_command(["simulate", str(tmp_path / "healthy"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["advice"] is None


def test_a_pair_of_settings_is_simulated_before_it_is_recommended():
    snapshot = report("i21299")
    bad = SettingPair(settings={"minUnloadMessage": 640, EVENLY: True}, sentence="")
    assert pair_outcome(snapshot, bad).startswith("Not recommended")
    none = SettingPair(settings={"minUnloadMessage": 100_000, EVENLY: True}, sentence="")
    assert pair_outcome(snapshot, none).startswith("Simulated")


def test_a_change_whose_harm_depends_on_the_draws_is_not_confirmed():
    trials = judged_trials(Trials(report("i16059")))
    draws = SeedTrials(trials)
    helps = Change(settings={EVENLY: False})
    assert draws.confirm(helps)
    worse = replace(trials.trial(helps).outcome, deviation=9.0)
    other = trials.with_seed(SEEDS[0])
    other._trials[helps.key] = replace(trials.trial(helps), outcome=worse)
    assert not SeedTrials(trials, {SEEDS[0]: other}).confirm(helps)
