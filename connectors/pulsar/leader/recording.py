"""Recordings of what the leader of a cluster works from, for tests and support cases."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from time import monotonic, time
from typing import Any, Final

import msgspec

from connectors.config.model import ClusterConfig
from connectors.pulsar.leader.watch import Tree, ZnodeWatcher
from connectors.pulsar.topics.capture import service_addresses
from connectors.pulsar.topics.reader import LoadTopicReader
from core.errors import OpsError
from core.pulsar.catalogue import SETTINGS
from core.pulsar.leader.events import MESSAGE, RecordingWriter, ZnodeEvent
from core.pulsar.snapshot.znodes import readings as roots
from core.pulsar.snapshot.znodes.brokers import decode_registry
from core.pulsar.snapshot.znodes.readings import Readings
from core.snapshot.problems import ProblemLog

_FLUSH_S: Final = 2.0
_TAKE_S: Final = 0.25
_PUBLIC: Final = frozenset(setting.key for setting in SETTINGS)
_POLICIES: Final = ("namespaceIsolationPolicies", "failureDomain")


def _only_policies(folder: str, names: Iterable[str]) -> Iterable[str]:
    """Of a cluster's znode only the policies: its own value may hold credentials."""
    if folder.count("/") == roots.CLUSTERS.count("/") + 1:
        return [name for name in names if name in _POLICIES]
    return names


LEADER: Final = Tree(roots.LEADERS[0])
REPORTS: Final = Tree(roots.BROKERS, 1)
AVERAGES: Final = Tree(roots.BROKER_AVERAGES, 1)
OWNERS: Final = Tree(roots.OWNERSHIP, 3, watch="folders")
BUNDLE_DATA_ONCE: Final = Tree(roots.BUNDLE_DATA, 3, watch="none")
QUOTAS: Final = Tree(roots.RESOURCE_QUOTA, 3)
DYNAMIC: Final = Tree(roots.CONFIGURATION)
LOCAL_POLICIES: Final = Tree(roots.LOCAL_POLICIES, 2)
CLUSTERS: Final = Tree(roots.CLUSTERS, 3, keep=_only_policies)
EXTENSIBLE_LEADER: Final = Tree(roots.LEADERS[1])
RECORDED: Final = (
    LEADER,
    EXTENSIBLE_LEADER,
    REPORTS,
    AVERAGES,
    OWNERS,
    Tree(roots.BUNDLE_DATA, 3),
    QUOTAS,
    DYNAMIC,
    LOCAL_POLICIES,
    CLUSTERS,
)
"""What the decisions of the modular manager's leader follow from."""


def without_secrets(event: ZnodeEvent) -> ZnodeEvent:
    """Return the event without values that may be credentials.

    Of the dynamic settings only those that Trimtab knows are recorded; of a cluster's own znode
    nothing but that it is there.
    """
    if event.value is None:
        return event
    if event.path == roots.CONFIGURATION:
        return msgspec.structs.replace(event, value=_public_settings(event.value))
    folder, _, _ = event.path.rpartition("/")
    if folder == roots.CLUSTERS:
        return msgspec.structs.replace(event, value="")
    return event


def _public_settings(text: str) -> str:
    try:
        settings: Any = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return ""
    if not isinstance(settings, dict):
        return ""
    return msgspec.json.encode(
        {key: value for key, value in settings.items() if key in _PUBLIC}
    ).decode()


class TopicRecording:
    """The messages that the leader of an extensible cluster works from.

    Args:
        write: Takes the events of the messages.
    """

    def __init__(self, config: ClusterConfig, write: Callable[[list[ZnodeEvent]], None]) -> None:
        self._config = config
        self._write = write
        self._reader = LoadTopicReader(config)
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self.failure: Exception | None = None

    @property
    def is_started(self) -> bool:
        """Whether there was something to read."""
        return self._thread is not None

    def start(self, brokers: Mapping[str, bytes]) -> None:
        """Read what is there, and go on in a thread; nothing happens on other load managers.

        Args:
            brokers: Broker id -> its znode.

        Raises:
            MissingExtraError: The package that reads topics is not installed.
            RemoteError: The topics cannot be read.
        """
        registry = decode_registry(Readings(brokers=dict(brokers)), ProblemLog())
        addresses = service_addresses(self._config, registry)
        if not addresses or self._thread is not None:
            return
        self._take(addresses)
        self._thread = threading.Thread(
            target=self._follow, args=(addresses,), name="load topics", daemon=True
        )
        self._thread.start()

    def _follow(self, addresses: Mapping[str, str]) -> None:
        try:
            while not self._stop.wait(_TAKE_S):
                self._take(addresses)
        except OpsError as exc:
            self.failure = exc

    def _take(self, addresses: Mapping[str, str]) -> None:
        found = self._reader.take(addresses)
        now_s = time()
        self._write(
            [
                ZnodeEvent(
                    kind=MESSAGE,
                    received_at_s=now_s,
                    path=one.topic,
                    key=one.key,
                    value=one.data.decode(errors="replace") if one.data else None,
                    mtime_ms=one.published_ms,
                )
                for one in sorted(found, key=lambda message: message.published_ms)
            ]
        )

    def close(self) -> None:
        """End it; twice is harmless."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        self._reader.close()


class LeaderRecording:
    """A recording of what the leader works from: znodes, and messages on an extensible cluster.

    Args:
        out: File to write; compressed if its name ends with ``.gz``.
        on_begin: Called once with the number of znodes that watching began with.

    Raises:
        ConfigError: The cluster has no ZooKeeper address, or one that cannot be used.
    """

    def __init__(
        self, config: ClusterConfig, out: Path, on_begin: Callable[[int], None] | None = None
    ) -> None:
        self._watcher = ZnodeWatcher(config, RECORDED, self._write)
        self._out = out
        self._on_begin = on_begin
        self._writer: RecordingWriter | None = None
        self._flushed_at = monotonic()
        self._znodes = 0
        self._brokers: dict[str, bytes] = {}
        self._lock = threading.Lock()
        self._topics = TopicRecording(config, self._write_events)

    def run(self, stop: threading.Event, *, for_s: float | None = None) -> int:
        """Record until ``stop`` is set; return how many events the file has.

        Whatever ends it, what was recorded up to two seconds before can be read.

        Args:
            stop: Set it to end.
            for_s: Ends it after this time, seconds; ``None`` if only ``stop`` ends it.

        Raises:
            InputError: The file exists, or cannot be written.
            RemoteError: ZooKeeper cannot be reached at the start, or refuses the session.
        """
        ends_at = None if for_s is None else monotonic() + for_s

        def is_over() -> bool:
            self._flush_if_due()
            if self._topics.failure is not None:
                raise self._topics.failure
            return stop.is_set() or (ends_at is not None and monotonic() >= ends_at)

        with RecordingWriter(self._out) as writer:
            self._writer = writer
            try:
                self._watcher.run(is_over)
                self._topics.close()
            except BaseException:
                self._topics.close()
                if writer.count == 0:
                    self._out.unlink(missing_ok=True)
                raise
        return writer.count

    def _write(self, events: list[ZnodeEvent]) -> None:
        self._write_events(events)
        for event in events:
            self._znodes += event.is_znode
            folder, _, name = event.path.rpartition("/")
            if folder == roots.BROKERS and event.value is not None:
                self._brokers[name] = event.value.encode()
            if event.kind == "ready":
                self._topics.start(self._brokers)
                if self._on_begin is not None:
                    self._on_begin(self._znodes)
                    self._on_begin = None

    def _write_events(self, events: list[ZnodeEvent]) -> None:
        with self._lock:
            if self._writer is None:
                return
            for event in events:
                self._writer.write(without_secrets(event))

    def _flush_if_due(self) -> None:
        if self._writer is not None and monotonic() - self._flushed_at >= _FLUSH_S:
            self._flushed_at = monotonic()
            with self._lock:
                self._writer.flush()
