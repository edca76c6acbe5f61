"""Tables over HTTP: as JSON or as an Arrow stream."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa
from starlette.responses import Response

from core.errors import InputError
from core.operations.sent import arrow_bytes
from dashboard.api.resource import ARROW, PRIVATE, Call, json_response

MAX_ROWS: Final = 1_000_000
"""Rows of one answer."""
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
        InputError: It has more than :data:`MAX_ROWS` rows.
    """
    if table.num_rows > MAX_ROWS:
        raise InputError(
            f"The answer has {table.num_rows:,} rows; at most {MAX_ROWS:,} are returned.",
            hint="Ask for a shorter range, or for fewer rows.",
        )
    if not call.accepts_arrow:
        return json_response({**body, "rows": table.to_pylist()}, headers=headers)
    return Response(arrow_bytes(table), headers=PRIVATE | dict(headers or {}), media_type=ARROW)
