"""Contract of a system with the History page."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from core.errors import UnknownNameError
from dashboard.charts.scale import Unit

if TYPE_CHECKING:
    from datetime import timedelta

    import numpy as np
    import pandas as pd
    import pyarrow as pa
    from numpy.typing import NDArray

    from core.history.queries.query import Evenness
    from core.snapshot.store import CachedSnapshot, Storable
    from dashboard.presenters.figures import KeyFigure
    from dashboard.queries.history import HistoryQuery, PeriodLoad, Weights
    from dashboard.services import Config


@dataclass(frozen=True, slots=True)
class HistoryMeasure:
    """One measure of the servers.

    Attributes:
        key: Of :mod:`core.history.queries.query`, and in the address.
        label: For people.
        unit: Of its values.
    """

    key: str
    label: str
    unit: Unit


@dataclass(frozen=True, kw_only=True)
class SubjectSeries:
    """Choice and reading of the load of single subjects, where it is recorded one by one.

    Attributes:
        label: Of the field for the name.
        parameter: In the address.
        placeholder: In the empty field.
        names: How names are written.
        measures: What is drawn.
        read: Returns the series of one.
    """

    label: str
    parameter: str
    placeholder: str
    names: str
    measures: tuple[HistoryMeasure, ...]
    read: Callable[[HistoryQuery, PeriodLoad, str], pa.Table]


@dataclass(frozen=True, kw_only=True)
class HistorySystem:
    """One system, as the History page uses it.

    Attributes:
        server: What carries load.
        server_parameter: Names one in the address.
        subject: What moves.
        move: What one move is called.
        move_kind: Kind of its event.
        by_hand: What people do by hand, with the tool.
        measures: Of the servers; the first is what the balancer compares.
        evenness: Returns how even the load was, by minute.
        even_unit: Of these values.
        even_label: What they are, in a few words.
        even_caption: The same, as the caption of the timeline explains it.
        bound: From where on a value is too large, of the cluster's target; NaN: nowhere.
        even_figures: Returns how even the load was, as key figures, of the evenness, the recorded
            time and the cluster's target.
        describe_moves: Returns what moved between two minutes, as a clause.
        with_load: Adds the load of what moved to the rows of two minutes, where it is recorded.
        read_pair: Returns two snapshots, and how evenness changed from one to the other.
        weights: Returns the weights of the resources in a snapshot; ``None``: without one.
        draw_accuracy: Draws how well decisions were predicted while they were made; returns
            whether there is anything.
        pages: Pages that can show a minute, with their titles.
        open_subject: Opens the page of what moved; ``None``: it has none.
        subjects: The load of what moves; ``None``: it is not recorded one by one.
    """

    server: str
    server_parameter: str
    subject: str
    move: str
    move_kind: str
    by_hand: str
    measures: tuple[HistoryMeasure, ...]
    evenness: Callable[[Evenness], NDArray[np.float64]]
    even_unit: Unit
    even_label: str
    even_caption: str
    bound: Callable[[float], float]
    even_figures: Callable[[Evenness, timedelta, float], list[KeyFigure]]
    describe_moves: Callable[[pd.DataFrame], str]
    with_load: Callable[[pd.DataFrame, Storable], pd.DataFrame]
    read_pair: Callable[[CachedSnapshot, CachedSnapshot], tuple[Storable, Storable, str]]
    weights: Callable[[CachedSnapshot | None], Weights]
    draw_accuracy: Callable[[Config, str], bool]
    pages: tuple[tuple[str, str], ...]
    open_subject: Callable[[str], None] | None
    subjects: SubjectSeries | None

    def measure(self, key: str) -> HistoryMeasure:
        """Return a measure by its key.

        Raises:
            UnknownNameError: There is none.
        """
        for one in self.measures:
            if one.key == key:
                return one
        raise UnknownNameError.of("measure", key, [one.key for one in self.measures])
