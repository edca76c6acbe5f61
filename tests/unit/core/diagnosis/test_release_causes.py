"""Which upgrade a known defect of a release needs."""

from __future__ import annotations

import pytest
from report_cluster import all_reports

from core.diagnosis.pulsar.context import DiagnosisContext
from core.diagnosis.pulsar.patterns.releases import release_defect
from core.diagnosis.pulsar.trials import Trials
from core.diagnosis.request import DiagnoseRequest
from core.diagnosis.systems import diagnose

LONG = DiagnoseRequest(seconds=60.0)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("16401", "Upgrade the brokers to 2.11.0 or later."),
        ("22321", "Upgrade the brokers to 3.0.5, or 3.2.3 or later."),  # 3.1 has it again
    ],
)
def test_an_upgrade_is_one_that_keeps_the_change(name, hint):
    snapshot = next(one for one in all_reports("pulsar") if one.name == name).snapshot()
    [cause] = [one for one in diagnose(snapshot, LONG).causes if one.code == "release_defect"]
    assert cause.hint == hint


def test_a_release_whose_line_takes_the_change_back_is_not_recommended():
    # 3.0.2 has again what 3.0.0 changes, 3.1.1 what 3.1.0 changes
    snapshot = next(one for one in all_reports("pulsar") if one.name == "18052").snapshot()
    found = release_defect(DiagnosisContext(Trials(snapshot)))
    hints = [one.hint for one in found if "another's traffic" in one.summary]
    assert hints == [
        "Upgrade the brokers to 3.0.2, or 3.1.1 or later.",
        "Upgrade the brokers to 3.1.1 or later.",
    ]
