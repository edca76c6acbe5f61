"""Which upgrade a known defect of a release needs."""

from __future__ import annotations

import pytest
from report_cluster import all_reports

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
def test_an_upgrade_is_one_that_mends(name, hint):
    snapshot = next(one for one in all_reports("pulsar") if one.name == name).snapshot()
    [cause] = [one for one in diagnose(snapshot, LONG).causes if one.code == "release_defect"]
    assert cause.hint == hint


def test_a_release_whose_line_takes_the_change_back_is_not_recommended():
    # 3.0.0 mends what 3.0.2 has again, 3.1.0 what 3.1.1 has again
    snapshot = next(one for one in all_reports("pulsar") if one.name == "18052").snapshot()
    causes = diagnose(snapshot, LONG).causes
    hints = [cause.hint for cause in causes if cause.code == "release_defect"]
    assert all("3.0.0" not in hint and "3.1.0" not in hint for hint in hints)
