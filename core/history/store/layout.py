"""What the history is made of: kinds, their columns, and how a snapshot's tables become kinds.

A history is one Delta table a kind at ``<uri>/<kind>/``, partitioned by ``cluster`` and ``day``.
Every row has ``taken_at`` (ms). Rows that a :class:`core.history.store.writer.Recorder` wrote have
the ``segment`` of their minute as well, and count only when ``minutes`` has a row with the same
cluster, ``taken_at`` and ``segment``: that row is committed last, so what a killed writer left is
never seen. Rows without a segment were appended by themselves and always count.
"""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Final, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from core.errors import SnapshotError
from core.schemas import PULSAR_TABLES
from core.schemas.pegasus import PEGASUS_TABLES
from core.schemas.pulsar import RATES

SCHEMA_VERSION: Final = 1
HOUR_MS: Final = 3_600_000

System = Literal["pulsar", "pegasus"]
Habit = Literal["every", "busy", "change"]


class HistoryError(SnapshotError):
    """The history cannot be read or written, or has nothing for what was asked."""

    code = "history"


@dataclass(frozen=True)
class Kind:
    """One kind of rows.

    Attributes:
        name: Its folder.
        columns: Its columns without the bookkeeping.
        habit: ``every``: all rows every minute; ``busy``: rows with a rate, or that changed;
            ``change``: rows that changed. A segment's first minute has all rows of all kinds.
        table: The snapshot table it is a part of; empty: it is none.
        key: Columns that name a row of that table.
        order: Columns that the table is sorted by, where it is.
        activity: Columns of which one is neither null nor zero where a row is busy.
        is_spine: Whether it decides which rows its table has.
    """

    name: str
    columns: pa.Schema
    habit: Habit = "every"
    table: str = ""
    key: tuple[str, ...] = ()
    order: tuple[str, ...] = ()
    activity: tuple[str, ...] = ()
    is_spine: bool = False

    @cached_property
    def stored(self) -> pa.Schema:
        """Columns as they are written: all may be null, no units, the bookkeeping first."""
        fields = [pa.field(one.name, one.type) for one in self.columns]
        return pa.schema([*_BOOKS, *(_CHANGES if self.table else ()), *fields])


_DRAWN_BITS: Final = 12

CLUSTER: Final = "cluster"
DAY: Final = "day"
SEGMENT: Final = "segment"
TAKEN_AT: Final = "taken_at"
GONE: Final = "gone"
ROW_AT: Final = "row_at"
COPY: Final = "copy"

_BOOKS: Final = (
    pa.field(CLUSTER, pa.string()),
    pa.field(DAY, pa.string()),
    pa.field(TAKEN_AT, pa.int64()),
    pa.field(SEGMENT, pa.int64()),
)
_CHANGES: Final = (
    pa.field(GONE, pa.bool_()),  # true: the row vanished at this minute
    pa.field(ROW_AT, pa.int64()),  # its place, where the table is not in its usual order
    pa.field(COPY, pa.int64()),  # which of several rows with one key; null: the only one
)

EVENT_COLUMNS: Final = pa.schema(
    [
        # move | split | merge | leader | broker_up | broker_down | setting | policy | primary |
        # replica | level | node_up | node_down | step | run
        pa.field("kind", pa.string()),
        pa.field("subject", pa.string()),  # bundle, broker, key, gpid ...
        pa.field("before", pa.string()),
        pa.field("after", pa.string()),
        pa.field("by", pa.string()),  # cluster | trimtab; empty: unknown
        pa.field("run_id", pa.string()),
        pa.field("actor", pa.string()),
        pa.field("reason", pa.string()),
        pa.field("details", pa.string()),  # a JSON object
    ]
)
SHADOW_COLUMNS: Final = pa.schema(
    [
        pa.field("strategy", pa.string()),
        pa.field("is_configured", pa.bool_()),
        pa.field("is_switched_on", pa.bool_()),  # the cluster balances by itself
        pa.field("label", pa.string()),
        pa.field("reason", pa.string()),
        pa.field("sentence", pa.string()),
        pa.field("position", pa.int64()),  # of the move in its round, from 0
        pa.field("broker", pa.string()),  # null: nothing would move
        pa.field("bundle", pa.string()),
        pa.field("destination", pa.string()),
        pa.field("probability", pa.float64()),  # of that destination, the likeliest one
        pa.field("distribution", pa.string()),  # JSON {broker: probability}
    ]
)
MINUTE_COLUMNS: Final = pa.schema(
    [
        pa.field("snapshot_id", pa.string()),
        pa.field("system", pa.string()),
        pa.field("schema_version", pa.int64()),
        pa.field("manifest", pa.string()),  # JSON, as a snapshot directory has it
    ]
)

MINUTES: Final = Kind("minutes", MINUTE_COLUMNS)
EVENTS: Final = Kind("events", EVENT_COLUMNS)
SHADOW: Final = Kind("shadow", SHADOW_COLUMNS)


def _part(table: pa.Schema, names: tuple[str, ...]) -> pa.Schema:
    return pa.schema([table.field(name) for name in names])


def _changing(
    name: str, schema: pa.Schema, key: tuple[str, ...], order: tuple[str, ...] = ()
) -> Kind:
    """A snapshot table that is one kind by itself."""
    return Kind(name, schema, "change", name, key, order or key, is_spine=True)


_BROKERS = PULSAR_TABLES["brokers"]
_TEXTS = (
    *("web_url", "web_url_tls", "service_url", "service_url_tls", "version", "load_manager"),
    *("persistent_topics_enabled", "non_persistent_topics_enabled"),
    *("last_bundle_gains", "last_bundle_losses", "failure_domain"),
)
_NUMBERS = tuple(name for name in _BROKERS.names if name not in _TEXTS)
_BUNDLES = PULSAR_TABLES["bundles"]
_LOADS = (*RATES, "topic_count", "producer_count", "consumer_count", "cache_size_bytes")
_AVERAGES = tuple(
    name for name in _BUNDLES.names if name.startswith(("short_", "long_", "averaged_"))
)
_FACTS = tuple(name for name in _BUNDLES.names if name not in {*_LOADS, *_AVERAGES})
_RING = ("namespace", "lower", "upper")

PULSAR_KINDS: Final = (
    Kind(
        "brokers",
        _part(_BROKERS, _NUMBERS),
        table="brokers",
        key=("broker",),
        order=("broker",),
        is_spine=True,
    ),
    Kind("broker_facts", _part(_BROKERS, ("broker", *_TEXTS)), "change", "brokers", ("broker",)),
    Kind(
        "bundle_facts",
        _part(_BUNDLES, _FACTS),
        "change",
        table="bundles",
        key=("bundle",),
        order=_RING,
        is_spine=True,
    ),
    Kind(
        "bundle_loads",
        _part(_BUNDLES, ("bundle", *_LOADS)),
        "busy",
        table="bundles",
        key=("bundle",),
        activity=RATES,
    ),
    Kind(
        "bundle_averages",
        _part(_BUNDLES, ("bundle", *_AVERAGES)),
        "change",
        table="bundles",
        key=("bundle",),
    ),
    _changing("namespaces", PULSAR_TABLES["namespaces"], ("namespace",)),
    _changing("settings", PULSAR_TABLES["settings"], ("name", "broker")),
    _changing("policies", PULSAR_TABLES["policies"], ("kind", "name")),
    _changing("topics", PULSAR_TABLES["topics"], ("topic",), ("hash",)),
    _changing("broker_loads", PULSAR_TABLES["broker_loads"], ("broker",)),
    _changing("top_bundles", PULSAR_TABLES["top_bundles"], ("broker", "position")),
    _changing("unit_states", PULSAR_TABLES["unit_states"], ("bundle",)),
    _changing("claims", PULSAR_TABLES["claims"], ("subject_kind", "subject", "source", "broker")),
    _changing("broker_metrics", PULSAR_TABLES["broker_metrics"], ("broker",)),
    _changing("bundle_metrics", PULSAR_TABLES["bundle_metrics"], ("bundle", "broker")),
)
"""Kinds of a Pulsar cluster, in the order in which they are written."""

_REPLICAS = PEGASUS_TABLES["replicas"]
_REPLICA = ("app_id", "index", "node")
_REPLICA_RATES = ("read_rate", "write_rate", "read_units", "write_units")
_OPERATIONS = PEGASUS_TABLES["operations"]

PEGASUS_KINDS: Final = (
    Kind(
        "nodes",
        PEGASUS_TABLES["nodes"],
        table="nodes",
        key=("node",),
        order=("node",),
        is_spine=True,
    ),
    _changing("tables", PEGASUS_TABLES["tables"], ("app_id",)),
    _changing("partitions", PEGASUS_TABLES["partitions"], ("app_id", "index")),
    _changing(
        "replicas",
        _part(_REPLICAS, tuple(one for one in _REPLICAS.names if one not in _REPLICA_RATES)),
        _REPLICA,
    ),
    Kind(
        "replica_loads",
        _part(_REPLICAS, (*_REPLICA, *_REPLICA_RATES)),
        "busy",
        table="replicas",
        key=_REPLICA,
        activity=_REPLICA_RATES,
    ),
    Kind(
        "partition_loads",
        _OPERATIONS,
        "busy",
        table="operations",
        key=("app_id", "index"),
        order=("app_id", "index"),
        activity=tuple(name for name in _OPERATIONS.names if name.endswith("_rate")),
        is_spine=True,
    ),
    _changing("disks", PEGASUS_TABLES["disks"], ("node", "disk")),
    _changing("settings", PEGASUS_TABLES["settings"], ("name",)),
    _changing("node_orders", PEGASUS_TABLES["node_orders"], ("position",)),
)
"""Kinds of a Pegasus cluster; ``replica_loads`` are a replica's rates, ``partition_loads`` what
primaries tell of their operations."""

KINDS_OF: Final[dict[str, tuple[Kind, ...]]] = {"pulsar": PULSAR_KINDS, "pegasus": PEGASUS_KINDS}
TABLES_OF: Final[dict[str, dict[str, pa.Schema]]] = {
    "pulsar": PULSAR_TABLES,
    "pegasus": PEGASUS_TABLES,
}

# Both systems have settings: the kind that is written is Pulsar's, whose columns are more.
KINDS: Final[dict[str, Kind]] = {
    kind.name: kind for kind in (MINUTES, EVENTS, SHADOW, *PEGASUS_KINDS, *PULSAR_KINDS)
}
"""Every kind by name, in the form that is written."""


def kind_of(name: str) -> Kind:
    """Return a kind.

    Raises:
        HistoryError: There is none of that name.
    """
    if name not in KINDS:
        raise HistoryError(
            f"The history has no rows of kind {name!r}.", hint=f"Known: {', '.join(sorted(KINDS))}."
        )
    return KINDS[name]


def day_of(taken_at_ms: int) -> str:
    """Return the partition of a time, ``2026-11-21``, UTC."""
    return datetime.fromtimestamp(taken_at_ms / 1000, tz=UTC).strftime("%Y-%m-%d")


def quoted(text: str) -> str:
    """Return a text as an SQL literal."""
    return "'" + text.replace("'", "''") + "'"


def new_segment() -> int:
    """Return a number that no other segment has: the time, ms, and 12 drawn bits after it.

    Recorders that begin in the same millisecond must not share a number: what one of them wrote
    of a minute that the other committed would count with it. The number fits a float (2^53).
    """
    return (time.time_ns() // 1_000_000 << _DRAWN_BITS) + secrets.randbits(_DRAWN_BITS)


def segment_begun_ms(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return when segments were begun, ms; numbers of before 2026-11-23 are the time itself."""
    return np.where(numbers < 1 << 44, numbers, numbers >> _DRAWN_BITS)
