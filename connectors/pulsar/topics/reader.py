"""Listens to the extensible manager's topics and keeps the last record of each key.

Load and top bundles are on non-persistent topics: who listens hears only what is published from
then on, about once a minute. So the readers stay open between captures, their client queues what
comes, and each capture takes what is there.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from time import monotonic
from typing import Any, Final

import msgspec

from connectors.config.model import ClusterConfig
from connectors.transport.redaction import redacted, redacted_text
from core.errors import (
    AuthError,
    ConfigError,
    ConflictError,
    InvariantError,
    NotFoundError,
    ProtocolError,
    RemoteError,
    RemoteTimeoutError,
    ServerError,
    ThrottledError,
    UnreachableError,
)
from core.pulsar.snapshot.load_topics import (
    BROKER_LOAD_TOPIC,
    TOP_BUNDLES_TOPIC,
    UNIT_STATE_TOPIC,
    LoadTopics,
)

FIRST_LISTEN_S: Final = 8.0
_MISSING: Final = "The load topics are read with the package pulsar-client."
_INSTALL: Final = "Install Trimtab with its extra: pip install 'trimtab[extensible]'."
_DRAIN_MS: Final = 15
_ANSWER_MS: Final = 2_000
_QUEUE: Final = 20_000
_MAX_AT_ONCE: Final = 500_000
_MAX_ADDRESSES: Final = 8

KINDS: Final[dict[type[RemoteError], frozenset[str]]] = {
    AuthError: frozenset(
        {"AuthenticationError", "AuthorizationError", "ErrorGettingAuthenticationData"}
    ),
    NotFoundError: frozenset(
        {
            *("TopicNotFound", "ConsumerNotFound", "SubscriptionNotFound"),
            *("TransactionNotFound", "TransactionCoordinatorNotFoundError"),
        }
    ),
    ConflictError: frozenset(
        {
            *("ConsumerBusy", "ProducerBusy", "ProducerFenced", "TopicTerminated"),
            *("TransactionConflict", "NotAllowedError", "OperationNotSupported"),
            *("CumulativeAcknowledgementNotAllowedError", "InvalidTxnStatusError"),
        }
    ),
    RemoteTimeoutError: frozenset({"Timeout"}),
    ThrottledError: frozenset(
        {
            *("TooManyLookupRequestException", "ProducerBlockedQuotaExceededError"),
            *("ProducerBlockedQuotaExceededException", "ProducerQueueIsFull", "MemoryBufferIsFull"),
        }
    ),
    UnreachableError: frozenset(
        {
            *("ConnectError", "NotConnected", "AlreadyClosed", "Interrupted", "LookupError"),
            *("ConsumerNotInitialized", "ProducerNotInitialized", "ReadError"),
        }
    ),
    ServerError: frozenset(
        {
            *("BrokerMetadataError", "BrokerPersistenceError", "ServiceUnitNotReady"),
            *("ConsumerAssignError", "UnknownError", "PulsarException"),
        }
    ),
    ProtocolError: frozenset(
        {
            *("ChecksumError", "CryptoError", "IncompatibleSchema", "InvalidConfiguration"),
            *("InvalidMessage", "InvalidTopicName", "InvalidUrl", "MessageTooBig"),
            *("UnsupportedVersionError",),
        }
    ),
}
"""What each of the package's classes is to us."""

_WORDS: Final = {
    AuthError: "denies access to it",
    NotFoundError: "does not have it",
    RemoteTimeoutError: "did not respond in time",
    UnreachableError: "cannot be reached, or the connection broke",
    ServerError: "failed with an internal error",
    ThrottledError: "is throttling",
}
_HINTS: Final = {
    AuthError: "Grant Trimtab's role the right to consume from pulsar/system.",
    UnreachableError: "Check that this machine can reach the brokers' service port.",
    RemoteTimeoutError: "Check that this machine can reach the brokers' service port.",
}


class MissingExtraError(ConfigError):
    """The package that reads topics is not installed."""

    code = "unsupported"


@dataclass(frozen=True, slots=True)
class TopicMessage:
    """One message as it was published.

    Attributes:
        topic: Full name.
        key: A broker id or a bundle.
        data: JSON; empty: it withdraws the key.
        published_ms: ms since the epoch.
    """

    topic: str
    key: str
    data: bytes
    published_ms: int


class LoadTopicReader:
    """Keeps what the brokers of one cluster publish.

    Args:
        config: The cluster: credentials, TLS, time-outs.
        load_client: Returns the package; tests give their own.
    """

    def __init__(self, config: ClusterConfig, load_client: Callable[[], Any] | None = None) -> None:
        self._config = config
        self._load = load_client or _package
        self._client: Any = None
        self._readers: dict[str, Any] = {}
        self._address = ""
        self._held = LoadTopics()
        self._versions: dict[str, int] = {}

    def listen(
        self, addresses: Mapping[str, str], deadline: float, *, with_states: bool = True
    ) -> LoadTopics:
        """Take what was published, and return the last record of each key.

        The first call waits until every broker has published, a few seconds at the most; later
        ones wait for nothing.

        Args:
            addresses: Broker id -> service URL of the brokers that publish.
            deadline: Monotonic time by which to be back.
            with_states: Whether ownership is stored in a topic (and not in the metadata store).
        Raises:
            MissingExtraError: The package is not installed.
            RemoteError: The topics cannot be read.
        """
        is_first = self._client is None
        with self._translated("read the load topics"):
            self._connect(addresses)
            for topic in (BROKER_LOAD_TOPIC, TOP_BUNDLES_TOPIC):
                self._open(topic)
            if with_states:
                self._open(UNIT_STATE_TOPIC)
                self._take_states(deadline)
            until = min(deadline, monotonic() + FIRST_LISTEN_S) if is_first else monotonic()
            self._take_loads(addresses, until)
        self._held.is_read = True
        return self._held

    def take(self, addresses: Mapping[str, str], *, with_states: bool = True) -> list[TopicMessage]:
        """Return the messages that arrived since the last call; the states from their beginning.

        Args:
            addresses: Broker id -> service URL of the brokers that publish.
            with_states: Whether ownership is stored in a topic (and not in the metadata store).
        Raises:
            MissingExtraError: The package is not installed.
            RemoteError: The topics cannot be read.
        """
        topics = [BROKER_LOAD_TOPIC, TOP_BUNDLES_TOPIC]
        topics += [UNIT_STATE_TOPIC] if with_states else []
        found: list[TopicMessage] = []
        with self._translated("record the load topics"):
            self._connect(addresses)
            for topic in topics:
                self._open(topic)
            for topic in topics:
                for message in self._arrived(topic):
                    key, data = redacted_text(message.partition_key()), redacted(message.data())
                    found.append(TopicMessage(topic, key, data, message.publish_timestamp()))
        return found

    def close(self) -> None:
        """End the connections; twice is harmless."""
        client, self._client = self._client, None
        self._readers.clear()
        if client is not None:
            try:
                client.close()
            except self._load().PulsarException:  # it is gone either way
                return

    @contextmanager
    def _translated(self, operation: str) -> Iterator[None]:
        package = self._load()
        try:
            yield
        except package.PulsarException as exc:
            self.close()
            raise translate(exc, endpoint=self._address, operation=operation) from exc

    def _connect(self, addresses: Mapping[str, str]) -> None:
        if self._client is not None:
            return
        hosts = sorted(set(addresses.values()))[:_MAX_ADDRESSES]
        if not hosts:
            raise InvariantError("No address to read the load topics from.")
        scheme = hosts[0].partition("://")[0]
        same = [url.partition("://")[2] for url in hosts if url.startswith(f"{scheme}://")]
        self._address = f"{scheme}://{','.join(same)}"
        package = self._load()
        timeouts, tls = self._config.timeouts, self._config.tls
        self._client = package.Client(
            self._address,
            authentication=_authentication(package, self._config),
            operation_timeout_seconds=max(round(timeouts.answer_s), 1),
            connection_timeout_ms=round(timeouts.connect_s * 1000),
            tls_trust_certs_file_path=str(tls.ca_file) if tls.ca_file else None,
            tls_allow_insecure_connection=not tls.verify,
            tls_validate_hostname=tls.verify,
            logger=package.FileLogger(package.LoggerLevel.Error, os.devnull),
        )

    def _open(self, topic: str) -> None:
        """Open a reader; brokers made the topics when they started, so none is made here."""
        if topic in self._readers:
            return
        package = self._load()
        is_compacted = topic == UNIT_STATE_TOPIC
        self._readers[topic] = self._client.create_reader(
            topic,
            package.MessageId.earliest if is_compacted else package.MessageId.latest,
            receiver_queue_size=_QUEUE,
            reader_name="trimtab",
            is_read_compacted=is_compacted,
        )

    def _take_loads(self, brokers: Collection[str], until: float) -> None:
        """Drain both topics; go on until every broker was heard, or time is up."""
        latest = {
            BROKER_LOAD_TOPIC: self._held.broker_loads,
            TOP_BUNDLES_TOPIC: self._held.top_bundles,
        }
        while True:
            for topic, records in latest.items():
                for key, data in self._messages(topic):
                    _keep(records, key, data)
            heard = set(self._held.broker_loads) & set(self._held.top_bundles)
            if heard >= set(brokers) or monotonic() >= until:
                return

    def _messages(self, topic: str) -> Iterator[tuple[str, bytes]]:
        """Yield key and value of what is queued right now."""
        for message in self._arrived(topic):
            yield redacted_text(message.partition_key()), redacted(message.data())

    def _arrived(self, topic: str) -> Iterator[Any]:
        """Yield the queued items."""
        timeout = self._load().Timeout
        for _ in range(_MAX_AT_ONCE):
            try:
                yield self._readers[topic].read_next(timeout_millis=_DRAIN_MS)
            except timeout:
                return

    def _take_states(self, deadline: float) -> None:
        """Read the ownership topic to its end."""
        reader = self._readers[UNIT_STATE_TOPIC]
        while monotonic() < deadline and reader.has_message_available():
            message = reader.read_next(timeout_millis=_ANSWER_MS)
            self.keep_state(redacted_text(message.partition_key()), redacted(message.data()))

    def keep_state(self, bundle: str, data: bytes) -> None:
        """Keep a record of a bundle's state, unless an equal or newer one is held.

        Two brokers may publish the same version; the first one holds.

        Source:
            Pulsar ``ServiceUnitStateDataConflictResolver#shouldKeepLeft``: by version, unless the
            record is forced.
        """
        if not data:
            self._versions.pop(bundle, None)
            self._held.unit_states.pop(bundle, None)
            return
        version, is_forced = _version(data)
        if not is_forced and version <= self._versions.get(bundle, version - 1):
            return
        self._versions[bundle] = version
        self._held.unit_states[bundle] = data


class _Version(msgspec.Struct, rename="camel"):
    version_id: int = 0
    force: bool = False


def _version(data: bytes) -> tuple[int, bool]:
    try:
        found = msgspec.json.decode(data, type=_Version)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return 0, True  # stays, and is reported as malformed when the tables are built
    return found.version_id, found.force


def _keep(records: dict[str, bytes], key: str, data: bytes) -> None:
    """An empty record withdraws the key."""
    if data:
        records[key] = data
    else:
        records.pop(key, None)


def require_client() -> None:
    """Check that topics can be read here.

    Raises:
        MissingExtraError: The package is not installed.
    """
    _package()


def _package() -> Any:
    try:
        import pulsar  # noqa: PLC0415 - an optional extra, and slow to import
    except ImportError as exc:
        raise MissingExtraError(_MISSING, hint=_INSTALL) from exc
    return pulsar


def _authentication(package: Any, config: ClusterConfig) -> Any:
    """Return the package's form of the configured credential; ``None`` if there is none."""
    auth, tls = config.auth, config.tls
    if auth.has_token:
        return package.AuthenticationToken(auth.read_token())
    if auth.username is not None:
        return package.AuthenticationBasic(auth.username, auth.read_password())
    if tls.cert_file is not None:
        return package.AuthenticationTLS(str(tls.cert_file), str(tls.key_file))
    return None


def kind_of(exc: BaseException) -> type[RemoteError] | None:
    """Return our class for one of the package's, ``None`` for one that is not in the table."""
    name = type(exc).__name__
    return next((ours for ours, theirs in KINDS.items() if name in theirs), None)


def translate(exc: BaseException, *, endpoint: str, operation: str) -> RemoteError:
    """Return our error for one of the package's; whatever it is, it becomes a RemoteError."""
    kind = kind_of(exc) or ProtocolError
    name = type(exc).__name__
    return kind(
        f"{endpoint} {_WORDS.get(kind, 'returned an unknown error')} ({name}).",
        endpoint=endpoint,
        operation=operation,
        outcome="unknown" if kind in (RemoteTimeoutError, UnreachableError) else "refused",
        hint=_HINTS.get(kind, ""),
    )
