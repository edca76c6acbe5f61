"""Numbers and texts of the Jobs page: fields of a form, columns, units and shapes of a result."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from core.errors import InputError
from core.units import pluralize

if TYPE_CHECKING:
    from dashboard.services.jobs import JobKind


# -- fields of a form ------------------------------------------------------------------------------

Form = Literal["choice", "choices", "flag", "whole", "number", "percent", "text", "texts", "json"]

_ATTRIBUTE: Final = re.compile(r"^ {8}(\w+): (.+(?:\n {12,}.+)*)", re.MULTILINE)
CLUSTER_FIELDS: Final = ("cluster", "clusters")
ADVANCED: Final = ("engine", "workers", "seed", "seeds", "settings")
"""Fields that few need: they fold away."""
_LABELS: Final = {
    "at": "At (UTC)",
    "from": "From (UTC)",
    "to": "To (UTC)",
    "start": "From (UTC)",
    "end": "To (UTC)",
    "side_minutes": "Compared minutes",
    "settle_minutes": "Settling time (min)",
    "file": "Topic file",
}
_OPEN: Final = {"at": "now", "start": "start", "end": "end"}
_EXAMPLE: Final = "2026-11-21T14:00:00Z"


@dataclass(frozen=True, kw_only=True)
class Field:
    """One field of a form.

    Attributes:
        name: As the model has it.
        label: For people.
        help: What it means.
        form: Which widget.
        default: What holds when nothing is given; ``None``: nothing.
        options: Of a choice.
        low: Least number, ``None``: any.
        high: Greatest number, ``None``: any.
        is_needed: It has no default.
        is_time: A text that holds a time.
        hint: Stands in the empty field, and cannot be taken for a value.
    """

    name: str
    label: str
    help: str
    form: Form
    default: Any = None
    options: tuple[str, ...] = ()
    low: float | None = None
    high: float | None = None
    is_needed: bool = False
    is_time: bool = False
    hint: str = ""


def fields_of(kind: JobKind, clusters: Sequence[str], chosen: str) -> tuple[Field, ...]:
    """Return the fields of a kind's form.

    Args:
        clusters: Names of those that are configured.
        chosen: The one that the header shows.
    """
    schema = kind.schema()
    described = _attributes(kind)
    needed = set(schema.get("required", ()))
    found = []
    for name, raw in schema.get("properties", {}).items():
        whole = {"description": described.get(name, ""), **_resolved(raw, schema)}
        field = _field(name, whole, is_needed=name in needed)
        if name in CLUSTER_FIELDS:
            field = _of_clusters(field, clusters, chosen)
        found.append(field)
    return tuple(found)


def _attributes(kind: JobKind) -> dict[str, str]:
    """Return the descriptions of a model's fields from its docstring and those of its bases."""
    found: dict[str, str] = {}
    for model in reversed(kind.scope.__mro__):
        _, _, listed = (model.__doc__ or "").partition("Attributes:")
        for name, text in _ATTRIBUTE.findall(listed):
            found[name] = " ".join(text.split()).replace("``", "").replace("None:", "nothing:")
    return found


def _resolved(raw: Mapping[str, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a property with its references resolved, without its null alternative."""
    merged = dict(raw)
    for part in raw.get("allOf", ()):
        merged |= _resolved(part, schema)
    if "$ref" in merged:
        name = str(merged.pop("$ref")).rpartition("/")[2]
        merged = {**_resolved(schema.get("$defs", {}).get(name, {}), schema), **merged}
    kinds = [one for one in raw.get("anyOf", ()) if one.get("type") != "null"]
    if len(kinds) == 1:
        merged = {**_resolved(kinds[0], schema), **{k: v for k, v in raw.items() if k != "anyOf"}}
    return merged


def _field(name: str, raw: Mapping[str, Any], *, is_needed: bool) -> Field:
    low = raw.get("minimum", raw.get("exclusiveMinimum"))
    high = raw.get("maximum", raw.get("exclusiveMaximum"))
    title = str(raw.get("title") or "")
    plain = name.replace("_", " ").strip().capitalize()
    generated = title.lower() == plain.lower() or not title
    return Field(
        name=name,
        label=_LABELS.get(name, plain) if generated else title,
        help=_help(raw),
        form=_form(raw),
        default=raw.get("default"),
        options=_options(raw),
        low=None if low is None else float(low),
        high=None if high is None else float(high),
        is_needed=is_needed,
        is_time=raw.get("format") == "date-time",
        hint=_hint(name, raw),
    )


def _help(raw: Mapping[str, Any]) -> str:
    described = str(raw.get("description") or "").replace("\n", " ")
    return f"{described} Format: {_EXAMPLE}." if raw.get("format") == "date-time" else described


def _hint(name: str, raw: Mapping[str, Any]) -> str:
    if raw.get("format") == "date-time":
        return f"empty: {_OPEN.get(name, 'any')}"
    return "absolute path on the server" if raw.get("format") == "path" else ""


def missing_of(fields: Sequence[Field], given: Mapping[str, Any]) -> list[str]:
    """Return the labels of fields that are needed and empty."""
    return [
        field.label for field in fields if field.is_needed and given.get(field.name) in (None, "")
    ]


def _form(raw: Mapping[str, Any]) -> Form:
    kind = raw.get("type")
    if raw.get("unit") == "ratio":
        return "percent"
    if "enum" in raw or "const" in raw:
        return "choice"
    if kind == "array":
        items = raw.get("items", {})
        if "enum" in items:
            return "choices"
        return "texts" if items.get("type") in ("string", "integer", "number") else "json"
    forms: Mapping[object, Form] = {
        "boolean": "flag",
        "integer": "whole",
        "number": "number",
        "string": "text",
    }
    return forms.get(kind, "json")


def _options(raw: Mapping[str, Any]) -> tuple[str, ...]:
    source = raw.get("items", {}) if raw.get("type") == "array" else raw
    values = source.get("enum", [source["const"]] if "const" in source else [])
    return tuple(str(value) for value in values)


def _of_clusters(field: Field, clusters: Sequence[str], chosen: str) -> Field:
    many = field.form in ("texts", "choices")
    return Field(
        name=field.name,
        label="Clusters" if many else "Cluster",
        help=field.help or ("Empty: all clusters." if many else ""),
        form="choices" if many else "choice",
        default=[chosen] if many and chosen else chosen,
        options=tuple(clusters),
        is_needed=field.is_needed,
    )


def parameters_of(fields: Sequence[Field], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters to send: fields with a value, texts parsed as their field's type.

    Args:
        fields: Of the form.
        given: Value of each widget by the field's name.
    Raises:
        InputError: Something that should be JSON is not.
    """
    found: dict[str, Any] = {}
    for field in fields:
        value = given.get(field.name)
        if value is None or (isinstance(value, str | list) and not value):
            continue
        if field.form == "json" and isinstance(value, str):
            try:
                value = json.loads(value)
            except ValueError as exc:
                raise InputError(
                    f"{field.label} must be JSON: {exc}.",
                    hint='Enter JSON, for example {"key": [1, 2]}.',
                ) from exc
        found[field.name] = value
    return found


# -- columns and shape of a result table -----------------------------------------------------------

ColumnForm = Literal[
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
_FORMS: Final[Mapping[ColumnForm, re.Pattern[str]]] = {
    "percent": re.compile(r"(_ratio|_share|probability)$|deviation"),
    "megabytes": re.compile(r"bytes_per_s|throughput$"),
    "rate": re.compile(r"msgs_per_s|msg_rate$"),
    "milliseconds": re.compile(r"_ms$"),
    "seconds": re.compile(r"_s$"),
}
_UNITS: Final[Mapping[ColumnForm, str]] = {
    "percent": "ratio",
    "megabytes": "bytes/s",
    "rate": "msg/s",
    "requests": "req/s",
    "seconds": "s",
}
_NAMES: Final[Mapping[str, str]] = {
    "starts_at": "From",
    "taken_at": "Snapshot",
    "max": "Max",
    "p95": "p95",
    "worst_p95": "Worst p95",
    "topic_count": "Topics",
    "topics_mean": "Topics per bundle",
    "topics_max": "Max per bundle",
    "flow": "Throughput",
    "flow_max": "Busiest bundle",
    "largest_share": "Busiest bundle share",
    "busiest_flow": "Busiest server",
    "idlest_flow": "Idlest server",
    "deviation_p95": "Deviation p95",
    "deviation_max": "Max deviation",
    "uneven_share": "Minutes over 20%",
    "change_ratio": "Relative change",
    "dwell_ms": "Time away",
    "shortest_dwell_ms": "Min time away",
    "left_at": "Left at",
    "returned_at": "Returned at",
    "flaps": "Returned",
    "landed": "Destination",
    "leads": "Leader",
    "took_s": "Duration",
    "took_ms": "Duration",
    "wanted": "Expected",
}
"""Column headers that differ from the name of the field."""
_EPOCH_MS: Final = 1e11
"""Greater whole numbers in a column that is named like a time are milliseconds since the epoch."""

MOST_GROUPS: Final = 7
MOST_BARS: Final = 30
MOST_POINTS: Final = 20_000


@dataclass(frozen=True, slots=True)
class ResultColumn:
    """Display format of a column."""

    name: str
    label: str
    form: ColumnForm


def shown_columns(table: pa.Table) -> tuple[ResultColumn, ...]:
    """Return the display format of each column of a table from its name, unit and values."""
    return tuple(
        ResultColumn(field.name, _label(field.name), _column_form(field, table.column(field.name)))
        for field in table.schema
    )


def labels_of(table: pa.Table) -> dict[str, str]:
    """Return the label of each column by its name."""
    return {name: _label(name) for name in table.schema.names}


def _column_form(field: pa.Field, values: pa.ChunkedArray) -> ColumnForm:
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
    plain: ColumnForm = "count" if pt.is_integer(kind) else "number"
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


def frame_of(table: pa.Table, columns: tuple[ResultColumn, ...]) -> pd.DataFrame:
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
    """Return the number of rows in total, matching and shown."""
    if matching is None:
        return f"{pluralize(total, 'row')}; first {shown:,} matches shown."
    if matching == total and shown == total:
        return f"{pluralize(total, 'row')}."
    cut = f"; first {shown:,} shown" if shown < matching else ""
    return f"{matching:,} of {pluralize(total, 'row')} match{cut}."


@dataclass(frozen=True, slots=True)
class Charts:
    """Columns of a table that can be charted.

    Attributes:
        time: Column of the times; empty: bars instead of lines.
        quantities: Columns that can be drawn.
        groups: Columns that tell lines or bars apart.
    """

    time: str
    quantities: tuple[ResultColumn, ...]
    groups: tuple[str, ...]

    @property
    def is_any(self) -> bool:
        """Whether there is something to draw."""
        return bool(self.quantities and (self.time or self.groups))


def charts_of(table: pa.Table, columns: tuple[ResultColumn, ...]) -> Charts:
    """Return the columns of a table that can be charted."""
    time = next((column.name for column in columns if column.form == "time"), "")
    numeric = tuple(
        column
        for column in columns
        if column.form not in ("text", "flag", "time")
        and not column.name.endswith(("number", "_id"))
    )
    groups = tuple(
        column.name
        for column in columns
        if column.form == "text" and not table.schema.field(column.name).type.equals(pa.null())
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
    remaining = rows[rows[group].isin(sums.index)]
    wide = remaining.pivot_table(index=charts.time, columns=group, values=value, aggfunc="mean")
    step = max(1, -(-wide.size // MOST_POINTS))
    return pd.DataFrame(wide[list(sums.index)].iloc[::step])


def bars_of(frame: pd.DataFrame, value: str, group: str) -> pd.Series:
    """Return the mean of a column by group, the greatest ones."""
    rows = frame[frame[value].notna()]
    return pd.Series(rows.groupby(group)[value].mean().nlargest(MOST_BARS))


# -- result tables of which each row has a unit of its own: trends, gaps, top movers, hot bundles --
# Their numbers are those of core.history.analysis.trends.answer; for people the measures get plain
# names, and the numbers the unit that they are shown in, in the column's head where all rows agree.

KIND: Final = "kind"
MEASURE: Final = "measure"
UNIT: Final = "unit"


@dataclass(frozen=True, slots=True)
class MeasureLabel:
    """A measure for people.

    Attributes:
        name: In plain words.
        unit: That it is recorded in; empty: a number of things.
    """

    name: str
    unit: str


MEASURES: Final[Mapping[str, MeasureLabel]] = {
    "msg_throughput": MeasureLabel("throughput", "bytes/s"),
    "msg_rate": MeasureLabel("message rate", "msg/s"),
    "usage": MeasureLabel("usage of the busiest resource", "ratio"),
    "bundle_count": MeasureLabel("bundles", ""),
    "topic_count": MeasureLabel("topics", ""),
    "client_count": MeasureLabel("clients", ""),
    "read_rate": MeasureLabel("reads", "req/s"),
    "write_rate": MeasureLabel("writes", "req/s"),
    "request_rate": MeasureLabel("requests", "req/s"),
    "memory_mb": MeasureLabel("memory", "MB"),
    "replica_count": MeasureLabel("replicas", ""),
    "primary_count": MeasureLabel("primaries", ""),
    "deviation": MeasureLabel("max deviation", "ratio"),
    "gap": MeasureLabel("gap between busiest and idlest", "bytes/s"),
    "request_gap": MeasureLabel("gap between busiest and idlest", "req/s"),
    "usage_spread": MeasureLabel("max usage above mean", "ratio"),
    "uneven": MeasureLabel("minutes over 20%", "ratio"),
}
"""What trends tell, by the name that they are recorded under."""

_FLOW: Final = {"broker": "bytes/s", "bundle": "bytes/s", "node": "req/s", "table": "req/s"}
"""What subjects of each kind are busy by; of the cluster as a whole each measure says it."""

_NUMBERS: Final = (
    *("mean", "max", "p95", "worst_p95", "before", "after", "change"),
    *("busiest_flow", "idlest_flow", "gap"),
)
_SHOWN: Final = {"ratio": ("%", 100.0), "bytes/s": ("MB/s", 1e-6)}


def is_mixed(table: pa.Table) -> bool:
    """Return whether each row of a table has a unit of its own."""
    if KIND not in table.schema.names or not table.num_rows:
        return False
    if MEASURE in table.schema.names:
        return _are_all(table[MEASURE], MEASURES)
    return _are_all(table[KIND], _FLOW) and any(name in _NUMBERS for name in table.schema.names)


def _are_all(column: pa.ChunkedArray, known: Mapping[str, object]) -> bool:
    return set(pc.unique(column).to_pylist()) <= set(known)


def measures_of(table: pa.Table) -> list[tuple[str, str]]:
    """Return ``(kind, measure)`` of a table of several units, sorted; the measure may be empty."""
    if not is_mixed(table):
        return []
    if MEASURE not in table.schema.names:
        kinds = sorted(set(pc.unique(table[KIND]).to_pylist()))
        return [(kind, "") for kind in kinds] if len({_FLOW[kind] for kind in kinds}) > 1 else []
    pairs = table.select([KIND, MEASURE]).group_by([KIND, MEASURE]).aggregate([])
    return sorted(zip(pairs[KIND].to_pylist(), pairs[MEASURE].to_pylist(), strict=True))


def words_of(kind: str, measure: str) -> str:
    """Return the label of a measure of a kind."""
    return f"{kind}: {MEASURES[measure].name}" if measure else f"{kind}s"


def only(table: pa.Table, kind: str, measure: str) -> pa.Table:
    """Return the rows of one measure."""
    remaining = table.filter(pc.equal(table[KIND], kind))
    return remaining.filter(pc.equal(remaining[MEASURE], measure)) if measure else remaining


def as_recorded(text: str) -> str:
    """Return the recorded name of a measure for the label that a user enters."""
    wanted = text.strip().lower()
    if not wanted:
        return text
    found = (raw for raw, described in MEASURES.items() if described.name.startswith(wanted))
    return next((raw for raw in found if wanted not in raw), text)


def described(table: pa.Table) -> pa.Table:
    """Return a table as people read it: plain names, and units in heads or in a column.

    Where all rows have one unit, the columns of numbers carry it (and are scaled where they are
    shown); else the numbers are scaled here, and a column says the unit of each row.
    """
    if not is_mixed(table):
        return table
    recorded = _units(table)
    if MEASURE in table.schema.names:
        raw = table[MEASURE].to_pylist()
        named = pa.array([MEASURES[one].name for one in raw], pa.string())
        table = table.set_column(table.schema.get_field_index(MEASURE), MEASURE, named)
    if np.unique(recorded).size == 1:
        return _with_unit(table, str(recorded[0]))
    return _with_column(table, recorded)


def _units(table: pa.Table) -> np.ndarray:
    """The unit of each row, as recorded."""
    by_measure = MEASURE in table.schema.names
    names = table[MEASURE if by_measure else KIND].combine_chunks().dictionary_encode()
    known = names.dictionary.to_pylist()
    units = [MEASURES[one].unit if by_measure else _FLOW[one] for one in known]
    found: np.ndarray = np.array(units, dtype=object)[names.indices.to_numpy(zero_copy_only=False)]
    return found


def _with_unit(table: pa.Table, unit: str) -> pa.Table:
    fields = [
        one.with_metadata({"unit": unit}) if one.name in _NUMBERS and unit else one
        for one in table.schema
    ]
    return table.cast(pa.schema(fields))


def _with_column(table: pa.Table, recorded: np.ndarray) -> pa.Table:
    factors = np.array([_SHOWN.get(one, (one, 1.0))[1] for one in recorded])
    for at, name in enumerate(table.schema.names):
        if name in _NUMBERS:
            values = table[name].to_numpy() * factors
            table = table.set_column(at, name, pa.array(values, pa.float64(), from_pandas=True))
    shown = pa.array([_SHOWN.get(one, (one, 1.0))[0] for one in recorded], pa.string())
    at = table.schema.get_field_index(MEASURE if MEASURE in table.schema.names else KIND)
    return table.add_column(at + 1, UNIT, shown)
