"""Data of the page of Pegasus tables: every table in the columns of upstream's own commands."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from core.pegasus.app_stat import RATIOS
from core.pegasus.balance.model import ProposalAction
from core.pegasus.columns import Floats, PegasusColumns
from core.pegasus.ddd import DddNode
from core.pegasus.headline import service_words
from core.pegasus.health import HealthState
from core.pegasus.outlook import Outlook, outlooks
from core.pegasus.snapshot import PegasusFacts
from core.pegasus.summary import minimum_2pc, table_notes, unwritable_partitions
from core.units import format_mb, format_per_s, is_whole, listed, ms_to_datetime, pluralize
from dashboard.app_pages.pegasus.tables.charts import MAX_MATRIX_TEXT, GridData, MatrixData
from dashboard.presenters.figures import KeyFigure
from dashboard.presenters.naming import UNKNOWN
from dashboard.presenters.pegasus.cluster import STATE_WORDS, node_labels

VIEWS: Final = {
    "overview": (
        "Health as in `ls -d`; traffic and capacity units of primaries; size of all replicas."
    ),
    "ls -d": (
        "Counts of `ls -d`, `app -d` and /meta/apps: write-unhealthy below two replicas, "
        "regardless of the actual requirement."
    ),
    "five states": (
        "Counts of the meta server's metrics: five states, unwritable if replicas required "
        "for writes are missing."
    ),
    "guardian": (
        "Counts of the guardian: healthy means a primary and the exact number of replicas; "
        "balancing requires it. Pending proposals are not readable and not included."
    ),
    "app_stat": "Primaries only, as in `app_stat`; requests and events per second.",
    "app_disk": "File sizes as in `app_disk`; sums with unknown parts are unknown.",
}
"""Sets of columns, and which counting or command they are of."""

TAB: Final = "tab"
"""Query parameter: the tab that is open."""

PARTITIONS: Final = "Partitions"
TABLES: Final = "Tables"
TABS: Final = (TABLES, PARTITIONS, "By node")
_OF_LIST: Final = {"view", "contains", "only", "sort", "show"}
"""Parameters of the list of tables."""

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
    "size_mb": ("Size", "GB"),
}
"""By key: label and unit; rates are of primaries, sizes of all replicas."""

MAX_GRID_ROWS: Final = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFilter:
    """Filter of the table list.

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
    """Rows of a page, number of matches, and total number."""

    rows: pd.DataFrame
    matching: int
    total: int


def open_tab(table: str, unhealthy: int, params: Collection[str]) -> str:
    """Return the tab that an address without one opens.

    Args:
        table: Name of the chosen table; empty: none.
        unhealthy: Unhealthy partitions of every table.
        params: Of the address.
    """
    if table or (unhealthy and not _OF_LIST & set(params)):
        return PARTITIONS
    return TABLES


def key_figures(facts: PegasusFacts, name: str) -> list[KeyFigure]:
    """Return health, evenness, requests and size of one table."""
    columns = facts.columns
    at = columns.app_names.index(name)
    count = int(columns.partition_counts[at])
    mine = columns.part_table == at
    unhealthy = int((~columns.is_guardian_healthy[mine]).sum())
    children = int(columns.is_child[mine].sum())
    unwritable = int(unwritable_partitions(facts)[mine].sum())
    counts = ((unwritable, "unwritable"), (unhealthy, "unhealthy"), (children, "splitting"))
    is_read = bool(columns.is_read[at])
    rates = {
        one: float(columns.per_table(one, primaries_only=True)[at])
        for one in ("read_rate", "write_rate")
    }
    return [
        KeyFigure(
            label="Partitions healthy",
            value=f"{count - unhealthy - children:,} / {count:,}" if is_read else UNKNOWN,
            note=", ".join(f"{number:,} {word}" for number, word in counts if number),
            status="bad"
            if unhealthy or unwritable
            else "unknown"
            if not is_read
            else "warning"
            if children
            else "",
        ),
        KeyFigure(label="Replicas", value=f"{columns.max_replica_counts[at]:,}", note="wanted"),
        KeyFigure(
            label="Primaries gap",
            value=f"{primary_gaps(facts)[at]:,.0f}" if is_read else UNKNOWN,
            note="max minus min",
        ),
        KeyFigure(label="Reads", value=format_per_s(rates["read_rate"], "op")),
        KeyFigure(label="Writes", value=format_per_s(rates["write_rate"], "op")),
        KeyFigure(
            label="Size",
            value=format_mb(float(columns.per_table("size_mb", primaries_only=False)[at])),
            note="all replicas",
        ),
    ]


def answer(facts: PegasusFacts) -> str:
    """Return the number of tables, and of unhealthy and uneven ones."""
    columns = facts.columns
    total = int(columns.partition_counts.sum())
    start = f"{pluralize(columns.table_count, 'table')} with {pluralize(total, 'partition')}"
    unread = int((~columns.is_read).sum())
    rest = f"; {pluralize(unread, 'table')} not read" if unread else ""
    unhealthy = ~columns.is_guardian_healthy
    if not unhealthy.any():
        what = "all partitions that were read are healthy" if unread else "all healthy"
        if columns.is_child.any():
            what = f"{int((~columns.is_child).sum()):,} healthy"
        more = "".join(f", {word}" for word in service_words(facts))
        return f"{start}, {what}{more}{rest}; {_uneven_words(facts)}."
    places = np.unique(columns.part_table[unhealthy])
    names = listed([columns.app_names[at] for at in places])
    number = int(unhealthy.sum())
    return f"{start}, {number:,} unhealthy (in {names}){rest}; {_uneven_words(facts)}."


def table_answer(facts: PegasusFacts, name: str) -> str:
    """Return the health of one table and the distribution of its primaries."""
    columns = facts.columns
    at = columns.app_names.index(name)
    size = (
        f"{name}: {pluralize(int(columns.partition_counts[at]), 'partition')} of "
        f"{pluralize(int(columns.max_replica_counts[at]), 'replica')}"
    )
    if not columns.is_read[at]:
        return f"{size}; state not read."
    unhealthy = int((~columns.is_guardian_healthy[columns.part_table == at]).sum())
    health = f"{unhealthy:,} unhealthy" if unhealthy else "all healthy"
    led = columns.counts(primaries_only=True)[at]
    living = [int(node) for node in np.nonzero(columns.is_compared)[0]]
    if not living:
        return f"{size}, {health}; 0 nodes alive."
    most = max(living, key=lambda node: int(led[node]))
    least = min(living, key=lambda node: int(led[node]))
    if led[most] - led[least] <= 1:
        return f"{size}, {health}; primaries balanced."
    return (
        f"{size}, {health}; primaries per node: min {led[least]} ({columns.nodes[least]}), "
        f"max {led[most]} ({columns.nodes[most]})."
    )


def _uneven_words(facts: PegasusFacts) -> str:
    uneven = int((primary_gaps(facts) > 1).sum())
    if not uneven:
        return "primaries of all tables balanced"
    return f"{pluralize(uneven, 'table')} with unbalanced primaries (gap above 1)"


def primary_gaps(facts: PegasusFacts) -> Floats:
    """Return most less least primaries over the living nodes, per table; NaN: not read."""
    columns = facts.columns
    counts = columns.counts(primaries_only=True)[:, columns.is_compared]
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
    unwritable = np.bincount(
        columns.part_table[unwritable_partitions(facts)], minlength=columns.table_count
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
            "unwritable": np.where(columns.is_read, unwritable, np.nan),
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
    """Return the columns that only the list of tables has: creation time and notes."""
    table = facts.snapshot.tables["tables"].to_pandas()
    table = table[table["status"] == "available"].sort_values("app_id")
    marks = [", ".join(table_notes(facts, int(app_id))) for app_id in table["app_id"]]
    created = pd.to_datetime(table["created_at"], unit="ms", utc=True)
    return pd.DataFrame({"created": created.to_numpy(), "marks": marks})


_SEVERITY: Final = (*range(HealthState.HEALTHY), HealthState.SPLITTING, HealthState.HEALTHY)


def _worst(facts: PegasusFacts, states: Floats) -> list[str]:
    """Return every table's worst state with its number of partitions."""
    found = []
    for counts, is_read in zip(states.tolist(), facts.columns.is_read.tolist(), strict=True):
        states_held = [at for at, count in enumerate(counts) if count]
        # those being split come before the healthy ones
        worst = min(states_held, key=_SEVERITY.index, default=int(HealthState.HEALTHY))
        word = STATE_WORDS[HealthState(worst)]
        number = "" if worst == HealthState.HEALTHY else f" ({counts[worst]:.0f})"
        found.append(f"{word}{number}" if is_read else "? not read")
    return found


def _known_words(facts: PegasusFacts) -> list[str]:
    """Return the number of replicas with a known size: ``190 of 192``."""
    columns = facts.columns
    every = np.bincount(columns.rep_table, minlength=columns.table_count)
    is_known = np.isfinite(columns.measures["size_mb"])
    known = np.bincount(columns.rep_table[is_known], minlength=columns.table_count)
    return [f"{one:,} of {of:,}" for one, of in zip(known.tolist(), every.tolist(), strict=True)]


def table_page(frame: pd.DataFrame, filters: TableFilter) -> TablePage:
    """Return the rows that match, sorted, at most as many as requested; unknown last."""
    keep = pd.Series(True, index=frame.index)  # noqa: FBT003  # a fill value, not a switch
    if filters.contains:
        text = filters.contains.casefold()
        is_named = frame["table"].str.casefold().str.contains(text, regex=False)
        keep &= is_named | (frame["app_id"].astype(str) == text)
    if filters.only == "unhealthy":
        keep &= (frame["unhealthy"] > 0) | (frame["guardian_ill"] > 0) | (frame["unwritable"] > 0)
    elif filters.only == "uneven":
        keep &= frame["primary_gap"] > 1
    elif filters.only == "not read":
        keep &= frame["unhealthy"].isna()
    column, ascending = SORTS.get(filters.sort, SORTS["unhealthy"])
    matching = frame[keep].sort_values(
        [column, "app_id"], ascending=[ascending, True], na_position="last", kind="stable"
    )
    return TablePage(matching.head(filters.limit), len(matching), len(frame))


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
        values = values / 1e3 if unit == "GB" else values
    living = values[:, columns.is_compared]
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
    """Return the selection and order of the tables."""
    if len(data.rows) < data.total_rows:
        return (
            f"{len(data.rows)} of {data.total_rows:,} tables, largest gap between alive nodes "
            "first."
        )
    return "All tables, largest gap between alive nodes first."


MAX_ROWS: Final = 1_000
MAX_CURES: Final = 200
EVERY: Final = "all, grouped"
_MOST_GROUPS: Final = 24
_MEASURES: Final = {
    "size_mb": "size_mb",
    "read_rate": "read_rate",
    "write_rate": "write_rate",
    "read_units": "read_cu",
    "write_units": "write_cu",
}
"""Of the primaries: measure of the replicas, and the column that shows it."""
_KEY_SHIFT: Final = 1 << 32
PARTITION_VIEWS: Final = {
    "members": "Unhealthy first.",
    "app_stat -a": "Unhealthy first. Reported by primaries; requests and events per second.",
}
"""Sets of columns of one table's partitions."""
Rows = NDArray[np.int64]


def rows_of_table(columns: PegasusColumns, name: str, index: str = "") -> Rows:
    """Return the places of a table's partitions; none where it does not serve.

    Args:
        columns: The snapshot.
        name: Of the table.
        index: Of one partition; empty: of all.
    """
    if name not in columns.app_names:
        return np.empty(0, dtype=np.int64)
    is_asked = columns.part_table == columns.app_names.index(name)
    if index:
        is_asked &= columns.part_index == (int(index) if is_whole(index) else -1)
    return np.nonzero(is_asked)[0]


def unhealthy_rows(facts: PegasusFacts) -> Rows:
    """Return the places of partitions that the guardian does not call healthy, worst first."""
    rows = np.nonzero(~facts.columns.is_guardian_healthy)[0]
    return worst_first(facts, rows)


def worst_first(facts: PegasusFacts, rows: Rows) -> Rows:
    """Return the rows by state, worst first; then by the guardian's verdict; then by gpid."""
    states = facts.columns.states(minimum_2pc(facts))[rows]
    is_fine = facts.columns.is_guardian_healthy[rows]
    order = np.lexsort((rows, is_fine, states))
    found: Rows = rows[order]
    return found


# -- matrix -------------------------------------------------------------------------------------


def windows(partition_count: int) -> list[str]:
    """Return the selectable ranges of partitions: all, or pages of them."""
    if partition_count <= MAX_MATRIX_TEXT:
        return [f"0-{max(partition_count - 1, 0)}"]
    return [
        EVERY,
        *(
            f"{start}-{min(start + MAX_MATRIX_TEXT, partition_count) - 1}"
            for start in range(0, partition_count, MAX_MATRIX_TEXT)
        ),
    ]


def matrix(facts: PegasusFacts, name: str, window: str) -> MatrixData:
    """Return the holders of the partitions of a table.

    Args:
        facts: The snapshot.
        name: A table that serves.
        window: One of :func:`windows`.
    """
    columns = facts.columns
    place = columns.app_names.index(name)
    count = int(columns.partition_counts[place])
    first, last, group = _stretch(window, count)
    width = -(-(last - first + 1) // group)
    mine = (columns.rep_table == place) & (columns.rep_node >= 0)
    mine &= (columns.rep_index >= first) & (columns.rep_index <= last)
    at = (columns.rep_index[mine] - first) // group
    cells = columns.rep_node[mine].astype(np.int64) * width + at
    leads = columns.rep_is_primary[mine]
    size = columns.node_count * width
    shape = (columns.node_count, width)
    return MatrixData(
        nodes=node_labels(columns),
        columns=_column_names(first, last, group),
        primaries=np.bincount(cells[leads], minlength=size).reshape(shape),
        secondaries=np.bincount(cells[~leads], minlength=size).reshape(shape),
        missing=_missing(columns, place, first, last, group),
        group=group,
    )


def _stretch(window: str, count: int) -> tuple[int, int, int]:
    if window == EVERY:
        return 0, count - 1, -(-count // _MOST_GROUPS)
    first, _, last = window.partition("-")
    return int(first), int(last), 1


def _column_names(first: int, last: int, group: int) -> list[str]:
    if group == 1:
        return [str(at) for at in range(first, last + 1)]
    return [f"{at}-{min(at + group - 1, last)}" for at in range(first, last + 1, group)]


def _missing(
    columns: PegasusColumns, place: int, first: int, last: int, group: int
) -> NDArray[np.int64]:
    """Return the missing replicas by column; in a group the sum of the missing ones."""
    rows = (columns.part_table == place) & (columns.part_index >= first)
    rows &= columns.part_index <= last
    lacking = (columns.part_wanted - columns.membership.replica_counts)[rows].astype(np.int64)
    if group > 1:
        lacking = np.maximum(lacking, 0)
    at = (columns.part_index[rows] - first) // group
    width = -(-(last - first + 1) // group)
    return np.bincount(at, weights=lacking, minlength=width).astype(np.int64)


def matrix_sentence(data: MatrixData) -> str:
    """Return the takeaway of the matrix as text, for screen readers."""
    led = data.primaries.sum(axis=1)
    if not led.size:
        return "No nodes known."
    most, least = int(led.argmax()), int(led.argmin())
    lacking = int(np.maximum(data.missing, 0).sum())
    rest = f"; {pluralize(lacking, 'replica')} missing" if lacking else ""
    return (
        f"Primaries per node: min {led[least]} ({data.nodes[least]}), max {led[most]} "
        f"({data.nodes[most]}){rest}."
    )


# -- list ---------------------------------------------------------------------------------------


def partitions_frame(facts: PegasusFacts, rows: Rows) -> tuple[pd.DataFrame, list[Outlook]]:
    """Return one row a partition, with the next repair of unhealthy ones.

    Args:
        facts: The snapshot.
        rows: Places of partitions, those that need it first: only the first
            :data:`MAX_CURES` are looked at by themselves.
    """
    columns = facts.columns
    rows = rows[:MAX_ROWS]
    states = columns.states(minimum_2pc(facts))[rows]
    ill = rows[~columns.is_guardian_healthy[rows]][:MAX_CURES]
    found = outlooks(facts, ill.tolist())
    by_gpid = {one.config.gpid: one for one in found}
    part = columns.partitions.take(rows).to_pydict()
    gpids = [f"{app}.{at}" for app, at in zip(part["app_id"], part["index"], strict=True)]
    names = [columns.app_names[at] for at in columns.part_table[rows].tolist()]
    next_ones = [by_gpid.get(gpid) for gpid in gpids]
    fine = columns.is_guardian_healthy[rows].tolist()
    frame = pd.DataFrame(
        {
            "gpid": gpids,
            "table": names,
            "state": [STATE_WORDS[HealthState(state)] for state in states.tolist()],
            "guardian": [_guardian_word(*one) for one in zip(next_ones, fine, strict=True)],
            "ballot": part["ballot"],
            "replicas": _of_wanted(columns, rows),
            "primary": part["primary"],
            "secondaries": [", ".join(one) for one in part["secondaries"]],
            "last_drops": [", ".join(one) for one in part["last_drops"]],
            "next": [_next_words(one) for one in next_ones],
            "reason": ["" if one is None else one.cure.reason for one in next_ones],
            **_of_primaries(columns, rows),
            **stat_columns(facts.app_stat.of_partitions(rows)),
        }
    )
    return frame, found


def _guardian_word(outlook: Outlook | None, is_fine: bool) -> str:  # noqa: FBT001  # zipped columns
    if is_fine:
        return "healthy"
    return "ill" if outlook is None else outlook.cure.status.value


def _of_wanted(columns: PegasusColumns, rows: Rows) -> list[str]:
    held = columns.membership.replica_counts[rows].tolist()
    return [
        f"{one} of {wanted}"
        for one, wanted in zip(held, columns.part_wanted[rows].tolist(), strict=True)
    ]


def _next_words(outlook: Outlook | None) -> str:
    if outlook is None:
        return ""
    if outlook.cure.action is None:
        return "nothing"
    return action_words(outlook.cure.action) + ("" if outlook.is_sure else " (later)")


def action_words(action: ProposalAction) -> str:
    """Return an action by its upstream name, with the node that changes its role."""
    return f"{action.type.name} {action.node}"


def _of_primaries(columns: PegasusColumns, rows: Rows) -> dict[str, Floats]:
    """Return size and rates of the primaries; NaN: unknown, or there is none."""
    led = np.nonzero(columns.rep_is_primary)[0]
    keys = columns.rep_table[led].astype(np.int64) * _KEY_SHIFT + columns.rep_index[led]
    order = np.argsort(keys, kind="stable")
    wanted = columns.part_table[rows].astype(np.int64) * _KEY_SHIFT + columns.part_index[rows]
    at = np.searchsorted(keys[order], wanted)
    at = np.minimum(at, max(len(keys) - 1, 0))
    found = {}
    for name, shown in _MEASURES.items():
        if not len(keys):
            found[shown] = np.full(len(rows), np.nan)
            continue
        place = led[order[at]]
        is_there = keys[order[at]] == wanted
        found[shown] = np.where(is_there, columns.measures[name][place], np.nan)
    return found


# -- lost partitions ----------------------------------------------------------------------------


def lost(found: Sequence[Outlook]) -> list[Outlook]:
    """Return those that lost every replica."""
    return [one for one in found if one.config.is_ddd]


def lost_sentences(outlook: Outlook) -> list[str]:
    """Return the meta server's diagnosis, its next action and the node the shell recommends."""
    config = outlook.config
    state_text = {
        None: "Not in the diagnosis of the meta server.",
        "": "The meta server lists it without a reason (known bug).",
    }.get(outlook.reported_reason, f"Meta server: {outlook.reported_reason}")
    found = [state_text, f"Next: {outlook.cure.reason}"]
    if outlook.choice is None:
        found.append("`ddd_diagnose` recommends no node: no diagnosis of former members.")
    elif outlook.choice.node is None:
        found.append(f"`ddd_diagnose` recommends no node. {outlook.choice.reason}")
    else:
        found.append(f"`ddd_diagnose` recommends {outlook.choice.node}: {outlook.choice.reason}")
    if config.last_drops:
        found.append(f"Last drops, latest last: {', '.join(config.last_drops)}.")
    return found


def dropped_frame(dropped: Sequence[DddNode]) -> pd.DataFrame:
    """Return one row a former member as diagnosed; -1 is unknown."""

    def known(value: int) -> float:
        return float("nan") if value < 0 else float(value)

    return pd.DataFrame(
        {
            "node": [one.node for one in dropped],
            "dropped_at": [
                ms_to_datetime(one.drop_time_ms) if one.drop_time_ms > 0 else None
                for one in dropped
            ],
            "alive": ["yes" if one.is_alive else "no" for one in dropped],
            "collected": ["yes" if one.is_collected else "no" for one in dropped],
            "ballot": [known(one.ballot) for one in dropped],
            "committed": [known(one.last_committed_decree) for one in dropped],
            "prepared": [known(one.last_prepared_decree) for one in dropped],
        }
    )


def shell_lines(name: str, gpids_lost: Sequence[str]) -> list[str]:
    """Return the lines of Pegasus' shell that show the same."""
    lines = ["ls -d", f"app {name} -d" if name else "app <table> -d"]
    if name:
        lines += [f"app_stat -a {name}", f"app_disk {name} -d"]
    return [*lines, *(f"ddd_diagnose -g {gpid}" for gpid in gpids_lost[:3])]
