"""Result tables of jobs for people: what each column is, and which chart shows its shape."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from core.units import counted

Form = Literal[
    "text",
    "count",
    "number",
    "percent",
    "megabytes",
    "rate",
    "requests",
    "seconds",
    "milliseconds",
    "time",
    "flag",
]

_TIMES: Final = (
    "_at",
    "_ms",
    "minute",
    "hour",
    "day",
    "start",
    "end",
    "from",
    "to",
    "first",
    "last",
)
_FORMS: Final[Mapping[Form, re.Pattern[str]]] = {
    "percent": re.compile(r"(_ratio|_share|probability)$|deviation"),
    "megabytes": re.compile(r"bytes_per_s|throughput$"),
    "rate": re.compile(r"msgs_per_s|msg_rate$"),
    "milliseconds": re.compile(r"_ms$"),
    "seconds": re.compile(r"_s$"),
}
_UNITS: Final[Mapping[Form, str]] = {
    "percent": "ratio",
    "megabytes": "bytes/s",
    "rate": "msg/s",
    "requests": "req/s",
    "seconds": "s",
}
_NAMES: Final[Mapping[str, str]] = {
    "starts_at": "From",
    "taken_at": "Seen at",
    "max": "Maximum",
    "p95": "95th percentile",
    "worst_p95": "Worst 95th percentile",
    "topic_count": "Topics",
    "topics_mean": "Topics a bundle",
    "topics_max": "Most in a bundle",
    "flow": "Throughput",
    "flow_max": "In its busiest bundle",
    "largest_share": "Share of its busiest bundle",
    "busiest_flow": "Busiest carried",
    "idlest_flow": "Idlest carried",
    "deviation_p95": "Deviation, 95th percentile",
    "deviation_max": "Deviation at worst",
    "uneven_share": "Uneven minutes",
    "change_ratio": "Relative change",
    "dwell_ms": "Stayed away",
    "shortest_dwell_ms": "Shortest away",
    "left_at": "Left at",
    "back_at": "Back at",
    "flaps": "Came back",
}
"""What columns are called whose name does not say it."""
_EPOCH_MS: Final = 1e11
"""Greater whole numbers in a column that is named like a time are milliseconds since the epoch."""

MOST_GROUPS: Final = 7
MOST_BARS: Final = 30
MOST_POINTS: Final = 20_000


@dataclass(frozen=True, slots=True)
class Shown:
    """How a column is shown."""

    name: str
    label: str
    form: Form


def shown_columns(table: pa.Table) -> tuple[Shown, ...]:
    """Return how each column of a table is shown, told by its name, unit and values."""
    return tuple(
        Shown(field.name, _label(field.name), _form(field, table.column(field.name)))
        for field in table.schema
    )


def labels_of(table: pa.Table) -> dict[str, str]:
    """Return what each column is called, by its name."""
    return {name: _label(name) for name in table.schema.names}


def _form(field: pa.Field, values: pa.ChunkedArray) -> Form:
    kind = field.type
    if pt.is_timestamp(kind) or pt.is_date(kind):
        return "time"
    if pt.is_boolean(kind):
        return "flag"
    if not (pt.is_integer(kind) or pt.is_floating(kind) or pt.is_decimal(kind)):
        return "text"
    if pt.is_integer(kind) and field.name.endswith(_TIMES) and _is_epoch(values):
        return "time"
    unit = (field.metadata or {}).get(b"unit", b"").decode()
    plain: Form = "count" if pt.is_integer(kind) else "number"
    for form, known in _UNITS.items():
        if unit == known:
            return form
    return next((form for form, rule in _FORMS.items() if rule.search(field.name)), plain)


def _is_epoch(values: pa.ChunkedArray) -> bool:
    first = next((value for value in values.slice(0, 50).to_pylist() if value is not None), None)
    return first is not None and first > _EPOCH_MS


def _label(name: str) -> str:
    """Return ``moved_bytes_per_s_per_day`` as ``moved per day``."""
    if name in _NAMES:
        return _NAMES[name]
    plain = (
        name.removesuffix("_ratio")
        .removesuffix("_ms")
        .replace("_bytes_per_s", "")
        .replace("_msgs_per_s", "")
    )
    return plain.replace("_at", "").replace("_", " ").strip().capitalize() or name


def frame_of(table: pa.Table, columns: tuple[Shown, ...]) -> pd.DataFrame:
    """Return the rows as they are shown: ratios in percent, throughput in MB/s, times as times."""
    frame: pd.DataFrame = table.to_pandas()
    for column in columns:
        values = frame[column.name]
        if column.form == "percent":
            frame[column.name] = values * 100
        elif column.form == "megabytes":
            frame[column.name] = values / 1e6
        elif column.form == "milliseconds":
            frame[column.name] = values / 1e3
        elif column.form == "time" and pd.api.types.is_numeric_dtype(values):
            frame[column.name] = pd.to_datetime(values, unit="ms", utc=True)
        elif column.form == "text":
            frame[column.name] = values.map(lambda value: None if value is None else str(value))
    return frame


def counts(matching: int | None, total: int, shown: int) -> str:
    """Return how many rows there are, match and are shown."""
    if matching is None:
        return f"{counted(total, 'row')}; the first {shown:,} that match are shown."
    if matching == total and shown == total:
        return f"{counted(total, 'row')}."
    cut = f"; the first {shown:,} of them are shown" if shown < matching else ""
    return f"{matching:,} of {counted(total, 'row')} match{cut}."


@dataclass(frozen=True, slots=True)
class Charts:
    """What may be drawn of a table.

    Attributes:
        time: Column of the times; empty: bars instead of lines.
        quantities: Columns that can be drawn.
        groups: Columns that tell lines or bars apart.
    """

    time: str
    quantities: tuple[Shown, ...]
    groups: tuple[str, ...]

    @property
    def is_any(self) -> bool:
        """Whether there is something to draw."""
        return bool(self.quantities and (self.time or self.groups))


def charts_of(table: pa.Table, columns: tuple[Shown, ...]) -> Charts:
    """Return what may be drawn of a table."""
    time = next((one.name for one in columns if one.form == "time"), "")
    numeric = tuple(
        one
        for one in columns
        if one.form not in ("text", "flag", "time") and not one.name.endswith(("number", "_id"))
    )
    groups = tuple(
        one.name
        for one in columns
        if one.form == "text" and not table.schema.field(one.name).type.equals(pa.null())
    )
    several = table.num_rows > 1
    is_course = bool(time) and pc.count_distinct(table[time]).as_py() > 1
    return Charts(time if is_course else "", numeric if several else (), groups)


def lines_of(frame: pd.DataFrame, charts: Charts, value: str, group: str) -> pd.DataFrame:
    """Return a column a line over the times: the groups with the greatest sums, mean in each time.

    Args:
        frame: As shown.
        charts: What may be drawn.
        value: Column that is drawn.
        group: Column that tells lines apart; empty: one line.
    """
    rows = frame[frame[value].notna()]
    if not group:
        return pd.DataFrame(rows.groupby(charts.time)[[value]].mean())
    sums = rows.groupby(group)[value].sum().nlargest(MOST_GROUPS)
    kept = rows[rows[group].isin(sums.index)]
    wide = kept.pivot_table(index=charts.time, columns=group, values=value, aggfunc="mean")
    step = max(1, -(-wide.size // MOST_POINTS))
    return pd.DataFrame(wide[list(sums.index)].iloc[::step])


def bars_of(frame: pd.DataFrame, value: str, group: str) -> pd.Series:
    """Return the mean of a column by group, the greatest ones."""
    rows = frame[frame[value].notna()]
    return pd.Series(rows.groupby(group)[value].mean().nlargest(MOST_BARS))
