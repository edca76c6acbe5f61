"""Forms made of what a kind of job takes: one field a property of its model."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from core.errors import InputError

if TYPE_CHECKING:
    from dashboard.services_jobs import JobKind

Form = Literal["choice", "choices", "flag", "whole", "number", "percent", "text", "texts", "json"]

_ATTRIBUTE: Final = re.compile(r"^ {8}(\w+): (.+(?:\n {12,}.+)*)", re.MULTILINE)
CLUSTER_FIELDS: Final = ("cluster", "clusters")
_LABELS: Final = {
    "at": "At (UTC)",
    "from": "From (UTC)",
    "to": "To (UTC)",
    "start": "From (UTC)",
    "end": "To (UTC)",
    "hot_line": "Hot from",
    "side_minutes": "Averaged before and after, minutes",
    "settle_minutes": "Left out after a move, minutes",
    "file": "File of topics",
}
_OPEN: Final = {"at": "now", "start": "from the start", "end": "to the end"}
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
        kind: Of job.
        clusters: Names of those that are configured.
        chosen: The one that the header shows.
    """
    schema = kind.asks.model_json_schema(by_alias=True)
    told = _attributes(kind)
    needed = set(schema.get("required", ()))
    found = []
    for name, raw in schema.get("properties", {}).items():
        whole = {"description": told.get(name, ""), **_resolved(raw, schema)}
        field = _field(name, whole, is_needed=name in needed)
        if name in CLUSTER_FIELDS:
            field = _of_clusters(field, clusters, chosen)
        found.append(field)
    return tuple(found)


def _attributes(kind: JobKind) -> dict[str, str]:
    """Return what the docstrings of a model, and of those it is made of, say of its fields."""
    found: dict[str, str] = {}
    for model in reversed(kind.asks.__mro__):
        _, _, listed = (model.__doc__ or "").partition("Attributes:")
        for name, text in _ATTRIBUTE.findall(listed):
            found[name] = " ".join(text.split()).replace("``", "").replace("None:", "nothing:")
    return found


def _resolved(raw: Mapping[str, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a property with what it refers to, its null alternative left out."""
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
    told = str(raw.get("description") or "").replace("\n", " ")
    return f"{told} Written as in {_EXAMPLE}." if raw.get("format") == "date-time" else told


def _hint(name: str, raw: Mapping[str, Any]) -> str:
    if raw.get("format") == "date-time":
        return f"empty: {_OPEN.get(name, 'any')}"
    return "whole path on the server" if raw.get("format") == "path" else ""


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
        help=field.help or ("None: all that are known." if many else ""),
        form="choices" if many else "choice",
        default=[chosen] if many and chosen else chosen,
        options=tuple(clusters),
        is_needed=field.is_needed,
    )


def asked_of(fields: Sequence[Field], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is sent: what differs from nothing, texts read as their field's type.

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
                    f"{field.label} is not JSON: {exc}.", hint='Write for example {"key": [1, 2]}.'
                ) from exc
        found[field.name] = value
    return found
