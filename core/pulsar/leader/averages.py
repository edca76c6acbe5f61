"""The time averages of every bundle, as the leader and as a follower holds them.

Every run of ``updateAll`` adds a sample to every bundle, whichever broker's report caused it. A
bundle is not touched for that: the samples are counted once for all, and an average is brought up
to date in closed form when the statistics of its bundle change or when it is read.

Source:
    Pulsar ``ModularLoadManagerImpl#updateBundleData``, ``#getBundleDataOrDefaultAsync``,
    ``TimeAverageMessageData#update``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from core.pulsar.load import LONG_SAMPLES, SHORT_SAMPLES, part_left

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

FOLLOWER: Final = 0
LEADER: Final = 1
SHORT: Final = 0
LONG: Final = 1
UNKNOWN: Final = 4
"""Row of the part of an average that comes from before watching began, 0..1: nothing adds to it."""

_CAPS: Final = np.array([[SHORT_SAMPLES], [LONG_SAMPLES]], np.int64)
_FIRST_ROOM: Final = 256
_CHUNK: Final = 8192
_BOTH: Final = (FOLLOWER, LEADER)
_BY_ROW: Final = (
    *("values", "samples", "stats", "topics", "named", "reporter", "is_held", "written"),
    "written_samples",
)
_NONE_BELOW_ZERO: Final = ("reporter", "written_samples")


class BundleAverages:
    """Averages, statistics and reporters of bundles, by row; rows are given in order of arrival.

    Attributes:
        names: Bundles by row.
        counts: Runs so far of each side, ``(2,)``: the leader has more than a follower, one for
            each write of its averages.
        values: ``(side, term, 5, room)``: four rates and :data:`UNKNOWN`.
        samples: ``(side, term, room)``.
        stats: Last statistics, ``(4, room)``; of a bundle in several reports those that came last.
        topics: Topics, ``(room,)``.
        named: How many reports name the bundle, ``(room,)``.
        reporter: Code of the broker whose report named it last; -1: none.
        is_held: Whether the load manager has averages of it, ``(room,)``.
        written: Averages in the ``bundle-data`` znode, ``(term, 4, room)``.
        written_samples: ``(term, room)``; -1: there is no znode.
    """

    def __init__(self) -> None:
        self.names: list[str] = []
        self.index: dict[str, int] = {}
        self.counts = np.zeros(2, np.int64)
        room = _FIRST_ROOM
        self.values = np.zeros((2, 2, 5, room))
        self.samples = np.zeros((2, 2, room), np.int16)
        self.stats = np.zeros((4, room))
        self.topics = np.zeros(room, np.int32)
        self.named = np.zeros(room, np.int16)
        self.reporter = np.full(room, -1, np.int32)
        self.is_held = np.zeros(room, np.bool_)
        self.written = np.zeros((2, 4, room))
        self.written_samples = np.full((2, room), -1, np.int16)
        self.quotas: dict[int, tuple[float, ...]] = {}
        self._current_to = np.zeros((2, room), np.int64)
        self._several: dict[int, list[int]] = {}
        self._reports: dict[int, tuple[Ints, Floats, Ints]] = {}
        self._stack: tuple[Ints, list[tuple[Ints, Floats]]] | None = None

    @property
    def size(self) -> int:
        """Bundles that have a row."""
        return len(self.names)

    @property
    def several(self) -> Mapping[int, Sequence[int]]:
        """``{row: broker codes}`` of bundles that several reports name, in the order of a run."""
        return self._several

    def row(self, name: str) -> int:
        """Return the row of a bundle, a new one if needed."""
        row = self.index.get(name)
        if row is None:
            row = self.index[name] = len(self.names)
            self.names.append(name)
            if row >= self.named.size:
                self._grow()
        return row

    def rows(self, names: Iterable[str]) -> Ints:
        """Return the rows of bundles, new ones where needed."""
        return np.array([self.row(name) for name in names], np.int64)

    def _grow(self) -> None:
        for name in (*_BY_ROW, "_current_to"):
            old = getattr(self, name)
            # nothing is written where no bundle is: the system gives memory to the rest only
            room = np.zeros((*old.shape[:-1], 2 * old.shape[-1]), old.dtype)
            room[..., : old.shape[-1]] = old
            if name in _NONE_BELOW_ZERO:
                room[..., old.shape[-1] :] = -1
            setattr(self, name, room)

    # samples

    def catch_up(self, rows: Ints) -> None:
        """Bring averages up to date: the statistics of these bundles are about to change."""
        for start in range(0, rows.size, _CHUNK):
            self._catch_up(rows[start : start + _CHUNK])

    def _catch_up(self, rows: Ints) -> None:
        missing = self.counts[:, None] - self._current_to[:, rows]
        if not missing.any():
            return
        held = self.samples[:, :, rows].astype(np.int64)
        left = part_left(held, missing[:, None, :], _CAPS)[:, :, None, :]
        last = np.zeros((5, rows.size))
        last[:4] = self.stats[:, rows]
        values = self.values[:, :, :, rows]
        values -= last
        values *= left
        values += last
        self.values[:, :, :, rows] = values
        self.samples[:, :, rows] = np.minimum(held + missing[:, None, :], _CAPS)
        self._current_to[:, rows] = self.counts[:, None]

    def catch_up_all(self) -> None:
        """Bring every average up to date."""
        self.catch_up(np.flatnonzero(self.is_held[: self.size]))

    def run(self, times: int = 1, sides: Sequence[int] = _BOTH) -> None:
        """Add samples of what is reported now to every bundle.

        Args:
            times: Runs of ``updateAll``.
            sides: Who takes them.
        """
        for _ in range(times if self._several else 0):
            self._run_several(sides)
        self.counts[list(sides)] += times
        if self._several:
            rows = self._stacked()[0]
            self._current_to[:, rows] = self.counts[:, None]

    def _run_several(self, sides: Sequence[int]) -> None:
        """Add a sample from each report that names a bundle, in the order of the brokers' map."""
        for rows, stats in self._stacked()[1]:
            last = np.zeros((5, rows.size))
            last[:4] = stats
            for side in sides:
                samples = np.minimum(self.samples[side][:, rows].astype(np.int64) + 1, _CAPS)
                before = self.values[side][:, :, rows]
                counted = samples[:, None, :]
                self.values[side][:, :, rows] = ((counted - 1) * before + last) / counted
                self.samples[side][:, rows] = samples

    def _stacked(self) -> tuple[Ints, list[tuple[Ints, Floats]]]:
        """Rows of :attr:`several`, and for each turn the rows with their statistics."""
        if self._stack is None:
            turns: list[tuple[list[int], list[Floats]]] = []
            for row, codes in self._several.items():
                for turn, code in enumerate(codes):
                    if turn == len(turns):
                        turns.append(([], []))
                    turns[turn][0].append(row)
                    turns[turn][1].append(self._reported(code, row))
            self._stack = (
                np.array(list(self._several), np.int64),
                [(np.array(rows, np.int64), np.stack(stats, 1)) for rows, stats in turns],
            )
        return self._stack

    def _reported(self, code: int, row: int) -> Floats:
        """Return the statistics of a bundle in one broker's report, ``(4,)``."""
        rows, stats, _ = self._reports[code]
        return np.asarray(stats[:, int(np.flatnonzero(rows == row)[0])])

    # reports

    def rows_reported_by(self, code: int) -> Ints:
        """Return the rows that a broker's report names."""
        return self._reports[code][0] if code in self._reports else np.zeros(0, np.int64)

    def report(
        self,
        code: int,
        reported: tuple[Ints, Floats, Ints] | None,
        *,
        runs: int,
        order: Mapping[int, int],
    ) -> None:
        """Replace the report of a broker, then run.

        Args:
            code: Of the broker.
            reported: Rows, statistics ``(4, n)`` and topics; ``None`` if the broker is gone.
            runs: Of ``updateAll`` that this causes.
            order: ``{code: position}`` of brokers in the order in which a run goes over them.
        """
        old = self.rows_reported_by(code)
        new = reported[0] if reported is not None else np.zeros(0, np.int64)
        touched = old if np.array_equal(old, new) else np.union1d(old, new)
        self._catch_up_rows(touched)
        is_same = touched is old
        if reported is None:
            self._reports.pop(code, None)
        else:
            self._reports[code] = reported
            self.stats[:, new] = reported[1]
            self.topics[new] = reported[2]
            self.reporter[new] = code
        if not is_same:
            self.named[old] -= 1
            self.named[new] += 1
        if not is_same or self._several:
            self._note_several(touched, order)
        if not is_same:
            fresh = new[~self.is_held[new]]
            self._begin(fresh)
        self.run(runs)
        gone = touched[self.named[touched] == 0] if not is_same else touched[:0]
        self.is_held[gone] = False
        self.reporter[gone] = -1

    def _catch_up_rows(self, rows: Ints) -> None:
        self.catch_up(rows[self.is_held[rows]])

    def _note_several(self, touched: Ints, order: Mapping[int, int]) -> None:
        """Keep account of the bundles that several reports name."""
        several = touched[self.named[touched] > 1].tolist()
        ended = [row for row in touched.tolist() if row in self._several and self.named[row] < 2]
        if not several and not ended:
            return
        self._stack = None
        for row in ended:
            del self._several[row]
            if self.named[row]:
                code = next(at for at, report in self._reports.items() if (report[0] == row).any())
                self.stats[:, row] = self._reported(code, row)
                self.reporter[row] = code
        for row in several:
            codes = [at for at, report in self._reports.items() if (report[0] == row).any()]
            self._several[row] = sorted(codes, key=lambda at: order.get(at, at))

    def _begin(self, rows: Ints) -> None:
        """Begin averages: with what is written, else with the quota, else with the first sample."""
        if not rows.size:
            return
        self.is_held[rows] = True
        self._current_to[:, rows] = self.counts[:, None]
        self.values[:, :, :, rows] = 0.0
        stored = self.written_samples[:, rows]
        has_stored = stored[SHORT] >= 0
        self.values[:, :, :4, rows] = np.where(has_stored, self.written[:, :, rows], 0.0)
        self.samples[:, :, rows] = np.where(has_stored, np.minimum(stored, _CAPS), 0)
        for row in rows[~has_stored].tolist() if self.quotas else ():
            quota = self.quotas.get(row)
            if quota is not None:
                self.values[:, :, :4, row] = quota
                self.samples[:, :, row] = _CAPS[:, 0]

    def begin_unknown(self) -> None:
        """Take what is known when watching begins for the averages, and mark it as unknown.

        Where no averages are written the last statistics are used as full averages.
        """
        rows = np.flatnonzero(self.is_held[: self.size])
        none = rows[self.samples[LEADER, SHORT, rows] == 0]
        self.values[:, :, :4, none] = self.stats[:, none]
        self.samples[:, :, none] = _CAPS
        self.values[:, :, UNKNOWN, rows] = 1.0
        self._current_to[:, rows] = self.counts[:, None]

    def doubt(self, rows: Ints, part: float) -> None:
        """Note that part of the averages of some bundles is not known."""
        known = self.values[:, :, UNKNOWN, rows]
        self.values[:, :, UNKNOWN, rows] = np.maximum(known, part)

    def new_leader(self) -> None:
        """Change the leader: the new one uses its averages as a follower."""
        used = slice(self.size)
        self.values[LEADER, ..., used] = self.values[FOLLOWER, ..., used]
        self.samples[LEADER, :, used] = self.samples[FOLLOWER, :, used]
        self._current_to[LEADER, used] = self._current_to[FOLLOWER, used]
        self.counts[LEADER] = self.counts[FOLLOWER]

    # what is written

    def store(self, row: int, samples: tuple[int, int], rates: Sequence[Sequence[float]]) -> None:
        """Note the averages in a ``bundle-data`` znode."""
        self.written_samples[:, row] = np.clip(samples, 0, LONG_SAMPLES)
        self.written[:, :, row] = rates

    def unstore(self, row: int) -> None:
        """Note that a ``bundle-data`` znode is gone."""
        self.written_samples[:, row] = -1

    # a copy for a restart

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """Return everything but names and quotas as arrays."""
        size = self.size
        whole = {name: getattr(self, name)[..., :size] for name in (*_BY_ROW, "_current_to")}
        codes = sorted(self._reports)
        held = [self._reports[code] for code in codes]
        none = np.zeros(0, np.int64), np.zeros((4, 0)), np.zeros(0, np.int64)
        return whole | {
            "counts": self.counts,
            "report_codes": np.array(codes, np.int64),
            "report_sizes": np.array([rows.size for rows, _, _ in held], np.int64),
            "report_rows": np.concatenate([rows for rows, _, _ in [*held, none]]),
            "report_stats": np.concatenate([stats for _, stats, _ in [*held, none]], axis=1),
            "report_topics": np.concatenate([topics for _, _, topics in [*held, none]]),
        }

    @classmethod
    def of_arrays(
        cls, names: Sequence[str], arrays: Mapping[str, NDArray[Any]], order: Mapping[int, int]
    ) -> BundleAverages:
        """Return the averages from :meth:`arrays`.

        Args:
            names: Bundles by row.
            arrays: Of :meth:`arrays`.
            order: ``{code: position}`` of brokers in the order in which a run goes over them.
        """
        made = cls()
        for name in names:
            made.row(name)
        for name in (*_BY_ROW, "_current_to"):
            getattr(made, name)[..., : len(names)] = arrays[name]
        made.counts = arrays["counts"].copy()
        ends = np.cumsum(arrays["report_sizes"])
        for code, size, end in zip(
            arrays["report_codes"].tolist(),
            arrays["report_sizes"].tolist(),
            ends.tolist(),
            strict=True,
        ):
            part = slice(end - size, end)
            made._reports[code] = (
                arrays["report_rows"][part],
                arrays["report_stats"][:, part],
                arrays["report_topics"][part],
            )
        made._note_several(np.flatnonzero(made.named[: len(names)] > 1), order)
        return made
