"""What the rules of Pegasus read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

import numpy as np

from core.findings.finding import Cost
from core.pegasus.columns import Floats
from core.pegasus.persistence import Gpid, splits_since, unserved_since
from core.pegasus.snapshot import PegasusFacts
from core.pegasus.summary import minimum_2pc
from core.pegasus.table_envs import Throttle
from core.pegasus.view import Flags
from core.snapshot.pegasus import PegasusSnapshot


def partitions_cost(count: int) -> Cost:
    """Return the cost of partitions that clients cannot use."""
    return Cost(bundles=count, unit="partition")


@dataclass(frozen=True, eq=False)
class PegasusContext:
    """Shared input of all rules, computed once.

    Attributes:
        facts: The snapshot.
        earlier: Snapshots before it, the newest last.
    """

    facts: PegasusFacts
    earlier: Sequence[PegasusSnapshot] = ()

    @property
    def snapshot(self) -> PegasusSnapshot:
        """The snapshot."""
        return self.facts.snapshot

    @cached_property
    def ill_count(self) -> int:
        """Partitions that the guardian does not call healthy, of those that were read."""
        return int((~self.facts.columns.is_guardian_healthy).sum())

    @cached_property
    def lacks_by_setting(self) -> Flags:
        """Partitions that want fewer replicas than a write needs, shape ``(n_partitions,)``."""
        columns = self.facts.columns
        return np.less(columns.part_wanted, columns.needed_replicas(minimum_2pc(self.facts)))

    @cached_property
    def unserved_since(self) -> Mapping[Gpid, datetime]:
        """Since when partitions have had no primary, their ballot unchanged."""
        return unserved_since(self.snapshot, self.earlier)

    @cached_property
    def splits_since(self) -> Mapping[int, datetime]:
        """Since when no child of a table's split has registered, by id."""
        return splits_since(self.snapshot, self.earlier)

    def seconds_since(self, moment: datetime) -> float:
        """Return the seconds from a moment to the snapshot."""
        return (self.snapshot.manifest.taken_at - moment).total_seconds()

    @cached_property
    def table_stats(self) -> Mapping[str, Floats]:
        """``app_stat`` sums by table, NaN if unknown."""
        return self.facts.app_stat.per_table()

    def partitions_at(self, place: int, limit: Throttle) -> int:
        """Return the number of a table's partitions at a request limit.

        Args:
            place: Of the table.
            limit: One that counts requests; of bytes nothing is measured.
        """
        name = {"reads": "read_rate", "writes": "write_rate"}.get(limit.requests)
        most = min(filter(None, (limit.delay_per_s, limit.reject_per_s)), default=None)
        if name is None or most is None or limit.unit != "requests":
            return 0
        columns = self.facts.columns
        rows = columns.rep_is_primary & (columns.rep_table == place)
        return int((columns.measures[name][rows] >= most).sum())

    def write_rate(self, app_id: int, index: int | None) -> float | None:
        """Return the writes/s of a partition's primary; ``None`` if unknown."""
        columns = self.facts.columns
        places = np.flatnonzero(columns.app_ids == app_id)
        if index is None or not places.size:
            return None
        rows = columns.rep_is_primary & (columns.rep_table == places[0])
        rates = columns.measures["write_rate"][rows & (columns.rep_index == index)]
        return float(rates[0]) if rates.size and np.isfinite(rates[0]) else None
