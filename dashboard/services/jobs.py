"""The composition root's part for background jobs; see :mod:`dashboard.services`."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import msgspec

from core.access import Identity, Role
from core.errors import ComputeError, ForbiddenError, UnknownNameError
from core.operations.sent import KeptAnswer
from dashboard import services
from dashboard.services import history, spark

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa
    from pydantic import BaseModel, SecretStr

    from connectors.jobs import model as _model
    from connectors.jobs import record as _record
    from connectors.jobs import results as _results
    from connectors.jobs.queue import JobQueue
    from dashboard.services import Config

    Job = _record.Job
    JobKind = _model.JobKind
    ScopedRequest = _model.ScopedRequest
    Rows = _results.Rows
    """What the pages call them; they import nothing of the connectors."""


def kinds() -> Mapping[str, JobKind]:
    """Return every kind of job by its name, in the order in which pages show them."""
    from connectors.jobs import catalogue  # noqa: PLC0415  # commands must start fast

    return catalogue.kinds()


def checked(kind: JobKind, values: Mapping[str, Any]) -> BaseModel | ScopedRequest:
    """Return the scope, and the request where the kind has one, of a job's JSON.

    Raises:
        InputError: It cannot be; the message names what is wrong.
    """
    from connectors.jobs import catalogue  # noqa: PLC0415  # commands must start fast

    return catalogue.checked(kind, values)


def _queue(config: Config) -> JobQueue:
    return _queue_at(config.state_dir, config.journal_address)


@lru_cache(maxsize=8)
def _queue_at(state_dir: Path, address: SecretStr) -> JobQueue:
    from connectors.jobs.queue import JobQueue  # noqa: PLC0415  # commands must start fast

    return JobQueue(state_dir / "jobs", address)


def request_job(config: Config, name: str, values: Mapping[str, Any], by: Identity) -> str:
    """Queue a job and return its name.

    Raises:
        ForbiddenError: The person may not start jobs.
        UnknownNameError: There is no such kind.
        InputError: ``values`` is not valid for it.
        ComputeError: The state directory cannot be written.
        RemoteError: The journal's database cannot be written.
    """
    from connectors.jobs import catalogue  # noqa: PLC0415  # commands must start fast

    kind = catalogue.kind_of(name, catalogue.kinds())
    model = catalogue.checked(kind, values)
    plain = model.model_dump(mode="json", by_alias=True, exclude_unset=True)
    _check(config, by, plain, f"start jobs of the kind {name}", kind.role)
    return _queue(config).add(name, plain, by.name, services.now())


def job_of_snapshot(config: Config, name: str, values: Mapping[str, Any]) -> Job | None:
    """Return the newest visible job with some parameters, on any snapshot; ``None``: there is none.

    Args:
        name: Kind of job.
        values: Its parameters without ``snapshot``.
    Raises:
        RemoteError: The journal's database cannot be read.
    """
    wanted = msgspec.json.decode(msgspec.json.encode(values))  # lists, as the queue has them
    for found in jobs(config):
        parameters = found.request.parameters if found.request else {}
        if found.kind == name and "snapshot" in parameters:
            rest = {key: value for key, value in parameters.items() if key != "snapshot"}
            if rest == wanted:
                return found
    return None


def job(config: Config, job_id: str) -> Job:
    """Return a job as it stands.

    Raises:
        UnknownNameError: There is none of that name.
        RemoteError: The journal's database cannot be read.
    """
    unknown = UnknownNameError.of("job", job_id, (), place="the queue")
    try:
        found = _queue(config).find(job_id)
    except UnknownNameError:
        if config.access.sign_in == "none":
            raise
        raise unknown from None  # a person learns of no other's jobs
    if not _is_visible(config, found):
        raise unknown
    return found


def jobs(config: Config) -> list[Job]:
    """Return all jobs, the newest first; one query.

    Raises:
        RemoteError: The journal's database cannot be read.
    """
    return [one for one in _queue(config).jobs() if _is_visible(config, one)]


def _is_visible(config: Config, job: Job) -> bool:
    """Return whether every cluster of a job is one of the configuration's; naming none: all."""
    names = {cluster.name for cluster in config.clusters}
    parameters = job.request.parameters if job.request else {}
    wanted = _named(parameters) or _all(config)
    return config.access.sign_in == "none" or set(wanted) <= names


def stop_job(config: Config, job_id: str, by: Identity) -> None:
    """Request a job's end.

    Raises:
        ForbiddenError: The person may not stop jobs.
        UnknownNameError: There is none of that name.
        InputError: It has ended.
        RemoteError: The journal's database cannot be written.
    """
    _check_job(config, job_id, by, "stop jobs")
    _queue(config).stop(job_id, services.now())


def drop_job(config: Config, job_id: str, by: Identity) -> None:
    """Remove an ended job with its results.

    Raises:
        ForbiddenError: The person may not remove jobs.
        UnknownNameError: There is none of that name.
        InputError: It has not ended.
        RemoteError: The journal's database cannot be written.
    """
    _check_job(config, job_id, by, "remove jobs")
    _queue(config).drop(job_id)


def _check_job(config: Config, job_id: str, by: Identity, action: str) -> None:
    """Check that a person may change a job, by the role that its kind needs."""
    from connectors.jobs import catalogue  # noqa: PLC0415  # commands must start fast

    request = _queue(config).find(job_id).request
    kind = catalogue.kinds().get(request.kind) if request else None
    role = kind.role if kind else "operator"  # of another version, or damaged: it can be removed
    _check(config, by, request.parameters if request else {}, action, role)


def _check(
    config: Config,
    by: Identity,
    parameters: Mapping[str, Any],
    action: str,
    role: Role = "operator",
) -> None:
    """Check that a person has a role on every cluster of a job; it has all where it names none.

    Raises:
        ForbiddenError: The person is not.
    """
    rules, named = config.access.rules(), _named(parameters)
    rules.check(by, role, None, action)
    for cluster in named:
        rules.check(by, role, cluster, action)
    if not named and not all(rules.may(by, role, one) for one in _all(config)):
        raise ForbiddenError(
            f"A job without clusters applies to all clusters; {by.name} is not {role} of all "
            "clusters.",
            hint="Specify the clusters.",
        )


def _named(parameters: Mapping[str, Any]) -> list[str]:
    """Return the clusters that a job's parameters name; a back-test names them in its grid."""
    fields = parameters.get("grid", parameters)
    named = fields.get("clusters") or fields.get("cluster") or []
    return [named] if isinstance(named, str) else list(named)


def _all(config: Config) -> list[str]:
    """Return all configured clusters, those that the person at the page may not see included."""
    return [cluster.name for cluster in services.whole_config(config).clusters]


def kept_answer(found: Job) -> KeptAnswer:
    """Return the whole answer that a job about one snapshot has kept.

    Raises:
        ComputeError: Its file is gone, or damaged.
    """
    try:
        return msgspec.msgpack.decode(found.answer_file.read_bytes(), type=KeptAnswer)
    except (OSError, msgspec.MsgspecError) as exc:
        raise ComputeError(
            f"The answer of job {found.id} cannot be read.", hint="Start the job again."
        ) from exc


def result(found: Job, name: str) -> pa.Table:
    """Return a result table of a job whole.

    Raises:
        UnknownNameError: The job has no such table.
        ComputeError: It cannot be read.
    """
    from connectors.jobs import results  # noqa: PLC0415  # commands must start fast

    return results.whole(found.table(name))


def result_of_names(found: Job, name: str, where: Mapping[str, Sequence[str]]) -> pa.Table:
    """Return the rows of a result table whose texts are among those that are named.

    Raises:
        UnknownNameError: The job has no such table.
        ComputeError: It cannot be read.
    """
    from connectors.jobs import results  # noqa: PLC0415  # commands must start fast

    return results.of_names(found.table(name), where)


def result_rows(
    found: Job,
    name: str,
    *,
    contains: str = "",
    sort: str = "",
    is_descending: bool = True,
    limit: int = 2_000,
) -> Rows:
    """Return the rows of a result table that a page shows.

    Args:
        name: The table.
        contains: Part of any of its texts; empty: all rows.
        sort: Column to sort by; empty: as written.
        is_descending: The greatest first.
        limit: How many rows.
    Raises:
        UnknownNameError: The job has no such table, or it has no such column.
        ComputeError: It cannot be read.
    """
    from connectors.jobs import results  # noqa: PLC0415  # commands must start fast

    view = results.View(contains=contains, sort=sort, is_descending=is_descending, limit=limit)
    return results.rows(found.table(name), view)


def server_status(config: Config) -> Mapping[str, object]:
    """Return the status of the state directory's job server; empty if none ever ran."""
    from connectors.jobs import server  # noqa: PLC0415  # commands must start fast
    from connectors.worker.status import read_status_file  # noqa: PLC0415  # the same

    status = read_status_file(server.server_status_path(config))
    return {} if status is None else msgspec.to_builtins(status)


def serve_jobs(config: Config, stop: threading.Event, report: Callable[[str], None]) -> None:
    """Run jobs until ``stop`` is set.

    Raises:
        ComputeError: The state directory cannot be written.
    """
    from connectors import logs, memory  # noqa: PLC0415  # commands must start fast
    from connectors.jobs import catalogue, server, warm  # noqa: PLC0415  # the same

    logs.set_up_logging(config.log_format)
    if config.log_format == "json":
        report = logging.getLogger("trimtab.jobs").info
    memory.use_few_pools()
    memory.keep_giving_back()
    session = warm.WarmSession(lambda: spark.session(config))
    tools = server.JobResources(spark=session, history=lambda: history.history(config))
    try:
        server.serve(config, catalogue.kinds(), tools, stop, report)
    finally:
        session.end()


def is_served(config: Config) -> bool:
    """Return whether a job server said a moment ago that it lives."""
    from connectors.jobs import server  # noqa: PLC0415  # commands must start fast
    from connectors.worker.status import read_status_file  # noqa: PLC0415  # the same

    status = read_status_file(server.server_status_path(config))
    return status is not None and status.is_alive(services.now())
