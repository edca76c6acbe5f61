"""Client of a running Trimtab: the requests and answers of the command line.

Example:
    >>> from trimtab.client import Client
    >>> client = Client("https://trimtab.example.com")  # doctest: +SKIP
    >>> client.owners("prod", only_problems=True).bundles.to_pandas()  # doctest: +SKIP

Every operation is a method of its name: the cluster, the fields of its request, and where it can
assume them ``set`` and ``release``. Its answer has the JSON as ``body``, and its tables as Arrow
tables. The API token is that of ``TRIMTAB_TOKEN``, or of the file that
``TRIMTAB_TOKEN_FILE`` names.
"""

from __future__ import annotations

import time
from base64 import b64encode
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Literal
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
from core.operations.registry import operation_named
from core.operations.sent import MEDIA_TYPE, SentAnswer, arrow_table, unpacked
from core.request import Request, params_of, parse
from trimtab.answers import (
    Answered,
    BalanceAnswered,
    CommandAnswer,
    DiagnoseAnswered,
    DrillAnswered,
    HealthAnswered,
    OwnersAnswered,
)
from trimtab.token import token_of_environment

if TYPE_CHECKING:  # a client starts without the operations' kernels
    from core.operations.lookup import LookupJson
    from core.operations.place import PlacedJson
    from core.operations.shed import SheddingJson
    from core.operations.simulate import SimulatedJson
    from core.operations.tenants import TenantsJson
    from trimtab.bodies import (
        Action,
        ClusterJson,
        JobJson,
        KnownPlanJson,
        MadeJson,
        PlanJson,
        PreviewJson,
        RehearsalJson,
        SnapshotJson,
        SummaryJson,
        WholeRunJson,
    )

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
    ) -> Answered[dict[str, Any]]:
        """Return the answer of an operation, from the newest snapshot of a cluster.

        The method of the operation returns the same with its types.

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
        return Answered(*self._sent(operation, cluster, request, settings, release))

    def balance(
        self,
        cluster: str,
        *,
        policy: Literal["app", "cluster"] | None = None,
        settings: Sequence[str] = (),
        rounds: int = 100,
        seed: int | None = None,
    ) -> BalanceAnswered:
        """Return the rounds of the Pegasus balancer.

        Args:
            cluster: Name of the cluster.
            policy: Balance by table or over the cluster; ``None``: as the cluster is set.
            settings: Switches to assume, as ``KEY=JSON``.
            rounds: Number of rounds; 0: until convergence.
            seed: Seed of the choice among equal disks; ``None``: the first disk.
        """
        fields = {"policy": policy, "settings": settings, "rounds": rounds, "seed": seed}
        return BalanceAnswered(*self._answer_to("balance", cluster, fields))

    def diagnose(
        self,
        cluster: str,
        *,
        broker: str | None = None,
        bundle: str | None = None,
        node: str | None = None,
        seconds: float = 0.0,
    ) -> DiagnoseAnswered:
        """Return the causes of uneven load, each proven by simulation.

        Args:
            cluster: Name of the cluster.
            broker: Broker to explain; at most one of broker, bundle and node.
            bundle: Bundle to explain.
            node: Pegasus node or partition to explain.
            seconds: Time limit of the simulations; 0: 30.
        """
        fields = {"broker": broker, "bundle": bundle, "node": node, "seconds": seconds}
        return DiagnoseAnswered(*self._answer_to("diagnose", cluster, fields))

    def drill(
        self,
        cluster: str,
        *,
        only: Sequence[str] = (),
        brokers: bool = True,
        domains: bool = True,
        hot_threshold: float = 0.85,
        seed: int = 1,
        set: Sequence[str] = (),  # noqa: A002  # as the option is named
        release: str | None = None,
    ) -> DrillAnswered:
        """Return the failure of each broker, failure domain or node.

        Args:
            cluster: Name of the cluster.
            only: Brokers, failure domains or nodes to fail; none: all.
            brokers: Whether each broker fails.
            domains: Whether each failure domain fails.
            hot_threshold: Usage above which a broker is hot, ratio.
            seed: Seed of all random draws.
            set: Settings to assume, as ``KEY=VALUE``.
            release: Release to assume.
        """
        fields = {
            "only": only,
            "brokers": brokers,
            "domains": domains,
            "hot_threshold": hot_threshold,
            "seed": seed,
        }
        return DrillAnswered(*self._answer_to("drill", cluster, fields, set, release))

    def health(
        self,
        cluster: str,
        *,
        target: Literal["cluster", "vivo", "tight", "transfer"] = "cluster",
    ) -> HealthAnswered:
        """Return the findings of a cluster, and how even its load is.

        Args:
            cluster: Name of the cluster.
            target: Temporary target; ``cluster``: that of the configuration.
        """
        return HealthAnswered(*self._answer_to("health", cluster, {"target": target}))

    def lookup(self, cluster: str, *, topic: str) -> Answered[LookupJson]:
        """Return the bundle and the owner of a topic."""
        return Answered(*self._answer_to("lookup", cluster, {"topic": topic}))

    def owners(
        self, cluster: str, *, namespace: str | None = None, only_problems: bool = False
    ) -> OwnersAnswered:
        """Return owners, sessions and ownership problems.

        Args:
            cluster: Name of the cluster.
            namespace: Only this namespace, ``TENANT/NAMESPACE``.
            only_problems: Only bundles with an ownership problem.
        """
        fields = {"namespace": namespace, "only_problems": only_problems}
        return OwnersAnswered(*self._answer_to("owners", cluster, fields))

    def place(
        self,
        cluster: str,
        *,
        bundle: str,
        strategy: str | None = None,
        candidates: str | None = None,
        filters: bool = True,
        non_persistent: bool | None = None,
        set: Sequence[str] = (),  # noqa: A002  # as the option is named
        release: str | None = None,
    ) -> Answered[PlacedJson]:
        """Return the placement candidates of a bundle.

        Args:
            cluster: Name of the cluster.
            bundle: The bundle, ``TENANT/NAMESPACE/0xLOW_0xHIGH``.
            strategy: Placement strategy; ``None``: the active one.
            candidates: Brokers to choose from, as ``A,B``; ``None``: all.
            filters: Whether the broker filters apply first.
            non_persistent: Kind of the bundle's topics; ``None``: as in the snapshot.
            set: Settings to assume, as ``KEY=VALUE``.
            release: Release to assume.
        """
        fields = {
            "bundle": bundle,
            "strategy": strategy,
            "candidates": candidates,
            "filters": filters,
            "non_persistent": non_persistent,
        }
        return Answered(*self._answer_to("place", cluster, fields, set, release))

    def shed(
        self,
        cluster: str,
        *,
        strategy: str | None = None,
        rounds: int = 1,
        strategy_only: bool = False,
        recently_unloaded: Sequence[str] = (),
        set: Sequence[str] = (),  # noqa: A002  # as the option is named
        release: str | None = None,
    ) -> Answered[SheddingJson]:
        """Return the next shedding rounds, with the reason of each verdict.

        Args:
            cluster: Name of the cluster.
            strategy: Shedding strategy; ``None``: the active one.
            rounds: Number of rounds, all on the same load.
            strategy_only: Whether the load manager's checks are skipped.
            recently_unloaded: Bundles in their grace period.
            set: Settings to assume, as ``KEY=VALUE``.
            release: Release to assume.
        """
        fields = {
            "strategy": strategy,
            "rounds": rounds,
            "strategy_only": strategy_only,
            "recently_unloaded": recently_unloaded,
        }
        return Answered(*self._answer_to("shed", cluster, fields, set, release))

    def simulate(
        self,
        cluster: str,
        *,
        shedding: str | None = None,
        placement: str | None = None,
        rounds: int = 60,
        added: Sequence[str] = (),
        failed: Sequence[str] = (),
        removed: Sequence[str] = (),
        failed_domains: Sequence[str] = (),
        seed: int = 1,
        recently_unloaded: Sequence[str] = (),
        set: Sequence[str] = (),  # noqa: A002  # as the option is named
        release: str | None = None,
    ) -> Answered[SimulatedJson]:
        """Return the balancer's rounds to convergence.

        Args:
            cluster: Name of the cluster.
            shedding: Shedding strategy; ``None``: the active one.
            placement: Placement strategy; ``None``: the active one.
            rounds: Max number of rounds.
            added: Brokers to add first.
            failed: Brokers that fail first.
            removed: Brokers to shut down first.
            failed_domains: Failure domains that fail first.
            seed: Seed of all random draws.
            recently_unloaded: Bundles in their grace period.
            set: Settings to assume, as ``KEY=VALUE``.
            release: Release to assume.
        """
        fields = {
            "shedding": shedding,
            "placement": placement,
            "rounds": rounds,
            "added": added,
            "failed": failed,
            "removed": removed,
            "failed_domains": failed_domains,
            "seed": seed,
            "recently_unloaded": recently_unloaded,
        }
        return Answered(*self._answer_to("simulate", cluster, fields, set, release))

    def tenants(self, cluster: str) -> Answered[TenantsJson]:
        """Return the traffic and limits of each tenant."""
        return Answered(*self._answer_to("tenants", cluster, {}))

    def _answer_to(
        self,
        name: str,
        cluster: str,
        fields: Mapping[str, Any],
        settings: Sequence[str] = (),
        release: str | None = None,
    ) -> tuple[SentAnswer, str, datetime]:
        """Return the answer of the operation of a name to a request of these fields.

        Raises:
            InputError: A field does not fit.
            ServerRefusalError: The server refuses, or a job has to compute the answer.
            RemoteError: It cannot be reached, or does not answer.
        """
        operation = operation_named(name)
        many = {one.name for one in params_of(operation.request) if one.is_many}
        values = {name: tuple(one) if name in many else one for name, one in fields.items()}
        request = parse(operation.request, values)
        return self._sent(operation, cluster, request, settings, release)

    def _sent(
        self,
        operation: Operation[R, Any],
        cluster: str,
        request: R,
        settings: Sequence[str],
        release: str | None,
    ) -> tuple[SentAnswer, str, datetime]:
        """Return an answer with the id and the time of its snapshot."""
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
        return sent, response.headers.get("Trimtab-Snapshot-Id", ""), taken_at

    # -- what there is -------------------------------------------------------------------------

    def clusters(self) -> list[ClusterJson]:
        """Return the clusters that the user may view, with the newest snapshot of each."""
        found: list[ClusterJson] = self._json("GET", "clusters")["clusters"]
        return found

    def snapshots(self, cluster: str) -> list[SnapshotJson]:
        """Return the saved snapshots of a cluster, oldest first."""
        path = f"snapshots/{quote(cluster, safe='')}"
        found: list[SnapshotJson] = self._json("GET", path)["snapshots"]
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
        query = {"kind": kind, **_span(start, end), "columns": list(columns)}
        return self._table(f"history/{quote(cluster, safe='')}", query)

    def load(
        self,
        cluster: str,
        kind: str = "cluster",
        name: str = "",
        *,
        start: str | datetime = "-30d",
        end: str | datetime = "now",
        by: Literal["", "minutes", "hours", "days"] = "",
    ) -> pa.Table:
        """Return the load of one object over time, one row a period.

        Args:
            cluster: Name of the cluster.
            kind: Kind of the object, such as ``broker`` or ``tenant``.
            name: Its name; none for the cluster.
            start: First moment; a text such as ``-90d``, or an aware time.
            end: Last moment.
            by: Records that answer; none: the coarsest that answer the range.
        """
        query = {"kind": kind, "name": name, **_span(start, end), "by": by}
        return self._table(f"history/{quote(cluster, safe='')}/load", query)

    def growth(
        self, cluster: str, *, start: str | datetime = "-26w", end: str | datetime = "now"
    ) -> dict[str, Any]:
        """Return what grows in a cluster (``rows``), and when it is full.

        Args:
            cluster: Name of the cluster.
            start: First moment; a text such as ``-26w``, or an aware time.
            end: Last moment.
        """
        path = f"history/{quote(cluster, safe='')}/growth"
        found: dict[str, Any] = self._json("GET", path, _span(start, end))
        return found

    def fleet_days(self, start: str | datetime = "-30d", end: str | datetime = "now") -> pa.Table:
        """Return deviation, moves and alerts of all clusters, one row a cluster and day.

        Args:
            start: First moment; a text such as ``-30d``, or an aware time.
            end: Last moment.
        """
        return self._table("fleet/days", _span(start, end))

    # -- plans and runs ------------------------------------------------------------------------

    def plan(self, cluster: str, what: str, **fields: Any) -> MadeJson:
        """Make a plan, such as ``unload`` or ``drain``; nothing is sent.

        Args:
            cluster: Name of the cluster.
            what: Kind of plan, as the page ``/api`` of the server lists them.
            **fields: Of its request.
        """
        made: MadeJson = self._json("POST", f"plans/{quote(cluster, safe='')}/{what}", fields)
        return made

    def plans(self, cluster: str | None = None, last: int = 20) -> list[KnownPlanJson]:
        """Return the plans of the latest runs."""
        query = {"cluster": cluster, "last": last}
        found: list[KnownPlanJson] = self._json("GET", "plans", query)["plans"]
        return found

    def preview(self, plan: PlanJson) -> PreviewJson:
        """Return the expected effects of a plan."""
        cluster = quote(str(plan.get("cluster", "")), safe="")
        found: PreviewJson = self._json("POST", f"plans/{cluster}/preview", {"plan": plan})
        return found

    def dry_run(self, plan: PlanJson, cluster: str, **options: Any) -> RehearsalJson:
        """Return what would be sent by the run of a plan; the cluster is read, nothing is sent."""
        body = {"plan": plan, "cluster": cluster, **options, "dry_run": True}
        found: RehearsalJson = self._json("POST", "runs", body)["dry_run"]
        return found

    def request_run(
        self, plan: PlanJson, cluster: str, reason: str, **options: Any
    ) -> WholeRunJson:
        """Request the run of a plan."""
        body = {"plan": plan, "cluster": cluster, "reason": reason, **options}
        run: WholeRunJson = self._json("POST", "runs", body)
        return run

    def runs(self, cluster: str | None = None, last: int = 20) -> list[SummaryJson]:
        """Return the latest runs."""
        query = {"cluster": cluster, "last": last}
        found: list[SummaryJson] = self._json("GET", "runs", query)["runs"]
        return found

    def run(self, run_id: str) -> WholeRunJson:
        """Return a run with its plan and its entries in the journal."""
        run: WholeRunJson = self._json("GET", f"runs/{quote(run_id, safe='')}")
        return run

    def act(self, run_id: str, action: Action, **fields: Any) -> WholeRunJson:
        """Approve, reject, pause, resume or stop a run.

        Args:
            run_id: The run.
            action: What to do.
            **fields: ``comment`` of a decision, ``reason`` of a control request.
        """
        run: WholeRunJson = self._json("POST", f"runs/{quote(run_id, safe='')}/{action}", fields)
        return run

    def undo(self, run_id: str, *, with_moves: bool = False, reason: str = "") -> MadeJson:
        """Make the plan that undoes a run, on a fresh snapshot.

        Args:
            run_id: The run.
            with_moves: Also move back all moves since the run began.
            reason: Recorded in the plan.
        """
        fields = {"with_moves": with_moves, "reason": reason}
        made: MadeJson = self._json("POST", f"runs/{quote(run_id, safe='')}/undo", fields)
        return made

    # -- jobs ----------------------------------------------------------------------------------

    def start_job(self, kind: str, **parameters: Any) -> JobJson:
        """Start a job."""
        job: JobJson = self._json("POST", "jobs", {"kind": kind, "parameters": parameters})
        return job

    def job(self, job_id: str) -> JobJson:
        """Return a job as it stands."""
        job: JobJson = self._json("GET", f"jobs/{quote(job_id, safe='')}")
        return job

    def wait(self, job_id: str, timeout_s: float = 3_600.0) -> JobJson:
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

    # -- commands ------------------------------------------------------------------------------

    def command(
        self, arguments: Sequence[str], files: Mapping[str, bytes] | None = None
    ) -> CommandAnswer:
        """Return the answer of a command that the server runs, with the user's role there.

        Args:
            arguments: The command line, without the name of the program.
            files: Content of the files that it names.
        Raises:
            ServerRefusalError: The command is refused, or failed.
            RemoteError: The server cannot be reached, or does not answer.
        """
        body = {
            "arguments": list(arguments),
            "files": {name: b64encode(one).decode() for name, one in (files or {}).items()},
            "address": self.server,
        }
        response = self._send("POST", "commands", body, accept=_JSON)
        try:
            return msgspec.json.decode(response.content, type=CommandAnswer)
        except msgspec.MsgspecError as exc:
            raise self._strange(response) from exc

    # -- HTTP ----------------------------------------------------------------------------------

    def _json(self, method: str, path: str, values: Mapping[str, Any] | None = None) -> Any:
        """Return the JSON object of a resource; its type is that of the description."""
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


def _query(request: Request) -> dict[str, Any]:
    """Return the parameters of a query; those at their default are left out."""
    values = msgspec.to_builtins(request)
    defaults = {one.name: one.default for one in params_of(type(request))}
    return {
        name: str(value).lower() if isinstance(value, bool) else value
        for name, value in values.items()
        if value is not None and getattr(request, name) != defaults[name]
    }


def _span(start: str | datetime, end: str | datetime) -> dict[str, str]:
    """Return the parameters of a range of time."""
    ends = {"start": start, "end": end}
    return {name: one if isinstance(one, str) else one.isoformat() for name, one in ends.items()}


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
