"""Marks of the Pareto chart that would print over each other."""

from __future__ import annotations

from core.history.backtest.pegasus.system import PEGASUS
from core.history.backtest.pulsar.system import PULSAR
from dashboard.app_pages.backtest.charts import ParetoPoint, pareto_chart, readable


def point(mark: str, unloads: float, deviation: float) -> ParetoPoint:
    return ParetoPoint(
        name=f"way {mark}",
        mark=mark,
        unloads_per_day=unloads,
        deviation=deviation,
        unloads_range=(unloads, unloads),
        deviation_range=(deviation, deviation),
    )


def test_points_beside_each_other_share_one_label():
    found = readable(
        [point("1", 0, 0.5), point("", 1, 0.5), point("3", 2, 0.5), point("4", 100, 0.5)]
    )
    assert [one.mark for one in found] == ["1, 3", "", "", "4"]


def test_points_apart_keep_their_labels():
    found = readable([point("1", 0, 0.5), point("2", 50, 0.5), point("3", 0, 0.1)])
    assert [one.mark for one in found] == ["1", "2", "3"]


def test_the_target_has_a_name_in_the_legend():
    figure = pareto_chart([point("1", 5, 0.3)], target=(10, 0.2), nouns=PULSAR.nouns)
    assert [(shape.name, shape.showlegend) for shape in figure.layout.shapes] == [("target", True)]


def test_axes_are_in_the_terms_of_the_system():
    layout = pareto_chart([point("1", 5, 0.3)], nouns=PEGASUS.nouns).layout
    assert layout.xaxis.title.text == "moves a day"
    assert layout.yaxis.title.text.startswith("max node deviation")
