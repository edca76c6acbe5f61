"""Operations over HTTP: ``GET /api/v1/owners/eu?namespace=acme/orders``.

It returns the JSON of ``trimtab owners eu --namespace acme/orders --json``, of the newest saved
snapshot.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from http import HTTPStatus
from typing import Any, Final

import msgspec
from starlette.responses import Response

from core.errors import IncompleteSnapshotError, InputError
from core.facts import Assumed, facts_module, release_warnings
from core.labels import labels_of
from core.operations.operation import Operation, plain
from core.operations.registry import operations
from core.operations.sent import MEDIA_TYPE, packed
from core.request import Request
from core.snapshot.store import CachedSnapshot
from dashboard import services
from dashboard.api.jobs import job_schema, started
from dashboard.api.resource import PRIVATE, Call, Resource, json_response
from dashboard.api.schema import TEXT, answer_schema
from dashboard.queries.answers import answer_of, facts_of_stored
from dashboard.queries.snapshots import saved_snapshots

WITHIN_S: Final = 60.0
"""Time of a computation in this process; it holds one of few threads."""
CLUSTER: Final = {"cluster": "Name of the cluster."}
SNAPSHOT_HEADERS: Final = {
    "ETag": "Id of the snapshot and the representation.",
    "Trimtab-Snapshot-Id": "Id of the snapshot.",
    "Trimtab-Snapshot-Taken-At": "Time of the snapshot.",
}
_ASSUMPTIONS: Final = (
    ("set", {"type": "array", "items": TEXT}, "Setting to assume, as KEY=VALUE. Repeatable."),
    ("release", TEXT, "Pulsar release to assume."),
)


_GROUP: Final = "Operations"


def resources() -> Iterator[Resource]:
    """Yield the resource of every operation."""
    for operation in operations().values():
        summary, _, details = operation.help.partition("\n")
        yield Resource(
            path=f"{operation.name}/{{cluster}}",
            name=operation.name,
            group=_GROUP,
            summary=summary,
            details=" ".join(details.split()),
            request=operation.request,
            names=CLUSTER,
            others=tuple(name for name, _, _ in _ASSUMPTIONS),
            more=[
                {"name": name, "schema": schema, "description": text}
                for name, schema, text in _ASSUMPTIONS
                if operation.can_assume
            ],
            answer=answer_schema(operation),
            respond=partial(_respond, operation),
            headers=SNAPSHOT_HEADERS,
            errors=(400, 404, 409, 500, 504),
            is_of_snapshot=True,
            accepted=job_schema() if operation.job else None,
        )


def _respond(operation: Operation[Any, Any], call: Call, request: Request) -> Response:
    cluster = call.cluster
    operation.check_kind(cluster.name, cluster.kind)
    assumed = _assumed(operation, cluster.kind, call)
    stored = newest(call, cluster.name)
    if operation.job and (_prefers_job(call) or _is_spread(operation, stored)):
        return _job(operation, call, request, assumed)
    # before the condition: a request may be wrong
    answer = answer_of(stored, operation, request, assumed, within_s=WITHIN_S)
    if call.accepts(MEDIA_TYPE):
        facts = facts_of_stored(stored, assumed)
        labels = _labels(call, facts)
        content = packed(
            answer, request, stored.taken_at, services.now(), release_warnings(facts), labels
        )
        return Response(content, headers=PRIVATE | tags(stored, "text"), media_type=MEDIA_TYPE)
    return of_snapshot(call, stored, lambda: _untimed(plain(answer)))


def _untimed(values: dict[str, Any]) -> dict[str, Any]:
    """Return JSON values without the time that the answer took: the same for the same snapshot."""
    values.pop("elapsed_ms", None)
    return values


def _labels(call: Call, facts: Any) -> Mapping[str, str]:
    """Return the labels of brokers or nodes, by address."""
    cluster = call.cluster
    if not cluster.labels:
        return {}
    servers = services.system_of(call.config, cluster).servers(facts.snapshot)
    return labels_of(cluster.labels, servers)


def _prefers_job(call: Call) -> bool:
    """Return whether the caller prefers a job to an answer (RFC 7240)."""
    preferences = call.http.headers.get("prefer", "").split(",")
    return "respond-async" in [one.strip().lower() for one in preferences]


def _is_spread(operation: Operation[Any, Any], stored: CachedSnapshot) -> bool:
    """Return whether a cluster is too large to be answered for in this process."""
    if not operation.spread:
        return False
    from core.spark.engine import is_spread  # noqa: PLC0415  # only few operations are spread
    from core.spark.fleet import InDirectory  # noqa: PLC0415  # the same

    return is_spread(operation, InDirectory(str(stored.path)))


def _job(
    operation: Operation[Any, Any], call: Call, request: Request, assumed: Assumed
) -> Response:
    if assumed.settings or assumed.release:
        raise InputError(
            f"A job of {operation.name} takes no assumptions.", hint="Omit `set` and `release`."
        )
    values = msgspec.to_builtins(request)
    return started(call, operation.job_kind, {"clusters": [call.cluster.name], **values})


def newest(call: Call, cluster: str) -> CachedSnapshot:
    """Return the newest saved snapshot of a cluster.

    Raises:
        IncompleteSnapshotError: It has none.
    """
    stored = saved_snapshots(services.snapshot_store(call.config), cluster).latest
    if stored is None:
        raise IncompleteSnapshotError(
            f"{cluster} has no snapshot.", hint="`trimtab collect` takes one every minute."
        )
    return stored


def of_snapshot(call: Call, stored: CachedSnapshot, body: Callable[[], Any]) -> Response:
    """Return what a function returns as JSON, with the headers of its snapshot.

    Args:
        call: The call; the same snapshot is not sent again.
        stored: The snapshot.
        body: Returns the answer.
    """
    headers = tags(stored, "json")
    return unchanged(call, headers) or json_response(body(), headers=headers)


def unchanged(call: Call, headers: Mapping[str, str]) -> Response | None:
    """Return the answer to a caller that has the content already; ``None``: it has not."""
    texts = call.http.headers.get("if-none-match", "").split(",")
    if {headers["ETag"].removeprefix("W/"), "*"} & {
        one.strip().removeprefix("W/") for one in texts
    }:
        return Response(status_code=HTTPStatus.NOT_MODIFIED.value, headers=PRIVATE | dict(headers))
    return None


def tags(stored: CachedSnapshot, form: str) -> dict[str, str]:
    """Return the headers that name a snapshot.

    Args:
        form: Representation: ``json``, ``arrow`` or ``text``. The text has the age of the snapshot
            and the labels of the configuration, so that its tag is a weak one.
    """
    tag = f'"{stored.snapshot_id}.{form}"'
    return {
        "ETag": f"W/{tag}" if form == "text" else tag,
        "Trimtab-Snapshot-Id": stored.snapshot_id,
        "Trimtab-Snapshot-Taken-At": stored.taken_at.isoformat(),
    }


def _assumed(operation: Operation[Any, Any], kind: str, call: Call) -> Assumed:
    """Return the settings and the release to assume.

    Raises:
        InputError: The operation takes none, or one of them does not fit.
    """
    settings = call.http.query_params.getlist("set")
    releases = call.http.query_params.getlist("release")
    if (settings or releases) and not operation.can_assume:
        raise InputError(
            f"{operation.name} takes no assumptions.", hint="Omit `set` and `release`."
        )
    if len(releases) > 1:
        raise InputError(f"release occurs {len(releases)} times.", hint="Specify it once.")
    assumed: Assumed = facts_module(kind).assumed(settings, next(iter(releases), None))
    return assumed
