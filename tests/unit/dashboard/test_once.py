"""Tables and figures are made once for the same values, and never with another person's labels."""

from __future__ import annotations

import cachetools
import numpy as np
import pandas as pd
import plotly.graph_objects as go
import pytest

from dashboard import legible
from dashboard.charts.once import drawn_once
from dashboard.components import tables
from dashboard.once import made_once


def test_equal_arguments_are_made_once_and_others_again() -> None:
    calls = []

    @made_once(cachetools.LRUCache(8))
    def total(values: np.ndarray, *, factor: float = 1.0) -> float:
        calls.append(factor)
        return float(values.sum() * factor)

    assert total(np.arange(4.0)) == total(np.arange(4.0)) == 6.0
    assert calls == [1.0]
    assert total(np.arange(4.0), factor=2.0) == 12.0
    assert total(np.arange(5.0)) == 10.0
    assert calls == [1.0, 2.0, 1.0]


def test_functions_that_share_results_keep_them_apart() -> None:
    shared = cachetools.LRUCache(8)

    @made_once(shared)
    def one(value: int) -> int:
        return value + 1

    @made_once(shared)
    def other(value: int) -> int:
        return value - 1

    assert (one(1), other(1), one(1)) == (2, 0, 2)


@drawn_once
def bars(names: list[str]) -> go.Figure:
    return go.Figure(go.Bar(x=names, y=[1.0] * len(names)))


@pytest.fixture
def labels(monkeypatch):
    shown: dict[str, str] = {}
    monkeypatch.setattr(legible, "_labels_of", lambda: dict(shown))
    return shown


def test_a_figure_has_the_labels_of_who_looks_at_it(labels) -> None:
    labels["10.0.0.1:8080"] = "broker-1"
    assert bars(["10.0.0.1:8080"]).data[0].x == ("broker-1",)
    labels["10.0.0.1:8080"] = "zone-a"
    assert bars(["10.0.0.1:8080"]).data[0].x == ("zone-a",)
    labels.clear()
    assert bars(["10.0.0.1:8080"]).data[0].x == ("10.0.0.1:8080",)


def test_a_table_has_the_labels_of_who_looks_at_it_and_the_values_of_its_frame(
    labels, monkeypatch
) -> None:
    drawn = []
    monkeypatch.setattr(tables.st, "dataframe", lambda shown, **_: drawn.append(shown))
    frame = pd.DataFrame({"broker": ["10.0.0.1:8080"], "share": [0.5]})
    tables.grid(frame, hide_index=True)
    tables.grid(frame.copy(), hide_index=True)
    labels["10.0.0.1:8080"] = "broker-1"
    tables.grid(frame, hide_index=True)
    tables.grid(frame.assign(share=0.25), hide_index=True)
    assert drawn[0] is drawn[1]
    assert [one.to_pydict() for one in drawn[1:]] == [
        {"broker": ["10.0.0.1:8080"], "share": [0.5]},
        {"broker": ["broker-1"], "share": [0.5]},
        {"broker": ["broker-1"], "share": [0.25]},
    ]
