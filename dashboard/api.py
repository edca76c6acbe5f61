"""The HTTP interface: every operation as JSON, with its description as OpenAPI and as a page.

``GET /api/v1/owners/eu?namespace=acme/orders`` returns the JSON of ``trimtab owners eu --namespace
acme/orders --json``, of the newest saved snapshot. Nothing here changes a cluster.

Source:
    Problems: RFC 9457. Entity tags and conditions: RFC 9110, sections 8.8.3 and 13.1.2.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from limits import RateLimitItemPerMinute
from limits.storage import MemoryStorage
from limits.strategies import SlidingWindowCounterRateLimiter
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from core.errors import (
    ComputeError,
    ConfigError,
    ForbiddenError,
    IncompleteSnapshotError,
    InputError,
    OpsError,
    UnknownNameError,
)
from core.facts import Assumed, facts_module
from core.operations.operation import Operation, plain
from core.operations.registry import operation_named
from core.request import params_of, parse
from core.snapshot.store import CachedSnapshot
from core.units import pluralize
from dashboard import services
from dashboard.openapi import LIMIT_A_MINUTE, document, page
from dashboard.queries.answers import answer_of
from dashboard.queries.snapshots import saved_snapshots
from dashboard.services.access import visible_to
from dashboard.sign_in import CALLER

if TYPE_CHECKING:
    from core.access import Identity
    from dashboard.services import Cluster, Config

PROBLEM: Final = "application/problem+json"

_LIMIT: Final = RateLimitItemPerMinute(LIMIT_A_MINUTE)
_limiter: Final = SlidingWindowCounterRateLimiter(MemoryStorage())

_STATUS: Final[tuple[tuple[type[OpsError], HTTPStatus], ...]] = (
    (ForbiddenError, HTTPStatus.FORBIDDEN),
    (ConfigError, HTTPStatus.SERVICE_UNAVAILABLE),
    (InputError, HTTPStatus.BAD_REQUEST),
    (IncompleteSnapshotError, HTTPStatus.CONFLICT),
    (ComputeError, HTTPStatus.INTERNAL_SERVER_ERROR),
)
"""By the first class that fits; any other error: the state of the cluster does not allow it."""


def problem(status: HTTPStatus, detail: str, *, code: str, hint: str = "") -> Response:
    """Return an error as RFC 9457 has it, with Trimtab's ``code`` and ``hint``."""
    body = {
        "type": "about:blank",
        "title": status.phrase,
        "status": status.value,
        "detail": detail,
        "code": code,
        "hint": hint,
    }
    return JSONResponse(body, status.value, media_type=PROBLEM)


def _refused(error: OpsError) -> Response:
    status = next(
        (status for kind, status in _STATUS if isinstance(error, kind)), HTTPStatus.CONFLICT
    )
    return problem(status, error.message, code=error.code, hint=error.hint)


async def _served(read: Callable[[Request, Config], Response], request: Request) -> Response:
    """Return a function's response; called with the clusters that the caller may view."""
    caller: Identity | None = request.scope.get(CALLER)
    name = caller.name if caller else request.client.host if request.client else ""
    if not _limiter.hit(_LIMIT, name):
        seconds = max(1, round(_limiter.get_window_stats(_LIMIT, name).reset_time - _now_s()))
        refused = problem(
            HTTPStatus.TOO_MANY_REQUESTS,
            f"More than {pluralize(LIMIT_A_MINUTE, 'request')} a minute.",
            code="throttled",
            hint=f"Retry in {seconds} s.",
        )
        refused.headers["Retry-After"] = str(seconds)
        return refused

    def answered() -> Response:
        try:
            config = services.page_config()
            return read(request, config if caller is None else visible_to(config, caller))
        except OpsError as error:
            return _refused(error)

    return await run_in_threadpool(answered)


def _now_s() -> float:
    return services.now().timestamp()


def _clusters(_: Request, config: Config) -> Response:
    found = [_cluster(config, one) for one in config.clusters]
    return JSONResponse({"clusters": found})


def _cluster(config: Config, cluster: Cluster) -> dict[str, Any]:
    newest = saved_snapshots(services.snapshot_store(config), cluster.name).latest
    return {
        "name": cluster.name,
        "kind": cluster.kind,
        "environment": cluster.environment,
        "group": cluster.group,
        "tags": list(cluster.tags),
        "snapshot_id": None if newest is None else newest.snapshot_id,
        "taken_at": None if newest is None else newest.taken_at.isoformat(),
    }


def _operation(request: Request, config: Config) -> Response:
    try:
        operation = operation_named(request.path_params["operation"])
        cluster = config.cluster(request.path_params["cluster"])
    except UnknownNameError as error:
        return problem(HTTPStatus.NOT_FOUND, error.message, code=error.code, hint=error.hint)
    operation.check_kind(cluster.name, cluster.kind)
    asked, assumed = _parsed(operation, cluster.kind, request)
    stored = saved_snapshots(services.snapshot_store(config), cluster.name).latest
    if stored is None:
        raise IncompleteSnapshotError(
            f"{cluster.name} has no snapshot.", hint="`trimtab collect` takes one every minute."
        )
    headers = _headers(stored)
    if headers["ETag"] in _tags(request):
        return Response(status_code=HTTPStatus.NOT_MODIFIED.value, headers=headers)
    return JSONResponse(plain(answer_of(stored, operation, asked, assumed)), headers=headers)


def _parsed(operation: Operation[Any, Any], kind: str, request: Request) -> tuple[Any, Assumed]:
    """Return the request and the assumptions of an address.

    Raises:
        InputError: A parameter is unknown, occurs twice, or its value does not fit.
    """
    many = {one.name for one in params_of(operation.request) if one.is_many}
    given = {name: request.query_params.getlist(name) for name in request.query_params}
    assumptions = {name: given.pop(name, []) for name in ("set", "release")}
    if any(assumptions.values()) and not operation.can_assume:
        raise InputError(
            f"{operation.name} takes no assumptions.", hint="Omit `set` and `release`."
        )
    for name, values in (*given.items(), ("release", assumptions["release"])):
        if len(values) > 1 and name not in many:
            raise InputError(f"{name} occurs {len(values)} times.", hint="Specify it once.")
    fields = {name: tuple(held) if name in many else held[0] for name, held in given.items()}
    release = next(iter(assumptions["release"]), None)
    assumed: Assumed = facts_module(kind).assumed(assumptions["set"], release)
    return parse(operation.request, fields, strict=False), assumed


def _headers(stored: CachedSnapshot) -> dict[str, str]:
    return {
        "ETag": f'"{stored.snapshot_id}"',
        "Trimtab-Snapshot-Taken-At": stored.taken_at.isoformat(),
        "Cache-Control": "private, no-cache",
        "Vary": "Authorization",
    }


def _tags(request: Request) -> list[str]:
    texts = request.headers.get("if-none-match", "").split(",")
    return [one.strip().removeprefix("W/") for one in texts]


async def _openapi(_: Request) -> Response:
    return JSONResponse(document())


async def _page(_: Request) -> Response:
    return HTMLResponse(page())


async def _unknown(request: Request) -> Response:
    return problem(
        HTTPStatus.NOT_FOUND,
        f"{request.url.path} is no resource of this interface.",
        code="unknown_name",
        hint="/api lists the resources.",
    )


ROUTES: Final = (
    Route("/api", _page),
    Route("/api/v1/openapi.json", _openapi),
    Route("/api/v1/clusters", partial(_served, _clusters)),
    Route("/api/v1/{operation}/{cluster}", partial(_served, _operation)),
    Route("/api/{rest:path}", _unknown),
)
