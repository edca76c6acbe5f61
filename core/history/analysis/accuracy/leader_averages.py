"""The leader's time averages from snapshot to snapshot, where it does not write them.

A modular leader decides by averages that it keeps in memory: every report that any broker writes
adds a sample of every bundle. It writes them once in a while, and only those of its busiest
bundles. Who sees one snapshot after the other can keep them as it does, from what was written last.

Source:
    Pulsar ``ModularLoadManagerImpl#updateBundleData`` and ``#writeBundleDataOnZooKeeper``,
    ``TimeAverageMessageData#update``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from core.arrays import column_values, row_of
from core.schemas.pulsar import RATES
from core.simulation.averages import (
    AVERAGES,
    TERMS,
    known_sums,
    sampled,
    seeds_of,
    set_column,
    sums,
)
from core.snapshot import PulsarSnapshot

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]
Columns = Mapping[str, Floats]
"""Of bundles, by name."""

_KEPT: Final = (*AVERAGES, *(f"{term}_samples" for term, _ in TERMS))
_TOLD_BY: Final = tuple(f"short_{rate}" for rate in RATES)
"""By which averages the moment of a write is told: they change the most."""
_MOST_GUESSES: Final = 16


@dataclass(frozen=True)
class _Seen:
    """The snapshot before: as it was read, and the averages of its bundles as they were then."""

    read: PulsarSnapshot
    averages: Columns


class CarriedAverages:
    """Averages of one cluster's bundles as its leader has them; snapshots come in their order."""

    def __init__(self) -> None:
        self._before: _Seen | None = None
        self._leader: str | None = None

    def on(self, snapshot: PulsarSnapshot) -> PulsarSnapshot:
        """Return a snapshot with the leader's averages in place of those that it wrote.

        The first snapshot and another leader begin with what is written; the extensible manager
        keeps no averages.

        Cost:
            O(bundles + brokers), no Python loop over them.
        """
        manifest, carried = snapshot.manifest, snapshot
        if manifest.load_manager != "modular" or manifest.leader != self._leader:
            self._before, self._leader = None, manifest.leader
        averages: Columns = _columns(snapshot.bundles, _KEPT)
        if self._before is not None:
            averages = _Minute(snapshot, self._before).averages()
            carried = _with_averages(snapshot, averages)
        self._before = _Seen(snapshot, averages)
        return carried


class _Minute:
    """What happened between two snapshots, in the rows of the later one's bundles."""

    def __init__(self, snapshot: PulsarSnapshot, before: _Seen) -> None:
        bundles, brokers, past = snapshot.bundles, snapshot.brokers, before.read.bundles
        rows = row_of(past["bundle"], bundles["bundle"])
        self._now = _columns(bundles, RATES)
        self._was = _rows(_columns(past, RATES), rows)
        self._seeds = seeds_of(snapshot)
        self._written = _columns(bundles, _KEPT)
        self._is_new = _differs(self._written, _rows(_columns(past, _KEPT), rows))
        order, self._reports = _reports(brokers, before.read.brokers)
        reporter = row_of(brokers["broker"], bundles["reported_by"])
        was = np.append(row_of(brokers["broker"], past["reported_by"]), -1)[rows]
        self._is_reported = reporter >= 0
        self._stays = self._is_reported & (reporter == was)
        self._place = np.append(order, self._reports)[reporter]
        told = np.append(order < self._reports, np.False_)[was]
        # the broker that gave a bundle wrote first: no report named it, and its averages went
        lost = (was >= 0) & (reporter != was) & (told | ~self._is_reported)
        self._held = {
            name: np.where(lost, np.nan, values)
            for name, values in _rows(before.averages, rows).items()
        }

    def averages(self) -> Columns:
        """Return the averages of now: what was written, and the reports that came since."""
        at, last = self._written_after(), self._reports
        own = int(self._is_new.any())  # the leader takes one more sample when it writes
        older = self._after(self._after(self._held, 0, at, own), at, last)
        newer = self._after(self._written, at, last)
        return {name: np.where(self._is_new, newer[name], older[name]) for name in _KEPT}

    def _written_after(self) -> int:
        """Return how many of the reports had come when the leader wrote: what it wrote tells it."""
        judged = self._is_new & self._stays
        if not judged.any():
            return 0
        guesses = np.unique(np.linspace(0, self._reports, _MOST_GUESSES).round().astype(int))
        found = [self._miss(int(guess), judged) for guess in guesses]
        return int(guesses[int(np.argmin(found))])

    def _miss(self, reports: int, judged: Flags) -> float:
        """How far from what was written averages are after so many of the reports."""
        guessed = self._after(self._held, 0, reports, 1)
        miss = 0.0
        for name in _TOLD_BY:
            wanted = self._written[name][judged]
            apart = np.abs(guessed[name][judged] - wanted)
            miss += float(np.nansum(apart) / max(np.nansum(np.abs(wanted)), 1.0))
        return miss

    def _after(self, averages: Columns, first: int, end: int, more: int = 0) -> Columns:
        """Return averages after the samples that some of the reports brought.

        Args:
            averages: Before.
            first: Number of the first of the reports.
            end: Number of the first one after them.
            more: Samples of the state at the end.
        """
        place = np.clip(self._place, first, end)
        is_told = self._place < end
        old = np.where(self._stays, place - first + np.where(is_told, 0, more), 0)
        new = np.where(self._is_reported & (is_told | ~self._stays), end - place, 0)
        new += np.where(self._is_reported & is_told, more, 0)
        return self._sampled(self._sampled(averages, self._was, old), self._now, new)

    def _sampled(self, averages: Columns, rates: Columns, counts: Ints) -> Columns:
        made: dict[str, Floats] = {}
        takes = counts > 0
        for term, most in TERMS:
            name = f"{term}_samples"
            held = np.nan_to_num(averages[name]).astype(np.int64)
            for rate, last in rates.items():
                begun = self._seeds.get(rate), (held, most)
                key = f"{term}_{rate}"
                made[key], filled = sampled(averages[key], last, takes, counts, begun)
            made[name] = np.where(takes & np.isfinite(last), filled, averages[name])
        return made


def _with_averages(snapshot: PulsarSnapshot, averages: Columns) -> PulsarSnapshot:
    bundles, brokers = snapshot.bundles, snapshot.brokers
    reporter = row_of(brokers["broker"], bundles["reported_by"])
    for name, values in averages.items():
        kind = bundles.schema.field(name).type
        array = pa.array(values, pa.float64(), mask=np.isnan(values))
        bundles = set_column(bundles, name, pc.cast(array, kind))
    for name in AVERAGES:
        totals = sums(reporter, averages[name], brokers.num_rows)
        brokers = set_column(brokers, name, known_sums(brokers, name, totals))
    tables = {**snapshot.tables, "bundles": bundles, "brokers": brokers}
    return PulsarSnapshot.build(snapshot.manifest, tables)


def _columns(table: pa.Table, names: tuple[str, ...]) -> Columns:
    return {name: column_values(table, name) for name in names}


def _rows(columns: Columns, rows: Ints) -> Columns:
    """Return columns in other rows, NaN for row -1."""
    return {name: np.append(values, np.nan)[rows] for name, values in columns.items()}


def _differs(columns: Columns, others: Columns) -> Flags:
    """Whether anything known is another value now."""
    parts = [np.isfinite(values) & (values != others[name]) for name, values in columns.items()]
    return np.asarray(np.any(parts, axis=0), np.bool_)


def _reports(brokers: pa.Table, before: pa.Table) -> tuple[Ints, int]:
    """Return which of the reports since is each broker's, and how many there are.

    A broker that wrote none has the number after the last.
    """
    told = column_values(brokers, "reported_at")
    at = row_of(before["broker"], brokers["broker"])
    was = np.append(column_values(before, "reported_at"), np.nan)[at]
    rows = np.flatnonzero(np.isfinite(told) & ~(told <= was))
    order = np.full(told.size, rows.size, np.int64)
    order[rows[np.argsort(told[rows], kind="stable")]] = np.arange(rows.size)
    return order, rows.size
