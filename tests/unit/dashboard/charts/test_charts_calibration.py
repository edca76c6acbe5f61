"""The calibration chart: what is plotted, and how sure a ratio of few bundles is."""

from __future__ import annotations

import pytest

from core.pulsar.leader.accuracy import came_true_range
from core.pulsar.leader.prediction import ShareBin
from dashboard.charts.pulsar.calibration import calibration_chart

BINS = (
    ShareBin(low=0.1, high=0.3, shown=80, came_true=16, share_total=16.0),
    ShareBin(low=0.9, high=1.0, shown=20, came_true=19, share_total=19.2),
)


def test_markers_stand_at_the_mean_share_and_the_part_that_came_true() -> None:
    line, marks = calibration_chart(BINS).data
    assert list(line.x) == list(line.y) == [0, 100]
    assert list(marks.x) == pytest.approx([20.0, 96.0])
    assert list(marks.y) == pytest.approx([20.0, 95.0])
    assert list(marks.text) == ["16 of 80", "19 of 20"]
    few, many = marks.marker.size[1], marks.marker.size[0]
    assert few < many
    assert marks.error_y.arrayminus[0] < 10 < marks.error_y.arrayminus[1] + 10


def test_the_range_of_a_ratio_is_wide_for_few_bundles_and_stays_within_0_and_1() -> None:
    few = came_true_range(ShareBin(low=0.9, high=1.0, shown=2, came_true=2))
    many = came_true_range(ShareBin(low=0.9, high=1.0, shown=200, came_true=200))
    assert few[0] < many[0] < 1.0
    assert few[1] == pytest.approx(1.0)
    assert came_true_range(ShareBin(low=0.0, high=0.1)) == (0.0, 1.0)
    assert came_true_range(ShareBin(low=0.0, high=0.1, shown=9))[0] == 0.0


def test_the_label_of_a_marker_near_the_axis_is_above_it():
    bins = [ShareBin(low=0.0, high=0.1, shown=2, came_true=0, share_total=0.1)]
    _, marks = calibration_chart(bins).data
    assert list(marks.textposition) == ["top right"]
