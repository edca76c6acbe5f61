"""What the page of Pegasus tables shows: every table in the columns of upstream's own commands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import pandas as pd

from core.pegasus.app_stat import RATIOS
from core.pegasus.columns import Floats
from core.pegasus.health import HealthState
from core.pegasus.snapshot import PegasusFacts
from core.pegasus.summary import minimum_2pc
from core.units import counted
from dashboard.charts.pegasus_grid import GridData
from dashboard.presenters.naming import listed
from dashboard.presenters.pegasus_cluster import STATE_WORDS, node_labels

VIEWS: Final = {
    "overview": (
        "Health as `ls -d` counts it; traffic and capacity units of primaries; size of all "
        "replicas."
    ),
    "ls -d": (
        "Counting `ls -d` (also `app -d` and /meta/apps): write unhealthy below two replicas, "
        "whatever writes really need."
    ),
    "five states": (
        "Counting of the meta server's metrics: five states, unwritable by the replicas that a "
        "write needs."
    ),
    "guardian": (
        "Counting of the guardian: healthy is exactly the wanted replicas with a primary; "
        "balancing waits for it. Pending proposals, which nobody tells of, are left out."
    ),
    "app_stat": "Of primaries only, as `app_stat` sums them; requests and events a second.",
    "app_disk": "As `app_disk`: sizes of files; a sum with an unknown part is unknown.",
}
"""Sets of columns, and which counting or command they are of."""

ONLY: Final = ("all", "unhealthy", "uneven", "not read")
SORTS: Final = {
    "unhealthy": ("unhealthy", False),
    "reads": ("reads", False),
    "writes": ("writes", False),
    "size": ("size_all_mb", False),
    "partitions": ("partitions", False),
    "uneven": ("primary_gap", False),
    "name": ("table", True),
    "id": ("app_id", True),
}
"""By word: column, ascending."""

GRID_MEASURES: Final = {
    "primaries": ("Primaries", ""),
    "replicas": ("Replicas", ""),
    "read_rate": ("Reads", "/s"),
    "write_rate": ("Writes", "/s"),
    "size_mb": ("Size", "MB"),
}
"""By key: label and unit; rates are of primaries, sizes of all replicas."""

MAX_GRID_ROWS: Final = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFilter:
    """What a person asked for.

    Attributes:
        contains: Part of the name or the whole id; empty: every table.
        only: One of :data:`ONLY`.
        sort: One of :data:`SORTS`.
        limit: Most rows.
    """

    contains: str = ""
    only: str = "all"
    sort: str = "unhealthy"
    limit: int = 100


@dataclass(frozen=True, slots=True, eq=False)
class TablePage:
    """Rows that are shown, how many match, and how many there are."""

    rows: pd.DataFrame
    matching: int
    total: int


def answer(facts: PegasusFacts) -> str:
    """Return how many tables there are, and what is unhealthy or uneven among them."""
    columns = facts.columns
    total = int(columns.partition_counts.sum())
    start = f"{counted(columns.table_count, 'table')} with {counted(total, 'partition')}"
    unread = int((~columns.is_read).sum())
    rest = f"; the partitions of {counted(unread, 'table')} could not be read" if unread else ""
    ill = ~columns.is_guardian_healthy
    if not ill.any():
        what = "every partition that was read is healthy" if unread else "all of them healthy"
        return f"{start}, {what}{rest}. {_uneven_sentence(facts)}"
    places = np.unique(columns.part_table[ill])
    names = listed([columns.app_names[at] for at in places])
    number = int(ill.sum())
    return (
        f"{start}: {counted(number, 'partition')} {'is' if number == 1 else 'are'} not healthy, "
        f"in {names}{rest}. {_uneven_sentence(facts)}"
    )


def table_answer(facts: PegasusFacts, name: str) -> str:
    """Return how one table is: healthy or not, and how evenly it is led."""
    columns = facts.columns
    at = columns.app_names.index(name)
    size = (
        f"{name}: {counted(int(columns.partition_counts[at]), 'partition')} of "
        f"{counted(int(columns.max_replica_counts[at]), 'replica')}"
    )
    if not columns.is_read[at]:
        return f"{size}; how they are could not be read."
    ill = int((~columns.is_guardian_healthy[columns.part_table == at]).sum())
    health = "all of them healthy" if not ill else f"{ill:,} not healthy"
    led = columns.counts(primaries_only=True)[at]
    living = [int(node) for node in np.nonzero(columns.is_alive)[0]]
    if not living:
        return f"{size}, {health}; no node is alive."
    most = max(living, key=lambda node: int(led[node]))
    least = min(living, key=lambda node: int(led[node]))
    if led[most] - led[least] <= 1:
        return f"{size}, {health}; its primaries are even over the living nodes."
    return (
        f"{size}, {health}; {columns.nodes[most]} leads {led[most]} of them, "
        f"{columns.nodes[least]} leads {led[least]}."
    )


def _uneven_sentence(facts: PegasusFacts) -> str:
    uneven = int((primary_gaps(facts) > 1).sum())
    if not uneven:
        return "Primaries of every table are even over the living nodes."
    verb = "has" if uneven == 1 else "have"
    return (
        f"{counted(uneven, 'table')} {verb} uneven primaries: the living nodes with most and with "
        "least differ by more than one."
    )


def primary_gaps(facts: PegasusFacts) -> Floats:
    """Return most less least primaries over the living nodes, per table; NaN: not read."""
    columns = facts.columns
    counts = columns.counts(primaries_only=True)[:, columns.is_alive]
    if not counts.shape[1]:
        return np.full(columns.table_count, np.nan)
    gaps = (counts.max(axis=1) - counts.min(axis=1)).astype(np.float64)
    return np.where(columns.is_read, gaps, np.nan)


def tables_frame(facts: PegasusFacts) -> pd.DataFrame:
    """Return one row an available table with the columns of every view; NaN is unknown."""
    columns = facts.columns
    states = columns.table_states(minimum_2pc(facts)).astype(np.float64)
    ill = np.bincount(
        columns.part_table[~columns.is_guardian_healthy], minlength=columns.table_count
    )
    listing = columns.listed
    measured = {
        "fully_healthy": listing.fully_healthy,
        "unhealthy": listing.unhealthy,
        "write_unhealthy": listing.write_unhealthy,
        "read_unhealthy": listing.read_unhealthy,
        **{f"state_{state.name.lower()}": states[:, state] for state in HealthState},
        "guardian_ill": ill,
    }
    rows = _table_rows(facts)
    return pd.DataFrame(
        {
            "table": list(columns.app_names),
            "app_id": columns.app_ids,
            "partitions": columns.partition_counts,
            "replica_count": columns.max_replica_counts,
            "worst": _worst(facts, states),
            **{
                name: np.where(columns.is_read, values, np.nan) for name, values in measured.items()
            },
            "reads": columns.per_table("read_rate", primaries_only=True),
            "writes": columns.per_table("write_rate", primaries_only=True),
            "read_cu": columns.per_table("read_units", primaries_only=True),
            "write_cu": columns.per_table("write_units", primaries_only=True),
            "size_primary_mb": columns.per_table("size_mb", primaries_only=True),
            "size_all_mb": columns.per_table("size_mb", primaries_only=False),
            "sizes_known": _known_words(facts),
            "primary_gap": primary_gaps(facts),
            **stat_columns(facts.app_stat.per_table()),
            "created": rows["created"],
            "marks": rows["marks"],
        }
    )


def stat_columns(stats: Mapping[str, Floats]) -> dict[str, Floats]:
    """Return columns of ``app_stat``, with ratios as percent; NaN: unknown."""
    return {name: values * 100 if name in RATIOS else values for name, values in stats.items()}


def _table_rows(facts: PegasusFacts) -> pd.DataFrame:
    """Return what only the list of tables has: when they were made, and what goes on in them."""
    table = facts.snapshot.tables["tables"].to_pandas()
    table = table[table["status"] == "available"].sort_values("app_id")
    marks = [
        ", ".join(
            word for word, is_so in (("bulk load", loading), ("duplicated", duplicating)) if is_so
        )
        for loading, duplicating in zip(
            table["is_bulk_loading"], table["is_duplicating"], strict=True
        )
    ]
    created = pd.to_datetime(table["created_at"], unit="ms", utc=True)
    return pd.DataFrame({"created": created.to_numpy(), "marks": marks})


def _worst(facts: PegasusFacts, states: Floats) -> list[str]:
    """Return every table's worst state with how many partitions are in it."""
    found = []
    for counts, is_read in zip(states.tolist(), facts.columns.is_read.tolist(), strict=True):
        worst = next((at for at, count in enumerate(counts) if count), int(HealthState.HEALTHY))
        word = STATE_WORDS[HealthState(worst)]
        number = "" if worst == HealthState.HEALTHY else f" ({counts[worst]:.0f})"
        found.append(f"{word}{number}" if is_read else "? not read")
    return found


def _known_words(facts: PegasusFacts) -> list[str]:
    """Return of how many replicas the size is known: ``190 of 192``."""
    columns = facts.columns
    every = np.bincount(columns.rep_table, minlength=columns.table_count)
    is_known = np.isfinite(columns.measures["size_mb"])
    known = np.bincount(columns.rep_table[is_known], minlength=columns.table_count)
    return [f"{one:,} of {of:,}" for one, of in zip(known.tolist(), every.tolist(), strict=True)]


def table_page(frame: pd.DataFrame, asked: TableFilter) -> TablePage:
    """Return the rows that match, sorted, at most as many as asked for; unknown last."""
    keep = pd.Series(True, index=frame.index)  # noqa: FBT003  # a fill value, not a switch
    if asked.contains:
        text = asked.contains.casefold()
        is_named = frame["table"].str.casefold().str.contains(text, regex=False)
        keep &= is_named | (frame["app_id"].astype(str) == text)
    if asked.only == "unhealthy":
        keep &= (frame["unhealthy"] > 0) | (frame["guardian_ill"] > 0)
    elif asked.only == "uneven":
        keep &= frame["primary_gap"] > 1
    elif asked.only == "not read":
        keep &= frame["unhealthy"].isna()
    column, ascending = SORTS.get(asked.sort, SORTS["unhealthy"])
    matching = frame[keep].sort_values(
        [column, "app_id"], ascending=[ascending, True], na_position="last", kind="stable"
    )
    return TablePage(matching.head(asked.limit), len(matching), len(frame))


# -- node x table -------------------------------------------------------------------------------


def grid(facts: PegasusFacts, measure: str) -> GridData:
    """Return a measure by table and node: the tables that differ most between living nodes."""
    columns = facts.columns
    label, unit = GRID_MEASURES[measure]
    if measure in ("primaries", "replicas"):
        values = columns.counts(primaries_only=measure == "primaries").astype(np.float64)
        values[~columns.is_read] = np.nan
    else:
        values = columns.grid(measure, primaries_only=measure != "size_mb")
        values[~columns.is_read] = np.nan
    living = values[:, columns.is_alive]
    if living.shape[1]:
        spread = np.where(
            np.isnan(living).any(axis=1), -1.0, living.max(axis=1) - living.min(axis=1)
        )
    else:
        spread = np.full(columns.table_count, -1.0)
    order = np.argsort(-spread, kind="stable")[:MAX_GRID_ROWS]
    return GridData(
        rows=[columns.app_names[at] for at in order],
        columns=node_labels(columns),
        values=values[order],
        label=label,
        unit=unit,
        total_rows=columns.table_count,
    )


def grid_note(data: GridData) -> str:
    """Return which tables are shown."""
    if len(data.rows) < data.total_rows:
        return (
            f"The {len(data.rows)} of {data.total_rows:,} tables that differ most between the "
            "living nodes, the most uneven first."
        )
    return "Every table, the most uneven over the living nodes first."
