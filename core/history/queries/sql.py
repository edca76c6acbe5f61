"""SQL over the history's Parquet files: DuckDB in the process, no server, no copy.

DuckDB reads the few columns and row groups that a question needs, straight from the files that a
Delta table's log names. Where the history is at an address that only Arrow can open, the rows are
read by the store and handed over.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit

import pyarrow as pa

from core.errors import SnapshotError
from core.history.store.faults import damaged, first_damaged
from core.units import datetime_to_ms

if TYPE_CHECKING:
    import duckdb

    from core.history.store.store import HistoryStore

MINUTES: Final = "minutes"
_FREE: Final = frozenset({"events", "shadow"})
"""Kinds with rows that were appended by themselves: those have no segment, and always count."""

_ATTEMPTS: Final = 3
_OPTIONS: Final = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "memory_limit": "2GB",
}


@dataclass(frozen=True, slots=True)
class Period:
    """A stretch of time, both ends within it.

    Attributes:
        start: Aware time.
        end: Aware time, not before ``start``.
    """

    start: datetime
    end: datetime

    @property
    def span(self) -> timedelta:
        """Its length."""
        return self.end - self.start

    @property
    def first_ms(self) -> int:
        """Its start in milliseconds."""
        return datetime_to_ms(self.start)

    @property
    def last_ms(self) -> int:
        """Its end in milliseconds."""
        return datetime_to_ms(self.end)


class HistoryReader:
    """Answers SQL questions about one cluster's history.

    Args:
        cluster: Whose.
    """

    def __init__(self, store: HistoryStore, cluster: str) -> None:
        self._store = store
        self._cluster = cluster

    def ask(self, sql: str, kind: str, period: Period, **values: object) -> pa.Table | None:
        """Return the answer to a question about the rows of one kind.

        Args:
            sql: A query over the relation ``rows``: the committed rows of the kind in the period.
                Its parameters are ``$name``.
            kind: Of the history.
            period: Which rows.
            values: Parameters by name.
        Returns:
            A table; ``None`` where nothing of that kind was recorded in the period.
        Raises:
            SnapshotError: The history is damaged, or does not have what is requested.
        """
        import duckdb  # noqa: PLC0415  # commands that ask nothing start fast

        for attempt in range(_ATTEMPTS):
            try:
                return self._answer(sql, kind, period, values)
            except duckdb.IOException as exc:
                if attempt + 1 == _ATTEMPTS:  # not only files that were put together meanwhile
                    raise self._failed(kind, period, exc) from exc
            except duckdb.Error as exc:
                raise self._failed(kind, period, exc) from exc
        return None

    def _failed(self, kind: str, period: Period, cause: Exception) -> SnapshotError:
        for one in (MINUTES, kind) if is_local(self._store.location.uri) else ():
            files = self._store.files(one, self._cluster, period.start, period.end)
            bad = first_damaged(local_paths(files))
            if bad is not None:
                return damaged(self._store.tables.address(one), bad[0], is_there=bad[1])
        first_line = str(cause).strip().splitlines()[0]
        return SnapshotError(
            f"The history of {self._cluster} cannot be read ({kind}): {first_line}.",
            hint="Check the storage of the history. To read the rest, choose a range without "
            "the damaged day.",
        )

    def _answer(
        self, sql: str, kind: str, period: Period, values: dict[str, object]
    ) -> pa.Table | None:
        connection = database().cursor()
        parameters = dict(values) | {"first_ms": period.first_ms, "last_ms": period.last_ms}
        if is_local(self._store.location.uri):
            body = self._in_files(kind, period, parameters)
        else:
            body = self._handed_over(connection, kind, period)
        if not body:
            return None
        answer = connection.sql(f"WITH rows AS ({body}) {sql}", params=parameters)
        table: pa.Table = answer.to_arrow_table()
        return table

    def _in_files(self, kind: str, period: Period, parameters: dict[str, object]) -> str:
        """Return SQL of the rows in the files; ``parameters`` gets their names. Empty: no files."""
        # the minutes first: rows that are listed later hold all of theirs
        minutes = self._files(MINUTES, period, parameters)
        if kind == MINUTES:
            return _within(minutes) if minutes else ""
        rows = self._files(kind, period, parameters)
        return _committed(rows, minutes, has_free_rows=kind in _FREE) if rows else ""

    def _files(self, kind: str, period: Period, parameters: dict[str, object]) -> str:
        files = self._store.files(kind, self._cluster, period.start, period.end)
        if not files:
            return ""
        parameters[f"{kind}_files"] = local_paths(files)
        return f"read_parquet(${kind}_files, union_by_name=true, hive_partitioning=false)"

    def _handed_over(self, connection: duckdb.DuckDBPyConnection, kind: str, period: Period) -> str:
        """Return SQL of the rows as the store reads them: those of committed minutes only."""
        read = self._store.minutes if kind == MINUTES else partial(self._store.rows, kind)
        table = read(self._cluster, period.start, period.end)
        if not table.num_rows:
            return ""
        connection.register("_handed_over", table)
        return _within("_handed_over")


@lru_cache(maxsize=1)
def database() -> duckdb.DuckDBPyConnection:
    """The database of the process: without tables, it caches file footers."""
    import duckdb  # noqa: PLC0415  # commands that ask nothing start fast

    return duckdb.connect(":memory:", config=dict(_OPTIONS))


def _within(rows: str) -> str:
    return f"SELECT * FROM {rows} WHERE taken_at BETWEEN $first_ms AND $last_ms"  # noqa: S608  # names of ours, values bound


def _committed(rows: str, minutes: str, *, has_free_rows: bool) -> str:
    """Return SQL of the rows whose minute is there: what a killed writer left is not seen."""
    free = f"{_within(rows)} AND segment IS NULL"
    if not minutes:
        return free
    bound = (
        f"SELECT r.* FROM ({_within(rows)}) r SEMI JOIN "  # noqa: S608  # names of ours
        f"(SELECT DISTINCT taken_at, segment FROM ({_within(minutes)})) USING (taken_at, segment)"
    )
    return f"{bound} UNION ALL {free}" if has_free_rows else bound


def is_local(uri: str) -> bool:
    """Return whether an address is a directory of this machine."""
    return urlsplit(uri).scheme in ("", "file")


def local_paths(uris: Sequence[str]) -> list[str]:
    """Return file addresses as paths."""
    return [unquote(urlsplit(uri).path) if uri.startswith("file:") else uri for uri in uris]
