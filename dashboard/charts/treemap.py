"""Bundles as a treemap: area is load, groups are brokers or namespaces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from dashboard.charts.scale import Unit, texts_of
from dashboard.charts.template import styled


@dataclass(frozen=True, eq=False)
class TreemapData:
    """Leaves with their group; the last leaf of a group may stand for all the rest.

    Attributes:
        ids: One a node, unique: groups first, then leaves.
        labels: What is written on it.
        parents: Id of the group; empty for a group.
        values: Area; a group's is the sum of its leaves.
        unit: Unit of the values.
        notes: A second line for the hover text.
    """

    ids: Sequence[str]
    labels: Sequence[str]
    parents: Sequence[str]
    values: NDArray[np.float64]
    unit: Unit
    notes: Sequence[str]


def bundle_treemap(data: TreemapData, *, height: int = 420) -> go.Figure:
    """Return the treemap; darker (brighter on a dark ground) is more load for its kind."""
    values = np.nan_to_num(data.values)
    figure = go.Figure(
        go.Treemap(
            ids=list(data.ids),
            labels=list(data.labels),
            parents=list(data.parents),
            values=values,
            branchvalues="total",
            customdata=list(zip(texts_of(values, data.unit), data.notes, strict=True)),
            hovertemplate="<b>%{label}</b><br>%{customdata[0]}<br>%{customdata[1]}<extra></extra>",
            texttemplate="%{label}<br>%{customdata[0]}",
            textfont={"size": 11},
            marker={
                "colors": _share_of_level(values, data.parents),
                "coloraxis": "coloraxis",
                "line": {"width": 1},
                "pad": {"t": 18, "l": 1, "r": 1, "b": 1},
                "cornerradius": 2,
            },
            tiling={"packing": "squarify", "pad": 1},
            pathbar={"visible": True, "thickness": 18},
            maxdepth=2,
            sort=True,
        )
    )
    styled(figure, height=height)
    figure.update_layout(
        margin={"l": 0, "r": 0, "t": 20, "b": 0},
        coloraxis={"showscale": False, "cmin": 0, "cmax": 1.25},
    )
    return figure


def _share_of_level(values: NDArray[np.float64], parents: Sequence[str]) -> NDArray[np.float64]:
    """Value over the largest value of its own level (groups, leaves), 0..1."""
    is_group = np.array([not parent for parent in parents], dtype=bool)
    shares = np.zeros_like(values)
    for level, weight in ((is_group, 0.45), (~is_group, 1.0)):
        top = values[level].max(initial=0.0)
        if top > 0:
            shares[level] = weight * values[level] / top
    return shares
