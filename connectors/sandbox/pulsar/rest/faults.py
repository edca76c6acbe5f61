"""What only the sandbox answers, below ``/sandbox``: its faults, and the unloads it was asked for.

curl -X PUT 127.0.1.1:8080/sandbox/faults -d '{"hint_loss_ratio": 0.1}'
"""

from __future__ import annotations

from http import HTTPMethod

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from connectors.sandbox.pulsar.faults import changed
from connectors.sandbox.pulsar.rest.answers import RefusalError, as_json
from connectors.sandbox.pulsar.rest.reads import Rest
from core.errors import InputError


class SandboxRest(Rest):
    """Handlers of the sandbox's own switches."""

    def routes(self) -> list[Route]:
        """Return the routes of everything here."""
        return [
            Route("/sandbox/faults", self.faults),
            Route("/sandbox/faults", self.set_faults, methods=[HTTPMethod.PUT]),
            Route("/sandbox/unloads", self.unloads),
        ]

    async def faults(self, _: Request) -> Response:
        """What goes wrong with unloads now."""
        return as_json(self.engine.faults)

    async def set_faults(self, request: Request) -> Response:
        """Switch the faults that are named; the others stay as they are."""
        try:
            changes = msgspec.json.decode(await request.body(), type=dict[str, object])
            self.engine.faults = changed(self.engine.faults, changes)
        except (msgspec.MsgspecError, InputError) as exc:
            raise RefusalError(400, str(exc)) from exc
        return as_json(self.engine.faults)

    async def unloads(self, _: Request) -> Response:
        """Every request to unload a bundle since the start."""
        return as_json(self.engine.unloads)
