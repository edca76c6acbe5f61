"""Can a history be written and read at all? Tried where it is; nothing of the trial is left."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from core.history.store.layout import HistoryError
from core.history.store.tables import Tables, translated

if TYPE_CHECKING:
    from core.history.store.store import HistoryLocation

_TRIAL: Final = ".trial"


def probe(location: HistoryLocation) -> None:
    """Write something small where the history is, and read the log of each of its tables.

    In a directory it is removed again; at another address one small table of one row stays, and is
    used again by the next trial.

    Raises:
        HistoryError: It cannot be written, or the log of a table cannot be read.
    """
    if "://" in location.uri and not location.uri.startswith("file://"):
        _probe_address(location)
    else:
        _probe_folder(Path(location.uri.removeprefix("file://")))
    tables = Tables(location.uri, location.options, location.kinds)
    for kind in tables.kinds.names:
        tables.table(kind)


def _probe_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"trial")
            file.flush()
    except OSError as exc:
        raise HistoryError(
            f"{folder} cannot be written: {exc.strerror or exc}.",
            hint="Check its owner, mode and free space, or set another [history] uri.",
        ) from exc


def _probe_address(location: HistoryLocation) -> None:
    address = f"{location.uri.rstrip('/')}/{_TRIAL}"
    options = dict(location.options)
    with translated(address):
        write_deltalake(
            address, pa.table({"trial": [1]}), mode="overwrite", storage_options=options
        )
        DeltaTable(address, storage_options=options).vacuum(
            retention_hours=0, enforce_retention_duration=False, dry_run=False
        )
