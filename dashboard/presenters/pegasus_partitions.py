"""What the page shows of single partitions: members, state, and what the guardian does next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from core.pegasus.balance.model import ProposalAction
from core.pegasus.columns import Floats, PegasusColumns
from core.pegasus.ddd import DddNode
from core.pegasus.health import HealthState
from core.pegasus.outlook import Outlook, outlooks
from core.pegasus.snapshot import PegasusFacts
from core.pegasus.summary import minimum_2pc
from core.units import counted, ms_to_datetime
from dashboard.charts.pegasus_grid import MAX_MATRIX_TEXT, MatrixData
from dashboard.presenters.pegasus_cluster import STATE_WORDS, node_labels
from dashboard.presenters.pegasus_tables import stat_columns

MAX_ROWS: Final = 1_000
MAX_CURES: Final = 200
EVERY: Final = "all, in groups"
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
VIEWS: Final = {
    "members": "Unhealthy first.",
    "app_stat -a": "Unhealthy first. As primaries tell it; requests and events a second.",
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
        is_asked &= columns.part_index == (int(index) if index.isdecimal() else -1)
    return np.nonzero(is_asked)[0]


def unhealthy_rows(facts: PegasusFacts) -> Rows:
    """Return the places of partitions that the guardian does not call healthy, worst first."""
    rows = np.nonzero(~facts.columns.is_guardian_healthy)[0]
    return worst_first(facts, rows)


def worst_first(facts: PegasusFacts, rows: Rows) -> Rows:
    """Return the rows by state, the worst first; then what the guardian calls ill; then gpid."""
    states = facts.columns.states(minimum_2pc(facts))[rows]
    is_fine = facts.columns.is_guardian_healthy[rows]
    order = np.lexsort((rows, is_fine, states))
    found: Rows = rows[order]
    return found


# -- matrix -------------------------------------------------------------------------------------


def windows(partition_count: int) -> list[str]:
    """Return which stretches of partitions can be looked at: all of them, or so many at once."""
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
    """Return who holds which partition of a table.

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
    """Return wanted less held replicas by column; in a group only what is missing is added up."""
    rows = (columns.part_table == place) & (columns.part_index >= first)
    rows &= columns.part_index <= last
    lacking = (columns.part_wanted - columns.membership.replica_counts)[rows].astype(np.int64)
    if group > 1:
        lacking = np.maximum(lacking, 0)
    at = (columns.part_index[rows] - first) // group
    width = -(-(last - first + 1) // group)
    return np.bincount(at, weights=lacking, minlength=width).astype(np.int64)


def matrix_sentence(data: MatrixData) -> str:
    """Return the takeaway of the matrix for those who cannot see it."""
    led = data.primaries.sum(axis=1)
    if not led.size:
        return "No node is known."
    most, least = int(led.argmax()), int(led.argmin())
    lacking = int(np.maximum(data.missing, 0).sum())
    rest = f"; {counted(lacking, 'replica')} missing" if lacking else ""
    return (
        f"{data.nodes[most]} leads most with {led[most]}, {data.nodes[least]} least with "
        f"{led[least]}{rest}."
    )


# -- list ---------------------------------------------------------------------------------------


def partitions_frame(facts: PegasusFacts, rows: Rows) -> tuple[pd.DataFrame, list[Outlook]]:
    """Return one row a partition, and what comes next for those that are not healthy.

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
    """Return an action as upstream calls it, with the node whose role changes."""
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


def lost_sentences(one: Outlook) -> list[str]:
    """Return what the meta server says, what it does next, and whom the shell would choose."""
    config = one.config
    told = {
        None: "The meta server's diagnosis does not name it.",
        "": "The meta server names it without a reason (a known fault of its own).",
    }.get(one.told_reason, f"The meta server says: {one.told_reason}")
    found = [told, f"Next: {one.cure.reason}"]
    if one.choice is None:
        found.append("`ddd_diagnose` recommends nobody: nothing was diagnosed of former members.")
    elif one.choice.node is None:
        found.append(f"`ddd_diagnose` recommends nobody. {one.choice.reason}")
    else:
        found.append(f"`ddd_diagnose` recommends {one.choice.node}: {one.choice.reason}")
    if config.last_drops:
        found.append(f"Last drops, the latest last: {', '.join(config.last_drops)}.")
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
