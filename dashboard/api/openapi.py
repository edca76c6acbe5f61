"""The description of the HTTP interface: OpenAPI 3.1, and the same as a page for people."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final
from urllib.parse import urlencode

from core.request import schema_of
from dashboard.api.problem import PROBLEM
from dashboard.api.resource import ARROW, LIMIT_A_MINUTE, ROOT, Resource
from dashboard.api.schema import TEXT

VERSION: Final = "1"

_ERRORS: Final[Mapping[int, str]] = {
    400: "A parameter is unknown, or its value does not fit.",
    401: "The API token is missing.",
    403: "The API token is unknown or expired, its user lacks the role, or a rule of the cluster "
    "refuses.",
    408: "The request did not arrive in time.",
    404: "There is no resource, cluster, run or job of this name that the user may view.",
    409: "The state of the cluster, run or job does not allow it, or its snapshot lacks the data.",
    413: "The request is too large.",
    415: "The request is not application/json.",
    429: f"More than {LIMIT_A_MINUTE} requests a minute.",
    500: "The computation failed.",
    502: "The cluster, the journal or the history cannot be read.",
    503: "The configuration cannot be read.",
    504: "The answer takes too long; `Prefer: respond-async` lets a job compute it.",
}
_ALWAYS: Final = (401, 403, 429, 503)
_OF_A_BODY: Final = (400, 408, 413, 415)
_EXAMPLES: Final = {"cluster": "sandbox", "namespace": "acme/orders", "topic": "acme/orders/paid-7"}


def document(resources: Iterable[Resource]) -> dict[str, Any]:
    """Return the OpenAPI document of some resources."""
    paths: dict[str, dict[str, Any]] = {}
    for one in resources:
        paths.setdefault(f"{ROOT}{one.path}", {})[one.method.lower()] = _described(one)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Trimtab",
            "version": VERSION,
            "description": "Operations on clusters, plans, runs and jobs, with the rules and roles "
            "of the command line.",
        },
        "security": [{"token": []}, {}],
        "paths": paths,
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


def _described(resource: Resource) -> dict[str, Any]:
    schema = schema_of(resource.request)
    found: dict[str, Any] = {
        "operationId": resource.name.replace("-", "_"),
        "tags": [resource.group],
        "summary": resource.summary,
        "description": resource.details,
        "parameters": _parameters(resource, schema),
        "responses": _responses(resource),
    }
    if resource.method == "POST":
        content = {"schema": schema} | ({"example": resource.example} if resource.example else {})
        found["requestBody"] = {"required": True, "content": {"application/json": content}}
    return found


def _parameters(resource: Resource, schema: Mapping[str, Any]) -> list[dict[str, Any]]:
    in_path = [
        {**_parameter(name, TEXT, text), "in": "path", "required": True}
        for name, text in resource.names.items()
    ]
    if resource.method == "POST":
        return in_path
    required = schema.get("required", [])
    query = resource.sample.query if resource.sample else {}
    return [
        *in_path,
        *(
            _parameter(name, one, one.get("description", ""), is_required=name in required)
            | ({"example": query[name]} if name in query else {})
            for name, one in schema["properties"].items()
        ),
        *(_parameter(**one) for one in resource.more),
    ]


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


def _responses(resource: Resource) -> dict[str, Any]:
    content: dict[str, Any] = {"application/json": {"schema": resource.answer}}
    if resource.sample is not None:
        content["application/json"]["example"] = resource.sample.answer
    if resource.is_table:
        content[ARROW] = {"schema": {"type": "string", "format": "binary"}}
    success: dict[str, Any] = {"description": "The answer.", "content": content}
    if resource.headers:
        success["headers"] = {
            name: {"description": text, "schema": TEXT} for name, text in resource.headers.items()
        }
    found: dict[str, Any] = {str(resource.status.value): success}
    if resource.accepted:
        found["202"] = {
            "description": "A job computes the answer: with `Prefer: respond-async`, or because "
            "the cluster is too large for one process.",
            "headers": {
                "Location": {"description": "The job.", "schema": TEXT},
                "Retry-After": {"description": "Seconds.", "schema": TEXT},
            },
            "content": {"application/json": {"schema": resource.accepted}},
        }
    if resource.is_of_snapshot:
        found["304"] = {"description": "The snapshot is that of If-None-Match."}
    more = _OF_A_BODY if resource.method == "POST" else ()
    schema = {"$ref": "#/components/schemas/Problem"}
    for status in sorted({*_ALWAYS, *more, *resource.errors}):
        found[str(status)] = {
            "description": _ERRORS[status],
            "content": {PROBLEM: {"schema": schema}},
        }
    return found


def _problem() -> dict[str, Any]:
    texts = ("type", "title", "detail", "code", "hint")
    properties = {**dict.fromkeys(texts, TEXT), "status": {"type": "integer"}}
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
h1 {{ font-size: 1.5rem; }} h2 {{ font-size: 1.15rem; margin-top: 2rem; }}
h3 {{ font-size: 1rem; margin-top: 2rem; }} h3 code {{ font-size: 15px; }}
ul {{ list-style: none; padding: 0; columns: 2 22rem; }} li {{ margin: .15rem 0; }}
hr {{ border: 0; border-top: 1px solid var(--line); margin: 2rem 0; }}
a {{ color: var(--accent); }} .muted {{ color: var(--muted); }}
code, pre {{ font: 13px/1.5 ui-monospace, monospace; background: var(--code); border-radius: 4px; }}
details pre {{ max-height: 24rem; overflow: auto; }}
summary {{ cursor: pointer; color: var(--accent); }}
code {{ padding: .1rem .3rem; }} pre {{ padding: .7rem; overflow-x: auto; }}
table {{ border-collapse: collapse; width: 100%; }}
th, td {{ text-align: left; padding: .35rem .8rem .35rem 0; border-bottom: 1px solid var(--line);
  vertical-align: top; }}
</style></head><body><main>
<h1>HTTP interface</h1>
<p>Each resource returns the JSON of the command with the same name. The same roles apply.
<a href="/api/v1/openapi.json">OpenAPI document</a> · <a href="/">Pages</a></p>
<p>With sign-in, send an API token of <code>trimtab tokens create</code>. An answer about a snapshot
has its id as <code>ETag</code>; with <code>If-None-Match</code> the answer for the same snapshot is
304. Limit: {limit} requests a minute. Errors follow RFC 9457.</p>
<pre>{example}</pre>
{resources}
</main></body></html>"""


def page(document: Mapping[str, Any], address: str) -> str:
    """Return an OpenAPI document as HTML; it has no script and loads nothing.

    Args:
        document: The document.
        address: Of the server, as the reader has it.
    """
    example = (
        'curl -H "Authorization: Bearer $TRIMTAB_TOKEN" \\\n'
        f"  '{address}/api/v1/drill/sandbox?domains=false&hot_threshold=0.8'"
    )
    groups: dict[str, dict[str, str]] = {}
    for path, methods in document["paths"].items():
        for method, described in methods.items():
            name = f"{method.upper()} {path}"
            groups.setdefault(described["tags"][0], {})[name] = _section(name, described)
    index = "".join(
        f"<h2>{html.escape(group)}</h2><ul>{''.join(map(_link, sections))}</ul>"
        for group, sections in groups.items()
    )
    resources = "".join(
        f"<h2>{html.escape(group)}</h2>{''.join(sections.values())}"
        for group, sections in groups.items()
    )
    return _PAGE.format(
        limit=LIMIT_A_MINUTE, example=html.escape(example), resources=f"{index}<hr>{resources}"
    )


def _link(name: str) -> str:
    return f'<li><a href="#{_anchor(name)}"><code>{html.escape(name)}</code></a></li>'


def _anchor(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def _words(text: str) -> str:
    """Return a text as HTML, what is in backquotes as code."""
    return re.sub(r"`([^`]*)`", r"<code>\1</code>", html.escape(text))


def _section(name: str, described: Mapping[str, Any]) -> str:
    body = described.get("requestBody", {}).get("content", {}).get("application/json", {})
    fields = body.get("schema", {}).get("properties", {})
    rows = [
        (one["name"], one["schema"], one["description"]) for one in described.get("parameters", ())
    ]
    rows += [(field, one, one.get("description", "")) for field, one in fields.items()]
    cells = "".join(
        f"<tr><td><code>{html.escape(field)}</code></td>"
        f"<td class=muted>{html.escape(_type_of(schema))}</td><td>{_words(text)}</td></tr>"
        for field, schema, text in rows
    )
    kind = "Field" if fields else "Parameter"
    table = (
        f"<table><thead><tr><th>{kind}</th><th>Type</th><th>Description</th></tr></thead>"
        f"<tbody>{cells}</tbody></table>"
        if cells
        else ""
    )
    sample = f"<pre>{html.escape(json.dumps(body['example']))}</pre>" if "example" in body else ""
    sample += _example_of(name, described)
    text = f"{described['summary']} {described.get('description', '')}".strip()
    head = f'<h3 id="{_anchor(name)}"><code>{html.escape(name)}</code></h3>'
    return f"{head}<p>{_words(text)}</p>{table}{sample}"


def _example_of(name: str, described: Mapping[str, Any]) -> str:
    """Return the example of a request and its answer, folded; empty: there is none."""
    content = described["responses"].get("200", {}).get("content", {}).get("application/json", {})
    if "example" not in content:
        return ""
    path = name.removeprefix("GET ").replace("{cluster}", _EXAMPLES["cluster"])
    query = {
        one["name"]: one["example"]
        for one in described["parameters"]
        if one["in"] == "query" and "example" in one
    }
    texts = {key: json.dumps(v) if isinstance(v, bool) else v for key, v in query.items()}
    request = f"GET {path}{'?' if texts else ''}{urlencode(texts)}"
    answer = json.dumps(content["example"], indent=1)
    return (
        f"<details><summary>Example</summary><pre>{html.escape(request)}\n\n"
        f"{html.escape(answer)}</pre></details>"
    )


def _type_of(schema: Mapping[str, Any]) -> str:
    """Return the type of a parameter with its default."""
    kinds = [one.get("type", "") for one in schema.get("anyOf", (schema,))]
    text = " or ".join(str(one) for one in kinds if one and one != "null")
    default = schema.get("default")
    if default is None or default in ("", [], ()):
        return text
    return f"{text}, default {json.dumps(default)}"
