"""Writes the simulated past of a sandbox into the history: the last hours first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import pyarrow as pa

from connectors.access.key import installation_key
from connectors.config.model import TrimtabConfig
from connectors.recording.attribution import attributed
from connectors.recording.loop import open_history
from connectors.sandbox.past.columns import STEP_MS
from connectors.sandbox.past.pegasus import PegasusPast
from connectors.sandbox.past.pulsar import PulsarPast
from connectors.sandbox.past.runs import PastRuns
from connectors.sandbox.pegasus.options import PegasusOptions
from connectors.sandbox.pulsar.options import SandboxOptions
from connectors.systems import open_journal
from core.history.store.batch import BatchRecorder
from core.snapshot import PulsarSnapshot
from core.snapshot.pegasus import PegasusSnapshot
from core.snapshot.store import Storable
from core.units import datetime_to_ms, ms_to_datetime

PAST_MS: Final = 24 * 3_600_000
RECENT_MS: Final = 6 * 3_600_000
"""Written first: what the charts of the first pages show."""
_MAX_ROWS: Final = 600_000
"""Bundle loads in a whole past: a larger fleet gets a shorter one."""


def parts_of(end_ms: int, rows: int) -> list[list[int]]:
    """Return the moments of a past in the parts in which it is written, the last hours first.

    Args:
        end_ms: The first real minute.
        rows: Rows that a minute writes.
    """
    count = min(PAST_MS // STEP_MS, _MAX_ROWS // max(rows, 1))
    recent = min(count, RECENT_MS // STEP_MS)
    moments = [end_ms - STEP_MS * back for back in range(count, 0, -1)]
    return [part for part in (moments[count - recent :], moments[: count - recent]) if part]


def write_past(
    config: TrimtabConfig, first: Storable, *, brokers: int, bundles: int, seed: int, day_s: float
) -> Iterator[int]:
    """Write the time before a cluster's first snapshot, part by part.

    Args:
        config: Where history and journal are.
        first: The first real snapshot of the cluster.
        brokers: Of the Pulsar sandbox.
        bundles: The same.
        seed: Of both sandboxes.
        day_s: Length of the Pulsar workload's day, s.

    Yields:
        How many minutes were written with each part.
    Raises:
        HistoryError: It cannot be written.
    """
    end_ms = datetime_to_ms(first.manifest.taken_at)
    cluster = first.manifest.cluster
    rows = max(table.num_rows for table in first.tables.values())
    parts = parts_of(end_ms, rows)
    store = open_history(config)
    begin = ms_to_datetime(parts[-1][0]) if parts else first.manifest.taken_at
    if store.minutes(cluster, begin, ms_to_datetime(end_ms - STEP_MS)).num_rows:
        return  # an earlier demo of the same state directory was recorded then
    if isinstance(first, PegasusSnapshot):
        pegasus = PegasusPast(first, PegasusOptions(seed=seed, cluster=cluster, is_living=True))
        recorder = BatchRecorder(store, cluster, _by_cluster)
        for part in parts:
            yield _record(recorder, pegasus.snapshots(part))
    elif isinstance(first, PulsarSnapshot):
        options = SandboxOptions(brokers=brokers, bundles=bundles, seed=seed, day_s=day_s)
        past = PulsarPast(first, options)
        for part in parts:
            journal = open_journal(config)
            key = installation_key(config.access)
            try:
                entered = past.runs if part is parts[0] else ()
                runs = PastRuns(journal, cluster, entered, part[0], key)
                recorder = BatchRecorder(store, cluster, runs.complete)
                yield _record(recorder, runs.follow(past.snapshots(part), first))
            finally:
                journal.close()


def _record(recorder: BatchRecorder, snapshots: Iterable[Storable]) -> int:
    for snapshot in snapshots:
        recorder.record(snapshot)
    return recorder.commit()


def _by_cluster(events: pa.Table) -> pa.Table:
    return pa.Table.from_pylist(attributed(events.to_pylist(), (), 0, 0), schema=events.schema)
