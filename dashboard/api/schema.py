"""JSON schemas of answers, from the types that declare them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, get_type_hints, is_typeddict

import msgspec
import pyarrow as pa

from core.errors import OpsError
from core.operations.operation import Answer, Operation
from core.table import Column

TEXT: Final = {"type": "string"}
INTEGER: Final = {"type": "integer"}
_JSON_TYPES: Final[Mapping[pa.DataType, str]] = {
    pa.int64(): "integer",
    pa.float64(): "number",
    pa.bool_(): "boolean",
    pa.string(): "string",
}
_ATTRIBUTE: Final = re.compile(r"^(\w+): ((?:.|\n +)+)", re.MULTILINE)


def answer_schema(operation: Operation[Any, Any]) -> dict[str, Any]:
    """Return the schema of an operation's JSON: of each system's answer, where they differ."""
    kinds = {_answer_type(function): None for function in operation.answers.values()}
    found = [_of_answer(one, operation) for one in kinds]
    return found[0] if len(found) == 1 else {"anyOf": found}


def _answer_type(function: Any) -> type[Answer]:
    """Return the type of a function's answer; other annotations may be for type checkers only."""
    found: type[Answer] = function.__globals__[function.__annotations__["return"]]
    return found


def _of_answer(answer: type[Answer], operation: Operation[Any, Any]) -> dict[str, Any]:
    """Return the schema of one type of answer.

    A body without declared keys has the tables of the operation.
    """
    own = answer.body is not Answer.body
    keys = get_type_hints(answer.body)["return"] if own else answer
    is_declared = not own or is_typeddict(keys)
    empty: dict[str, Any] = {"type": "object", "properties": {}}
    schema = object_schema(keys) if is_declared else empty
    properties: dict[str, Any] = schema["properties"]
    for name, columns in operation.columns.items():
        if name in properties or not is_declared:
            properties[name] = properties.get(name, {}) | rows_schema(columns.columns)
    properties["warnings"] = {
        "type": "array",
        "items": TEXT,
        "description": "Parts of the request that were ignored, with the reason.",
    }
    return schema


def object_schema(keys: Any) -> dict[str, Any]:
    """Return the schema of a typed dictionary or a dataclass, with the texts of its docstring."""
    found: dict[str, Any] = {"type": "object", "properties": {}}
    texts = dict(_ATTRIBUTE.findall(_dedented(keys.__doc__)))
    for name, hint in get_type_hints(keys).items():
        schema = schema_of_type(hint)
        text = " ".join(texts.get(name, "").replace("``", "").split())
        found["properties"][name] = schema | ({"description": text} if text else {})
    always = getattr(keys, "__required_keys__", found["properties"])
    found["required"] = [name for name in found["properties"] if name in always]
    return found


def schema_of_type(hint: Any) -> dict[str, Any]:
    """Return the schema of a type; those that it names are put into it."""
    (schema,), named = msgspec.json.schema_components(
        [hint], schema_hook=_schema_hook, ref_template="{name}"
    )
    whole: dict[str, Any] = _inlined(schema, named)
    return whole


def _inlined(schema: Any, named: Mapping[str, Any]) -> Any:
    if isinstance(schema, list):
        return [_inlined(one, named) for one in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        return _inlined(named[schema["$ref"]], named)
    return {name: _inlined(one, named) for name, one in schema.items()}


def _dedented(text: str | None) -> str:
    _, _, attributes = (text or "").partition("Attributes:\n")
    return "\n".join(line.removeprefix("        ") for line in attributes.splitlines())


def _schema_hook(kind: type) -> dict[str, Any]:
    if issubclass(kind, pa.Table):
        return {"type": "array", "items": {"type": "object"}}
    return TEXT if issubclass(kind, OpsError) else {}  # an error is its message


def rows_schema(columns: Iterable[Column]) -> dict[str, Any]:
    """Return the schema of a table's rows."""
    properties = {one.name: _property(one) for one in columns}
    return {"type": "array", "items": {"type": "object", "properties": properties}}


def _property(column: Column) -> dict[str, Any]:
    kind = _JSON_TYPES[column.field.type]
    unit = (column.field.metadata or {}).get(b"unit", b"").decode()
    texts = {"title": column.label, "description": column.help, "x-unit": unit}
    return {
        "type": kind if column.none is None else [kind, "null"],
        **{name: text for name, text in texts.items() if text},
    }
