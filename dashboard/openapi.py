"""The description of the HTTP interface: OpenAPI 3.1, and the same as a page for people."""

from __future__ import annotations

import html
import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

import pyarrow as pa

from core.operations.operation import Operation
from core.operations.registry import operations
from core.request import schema_of
from core.table import Column

VERSION: Final = "1"
LIMIT_A_MINUTE: Final = 240
"""Requests of one caller."""

_JSON_TYPES: Final[Mapping[pa.DataType, str]] = {
    pa.int64(): "integer",
    pa.float64(): "number",
    pa.bool_(): "boolean",
    pa.string(): "string",
}
_TEXT: Final = {"type": "string"}
_ERRORS: Final = {
    "400": "A parameter is unknown, or its value does not fit.",
    "401": "The API token is missing.",
    "403": "The API token is unknown or expired, or its user has no role on the cluster.",
    "404": "There is no such operation or cluster.",
    "409": "The cluster has no snapshot, or its snapshot lacks what the operation needs.",
    "429": f"More than {LIMIT_A_MINUTE} requests a minute.",
    "500": "The computation failed.",
    "503": "The configuration cannot be read.",
}
_EXAMPLES: Final = {"cluster": "sandbox", "namespace": "acme/orders"}


@lru_cache(maxsize=1)
def document() -> dict[str, Any]:
    """Return the OpenAPI document; callers do not change it."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Trimtab",
            "version": VERSION,
            "description": "Read-only operations on the newest snapshot of each cluster.",
        },
        "security": [{"token": []}, {}],
        "paths": {
            "/api/v1/clusters": {"get": _clusters()},
            **{
                f"/api/v1/{one.name}/{{cluster}}": {"get": _operation(one)}
                for one in operations().values()
            },
        },
        "components": {
            "securitySchemes": {
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "API token of `trimtab tokens create`; only with sign-in.",
                }
            },
            "schemas": {"Problem": _problem()},
        },
    }


def _clusters() -> dict[str, Any]:
    names = ("name", "kind", "environment", "group")
    properties: dict[str, Any] = {
        **dict.fromkeys(names, _TEXT),
        "tags": {"type": "array", "items": _TEXT},
        "snapshot_id": {"type": ["string", "null"]},
        "taken_at": {"type": ["string", "null"], "format": "date-time"},
    }
    row = {"type": "object", "properties": properties, "required": list(properties)}
    body = {
        "type": "object",
        "properties": {"clusters": {"type": "array", "items": row}},
        "required": ["clusters"],
    }
    return {
        "operationId": "clusters",
        "summary": "List the clusters, with the newest snapshot of each.",
        "responses": {"200": _json("The clusters.", body), **_errors("401", "403", "429", "503")},
    }


def _operation(operation: Operation[Any, Any]) -> dict[str, Any]:
    schema = schema_of(operation.request)
    required = schema.get("required", [])
    parameters = [
        {**_parameter("cluster", _TEXT, "Name of the cluster."), "in": "path", "required": True},
        *(
            _parameter(name, one, one.get("description", ""), is_required=name in required)
            for name, one in schema["properties"].items()
        ),
    ]
    if operation.can_assume:
        pairs = {"type": "array", "items": _TEXT}
        parameters += [
            _parameter("set", pairs, "Setting to assume, as KEY=VALUE. Repeatable."),
            _parameter("release", _TEXT, "Pulsar release to assume."),
        ]
    tables = {name: _rows(one.columns) for name, one in operation.columns.items()}
    summary, _, details = operation.help.partition("\n")
    return {
        "operationId": operation.name.replace("-", "_"),
        "summary": summary,
        "description": " ".join(details.split()),
        "parameters": parameters,
        "responses": {
            "200": {
                **_json("The answer.", {"type": "object", "properties": tables}),
                "headers": {
                    "ETag": {"description": "Id of the snapshot.", "schema": _TEXT},
                    "Trimtab-Snapshot-Taken-At": {
                        "description": "Time of the snapshot.",
                        "schema": {"type": "string", "format": "date-time"},
                    },
                },
            },
            "304": {"description": "The snapshot is that of If-None-Match."},
            **_errors(*_ERRORS),
        },
    }


def _parameter(
    name: str, schema: Mapping[str, Any], description: str, *, is_required: bool = False
) -> dict[str, Any]:
    parameter: dict[str, Any] = {
        "name": name,
        "in": "query",
        "required": is_required,
        "description": description,
        "schema": schema,
    }
    return parameter | ({"example": _EXAMPLES[name]} if name in _EXAMPLES else {})


def _rows(columns: tuple[Column, ...]) -> dict[str, Any]:
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


def _json(description: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    return {"description": description, "content": {"application/json": {"schema": schema}}}


def _errors(*statuses: str) -> dict[str, Any]:
    schema = {"$ref": "#/components/schemas/Problem"}
    return {
        one: {
            "description": _ERRORS[one],
            "content": {"application/problem+json": {"schema": schema}},
        }
        for one in statuses
    }


def _problem() -> dict[str, Any]:
    texts = ("type", "title", "detail", "code", "hint")
    properties = {**dict.fromkeys(texts, _TEXT), "status": {"type": "integer"}}
    return {"type": "object", "properties": properties, "required": list(properties)}


_PAGE: Final = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>HTTP interface · Trimtab</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
:root {{ color-scheme: light dark; --ground: #fff; --text: #17222b; --muted: #5b6872;
  --line: #d5dce1; --accent: #0b6478; --code: #f3f5f6; }}
@media (prefers-color-scheme: dark) {{ :root {{ --ground: #10161b; --text: #e3e9ed;
  --muted: #98a5af; --line: #2e3942; --accent: #6cc3d8; --code: #1a2229; }} }}
body {{ margin: 0 auto; max-width: 60rem; padding: 1.5rem; background: var(--ground);
  color: var(--text); font: 15px/1.5 system-ui, sans-serif; }}
h1 {{ font-size: 1.5rem; }} h2 {{ font-size: 1rem; margin-top: 2.2rem; }}
h2 code {{ font-size: 15px; }}
a {{ color: var(--accent); }} .muted {{ color: var(--muted); }}
code, pre {{ font: 13px/1.5 ui-monospace, monospace; background: var(--code); border-radius: 4px; }}
code {{ padding: .1rem .3rem; }} pre {{ padding: .7rem; overflow-x: auto; }}
table {{ border-collapse: collapse; width: 100%; }}
th, td {{ text-align: left; padding: .35rem .8rem .35rem 0; border-bottom: 1px solid var(--line);
  vertical-align: top; }}
</style></head><body><main>
<h1>HTTP interface</h1>
<p>Each resource returns the JSON of the command with the same name, computed from the newest
snapshot of a cluster. It is read-only. <a href="/api/v1/openapi.json">OpenAPI document</a> ·
<a href="/">Pages</a></p>
<p>With sign-in, send an API token of <code>trimtab tokens create</code>. A response has the id of
its snapshot as <code>ETag</code>; with <code>If-None-Match</code> the answer for the same snapshot
is 304. Limit: {limit} requests a minute. Errors follow RFC 9457.</p>
<pre>{example}</pre>
{resources}
</main></body></html>"""


@lru_cache(maxsize=1)
def page() -> str:
    """Return the description as HTML; it has no script and loads nothing."""
    example = (
        'curl -H "Authorization: Bearer $TRIMTAB_TOKEN" \\\n'
        "  'http://127.0.0.1:8501/api/v1/drill/sandbox?domains=false&hot_threshold=0.8'"
    )
    resources = "".join(
        _resource(path, methods["get"]) for path, methods in document()["paths"].items()
    )
    return _PAGE.format(limit=LIMIT_A_MINUTE, example=html.escape(example), resources=resources)


def _resource(path: str, described: Mapping[str, Any]) -> str:
    rows = "".join(
        f"<tr><td><code>{html.escape(one['name'])}</code></td>"
        f"<td class=muted>{html.escape(_type_of(one['schema']))}</td>"
        f"<td>{html.escape(one['description'])}</td></tr>"
        for one in described.get("parameters", ())
    )
    table = (
        f"<table><thead><tr><th>Parameter</th><th>Type</th><th>Description</th></tr></thead>"
        f"<tbody>{rows}</tbody></table>"
        if rows
        else ""
    )
    text = f"{described['summary']} {described.get('description', '')}".strip()
    return f"<h2><code>GET {html.escape(path)}</code></h2><p>{html.escape(text)}</p>{table}"


def _type_of(schema: Mapping[str, Any]) -> str:
    """Return the type of a parameter with its default."""
    kinds = [one.get("type", "") for one in schema.get("anyOf", (schema,))]
    text = " or ".join(str(one) for one in kinds if one and one != "null")
    default = schema.get("default")
    if default is None or default in ("", [], ()):
        return text
    return f"{text}, default {json.dumps(default)}"
