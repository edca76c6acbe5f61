"""Errors over HTTP.

Source:
    RFC 9457.
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

from starlette.responses import JSONResponse, Response

PROBLEM: Final = "application/problem+json"


def problem(
    status: HTTPStatus,
    detail: str,
    *,
    code: str,
    hint: str = "",
    headers: Mapping[str, str] | None = None,
) -> Response:
    """Return an error as RFC 9457 has it, with Trimtab's ``code`` and ``hint``."""
    body = {
        "type": "about:blank",
        "title": status.phrase,
        "status": status.value,
        "detail": detail,
        "code": code,
        "hint": hint,
    }
    sent = {"Cache-Control": "no-store", **(headers or {})}
    return JSONResponse(body, status.value, sent, media_type=PROBLEM)
