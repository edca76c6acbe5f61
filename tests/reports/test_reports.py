"""Every established cause is named first, its fix helps, and healthy clusters have none."""

from __future__ import annotations

import pytest
from report_answers import Answered, assert_diagnosis_frozen, is_right
from report_cluster import all_reports

from core.diagnosis.model import one_per_fix
from core.diagnosis.request import DiagnoseRequest
from core.diagnosis.systems import diagnose
from core.pulsar.settings import SETTING_BY_KEY

REQUEST = DiagnoseRequest(seconds=120.0)
REPORTS = all_reports("pulsar")
CASES = [report for report in REPORTS if not report.is_control]
CONTROLS = [report for report in REPORTS if report.is_control]


def proven(causes):
    """Causes that a simulation proves; the others are facts."""
    return [cause for cause in causes if cause.effect is not None]


def judged(report):
    """A report that is known to be missed has to fail: once it is found, its note goes."""
    missed = report.facts["expected"].get("missed")
    marks = (pytest.mark.xfail(reason=missed, strict=True),) if missed else ()
    return pytest.param(report, marks=marks, id=report.name)


@pytest.mark.parametrize("report", [judged(one) for one in CASES])
def test_the_established_cause_is_named_first_and_no_fix_makes_it_worse(report):
    found = diagnose(report.snapshot(), REQUEST)
    causes = found.causes
    assert causes
    assert is_right(report, causes[0])
    answered = Answered(report=report, found=found, seconds=0.0)
    assert not answered.is_false_clear
    assert not answered.is_harmful
    for cause in proven(causes):
        assert not cause.effect.is_harmful
        assert cause.effect.after.converges
    assert one_per_fix(proven(causes)) == tuple(proven(causes))
    assert_diagnosis_frozen(f"pulsar/{report.name}", found)


@pytest.mark.parametrize("report", CONTROLS, ids=lambda report: report.name)
def test_a_healthy_cluster_has_no_cause(report):
    found = diagnose(report.snapshot(), REQUEST)
    assert {one.code for one in found.causes} == set(report.facts["expected"].get("findings", ()))
    assert bool(found.problem) == bool(found.causes)
    assert_diagnosis_frozen(f"pulsar/{report.name}", found)


@pytest.mark.parametrize("report", CASES, ids=lambda report: report.name)
def test_a_report_names_its_source_and_settings_that_exist(report):
    facts = report.facts
    if "source" not in facts:
        assert facts["repository"].count("/") == 1
        assert facts["number"] > 0
    assert facts["facts"]
    assert facts["cause"]
    assert facts["solved_by"]
    assert report.keys or report.objects or facts["expected"]["codes"]
    assert set(facts.get("settings", {})) <= set(SETTING_BY_KEY)


def test_there_are_enough_controls():
    assert len(CONTROLS) >= 10
