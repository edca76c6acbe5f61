"""A web server that means harm costs a bounded time and memory, and leaves nothing behind."""

from __future__ import annotations

import gc
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic

import psutil
import pytest
from hostile_http import BEHAVIOURS, HostileServer

from connectors.alerts import targets
from connectors.config.alerts import TargetConfig
from connectors.config.metrics import Prometheus
from connectors.config.model import ClusterConfig
from connectors.pegasus.http.client import HttpClient
from connectors.pulsar.admin.client import AdminClient
from connectors.pulsar.collect import PulsarCollector
from connectors.pulsar.metrics.scrape import Scraper
from connectors.pulsar.metrics.server import PrometheusServer
from connectors.transport import deadline, http, sockets
from core.errors import (
    GivenUpError,
    ProtocolError,
    RemoteError,
    RemoteTimeoutError,
    UnreachableError,
)
from core.snapshot.problems import ProblemLog

ANSWER_S = 0.4
LATE_S = 2.5
"""A slice of a wait, and what a loaded machine needs."""
GROWTH_MB = 160.0
QUICK = {"connect_s": 0.5, "read_s": 0.5, "answer_s": ANSWER_S, "capture_s": 3.0}
PATH = "/admin/v2/brokers"


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a file with a key and a certificate that signs itself."""
    file = tmp_path_factory.mktemp("tls") / "server.pem"
    words = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=test -days 2"
    made = subprocess.run(
        ["openssl", *words.split(), "-keyout", "-", "-out", "-"], check=True, capture_output=True
    )
    file.write_bytes(made.stdout)
    return file


def config_for(url: str, **changes: object) -> ClusterConfig:
    return ClusterConfig(**{"name": "c", "admin_urls": [url], "timeouts": QUICK, **changes})


@contextmanager
def bounded(within_s: float = ANSWER_S + LATE_S) -> Iterator[None]:
    """Bound the seconds and the memory of a call."""
    gc.collect()
    before, began_s = psutil.Process().memory_info().rss, monotonic()
    yield
    assert monotonic() - began_s <= within_s
    assert (psutil.Process().memory_info().rss - before) / 2**20 <= GROWTH_MB


@pytest.mark.parametrize("name", BEHAVIOURS)
def test_no_answer_holds_the_admin_client_longer_than_one_answer_may_take(name: str) -> None:
    with HostileServer(BEHAVIOURS[name]) as server:
        client = AdminClient(config_for(server.url))
        with bounded(), pytest.raises(RemoteError) as caught:
            client.request("GET", server.url, PATH)
        client.close()
    assert "\n" not in caught.value.message
    assert server.name in caught.value.message


@pytest.mark.parametrize("name", list(BEHAVIOURS)[1::3])
def test_no_answer_holds_the_pegasus_client_longer_than_one_answer_may_take(name: str) -> None:
    with HostileServer(BEHAVIOURS[name]) as server:
        client = HttpClient(server.name, timeout_s=ANSWER_S)
        with bounded(), pytest.raises(RemoteError) as caught:
            client.fetch_version()
        client.close()
    assert server.name in caught.value.message


@pytest.mark.parametrize("name", ["header drips", "100 Continue, fast", "gzip bomb"])
@pytest.mark.parametrize("kind", ["prometheus", "scrape"])
def test_no_answer_holds_the_metrics_of_a_capture(name: str, kind: str) -> None:
    problems = ProblemLog()
    with HostileServer(BEHAVIOURS[name]) as server, bounded():
        if kind == "scrape":
            source = Prometheus(scrape=True, timeout_s=2 * ANSWER_S)
            Scraper(config_for(server.url, read_limits={"bulk_mib": 32}), source).read(
                {"b:1": server.url}, problems
            )
        else:
            source = Prometheus(url=server.url, timeout_s=ANSWER_S)
            PrometheusServer(config_for(server.url), source).read(["b:1"], problems)
    assert server.name in problems.named()[0].place


@pytest.mark.parametrize("name", ["silent", "header drips", "100 Continue, fast"])
def test_no_target_holds_the_alerts(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(targets, "WITHIN_S", 1.5)
    children = set(psutil.Process().children())
    with HostileServer(BEHAVIOURS[name]) as server:
        target = TargetConfig.model_validate({"name": "hook", "url": f"json://{server.name}/x"})
        with bounded(1.5 + LATE_S), pytest.raises(RemoteTimeoutError, match="within 2 s"):
            targets.send(target, "t", "x")
    assert set(psutil.Process().children()) <= children


def test_a_target_is_given_up_when_the_process_ends() -> None:
    stop = threading.Event()
    with HostileServer(BEHAVIOURS["silent"]) as server:
        target = TargetConfig.model_validate({"name": "hook", "url": f"json://{server.name}/x"})
        threading.Timer(0.3, stop.set).start()
        with bounded(0.3 + LATE_S), deadline.unless(stop.is_set), pytest.raises(GivenUpError):
            targets.send(target, "t", "x")


# -- TLS, names, connections ----------------------------------------------------------------------


@pytest.mark.parametrize("step_s", [0.05, 30.0])
def test_a_handshake_without_an_end_is_over_with_its_time(step_s: float) -> None:
    with HostileServer(BEHAVIOURS["silent"], handshake_s=step_s) as server:
        client = AdminClient(config_for(server.url, tls={"verify": False}))
        with bounded(), pytest.raises(RemoteTimeoutError):
            client.request("GET", server.url, PATH)
        client.close()


@pytest.mark.parametrize("name", ["header drips", "chunks drip", "100 Continue, fast"])
def test_an_answer_over_tls_is_over_with_its_time(name: str, certificate: Path) -> None:
    timeouts = {**QUICK, "connect_s": 1.5, "answer_s": 1.5}
    with HostileServer(BEHAVIOURS[name], certificate) as server:
        client = AdminClient(config_for(server.url, tls={"verify": False}, timeouts=timeouts))
        with bounded(1.5 + LATE_S), pytest.raises(RemoteError):
            client.request("GET", server.url, PATH)
        client.close()
        assert server.requests


def test_a_port_that_takes_no_connection_is_over_with_its_time() -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=0) as full:
        port = full.getsockname()[1]
        waiting = []
        for _ in range(3):  # they fill the queue: the next one is not answered
            one = socket.socket()
            one.settimeout(0)
            one.connect_ex(("127.0.0.1", port))
            waiting.append(one)
        url = f"http://127.0.0.1:{port}"
        client = AdminClient(config_for(url))
        with bounded(), pytest.raises(RemoteTimeoutError) as caught:
            client.request("PUT", url, PATH)
        client.close()
        for one in waiting:
            one.close()
    assert caught.value.outcome == "not_sent"


def test_names_whose_lookup_hangs_hold_nobody_and_a_bounded_number_of_threads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real, release = socket.getaddrinfo, threading.Event()

    def hang(host: str, *arguments: object, flags: int = 0, **more: object) -> object:
        if not flags & socket.AI_NUMERICHOST:
            release.wait(10)
        return real(host, *arguments, flags=flags, **more)

    monkeypatch.setattr(socket, "getaddrinfo", hang)
    before = threading.active_count()
    urls = [f"http://b{number}.invalid:8080" for number in range(sockets._MAX_LOOKUPS + 8)]
    client = AdminClient(config_for(urls[0], timeouts={**QUICK, "connect_s": 0.02}))
    client.trust(urls)
    with bounded(len(urls) * 0.1 + LATE_S):
        for url in urls:
            with pytest.raises(RemoteError) as caught:
                client.request("GET", url, PATH)
            assert caught.value.outcome == "not_sent"
    client.close()
    assert threading.active_count() <= before + sockets._MAX_LOOKUPS
    release.set()


# -- retries, redirects ---------------------------------------------------------------------------


def test_repetitions_and_redirects_share_the_time_of_one_answer() -> None:
    def redirect(one: socket.socket) -> None:
        threading.Event().wait(0.4)
        one.sendall(
            b"HTTP/1.1 307 Temporary Redirect\r\nLocation: %s\r\nContent-Length: 0\r\n\r\n"
            % PATH.encode()
        )

    with HostileServer(redirect) as server:
        client = AdminClient(config_for(server.url))
        with bounded(), pytest.raises(RemoteTimeoutError):
            client.request("GET", server.url, PATH)
        client.close()

    def unavailable(one: socket.socket) -> None:
        threading.Event().wait(0.4)
        one.sendall(b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n")

    with HostileServer(unavailable) as server:
        client = AdminClient(config_for(server.url))
        with bounded(), pytest.raises(RemoteTimeoutError):
            client.request("GET", server.url, PATH)
        client.close()


def test_interim_answers_before_an_answer_are_passed_over() -> None:
    def early(one: socket.socket) -> None:
        one.sendall(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n")
        one.sendall(b'HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n["b"]')

    with HostileServer(early) as server:
        client = AdminClient(config_for(server.url))
        for _ in range(3):  # on one connection: nothing of an answer is left for the next one
            assert client.get(server.url, PATH, list[str]) == ["b"]
        client.close()


def test_what_an_unreadable_answer_says_leaves_it_open_whether_the_request_was_executed() -> None:
    def answer(one: socket.socket) -> None:
        digits = b"9" * 5000  # more than Python converts
        one.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: " + digits + b"\r\n\r\n")
        one.shutdown(socket.SHUT_WR)

    with HostileServer(answer) as server:
        client = AdminClient(config_for(server.url))
        with bounded(), pytest.raises(ProtocolError, match="valid HTTP") as caught:
            client.request("PUT", server.url, PATH)
        client.close()
    assert caught.value.outcome == "unknown"


@pytest.mark.parametrize("place", ["http://[::1", "http://h:99999", "http://u:p@127.0.0.1:1"])
def test_a_redirect_to_an_invalid_address_is_named(place: str) -> None:
    def elsewhere(one: socket.socket) -> None:
        head = f"HTTP/1.1 307 Moved\r\nLocation: {place}{PATH}\r\nContent-Length: 0\r\n\r\n"
        one.sendall(head.encode())

    with HostileServer(elsewhere) as server:
        client = AdminClient(config_for(server.url))
        with pytest.raises(ProtocolError, match="to an invalid address"):
            client.request("GET", server.url, PATH)
        client.close()


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_target_that_redirects_gets_no_message_elsewhere(status: int) -> None:
    """Followed, a 302 counts as sent without the message, and a 307 sends it to a stranger."""
    done = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
    with HostileServer(lambda one: one.sendall(done)) as other:

        def elsewhere(one: socket.socket) -> None:
            head = f"HTTP/1.1 {status} x\r\nLocation: {other.url}/y\r\nContent-Length: 0\r\n\r\n"
            one.sendall(head.encode())

        with HostileServer(elsewhere) as server:
            url = f"json://user:s3cr3t@{server.name}/x"
            target = TargetConfig.model_validate({"name": "hook", "url": url})
            with pytest.raises(UnreachableError, match="Target hook redirects to another address"):
                targets.send(target, "t", "x")
            assert (server.requests, other.requests) == (1, 0)


def test_many_long_answers_at_once_share_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    size, go_on, has_begun = 8 * 2**20, threading.Event(), threading.Event()

    def long(one: socket.socket) -> None:
        one.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size)
        one.sendall(b" " * (size - 1))
        is_first = not has_begun.is_set()
        has_begun.set()
        if is_first:
            go_on.wait(20)
        one.sendall(b" ")

    monkeypatch.setattr(http, "_MAX_TOGETHER", size + size // 2)
    with HostileServer(long) as server:
        timeouts = {**QUICK, "answer_s": 20.0, "read_s": 20.0}
        client = AdminClient(config_for(server.url, timeouts=timeouts))
        with deadline.Pool(1) as pool:
            first = pool.submit(client.request, "GET", server.url, PATH)
            has_begun.wait(20)
            wait_until(lambda: http._room._taken > size // 2)
            with pytest.raises(RemoteError, match="too many large answers"):
                client.request("GET", server.url, PATH)
            go_on.set()
            assert len(first.result().body) == size
        assert len(client.request("GET", server.url, PATH).body) == size  # all was given back
        client.close()


# -- what is left ---------------------------------------------------------------------------------


def test_fifty_captures_of_a_server_that_drips_leave_nothing_behind() -> None:
    quick = {**QUICK, "answer_s": 0.05, "read_s": 0.05, "capture_s": 0.2}
    with HostileServer(BEHAVIOURS["header drips"]) as server:
        collector = PulsarCollector(config_for(server.url, timeouts=quick))

        def capture() -> None:
            with pytest.raises(RemoteError):
                collector.collect()

        capture()
        wait_until(lambda: not server.connections)
        threads, descriptors = threads_of_ours(), psutil.Process().num_fds()
        began_s = monotonic()
        for _ in range(50):
            capture()
        assert monotonic() - began_s <= 50 * (0.05 + deadline.SLICE_S)
        assert threads_of_ours() <= threads
        wait_until(lambda: not server.connections)  # it has a descriptor for each of them, too
        assert psutil.Process().num_fds() <= descriptors
        collector.close()


def wait_until(is_true: Callable[[], object], within_s: float = 20.0) -> None:
    pause, ends_s = threading.Event(), monotonic() + within_s
    while not is_true():
        assert monotonic() < ends_s
        pause.wait(0.02)


def threads_of_ours() -> set[str]:
    return {one.name for one in threading.enumerate() if one.name.startswith(("trimtab", "lookup"))}


def test_work_that_is_given_up_ends_at_once_in_all_threads() -> None:
    stop = threading.Event()
    with HostileServer(BEHAVIOURS["header drips"]) as server:
        timeouts = {**QUICK, "answer_s": 30.0, "read_s": 30.0}
        client = AdminClient(config_for(server.url, timeouts=timeouts))

        def ask(_: int) -> str:
            with pytest.raises(GivenUpError) as caught:
                client.request("PUT", server.url, PATH)
            return caught.value.outcome

        with deadline.unless(stop.is_set), deadline.Pool(8) as pool:
            outcomes = pool.map(ask, range(16))
            wait_until(lambda: server.requests == 8)
            with bounded(LATE_S):
                stop.set()
                outcomes = list(outcomes)
        client.close()
    assert outcomes == ["unknown"] * 8 + ["not_sent"] * 8


def test_a_block_that_is_left_by_an_interrupt_waits_for_nothing() -> None:
    with HostileServer(BEHAVIOURS["header drips"]) as server:
        timeouts = {**QUICK, "answer_s": 30.0, "read_s": 30.0}
        client = AdminClient(config_for(server.url, timeouts=timeouts))

        def interrupted() -> None:
            with deadline.Pool(4) as pool:
                for _ in range(8):
                    pool.submit(client.request, "GET", server.url, PATH)
                threading.Event().wait(0.2)
                raise KeyboardInterrupt

        with bounded(LATE_S), pytest.raises(KeyboardInterrupt):
            interrupted()
        client.close()
