"""What went from broker to broker in a run, with what it carried."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from core.history.backtest.pulsar.dense import Codes, Floats, Ints
from core.history.backtest.pulsar.fleet import Bundles
from core.history.backtest.pulsar.series import LoadSeries

Kind = Literal["unload", "placed again", "split"]
KINDS: tuple[Kind, ...] = ("unload", "placed again", "split")


@dataclass(eq=False)
class Moves:
    """Moves in the order in which they happened.

    Attributes:
        series: Names of the columns below.
        names: Bundle names, where a run has more bundles than the record.
    """

    series: LoadSeries
    names: list[str] = field(default_factory=list)
    _parts: list[tuple[Ints, ...]] = field(default_factory=list, repr=False)
    _flows: list[Floats] = field(default_factory=list, repr=False)

    def add(
        self, row: int, kind: Kind, bundles: Ints, ends: tuple[Codes, Codes], load: Bundles
    ) -> None:
        """Add what moved in one minute.

        Args:
            row: Minute of the record.
            kind: Why.
            bundles: Columns.
            ends: Brokers that they left and came to; -1: none.
            load: Of that minute.
        """
        flow = load.rates[2][bundles] + load.rates[3][bundles]
        whole = np.full(bundles.size, row), np.full(bundles.size, KINDS.index(kind))
        clients = np.rint(load.clients[bundles])
        parts = (*whole, bundles, *ends, clients)
        self._parts.append(tuple(np.asarray(part, np.int64) for part in parts))
        self._flows.append(np.asarray(flow, np.float64))

    def _column(self, at: int) -> Ints:
        return np.concatenate([np.zeros(0, np.int64), *(part[at] for part in self._parts)])

    @property
    def row(self) -> Ints:
        """Minute of the record."""
        return self._column(0)

    @property
    def kind(self) -> Ints:
        """Position in :data:`KINDS`."""
        return self._column(1)

    @property
    def bundle(self) -> Ints:
        """Bundle column."""
        return self._column(2)

    @property
    def source(self) -> Ints:
        """Source broker column; -1 for none."""
        return self._column(3)

    @property
    def destination(self) -> Ints:
        """Destination broker column; -1 for none."""
        return self._column(4)

    @property
    def clients(self) -> Ints:
        """Producers and consumers."""
        return self._column(5)

    @property
    def flow(self) -> Floats:
        """Throughput in + out, bytes/s."""
        return np.concatenate([np.zeros(0), *self._flows])
