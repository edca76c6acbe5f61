"""``PegasusSnapshot``: one Pegasus cluster's tables at one instant, and its directory."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

from core.errors import SnapshotError
from core.ids import SnapshotId
from core.schemas import conform, empty
from core.schemas.pegasus import ADDED_LATER, PEGASUS_TABLES, TABLES_ADDED_LATER
from core.snapshot.model import Manifest, TableManifest, known_columns
from core.snapshot.store import load_manifest, read_table
from core.units import datetime_to_ms

KIND: Final = "pegasus"


@dataclass(frozen=True)
class PegasusSnapshot:
    """Frozen tables of one Pegasus cluster at one instant.

    Use :meth:`build`; the constructor takes tables that conform already. Every table of
    :data:`core.schemas.pegasus.PEGASUS_TABLES` is present, possibly with no rows.
    """

    manifest: Manifest
    tables: Mapping[str, pa.Table] = field(repr=False)

    @classmethod
    def build(cls, manifest: Manifest, tables: Mapping[str, pa.Table]) -> PegasusSnapshot:
        """Conform ``tables``, add the missing ones empty, and complete the manifest.

        Raises:
            SchemaError: A table does not fit its declared schema.
        """
        whole = {
            name: conform(tables[name], schema, name=name) if name in tables else empty(schema)
            for name, schema in PEGASUS_TABLES.items()
        }
        entries = {
            name: replace(
                manifest.tables.get(name, TableManifest(source="none", rows=0)), rows=table.num_rows
            )
            for name, table in whole.items()
        }
        return cls(replace(manifest, kind=KIND, tables=entries), whole)

    @cached_property
    def settings(self) -> dict[str, str]:
        """Settings that the leading meta server reported, by name."""
        table = self.tables["settings"]
        names, values = table.column("name").to_pylist(), table.column("value").to_pylist()
        return dict(zip(names, values, strict=True))

    @cached_property
    def snapshot_id(self) -> SnapshotId:
        """Hash of the content: cluster, time and every table (sha256, first 16 hex digits)."""
        digest = hashlib.sha256()
        head = f"{self.manifest.format_version}|{self.manifest.cluster}|{KIND}|"
        digest.update(f"{head}{datetime_to_ms(self.manifest.taken_at)}".encode())
        for name in sorted(self.tables):
            if name in TABLES_ADDED_LATER and not self.tables[name].num_rows:
                continue
            digest.update(name.encode())
            digest.update(_content(known_columns(self.tables[name], ADDED_LATER.get(name, ()))))
        return SnapshotId(digest.hexdigest()[:16])


def load_pegasus_snapshot(directory: Path) -> PegasusSnapshot:
    """Read a snapshot directory of a Pegasus cluster.

    Raises:
        SnapshotError: It is missing, damaged, of another system, or does not have the content that
            its manifest names.
    """
    snapshot_id, manifest = load_manifest(directory)
    if manifest.kind != KIND:
        raise SnapshotError(
            f"{directory} is a snapshot of a {manifest.kind.title()} cluster, "
            "not of a Pegasus cluster.",
            hint="Use a command outside `trimtab pegasus`.",
        )
    older = TABLES_ADDED_LATER - set(manifest.tables)
    tables = {name: read_table(directory, name) for name in PEGASUS_TABLES if name not in older}
    snapshot = PegasusSnapshot.build(manifest, tables)
    if snapshot.snapshot_id != snapshot_id:
        raise SnapshotError(
            f"{directory} does not match its manifest: content {snapshot.snapshot_id}, manifest "
            f"{snapshot_id}.",
            hint="It was changed, or a newer version of Trimtab wrote it. Read it with that "
            "version, or capture again.",
        )
    return snapshot


def _content(table: pa.Table) -> bytes:
    """Return a table's logical content, whatever its chunks and offsets are."""
    sink = pa.BufferOutputStream()
    compact = table.combine_chunks().take(pa.array(np.arange(table.num_rows)))
    with pa.ipc.new_stream(sink, compact.schema) as writer:
        writer.write_table(compact.combine_chunks())
    content: bytes = sink.getvalue().to_pybytes()
    return content
