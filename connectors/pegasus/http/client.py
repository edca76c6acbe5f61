"""GET of the endpoints: bounded in time and size; a meta server that does not lead sends on.

Only :meth:`HttpClient.apply_flag` changes anything, and only flags whose change is known to be
harmless. State-changing endpoints of tables are not offered.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from time import monotonic
from typing import Any, Final, TypeVar
from urllib.parse import urlencode, urljoin, urlsplit

import msgspec
import requests
import urllib3

from connectors.config.model import DECODED
from connectors.pegasus.http import parse
from connectors.pegasus.http.parse import (
    Flag,
    HttpNode,
    HttpTableDetail,
    HttpTables,
    Version,
)
from connectors.pegasus.rpc.parse import cluster_info_of
from connectors.transport import deadline, http
from core.bounds import json_weight
from core.errors import (
    ConflictError,
    GivenUpError,
    GuardRefusedError,
    InputError,
    NotFoundError,
    OpsError,
    ProtocolError,
    RemoteError,
    RemoteTimeoutError,
    ServerError,
    UnreachableError,
)
from core.pegasus.answers import ClusterInfo
from core.pegasus.metrics import MetricsSample

_MAX_REDIRECTS: Final = 3
_TEXT_SHOWN: Final = 200
CHANGEABLE_FLAGS: Final = frozenset(
    {
        "balance_cluster",
        "balance_op_count_per_round",
        "min_live_node_count_for_unfreeze",
        "max_reserved_dropped_replicas",
        "max_copy_rate_megabytes_per_disk",
        "max_send_rate_megabytes_per_disk",
        "config_sync_interval_ms",
        "gc_disk_error_replica_interval_seconds",
        "gc_disk_garbage_replica_interval_seconds",
        "gc_disk_migration_origin_replica_interval_seconds",
    }
)
_T = TypeVar("_T")
_CHECK: Final = "Check that it is a Pegasus server."
_RAISE: Final = "If it is right, raise answer_mib under [clusters.read_limits]."


class HttpClient:
    """The endpoints of one server; a meta server that does not lead sends on to the one that does.

    Args:
        address: ``host:port``, the same as for remote procedure calls.
        timeout_s: For a whole answer, redirects included, however its bytes come.
        max_bytes: Of the longest answer that is read.
    """

    def __init__(
        self, address: str, *, timeout_s: float = 10.0, max_bytes: int = http.MAX_DOCUMENT
    ) -> None:
        self._base = f"http://{address}"
        self._timeout_s = timeout_s
        self._max_bytes = max_bytes
        self._session = http.session()

    def close(self) -> None:
        """Close every connection."""
        self._session.close()

    # -- every server ---------------------------------------------------------------------------

    def fetch_version(self) -> Version:
        """Return version and commit."""
        version: Version = self._decoded("/version", Version)
        return version

    def fetch_flags(self) -> dict[str, Flag]:
        """Return every flag by name."""
        flags: dict[str, Flag] = self._decoded("/configs", dict[str, Flag])
        return flags

    def fetch_flag(self, name: str) -> Flag:
        """Return one flag; an unknown one is answered with 200 and a text by the server."""
        flag: Flag = self._decoded("/config", Flag, {"name": name})
        return flag

    def fetch_metrics(
        self,
        *,
        types: Sequence[str] = (),
        metrics: Sequence[str] = (),
        attributes: Mapping[str, Sequence[str]] | None = None,
    ) -> MetricsSample:
        """Return metrics: all, or only some types, names, or entities with one of attributes.

        Args:
            types: Of entities.
            metrics: Names.
            attributes: By name the values of which an entity has to have one.
        """
        listed = (attributes or {}).items()
        pairs = [part for name, values in listed for value in values for part in (name, value)]
        query = {"types": types, "metrics": metrics, "attributes": pairs}
        parameters = {key: ",".join(values) for key, values in query.items() if values}
        return self._parsed("/metrics", parse.parse_metrics, parameters)

    def apply_flag(self, name: str, value: str) -> None:
        """Change a flag of this very server, until it restarts; the leader cannot be addressed.

        Raises:
            GuardRefusedError: None of the flags whose change is known to be harmless.
            ConflictError: The server refused the value.
        """
        if name not in CHANGEABLE_FLAGS:
            raise GuardRefusedError(
                f"{name} cannot be changed at run time.",
                hint=f"Available: {', '.join(sorted(CHANGEABLE_FLAGS))}.",
            )
        path = f"/updateConfig?{urlencode({name: value})}"
        answer = self._decoded(path, dict[str, str])
        status = answer.get("update_status", "")
        if status != "ERR_OK":
            raise ConflictError(
                f"{self._base} refused {name}={value}: {status}.",
                endpoint=self._base,
                operation="GET /updateConfig",
                outcome="refused",
                hint="Check the value.",
            )

    # -- meta servers ---------------------------------------------------------------------------

    def fetch_cluster(self) -> ClusterInfo:
        """Return the leader's report on its cluster.

        With a stored level outside the five this request kills the leader: read the level by
        remote procedure call first.
        """
        return cluster_info_of(self._decoded("/meta/cluster", dict[str, str]))

    def fetch_nodes(self) -> list[HttpNode]:
        """Return the nodes with their counts of replicas."""
        return self._parsed("/meta/nodes?detail", parse.parse_nodes)

    def fetch_tables(self) -> HttpTables:
        """Return the available tables with their health, counted as ``listed``."""
        tables: HttpTables = self._decoded("/meta/apps?detail", HttpTables)
        return tables

    def fetch_table(self, name: str) -> HttpTableDetail:
        """Return one table with its partitions."""
        path = f"/meta/app?{urlencode({'name': name})}&detail"
        table: HttpTableDetail = self._decoded(path, HttpTableDetail)
        return table

    def fetch_envs(self, table: str) -> dict[str, str]:
        """Return the environment of a table; of one that is not there, too, it is empty."""
        envs: dict[str, str] = self._decoded("/meta/app_envs", dict[str, str], {"name": table})
        return envs

    # -- replica servers ------------------------------------------------------------------------

    def fetch_data_versions(self, app_id: int) -> dict[int, str]:
        """Return the data version of every partition of a table that this server holds."""
        kind = dict[int, parse.DataVersion]
        found = self._decoded("/replica/data_version", kind, {"app_id": str(app_id)})
        return {index: one.data_version for index, one in found.items()}

    def fetch_compactions(self, app_id: int) -> dict[str, int]:
        """Return the manual compactions of a table: idle, running, queuing, finished."""
        kind = dict[str, dict[str, int]]
        found = self._decoded("/replica/manual_compaction", kind, {"app_id": str(app_id)})
        return dict(found.get("status", {}))

    # -- how ------------------------------------------------------------------------------------

    def _decoded(self, path: str, kind: Any, query: Mapping[str, str] | None = None) -> Any:
        return self._parsed(path, lambda body: parse.decode(body, kind), query)

    def _parsed(
        self, path: str, parser: Callable[[bytes], _T], query: Mapping[str, str] | None = None
    ) -> _T:
        full = f"{path}?{urlencode(query, safe=',')}" if query else path
        body = self._get(full)
        try:
            return parser(body)
        except (msgspec.MsgspecError, UnicodeDecodeError, KeyError, RecursionError) as exc:
            shown = _one_line(body)
            raise ProtocolError(
                f"{self._base} returned an unexpected answer to GET {full}: {shown or exc}.",
                endpoint=self._base,
                operation=f"GET {full}",
                outcome="refused",
                hint="Check the requested name and the kind of the server.",
            ) from exc

    def _get(self, path: str) -> bytes:
        url = self._base + path
        ends_at = monotonic() + self._timeout_s
        for _ in range(_MAX_REDIRECTS + 1):
            status, body, location = self._once(url, path, ends_at)
            if status != requests.codes.temporary_redirect:
                break
            url = self._next(url, location, path)
        else:
            raise self._no_leader(path, f"more than {_MAX_REDIRECTS} redirects")
        if status != requests.codes.ok:
            raise self._refusal(status, body, path)
        return body

    def _once(self, url: str, path: str, ends_at: float) -> tuple[int, bytes, str]:
        try:
            answer = http.send(
                self._session,
                "GET",
                url,
                ends_at=ends_at,
                connect_s=self._timeout_s,
                read_s=self._timeout_s,
                max_bytes=self._max_bytes,
            )
        except http.FAILURES as exc:
            raise self._error_of(exc, url, path) from exc
        if json_weight(answer.body) > DECODED * self._max_bytes:
            raise self._protocol(path, "the answer exceeds the decoding limit")
        return answer.status, answer.body, answer.headers.get("Location", "")

    def _next(self, url: str, location: str, path: str) -> str:
        """Return the redirect target of a non-leading server: the leader, same path."""
        try:
            parts = urlsplit(urljoin(url, location))
        except ValueError:
            parts = urlsplit("")
        is_same = parts.path == urlsplit(url).path
        if not location or parts.scheme != "http" or "@" in parts.netloc or not is_same:
            raise self._no_leader(
                path, f"it redirects to {location[:_TEXT_SHOWN] or 'an empty address'}"
            )
        return parts.geturl()

    def _error_of(self, exc: Exception, url: str, path: str) -> OpsError:
        if isinstance(exc, deadline.GivenUpError):
            return GivenUpError.at(self._base, f"GET {path}")
        if isinstance(exc, requests.Timeout | urllib3.exceptions.TimeoutError | TimeoutError):
            return RemoteTimeoutError(
                f"{url} did not respond in time.",
                endpoint=self._base,
                operation=f"GET {path}",
                outcome="unknown",
                hint="Try again, or raise the timeout.",
            )
        if isinstance(exc, requests.exceptions.InvalidURL | UnicodeError):
            return InputError(f"{url} is not an address.", hint="Use the form host:port.")
        is_other = isinstance(exc, requests.RequestException | urllib3.exceptions.HTTPError)
        if isinstance(exc, requests.ConnectionError | urllib3.exceptions.ProtocolError) or (
            isinstance(exc, OSError) and not is_other
        ):
            return self._lost(url, path)
        return self._unfit(exc, path)

    def _unfit(self, exc: Exception, path: str) -> ProtocolError:
        """Return the error of an answer that came, and was not taken."""
        if isinstance(exc, deadline.TooManyError):
            return self._protocol(path, "too many large answers at once")
        if isinstance(exc, deadline.TooLongError):
            size = f"the answer has more than {self._max_bytes // 2**20} MiB"
            return self._protocol(path, size, hint=_RAISE)
        if isinstance(exc, http.CutOffError):
            return self._protocol(path, "the answer was cut off")
        # Python's own words about a number advise on Python
        return self._protocol(path, "invalid number" if type(exc) is ValueError else str(exc))

    def _lost(self, url: str, path: str) -> UnreachableError:
        return UnreachableError(
            f"No connection to {url}, or the connection was lost.",
            endpoint=self._base,
            operation=f"GET {path}",
            outcome="unknown",
            hint="Check that the server runs and is reachable from this machine.",
        )

    def _refusal(self, status: int, body: bytes, path: str) -> RemoteError:
        text = _one_line(body)
        kind: type[RemoteError] = {400: ConflictError, 404: NotFoundError}.get(status, ServerError)
        return kind(
            f"{self._base} returned {status} to GET {path}: {text or 'no content'}.",
            endpoint=self._base,
            operation=f"GET {path}",
            outcome="refused",
            hint="Check the requested name and the kind of the server.",
        )

    def _no_leader(self, path: str, why: str) -> UnreachableError:
        return UnreachableError(
            f"{self._base} is not the leader, and the leader is unknown: {why}.",
            endpoint=self._base,
            operation=f"GET {path}",
            outcome="refused",
            hint="Try again later: a new leader takes over after a failure.",
        )

    def _protocol(self, path: str, what: str, hint: str = _CHECK) -> ProtocolError:
        return ProtocolError(
            f"{self._base} returned invalid HTTP to GET {path}: {what}.",
            endpoint=self._base,
            operation=f"GET {path}",
            outcome="unknown",
            hint=hint,
        )


def _one_line(body: bytes) -> str:
    """Return the beginning of an answer as one line."""
    return " ".join(body[:_TEXT_SHOWN].decode("utf-8", "replace").split())
