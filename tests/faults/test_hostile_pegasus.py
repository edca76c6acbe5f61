"""Meta servers that are not to be trusted: every wait ends, memory, threads, files are bounded."""

from __future__ import annotations

import threading
from contextlib import closing, suppress
from time import monotonic

import hostile_answers
import pytest
from bounded import left_as_it_was, peak_mib
from hostile_answers import PEGASUS, forwards
from hostile_server import HOSTS, HostileServer

from connectors.config.model import DECODED, ClusterConfig
from connectors.pegasus.collect import PegasusCollector
from connectors.pegasus.rpc.client import MetaClient
from connectors.pegasus.rpc.frame import MAX_BYTES
from connectors.transport.deadline import unless
from core.errors import GivenUpError, RemoteError

ANSWER_S = 1.0
PEAK_MIB = DECODED * MAX_BYTES / 2**20 + 300.0
MAX_CONNECTIONS = 60
"""Of one question: a pause comes after every few."""


def ask(address: str, name: str) -> object:
    with closing(MetaClient([address], timeout_s=ANSWER_S)) as meta:
        if "command" in name:
            return meta.send_command("x")
        meta.fetch_nodes()
        return meta.fetch_nodes()  # what followed the first answer comes before the second


@pytest.mark.parametrize("name", PEGASUS)
def test_a_question_ends_in_time_and_within_its_memory(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    others = HOSTS[1:] if "names ever other" in name else ()
    with (
        left_as_it_was(),
        HostileServer(PEGASUS[name], others) as server,
        peak_mib() as peak,
    ):
        monkeypatch.setattr(hostile_answers, "NAMED_PORT", [server.port])
        began = monotonic()
        if name == "answers a command nested deeply":  # a text as good as any other
            assert str(ask(server.address, name)).startswith("[[")
        else:
            with pytest.raises(RemoteError) as caught:
                ask(server.address, name)
            assert caught.value.hint
            assert len(caught.value.message) < 1_000
        took_s = monotonic() - began
    assert took_s < 6 * ANSWER_S  # on a busy machine
    assert peak() < PEAK_MIB
    assert server.connections < MAX_CONNECTIONS


@pytest.mark.parametrize(
    "name", ["accepts and says nothing", "drips a reply", "never leads and names nobody"]
)
def test_a_question_that_is_given_up_ends_within_a_second(name: str) -> None:
    stopped = threading.Event()
    threading.Timer(0.3, stopped.set).start()
    with HostileServer(PEGASUS[name]) as server, unless(stopped.is_set):
        meta = MetaClient([server.address], timeout_s=60.0)
        began = monotonic()
        with closing(meta), pytest.raises(GivenUpError):
            meta.fetch_nodes()
        assert monotonic() - began < 2.3  # a second, and one more on a busy machine


def test_a_follower_without_a_leader_is_asked_a_few_times_a_second() -> None:
    with HostileServer(forwards(lambda: "")) as server:
        with (
            closing(MetaClient([server.address], timeout_s=2.0)) as meta,
            pytest.raises(RemoteError),
        ):
            meta.fetch_nodes()
        assert server.requests <= 2 * 2 * 2.0 / 0.2 + 4


@pytest.mark.parametrize(
    "name",
    [
        "accepts and says nothing",
        *(
            pytest.param(one, marks=pytest.mark.slow)
            for one in PEGASUS
            if not any(word in one for word in ("million", "command", "accepts"))
        ),
    ],
)
def test_fifty_captures_leave_nothing_behind(name: str) -> None:
    others = HOSTS[1:] if "names ever other" in name else ()
    with HostileServer(PEGASUS[name], others) as server:
        timeouts = {"answer_s": 0.03, "capture_s": 0.1}
        meta_servers = [server.address]
        config = ClusterConfig(
            name="x", kind="pegasus", meta_servers=meta_servers, timeouts=timeouts
        )
        collector = PegasusCollector(config)
        for _ in range(3):  # whatever is made once
            with suppress(RemoteError):
                collector.collect()
        with left_as_it_was():
            for _ in range(50):
                with suppress(RemoteError):
                    collector.collect()
        collector.close()
