"""A snapshot: one cluster's tables at one instant, with a manifest of what they are worth."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from typing import Any, Final, Literal, TypeVar, cast

import numpy as np
import pyarrow as pa

from core.errors import IncompleteSnapshotError
from core.ids import SnapshotId
from core.schemas import ADDED_LATER, OPTIONAL_TABLES, PULSAR_TABLES, conform, empty
from core.units import datetime_to_ms, severity_label

FORMAT_VERSION: Final = 1

LoadManager = Literal["modular", "extensible", "simple", "mixed", "unknown"]
Severity = Literal["info", "warning", "error"]

T = TypeVar("T")

_MAX: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One thing that could not be read, and what was done instead.

    Attributes:
        code: Stable word: ``malformed``, ``vanished``, ``missing``, ``unreachable``, ``timeout``,
        ``auth``,
            ``server_error``, ``protocol``, ``unsupported``, ``budget``, ``inconsistent`` ...
        place: ZooKeeper path or endpoint URL without credentials.
        what: One sentence: what was wrong.
        done: One sentence: what the snapshot holds instead, or what to do.
        severity: ``error`` when numbers are missing because of it.
    """

    code: str
    place: str
    what: str
    done: str = ""
    severity: Severity = "warning"

    @property
    def sentence(self) -> str:
        """The problem for people, with its severity."""
        return f"{severity_label(self.severity)}: {self.place}: {self.what} {self.done}".rstrip()

    def as_json(self) -> dict[str, str]:
        """Return the JSON object."""
        names = ("severity", "code", "place", "what", "done")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True, slots=True, kw_only=True)
class TableManifest:
    """Source and completeness of a table.

    Attributes:
        source: ``zookeeper``, ``rest``, ``dump``, ``none`` (not available on this cluster) or two
        of them
            joined by ``+``.
        rows: Rows read.
        expected: Rows that there should be, or ``None`` if unknown.
        oldest_at: Oldest reading among the rows, ms since the epoch, or ``None``.
    """

    source: str
    rows: int
    expected: int | None = None
    oldest_at: int | None = None

    @property
    def coverage_ratio(self) -> float | None:
        """Rows read over rows expected, 0..1, or ``None`` if unknown."""
        if self.expected is None:
            return None
        return 1.0 if self.expected == 0 else min(self.rows / self.expected, 1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """Metadata of a snapshot.

    Attributes:
        cluster: Trimtab's own name for the cluster (from the configuration).
        kind: ``pulsar``.
        taken_at: When the reading ended, aware UTC.
        duration_s: How long the reading took.
        pulsar_cluster: The cluster's own name (``/admin/clusters``), ``None`` when unknown.
        load_manager: Which load manager the brokers run.
        leader: Broker id of the leader, ``None`` when there is none or it is unknown.
        release: Most common broker version, for example ``4.2.4``; ``None`` when unknown.
        target_ratio: Deviation from the mean that the cluster's configuration allows; ``None``
            where it sets none: the system's default.
        tables: One entry a table.
        problems: Everything that could not be read.
        unavailable: Sentences about what this load manager or source does not have.
        format_version: Version of the snapshot directory's form.
    """

    cluster: str
    taken_at: datetime
    tables: Mapping[str, TableManifest]
    kind: str = "pulsar"
    duration_s: float = 0.0
    pulsar_cluster: str | None = None
    load_manager: LoadManager = "unknown"
    leader: str | None = None
    release: str | None = None
    target_ratio: float | None = None
    problems: tuple[Problem, ...] = ()
    unavailable: tuple[str, ...] = ()
    format_version: int = FORMAT_VERSION


@dataclass(frozen=True)
class PulsarSnapshot:
    """Frozen tables of one Pulsar cluster at one instant.

    Use :meth:`build`; the constructor takes tables that conform already. Every table of
    :data:`core.schemas.PULSAR_TABLES` is present, possibly with no rows.
    """

    manifest: Manifest
    tables: Mapping[str, pa.Table] = field(repr=False)

    @classmethod
    def build(cls, manifest: Manifest, tables: Mapping[str, pa.Table]) -> PulsarSnapshot:
        """Conform ``tables``, add the missing ones empty, and complete the manifest's row counts.

        Raises:
            SchemaError: A table does not fit its declared schema.
        """
        whole = {
            name: conform(tables[name], schema, name=name) if name in tables else empty(schema)
            for name, schema in PULSAR_TABLES.items()
        }
        entries = {
            name: replace(
                manifest.tables.get(name, TableManifest(source="none", rows=0)), rows=table.num_rows
            )
            for name, table in whole.items()
            if table.num_rows or name not in OPTIONAL_TABLES
        }
        return cls(replace(manifest, tables=entries), whole)

    def with_tables(self, tables: Mapping[str, pa.Table]) -> PulsarSnapshot:
        """Return the snapshot with some tables replaced by others of as many rows.

        Raises:
            SchemaError: A table does not fit its declared schema.
        """
        fitting = {
            name: conform(table, PULSAR_TABLES[name], name=name) for name, table in tables.items()
        }
        return PulsarSnapshot(self.manifest, {**self.tables, **fitting})

    def with_predicted(self, tables: Mapping[str, pa.Table]) -> PulsarSnapshot:
        """Return the snapshot with predicted tables; it keeps the id of the one that was read.

        Raises:
            SchemaError: A table does not fit its declared schema.
        """
        found = self.with_tables(tables)
        vars(found)["snapshot_id"] = self.snapshot_id
        return found

    @property
    def brokers(self) -> pa.Table:
        """Table of :data:`core.schemas.pulsar.BROKERS`."""
        return self.tables["brokers"]

    @property
    def bundles(self) -> pa.Table:
        """Table of :data:`core.schemas.pulsar.BUNDLES`."""
        return self.tables["bundles"]

    @property
    def namespaces(self) -> pa.Table:
        """Table of :data:`core.schemas.pulsar.NAMESPACES`."""
        return self.tables["namespaces"]

    @property
    def settings(self) -> pa.Table:
        """Table of :data:`core.schemas.pulsar.SETTINGS`."""
        return self.tables["settings"]

    @property
    def policies(self) -> pa.Table:
        """Table of :data:`core.schemas.pulsar.POLICIES`."""
        return self.tables["policies"]

    @property
    def topics(self) -> pa.Table:
        """Table of :data:`core.schemas.pulsar.TOPICS`."""
        return self.tables["topics"]

    @property
    def broker_loads(self) -> pa.Table:
        """Table of :data:`core.schemas.pulsar.BROKER_LOADS`."""
        return self.tables["broker_loads"]

    @property
    def top_bundles(self) -> pa.Table:
        """Table of :data:`core.schemas.pulsar.TOP_BUNDLES`."""
        return self.tables["top_bundles"]

    @property
    def unit_states(self) -> pa.Table:
        """Table of :data:`core.schemas.pulsar.UNIT_STATES`."""
        return self.tables["unit_states"]

    @property
    def claims(self) -> pa.Table:
        """Table of :data:`core.schemas.pulsar.CLAIMS`."""
        return self.tables["claims"]

    @property
    def broker_metrics(self) -> pa.Table:
        """Table of :data:`core.schemas.pulsar.BROKER_METRICS`."""
        return self.tables["broker_metrics"]

    @property
    def bundle_metrics(self) -> pa.Table:
        """Table of :data:`core.schemas.pulsar.BUNDLE_METRICS`."""
        return self.tables["bundle_metrics"]

    @cached_property
    def derived(self) -> DerivedValues:
        """Values computed from this snapshot: settings, layouts, measures."""
        return DerivedValues()

    @cached_property
    def snapshot_id(self) -> SnapshotId:
        """Hash of the content: cluster, time and every table (sha256, first 16 hex digits)."""
        digest = hashlib.sha256()
        head = f"{self.manifest.format_version}|{self.manifest.cluster}|{self.manifest.kind}|"
        digest.update(f"{head}{datetime_to_ms(self.manifest.taken_at)}".encode())
        for name in sorted(self.tables):
            if name in OPTIONAL_TABLES and not self.tables[name].num_rows:
                continue
            digest.update(name.encode())
            _digest_table(digest, known_columns(self.tables[name], ADDED_LATER.get(name, ())))
        return SnapshotId(digest.hexdigest()[:16])

    def require(self, *names: str) -> None:
        """Check that the named tables have rows.

        Raises:
            IncompleteSnapshotError: One of them is empty.
        """
        for name in names:
            if self.tables[name].num_rows == 0:
                raise IncompleteSnapshotError(
                    f"The snapshot of {self.manifest.cluster!r} has no {name}.",
                    hint="See its problems for the reason.",
                    table=name,
                )


def known_columns(table: pa.Table, added_later: Sequence[str]) -> pa.Table:
    """Leave out what came later and is unknown throughout: older snapshots do not have it."""
    unknown = [name for name in added_later if table.column(name).null_count == table.num_rows]
    return table.drop_columns(unknown)


def _digest_table(digest: hashlib._Hash, table: pa.Table) -> None:
    """Feed the table's logical content, whatever its chunks, offsets and validity padding are."""
    sink = pa.BufferOutputStream()
    # take() rebuilds every buffer from offset 0; IPC of one compact batch is then canonical
    compact = table.combine_chunks().take(pa.array(np.arange(table.num_rows)))
    with pa.ipc.new_stream(sink, compact.schema) as writer:
        writer.write_table(compact.combine_chunks())
    digest.update(sink.getvalue())


class DerivedValues:
    """The last few values by key; the longest unused one goes first.

    Two threads that call at once may both compute: the values are equal, one of them stays.
    """

    def __init__(self) -> None:
        self._values: dict[Hashable, Any] = {}

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return the value of ``key``, made now if it is not cached."""
        try:
            value = self._values.pop(key)
        except KeyError:
            value = make()
        self._values[key] = value
        for oldest in list(self._values)[:-_MAX]:
            self._values.pop(oldest, None)
        return cast("T", value)
