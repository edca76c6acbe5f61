"""A ZooKeeper that is not to be trusted: every wait ends; memory, threads, files are bounded."""

from __future__ import annotations

import logging
import threading
from contextlib import closing, suppress
from time import monotonic

import pytest
from bounded import left_as_it_was, peak_mib
from hostile_answers import ZOOKEEPER
from hostile_server import HostileServer

from connectors.config.model import ClusterConfig
from connectors.pulsar.collect import PulsarCollector
from connectors.transport.deadline import unless
from connectors.zookeeper.client import ZooKeeperReader
from connectors.zookeeper.multi_read import GET_CHILDREN, GET_DATA, ReadOperation
from connectors.zookeeper.session import ZooKeeperSession
from core.errors import GivenUpError, RemoteError

ANSWER_S, CAPTURE_S = 0.5, 2.0
END_S = 2.0
"""Within which a session ends, whatever the server does: a second, twice that on a busy machine."""
WITHIN_S = 8.0
"""Within which a capture ends there; without bounds some took 11 s, and some had no end."""
PEAK_MIB = 600.0
"""What one capture may take at its peak: four answers on their way, and read_limits.capture_mib."""
READS = [
    ReadOperation(GET_CHILDREN, "/a"),
    *(ReadOperation(GET_DATA, f"/a/{number}") for number in range(5_000)),
]


def config_of(address: str, **changes: object) -> ClusterConfig:
    timeouts = {"zookeeper_s": ANSWER_S, "session_s": 3.0, "capture_s": CAPTURE_S}
    limits = {"capture_mib": 128}
    return ClusterConfig(
        name="hostile", zookeeper=address, timeouts=timeouts, read_limits=limits, **changes
    )


def capture(config: ClusterConfig, reads: list[ReadOperation] = READS) -> RemoteError | None:
    """Read as a capture does; return why it broke off."""
    reader = ZooKeeperReader(config)
    try:
        reader.begin(config.read_budget, CAPTURE_S)
        reader.read(reads[:1])
        reader.read(reads)
    except RemoteError as exc:
        return exc
    finally:
        began = monotonic()
        reader.close()
        assert monotonic() - began < END_S
    return reader.failure


@pytest.mark.parametrize("name", ZOOKEEPER)
def test_a_capture_ends_in_time_and_within_its_memory(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    # pytest keeps what is logged, and with each error the frames that hold an answer
    caplog.set_level(logging.CRITICAL, "trimtab.kazoo")
    with left_as_it_was(), HostileServer(ZOOKEEPER[name]) as server, peak_mib() as peak:
        began = monotonic()
        failure = capture(config_of(server.address))
        took_s = monotonic() - began
    assert failure is not None
    assert failure.hint
    assert server.address in failure.message
    assert took_s < WITHIN_S
    assert peak() < PEAK_MIB


SILENT = "accepts and says nothing", "drips an answer", "connects and answers no request"


@pytest.mark.parametrize(
    "name", [*SILENT, "drips what old servers answer", "hangs up on every request"]
)
def test_a_capture_that_is_given_up_ends_within_a_second(name: str) -> None:
    stopped = threading.Event()
    threading.Timer(0.5, stopped.set).start()
    slow = {"zookeeper_s": 30.0, "session_s": 60.0, "capture_s": 60.0}
    with HostileServer(ZOOKEEPER[name]) as server, unless(stopped.is_set):
        config = config_of(server.address).model_copy(
            update={"timeouts": ClusterConfig(name="x", timeouts=slow, zookeeper="x:1").timeouts}
        )
        failure = capture(config)
        assert stopped.is_set()
        began = monotonic()
        assert isinstance(failure, GivenUpError)
        assert monotonic() - began < END_S


@pytest.mark.parametrize("name", SILENT)
@pytest.mark.parametrize("operation", ["read", "children", "create", "delete"])
def test_a_session_for_actions_ends_in_time_and_when_it_is_given_up(name, operation) -> None:
    def act(session: ZooKeeperSession) -> object:
        match operation:
            case "read":
                return session.read("/a", "/b")
            case "children":
                return session.children("/a")
            case "create":
                return session.create_ephemeral("/a/b", b"x")
            case _:
                return session.delete("/a", 1)

    with HostileServer(ZOOKEEPER[name]) as server:
        session = ZooKeeperSession(config_of(server.address))
        began = monotonic()
        with pytest.raises(RemoteError):
            act(session)
        assert monotonic() - began < 4 * ANSWER_S + END_S
        with pytest.raises(GivenUpError), unless(lambda: True):
            act(session)
        began = monotonic()
        session.close()
        assert monotonic() - began < END_S


CYCLES = 50


@pytest.mark.parametrize(
    "name",
    [
        "accepts and says nothing",
        *(
            pytest.param(one, marks=pytest.mark.slow)
            for one in ZOOKEEPER
            if "every znode" not in one
        ),
    ],
)
def test_fifty_captures_leave_nothing_behind(name: str) -> None:
    timeouts = {"zookeeper_s": 0.02, "session_s": 2.0, "capture_s": 0.1}
    with HostileServer(ZOOKEEPER[name]) as server:
        config = ClusterConfig(name="x", zookeeper=server.address, timeouts=timeouts)

        def capture(times: int) -> None:
            with closing(PulsarCollector(config)) as collector:
                for _ in range(times):
                    with suppress(RemoteError):
                        collector.collect()

        capture(3)  # whatever a process makes once
        with left_as_it_was():
            capture(CYCLES)
