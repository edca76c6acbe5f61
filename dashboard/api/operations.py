"""Operations over HTTP: ``GET /api/v1/owners/eu?namespace=acme/orders``.

It returns the JSON of ``trimtab owners eu --namespace acme/orders --json``, of the newest saved
snapshot.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from functools import partial
from http import HTTPStatus
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

import msgspec
from starlette.responses import Response

from core.errors import ComputeError, IncompleteSnapshotError, InputError
from core.facts import Assumed, facts_module, release_warnings
from core.ids import SnapshotId
from core.labels import labels_of
from core.operations.operation import Operation, plain
from core.operations.registry import operations
from core.operations.sent import MEDIA_TYPE, SentAnswer, packed, sent_answer
from core.request import Request
from core.snapshot.store import CachedSnapshot
from dashboard import services
from dashboard.api.examples import examples
from dashboard.api.jobs import accepted, job_schema, started
from dashboard.api.resource import PRIVATE, Call, Resource, json_response
from dashboard.api.schema import TEXT, answer_schema
from dashboard.queries.answers import answer_of, facts_of_stored
from dashboard.queries.snapshots import saved_snapshots
from dashboard.services import jobs

if TYPE_CHECKING:
    from dashboard.services.jobs import Job

WITHIN_S: Final = 60.0
"""Time of a computation in this process; it holds one of few threads."""
ANSWER_FOR_S: Final = 60.0
"""For so long after its end a job's answer, or failure, is returned although a newer snapshot is
there: the caller has waited for it."""
_looking: Final = Lock()
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
            sample=examples().get(operation.name),
            accepted=job_schema() if operation.job else None,
        )


class JobFailedError(ComputeError):
    """The job that computes an answer failed; ``code`` is that of its error."""

    def __init__(self, error: Mapping[str, str]) -> None:
        super().__init__(error["message"], hint=error["hint"])
        self.code = error["code"]  # type: ignore[misc]  # the job's own code tells more


def _respond(operation: Operation[Any, Any], call: Call, request: Request) -> Response:
    cluster = call.cluster
    operation.check_kind(cluster.name, cluster.kind)
    assumed = _assumed(operation, cluster.kind, call)
    stored = newest(call, cluster.name)
    is_spread = _is_spread(operation, stored)
    if operation.job and (_prefers_job(call) or is_spread):
        return _by_job(operation, call, request, stored, assumed, is_spread=is_spread)
    # before the condition: a request may be wrong
    answer = answer_of(stored, operation, request, assumed, within_s=WITHIN_S)
    answer = answer.dated(services.finding_spans(call.config, cluster.name), stored.taken_at)
    if call.accepts(MEDIA_TYPE):
        facts = facts_of_stored(stored, assumed)
        labels, warnings = _labels(call, facts), release_warnings(facts)
        now = services.now()
        sent = sent_answer(answer, request, stored.taken_at, now, warnings, labels)
        return _packed(sent, stored)
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


def _by_job(
    operation: Operation[Any, Any],
    call: Call,
    request: Request,
    stored: CachedSnapshot,
    assumed: Assumed,
    *,
    is_spread: bool,
) -> Response:
    """Return the answer of a job, or the job that computes it: one a request and snapshot.

    Raises:
        OpsError: The job failed a moment ago, or there may be none.
    """
    if assumed.settings or assumed.release:
        raise InputError(
            f"A job of {operation.name} takes no assumptions.", hint="Omit `set` and `release`."
        )
    values = {"clusters": [call.cluster.name], **msgspec.to_builtins(request)}
    if is_spread:
        values["engine"] = "spark"
    with _looking:  # two requests at a time start one job
        job = jobs.job_of_snapshot(call.config, operation.job_kind, values)
        if job is None or _is_over(job, stored):
            snapshot = {"snapshot": stored.snapshot_id}
            return started(call, operation.job_kind, values | snapshot)
    if not job.is_ended:
        return accepted(job)
    if job.status.error is not None:
        raise JobFailedError(job.status.error)
    return _answer_of(call, job)


def _is_over(job: Job, stored: CachedSnapshot) -> bool:
    """Return whether a job has ended and its answer no longer counts."""
    if job.state == "stopped":
        return True
    if job.status.ended_at is None:
        return False
    age_s = (services.now() - datetime.fromisoformat(job.status.ended_at)).total_seconds()
    is_newest = job.request is not None and job.request.parameters["snapshot"] == stored.snapshot_id
    return age_s > ANSWER_FOR_S and not (is_newest and job.state == "done")


def _answer_of(call: Call, job: Job) -> Response:
    """Return the whole answer that a job has kept, with the tag of its snapshot."""
    kept = jobs.kept_answer(job)
    snapshot_id = SnapshotId(job.request.parameters["snapshot"] if job.request else "")
    stored = CachedSnapshot(kept.taken_at, snapshot_id, job.folder)
    if call.accepts(MEDIA_TYPE):
        return _packed(kept.answer, stored)
    return of_snapshot(call, stored, lambda: _untimed(kept.answer.body))


def _packed(sent: SentAnswer, stored: CachedSnapshot) -> Response:
    headers = PRIVATE | tags(stored, "text")
    return Response(packed(sent), headers=headers, media_type=MEDIA_TYPE)


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
