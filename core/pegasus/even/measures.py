"""What the replicas of a snapshot weigh, by the measures that a person may choose."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, get_args

import numpy as np

from core.errors import UnknownNameError
from core.pegasus.even.request import EvenMeasure
from core.pegasus.even.weights import (
    Floats,
    Weights,
    disk_weights,
    primary_weights,
    rate_weights,
    replica_weights,
)
from core.pegasus.snapshot import PegasusFacts
from core.pegasus.view import ClusterView

MEASURES: Final[tuple[EvenMeasure, ...]] = get_args(EvenMeasure)


@dataclass(frozen=True, eq=False)
class WeightedSnapshot:
    """A snapshot with what its partitions weigh.

    Attributes:
        facts: The snapshot.
        view: Its state.
    """

    facts: PegasusFacts
    view: ClusterView

    @classmethod
    def of(cls, facts: PegasusFacts) -> WeightedSnapshot:
        """Read a snapshot.

        Raises:
            IncompleteSnapshotError: Partitions of some table were not read, or there are no nodes.
        """
        return cls(facts, facts.view())

    def weights(self, measure: str) -> Weights:
        """Return the weight of every replica by one of :data:`MEASURES`.

        Raises:
            UnknownNameError: It is none of them.
        """
        match measure:
            case "primaries":
                found = primary_weights(self.view)
            case "count":
                found = replica_weights(self.view)
            case "disk":
                found = disk_weights(self.view, self.sizes_mb())
            case "qps":
                rates = self.led("read_rate") + self.led("write_rate")
                found = rate_weights(self.view, "requests", "requests/s", rates)
            case "cu":
                units = self.led("read_units") + self.led("write_units")
                found = rate_weights(self.view, "capacity units", "units/s", units)
            case _:
                raise UnknownNameError.of("measure", measure, MEASURES)
        return found

    def sizes_mb(self) -> Floats:
        """Return megabytes of one replica, shape ``(n_partitions,)``; NaN: unknown."""
        return self.led("size_mb")

    def room_mb(self) -> Floats | None:
        """Return the free space of every node, shape ``(n_nodes,)``, or ``None`` if incomplete."""
        free = dict.fromkeys(self.view.nodes, float("nan"))
        for row in self.facts.rows("disks"):
            if row["node"] in free:
                before = free[row["node"]]
                free[row["node"]] = row["available_mb"] + (0.0 if np.isnan(before) else before)
        room = np.array(list(free.values()), dtype=np.float64)
        return None if np.isnan(room).any() else room

    def led(self, name: str) -> Floats:
        """Return a measure as every partition's primary reports it; NaN: unknown."""
        columns = self.facts.columns
        found: Floats = np.full(self.view.partition_count, np.nan)
        led = columns.rep_is_primary
        rows = self.view.first_rows[columns.rep_table[led]] + columns.rep_index[led]
        found[rows] = columns.measures[name][led]
        return found
