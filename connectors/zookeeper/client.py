"""One ZooKeeper session of a collector: bulk reads in few requests, and watches on few paths.

A read is one of thousands in a ``MultiRead`` (servers 3.6 and later; older ones are read one by
one, pipelined). Batches are cut so that an answer stays below half a MiB, and a few of them are on
their way at once. A batch that breaks the connection is sent again in halves, until the znode that
breaks it is alone.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Any, Final

from kazoo import exceptions as kazoo_errors
from kazoo.client import KazooState
from kazoo.protocol.serialization import GetChildren, GetData

from connectors.config.model import DECODED, ClusterConfig
from connectors.transport.deadline import GivenUpError
from connectors.transport.redaction import redacted, redacted_text
from connectors.zookeeper.connection import BoundedClient
from connectors.zookeeper.errors import ENDED, translate
from connectors.zookeeper.multi_read import GET_DATA, ReadAnswer, ReadOperation, request_of
from core.errors import (
    ConfigError,
    ProtocolError,
    RemoteError,
    RemoteTimeoutError,
    UnreachableError,
)

UNREAD: Final = -9_001
"""Error code of ours: the connection was gone, or the capture's time was up."""
OVER_BUDGET: Final = -9_002
"""Error code of ours: the read budget was used up before."""
BROKE_CONNECTION: Final = -9_003
"""Error code of ours: reading this znode alone broke the connection every time."""
TOO_LARGE: Final = -9_004
"""Error code of ours: its value would take more memory than one answer may, decoded."""

_IN_FLIGHT: Final = 4
_ANSWER_BYTES: Final = 512 * 1024
_STAT_BYTES: Final = 81
_MAX_PER_BATCH: Final = 1_000
_MAX_LOSSES: Final = 30
_SINGLE_CODES: Final = {cls: code for code, cls in kazoo_errors.EXCEPTIONS.items()}

_log = logging.getLogger("trimtab.kazoo")
_log.addHandler(logging.NullHandler())
_log.propagate = False  # every loss is a problem of the snapshot; kazoo's own lines add nothing
_log.setLevel(logging.ERROR)

LOST: Final = (
    kazoo_errors.ConnectionLoss,
    kazoo_errors.ConnectionClosedError,
    kazoo_errors.SessionExpiredError,
    kazoo_errors.CancelledError,
    kazoo_errors.MarshallingError,  # an answer out of form, too: half of it may be well
)


@dataclass(slots=True)
class _Batch:
    rows: list[int]
    losses: int = 0


def new_client(config: ClusterConfig, **options: Any) -> BoundedClient:
    """Return a client of the cluster's ZooKeeper; nothing is connected yet.

    Args:
        config: Its ``zookeeper``, ``zookeeper_auth``, ``timeouts``, ``read_limits``.
        options: Further arguments of kazoo's client.
    Raises:
        ConfigError: The cluster has no ZooKeeper address, or one that cannot be used.
    """
    if config.zookeeper is None:
        raise ConfigError(
            f"Cluster {config.name} has no zookeeper.", hint='Set zookeeper = "host:port".'
        )
    auth = config.zookeeper_auth
    try:
        return BoundedClient(
            config,
            auth_data=[("digest", auth.credential())] if auth else None,
            logger=_log,
            read_only=False,
            **options,
        )
    except ValueError as exc:
        raise ConfigError(
            f"zookeeper of cluster {config.name} cannot be used: {exc}.",
            hint="Use the form host:port,host:port/chroot.",
        ) from exc


def connect(client: BoundedClient, wait_s: float, endpoint: str) -> None:
    """Start a client where it never was, and wait until it is connected.

    Args:
        client: From :func:`new_client`.
        wait_s: Timeout.
        endpoint: For the error.

    Raises:
        RemoteError: ZooKeeper cannot be reached, or refuses the session.
    """
    if not client._connection._connection_routine:  # noqa: SLF001  # never started yet
        client.start_async()
    try:
        if client.wait_connected(wait_s):
            return
    except GivenUpError as exc:
        raise translate(exc, endpoint=endpoint, operation="connect") from None
    if client.client_state == "AUTH_FAILED":
        cause = kazoo_errors.AuthFailedError()
        raise translate(cause, endpoint=endpoint, operation="connect") from None
    if (fault := client.fault) is not None:
        raise fault.error(endpoint, "connect")
    raise UnreachableError(
        f"{endpoint} cannot be reached within {wait_s:.0f} s.",
        endpoint=endpoint,
        operation="connect",
        outcome="not_sent",
        hint="Check that ZooKeeper runs and is reachable from this machine.",
    )


class ZooKeeperReader:
    """Reads a cluster's znodes; one capture at a time.

    Args:
        config: Its ``zookeeper``, ``zookeeper_auth``, ``timeouts``.
        on_change: Called (from kazoo's thread) when something watched changed.
    """

    def __init__(self, config: ClusterConfig, on_change: Callable[[], None] | None = None) -> None:
        self.endpoint = f"zookeeper {config.zookeeper}"
        self.failure: RemoteError | None = None
        self.reads = 0
        self.losses = 0
        self._timeouts = config.timeouts
        self._on_change = on_change
        self._budget = config.read_budget
        self._answer_bytes = config.read_limits.zookeeper_bytes
        self._limit_bytes = self._left_bytes = config.read_limits.capture_bytes
        self._deadline = monotonic() + config.timeouts.capture_s
        self._has_multi_read = True
        self._client = new_client(config)
        self._client.add_listener(self._state_changed)

    def _state_changed(self, state: KazooState) -> None:
        if state != KazooState.CONNECTED:
            self.losses += 1  # what was read may be old from now on

    # -- life ---------------------------------------------------------------------------------

    def begin(self, budget: int, capture_s: float) -> None:
        """Begin a capture: connect when needed and reset the budget and the clock.

        Raises:
            RemoteError: ZooKeeper cannot be reached, or refuses the session.
        """
        self._budget = budget
        self._left_bytes = self._limit_bytes
        self._deadline = monotonic() + capture_s
        self.failure = None
        self.reads = 0
        if not self._client.connected:
            connect(self._client, min(self._timeouts.zookeeper_s, capture_s), self.endpoint)
        self.losses = 0

    def close(self) -> None:
        """End the session, within a second; twice is harmless."""
        self._client.remove_listener(self._state_changed)
        self._client.end()

    @property
    def is_connected(self) -> bool:
        """Whether the session is connected."""
        return bool(self._client.connected)

    # -- reading ------------------------------------------------------------------------------

    def watch_children(self, path: str) -> None:
        """Have ``on_change`` called once when a child of ``path`` comes or goes."""
        if self._on_change is not None and self.is_connected:
            self._client.get_children_async(path, watch=self._changed)

    def _changed(self, event: object) -> None:
        del event
        if self._on_change is not None:
            self._on_change()

    def read(
        self, reads: Sequence[ReadOperation], *, expected_bytes: int = 400
    ) -> list[ReadAnswer]:
        """Read many znodes; never raises for one of them.

        Args:
            expected_bytes: Size of one value; the real sizes are learnt while reading.
        Returns:
            One answer a read, in order; an answer's ``error`` is 0, a code of ZooKeeper's, or one
            of :data:`UNREAD`, :data:`OVER_BUDGET`, :data:`BROKE_CONNECTION`. After a failure that
            ended reading, :attr:`failure` says why.
        """
        allowed = max(0, min(len(reads), self._budget))
        self._budget -= allowed
        self.reads += allowed
        answers = [_failed(UNREAD)] * allowed + [_failed(OVER_BUDGET)] * (len(reads) - allowed)
        if self.failure is None and allowed:
            try:
                _Run(self, reads[:allowed], answers, expected_bytes).go()
            except RemoteError as exc:
                self.failure = exc
        return [_without_secrets(answer) for answer in answers]

    def submit(self, reads: Sequence[ReadOperation]) -> Callable[[float], list[ReadAnswer]]:
        """Send one batch; the returned function waits for its answers.

        Raises (when waiting):
            kazoo's exceptions, or ``ValueError`` for an answer that is not in the protocol.
        """
        client = self._client
        if self._has_multi_read:
            result = client.handler.async_result()
            client._call(request_of(reads, client.chroot), result)  # noqa: SLF001  # kazoo's way to send a request type
            return lambda timeout_s: list(result.get(timeout=timeout_s))
        singles = [self._single(read) for read in reads]

        def wait(timeout_s: float) -> list[ReadAnswer]:
            ends_at = monotonic() + timeout_s
            return [single_answer(each, max(ends_at - monotonic(), 0.0)) for each in singles]

        return wait

    def _single(self, read: ReadOperation) -> Any:
        client = self._client
        result = client.handler.async_result()
        kind = GetData if read.kind == GET_DATA else GetChildren
        client._call(kind(f"{client.chroot}{read.path}", None), result)  # noqa: SLF001  # as above, without retries
        return result

    def forget_multi_read(self) -> None:
        """Read one by one from now on: this server knows no MultiRead."""
        self._has_multi_read = False

    def translated(self, exc: BaseException) -> RemoteError:
        """Return our error for one of kazoo's, or for what the server did before it."""
        return translate(exc, endpoint=self.endpoint, operation="read", fault=self._client.fault)

    def bounded(self, answer: ReadAnswer) -> ReadAnswer:
        """Return the answer, or a failure in place of one that would take too much decoded.

        Raises:
            ProtocolError: All answers of the capture take more than they may.
        """
        weight = answer.held_bytes
        if weight > DECODED * self._answer_bytes:
            return _failed(TOO_LARGE)
        self._left_bytes -= weight
        if self._left_bytes < 0:
            raise ProtocolError(
                f"{self.endpoint} returned more than read_limits.capture_mib "
                f"({self._limit_bytes // 2**20} MiB) allows for one capture.",
                endpoint=self.endpoint,
                operation="read",
                outcome="unknown",
                hint="Raise it if the cluster is that large; otherwise check its znodes.",
            )
        return answer

    def wait_connected(self) -> None:
        """Wait until the session is alive again.

        Raises:
            RemoteError: It is not within the time-out.
        """
        left_s = min(self._timeouts.zookeeper_s, self._deadline - monotonic())
        try:
            if self._client.wait_connected(left_s):
                return
        except GivenUpError as exc:
            raise self.translated(exc) from None
        if (fault := self._client.fault) is not None:
            raise fault.error(self.endpoint, "read")
        raise UnreachableError(
            f"The connection to {self.endpoint} was lost and not restored within "
            f"{self._timeouts.zookeeper_s:.0f} s.",
            endpoint=self.endpoint,
            operation="read",
            outcome="unknown",
            hint="Check that ZooKeeper runs and is reachable from this machine.",
        )

    def time_for_one_batch(self) -> float:
        """Return the time limit of a batch.

        Raises:
            RemoteTimeoutError: The capture's time is up.
        """
        left_s = self._deadline - monotonic()
        if left_s <= 0:
            raise RemoteTimeoutError(
                f"Reading {self.endpoint} exceeded the time limit of a capture.",
                endpoint=self.endpoint,
                operation="read",
                outcome="unknown",
                hint="Raise timeouts.capture_s, or lower read_budget.",
            )
        return float(min(left_s, self._timeouts.zookeeper_s))


def _without_secrets(answer: ReadAnswer) -> ReadAnswer:
    value = answer.value
    if isinstance(value, bytes):
        clean: object = redacted(value)
    elif isinstance(value, list):
        clean = [redacted_text(name) for name in value]
        clean = value if clean == value else clean
    else:
        return answer
    return answer if clean is value else answer._replace(value=clean)


def _failed(code: int) -> ReadAnswer:
    return ReadAnswer.without_stat(code)


def single_answer(result: Any, timeout_s: float) -> ReadAnswer:
    """Wait for one of kazoo's asynchronous reads and return it as an :class:`ReadAnswer`.

    Raises:
        kazoo's exceptions for a lost connection; an error of the znode itself is in the answer.
    """
    try:
        value = result.get(timeout=timeout_s)
    except LOST:
        raise
    except kazoo_errors.ZookeeperError as exc:
        return _failed(_SINGLE_CODES.get(type(exc), UNREAD))
    if isinstance(value, list):
        return _without_secrets(ReadAnswer.without_stat(0, value))
    data, stat = value
    return ReadAnswer(
        0,
        redacted(data or b""),
        created_id=stat.czxid,
        changed_id=stat.mzxid,
        created_at=stat.ctime,
        modified_at=stat.mtime,
        version=stat.version,
        session_id=stat.ephemeralOwner,
        child_change_id=stat.pzxid,
    )


class _Run:
    """One call of :meth:`ZooKeeperReader.read`: cut, send, collect, send again."""

    def __init__(
        self,
        reader: ZooKeeperReader,
        reads: Sequence[ReadOperation],
        answers: list[ReadAnswer],
        expected_bytes: int,
    ) -> None:
        self._reader = reader
        self._reads = reads
        self._answers = answers
        self._each_bytes = float(expected_bytes + _STAT_BYTES)
        self._next = 0
        self._again: deque[_Batch] = deque()
        self._flying: deque[tuple[_Batch, Callable[[float], list[ReadAnswer]]]] = deque()
        self._window = _IN_FLIGHT
        self._losses = 0

    def go(self) -> None:
        """Fill the answers.

        Raises:
            RemoteError: Reading had to end early.
        """
        while True:
            while len(self._flying) < self._window and (batch := self._cut()) is not None:
                reads = [self._reads[row] for row in batch.rows]
                self._flying.append((batch, self._reader.submit(reads)))
            if not self._flying:
                return
            self._land(*self._flying.popleft())

    def _cut(self) -> _Batch | None:
        if self._again:
            return self._again.popleft()
        if self._next >= len(self._reads):
            return None
        count = int(min(max(_ANSWER_BYTES / self._each_bytes, 1), _MAX_PER_BATCH))
        first, self._next = self._next, min(self._next + count, len(self._reads))
        return _Batch(list(range(first, self._next)))

    def _land(self, batch: _Batch, wait: Callable[[float], list[ReadAnswer]]) -> None:
        try:
            answers = wait(self._reader.time_for_one_batch())
        except kazoo_errors.UnimplementedError:
            self._reader.forget_multi_read()
            self._again.append(batch)
            return
        except LOST as exc:
            self._lost(batch, exc)
            return
        except ENDED as exc:
            raise self._reader.translated(exc) from exc
        size = 0
        for row, answer in zip(batch.rows, answers, strict=True):
            self._answers[row] = self._reader.bounded(answer)
            size += len(answer.value or ())
        self._each_bytes = max(size / len(batch.rows), 1) + _STAT_BYTES
        self._window = _IN_FLIGHT

    def _lost(self, batch: _Batch, exc: Exception) -> None:
        """Send again what was lost: all of it one by one first, then the culprit in halves."""
        self._losses += 1
        if self._losses > _MAX_LOSSES:
            raise self._reader.translated(exc) from exc
        was_alone = self._window == 1
        self._window = 1
        self._again.extendleft(each for each, _ in reversed(self._flying))
        self._flying.clear()
        batch.losses += was_alone
        if len(batch.rows) > 1 and was_alone:
            middle = len(batch.rows) // 2
            self._again.appendleft(_Batch(batch.rows[middle:]))
            self._again.appendleft(_Batch(batch.rows[:middle]))
        elif batch.losses > 1:
            self._answers[batch.rows[0]] = _failed(BROKE_CONNECTION)
        else:
            self._again.appendleft(batch)
        self._reader.wait_connected()
