"""Routes for machines: whether the process lives, whether it can serve, and its metrics."""

from __future__ import annotations

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from core.errors import OpsError
from dashboard import services
from dashboard.services import metrics
from dashboard.services.access import visible_to
from dashboard.sign_in import CALLER

_UNAVAILABLE = 503


async def _healthz(_: Request) -> Response:
    return PlainTextResponse("ok\n")


async def _readyz(_: Request) -> Response:
    faults = await run_in_threadpool(metrics.readiness, services.page_config)
    if faults:
        return PlainTextResponse("\n".join((*faults, "")), _UNAVAILABLE)
    return PlainTextResponse("ready\n")


async def _metrics(request: Request) -> Response:
    def read() -> bytes:
        config, scraper = services.page_config(), request.scope.get(CALLER)
        return metrics.metrics_text(config if scraper is None else visible_to(config, scraper))

    try:
        text = await run_in_threadpool(read)
    except OpsError as error:
        return PlainTextResponse(f"{error}\n", _UNAVAILABLE)
    return Response(text, media_type=metrics.CONTENT_TYPE)


ROUTES = [
    Route("/healthz", _healthz),
    Route("/readyz", _readyz),
    Route("/metrics", _metrics),
]
