"""What to read by the brokers' REST, from which, and what silence means.

Load reports, owned bundles, running settings and topics are answered by each broker for itself, so
each is contacted, a bounded number at once; one that hangs costs its own time-out and nothing else.
``/brokers/<cluster>`` answers any cluster's name and a topic lookup assigns unowned bundles:
neither is ever used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import wait
from dataclasses import dataclass, field
from time import monotonic
from typing import Final, TypeVar

import msgspec

from connectors.config.model import ClusterConfig
from connectors.pulsar.admin.client import AdminClient, NotRequestedError, quoted
from connectors.pulsar.admin.parse import address_of, group_names, stub_report
from connectors.transport.deadline import Pool
from core.errors import (
    AuthError,
    InputError,
    NotFoundError,
    ProtocolError,
    RemoteError,
    RemoteTimeoutError,
    UnreachableError,
)
from core.ids import is_broker_bound
from core.pulsar.settings import SETTINGS
from core.pulsar.snapshot.znodes import Readings
from core.pulsar.snapshot.znodes.assemble import decode_dynamic
from core.snapshot.model import Severity
from core.snapshot.problems import ProblemLog

T = TypeVar("T")
ADMIN: Final = "/admin/v2"
RUNTIME: Final = f"{ADMIN}/brokers/configuration/runtime"
_VERSION: Final = f"{ADMIN}/brokers/version"
_REPORT: Final = f"{ADMIN}/broker-stats/load-report"
_RUNTIME_CACHE_S: Final = 600.0
_MAX_NAMESPACES: Final = 2_000
_WANTED: Final = frozenset(
    {setting.key for setting in SETTINGS} | {"clusterName", "brokerVersion", "loadManagerClassName"}
)
_NO_SUCH_OPERATION: Final = "UnsupportedOperation"


@dataclass(slots=True)
class RestFacts:
    """Answers of the brokers.

    Attributes:
        runtime: Broker id -> running settings, those of the catalogue and who the broker is.
        silent: Broker id -> why it did not answer.
    """

    runtime: dict[str, dict[str, str]] = field(default_factory=dict)
    silent: dict[str, RemoteError] = field(default_factory=dict)

    def is_late(self, broker: str) -> bool:
        """Return whether a broker timed out: it is not queried again in this capture."""
        return _is_late(self.silent.get(broker))

    def setting(self, key: str) -> str | None:
        """Return a running setting of any broker."""
        return next((own[key] for own in self.runtime.values() if own.get(key)), None)


class RestCapture:
    """Reads a cluster through the REST of its brokers.

    Running settings change seldom (a restart, or a dynamic setting, which is read elsewhere), so
    a broker that answered them only reports its version in the next ten minutes.
    """

    def __init__(self, config: ClusterConfig, client: AdminClient) -> None:
        self._config = config
        self._client = client
        self._cache: dict[tuple[str, int | None], tuple[float, dict[str, str]]] = {}
        self._dynamic: Mapping[str, str] = {}
        self._was_silent: set[str] = set()
        self._late_urls: set[str] = set()
        self.begin(monotonic() + config.timeouts.capture_s)

    def begin(self, ends_at: float) -> None:
        """Begin a capture that has to be over at this moment of the monotonic clock, in seconds."""
        self._ends_at = ends_at
        self._client.end_by(ends_at)

    def request_each(
        self, names: Iterable[str], read: Callable[[str], T]
    ) -> tuple[dict[str, T], dict[str, RemoteError]]:
        """Send many requests at once, bounded in number and time.

        Returns:
            What each answered, and why the others did not.
        """
        listed = list(names)
        answers: dict[str, T] = {}
        silent: dict[str, RemoteError] = {}
        if not listed:
            return answers, silent
        pool = Pool(min(self._config.rest_fan_out, len(listed)), "trimtab-rest")
        try:
            futures = {pool.submit(read, name): name for name in listed}
            done, late = wait(futures, timeout=max(0.0, self._ends_at - monotonic()))
        finally:
            pool.give_up()
        for future in done:
            error = future.exception()
            if isinstance(error, RemoteError):
                silent[futures[future]] = error
            elif isinstance(error, InputError):  # an address that is none
                silent[futures[future]] = ProtocolError(
                    error.message, endpoint=futures[future], operation="GET", outcome="not_sent"
                )
            elif error is not None:
                raise error
            else:
                answers[futures[future]] = future.result()
        for future in late:
            silent[futures[future]] = (
                NotRequestedError.at(futures[future], "GET")
                if future.cancelled()
                else RemoteTimeoutError(
                    "It did not respond before the capture timed out.",
                    endpoint=futures[future],
                    operation="GET",
                    outcome="unknown",
                    hint="Raise timeouts.capture_s.",
                )
            )
        return answers, silent

    def settings(
        self,
        urls: Mapping[str, str],
        started: Mapping[str, int | None],
        dynamic: Mapping[str, str],
        problems: ProblemLog,
    ) -> RestFacts:
        """Read the running settings of every broker, or a sign of life.

        Args:
            urls: Broker id -> web address.
            started: Broker id -> when it started, ms: a restarted broker is read again.
            dynamic: Dynamic settings: when they change, every broker is read again.
            problems: Gets one entry for each broker that did not answer.
        """
        if dict(dynamic) != self._dynamic:
            self._cache.clear()
            self._dynamic = dict(dynamic)
        self._client.trust(urls.values())
        now = monotonic()
        cached = {
            name: settings
            for name in urls
            for at, settings in [self._cache.get((name, started.get(name)), (0.0, {}))]
            if settings and now - at < _RUNTIME_CACHE_S
        }

        tried: set[str] = set()

        def read(name: str) -> dict[str, str]:
            if monotonic() < self._ends_at:
                tried.add(name)
            if name in cached:
                self._client.request("GET", urls[name], _VERSION)
                return cached[name]
            return _wanted(self._client.get(urls[name], RUNTIME, dict[str, str]), dynamic)

        # those that cost a time-out last time come last, so that the others are always reached
        facts = RestFacts(*self.request_each(sorted(urls, key=self._was_silent.__contains__), read))
        self._was_silent = tried.intersection(facts.silent)
        self._late_urls |= {urls[name] for name in facts.silent if facts.is_late(name)}
        self._cache = {
            (name, started.get(name)): self._cache.get((name, started.get(name)), (now, own))
            if name in cached
            else (now, own)
            for name, own in facts.runtime.items()
        }
        self._note_silent(facts.silent, urls, problems, done="Its settings are unknown.")
        return facts

    def note_other_addresses(self, urls: Mapping[str, str], problems: ProblemLog) -> None:
        """Read a sign of life from configured addresses that are no registered broker."""
        others = {url: url for url in self._config.admin_urls if url not in urls.values()}
        _, silent = self.request_each(
            others, lambda url: self._client.request("GET", url, _VERSION)
        )
        self._late_urls = {url for url in silent if _is_late(silent[url])}
        self._note_silent(
            silent, others, problems, done="It is in admin_urls but is not a registered broker."
        )

    def settings_of_any(self, problems: ProblemLog) -> dict[str, dict[str, str]]:
        """Read running settings from the configured addresses, one after the other.

        For clusters whose brokers cannot be reached at their own addresses, only through a proxy.
        What was silent in this capture is not asked again.
        """
        bases = [url for url in self._config.admin_urls if url not in self._late_urls]
        try:
            base, settings = self._first_answer(RUNTIME, dict[str, str], bases)
        except RemoteError:
            return {}  # each silence is named already
        problems.add(
            "inconsistent",
            base,
            "No broker responds at its registered address; this admin URL does.",
            done="The settings are those of the broker that responded there.",
        )
        return {base: _wanted(settings, self._dynamic)}

    def owned_bundles(
        self, cluster: str, urls: Mapping[str, str], problems: ProblemLog
    ) -> tuple[dict[str, str], set[str]]:
        """Read which bundles every broker owns.

        Returns:
            Bundle -> broker id, and the brokers that did not answer.
        """

        def read(name: str) -> dict[str, object]:
            path = f"{ADMIN}/brokers{quoted(cluster, name)}/ownedNamespaces"
            return self._client.get(urls[name], path, dict[str, object])

        answers, silent = self.request_each(urls, read)
        self._note_silent(silent, urls, problems, done="The bundles it owns are unknown.")
        owners = {bundle: name for name, owned in answers.items() for bundle in owned}
        return owners, set(silent)

    def _note_silent(
        self,
        silent: Mapping[str, RemoteError],
        urls: Mapping[str, str],
        problems: ProblemLog,
        *,
        done: str,
        severity: Severity = "warning",
    ) -> None:
        for name, error in silent.items():
            problems.add(
                error.code,
                urls[name],
                error.message,
                done=done,
                subject=f"silent {error.code}",
                severity=severity,
            )

    # -- a cluster without ZooKeeper ----------------------------------------------------------

    def read_all(self, problems: ProblemLog) -> tuple[Readings, RestFacts]:
        """Read what the REST alone has: brokers, last statistics, owners, boundaries.

        Raises:
            RemoteError: No configured address listed the brokers.
        """
        base, names = self._first_answer(f"{ADMIN}/brokers", list[str])
        urls = {name: address_of(name, base) for name in names}
        self._client.trust(urls.values())
        readings = Readings(broker_place="REST load report of {}", leader_place=f"{base}{ADMIN}")
        readings.dynamic = self._optional(base, f"{ADMIN}/brokers/configuration/values", problems)
        readings.leader = self._optional(base, f"{ADMIN}/brokers/leaderBroker", problems)
        dynamic = decode_dynamic(readings.dynamic, ProblemLog())
        facts = self.settings(urls, {}, dynamic, problems)
        readings.pulsar_cluster = facts.setting("clusterName") or self._config.pulsar_cluster
        alive = {
            name: url
            for name, url in urls.items()
            if isinstance(facts.silent.get(name), AuthError | None)
        }
        self._reports(readings, urls, alive, facts, problems)
        cluster = readings.pulsar_cluster
        if cluster is not None:
            readings.owners, silent = self.owned_bundles(cluster, alive, problems)
            readings.owners_known = not silent and len(alive) == len(urls)
            self._policies(readings, base, cluster, problems)
        self._boundaries(readings, base, problems)
        return readings, facts

    def _first_answer(
        self, path: str, kind: type[T], bases: Sequence[str] | None = None
    ) -> tuple[str, T]:
        failures: list[RemoteError] = []
        for base in self._config.admin_urls if bases is None else bases:
            try:
                return base, self._client.get(base, path, kind)
            except RemoteError as exc:
                failures.append(exc)
        if failures:
            raise failures[0]
        raise UnreachableError(
            "No admin address is configured.",
            endpoint=self._config.name,
            operation=f"GET {path}",
            outcome="not_sent",
            hint="Set admin_urls.",
        )

    def _optional(self, base: str, path: str, problems: ProblemLog) -> bytes | None:
        """Return the body, or ``None`` when there is none (404) or it could not be read."""
        try:
            return self._client.request("GET", base, path).body
        except NotFoundError:
            return None
        except RemoteError as exc:
            problems.add(exc.code, f"{base}{path}", exc.message, done="It is unknown.")
            return None

    def _reports(
        self,
        readings: Readings,
        urls: Mapping[str, str],
        alive: Mapping[str, str],
        facts: RestFacts,
        problems: ProblemLog,
    ) -> None:
        """Fill the brokers: load reports, or the settings where there are none."""
        answers, silent = self.request_each(
            alive, lambda name: self._client.request("GET", alive[name], _REPORT).body
        )
        for name, error in silent.items():
            if _NO_SUCH_OPERATION not in error.message:
                self._note_silent(
                    {name: error}, urls, problems, done="Its load is unknown.", severity="error"
                )
        for name, url in urls.items():
            own = facts.runtime.get(name, {})
            readings.brokers[name] = answers.get(name) or (stub_report(url, own) if own else b"")

    def _policies(self, readings: Readings, base: str, cluster: str, problems: ProblemLog) -> None:
        root = f"{ADMIN}/clusters{quoted(cluster)}"
        # 404 until the first policy was ever created
        readings.isolation = self._optional(base, f"{root}/namespaceIsolationPolicies", problems)
        raw = self._optional(base, f"{root}/failureDomains", problems)
        try:
            domains = msgspec.json.decode(raw or b"{}", type=dict[str, msgspec.Raw])
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            problems.add(
                "malformed",
                f"{base}{root}/failureDomains",
                "It is not a JSON object.",
                done="Failure domains are unknown.",
            )
            return
        readings.failure_domains = {name: bytes(body) for name, body in domains.items()}
        place = f"{ADMIN}/resourcegroups"
        groups = group_names(self._optional(base, place, problems), f"{base}{place}", problems)
        readings.resource_groups, silent = self.request_each(
            groups,
            lambda name: (
                self._client.request("GET", base, f"{ADMIN}/resourcegroups{quoted(name)}").body
            ),
        )
        for name, error in silent.items():
            if not isinstance(error, NotFoundError):  # deleted since it was listed
                problems.add(error.code, base, error.message, done="Unknown.", subject=name)

    def _boundaries(self, readings: Readings, base: str, problems: ProblemLog) -> None:
        """Read the boundaries of all namespaces that anything named.

        ``/bundles`` answers 404 for a namespace that does not exist (a lookup's ``/bundle`` would
        answer the whole ring).
        """
        tenants = self._listed(base, ["/tenants"], problems)
        below = [f"/namespaces{quoted(tenant)}" for tenant in tenants]
        listed = self._listed(base, below, problems)
        spaces = {name for name in listed if not is_broker_bound(name)}
        if len(spaces) > _MAX_NAMESPACES:
            problems.add(
                "budget",
                base,
                f"There are {len(spaces):,} namespaces; {_MAX_NAMESPACES:,} were read.",
                done="Set zookeeper to read all boundaries.",
            )
        names_read = sorted(spaces)[:_MAX_NAMESPACES]
        answers, silent = self.request_each(
            names_read,
            lambda name: (
                self._client.request(
                    "GET", base, f"{ADMIN}/namespaces{quoted(*name.split('/'))}/bundles"
                ).body
            ),
        )
        readings.boundaries = answers
        self._stored_policies(readings, base, names_read, problems)
        for name, error in silent.items():
            if not isinstance(error, NotFoundError):  # deleted since it was listed
                problems.add(error.code, base, error.message, done="Unknown.", subject=name)

    def _stored_policies(
        self, readings: Readings, base: str, spaces: Sequence[str], problems: ProblemLog
    ) -> None:
        """Fetch the rates, the resource group and the retention, of every namespace."""
        answers, silent = self.request_each(
            spaces,
            lambda name: (
                self._client.request(
                    "GET", base, f"{ADMIN}/namespaces{quoted(*name.split('/'))}"
                ).body
            ),
        )
        readings.policies = answers
        denied = [error for error in silent.values() if not isinstance(error, NotFoundError)]
        if denied:
            problems.add(
                denied[0].code,
                base,
                denied[0].message,
                done="Rates, retention and resource groups of these namespaces are unknown.",
            )

    def _listed(self, base: str, paths: Iterable[str], problems: ProblemLog) -> list[str]:
        """Return the combined lists at these paths."""
        answers, silent = self.request_each(
            paths, lambda path: self._client.get(base, f"{ADMIN}{path}", list[str])
        )
        for path, error in silent.items():
            problems.add(
                error.code, f"{base}{ADMIN}{path}", error.message, done="Its content is unknown."
            )
        return [name for path in answers for name in answers[path]]


def _is_late(error: RemoteError | None) -> bool:
    return isinstance(error, RemoteTimeoutError) and not isinstance(error, NotRequestedError)


def _wanted(settings: Mapping[str, str], dynamic: Mapping[str, str]) -> dict[str, str]:
    """Keep what is used of the 568 settings that a broker reports, and those that are dynamic."""
    wanted = _WANTED.union(dynamic)
    return {name: value for name, value in settings.items() if name in wanted}
