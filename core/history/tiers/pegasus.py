"""Tiers of Pegasus nodes, partitions and tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from core.history.tiers.model import (
    EventCount,
    GrowthContext,
    Measure,
    SystemTiers,
    TierSubject,
    known,
    number,
    owned,
)

if TYPE_CHECKING:
    from core.snapshot.pegasus import PegasusSnapshot

_READS: Final = ("get_rate", "multi_get_rate", "batch_get_rate")
_WRITES: Final = ("put_rate", "multi_put_rate")
_PARTITION_READS: Final = (*_READS, "scan_rate")
_PARTITION_WRITES: Final = (
    *(*_WRITES, "remove_rate", "multi_remove_rate", "incr_rate"),
    *("check_and_set_rate", "check_and_mutate_rate"),
)
_BY_TRIMTAB: Final = "\"by\" = 'trimtab'"


def _rates(reads: tuple[str, ...], writes: tuple[str, ...]) -> tuple[Measure, ...]:
    return (
        Measure("request_rate", known(*reads, *writes), is_binned=True),
        Measure("read_rate", known(*reads)),
        Measure("write_rate", known(*writes)),
    )


def _moves(key: str) -> tuple[EventCount, ...]:
    return (
        EventCount("moves", ("primary",), key),
        EventCount("moves_by_trimtab", ("primary",), key, _BY_TRIMTAB),
    )


def _number(text: str) -> int:
    """Return a part of a subject's name, -1 (which none has) where it is no number."""
    return int(text) if text.isdecimal() else -1


def _partition(name: str) -> str:
    table, _, index = name.partition(".")
    return f'app_id = {_number(table)} AND "index" = {_number(index)}'


def _partitions_of(name: str) -> str:
    return f"app_id = {_number(name)}"


_OF_PARTITIONS: Final = _rates(_PARTITION_READS, _PARTITION_WRITES)


def _context(snapshot: PegasusSnapshot) -> GrowthContext:
    rows = snapshot.tables["partitions"]
    names = pc.binary_join_element_wise(
        rows["app_id"].cast(pa.string()), rows["index"].cast(pa.string()), "."
    )
    return GrowthContext(owned(names, rows["primary"]))


PEGASUS_TIERS: Final = SystemTiers(
    system="pegasus",
    subjects=(
        TierSubject(
            kind="node",
            rows="nodes",
            columns=(
                *("node", "is_alive", *_READS, *_WRITES),
                *("resident_memory_mb", "total_replicas", "primary_replicas"),
            ),
            key="node",
            where="is_alive",
            measures=(
                *_rates(_READS, _WRITES),
                Measure("memory_mb", number("resident_memory_mb")),
                Measure("replicas", number("total_replicas"), scale=1),
                Measure("primaries", number("primary_replicas"), scale=1),
            ),
            counts=(
                EventCount("moves_in", ("primary",), "after"),
                EventCount("moves_out", ("primary",), "before"),
                EventCount("server_losses", ("node_down",), "subject"),
            ),
            is_server=True,
        ),
        TierSubject(
            kind="partition",
            rows="partition_loads",
            columns=("app_id", "index", *_PARTITION_READS, *_PARTITION_WRITES),
            key="concat(CAST(app_id AS VARCHAR(20)), '.', CAST(\"index\" AS VARCHAR(20)))",
            measures=_OF_PARTITIONS,
            counts=_moves("subject"),
            members=_partition,
        ),
        TierSubject(
            kind="table",
            of="partition",
            key="split_part(subject, '.', 1)",
            measures=(*_OF_PARTITIONS, Measure("partitions", scale=1)),
            counts=_moves("split_part(subject, '.', 1)"),
            members=_partitions_of,
        ),
    ),
    flow="request_rate",
    context=_context,
    counts=(
        *_moves("''"),
        EventCount("server_losses", ("node_down",), "''"),
        EventCount("leader_changes", ("leader",), "''"),
    ),
)
