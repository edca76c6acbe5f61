"""Jobs over HTTP: list, show, start and stop them; read their result tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, TypedDict

from starlette.responses import Response

from core.errors import UnknownNameError
from core.request import Annotated, Request, param
from dashboard.api.resource import ROOT, Call, NoParameters, Resource, json_response, missing
from dashboard.api.schema import object_schema
from dashboard.api.tables import MAX_ROWS, ROWS, table_response
from dashboard.cli import answers
from dashboard.services import jobs
from trimtab.bodies import JobJson

if TYPE_CHECKING:
    from dashboard.services.jobs import Job

_JOB: Final = {"job": "Id of the job."}
_LOCATION: Final = {"Location": "The job."}


class JobsJson(TypedDict):
    """All jobs, the newest first.

    Attributes:
        jobs: The jobs.
        is_served: Whether a job server runs.
    """

    jobs: list[JobJson]
    is_served: bool


class JobKindJson(TypedDict):
    """A kind of job.

    Attributes:
        kind: Its name.
        title: For people.
        question: What it answers.
        role: That a user needs on the clusters.
        parameters: JSON schema of the parameters.
    """

    kind: str
    title: str
    question: str
    role: str
    parameters: dict[str, Any]


class JobKindsJson(TypedDict):
    """The kinds of jobs."""

    kinds: list[JobKindJson]


class NewJob(Request, frozen=True, kw_only=True):
    """A job to start."""

    kind: Annotated[str, param("Kind of job, such as drill, trends or backtest")]
    parameters: Annotated[
        dict[str, Any], param("Clusters, time, engine and request, as the kind has them")
    ]


class ResultRequest(Request, frozen=True, kw_only=True):
    """The rows of a result table."""

    contains: Annotated[str, param("Only rows with this part of a text")] = ""
    sort: Annotated[str, param("Column to sort by")] = ""
    descending: Annotated[bool, param("Sort the largest first")] = True
    limit: Annotated[int, param("Max rows", ge=1, le=MAX_ROWS)] = 2_000


def job_schema() -> dict[str, Any]:
    """Return the JSON schema of a job."""
    return object_schema(JobJson)


_GROUP: Final = "Jobs"


def resources() -> Iterator[Resource]:
    """Yield the resources."""
    job = job_schema()
    yield Resource(
        path="jobs",
        name="jobs",
        group=_GROUP,
        summary="List the jobs, the newest first.",
        answer=object_schema(JobsJson),
        respond=_jobs,
        errors=(400, 502),
    )
    yield Resource(
        path="jobs",
        method="POST",
        name="start_job",
        group=_GROUP,
        summary="Start a job.",
        details="`job-kinds` lists the kinds, with the schema of their parameters.",
        request=NewJob,
        example={"kind": "drill", "parameters": {"clusters": ["sandbox"], "hot_threshold": 0.8}},
        answer=job,
        status=HTTPStatus.ACCEPTED,
        headers=_LOCATION,
        respond=_start,
        errors=(409, 500, 502),
    )
    yield Resource(
        path="job-kinds",
        name="job_kinds",
        group=_GROUP,
        summary="List the kinds of jobs, with the JSON schema of their parameters.",
        answer=object_schema(JobKindsJson),
        respond=_kinds,
        errors=(400,),
    )
    yield Resource(
        path="jobs/{job}",
        name="job",
        group=_GROUP,
        summary="Show a job: state, progress and answer.",
        answer=job,
        respond=_job,
        names=_JOB,
        errors=(400, 404, 502),
    )
    yield Resource(
        path="jobs/{job}/stop",
        method="POST",
        name="stop_job",
        group=_GROUP,
        summary="Stop a job.",
        answer=job,
        respond=_stop,
        names=_JOB,
        errors=(404, 409, 502),
    )
    yield Resource(
        path="jobs/{job}/{table}",
        name="job_table",
        group=_GROUP,
        summary="Return rows of a result table of a job.",
        answer={
            "type": "object",
            "properties": {
                "total": {"type": "integer", "description": "Rows of the table."},
                "matching": {
                    "type": ["integer", "null"],
                    "description": "Rows that match; null: more than returned, not counted.",
                },
                "rows": ROWS,
            },
            "required": ["total", "matching", "rows"],
        },
        respond=_result,
        request=ResultRequest,
        names=_JOB | {"table": "Name of the result table."},
        errors=(400, 404, 500, 502),
        is_table=True,
    )


def started(call: Call, kind: str, parameters: Mapping[str, Any]) -> Response:
    """Start a job for the caller; the answer names it."""
    job_id = jobs.request_job(call.config, kind, parameters, call.by)
    return accepted(jobs.job(call.config, job_id))


def accepted(job: Job) -> Response:
    """Return the answer that names a job."""
    headers = {"Location": f"{ROOT}jobs/{job.id}", "Retry-After": "1"}
    return json_response(_json(job), HTTPStatus.ACCEPTED, headers)


def _json(job: Job) -> dict[str, Any]:
    found = answers.job(job)
    del found["folder"]  # a place on the server's disk
    return found


def _named(call: Call) -> Job:
    try:
        return jobs.job(call.config, call.name("job"))
    except UnknownNameError as error:
        raise missing(error) from error


def _jobs(call: Call, _: NoParameters) -> Response:
    found = [_json(one) for one in jobs.jobs(call.config)]
    return json_response({"jobs": found, "is_served": jobs.is_served(call.config)})


def _kinds(_: Call, __: NoParameters) -> Response:
    found: JobKindsJson = {
        "kinds": [
            {
                "kind": one.name,
                "title": one.title,
                "question": one.answers,
                "role": one.role,
                "parameters": one.schema(),
            }
            for one in jobs.kinds().values()
        ]
    }
    return json_response(found)


def _job(call: Call, _: NoParameters) -> Response:
    return json_response(_json(_named(call)))


def _start(call: Call, request: NewJob) -> Response:
    return started(call, request.kind, request.parameters)


def _stop(call: Call, _: NoParameters) -> Response:
    job = _named(call)
    jobs.stop_job(call.config, job.id, call.by)
    return json_response(_json(_named(call)))


def _result(call: Call, request: ResultRequest) -> Response:
    job, name = _named(call), call.name("table")
    if name not in (job.answer.tables if job.answer else {}):
        known = job.answer.tables if job.answer else ()
        raise missing(UnknownNameError.of("result table", name, known, place=f"job {job.id}"))
    found = jobs.result_rows(
        job,
        name,
        contains=request.contains,
        sort=request.sort,
        is_descending=request.descending,
        limit=request.limit,
    )
    return table_response(call, found.table, {"total": found.total, "matching": found.matching})
