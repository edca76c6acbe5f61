"""Bundles as a treemap: area is load, groups are brokers or namespaces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from dashboard.charts.once import drawn_once
from dashboard.charts.scale import Unit, texts_of
from dashboard.charts.template import FAINT, styled

ROOT: Final = "all"
"""Id of the node over all groups."""

LEAST_WRITTEN: Final = 0.02
"""Share of the whole below which a leaf has no room for words; its hover text has them."""

REST: Final = "|rest"
"""End of the id of a node that stands for all the others of its group."""


@dataclass(frozen=True, eq=False)
class TreemapData:
    """Leaves, their groups and the root; the last leaf of a group may stand for all the rest.

    Attributes:
        ids: One a node, unique; the root is :data:`ROOT`.
        labels: What is written on it.
        parents: Id of the group, :data:`ROOT` for a group, empty for the root.
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


@drawn_once
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
            texttemplate=_templates(values, data.parents),
            textfont={"size": 11},
            marker={
                "colors": _share_of_level(values, data.parents, data.ids),
                "coloraxis": "coloraxis",
                "line": {"width": 1, "color": FAINT},
                "pad": {"t": 18, "l": 1, "r": 1, "b": 1},
                "cornerradius": 2,
            },
            tiling={"packing": "squarify", "pad": 1},
            pathbar={"visible": True, "thickness": 18},
            root={"color": "rgba(0,0,0,0)"},
            maxdepth=3,
            sort=True,
        )
    )
    styled(figure, height=height)
    figure.update_layout(
        margin={"l": 0, "r": 0, "t": 20, "b": 0},
        coloraxis={"showscale": False, "cmin": 0, "cmax": 1.6},
    )
    return figure


def _share_of_level(
    values: NDArray[np.float64], parents: Sequence[str], ids: Sequence[str]
) -> NDArray[np.float64]:
    """Value over the largest of its own level (groups, leaves), 0..1; 0 for a rest."""
    is_group = np.array([parent == ROOT for parent in parents], dtype=bool)
    is_leaf = np.array([parent not in ("", ROOT) for parent in parents], dtype=bool)
    is_rest = np.array([key.endswith(REST) for key in ids], dtype=bool)
    shares = np.zeros_like(values)
    for level, weight in ((is_group & ~is_rest, 0.45), (is_leaf & ~is_rest, 1.0)):
        top = values[level].max(initial=0.0)
        if top > 0:
            shares[level] = weight * values[level] / top
    return shares


def _templates(values: NDArray[np.float64], parents: Sequence[str]) -> list[str]:
    """Return the label templates of the nodes: groups one line, leaves two, small leaves none."""
    least = LEAST_WRITTEN * float(values.max(initial=0.0))
    return [
        "%{label}  %{customdata[0]}"
        if parent in ("", ROOT)
        else "%{label}<br>%{customdata[0]}"
        if value >= least
        else " "
        for parent, value in zip(parents, values.tolist(), strict=True)
    ]
