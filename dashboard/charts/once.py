"""Figures are drawn once for the same numbers: plotly takes longer than all the rest of a page."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Final, ParamSpec

import cachetools
import plotly.graph_objects as go

from dashboard import legible
from dashboard.charts.readable import readable
from dashboard.once import made_once

P = ParamSpec("P")

MAX_FIGURES: Final = 64

_figures: Final[cachetools.LRUCache[bytes, go.Figure]] = cachetools.LRUCache(MAX_FIGURES)


def drawn_once(draw: Callable[P, go.Figure]) -> Callable[P, go.Figure]:
    """Return a function that draws each figure once; callers share it, and copy it to change it.

    Args:
        draw: Its figure follows from its arguments alone, and these can be pickled.
    """

    @made_once(_figures)
    @wraps(draw)
    def drawn(_: Mapping[str, str], *args: P.args, **options: P.kwargs) -> go.Figure:
        return readable(draw(*args, **options))

    @wraps(draw)
    def shown(*args: P.args, **options: P.kwargs) -> go.Figure:
        return drawn(legible.labels(), *args, **options)

    return shown
