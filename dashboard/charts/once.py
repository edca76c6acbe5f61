"""Figures are drawn once for the same numbers: plotly takes longer than all the rest of a page."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from functools import wraps
from hashlib import blake2b
from threading import Lock
from typing import Final, ParamSpec

import cachetools
import plotly.graph_objects as go

from dashboard.charts.readable import readable

P = ParamSpec("P")

MAX_FIGURES: Final = 64

_figures: Final[cachetools.LRUCache[bytes, go.Figure]] = cachetools.LRUCache(MAX_FIGURES)
_lock: Final = Lock()


def drawn_once(draw: Callable[P, go.Figure]) -> Callable[P, go.Figure]:
    """Return a function that draws each figure once; callers share it, and copy it to change it.

    Args:
        draw: Its figure follows from its arguments alone, and these can be pickled.
    """

    @wraps(draw)
    def drawn(*args: P.args, **options: P.kwargs) -> go.Figure:
        of = (draw.__module__, draw.__qualname__, args, options)
        key = blake2b(pickle.dumps(of), digest_size=16).digest()
        with _lock:
            found = _figures.get(key)
        if found is None:
            found = readable(draw(*args, **options))
            with _lock:
                _figures[key] = found
        return found

    return drawn
