"""Reports about Pegasus: the cause is named first, its fix helps; healthy clusters have none."""

from __future__ import annotations

import pytest
from report_answers import assert_diagnosis_frozen, is_right
from report_pegasus import earlier_of_report, pegasus_reports, snapshot_of_report
from test_reports import proven

from core.diagnosis.request import DiagnoseRequest
from core.diagnosis.systems import diagnose
from core.pegasus.settings import SERVER_SETTING_BY_NAME

REQUEST = DiagnoseRequest(seconds=200.0)  # a loaded machine finishes every trial, too
REPORTS = pegasus_reports()
CASES = [report for report in REPORTS if not report.is_control]
CONTROLS = [report for report in REPORTS if report.is_control]


def named(reports):
    return pytest.mark.parametrize("report", reports, ids=lambda report: report.name)


@named(CASES)
def test_the_established_cause_is_named_first_and_its_fix_helps(report):
    earlier = earlier_of_report(report)
    found = diagnose(snapshot_of_report(report), REQUEST, earlier=earlier)
    causes = found.causes
    assert causes
    assert is_right(report, causes[0])
    for cause in proven(causes):
        assert cause.effect.is_better
        assert cause.effect.after.converges
    assert_diagnosis_frozen(f"pegasus/{report.name}", found)


@named(CONTROLS)
def test_a_healthy_cluster_has_no_cause(report):
    found = diagnose(snapshot_of_report(report), REQUEST)
    assert {one.code for one in found.causes} == set(report.facts["expected"].get("findings", ()))
    assert bool(found.problem) == bool(found.causes)
    assert_diagnosis_frozen(f"pegasus/{report.name}", found)


@named(CASES)
def test_a_report_names_its_source_and_settings_that_exist(report):
    facts = report.facts
    assert facts["repository"].count("/") == 1
    assert facts["number"] > 0
    assert facts["facts"]
    assert facts["cause"]
    assert facts["solved_by"]
    assert report.keys or report.objects or facts["expected"]["codes"]
    known = {*SERVER_SETTING_BY_NAME, "balance_operation_count"}
    assert set(facts.get("settings", {})) <= known


def test_there_are_enough_reports_and_controls():
    assert len(CASES) >= 4
    assert len(CONTROLS) >= 10
