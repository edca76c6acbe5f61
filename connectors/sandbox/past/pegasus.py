"""The simulated past of the Pegasus sandbox: its tables' own rhythm, backwards from the start.

A story gives the roles: eleven hours before the start one node was away for some minutes; its
partitions went on with another primary, and an hour later the level was ``lively`` until the
primaries were back.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from connectors.sandbox.past.columns import (
    STEP_MS,
    Floats,
    Rows,
    named,
    of_moment,
    scaled,
    with_columns,
)
from connectors.sandbox.pegasus.cluster import rhythms
from connectors.sandbox.pegasus.options import PegasusOptions
from core.history.store.layout import DAY_MS, HOUR_MS
from core.pegasus.levels import FunctionLevel
from core.snapshot.pegasus import PegasusSnapshot
from core.units import ms_to_datetime

_OUTAGE_HOUR: Final = -11.0
_OUTAGE_STEPS: Final = 3
_LIVELY_HOUR: Final = -10.0
_LIVELY_STEPS: Final = 4
_WINDOW_S: Final = 10.0
_GROWTH: Final = 0.03
"""What the tables grow in a day."""

_LOADS: Final = ("read_rate", "write_rate", "read_units", "write_units")
_LATENCIES: Final = ("get", "multi_get", "batch_get", "put", "multi_put")
_LEVELS: Final = ("level.effective", "meta_function_level")
_KEPT: Final = ("node", "address", "is_alive", "is_answering")


class PegasusPast:
    """Makes snapshots of the time before the first real one.

    Args:
        first: The first real snapshot.
        options: Seed of the sandbox.
    """

    def __init__(self, first: PegasusSnapshot, options: PegasusOptions) -> None:
        self._first = first
        self._end_ms = round(first.manifest.taken_at.timestamp() * 1000)
        tables = first.tables["tables"]["app_id"].to_numpy()
        self._rhythms = dict(
            zip(np.sort(tables).tolist(), rhythms(len(tables), options.seed), strict=True)
        )
        self._nodes = first.tables["nodes"]["node"].combine_chunks()
        partitions = first.tables["partitions"]
        self._app = partitions["app_id"].to_numpy()
        self._primary = self._places(partitions["primary"])
        seconds = partitions["secondaries"].to_pylist()
        width = max(map(len, seconds), default=0)
        known = {name: at for at, name in enumerate(self._nodes.to_pylist())}
        self._secondaries = np.array(
            [[known.get(name, -1) for name in one] + [-1] * (width - len(one)) for one in seconds]
        ).reshape(-1, width)
        rng = np.random.default_rng([options.seed, 4])
        self._away = int(rng.integers(len(self._nodes)))
        self._turn = rng.integers(_LIVELY_STEPS, size=len(self._app))
        """In which step of the level ``lively`` each primary is back."""
        self._node_load = self._load_of_nodes(self._primary, np.ones(len(self._app)))

    def _places(self, names: Any) -> Rows:
        found = pc.fill_null(pc.index_in(names, value_set=self._nodes), -1)
        places: Rows = found.to_numpy().astype(np.int64)
        return places

    def _step(self, hours: float, moment_ms: int) -> int:
        """Return the number of steps after an hour of the story."""
        return (moment_ms - self._end_ms - round(hours * HOUR_MS)) // STEP_MS

    # -- snapshots ------------------------------------------------------------------------------

    def snapshots(self, moments_ms: Sequence[int]) -> Iterator[PegasusSnapshot]:
        """Return the snapshot of each moment, oldest first.

        Args:
            moments_ms: Ascending, of the time before the first snapshot.
        """
        return (self._snapshot(moment_ms) for moment_ms in moments_ms)

    def _snapshot(self, moment_ms: int) -> PegasusSnapshot:
        first = self._first
        table_share = self._table_share((moment_ms - self._end_ms) / 1000)
        is_away = 0 <= self._step(_OUTAGE_HOUR, moment_ms) < _OUTAGE_STEPS
        primary, secondaries = self._roles(moment_ms, is_away=is_away)
        share = _of_rows(table_share, self._app)
        size = 1 - _GROWTH * (self._end_ms - moment_ms) / DAY_MS
        tables = dict(first.tables)
        tables["partitions"] = with_columns(
            first.tables["partitions"],
            {
                "primary": named(self._nodes, primary),
                "secondaries": self._lists(secondaries),
            },
        )
        tables["replicas"] = self._replicas(primary, share, size, is_away=is_away)
        operations = first.tables["operations"]
        factor = _of_rows(table_share, operations["app_id"].to_numpy())
        rates = [name for name in operations.schema.names if name.endswith("_rate")]
        tables["operations"] = scaled(operations, dict.fromkeys(rates, factor))
        tables["nodes"] = self._node_table(moment_ms, primary, secondaries, share, is_away=is_away)
        disks = first.tables["disks"]
        used = disks["capacity_mb"].to_numpy() - disks["available_mb"].to_numpy()
        free = disks["capacity_mb"].to_numpy() - np.round(used * size).astype(np.int64)
        tables["disks"] = self._present(
            with_columns(disks, {"available_mb": free}), is_away=is_away
        )
        tables["settings"] = self._settings(moment_ms)
        return PegasusSnapshot.build(of_moment(first.manifest, moment_ms, tables), tables)

    def _table_share(self, seconds: float) -> dict[int, float]:
        """Return each table's traffic over what it has at the first snapshot."""
        return {
            app_id: (rhythm.until(seconds) - rhythm.until(seconds - _WINDOW_S))
            / max(rhythm.until(0.0) - rhythm.until(-_WINDOW_S), 1e-6)
            for app_id, rhythm in self._rhythms.items()
        }

    def _roles(self, moment_ms: int, *, is_away: bool) -> tuple[Rows, Rows]:
        """Return primary and secondaries of each partition at a moment; -1 for none."""
        primary, secondaries = self._primary.copy(), self._secondaries.copy()
        has_failed = self._step(_OUTAGE_HOUR, moment_ms) >= 0
        is_back = self._step(_LIVELY_HOUR, moment_ms) > self._turn
        led = np.flatnonzero((primary == self._away) & has_failed & ~is_back)
        primary[led], secondaries[led, 0] = secondaries[led, 0], self._away
        if is_away:
            secondaries[secondaries == self._away] = -1
        return primary, secondaries

    def _lists(self, rows: Rows) -> pa.Array:
        """Return the names in each row as a list."""
        is_one = rows >= 0
        offsets = np.concatenate([[0], np.cumsum(is_one.sum(axis=1))]).astype(np.int32)
        return pa.ListArray.from_arrays(pa.array(offsets), self._nodes.take(pa.array(rows[is_one])))

    def _replicas(self, primary: Rows, share: Floats, size: float, *, is_away: bool) -> pa.Table:
        """Return the replicas; who leads serves the partition's traffic."""
        replicas = self._first.tables["replicas"]
        count = int(self._first.tables["partitions"]["index"].to_numpy().max()) + 1
        keys = self._app * count + self._first.tables["partitions"]["index"].to_numpy()
        mine = replicas["app_id"].to_numpy() * count + replicas["index"].to_numpy()
        order = np.argsort(keys)
        partition = order[np.searchsorted(keys, mine, sorter=order)]
        leads = self._places(replicas["node"]) == primary[partition]
        values: dict[str, Any] = {"is_primary": leads}
        for name in _LOADS:
            known = np.nan_to_num(replicas[name].to_numpy())
            whole = np.bincount(partition, known, minlength=len(keys)) * share
            values[name] = np.where(leads, whole[partition], 0.0)
        values["size_mb"] = replicas["size_mb"].to_numpy() * size
        return self._present(with_columns(replicas, values), is_away=is_away)

    def _present(self, table: pa.Table, *, is_away: bool) -> pa.Table:
        """Return a table without the rows of a node that is away."""
        if not is_away:
            return table
        return table.filter(pc.not_equal(table["node"], self._nodes[self._away]))

    def _load_of_nodes(self, primary: Rows, share: Floats) -> Floats:
        replicas = self._first.tables["replicas"].group_by(["app_id", "index"])
        sums = replicas.aggregate([("read_rate", "sum"), ("write_rate", "sum")])
        sums = sums.sort_by([("app_id", "ascending"), ("index", "ascending")])
        load = np.nan_to_num(sums["read_rate_sum"].to_numpy() + sums["write_rate_sum"].to_numpy())
        led = primary >= 0
        sums_by_node: Floats = np.bincount(
            primary[led], (load * share)[led].astype(np.float64), minlength=len(self._nodes)
        ).astype(np.float64)
        return sums_by_node

    def _node_table(
        self, moment_ms: int, primary: Rows, secondaries: Rows, share: Floats, *, is_away: bool
    ) -> pa.Table:
        nodes, count = self._first.tables["nodes"], len(self._nodes)
        load = self._load_of_nodes(primary, share)
        now = self._node_load
        factor = np.divide(load, now, out=np.ones(count), where=now > 0)
        led = np.bincount(primary[primary >= 0], minlength=count)
        followed = np.bincount(secondaries[secondaries >= 0], minlength=count)
        started = np.full(count, self._end_ms - 9 * DAY_MS)
        if self._step(_OUTAGE_HOUR, moment_ms) >= _OUTAGE_STEPS:
            started[self._away] = (
                self._end_ms + round(_OUTAGE_HOUR * HOUR_MS) + _OUTAGE_STEPS * STEP_MS
            )
        table = with_columns(
            scaled(
                nodes,
                {f"{name}_rate": factor for name in _LATENCIES}
                | {f"{name}_p99_ms": np.clip(factor, 0.4, 3.0) ** 0.5 for name in _LATENCIES},
            ),
            {
                "primary_replicas": led,
                "secondary_replicas": followed,
                "total_replicas": led + followed,
                "started_at": [f"{ms_to_datetime(int(at)):%Y-%m-%d %H:%M:%S}" for at in started],
            },
        )
        return self._silent(table) if is_away else table

    def _silent(self, nodes: pa.Table) -> pa.Table:
        """Return the nodes as they are listed while one is away: nothing is known of it."""
        is_it: NDArray[np.bool_] = np.arange(len(self._nodes)) == self._away
        mask = pa.array(is_it)
        unknown = {
            name: pc.if_else(mask, None, nodes[name]).combine_chunks()
            for name in nodes.schema.names
            if name not in _KEPT
        }
        return with_columns(nodes, {**unknown, "is_alive": ~is_it, "is_answering": ~is_it})

    def _settings(self, moment_ms: int) -> pa.Table:
        """Return the settings; the level is ``lively`` for some minutes."""
        settings = self._first.tables["settings"]
        if not 0 <= self._step(_LIVELY_HOUR, moment_ms) <= _LIVELY_STEPS:
            return settings
        lively = FunctionLevel.LIVELY
        names, value = settings["name"], settings["value"].combine_chunks()
        is_level = pc.is_in(names, value_set=pa.array(_LEVELS)).combine_chunks()
        value = pc.if_else(is_level, lively.name.lower(), value)
        is_stored = pc.equal(names, "level.stored").combine_chunks()
        return with_columns(settings, {"value": pc.if_else(is_stored, str(int(lively)), value)})


def _of_rows(by_table: dict[int, float], app_ids: Rows) -> Floats:
    """Return the value of each row's table; 1 where it has none."""
    found, where = np.unique(app_ids, return_inverse=True)
    values: Floats = np.array([by_table.get(int(one), 1.0) for one in found])[where]
    return values
