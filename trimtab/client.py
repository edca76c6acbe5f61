"""Client of a running Trimtab: the requests and answers of the command line.

Example:
    >>> from trimtab.client import Client
    >>> client = Client("https://trimtab.example.com")  # doctest: +SKIP
    >>> client.owners("prod", only_problems=True).bundles.to_pandas()  # doctest: +SKIP

Every operation is a method of its name: the cluster, the fields of its request, and where it can
assume them ``set`` and ``release``. The API token is that of ``TRIMTAB_TOKEN``, or of the file that
``TRIMTAB_TOKEN_FILE`` names.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from typing import Any, Final
from urllib.parse import quote, urlsplit

import msgspec
import pyarrow as pa
import requests

from core.errors import (
    ComputeError,
    InputError,
    OpsError,
    RemoteTimeoutError,
    UnreachableError,
)
from core.operations.operation import Operation, R
from core.operations.registry import MODULES, operations
from core.operations.sent import MEDIA_TYPE, SentAnswer, arrow_table, unpacked
from core.request import Request, params_of, parse
from trimtab.token import token_of_environment

__all__ = ["Answered", "Client", "ServerRefusalError"]

_ARROW: Final = "application/vnd.apache.arrow.stream"
_JSON: Final = "application/json"
_WAIT_S: Final = 1.0
_ACCEPTED: Final = 202


class ServerRefusalError(OpsError):
    """The server answered with a problem; ``code`` is that of the problem.

    Attributes:
        status: Status code of HTTP.
    """

    def __init__(self, message: str, *, hint: str, code: str, status: int) -> None:
        super().__init__(message, hint=hint, status=status)
        self.code = code  # type: ignore[misc]  # the server's own code tells more
        self.status = status


class Answered:
    """The answer of an operation.

    The tables of the answer are attributes, as Arrow tables; so are the other keys of its JSON.

    Attributes:
        body: The JSON object.
        tables: The tables by name.
        snapshot_id: Id of the snapshot.
        taken_at: Time of the snapshot.
        sent: The answer as it was sent, with the text for people.
    """

    def __init__(self, sent: SentAnswer, snapshot_id: str, taken_at: datetime) -> None:
        self.sent = sent
        self.body: Mapping[str, Any] = sent.body
        self.snapshot_id = snapshot_id
        self.taken_at = taken_at

    @cached_property
    def tables(self) -> Mapping[str, pa.Table]:
        """The tables by name."""
        return {name: arrow_table(content) for name, content in self.sent.tables.items()}

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        if name in self.sent.tables:
            return self.tables[name]
        if name in self.body:
            return self.body[name]
        known = ", ".join(sorted({*self.sent.tables, *self.body}))
        raise AttributeError(f"The answer has no {name}; it has {known}.")

    def __dir__(self) -> Iterable[str]:
        return [*super().__dir__(), *self.sent.tables, *self.body]

    def __repr__(self) -> str:
        names = ", ".join(sorted({*self.sent.tables, *self.body}))
        return f"<Answer of {self.taken_at:%Y-%m-%d %H:%M:%S} UTC: {names}>"


class _Bearer(requests.auth.AuthBase):
    """Sends a token; without one it keeps ``.netrc`` from sending another."""

    def __init__(self, token: str) -> None:
        self._token = token

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        if self._token:
            request.headers["Authorization"] = f"Bearer {self._token}"
        return request


class Client:
    """A running Trimtab.

    Args:
        server: Its address, such as ``https://trimtab.example.com``.
        token: API token; ``None``: that of the environment.
        timeout_s: For how long an answer is awaited.
    Raises:
        InputError: The address is none.
        ForbiddenError: The file with the token cannot be read.
    """

    def __init__(self, server: str, token: str | None = None, *, timeout_s: float = 300.0) -> None:
        self.server = _address(server)
        self.timeout_s = timeout_s
        self._session = requests.Session()
        self._session.auth = _Bearer(token_of_environment() if token is None else token)

    # -- operations ----------------------------------------------------------------------------

    def answer(
        self,
        operation: Operation[R, Any],
        cluster: str,
        request: R,
        *,
        settings: Sequence[str] = (),
        release: str | None = None,
    ) -> Answered:
        """Return the answer of an operation, from the newest snapshot of a cluster.

        Args:
            operation: The operation.
            cluster: Name of the cluster.
            request: The request.
            settings: Settings to assume, as ``KEY=VALUE``.
            release: Release to assume.
        Raises:
            ServerRefusalError: The server refuses, or a job has to compute the answer.
            RemoteError: It cannot be reached, or does not answer.
        """
        query = {**_query(request), "set": list(settings), "release": release}
        path = f"{operation.name}/{quote(cluster, safe='')}"
        response = self._send("GET", path, query, accept=MEDIA_TYPE)
        if response.status_code == _ACCEPTED:
            job = response.json()["id"]
            raise ServerRefusalError(
                f"{cluster} is too large to be answered for at once; job {job} computes it.",
                hint=f"`trimtab jobs show {job}`, or Client.wait({job!r}).",
                code="job",
                status=_ACCEPTED,
            )
        try:
            sent = unpacked(response.content)
            taken_at = datetime.fromisoformat(response.headers["Trimtab-Snapshot-Taken-At"])
        except (msgspec.MsgspecError, KeyError, ValueError) as exc:
            raise self._strange(response) from exc
        return Answered(sent, response.headers.get("Trimtab-Snapshot-Id", ""), taken_at)

    def __getattr__(self, name: str) -> Any:
        operation = operations().get(name.replace("_", "-")) if name in _METHODS else None
        if operation is None:
            raise AttributeError(f"Trimtab has no operation {name}; it has {', '.join(_METHODS)}.")
        return _Method(self, operation)

    def __dir__(self) -> Iterable[str]:
        return [*super().__dir__(), *_METHODS]

    # -- what there is -------------------------------------------------------------------------

    def clusters(self) -> list[dict[str, Any]]:
        """Return the clusters that the user may view, with the newest snapshot of each."""
        found: list[dict[str, Any]] = self._json("GET", "clusters")["clusters"]
        return found

    def snapshots(self, cluster: str) -> list[dict[str, Any]]:
        """Return the saved snapshots of a cluster, oldest first."""
        path = f"snapshots/{quote(cluster, safe='')}"
        found: list[dict[str, Any]] = self._json("GET", path)["snapshots"]
        return found

    def snapshot_table(self, cluster: str, table: str, snapshot: str = "latest") -> pa.Table:
        """Return a table of a saved snapshot."""
        names = "/".join(quote(one, safe="") for one in (cluster, snapshot, table))
        return self._table(f"snapshots/{names}", {})

    def history(
        self,
        cluster: str,
        kind: str,
        start: str | datetime = "-1h",
        end: str | datetime = "now",
        columns: Sequence[str] = (),
    ) -> pa.Table:
        """Return recorded rows of a cluster.

        Args:
            cluster: Name of the cluster.
            kind: Kind of rows, such as ``brokers`` or ``events``.
            start: First moment; a text such as ``-2h``, or an aware time.
            end: Last moment.
            columns: Columns; none: all.
        """
        texts = [one if isinstance(one, str) else one.isoformat() for one in (start, end)]
        query = {"kind": kind, "start": texts[0], "end": texts[1], "columns": list(columns)}
        return self._table(f"history/{quote(cluster, safe='')}", query)

    # -- plans and runs ------------------------------------------------------------------------

    def plan(self, cluster: str, what: str, **fields: Any) -> dict[str, Any]:
        """Make a plan, such as ``unload`` or ``drain``; nothing is sent.

        Args:
            cluster: Name of the cluster.
            what: Kind of plan, as the page ``/api`` of the server lists them.
            **fields: Of its request.
        Returns:
            ``verdict``, ``answer`` and ``plan``, which is null if there is nothing to do.
        """
        return self._json("POST", f"plans/{quote(cluster, safe='')}/{what}", fields)

    def preview(self, plan: Mapping[str, Any]) -> dict[str, Any]:
        """Return the expected effects of a plan."""
        cluster = quote(str(plan.get("cluster", "")), safe="")
        return self._json("POST", f"plans/{cluster}/preview", {"plan": plan})

    def request_run(
        self, plan: Mapping[str, Any], cluster: str, reason: str, **options: Any
    ) -> dict[str, Any]:
        """Request the run of a plan; with ``dry_run=True`` return what would be sent."""
        body = {"plan": plan, "cluster": cluster, "reason": reason, **options}
        return self._json("POST", "runs", body)

    def runs(self, cluster: str | None = None, last: int = 20) -> list[dict[str, Any]]:
        """Return the latest runs."""
        query = {"cluster": cluster, "last": last}
        found: list[dict[str, Any]] = self._json("GET", "runs", query)["runs"]
        return found

    def run(self, run_id: str) -> dict[str, Any]:
        """Return a run with its plan and its entries in the journal."""
        return self._json("GET", f"runs/{quote(run_id, safe='')}")

    def act(self, run_id: str, action: str, **fields: Any) -> dict[str, Any]:
        """Act on a run: ``approve``, ``reject``, ``pause``, ``resume``, ``stop`` or ``undo``."""
        return self._json("POST", f"runs/{quote(run_id, safe='')}/{action}", fields)

    # -- jobs ----------------------------------------------------------------------------------

    def start_job(self, kind: str, **parameters: Any) -> dict[str, Any]:
        """Start a job."""
        return self._json("POST", "jobs", {"kind": kind, "parameters": parameters})

    def job(self, job_id: str) -> dict[str, Any]:
        """Return a job as it stands."""
        return self._json("GET", f"jobs/{quote(job_id, safe='')}")

    def wait(self, job_id: str, timeout_s: float = 3_600.0) -> dict[str, Any]:
        """Return a job when it has ended.

        Raises:
            RemoteTimeoutError: It has not ended in time.
        """
        until = time.monotonic() + timeout_s
        while True:
            job = self.job(job_id)
            if job["ended_at"] is not None:
                return job
            if time.monotonic() > until:
                raise RemoteTimeoutError(
                    f"Job {job_id} did not end within {timeout_s:g} s.",
                    endpoint=self.server,
                    operation=f"GET jobs/{job_id}",
                    outcome="not_sent",
                    hint="Wait longer, or stop it.",
                )
            time.sleep(_WAIT_S)  # noqa: TID251  # the one place that polls

    def job_table(self, job_id: str, name: str, limit: int = 1_000_000) -> pa.Table:
        """Return a result table of a job."""
        names = "/".join(quote(one, safe="") for one in (job_id, name))
        return self._table(f"jobs/{names}", {"limit": limit})

    # -- HTTP ----------------------------------------------------------------------------------

    def _json(
        self, method: str, path: str, values: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        response = self._send(method, path, values or {}, accept=_JSON)
        try:
            return msgspec.json.decode(response.content, type=dict[str, Any])
        except msgspec.MsgspecError as exc:
            raise self._strange(response) from exc

    def _table(self, path: str, query: Mapping[str, Any]) -> pa.Table:
        response = self._send("GET", path, query, accept=_ARROW)
        try:
            return arrow_table(response.content)
        except pa.ArrowException as exc:
            raise self._strange(response) from exc

    def _send(
        self, method: str, path: str, values: Mapping[str, Any], *, accept: str
    ) -> requests.Response:
        """Return the response to a request.

        Raises:
            ServerRefusalError: It is a problem.
            RemoteError: There is none.
        """
        is_query = method == "GET"
        headers = {"Accept": f"{accept}, application/problem+json"}
        url = f"{self.server}/api/v1/{path}"
        try:
            response = self._session.request(
                method,
                url,
                params=dict(values) if is_query else None,
                data=None if is_query else msgspec.json.encode(values),
                headers=headers if is_query else {**headers, "Content-Type": _JSON},
                timeout=self.timeout_s,
                allow_redirects=False,  # it would take the token elsewhere
            )
        except requests.Timeout as exc:
            raise RemoteTimeoutError(
                f"{self.server} did not answer within {self.timeout_s:g} s.",
                endpoint=self.server,
                operation=f"{method} {path}",
                outcome="unknown",
                hint="Try again, or wait longer (timeout_s).",
            ) from exc
        except requests.RequestException as exc:
            raise UnreachableError(
                f"No connection to {self.server}: {_cause(exc)}.",
                endpoint=self.server,
                operation=f"{method} {path}",
                outcome="not_sent" if isinstance(exc, requests.ConnectionError) else "unknown",
                hint="Check the address, and that `trimtab dashboard` runs there.",
            ) from exc
        if not response.ok or response.is_redirect:
            raise self._refusal(response)
        return response

    def _refusal(self, response: requests.Response) -> OpsError:
        try:
            problem = msgspec.json.decode(response.content, type=_Problem)
        except msgspec.MsgspecError:
            return self._strange(response)
        status = response.status_code
        return ServerRefusalError(
            problem.detail, hint=problem.hint, code=problem.code, status=status
        )

    def _strange(self, response: requests.Response) -> OpsError:
        return ComputeError(
            f"{self.server} answered {response.status_code} to {response.request.path_url}, "
            "not as Trimtab does.",
            hint="Check the address: it is that of the pages.",
        )


class _Problem(msgspec.Struct):
    detail: str
    code: str
    hint: str = ""


class _Method:
    """An operation as a method of a client."""

    def __init__(self, client: Client, operation: Operation[Any, Any]) -> None:
        self._client = client
        self._operation = operation
        self.__name__ = operation.name.replace("-", "_")
        self.__doc__ = inspect.cleandoc(operation.help)
        self.__signature__ = _signature(operation)

    def __call__(
        self,
        cluster: str,
        *,
        set: Sequence[str] = (),  # noqa: A002  # as the parameter is named
        release: str | None = None,
        **fields: Any,
    ) -> Answered:
        many = {one.name for one in params_of(self._operation.request) if one.is_many}
        values = {name: tuple(one) if name in many else one for name, one in fields.items()}
        request = parse(self._operation.request, values)
        return self._client.answer(self._operation, cluster, request, settings=set, release=release)


_METHODS: Final = tuple(name.replace("-", "_") for name in MODULES)


def _signature(operation: Operation[Any, Any]) -> inspect.Signature:
    """Return the parameters of a method, for help and completion."""
    empty = inspect.Parameter.empty
    fields = [
        inspect.Parameter(
            one.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=empty if one.default is msgspec.NODEFAULT else one.default,
            annotation=one.type,
        )
        for one in params_of(operation.request)
    ]
    cluster = inspect.Parameter("cluster", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=str)
    return inspect.Signature([cluster, *fields], return_annotation=Answered)


def _query(request: Request) -> dict[str, Any]:
    """Return the parameters of a query; those at their default are left out."""
    values = msgspec.to_builtins(request)
    defaults = {one.name: one.default for one in params_of(type(request))}
    return {
        name: str(value).lower() if isinstance(value, bool) else value
        for name, value in values.items()
        if value is not None and getattr(request, name) != defaults[name]
    }


def _address(server: str) -> str:
    """Return the address of a server without a slash at its end.

    Raises:
        InputError: It is none.
    """
    try:
        parts = urlsplit(server)
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname)
        is_plain = not (parts.username or parts.query or parts.fragment) and parts.port != 0
    except ValueError:
        is_address = is_plain = False
    if not is_address or not is_plain:
        raise InputError(
            f"{server!r} is not the address of a server.",
            hint="Use an address such as http://127.0.0.1:8501, without a user, query or #.",
        )
    return server.rstrip("/")


def _cause(exc: Exception) -> str:
    """Return the innermost reason of an error of requests, without its wrapping."""
    inner: BaseException = exc
    while (deeper := inner.__cause__ or inner.__context__) is not None:
        inner = deeper
    text = getattr(inner, "strerror", None) or str(inner) or type(inner).__name__
    return text.rstrip(".")
