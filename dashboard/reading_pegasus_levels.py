"""The level of a Pegasus cluster over time: which was stored, and who led, in kept snapshots."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from core.pegasus.snapshot import STORED_LEVEL
from core.snapshot.store import Shelved
from dashboard.memo import Memo
from dashboard.presenters.pegasus_cluster_past import Moment

_LEADER: Final = "primary_meta_server"
_MAX_MOMENTS: Final = 1_000


def _read(shelved: Shelved) -> Moment | None:
    """Two settings of one kept snapshot; ``None`` when it was dropped meanwhile, or is damaged."""
    try:
        table = pq.read_table(shelved.path / "settings.parquet", columns=["name", "value"])
    except (OSError, pa.ArrowException):
        return None
    told = dict(zip(table["name"].to_pylist(), table["value"].to_pylist(), strict=True))
    return Moment(shelved.taken_at, told.get(_LEADER), told.get(STORED_LEVEL))


_moments = Memo(_read, max_entries=_MAX_MOMENTS)


def moments(entries: Sequence[Shelved]) -> list[Moment]:
    """Return who led and what was stored, oldest first.

    Cost:
        A file of some kilobytes a snapshot the first time.
    """
    return [moment for entry in entries if (moment := _moments(entry)) is not None]
