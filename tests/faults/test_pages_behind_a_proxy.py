"""Several processes of the pages behind a real nginx, with the documented configuration."""

from __future__ import annotations

import asyncio
import collections
import re
import shutil
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

import psutil
import pytest
import requests
from event_loops import run_apart
from pages_server import free_port, pages_served
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from websockets.asyncio.client import connect

NGINX = shutil.which("nginx") or shutil.which("/usr/sbin/nginx")
DOCUMENTED = Path(__file__).parents[2] / "docs" / "deploy" / "proxy" / "nginx.conf"
HOST = "trimtab.example.com"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(NGINX is None, reason="no nginx is installed"),
]


@dataclass(frozen=True)
class Site:
    """The proxy, and the servers behind it."""

    port: int
    servers: tuple[int, ...]
    log: Path

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    def get(self, path: str, session: requests.Session | None = None) -> requests.Response:
        client = session or requests.Session()
        return client.get(self.url + path, headers={"Host": HOST}, verify=False, timeout=30)

    def served_by(self) -> list[int]:
        """Ports of the servers that answered, in order."""
        return [int(port) for port in re.findall(r"127\.0\.0\.1:(\d+)\n", self.log.read_text())]


def configuration(folder: Path, servers: tuple[int, ...], port: int) -> str:
    """The documented file, with this machine's ports and certificate."""
    text = DOCUMENTED.read_text()
    lines = "\n".join(f"    server 127.0.0.1:{one} max_fails=1 fail_timeout=5s;" for one in servers)
    text = re.sub(r"    server pages:8501.*\n    # server pages-2.*", lines, text)
    text = text.replace("listen 443 ssl", f"listen 127.0.0.1:{port} ssl")
    text = text.replace("/etc/nginx/tls/trimtab", str(folder / "trimtab"))
    return (
        f"pid {folder}/nginx.pid;\nerror_log {folder}/error.log;\ndaemon off;\n"
        "events {}\nhttp {\n"
        "log_format who '$request_uri $upstream_addr';\n"
        f"access_log {folder}/access.log who;\n{text}\n}}\n"
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("proxy")
    key = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1"]
    key += ["-subj", f"/CN={HOST}", "-keyout", f"{folder}/trimtab.key"]
    subprocess.run([*key, "-out", f"{folder}/trimtab.pem"], check=True, capture_output=True)
    config = folder / "trimtab.toml"
    config.write_text(f'state_dir = "{folder / "state"}"\n[pages]\nallowed_hosts = ["{HOST}"]\n')
    with ExitStack() as stack:
        servers = []
        for number in range(2):
            own = folder / f"server{number}"
            own.mkdir()
            servers.append(stack.enter_context(pages_served(own, HOST, config=config)))
        made = Site(free_port(), tuple(servers), folder / "access.log")
        file = folder / "nginx.conf"
        file.write_text(configuration(folder, made.servers, made.port))
        process = subprocess.Popen([str(NGINX), "-c", str(file), "-p", str(folder)])
        stack.callback(process.wait, 20)
        stack.callback(process.terminate)
        until = monotonic() + 30
        while True:
            try:
                made.get("/healthz")
                break
            except requests.ConnectionError:
                assert monotonic() < until
                threading.Event().wait(0.1)
        yield made


pytestmark.append(pytest.mark.filterwarnings("ignore:Unverified HTTPS request"))


async def _page(site: Site, cookie: str) -> str:
    """Open the first page over the WebSocket, as a browser does; return its title."""

    trust = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    trust.check_hostname, trust.verify_mode = False, ssl.CERT_NONE
    async with connect(
        f"wss://{HOST}/_stcore/stream",
        host="127.0.0.1",
        port=site.port,
        ssl=trust,
        subprotocols=["streamlit"],
        origin=f"https://{HOST}",
        additional_headers={"Cookie": f"trimtab_at={cookie}"},
        max_size=None,
    ) as socket:
        request = BackMsg()
        request.rerun_script.query_string = ""
        await socket.send(request.SerializeToString())
        title = ""
        while True:
            message = ForwardMsg.FromString(await asyncio.wait_for(socket.recv(decode=False), 60))
            if message.HasField("page_config_changed"):
                title = message.page_config_changed.title or title
            if message.HasField("script_finished"):
                assert message.script_finished == ForwardMsg.FINISHED_SUCCESSFULLY
                return title


def test_a_browser_stays_on_its_process_and_many_are_spread(site):
    seen = collections.Counter()
    for _ in range(12):
        browser = requests.Session()
        first = len(site.served_by())
        site.get("/healthz", browser)
        cookie = browser.cookies.get("trimtab_at")
        assert cookie
        for _ in range(4):
            answer = browser.get(
                site.url + "/_stcore/health",
                headers={"Host": HOST, "Cookie": f"trimtab_at={cookie}"},
                verify=False,
                timeout=30,
            )
            assert answer.status_code == 200
            assert "trimtab_at" not in answer.headers.get("Set-Cookie", "")
        wait_for_lines(site, first + 5)
        assert len(set(site.served_by()[first:])) == 1
        seen[site.served_by()[-1]] += 1
    assert set(seen) == set(site.servers)


def wait_for_lines(site: Site, count: int) -> None:
    until = monotonic() + 10
    while len(site.served_by()) < count:
        assert monotonic() < until
        threading.Event().wait(0.05)


def test_the_cookie_is_for_this_site_over_tls_only(site):
    cookie = site.get("/healthz").headers["Set-Cookie"]
    assert all(word in cookie for word in ("HttpOnly", "Secure", "SameSite=Lax"))


def test_metrics_are_not_served_to_the_outside(site):
    assert site.get("/metrics").status_code == 403


def test_a_page_is_served_over_the_websocket(site):
    assert "Trimtab" in run_apart(_page(site, "a" * 32))


def test_browsers_of_a_killed_process_go_on_at_another_one(site):
    browser = requests.Session()
    site.get("/healthz", browser)
    cookie = str(browser.cookies.get("trimtab_at"))
    wait_for_lines(site, 1)
    mine = site.served_by()[-1]
    victim = next(
        one
        for one in psutil.Process().children(recursive=True)
        if "dashboard.serve" in " ".join(one.cmdline()) and str(mine) in one.cmdline()
    )
    victim.kill()
    for _ in range(3):
        assert site.get("/healthz", browser).status_code == 200
    assert "Trimtab" in run_apart(_page(site, cookie))
    assert site.served_by()[-1] != mine
