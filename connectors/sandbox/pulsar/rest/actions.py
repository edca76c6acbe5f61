"""Admin REST of what moves bundles: unload and split."""

from __future__ import annotations

from http import HTTPMethod
from time import time
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

import msgspec
import numpy as np
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from connectors.sandbox.pulsar.faults import Outcome, UnloadRequest
from connectors.sandbox.pulsar.rest.answers import (
    RefusalError,
    as_text,
    nothing,
    redirect,
    stack_trace,
)
from connectors.sandbox.pulsar.rest.reads import Rest, addressed_broker
from connectors.sandbox.pulsar.state import NO_BROKER
from core.pulsar.ring import range_equally_divide

if TYPE_CHECKING:
    from connectors.sandbox.pulsar.engine import Engine
    from connectors.sandbox.pulsar.ownership import OwnershipChanges

LOSE_ANSWER: Final = "trimtab.lose_answer"
"""Key in a request's scope: the connection is cut in the place of the answer."""
_PUT: Final = HTTPMethod.PUT
_RANGE: Final = "range_equally_divide"
_COUNT: Final = "topic_count_equally_divide"
_POSITIONS: Final = "specified_positions_divide"
_FLOW: Final = "flow_or_qps_equally_divide"
_ALGORITHMS: Final = (_RANGE, _COUNT, _POSITIONS, _FLOW)


class ActionRest(Rest):
    """Handlers of unload and split.

    Args:
        engine: The running cluster.
        ownership: What changes owners.
    """

    def __init__(self, engine: Engine, ownership: OwnershipChanges) -> None:
        super().__init__(engine, ownership)
        self._rng = np.random.default_rng([engine.options.seed, 6])

    def routes(self) -> list[Route]:
        """Return the routes of everything here."""
        space = "/admin/v2/namespaces/{tenant}/{namespace}"
        return [
            Route(f"{space}/unload", self.unload_namespace, methods=[_PUT]),
            Route(f"{space}/{{bundle}}/unload", self.unload, methods=[_PUT]),
            Route(f"{space}/{{bundle}}/split", self.split, methods=[_PUT]),
        ]

    async def unload_namespace(self, request: Request) -> Response:
        """Unload every bundle of a namespace."""
        namespace = self.namespace_row(request, "Namespace not found")
        for row in self.state.bundles_of[namespace].tolist():
            self.engine.spawn(self.ownership.unload(row))
        return nothing()

    async def unload(self, request: Request) -> Response:
        """Unload a bundle, with or without a destination.

        As upstream: the leader remembers the destination for one lookup; the leader's redirect
        to the owner does not carry it on.
        """
        row = self.bundle_row(request)
        here, faults = addressed_broker(request), self.engine.faults
        wanted = request.query_params.get("destinationBroker")
        if faults.refuse_status and faults.concerns(here.row):
            self._note(request, row, "refused")
            raise RefusalError(faults.refuse_status, "The sandbox refuses unloads, as configured")
        if wanted:
            target = self._active(wanted.removeprefix("http://").removeprefix("https://"))
            leader = self.engine.leader
            if leader == NO_BROKER:
                raise RefusalError(412, "The current leader is empty.")
            if leader != here.row:
                self._note(request, row, "redirected")
                query = f"destinationBroker={quote(wanted, safe='')}&authoritative=false"
                return redirect(self.state.brokers[leader], request.url.path, query)
            self.ownership.hint(self.state.names[row], target)
        owner = self.owner_of(row)
        if owner is None:
            self._note(request, row, "unowned")
            return nothing()
        if owner is not here:
            self._note(request, row, "redirected")
            return self.to_owner(request, owner)
        self._note(request, row, "acted")
        await self.ownership.unload(row)
        if faults.concerns(here.row) and self._rng.random() < faults.lost_answer_ratio:
            request.scope[LOSE_ANSWER] = True
        return nothing()

    def _note(self, request: Request, row: int, outcome: Outcome) -> None:
        """Write the request down: tests count what each broker was requested, and how often."""
        self.engine.unloads.append(
            UnloadRequest(
                at_s=time(),
                bundle=self.state.names[row],
                broker=addressed_broker(request).broker_id,
                destination=request.query_params.get("destinationBroker"),
                outcome=outcome,
            )
        )

    async def split(self, request: Request) -> Response:
        """Split a bundle; 204 does not mean that it was split."""
        positions = await _positions(request)
        if isinstance(positions, Response):
            return positions
        algorithm = request.query_params.get("splitAlgorithmName") or _RANGE
        if algorithm not in _ALGORITHMS:
            known = ", ".join(_ALGORITHMS)
            reason = "Unsupported namespace bundle split algorithm, supported algorithms are"
            raise RefusalError(412, f"{reason} [{known}]")
        if algorithm == _POSITIONS and not positions:
            raise RefusalError(
                412, f"With {_POSITIONS} split algorithm, splitBoundaries must not be empty"
            )
        row = self._bundle_to_split(request)
        owner = await self.ownership.assign(row)
        if owner == NO_BROKER:
            raise RefusalError(503, "No broker is available for the bundle")
        if owner != addressed_broker(request).row:
            return self.to_owner(request, self.state.brokers[owner], request.url.query)
        inner = self._inner_bounds(row, algorithm, positions)
        if inner:
            unload = request.query_params.get("unload", "false").lower() == "true"
            await self.ownership.split(row, inner, unload=unload)
        return nothing()

    def _bundle_to_split(self, request: Request) -> int:
        wanted = request.path_params["bundle"]
        if wanted not in ("LARGEST", "HOT"):
            return self.bundle_row(request)
        rows = self.state.bundles_of[self.namespace_row(request, "Namespace not found")]
        long = self.state.long[rows]
        load = self.state.counts[rows, 0] if wanted == "LARGEST" else long[:, 1] + long[:, 3]
        return int(rows[int(np.argmax(load))])

    def _inner_bounds(self, row: int, algorithm: str, positions: list[int]) -> list[int]:
        lower, upper = int(self.state.lower[row]), int(self.state.upper[row])
        hashes = np.sort(self.state.layout.topics.hashes[self.state.topic_bundle == row])
        if algorithm == _FLOW:
            option = "org.apache.pulsar.common.naming."
            message = (
                f"class {option}BundleSplitOption cannot be cast to class "
                f"{option}FlowOrQpsEquallyDivideBundleSplitOption"
            )
            raise stack_trace(message, "java.lang.ClassCastException")
        if algorithm == _RANGE:
            middle = range_equally_divide(lower, upper)
            inner = [] if middle is None else [middle]
        elif len(hashes) <= 1:
            inner = []
        elif algorithm == _COUNT:
            below, above = int(hashes[max(len(hashes) // 2 - 1, 0)]), int(hashes[len(hashes) // 2])
            inner = [below + (above - below) // 2]
        else:
            inner = sorted(set(positions))
        return [bound for bound in inner if lower < bound < upper]

    def _active(self, broker_id: str) -> int:
        for broker in self.state.brokers:
            if broker.broker_id == broker_id and broker.is_up:
                return broker.row
        raise RefusalError(
            409, "Not allowed unload namespace bundle to inactive destination broker"
        )


async def _positions(request: Request) -> list[int] | Response:
    body = await request.body()
    if not body:
        return []
    try:
        return msgspec.json.decode(body, type=list[int])
    except msgspec.DecodeError:
        text = (
            "Cannot deserialize value of type `java.lang.Long`: not a valid `java.lang.Long` value"
        )
        answer = as_text(text)
        answer.status_code = 400
        return answer
