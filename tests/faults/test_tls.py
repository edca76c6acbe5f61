"""TLS and mTLS towards the admin REST, with certificates made on the spot."""

from __future__ import annotations

import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import requests
import urllib3.exceptions as wire

from connectors.config.model import ClusterConfig
from connectors.pulsar.admin.client import AdminClient
from connectors.pulsar.admin.errors import translate
from connectors.pulsar.collect import PulsarCollector
from core.errors import ConfigError, ProtocolError, UnreachableError, UntrustedError

pytestmark = pytest.mark.skipif(
    shutil.which("openssl") is None, reason="openssl, which makes the certificates, is not here"
)
PATH = "/admin/v2/brokers"


def openssl(folder: Path, *arguments: str) -> None:
    subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tls")
    new_key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
    openssl(
        folder, "req", "-x509", *new_key, "-keyout", "ca.key", "-out", "ca.pem",
        "-subj", "/CN=test CA", "-days", "2", "-addext", "keyUsage=critical,keyCertSign",
    )  # fmt: skip
    for name in ("server", "client"):
        openssl(
            folder, "req", *new_key, "-keyout", f"{name}.key", "-out", f"{name}.csr",
            "-subj", f"/CN={name}",
        )  # fmt: skip
        (folder / "names").write_text("subjectAltName=IP:127.0.0.1\n")
        openssl(
            folder, "x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key",
            "-CAcreateserial", "-out", f"{name}.pem", "-days", "2", "-extfile", "names",
        )  # fmt: skip
    return folder


@pytest.fixture
def server(certificates: Path, request: pytest.FixtureRequest) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b'["a:1"]')

        def log_message(self, *args: object) -> None:
            pass

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates / "server.pem", certificates / "server.key")
    if getattr(request, "param", "") == "mutual":
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(certificates / "ca.pem")

    class Quiet(ThreadingHTTPServer):
        def handle_error(self, *args: object) -> None:
            pass  # clients that do not trust us hang up: that is what is tested

    running = Quiet(("127.0.0.1", 0), Handler)
    running.daemon_threads = True
    running.socket = context.wrap_socket(running.socket, server_side=True)
    thread = threading.Thread(target=running.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield f"https://127.0.0.1:{running.server_port}"
    running.shutdown()
    running.server_close()


def ask(url: str, **tls) -> list[str]:
    client = AdminClient(ClusterConfig(name="c", admin_urls=[url], tls=tls))
    try:
        return client.get(url, PATH, list[str])
    finally:
        client.close()


def test_broker_of_a_known_authority_is_trusted(server: str, certificates: Path) -> None:
    assert ask(server, ca_file=certificates / "ca.pem") == ["a:1"]


def test_broker_of_an_unknown_authority_is_refused_as_such(server: str) -> None:
    with pytest.raises(UntrustedError, match="untrusted authority") as refused:
        ask(server)
    assert "ca_file" in refused.value.hint


def test_broker_of_an_unknown_authority_counts_as_alive(server: str) -> None:
    collector = PulsarCollector(ClusterConfig(name="c", admin_urls=[server]))
    try:
        with pytest.raises(UntrustedError):
            collector.collect()
    finally:
        collector.close()


def test_plain_port_and_other_host_names_are_named_as_such(server: str, certificates: Path) -> None:
    by_name = server.replace("127.0.0.1", "localhost")
    with pytest.raises(UntrustedError, match="another host name") as refused:
        ask(by_name, ca_file=certificates / "ca.pem")
    assert "admin_urls" in refused.value.hint
    with socket.create_server(("127.0.0.1", 0)) as plain:

        def speak_http() -> None:
            with plain.accept()[0] as client:
                client.recv(100)
                client.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        thread = threading.Thread(target=speak_http, daemon=True)
        thread.start()
        with pytest.raises(UntrustedError, match="does not use TLS") as refused:
            ask(f"https://127.0.0.1:{plain.getsockname()[1]}")
        thread.join(5)
    assert "http://" in refused.value.hint


def test_certificates_that_are_not_checked_are_a_problem_of_every_snapshot(server: str) -> None:
    assert ask(server, verify=False) == ["a:1"]
    collector = PulsarCollector(ClusterConfig(name="c", admin_urls=[server], tls={"verify": False}))
    try:
        problems = collector.collect().manifest.problems
    finally:
        collector.close()
    assert [each.place for each in problems if each.code == "unverified"] == [server]


@pytest.mark.parametrize("server", ["mutual"], indirect=True)
def test_mutual_tls_shows_our_certificate(server: str, certificates: Path) -> None:
    ours = {
        "ca_file": certificates / "ca.pem",
        "cert_file": certificates / "client.pem",
        "key_file": certificates / "client.key",
    }
    assert ask(server, **ours) == ["a:1"]
    with pytest.raises((UnreachableError, ProtocolError)) as refused:
        ask(server, ca_file=certificates / "ca.pem")
    # TLS 1.3: the server's alert is read, or lost when it resets the connection before that
    assert "TLS" in str(refused.value) or "cert_file" in refused.value.hint


def test_connection_reset_of_a_tls_server_points_to_the_client_certificate() -> None:
    aborted = wire.ProtocolError("Connection aborted.", ConnectionResetError(104, "reset by peer"))
    exc = requests.exceptions.ConnectionError(aborted)
    assert "cert_file" in translate(exc, endpoint="https://b:8443", operation="GET").hint
    assert "cert_file" not in translate(exc, endpoint="http://b:8080", operation="GET").hint


def test_certificate_file_that_is_not_there_is_named(certificates: Path) -> None:
    with pytest.raises(ConfigError, match=r"absent\.pem"):
        ask("https://127.0.0.1:1", ca_file=certificates / "absent.pem")
