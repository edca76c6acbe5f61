"""Advice is simulated before it is given."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from core.diagnosis.pulsar.advice import change_outcome, simulated_findings, values_of
from core.findings.finding import Finding, Fix
from core.pulsar.snapshot.zkdump import import_zk_dump
from core.snapshot import PulsarSnapshot
from core.snapshot.store import save_snapshot
from dashboard.cli.main import run as run_command

REPORTS = Path(__file__).parents[2] / "fixtures" / "reports"
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
