"""A Pulsar cluster as the executor acts on it: fresh snapshots, actions of steps, settings."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final, TypeVar

from connectors.apply.addresses import Addresses
from connectors.apply.limits import Limited
from connectors.apply.policies import read_policy, send_policy
from connectors.apply.policy import PolicyAction
from connectors.apply.setting import SettingAction
from connectors.apply.sight import AdminEyes, Eyes, OwnersAsked, ZnodeEyes
from connectors.apply.split import SplitAction
from connectors.apply.unload import UnloadAction
from connectors.collect import PulsarCollector
from connectors.config import ClusterConfig
from connectors.pulsar_admin.capture import ADMIN
from connectors.pulsar_admin.client import AdminAnswer, AdminClient
from connectors.zookeeper.session import ZooKeeperSession
from core.actions.ports import Action
from core.errors import InvariantError, NotFoundError, ProtocolError, RemoteError, UnreachableError
from core.plan.commands import request_body, request_method, request_path
from core.plan.model import SetDynamicSetting, SplitBundle, Step, UnloadBundle
from core.plan.steps import SetPolicy
from core.snapshot import PulsarSnapshot
from core.snapshot.znodes import ProblemLog, Readings
from core.snapshot.znodes import readings as roots
from core.snapshot.znodes.assemble import decode_dynamic
from core.snapshot.znodes.brokers import leader_of

T = TypeVar("T")
_CONFIGURATION: Final = f"{ADMIN}/brokers/configuration"
_RUNTIME: Final = f"{_CONFIGURATION}/runtime"
_LEADER: Final = f"{ADMIN}/brokers/leaderBroker"


class PulsarCluster(Limited):
    """One cluster, acted on by one worker; usable from one thread.

    Args:
        config: The cluster.
        limits: Returns it with the limits that hold at that moment; by default they never change.
    Raises:
        ConfigError: A secret or certificate cannot be read.
    """

    def __init__(
        self, config: ClusterConfig, limits: Callable[[], ClusterConfig] | None = None
    ) -> None:
        super().__init__(config, limits)
        self._client = AdminClient(config)
        self._addresses = Addresses(config, self._client)
        self._collector = PulsarCollector(config)
        self._session = ZooKeeperSession(config) if config.zookeeper else None
        self._last: PulsarSnapshot | None = None

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
        """Return the action that carries out a step.

        Raises:
            RemoteError: The cluster could not be read.
        """
        asked = OwnersAsked(
            self._client, self._addresses, self._pulsar_cluster, self._config.rest_fan_out
        )
        match step:
            case UnloadBundle():
                return UnloadAction(step, self._eyes(asked), self._send, asked.still_serves)
            case SplitBundle():
                eyes = self._eyes(asked)
                return SplitAction(step, eyes, self._send_split, asked.still_serves)
            case SetDynamicSetting():
                return SettingAction(step, self)
            case SetPolicy():
                return PolicyAction(step, self)
            case _:
                raise InvariantError(f"A Pulsar cluster has no step of kind {step.kind}.")

    def _eyes(self, asked: OwnersAsked) -> Eyes:
        is_modular = self._load_manager() == "modular"  # the cluster's facts are known from here on
        if self._session is None:
            return AdminEyes(self._client, self._addresses, asked, self._bases)
        return ZnodeEyes(self._session, self._addresses, None if is_modular else asked)

    def _send(self, step: UnloadBundle, path: str) -> None:
        """Send the request of a step to whoever has to get it: the leader, or the owner.

        The modular manager's leader keeps the destination in mind and sends on to the owner.
        """
        if step.destination is not None and self._load_manager() == "modular":
            base = self._leader_url()
        else:
            base = self._addresses.find(step.owner) or self._any_base()
        self._client.request("PUT", base, path)

    def _send_split(self, step: SplitBundle) -> None:
        """Send the request of a split to the owner, with its positions as the body."""
        base = self._addresses.find(step.owner) or self._any_base()
        text = request_body(step)
        body = None if text is None else text.encode("ascii")
        self._client.request("PUT", base, f"{ADMIN}/{request_path(step)}", body=body)

    def _leader_url(self) -> str:
        """Return the leader's web address as of now.

        Raises:
            RemoteError: Nobody leads, or its address is not known.
        """
        leader = self._leader()
        if leader is None:
            raise UnreachableError(
                f"{self.name} has no leader right now, and only the leader takes a destination.",
                endpoint=self.name,
                operation="find the leader",
                outcome="not_sent",
                hint="Wait for the election (seconds), then plan anew.",
            )
        url = self._addresses.find(leader)
        if url is None:
            self.snapshot()  # it came after the last one
            url = self._addresses.find(leader)
        if url is None:
            raise UnreachableError(
                f"The leader {leader} of {self.name} has no web address that may be asked.",
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

    def policy(self, step: SetPolicy) -> str | None:
        """Return the policy that a step is about, as it is now; ``None``: it is not set.

        Raises:
            RemoteError: It cannot be read.
        """
        return read_policy(step, self._ask_anyone)

    def send_policy(self, step: SetPolicy) -> None:
        """Ask for a policy to be set or removed: one broker, once.

        Raises:
            RemoteError: It was refused, or nobody knows.
        """
        send_policy(step, self._ask_one)

    def _ask_anyone(self, method: str, path: str, body: bytes | None) -> AdminAnswer:
        return self._first(lambda base: self._client.request(method, base, path, body=body))

    def _ask_one(self, method: str, path: str, body: bytes | None) -> AdminAnswer:
        """Ask one broker; another one only where a request was never sent."""
        failure: RemoteError | None = None
        for base in self._bases():
            try:
                return self._client.request(method, base, path, body=body)
            except RemoteError as exc:
                if exc.outcome != "not_sent":
                    raise
                failure = failure or exc
        raise failure or self._nobody()

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
                hint="Mend that znode first; Trimtab does not touch what it cannot put back.",
            )
        return values.get(key)

    def set_dynamic_setting(self, key: str, value: str | None) -> None:
        """Set a dynamic setting, or take it away with ``None``.

        Setting the same value again changes nothing, so broker after broker is asked.

        Raises:
            RemoteError: It was refused, or nobody knows.
        """
        try:
            self._first(self._setting_request(key, value))
        except RemoteError as exc:
            if exc.outcome == "refused" or self.dynamic_setting(key) != value:
                raise

    def send_setting(self, key: str, value: str | None) -> None:
        """Ask for a setting to be stored or taken away: one broker, once.

        Raises:
            RemoteError: It was refused, or nobody knows.
        """
        step = SetDynamicSetting(key=key, value=value)
        self._ask_one(request_method(step), f"{ADMIN}/{request_path(step)}", None)

    def _setting_request(self, key: str, value: str | None) -> Callable[[str], AdminAnswer]:
        """Return what asks a broker, given its address."""
        step = SetDynamicSetting(key=key, value=value)
        path = f"{ADMIN}/{request_path(step)}"
        return partial(self._client.request, request_method(step), path=path)

    def brokers(self) -> Collection[str]:
        """Return the ids of the brokers that may be asked."""
        self._facts()
        return self._addresses.brokers()

    def running(self, key: str, brokers: Collection[str]) -> Mapping[str, str | None]:
        """Return what those brokers run; ``None``: one does not answer or has no such setting."""
        if not brokers:
            return {}
        with ThreadPoolExecutor(min(self._config.rest_fan_out, len(brokers))) as pool:
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

    def _load_manager(self) -> str:
        return self._facts().manifest.load_manager

    def _pulsar_cluster(self) -> str:
        name = self._facts().manifest.pulsar_cluster
        if name is None:
            raise ProtocolError(
                f"Nothing tells the own name of cluster {self.name}.",
                endpoint=self.name,
                operation="read the cluster's name",
                outcome="refused",
                hint="Name it as pulsar_cluster in the configuration.",
            )
        return name

    def _body(self, base: str, path: str) -> bytes:
        return self._client.request("GET", base, path).body

    def _bases(self) -> Iterable[str]:
        """Return addresses to ask about the whole cluster: configured ones, then the brokers'."""
        self._facts()
        own = [self._addresses.find(name) for name in self._addresses.brokers()]
        return dict.fromkeys([*self._config.admin_urls, *(url for url in own if url)])

    def _any_base(self) -> str:
        return next(iter(self._bases()), f"http://{self.name}")

    def _first(self, ask: Callable[[str], T]) -> T:
        """Return the first answer; those that were not reached are passed over.

        Raises:
            RemoteError: The first refusal, or the first failure when nobody answered.
        """
        failure: RemoteError | None = None
        for base in self._bases():
            try:
                return ask(base)
            except RemoteError as exc:
                if exc.outcome == "refused":
                    raise
                failure = failure or exc
        raise failure or self._nobody()

    def _nobody(self) -> UnreachableError:
        return UnreachableError(
            f"No broker of {self.name} is known that may be asked.",
            endpoint=self.name,
            operation="find a broker",
            outcome="not_sent",
            hint="Add admin_urls, or start the brokers.",
        )
