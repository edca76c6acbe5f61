"""What brokers expose at ``/metrics/``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from connectors.sandbox.pulsar.rest.metrics import Exposition
from connectors.sandbox.pulsar.rest.reads import Rest, asked

if TYPE_CHECKING:
    from connectors.sandbox.pulsar.engine import Engine
    from connectors.sandbox.pulsar.ownership import Ownership

_TEXT: Final = "text/plain;charset=utf-8"


class MetricsRest(Rest):
    """The metrics of the answering broker."""

    def __init__(self, engine: Engine, ownership: Ownership) -> None:
        super().__init__(engine, ownership)
        self._exposition = Exposition(engine)

    def routes(self) -> list[Route]:
        """Return the routes of everything here."""
        return [Route("/metrics", self.moved), Route("/metrics/", self.prometheus)]

    async def moved(self, _: Request) -> Response:
        """Point at the path with the slash."""
        return RedirectResponse("/metrics/", 301)

    async def prometheus(self, request: Request) -> Response:
        """Tell everything in Prometheus' text format."""
        return Response(self._exposition.text(asked(request)), media_type=_TEXT)
