"""Who may talk to the pages: raw Host and Origin headers against the server as it is started."""

from __future__ import annotations

import http.client
from collections.abc import Iterator
from pathlib import Path

import pytest
from pages_server import ask, pages_served

ROOT = Path(__file__).parents[2]
START_S = 120.0
PATHS = (
    "/",
    "/_stcore/health",
    "/_stcore/host-config",
    "/_stcore/metrics",
    "/media/none.png",
    "/static/none.js",
    "/component/none",
    "/nowhere/at-all",
)
PROXY = "trimtab.example"


@pytest.fixture(scope="module")
def port(tmp_path_factory) -> Iterator[int]:
    with pages_served(tmp_path_factory.mktemp("pages"), PROXY, "console:3000") as chosen:
        yield chosen


def connect(port: int, host: str, origin: str | None) -> int:
    """Return the status of a WebSocket handshake, as a browser begins one."""
    return ask(
        port,
        "/_stcore/stream",
        host=host,
        origin=origin,
        connection="Upgrade",
        upgrade="websocket",
        sec_websocket_version="13",
        sec_websocket_key="dGhlIHNhbXBsZSBub25jZQ==",
    ).status


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8501", "127.0.0.1.evil.example", "localhost@evil", ""]
)
def test_a_foreign_host_is_refused_on_every_route(port: int, path: str, host: str) -> None:
    answer = ask(port, path, host=host)
    assert answer.status == 403
    assert b"allowed_hosts" in answer.body


def test_a_foreign_host_cannot_upload(port: int) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("PUT", "/_stcore/upload_file/a/b", b"x", {"Host": "evil.example"})
    assert connection.getresponse().status == 403
    connection.close()


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost", "[::1]", "LOCALHOST", PROXY])
def test_loopback_and_configured_hosts_are_served(port: int, name: str) -> None:
    for host in (name, f"{name}:{port}"):
        answer = ask(port, "/", host=host)
        assert answer.status == 200
        assert b"<title>" in answer.body
        assert connect(port, host, f"http://{host}") == 101


@pytest.mark.parametrize(
    "origin",
    [
        "http://evil.example",
        "http://localhost:3000",
        "http://127.0.0.1:3000",
        "http://127.0.0.1",
        "https://trimtab.example:3000",
        "http://trimtab.example.evil.example",
        "http://console",
        "file://127.0.0.1",
        "null",
        "http://[",
        "",
    ],
)
def test_a_page_from_elsewhere_opens_no_websocket_and_reads_nothing(port: int, origin: str) -> None:
    host = f"127.0.0.1:{port}"
    assert connect(port, host, origin) == 403
    assert ask(port, "/_stcore/health", host=host, origin=origin).status == 403


@pytest.mark.parametrize("origin", [f"https://{PROXY}", "http://console:3000"])
def test_an_origin_that_is_configured_is_served_behind_a_proxy(port: int, origin: str) -> None:
    assert connect(port, f"127.0.0.1:{port}", origin) == 101


def test_a_rebound_name_opens_no_websocket(port: int) -> None:
    assert connect(port, "evil.example", "http://evil.example") == 403


@pytest.mark.parametrize("path", PATHS)
def test_no_answer_can_be_framed(port: int, path: str) -> None:
    for host in (f"127.0.0.1:{port}", "evil.example"):
        answer = ask(port, path, host=host)
        assert "frame-ancestors 'none'" in answer.getheader("Content-Security-Policy", "")
        assert answer.getheader("X-Frame-Options") == "DENY"
