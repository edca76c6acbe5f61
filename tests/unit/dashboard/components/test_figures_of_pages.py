"""Key figures: their trends as pictures that the browser draws without a library."""

from __future__ import annotations

from base64 import b64decode

import plotly.graph_objects as go
import pytest
from streamlit.testing.v1 import AppTest

from dashboard.charts.template import TOOLBAR_FROM_PX, styled
from dashboard.components.figures import _sparkline, config_of


def draw() -> None:
    from dashboard.components import figures  # noqa: PLC0415  # a script of its own

    figures.key_figures(
        [
            figures.KeyFigure(label="Traffic", value="2 MB/s", trend=(1.0, float("nan"), 3.0)),
            figures.KeyFigure(label="Clients", value="7", trend=(7.0,)),
        ],
        key="of the tests",
    )


def test_only_a_figure_with_a_trend_has_a_picture_of_it():
    app = AppTest.from_function(draw, default_timeout=120).run()
    assert [one.value for one in app.metric] == ["2 MB/s", "7"]
    (style,) = (one.proto.body for one in app.get("html"))
    assert style.count("url(") == 1
    assert ".st-key-figure_plain_of-the-tests_0 " in style
    picture = b64decode(style.partition("base64,")[2].partition('"')[0]).decode()
    assert "points='1.0,16.0 41.0,2.0'" in picture
    assert "<" not in style.removeprefix("<style>").removesuffix("</style>")  # else it is dropped


@pytest.mark.parametrize(("values", "heights"), [((5.0, 5.0), {9.0}), (range(100), None)])
def test_a_trend_without_a_change_is_in_the_middle_and_a_long_one_ends_with_the_last(
    values, heights
):
    picture = b64decode(_sparkline(tuple(values)).partition("base64,")[2]).decode()
    points = [pair.split(",") for pair in picture.split("'")[7].split()]
    assert len(points) == min(len(values), 42)
    if heights:
        assert {float(high) for _, high in points} == heights
    assert points[0][0] == "1.0"
    assert points[-1][0] == "41.0"


def test_a_low_chart_has_no_toolbar_and_others_a_row_for_it():
    low, high = (styled(go.Figure(), height=height, legend=True) for height in (139, 140))
    assert [config_of(one)["displayModeBar"] for one in (low, high)] == [False, "hover"]
    assert [one.layout.height for one in (low, high)] == [TOOLBAR_FROM_PX - 1, TOOLBAR_FROM_PX]
