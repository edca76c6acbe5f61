"""The routes of the HTTP interface."""

from __future__ import annotations

from functools import lru_cache, partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

import msgspec
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from core.errors import UnknownNameError
from core.operations.registry import operation_named
from dashboard.api import commands, jobs, openapi, operations, plans, runs, snapshots
from dashboard.api.problem import problem
from dashboard.api.resource import ROOT, Resource, served

if TYPE_CHECKING:
    from starlette.requests import Request

_METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE")


@lru_cache(maxsize=1)
def resources() -> tuple[Resource, ...]:
    """Return every resource, in the order of the description."""
    modules = (operations, snapshots, plans, runs, jobs, commands)
    return tuple(one for module in modules for one in module.resources())


@lru_cache(maxsize=1)
def document() -> dict[str, Any]:
    """Return the OpenAPI document; callers do not change it."""
    return openapi.document(resources())


@lru_cache(maxsize=8)
def _page_text(address: str) -> str:
    return openapi.page(document(), address)


@lru_cache(maxsize=1)
def _document_text() -> bytes:
    return msgspec.json.encode(document())


# Starlette runs both in a thread: the first call describes all resources


def _openapi(_: Request) -> Response:
    return Response(_document_text(), media_type="application/json")


def _page(http: Request) -> Response:
    return HTMLResponse(_page_text(str(http.base_url).rstrip("/")))


async def _unknown_operation(http: Request) -> Response:
    try:
        operation_named(http.path_params["operation"])
    except UnknownNameError as error:
        return problem(
            HTTPStatus.NOT_FOUND, error.message, code=error.code, hint=error.hint or _HINT
        )
    return await _unknown(http)


async def _unknown(http: Request) -> Response:
    return problem(
        HTTPStatus.NOT_FOUND,
        f"{http.url.path} is no resource of this interface.",
        code="unknown_name",
        hint=_HINT,
    )


_HINT: Final = "/api lists the resources."


def _routes() -> tuple[Route, ...]:
    by_path: dict[str, dict[str, Resource]] = {}
    for one in resources():
        by_path.setdefault(one.path, {})[one.method] = one
    return (
        Route("/api", _page),
        Route(f"{ROOT}openapi.json", _openapi),
        *(
            Route(f"{ROOT}{path}", partial(served, methods), methods=_METHODS)
            for path, methods in by_path.items()
        ),
        Route(f"{ROOT}{{operation}}/{{cluster}}", _unknown_operation),
        Route("/api/{rest:path}", _unknown),
    )


ROUTES: Final = _routes()
