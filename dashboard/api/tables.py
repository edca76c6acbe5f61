"""Tables over HTTP: as JSON or as an Arrow stream."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec
import pyarrow as pa
from starlette.responses import Response

from core.errors import InputError
from core.operations.sent import arrow_bytes
from dashboard.api.resource import ARROW, PRIVATE, Call

MAX_ROWS: Final = 1_000_000
"""Rows of one answer."""
MAX_JSON_ROWS: Final = 200_000
"""Rows of one answer as JSON, which takes several times the memory."""
_BATCH: Final = 10_000
ROWS: Final[Mapping[str, Any]] = {"type": "array", "items": {"type": "object"}}


def table_response(
    call: Call, table: pa.Table, body: Mapping[str, Any], headers: Mapping[str, str] | None = None
) -> Response:
    """Return a table as the caller accepts it: an Arrow stream, or JSON with its ``rows``.

    Args:
        call: The call.
        table: The table.
        body: Keys of the JSON before the rows.
        headers: Of the answer.
    Raises:
        InputError: It has too many rows; see :func:`check_rows`.
    """
    check_rows(call, table.num_rows)
    own = PRIVATE | dict(headers or {})
    if call.accepts(ARROW):
        return Response(arrow_bytes(table), headers=own, media_type=ARROW)
    return Response(_json(table, body), headers=own, media_type="application/json")


def check_rows(call: Call, rows: int) -> None:
    """Refuse an answer with too many rows.

    Raises:
        InputError: It has more than :data:`MAX_ROWS`, or as JSON :data:`MAX_JSON_ROWS`.
    """
    if rows > MAX_ROWS:
        raise InputError(
            f"The answer has {rows:,} rows; at most {MAX_ROWS:,} are returned.",
            hint="Request a shorter range, or fewer rows.",
        )
    if rows > MAX_JSON_ROWS and not call.accepts(ARROW):
        raise InputError(
            f"The answer has {rows:,} rows; at most {MAX_JSON_ROWS:,} are returned as JSON.",
            hint=f"Send Accept: {ARROW}, or request fewer rows.",
        )


def _json(table: pa.Table, body: Mapping[str, Any]) -> bytes:
    """Return a table as JSON; only some of its rows are Python objects at a time."""
    head = msgspec.json.encode({**body, "rows": []}).removesuffix(b"]}")
    parts = (
        msgspec.json.encode(table.slice(first, _BATCH).to_pylist())[1:-1]
        for first in range(0, table.num_rows, _BATCH)
    )
    return head + b",".join(parts) + b"]}"
