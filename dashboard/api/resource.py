"""Resources of the HTTP interface: declaration, caller, rate limit, parameters and problems.

Source:
    Status codes and conditions: RFC 9110.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, Literal
from weakref import WeakValueDictionary

import msgspec
from limits import RateLimitItemPerMinute
from limits.storage import MemoryStorage
from limits.strategies import SlidingWindowCounterRateLimiter
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from core.bounds import TooLargeError, checked_json
from core.errors import (
    ComputeError,
    ConfigError,
    ForbiddenError,
    GuardRefusedError,
    IncompleteSnapshotError,
    InputError,
    InvariantError,
    OpsError,
    RemoteError,
    UnknownNameError,
)
from core.progress import TooLongError
from core.request import Request, params_of, parse
from core.units import pluralize
from dashboard import services
from dashboard.api.examples import Example
from dashboard.api.problem import problem
from dashboard.cli.output import UsageFaultError
from dashboard.services import access
from dashboard.sign_in import CALLER

if TYPE_CHECKING:
    from core.access import Identity
    from dashboard.services import Cluster, Config

ROOT: Final = "/api/v1/"
ARROW: Final = "application/vnd.apache.arrow.stream"
LIMIT_A_MINUTE: Final = 240
"""Requests of one caller."""

_LIMIT: Final = RateLimitItemPerMinute(LIMIT_A_MINUTE)
_limiter: Final = SlidingWindowCounterRateLimiter(MemoryStorage())
MAX_AT_ONCE: Final = 8
"""Requests that are answered at the same time: pages need threads of the same pool."""
MAX_OF_ONE: Final = 4
"""Those of one caller: the others are not blocked by slow requests of one."""
MAX_BODY_BYTES: Final = 16 * 2**20
_BODY_WITHIN_S: Final = 60.0
_turns: Final = asyncio.Semaphore(MAX_AT_ONCE)
_turns_of: Final[WeakValueDictionary[str, asyncio.Semaphore]] = WeakValueDictionary()

_STATUS: Final[tuple[tuple[type[OpsError], HTTPStatus], ...]] = (
    (ForbiddenError, HTTPStatus.FORBIDDEN),
    (GuardRefusedError, HTTPStatus.FORBIDDEN),
    (ConfigError, HTTPStatus.SERVICE_UNAVAILABLE),
    (InputError, HTTPStatus.BAD_REQUEST),
    (UsageFaultError, HTTPStatus.BAD_REQUEST),
    (IncompleteSnapshotError, HTTPStatus.CONFLICT),
    (RemoteError, HTTPStatus.BAD_GATEWAY),
    (TooLongError, HTTPStatus.GATEWAY_TIMEOUT),
    (ComputeError, HTTPStatus.INTERNAL_SERVER_ERROR),
    (InvariantError, HTTPStatus.INTERNAL_SERVER_ERROR),
)
"""By the first class that fits; any other error: the state of the cluster does not allow it."""

PRIVATE: Final = {"Cache-Control": "private, no-cache", "Vary": "Authorization, Accept, Prefer"}
"""Headers of every answer: it depends on the caller, and on what the caller accepts."""


class NoParameters(Request, frozen=True, kw_only=True):
    """No parameters."""


@dataclass(frozen=True, eq=False)
class Call:
    """One request.

    Attributes:
        http: The request itself.
        config: With the clusters that the caller may view.
        by: The caller: the user of the API token; without sign-in the local user, as at the pages.
    """

    http: HttpRequest
    config: Config
    by: Identity

    def name(self, what: str) -> str:
        """Return a name of the path."""
        found: str = self.http.path_params[what]
        return found

    @property
    def cluster(self) -> Cluster:
        """The cluster that the path names; see :meth:`cluster_named`."""
        return self.cluster_named(self.name("cluster"))

    def cluster_named(self, name: str) -> Cluster:
        """Return a cluster.

        Raises:
            ProblemError: There is none that the caller may view.
        """
        try:
            return self.config.cluster(name)
        except UnknownNameError as error:
            raise missing(error) from error

    def accepts(self, media_type: str) -> bool:
        """Return whether the caller names a type of content among those that it accepts."""
        return any(
            name == media_type and weight > 0
            for name, weight in map(_weighed, self.http.headers.get("accept", "").split(","))
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class Resource:
    """One method of one path.

    Attributes:
        path: Below ``/api/v1/``, names in braces.
        name: In the description; unique.
        group: Heading in the description.
        summary: One sentence.
        answer: JSON schema of the answer.
        respond: Answers; called with the call and the request.
        details: Further sentences.
        method: ``GET``: the request is the query; ``POST``: it is a JSON object.
        request: The parameters.
        names: Description of each name in the path.
        others: Parameters of the query that ``respond`` reads itself.
        more: Those of them that are described, as OpenAPI has them.
        status: Of a success.
        headers: Headers of a success, with descriptions.
        errors: Status codes of problems, without those that every resource has.
        is_table: Whether the answer is also offered as an Arrow stream.
        is_of_snapshot: Whether the answer follows from a snapshot, and is sent once.
        example: A request with a body.
        sample: A request with its answer; ``None``: none.
        accepted: JSON schema of the job that may answer instead (202); ``None``: none does.
    """

    path: str
    name: str
    group: str
    summary: str
    answer: Mapping[str, Any]
    respond: Callable[[Call, Any], Response]
    details: str = ""
    method: Literal["GET", "POST"] = "GET"
    request: type[Request] = NoParameters
    names: Mapping[str, str] = field(default_factory=dict)
    others: tuple[str, ...] = ()
    more: Sequence[Mapping[str, Any]] = ()
    status: HTTPStatus = HTTPStatus.OK
    headers: Mapping[str, str] = field(default_factory=dict)
    errors: tuple[int, ...] = ()
    is_table: bool = False
    is_of_snapshot: bool = False
    example: Mapping[str, Any] | None = None
    sample: Example | None = None
    accepted: Mapping[str, Any] | None = None


class ProblemError(Exception):
    """A problem whose status does not follow from the class of an error."""

    def __init__(self, status: HTTPStatus, error: OpsError, **headers: str) -> None:
        super().__init__(error.message)
        self.status = status
        self.error = error
        self.headers = headers


def _weighed(text: str) -> tuple[str, float]:
    """Return the type of one part of ``Accept``, and its weight."""
    name, *parameters = (one.strip().lower() for one in text.split(";"))
    for one in parameters:
        key, _, value = one.partition("=")
        if key == "q":
            try:
                return name, float(value)
            except ValueError:
                return name, 0.0
    return name, 1.0


def missing(error: UnknownNameError) -> ProblemError:
    """Return the problem about a name in the path that nothing has."""
    return ProblemError(HTTPStatus.NOT_FOUND, error)


def _refused(error: OpsError) -> Response:
    status = next(
        (status for kind, status in _STATUS if isinstance(error, kind)), HTTPStatus.CONFLICT
    )
    return problem(status, error.message, code=error.code, hint=error.hint)


def json_response(
    body: Any, status: HTTPStatus = HTTPStatus.OK, headers: Mapping[str, str] | None = None
) -> Response:
    """Return JSON; a number that JSON does not have is null."""
    content = msgspec.json.encode(body)
    return Response(content, status.value, PRIVATE | dict(headers or {}), "application/json")


async def served(resources: Mapping[str, Resource], http: HttpRequest) -> Response:
    """Return the response to a request.

    Args:
        resources: Those of its path, by method.
        http: The request.
    """
    resource = resources.get("GET" if http.method == "HEAD" else http.method)
    if resource is None:
        allowed = ", ".join(sorted({*resources, *({"HEAD"} if "GET" in resources else ())}))
        return problem(
            HTTPStatus.METHOD_NOT_ALLOWED,
            f"{http.url.path} does not support {http.method}.",
            code="method",
            hint=f"Use {allowed}.",
            headers={"Allow": allowed},
        )
    if (refused := _throttled(http)) is not None:
        return refused
    try:
        body = await _body(http) if resource.method == "POST" else b""
        own = _turns_of.setdefault(_caller(http), asyncio.Semaphore(MAX_OF_ONE))
        async with own, _turns:
            return await run_in_threadpool(_answered, resource, http, body)
    except ProblemError as found:
        error = found.error
        return problem(
            found.status, error.message, code=error.code, hint=error.hint, headers=found.headers
        )
    except OpsError as error:
        return _refused(error)


def _answered(resource: Resource, http: HttpRequest, body: bytes) -> Response:
    config = services.page_config()
    caller: Identity | None = http.scope.get(CALLER)
    if caller is not None:
        config = access.visible_to(config, caller)
    call = Call(http, config, caller or access.local_identity(is_page=True))
    request = (
        parse(resource.request, _object_in(body))
        if resource.method == "POST"
        else _query(http, resource)
    )
    return resource.respond(call, request)


def _caller(http: HttpRequest) -> str:
    """Return the name under which requests are counted: of the user, else the address."""
    caller: Identity | None = http.scope.get(CALLER)
    return caller.name if caller else http.client.host if http.client else ""


def _throttled(http: HttpRequest) -> Response | None:
    """Return the refusal of a caller with too many requests; ``None``: it has not."""
    name = _caller(http)
    if _limiter.hit(_LIMIT, name):
        return None
    left_s = _limiter.get_window_stats(_LIMIT, name).reset_time - services.now().timestamp()
    seconds = max(1, round(left_s))
    return problem(
        HTTPStatus.TOO_MANY_REQUESTS,
        f"More than {pluralize(LIMIT_A_MINUTE, 'request')} a minute.",
        code="throttled",
        hint=f"Retry in {seconds} s.",
        headers={"Retry-After": str(seconds)},
    )


async def _body(http: HttpRequest) -> bytes:
    """Return the JSON of a request.

    A form of another site cannot have this type: together with the check of ``Origin`` it keeps
    other sites from sending requests with a person's browser.

    Raises:
        ProblemError: It is of another type, too large, or too slow.
    """
    kind = http.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        error = InputError(
            f"The content type of the request is {kind or 'missing'}.",
            hint="Send a JSON object with Content-Type: application/json.",
        )
        raise ProblemError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, error)
    size = http.headers.get("content-length", "0")  # the server checks that it is a number
    body = bytearray()
    try:
        async with asyncio.timeout(_BODY_WITHIN_S):
            _check_size(int(size))
            async for part in http.stream():
                body += part
                _check_size(len(body))
    except TimeoutError as exc:
        error = InputError(
            f"The request was not complete within {_BODY_WITHIN_S:g} s.", hint="Send it again."
        )
        raise ProblemError(HTTPStatus.REQUEST_TIMEOUT, error) from exc
    return bytes(body)


def _check_size(size: int) -> None:
    """Refuse a request that is too large.

    Raises:
        ProblemError: It has more bytes than :data:`MAX_BODY_BYTES`.
    """
    if size > MAX_BODY_BYTES:
        limit = f"{MAX_BODY_BYTES // 2**20} MiB"
        large = InputError(f"The request is larger than {limit}.", hint="Send a smaller one.")
        raise ProblemError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, large)


def _object_in(body: bytes) -> dict[str, Any]:
    try:
        found = msgspec.json.decode(checked_json(body))
    except (msgspec.MsgspecError, RecursionError, TooLargeError, UnicodeDecodeError) as exc:
        raise InputError(
            f"The request is no JSON: {str(exc).rstrip('.')}.", hint="Send one JSON object."
        ) from exc
    if not isinstance(found, dict):
        raise InputError("The request is no JSON object.", hint="Send one JSON object.")
    return found


def _query(http: HttpRequest, resource: Resource) -> Any:
    """Return the request of a query.

    Raises:
        InputError: A parameter is unknown, occurs twice, or its value does not fit.
    """
    many = {one.name for one in params_of(resource.request) if one.is_many}
    values: dict[str, Any] = {}
    for name in http.query_params:
        texts = http.query_params.getlist(name)
        if name in resource.others:
            continue
        if len(texts) > 1 and name not in many:
            raise InputError(f"{name} occurs {len(texts)} times.", hint="Specify it once.")
        values[name] = tuple(texts) if name in many else texts[0]
    return parse(resource.request, values, strict=False)
