"""No advice recommends what a simulation of the same cluster rejects: over every report."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from report_cluster import Report, all_reports

from core.diagnosis.model import Effect
from core.diagnosis.pulsar.advice import simulated_findings, simulated_points, values_of
from core.diagnosis.pulsar.trials import Change, Trials, judged_trials
from core.errors import OpsError
from core.pulsar.explain import Explanation
from core.pulsar.rules.doctor import examine
from core.pulsar.settings import SHEDDING_SWITCHES, effective_settings
from core.pulsar.view import LoadView
from core.snapshot import PulsarSnapshot

pytestmark = pytest.mark.slow  # every report once more

REPORTS = all_reports("pulsar")
MANY_SECONDS = 600.0


def effect_of(
    snapshot: PulsarSnapshot, values: Mapping[str, Any], *, is_on: bool = False
) -> Effect | None:
    """What the simulation of a diagnosis makes of settings; shedding as it is, or switched on."""
    assumed = Change(settings=dict.fromkeys(SHEDDING_SWITCHES, True) if is_on else {})
    try:
        trials = judged_trials(Trials(snapshot, assumed=assumed))
        return trials.effect(Change(settings=dict(values)))
    except OpsError:
        return None


@pytest.mark.parametrize("report", REPORTS, ids=lambda report: report.name)
def test_the_doctor_recommends_nothing_that_ends_worse(report: Report):
    snapshot = report.snapshot()
    found = examine(snapshot, effective_settings(snapshot), None)
    for one in simulated_findings(snapshot, found.diagnoses, MANY_SECONDS):
        values = values_of(one.fix)
        effect = effect_of(snapshot, values) if values else None
        assert effect is None or not effect.is_worse, one.code


@pytest.mark.parametrize("report", REPORTS, ids=lambda report: report.name)
def test_no_turning_point_is_recommended_that_ends_worse_or_never(report: Report):
    snapshot = report.snapshot()
    settings = effective_settings(snapshot)
    view = LoadView.of(snapshot, settings)
    found = Explanation(
        view, settings, lambda assumed: effective_settings(snapshot, overrides=assumed)
    )
    usage = snapshot.brokers["cpu_usage"].to_numpy()
    broker = view.brokers[int(np.nanargmax(usage))]
    points = simulated_points(snapshot, found.turning_points(broker), budget_s=MANY_SECONDS)
    for point in points:
        assert point.is_recommended is not None, point.outcome
        value = list(point.needed) if isinstance(point.needed, tuple) else point.needed
        effect = effect_of(snapshot, {point.key: value}, is_on=True)
        assert effect is not None
        assert not (point.is_recommended and effect.is_harmful)  # further draws may refuse more
        assert point.is_recommended is not ("Not recommended" in point.text)
