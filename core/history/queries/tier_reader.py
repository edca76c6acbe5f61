"""SQL over hours and days: DuckDB reads the files of a tier, as :mod:`.sql` reads the minutes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa

from core.history.queries.sql import database, is_local, local_paths
from core.history.store.layout import HistoryError
from core.history.store.reading import TimeRange
from core.history.tiers.local import tier_columns
from core.history.tiers.partitions import condition, tier_files
from core.history.tiers.registry import tier_tables
from core.snapshot.record import Kind

if TYPE_CHECKING:
    from core.history.store.store import HistoryStore

_ATTEMPTS: Final = 3


class TierReader:
    """Answers SQL questions about one cluster's hours and days.

    Args:
        store: The history.
        cluster: Name of the cluster.
    """

    def __init__(self, store: HistoryStore, cluster: str) -> None:
        self._tiers = tier_tables(store)
        self._cluster = cluster

    def ask(self, sql: str, kind: Kind, span: TimeRange, /, **values: object) -> pa.Table | None:
        """Return the answer to a question about a tier.

        Args:
            sql: A query over the relation ``rows``, the rows of the cluster in the time range; its
                parameters are ``$name``.
            kind: The tier.
            span: Of the starts of the periods.
            values: Parameters by name.
        Returns:
            A table; ``None`` if the tier has no file of that time.
        Raises:
            HistoryError: The tier cannot be read.
        """
        import duckdb  # noqa: PLC0415  # commands that ask nothing start fast

        for attempt in range(_ATTEMPTS):
            try:
                # to unite the columns of files takes half as long again: only where they differ
                return self._answer(sql, kind, span, values, is_united=attempt > 0)
            except duckdb.Error as exc:
                # files that were put together meanwhile are listed again
                if attempt + 1 < _ATTEMPTS:
                    continue
                raise HistoryError(
                    f"The {kind.name} of {self._cluster} cannot be read: "
                    f"{str(exc).strip().splitlines()[0]}",
                    hint="`trimtab pipeline backfill` makes them again from minutes.",
                ) from exc
        return None

    def _answer(
        self, sql: str, kind: Kind, span: TimeRange, values: dict[str, object], *, is_united: bool
    ) -> pa.Table | None:
        connection = database().cursor()
        parameters = dict(values)
        if is_local(self._tiers.uri):
            found = tier_files(self._tiers, kind, self._cluster, span)
            if not found:
                return None
            parameters["tier_files"] = local_paths(found)
            rows = f"read_parquet($tier_files, union_by_name={is_united}, hive_partitioning=false)"
            if is_united:  # all files may be older than a column
                connection.register("_tier_columns", tier_columns(kind).empty_table())
                rows = f"(SELECT * FROM {rows} UNION ALL BY NAME SELECT * FROM _tier_columns)"  # noqa: S608  # names of ours
        else:
            table = self._tiers.scan(
                kind, tier_columns(kind).names, condition(kind, self._cluster, span)
            )
            if not table.num_rows:
                return None
            connection.register("_tier_rows", table)
            rows = "_tier_rows"
        bounds = [
            f"taken_at {sign} {value}"
            for sign, value in ((">=", span.start), ("<=", span.end))
            if value is not None
        ]
        body = f"SELECT * FROM {rows} WHERE {' AND '.join(bounds) or 'true'}"  # noqa: S608  # numbers of ours
        answer = connection.sql(f"WITH rows AS NOT MATERIALIZED ({body}) {sql}", params=parameters)
        result: pa.Table = answer.to_arrow_table()
        return result
