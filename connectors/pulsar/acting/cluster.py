"""A Pulsar cluster as the executor acts on it: fresh snapshots, actions of steps, settings."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from typing import Final, TypeVar

import msgspec

from connectors.config.model import ClusterConfig
from connectors.pulsar.acting.addresses import Addresses
from connectors.pulsar.acting.bundle_reader import (
    AdminBundleReader,
    BundleReader,
    OwnersAnswer,
    ZnodeBundleReader,
)
from connectors.pulsar.acting.topics_reader import RestTopicsReader, TopicsReader
from connectors.pulsar.actions import ACTIONS
from connectors.pulsar.admin.capture import ADMIN
from connectors.pulsar.admin.client import AdminAnswer, AdminClient
from connectors.pulsar.collect import PulsarCollector
from connectors.transport.deadline import Pool, within
from connectors.worker.limits import LimitedCluster
from connectors.zookeeper.session import ZooKeeperSession
from core.actions.ports import Action
from core.errors import (
    InputError,
    InvariantError,
    NotFoundError,
    ProtocolError,
    RemoteError,
    UnreachableError,
)
from core.pulsar.policy_kinds import DEFAULT_QUOTA_NAME, PolicyChange, PolicyKind, policy_kind
from core.pulsar.snapshot.znodes import Readings
from core.pulsar.snapshot.znodes import readings as roots
from core.pulsar.snapshot.znodes.assemble import decode_dynamic
from core.pulsar.snapshot.znodes.brokers import leader_of
from core.pulsar.steps.base import AdminRequest
from core.pulsar.steps.setting import setting_request
from core.pulsar.system import PULSAR
from core.snapshot import PulsarSnapshot
from core.snapshot.problems import ProblemLog
from core.step import Step

T = TypeVar("T")
_CONFIGURATION: Final = f"{ADMIN}/brokers/configuration"
_RUNTIME: Final = f"{_CONFIGURATION}/runtime"
_LEADER: Final = f"{ADMIN}/brokers/leaderBroker"
_ANSWERS_OF_ALL: Final = 2
"""How many times as long as one answer a question may take, however many brokers are tried."""


class PulsarCluster(LimitedCluster):
    """One cluster, acted on by one worker; usable from one thread.

    Args:
        limits: Returns it with the limits that hold at that moment; by default they never change.
    Raises:
        ConfigError: A secret or certificate cannot be read.
    """

    system = PULSAR

    def __init__(
        self, config: ClusterConfig, limits: Callable[[], ClusterConfig] | None = None
    ) -> None:
        super().__init__(config, limits)
        self._client = AdminClient(config)
        self._addresses = Addresses(config, self._client)
        self._collector = PulsarCollector(config)
        self._session = ZooKeeperSession(config) if config.zookeeper else None
        self._last: PulsarSnapshot | None = None
        # for one question to broker after broker
        self._all_s = _ANSWERS_OF_ALL * config.timeouts.answer_s

    # -- life -----------------------------------------------------------------------------------

    def close(self) -> None:
        """End every session and connection; twice is harmless."""
        self._collector.close()
        self._client.close()
        if self._session is not None:
            self._session.close()

    def snapshot(self) -> PulsarSnapshot:
        """Return a fresh snapshot.

        Raises:
            RemoteError: Nothing could be read.
        """
        self._client.renew_credentials()
        taken = self._collector.collect()
        self._addresses.take(taken)
        self._last = taken
        return taken

    # -- acting ---------------------------------------------------------------------------------

    def action(self, step: Step) -> Action:
        """Return the action that executes a step.

        Raises:
            RemoteError: The cluster could not be read.
        """
        make = ACTIONS.get(type(step))
        if make is not None:
            return make(step, self)
        raise InvariantError(f"A Pulsar cluster does not support steps of kind {step.kind}.")

    def owners(self) -> OwnersAnswer:
        """Return the reader of what brokers own."""
        return OwnersAnswer(
            self._client, self._addresses, self._pulsar_cluster, self._config.rest_fan_out
        )

    def reader(self, owners_answer: OwnersAnswer) -> BundleReader:
        """Return the reader of bundle states."""
        is_modular = self.load_manager() == "modular"  # the cluster's facts are known from here on
        if self._session is None:
            return AdminBundleReader(self._client, self._addresses, owners_answer, self._bases)
        return ZnodeBundleReader(
            self._session, self._addresses, None if is_modular else owners_answer
        )

    def topics(self) -> TopicsReader:
        """Return the reader of what asks for a bundle."""
        return RestTopicsReader(
            self._client,
            self._addresses,
            self._facts,
            lambda path: self._first(lambda base: self._body(base, path)),
        )

    def send(self, base: str, request: AdminRequest) -> None:
        """Send a request, once.

        Raises:
            RemoteError: It was refused, or its outcome is unknown.
        """
        path, body = f"{ADMIN}/{request.path}", body_of(request)
        self._client.request(request.method, base, path, body=body)

    def url_of(self, broker: str) -> str:
        """Return a broker's web address, or any other where it has none."""
        return self._addresses.find(broker) or self._any_base()

    def leader_url(self) -> str:
        """Return the leader's web address as of now.

        Raises:
            RemoteError: There is no leader, or its address is unknown.
        """
        leader = self._leader()
        if leader is None:
            raise UnreachableError(
                f"{self.name} has no leader; only the leader accepts a destination.",
                endpoint=self.name,
                operation="find the leader",
                outcome="not_sent",
                hint="Wait a few seconds for the election, then plan again.",
            )
        url = self._addresses.find(leader)
        if url is None:
            self.snapshot()  # it came after the last one
            url = self._addresses.find(leader)
        if url is None:
            raise UnreachableError(
                f"The leader {leader} of {self.name} has no web address that may be contacted.",
                endpoint=leader,
                operation="find the leader",
                outcome="not_sent",
                hint="Where admin_urls are all https, brokers must register an https address.",
            )
        return url

    def _leader(self) -> str | None:
        problems, readings = ProblemLog(), Readings()
        if self._session is not None:
            found = [node for node in self._session.read(*roots.LEADERS) if node is not None]
            readings.leader = found[0].value if found else None
        else:
            try:
                readings.leader = self._first(lambda base: self._body(base, _LEADER))
            except NotFoundError:
                return None
        return leader_of(readings, problems)

    # -- policies -------------------------------------------------------------------------------

    def policy(self, change: PolicyChange) -> str | None:
        """Return the current policy, or ``None`` if not set.

        Raises:
            RemoteError: It cannot be read.
        """
        return read_policy(change, self._request_any)

    def _request_any(self, method: str, path: str, body: bytes | None) -> AdminAnswer:
        return self._first(lambda base: self._client.request(method, base, path, body=body))

    def _send_to_one(self, method: str, path: str, body: bytes | None) -> AdminAnswer:
        """Send to one broker; to another one only if a request was never sent."""
        failure: RemoteError | None = None
        bases = self._bases()
        with within(self._all_s):
            for base in bases:
                try:
                    return self._client.request(method, base, path, body=body)
                except RemoteError as exc:
                    if exc.outcome != "not_sent":
                        raise
                    failure = failure or exc
        raise failure or self._unreachable()

    # -- settings -------------------------------------------------------------------------------

    def dynamic_setting(self, key: str) -> str | None:
        """Return the dynamic value of a setting, ``None`` when it has none.

        Raises:
            RemoteError: It cannot be read.
        """
        if self._session is not None:
            node = self._session.read(roots.CONFIGURATION)[0]
            raw = b"{}" if node is None else node.value or b"{}"
        else:
            raw = self._first(lambda base: self._body(base, f"{_CONFIGURATION}/values"))
        problems = ProblemLog()
        values = decode_dynamic(raw, problems)
        if len(problems):
            raise ProtocolError(
                f"The dynamic settings of {self.name} cannot be read: {problems.named()[0].what}",
                endpoint=self._session.endpoint if self._session else self.name,
                operation=f"read {roots.CONFIGURATION}",
                outcome="refused",
                hint="Repair that znode first; Trimtab changes only settings that it can restore.",
            )
        return values.get(key)

    def pending(self) -> frozenset[str]:
        """Return nothing: brokers queue no request."""
        return frozenset()

    def set_dynamic_setting(self, key: str, value: str | None) -> None:
        """Set a dynamic setting, or remove it with ``None``.

        Setting the same value again changes nothing, so broker after broker is tried.

        Raises:
            RemoteError: It was refused, or its outcome is unknown.
        """
        try:
            self._first(self._setting_request(key, value))
        except RemoteError as exc:
            if exc.outcome == "refused":
                raise
            try:
                is_set = self.dynamic_setting(key) == value
            except RemoteError:  # whether it was sent is what counts
                raise exc from None
            if not is_set:
                raise

    def send_to_any(self, request: AdminRequest) -> None:
        """Send a request to one broker, once.

        Raises:
            RemoteError: It was refused, or its outcome is unknown.
        """
        self._send_to_one(request.method, f"{ADMIN}/{request.path}", body_of(request))

    def _setting_request(self, key: str, value: str | None) -> Callable[[str], AdminAnswer]:
        """Return the function that sends the request to a broker address."""
        request = setting_request(key, value)
        return partial(self._client.request, request.method, path=f"{ADMIN}/{request.path}")

    def brokers(self) -> Collection[str]:
        """Return the ids of the brokers that may be contacted."""
        self._facts()
        return self._addresses.brokers()

    def running(self, key: str, brokers: Collection[str]) -> Mapping[str, str | None]:
        """Return the brokers' running values, or ``None`` if one lacks it."""
        if not brokers:
            return {}
        with within(self._all_s), Pool(min(self._config.rest_fan_out, len(brokers))) as pool:
            texts = pool.map(lambda name: self._running_at(name, key), brokers)
            return dict(zip(brokers, texts, strict=True))

    def _running_at(self, broker: str, key: str) -> str | None:
        url = self._addresses.find(broker)
        if url is None:
            return None
        try:
            return self._client.get(url, _RUNTIME, dict[str, str]).get(key)
        except RemoteError:
            return None

    # -- facts ----------------------------------------------------------------------------------

    def _facts(self) -> PulsarSnapshot:
        return self._last or self.snapshot()

    def load_manager(self) -> str:
        """Return the load manager of the last snapshot."""
        return self._facts().manifest.load_manager

    def _pulsar_cluster(self) -> str:
        name = self._facts().manifest.pulsar_cluster
        if name is None:
            raise ProtocolError(
                f"The Pulsar name of cluster {self.name} is unknown.",
                endpoint=self.name,
                operation="read the cluster's name",
                outcome="refused",
                hint="Set pulsar_cluster in the configuration.",
            )
        return name

    def _body(self, base: str, path: str) -> bytes:
        return self._client.request("GET", base, path).body

    def _bases(self) -> Iterable[str]:
        """Return addresses of the whole cluster: configured ones, then the brokers'."""
        self._facts()
        own = [self._addresses.find(name) for name in self._addresses.brokers()]
        return dict.fromkeys([*self._config.admin_urls, *(url for url in own if url)])

    def _any_base(self) -> str:
        return next(iter(self._bases()), f"http://{self.name}")

    def _first(self, call: Callable[[str], T]) -> T:
        """Return the first answer; those that were not reached are passed over.

        Raises:
            RemoteError: The first refusal, or when no broker answered the first failure, that of a
                request that may have been sent before others.
        """
        failure: RemoteError | None = None
        bases = self._bases()
        with within(self._all_s):
            for base in bases:
                try:
                    return call(base)
                except RemoteError as exc:
                    if exc.outcome == "refused":
                        raise
                    if failure is None or exc.outcome == "unknown" != failure.outcome:
                        failure = exc
        raise failure or self._unreachable()

    def _unreachable(self) -> UnreachableError:
        return UnreachableError(
            f"No broker of {self.name} may be contacted.",
            endpoint=self.name,
            operation="find a broker",
            outcome="not_sent",
            hint="Add admin_urls, or start the brokers.",
        )


def body_of(request: AdminRequest) -> bytes | None:
    """Return the body of a request."""
    return None if request.body is None else request.body.encode()


_NOTHING: Final = (b"", b"null", b'""')
AdminCall = Callable[[str, str, bytes | None], AdminAnswer]
"""Method, path and body to the first broker that answers."""


def read_policy(change: PolicyChange, call: AdminCall) -> str | None:
    """Return a policy in its normalized form, or ``None`` if not set.

    Raises:
        RemoteError: It cannot be read.
    """
    kind = policy_kind(change.policy)
    value = _read(kind, kind.path(change.name, change.cluster), call)
    if kind.scope == "bundle" and change.name != DEFAULT_QUOTA_NAME and value is not None:
        # brokers answer with everybody's quota where a bundle has none of its own
        common = _read(kind, kind.path(DEFAULT_QUOTA_NAME, change.cluster), call)
        return None if kind.is_same(value, common) else value
    return value


def _read(kind: PolicyKind, path: str, call: AdminCall) -> str | None:
    try:
        answer = call("GET", f"{ADMIN}/{path}", None)
    except NotFoundError:
        return None
    body = answer.body.strip()
    if body in _NOTHING:
        return None
    text = body.decode("utf-8", "replace")
    if kind.is_text:
        return _unquoted(text)
    try:
        return kind.canonical(text)
    except InputError as exc:
        raise ProtocolError(
            f"{answer.url} returns an invalid {kind.title}: {exc.message}",
            endpoint=answer.url,
            operation=f"GET {path}",
            outcome="refused",
            hint="Check that this is the web address of a Pulsar broker.",
        ) from exc


def _unquoted(text: str) -> str:
    """Return a name that is returned as JSON or as text."""
    try:
        return msgspec.json.decode(text, type=str)
    except (msgspec.DecodeError, RecursionError):
        return text
